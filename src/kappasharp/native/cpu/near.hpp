// How EUBO sees the training points, by one thread: along rows of neighbouring numbers.
template <class Size>
struct Near {
    Size d;
    Matern matern;
    int n, columns, ld_w;
    // X (d x n) and weights (n x columns).
    const double *X, *weights;
    double *near_a, *near_b, *slope_a, *slope_b, *du, *sums;

    METHOD double* hold(double* memory, const double* points, const double* table) {
        for (int i = 0; i < n; i++) {
            for (int c = 0; c < d; c++) memory[c * n + i] = points[i * d + c];
        }
        X = memory, weights = table, ld_w = columns;
        return memory + d * n;
    }

    METHOD static int own_size(Matern matern, int n, int columns) { return (matern ? 5 : 3) * n + columns; }

    METHOD double* place(double* memory) {
        near_a = memory, near_b = near_a + n;
        slope_a = matern ? near_b + n : near_a, slope_b = matern ? slope_a + n : near_b;
        du = near_a + (matern ? 4 : 2) * n;
        sums = du + columns;
        return sums + n;
    }

    // k and its slope between the two points of Z, in units of the length scales, and all training points.
    METHOD void look(const double* Z) const {
        half_distances(X, n, Z, 1, d, near_a, n);
        half_distances(X, n, Z + d, 1, d, near_b, n);
        profile_row(matern, near_a, slope_a, n);
        profile_row(matern, near_b, slope_b, n);
    }

    // The difference of the known parts in du, the means' first; returns the second point's mean.
    METHOD double known() const {
        for (int c = 0; c < columns; c++) du[c] = 0.0;
        const double* w = weights;
        int i = 0;
        for (; i + 3 < n; i += 4, w += 4 * ld_w) {
            const double c[4] = {near_a[i] - near_b[i], near_a[i + 1] - near_b[i + 1], near_a[i + 2] - near_b[i + 2],
                                 near_a[i + 3] - near_b[i + 3]};
            add_four(du, c, w, ld_w, columns);
        }
        for (; i < n; i++, w += ld_w) add_one(du, near_a[i] - near_b[i], w, columns);
        double mean = 0.0;
        for (i = 0; i < n; i++) mean += near_b[i] * weights[i * ld_w];
        return mean;
    }

    // The sums over c > 0 of du_c weights_ic, four designs at a time: each du is read once for four products.
    METHOD void pass() const {
        int i = 0;
        for (; i + 3 < n; i += 4) {
            const double *w_0 = weights + i * ld_w, *w_1 = w_0 + ld_w, *w_2 = w_1 + ld_w, *w_3 = w_2 + ld_w;
            double s_0 = 0.0, s_1 = 0.0, s_2 = 0.0, s_3 = 0.0;
            VECTORS_SUMS for (int c = 1; c < columns; c++) {
                s_0 += du[c] * w_0[c], s_1 += du[c] * w_1[c], s_2 += du[c] * w_2[c], s_3 += du[c] * w_3[c];
            }
            sums[i] = s_0, sums[i + 1] = s_1, sums[i + 2] = s_2, sums[i + 3] = s_3;
        }
        for (; i < n; i++) sums[i] = dot(du + 1, weights + i * ld_w + 1, columns - 1);
    }

    METHOD double along(int i) const { return sums[i]; }

    // The sum over i of T_i (X_ci - at).
    METHOD double moment(const double* T, int c, double at) const {
        const double* x = X + c * n;
        double sum = 0.0;
        VECTORS_SUM for (int i = 0; i < n; i++) sum += T[i] * (x[i] - at);
        return sum;
    }
};
