// How EUBO sees the training points, by one warp: what is shared by a run's starts, and each start's own vectors.
using Dimension = NUMBER(DIMENSION);

// The vectors of n training points that a start has: k to both points, its slopes, which are k itself unless Matern's.
template <class Size>
struct Near {
    Size d;
    Matern matern;
    int n, columns, ld_x, ld_w;
    // X (d x n) and weights (n x columns), in memory that the run shares.
    const double *X, *weights;
    double *near_a, *near_b, *slope_a, *slope_b, *du;


    // The run's points and weights, copied by its block.
    METHOD double* hold(double* memory, const double* points, const double* table) {
        ld_x = n | 1, ld_w = columns | 1;
        double *to_points = memory, *to_table = to_points + d * ld_x;
        for (int e = thread_index(); e < n * d; e += thread_count()) to_points[e % d * ld_x + e / d] = points[e];
        for (int e = thread_index(); e < n * columns; e += thread_count())
            to_table[e / columns * ld_w + e % columns] = table[e];
        X = to_points, weights = to_table;
        return to_table + n * ld_w;
    }

    METHOD double* place(double* memory) {
        near_a = memory, near_b = near_a + n;
        slope_a = matern ? near_b + n : near_a, slope_b = matern ? slope_a + n : near_b;
        du = near_a + (matern ? 4 : 2) * n;
        return du + columns;
    }

    METHOD static int own_size(Matern matern, int n, int columns) { return (matern ? 4 : 2) * n + columns; }

    // k and its slope between the two points of Z, in units of the length scales, and all training points.
    METHOD void look(const double* Z) const {
        for (int i = lane(); i < n; i += WARP) {
            double h_a = 0.0, h_b = 0.0;
            UNROLL for (int c = 0; c < d; c++) {
                const double x = X[c * ld_x + i], a = x - Z[c], b = x - Z[d + c];
                h_a += a * a, h_b += b * b;
            }
            double value, slope;
            profile(matern, -0.5 * h_a, value, slope);
            near_a[i] = value, slope_a[i] = slope;
            profile(matern, -0.5 * h_b, value, slope);
            near_b[i] = value, slope_b[i] = slope;
        }
        sync_warp();
    }

    // The difference of the known parts in du, the means' first; returns the second point's mean.
    METHOD double known() const {
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

    METHOD void pass() const {}

    // The sum over c > 0 of du_c weights_ic.
    METHOD double along(int i) const {
        const double* w = weights + i * ld_w;
        double even = 0.0, odd = 0.0;
        int c = 1;
        for (; c + 1 < columns; c += 2) even += du[c] * w[c], odd += du[c + 1] * w[c + 1];
        if (c < columns) even += du[c] * w[c];
        return even + odd;
    }

    // The sum over i of T_i (X_ci - at).
    METHOD double moment(const double* T, int c, double at) const {
        const double* x = X + c * ld_x;
        double even = 0.0, odd = 0.0;
        int i = 0;
        for (; i + 1 < n; i += 2) even += T[i] * (x[i] - at), odd += T[i + 1] * (x[i + 1] - at);
        if (i < n) even += T[i] * (x[i] - at);
        return even + odd;
    }
};
