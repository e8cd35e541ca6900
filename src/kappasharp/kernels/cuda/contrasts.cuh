// How the evidence's A depends on the hyperparameters, by a block of threads: the covariance of the answers' differences
// of utility, and the sum of G times its derivatives.
using Dimension = NUMBER(DIMENSION);
using Detail = NUMBER(DETAIL);

struct Contrasts {
    Dimension d;
    Matern matern;
    // Whether comparisons have weights and share noise.
    Detail detail;
    int m;
    const double *E, *gram, *weight, *noise;
    double nugget, per_variance;
    // The scaled end points (d x 2m), in memory that the factorizations use in between; 1/length scales and output scale;
    // every warp's sums.
    double *points, *scales, *partial;

    METHOD static int points_size(int m, int d) {
        const int points = 2 * m * d, strips = 2 * PANEL * m + CORNER, corners = (m + PANEL - 1) / PANEL * CORNER;
        const int larger_two = points > strips ? points : strips;
        return larger_two > corners ? larger_two : corners;
    }

    METHOD double* place(double* memory) {
        points = memory, scales = points + points_size(m, d), partial = scales + d + 1;
        return partial + thread_count() / WARP * (d + 1);
    }

    // The end points in units of the length scales, one row a dimension; all winners, then all losers.
    METHOD void stage(const double* theta) {
        for (int j = thread_index(); j < d + 1; j += thread_count())
            scales[j] = j < d ? 1.0 / exp(theta[j]) : exp(theta[j]) * per_variance;
        sync_block();
        const int count = 2 * m;
        for (int e = thread_index(); e < count * d; e += thread_count()) {
            const int j = e % d;
            points[j * count + e / d] = E[e] * scales[j];
        }
        sync_block();
    }

    // The same again, after the factorizations wrote over it.
    METHOD void restage(const double* theta) { stage(theta); }

    METHOD double* spare() const { return points; }

    // k and its slope between the end points of comparisons i and j: winners, losers, winner-loser, loser-winner.
    METHOD void cross(int i, int j, double (&k)[4], double (&s)[4]) const {
        double h[4] = {0.0, 0.0, 0.0, 0.0};
        // Not unrolled whole: the compiler would keep all coordinates in registers until the gradient asks again.
        UNROLL_2 for (int c = 0; c < d; c++) {
            const double* x = points + c * 2 * m;
            const double w_i = x[i], l_i = x[m + i], w_j = x[j], l_j = x[m + j];
            h[0] += (w_i - w_j) * (w_i - w_j);
            h[1] += (l_i - l_j) * (l_i - l_j);
            h[2] += (w_i - l_j) * (w_i - l_j);
            h[3] += (l_i - w_j) * (l_i - w_j);
        }
        UNROLL for (int q = 0; q < 4; q++) profile(matern, -0.5 * h[q], k[q], s[q]);
    }

    METHOD double weights(int i, int j) const { return detail ? weight[i] * weight[j] : 1.0; }

    METHOD double shared(int i, int j) const { return detail ? noise[i * m + j] : 0.0; }

    // A, after `stage`.
    METHOD void assemble(const Matrices& M) const {
        for (Triangle at(thread_index()); at.i < m; at.advance(thread_count())) {
            double k[4], s[4];
            cross(at.i, at.j, k, s);
            const double contrast = (k[0] - k[3]) - (k[2] - k[1]);
            const double own = (contrast + nugget * gram[at.i * m + at.j]) * scales[d];
            M.a(at.i, at.j) = own * weights(at.i, at.j) + shared(at.i, at.j);
        }
        sync_block();
    }

    // The sum of G times dA over pairs of comparisons, twice off the diagonal, to `total`; G is made of the dual weights
    // alpha, of u in `pull`, of root and of minus the inverse of B in b.
    METHOD void accumulate(const Matrices& M, const double* alpha, const double* pull, const double* root,
                           double* total) const {
        constexpr int P = DIMENSION + 1;
        double sum[P];
        UNROLL for (int c = 0; c < P; c++) sum[c] = 0.0;
        for (Triangle at(thread_index()); at.i < m; at.advance(thread_count())) {
            const int i = at.i, j = at.j;
            const double both = 2.0 * alpha[i] * alpha[j] + pull[i] * alpha[j] + alpha[i] * pull[j];
            double G = 0.25 * (both + 2.0 * root[i] * root[j] * M.b(i, j));
            if (i != j) G *= 2.0;
            sum[d] += G * (M.a(i, j) - shared(i, j));
            double k[4], s[4];
            cross(i, j, k, s);
            G *= scales[d] * weights(i, j);
            UNROLL for (int q = 0; q < 4; q++) s[q] *= G;
            UNROLL for (int c = 0; c < d; c++) {
                const double* x = points + c * 2 * m;
                const double w_i = x[i], l_i = x[m + i], w_j = x[j], l_j = x[m + j];
                const double near = s[0] * (w_i - w_j) * (w_i - w_j) + s[1] * (l_i - l_j) * (l_i - l_j);
                sum[c] += near - s[2] * (w_i - l_j) * (w_i - l_j) - s[3] * (l_i - w_j) * (l_i - w_j);
            }
        }
        UNROLL for (int c = 0; c < P; c++) {
            const double found = lane_sum(sum[c]);
            if (lane() == 0) partial[thread_index() / WARP * P + c] = found;
        }
        sync_block();
        for (int c = thread_index(); c < P; c += thread_count()) {
            double found = 0.0;
            for (int w = 0; w < thread_count() / WARP; w++) found += partial[w * P + c];
            total[c] = found;
        }
    }
};
