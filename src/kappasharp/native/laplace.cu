// The MAP at hyperparameters that are known and what its posterior needs, one thread block a run: inference/laplace.py and
// inference/comparison_space.py.
constexpr double LEAST_VARIANCE = 2.2250738585072014e-308, FAINT = 1e-2;

// Column i of the inverse of L, whose entry j lies at i down + j across.
struct Columns {
    const double* at;
    int down, across;
    METHOD double entry(int i, int j) const { return at[i * down + j * across]; }
};

struct Conditioning : Newton {
    double *pivots, *own;
    const double *nodes, *shares;
    int count;

    METHOD double* place(double* memory) {
        own = Newton::place(M.place(memory)), pivots = own + M.m, spare = pivots + M.room();
        return spare;
    }

    // Omega averaged over the posterior of every difference, that with the last average: in root its root.
    METHOD void average(int rounds) {
        const int m = M.m;
        for (int round = 0; round < rounds; round++) {
            for (int i = thread_index(); i < m; i += thread_count()) own[i] = entry_a(M, i);
            if (round > 0) variances();
            for (int i = thread_index(); i < m; i += thread_count()) {
                const double spread = sqrt(own[i] > LEAST_VARIANCE ? own[i] : LEAST_VARIANCE);
                const double mean = likelihood.average(i, z[i], spread, nodes, shares, count);
                omega[i] = round > 0 ? sqrt(omega[i] * mean) : mean;
                root[i] = sqrt(omega[i]);
            }
            sync_block();
        }
    }

    // The posterior variance of every difference to `own`. Omega times it is 1 - (1/B)_pp, unless omega is so faint that
    // the difference has lost its digits.
    METHOD void variances() {
        const int m = M.m;
        build(M, root);
        sync_block();
        inverse_diagonal(M, pivots, spare, work);
        for (int p = 0; p < m; p++) {
            // All threads of the block see the same.
            if (!(omega[p] * entry_a(M, p) < FAINT)) continue;
            for (int j = thread_index(); j < m; j += thread_count()) target[j] = root[j] * either_a(M, p, j);
            sync_block();
            solve(M, pivots, target, pull);
            double explained = 0.0;
            for (int j = lane(); j < m; j += WARP) explained += target[j] * pull[j];
            explained = lane_sum(explained);
            if (thread_index() == 0) own[p] = entry_a(M, p) - explained;
            sync_block();
        }
        for (int i = thread_index(); i < m; i += thread_count()) {
            if (!(omega[i] * entry_a(M, i) < FAINT)) own[i] = (1.0 - work[i]) / omega[i];
        }
        sync_block();
    }

    // log Z at the MAP, whose exact omega and root are left.
    METHOD double finish() {
        for (int i = thread_index(); i < M.m; i += thread_count()) {
            double log_slope;
            likelihood.curve(i, z[i], omega[i], log_slope);
            root[i] = sqrt(omega[i]);
            target[i] = likelihood.log_probability(i, z[i]) - 0.5 * alpha[i] * z[i];
        }
        sync_block();
        build(M, root);
        sync_block();
        factor(M, spare);
        double value = 0.0;
        for (int i = lane(); i < M.m; i += WARP) value += target[i] + log(inverse_of_diagonal(M, spare, i));
        value = lane_sum(value);
        sync_block();
        return value;
    }

    // C' of the rows of (1/L) root, what the covariance of designs lost: n x m, a column a thread. A device has room
    // for 1/L in `half`, m x m.
    METHOD void spread_root(const int* pairs, const double* weight, double* half, double* out, int n, double scale) {
        const int m = M.m;
        build(M, root);
        sync_block();
        factor(M, spare);
        Columns columns = {half, m, 1};
        inverse_columns(M, spare, half, columns.at, columns.down, columns.across);
        for (int p = 0; p < n; p++) {
            for (int j = thread_index(); j < m; j += thread_count()) out[p * m + j] = 0.0;
        }
        for (int i = 0; i < m; i++) {
            double *won = out + pairs[2 * i] * m, *lost = out + pairs[2 * i + 1] * m;
            const double times = root[i] / scale * (weight ? weight[i] : 1.0);
            VECTORS for (int j = thread_index(); j < m; j += thread_count()) {
                won[j] += times * columns.entry(i, j);
                lost[j] -= times * columns.entry(i, j);
            }
        }
        sync_block();
    }
};

KERNEL laplace(const double* gram, const double* start, const int* pairs, const double* weight, const double* between,
               const double* middle, const double* bound, const double* time, const double* legendre, const double* nodes,
               const double* shares, double* alpha, double* z, double* omega, double* value, double* left, int* ended,
               double* half, double* out, int m, int n, int count, int rounds, int graded, int weighted, int searching,
               double scale, double margin, double tolerance, int plain, int damped) {
    SHARED(memory);
    const long long at = block_index();
    Conditioning run;
    run.M.m = m;
    run.place(memory);
    run.nodes = nodes, run.shares = shares, run.count = count;
    run.likelihood = {graded, margin, between + at * m, middle + at * m, bound + at * m, time + at * m, legendre};
    run.tolerance = tolerance, run.plain = plain, run.damped = damped;
    hold(run.M, gram + at * m * m, 1.0 / (scale * scale));
    for (int i = thread_index(); i < m; i += thread_count()) run.kept[i] = run.z[i] = start[at * m + i];
    sync_block();
    if (searching) {
        const bool settled = run.find_map();
        const double off = run.off();
        const double log_evidence = run.finish();
        for (int i = thread_index(); i < m; i += thread_count()) alpha[at * m + i] = run.alpha[i], z[at * m + i] = run.z[i];
        if (thread_index() == 0) {
            value[at] = log_evidence, left[at] = off, ended[2 * at] = settled, ended[2 * at + 1] = run.steps;
        }
    }
    run.average(rounds);
    if (n > 0) {
        const double* weights = weighted ? weight + at * m : nullptr;
        run.spread_root(pairs + at * 2 * m, weights, half + at * m * m, out + at * n * m, n, scale);
    }
    for (int i = thread_index(); i < m; i += thread_count()) omega[at * m + i] = run.omega[i];
}
