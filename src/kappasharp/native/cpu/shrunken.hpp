// The MAP of one run with a correction, from the plain prior: inference/laplace.py, find_map. (A device has torch for what is
// beside the MAP.) With B = I + root K root = L L', root that of the correction, and X = C K root:
//   C K_r C' = C K C' - (X / L') (X / L')' and K_r = K - K root (1/B) root K.
struct Shrunken : Newton {
    // B, of which only the factor is needed; what it is solved with beside.
    Matrices B;
    double *inverse, *taken, *own, *felt;
    const double *K, *root_r;
    const int* pairs;

    METHOD double* place(double* memory, int m, int n) {
        M.m = m, B.m = n, B.ld = Matrices::stride(n), B.A = B.U = M.place(memory);
        inverse = B.U + n * B.ld, taken = inverse + 2 * B.ld, own = taken + n * M.ld, felt = own + n;
        spare = Newton::place(felt + n);
        return spare;
    }

    METHOD void factor_b() {
        for (int j = 0; j < B.m; j++) {
            const double *from = K + j * B.m, times = root_r[j];
            fill_row(B, j, [=](int i) { return times * from[i] * root_r[i]; });
            B.U[j * B.ld + j] += 1.0;
        }
        factor(B, inverse);
    }

    // X' over L to `taken`, n x m.
    METHOD void take() {
        for (int k = 0; k < B.m; k++) {
            const double *from = K + k * B.m, times = root_r[k];
            double* to = taken + k * M.ld;
            for (int i = 0; i < M.m; i++) to[i] = times * (from[pairs[2 * i]] - from[pairs[2 * i + 1]]);
            std::fill(to + M.m, to + M.ld, 0.0);
        }
        for (int block = 0; block < B.m; block += PANEL) {
            Corner corner;
            corner.read(B.U + block * B.ld + block, B.rows_from(block), B.ld, inverse + block);
            by_tiles(
                0, last(), [&](int at) { take_tile<ABREAST>(corner, block, at); },
                [&](int at) { take_tile<1>(corner, block, at); });
        }
    }

    METHOD int last() const { return (M.m + PANEL - 1) / PANEL * PANEL; }

    template <int WIDTH>
    METHOD void take_tile(const Corner& corner, int block, int at) {
        Tile<WIDTH> tile;
        double* here = taken + block * M.ld + at;
        tile.read(here, B.rows_from(block), M.ld);
        tile.subtract(B.U + block, taken + at, block, B.ld, M.ld);
        corner.settle(tile);
        tile.write(here, B.rows_from(block), M.ld);
    }

    // A = (C K C' - taken' taken) per_variance.
    METHOD void shrink(const double* gram, double per_variance) {
        for (int i = 0; i < M.m; i++) {
            std::copy(gram + i * M.m, gram + (i + 1) * M.m, M.A + i * M.ld);
            std::fill(M.A + i * M.ld + M.m, M.A + (i + 1) * M.ld, 0.0);
        }
        for (int block = 0; block < M.m; block += PANEL) {
            by_tiles(
                0, last(), [&](int at) { shrink_tile<ABREAST>(block, at); }, [&](int at) { shrink_tile<1>(block, at); });
        }
        for (int e = 0; e < M.m * M.ld; e++) M.A[e] *= per_variance;
    }

    template <int WIDTH>
    METHOD void shrink_tile(int block, int at) {
        Tile<WIDTH> tile;
        double* here = M.A + block * M.ld + at;
        tile.read(here, M.rows_from(block), M.ld);
        tile.subtract(taken + block, taken + at, B.m, M.ld, M.ld);
        tile.write(here, M.rows_from(block), M.ld);
    }

    METHOD void times_K(const double* v, double* w) const {
        for (int i = 0; i < B.m; i++) w[i] = dot(K + i * B.m, v, B.m);
    }

    // K's inverse times the MAP to `beta`, the MAP to f.
    METHOD void finish(double scale, double* beta, double* f) {
        const int n = B.m;
        std::fill(beta, beta + n, 0.0);
        for (int i = 0; i < M.m; i++) beta[pairs[2 * i]] += alpha[i] / scale, beta[pairs[2 * i + 1]] -= alpha[i] / scale;
        times_K(beta, own);
        for (int i = 0; i < n; i++) own[i] *= root_r[i];
        solve(B, inverse, own, felt);
        for (int i = 0; i < n; i++) beta[i] -= root_r[i] * felt[i];
        times_K(beta, f);
    }
};

KERNEL shrunken(const double* K, const double* root, const double* gram, const double* start, const int* pairs,
                const double* between, const double* middle, const double* bound, const double* time,
                const double* legendre, double* alpha, double* z, double* left, int* ended, double* beta, double* f, int m,
                int n, int graded, double scale, double margin, double tolerance, int plain, int damped) {
    SHARED(memory);
    const long long at = block_index();
    Shrunken run;
    run.place(memory, m, n);
    run.K = K + at * n * n, run.root_r = root + at * n, run.pairs = pairs + at * 2 * m;
    run.likelihood = {graded, margin, between + at * m, middle + at * m, bound + at * m, time + at * m, legendre};
    run.tolerance = tolerance, run.plain = plain, run.damped = damped;
    run.factor_b();
    run.take();
    run.shrink(gram + at * m * m, 1.0 / (scale * scale));
    std::copy(start + at * m, start + (at + 1) * m, run.kept);
    ended[2 * at] = run.find_map(), ended[2 * at + 1] = run.steps, left[at] = run.off();
    std::copy(run.alpha, run.alpha + m, alpha + at * m);
    std::copy(run.z, run.z + m, z + at * m);
    run.finish(scale, beta + at * n, f + at * n);
}
