// The whole ascent of EUBO, one warp a start: acquisition/eubo.py in one launch. A block is one run, or a share of its
// starts; what the posterior is made of is held once for all of them. Anchored says that the second point is the run's
// anchor, Improvement which variant it is.
using Anchored = NUMBER(ANCHORED);
using Improvement = NUMBER(IMPROVEMENT);

struct Eubo {
    Near<Dimension> near;
    Anchored anchored;
    Improvement improvement;
    double outputscale, least_variance;
    // Shared by the run: length scales and anchor. The warp's own: both points in units of the length scales.
    const double *lengthscale, *anchor;
    double* Z;

    METHOD int moving() const { return anchored ? int(near.d) : 2 * near.d; }

    METHOD double* place(double* memory) {
        Z = memory;
        return near.place(Z + 2 * near.d);
    }

    METHOD double operator()(const double* x, double* gradient) const {
        const int d = near.d;
        for (int e = lane(); e < 2 * d; e += WARP) {
            const double coordinate = e < moving() ? x[e] : anchor[e - d];
            Z[e] = (coordinate - 0.5) / lengthscale[e % d];
        }
        sync_warp();
        near.look(Z);
        double own, own_slope, distance = 0.0;
        for (int c = lane(); c < d; c += WARP) distance += (Z[c] - Z[d + c]) * (Z[c] - Z[d + c]);
        profile(near.matern, -0.5 * lane_sum(distance), own, own_slope);
        const double mean_b = near.known();
        double squares = 0.0;
        for (int c = 1 + lane(); c < near.columns; c += WARP) squares += near.du[c] * near.du[c];
        const double variance = 2.0 * outputscale * (1.0 - own) - lane_sum(squares);
        const double spread = sqrt(larger(variance, outputscale * least_variance));
        const double delta = near.du[0], ratio = delta / spread, share = cdf(ratio), height = density(ratio);
        const double pull = height / spread;
        weigh(share, pull);
        collect(pull * outputscale * own_slope, gradient);
        const double value = delta * share + spread * height;
        return -(improvement ? value : value + mean_b);
    }

    // The derivatives of EUBO in k(x_a, X) and k(x_b, X) times the kernel's slope, in place of the slopes.
    METHOD void weigh(double share, double pull) const {
        near.pass();
        for (int i = lane(); i < near.n; i += WARP) {
            const double beta = near.weights[i * near.ld_w];
            const double T_a = share * beta - pull * near.along(i);
            const double T_b = improvement ? -T_a : beta - T_a;
            near.slope_a[i] *= T_a, near.slope_b[i] *= T_b;
        }
        sync_warp();
    }

    // Minus the gradient in the coordinates that move.
    METHOD void collect(double apart, double* gradient) const {
        const int d = near.d;
        for (int e = lane(); e < moving(); e += WARP) {
            const int c = e % d;
            const double sum = near.moment(e < d ? near.slope_a : near.slope_b, c, Z[e]);
            const double step = apart * (Z[c] - Z[d + c]);
            gradient[e] = -(sum + (e < d ? step : -step)) / lengthscale[c];
        }
        sync_warp();
    }
};

KERNEL eubo(const double* lengthscale, const double* outputscale, const double* X, const double* weights,
            const double* anchor, const double* start, const double* low, const double* high, double* x, double* value,
            double* gradient, int* ended, int n, int columns, int d, int matern, int anchored, int improvement,
            int starts, int shares, int box_stride, double least_variance, double small, double decrease,
            double longest, double sufficient, double shortest, int rounds) {
    SHARED(memory);
    const int run = block_index() / shares, share = block_index() % shares, warps = thread_count() / WARP;
    const Dimension dimension = d;
    Eubo objective;
    objective.anchored = anchored, objective.improvement = improvement;
    objective.near.d = dimension, objective.near.matern = matern, objective.near.n = n, objective.near.columns = columns;
    double* scales = objective.near.hold(memory, X + (long long)run * n * dimension, weights + (long long)run * n * columns);
    double* fixed = scales + dimension;
    for (int c = thread_index(); c < dimension; c += thread_count()) {
        scales[c] = lengthscale[run * dimension + c];
        if (objective.anchored) fixed[c] = anchor[run * dimension + c];
    }
    sync_block();
    const int warp = thread_index() / WARP, first = share * warps + warp, p = objective.moving();
    if (first >= starts) return;
    const long long at = (long long)run * starts + first;
    objective.outputscale = outputscale[run], objective.least_variance = least_variance;
    objective.lengthscale = scales, objective.anchor = fixed;
    const int own = 2 * dimension + Near<Dimension>::own_size(matern, n, columns) + 10 * p + p * p;
    Row row;
    row.place(objective.place(fixed + dimension + warp * own), p);
    row.low = low + at * box_stride, row.high = high + at * box_stride;
    for (int j = lane(); j < p; j += WARP) row.x[j] = start[at * p + j];
    const Limits limits = {small, decrease, longest, sufficient, shortest, rounds};
    const Ended end = descend<Warp>(objective, row, limits);
    for (int j = lane(); j < p; j += WARP) x[at * p + j] = row.x[j], gradient[at * p + j] = row.g[j];
    if (lane() == 0) {
        value[at] = end.value;
        ended[3 * at] = end.converged, ended[3 * at + 1] = end.rounds, ended[3 * at + 2] = end.rounds;
    }
}
