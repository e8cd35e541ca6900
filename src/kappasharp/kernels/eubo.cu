// The whole ascent of EUBO, one warp a start: acquisition/eubo.py in one launch. A block is one run, or a share of its
// starts; what the posterior is made of lies in shared memory once for all of them. DIMENSION is d, MATERN the
// kernel's family, ANCHORED whether the second point is the run's anchor, IMPROVEMENT the variant.
constexpr int D = DIMENSION;
constexpr int MOVING = ANCHORED ? D : 2 * D;
constexpr int SLOPES = MATERN ? 4 : 2;

struct Eubo {
    int n, columns, ld_x, ld_w;
    double outputscale, least_variance;
    // Shared by the run: X (D x n), weights (n x columns), length scales (D), anchor (D). By the warp: the others.
    const double *X, *weights, *lengthscale, *anchor;
    double *Z, *near_a, *near_b, *slope_a, *slope_b, *du;

    METHOD double* place(double* memory) {
        Z = memory, near_a = Z + 2 * D, near_b = near_a + n;
        slope_a = MATERN ? near_b + n : near_a, slope_b = MATERN ? slope_a + n : near_b;
        du = near_a + SLOPES * n;
        return du + columns;
    }

    METHOD double operator()(const double* x, double* gradient) {
        for (int e = lane(); e < 2 * D; e += WARP) {
            const double coordinate = e < MOVING ? x[e] : anchor[e - D];
            Z[e] = (coordinate - 0.5) / lengthscale[e % D];
        }
        sync_warp();
        near();
        double own, own_slope, distance = 0.0;
        for (int c = lane(); c < D; c += WARP) distance += (Z[c] - Z[D + c]) * (Z[c] - Z[D + c]);
        profile(-0.5 * lane_sum(distance), own, own_slope);
        const double mean_b = known();
        double squares = 0.0;
        for (int c = 1 + lane(); c < columns; c += WARP) squares += du[c] * du[c];
        const double variance = 2.0 * outputscale * (1.0 - own) - lane_sum(squares);
        const double spread = sqrt(larger(variance, outputscale * least_variance));
        const double delta = du[0], ratio = delta / spread, share = cdf(ratio), height = density(ratio);
        const double pull = height / spread;
        weigh(share, pull);
        collect(pull * outputscale * own_slope, gradient);
        const double value = delta * share + spread * height;
        return -(IMPROVEMENT ? value : value + mean_b);
    }

    // k and its slope between the two points and all training points.
    METHOD void near() {
        for (int i = lane(); i < n; i += WARP) {
            double h_a = 0.0, h_b = 0.0;
            UNROLL for (int c = 0; c < D; c++) {
                const double x = X[c * ld_x + i], a = x - Z[c], b = x - Z[D + c];
                h_a += a * a, h_b += b * b;
            }
            double value, slope;
            profile(-0.5 * h_a, value, slope);
            near_a[i] = value, slope_a[i] = slope;
            profile(-0.5 * h_b, value, slope);
            near_b[i] = value, slope_b[i] = slope;
        }
        sync_warp();
    }

    // The difference of the known parts in du, the means' first; returns the second point's mean.
    METHOD double known() {
        for (int c = lane(); c < columns; c += WARP) {
            double even = 0.0, odd = 0.0;
            int i = 0;
            for (; i + 1 < n; i += 2) {
                even += (near_a[i] - near_b[i]) * weights[i * ld_w + c];
                odd += (near_a[i + 1] - near_b[i + 1]) * weights[(i + 1) * ld_w + c];
            }
            if (i < n) even += (near_a[i] - near_b[i]) * weights[i * ld_w + c];
            du[c] = even + odd;
        }
        double mean = 0.0;
        for (int i = lane(); i < n; i += WARP) mean += near_b[i] * weights[i * ld_w];
        mean = lane_sum(mean);
        sync_warp();
        return mean;
    }

    // The derivatives of EUBO in k(x_a, X) and k(x_b, X) times the kernel's slope, in place of the slopes.
    METHOD void weigh(double share, double pull) {
        for (int i = lane(); i < n; i += WARP) {
            const double* w = weights + i * ld_w;
            double even = 0.0, odd = 0.0;
            int c = 1;
            for (; c + 1 < columns; c += 2) even += du[c] * w[c], odd += du[c + 1] * w[c + 1];
            if (c < columns) even += du[c] * w[c];
            const double T_a = share * w[0] - pull * (even + odd);
            const double T_b = IMPROVEMENT ? -T_a : w[0] - T_a;
            slope_a[i] *= T_a, slope_b[i] *= T_b;
        }
        sync_warp();
    }

    // Minus the gradient in the coordinates that move.
    METHOD void collect(double apart, double* gradient) {
        for (int e = lane(); e < MOVING; e += WARP) {
            const int c = e % D;
            const double* T = e < D ? slope_a : slope_b;
            const double at = Z[e];
            double even = 0.0, odd = 0.0;
            int i = 0;
            for (; i + 1 < n; i += 2) {
                even += T[i] * (X[c * ld_x + i] - at);
                odd += T[i + 1] * (X[c * ld_x + i + 1] - at);
            }
            if (i < n) even += T[i] * (X[c * ld_x + i] - at);
            const double step = apart * (Z[c] - Z[D + c]);
            gradient[e] = -(even + odd + (e < D ? step : -step)) / lengthscale[c];
        }
        sync_warp();
    }
};

KERNEL eubo(const double* lengthscale, const double* outputscale, const double* X, const double* weights,
            const double* anchor, const double* start, const double* low, const double* high, double* x, double* value,
            double* gradient, int* ended, int n, int columns, int starts, int shares, int box_stride,
            double least_variance, double small, double decrease, double longest, double sufficient, double shortest,
            int rounds) {
    SHARED(memory);
    const int run = block_index() / shares, share = block_index() % shares, warps = thread_count() / WARP;
    const int ld_x = n | 1, ld_w = columns | 1;
    double *points = memory, *table = points + D * ld_x, *scales = table + n * ld_w, *fixed = scales + D;
    const double* source = X + (long long)run * n * D;
    for (int e = thread_index(); e < n * D; e += thread_count()) points[e % D * ld_x + e / D] = source[e];
    source = weights + (long long)run * n * columns;
    for (int e = thread_index(); e < n * columns; e += thread_count()) table[e / columns * ld_w + e % columns] = source[e];
    for (int c = thread_index(); c < D; c += thread_count()) {
        scales[c] = lengthscale[run * D + c];
        if (ANCHORED) fixed[c] = anchor[run * D + c];
    }
    sync_block();
    const int warp = thread_index() / WARP, first = share * warps + warp;
    if (first >= starts) return;
    const long long at = (long long)run * starts + first;
    Eubo objective;
    objective.n = n, objective.columns = columns, objective.ld_x = ld_x, objective.ld_w = ld_w;
    objective.outputscale = outputscale[run], objective.least_variance = least_variance;
    objective.X = points, objective.weights = table, objective.lengthscale = scales, objective.anchor = fixed;
    const int own = 2 * D + SLOPES * n + columns + 10 * MOVING + MOVING * MOVING;
    Row row;
    row.place(objective.place(fixed + D + warp * own), MOVING);
    row.low = low + at * box_stride, row.high = high + at * box_stride;
    for (int j = lane(); j < MOVING; j += WARP) row.x[j] = start[at * MOVING + j];
    const Limits limits = {small, decrease, longest, sufficient, shortest, rounds};
    const Ended end = descend<Warp>(objective, row, limits);
    for (int j = lane(); j < MOVING; j += WARP) x[at * MOVING + j] = row.x[j], gradient[at * MOVING + j] = row.g[j];
    if (lane() == 0) {
        value[at] = end.value;
        ended[3 * at] = end.converged, ended[3 * at + 1] = end.rounds, ended[3 * at + 2] = end.rounds;
    }
}
