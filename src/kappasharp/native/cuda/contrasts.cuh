// How the evidence's A depends on the hyperparameters, by a block of threads: the covariance of the answers' differences
// of utility, and the sum of G times its derivatives.
using Dimension = NUMBER(DIMENSION);
using Detail = NUMBER(DETAIL);
using Split = NUMBER(SPLIT);
using People = NUMBER(PEOPLE);
// How many kernels there are; and sums of G: for all length and output scales, and for logit rho.
constexpr int KERNELS = SPLIT > 0 ? 2 : 1, SUMS = DIMENSION + KERNELS + PEOPLE;

struct Contrasts {
    Dimension d;
    Matern matern;
    // Whether comparisons have weights and share noise.
    Detail detail;
    // How many coordinates the first of two kernels has, 0 where there is one kernel only; whether several people answered.
    Split split;
    People people;
    int m, voters;
    const double *E, *gram, *weight, *noise;
    const int* voter;
    double nugget, per_variance;
    // The scaled end points (d x 2m), in memory that the factorizations use in between; 1/length scales, output scales and
    // rho; every warp's sums; of every answer its voter's consistency and what its row of G says of that.
    double *points, *scales, *partial, *consistency, *felt;

    METHOD static int points_size(int m, int d) {
        const int points = 2 * m * d, strips = 2 * PANEL * m + CORNER, corners = (m + PANEL - 1) / PANEL * CORNER;
        const int larger_two = points > strips ? points : strips;
        return larger_two > corners ? larger_two : corners;
    }

    METHOD double* place(double* memory) {
        points = memory, scales = points + points_size(m, d), partial = scales + SUMS;
        consistency = partial + thread_count() / WARP * SUMS, felt = consistency + (people ? m : 0);
        return felt + (people ? m : 0);
    }

    METHOD int begin(int kernel) const { return kernel == 0 ? 0 : int(split); }
    METHOD int end(int kernel) const { return kernel + 1 < KERNELS ? int(split) : int(d); }

    // The end points in units of the length scales, one row a dimension; all winners, then all losers.
    METHOD void stage(const double* theta) {
        for (int j = thread_index(); j < d + KERNELS; j += thread_count())
            scales[j] = j < d ? 1.0 / exp(theta[j]) : exp(theta[j]) * per_variance;
        if (people) hear(theta + d + KERNELS);
        sync_block();
        const int count = 2 * m;
        for (int e = thread_index(); e < count * d; e += thread_count()) {
            const int j = e % d;
            points[j * count + e / d] = E[e] * scales[j];
        }
        sync_block();
    }

    // logit rho, then every log c.
    METHOD void hear(const double* theta) {
        if (thread_index() == 0) scales[d + KERNELS] = 1.0 / (1.0 + exp(-theta[0]));
        for (int i = thread_index(); i < m; i += thread_count())
            consistency[i] = voter[i] < 0 ? 1.0 : exp(theta[1 + voter[i]]);
    }

    // The same again, after the factorizations wrote over it.
    METHOD void restage(const double* theta) { stage(theta); }

    METHOD double* spare() const { return points; }

    // One kernel's value and slope between the end points of comparisons i and j: winners, losers, winner-loser,
    // loser-winner.
    METHOD void cross(int i, int j, int kernel, double (&k)[4], double (&s)[4]) const {
        double h[4] = {0.0, 0.0, 0.0, 0.0};
        // Not unrolled whole: the compiler would keep all coordinates in registers until the gradient asks again.
        UNROLL_2 for (int c = begin(kernel); c < end(kernel); c++) {
            const double* x = points + c * 2 * m;
            const double w_i = x[i], l_i = x[m + i], w_j = x[j], l_j = x[m + j];
            h[0] += (w_i - w_j) * (w_i - w_j);
            h[1] += (l_i - l_j) * (l_i - l_j);
            h[2] += (w_i - l_j) * (w_i - l_j);
            h[3] += (l_i - w_j) * (l_i - w_j);
        }
        UNROLL for (int q = 0; q < 4; q++) profile(matern, -0.5 * h[q], k[q], s[q]);
    }

    // What a kernel adds to A, but for the weights.
    METHOD double part(int i, int j, int kernel, const double (&k)[4]) const {
        const double contrast = (k[0] - k[3]) - (k[2] - k[1]);
        return (contrast + nugget * gram[i * m + j]) * scales[d + kernel];
    }

    METHOD bool alike(int i, int j) const { return voter[i] >= 0 && voter[i] == voter[j]; }

    METHOD double weights(int i, int j) const {
        const double own = detail ? weight[i] * weight[j] : 1.0;
        return people ? own * consistency[i] * consistency[j] * (alike(i, j) ? 1.0 : scales[d + KERNELS]) : own;
    }

    METHOD double shared(int i, int j) const { return detail ? noise[i * m + j] : 0.0; }

    // A, after `stage`.
    METHOD void assemble(const Matrices& M) const {
        for (Triangle at(thread_index()); at.i < m; at.advance(thread_count())) {
            double k[4], s[4];
            cross(at.i, at.j, 0, k, s);
            double own = part(at.i, at.j, 0, k);
            if (split) {
                cross(at.i, at.j, 1, k, s);
                own += part(at.i, at.j, 1, k);
            }
            M.a(at.i, at.j) = own * weights(at.i, at.j) + shared(at.i, at.j);
        }
        sync_block();
    }

    // The sum of G times dA over pairs of comparisons, twice off the diagonal, to `total`; G is made of the dual weights
    // alpha, of u in `pull`, of root and of minus the inverse of B in b.
    METHOD void accumulate(const Matrices& M, const double* alpha, const double* pull, const double* root,
                           double* total) const {
        double sum[SUMS];
        UNROLL for (int c = 0; c < SUMS; c++) sum[c] = 0.0;
        for (Triangle at(thread_index()); at.i < m; at.advance(thread_count())) {
            const int i = at.i, j = at.j;
            const double both = 2.0 * alpha[i] * alpha[j] + pull[i] * alpha[j] + alpha[i] * pull[j];
            double G = 0.25 * (both + 2.0 * root[i] * root[j] * M.b(i, j));
            if (i != j) G *= 2.0;
            sum[d] += G * (M.a(i, j) - shared(i, j));
            if (people && !alike(i, j)) sum[SUMS - 1] += G * (M.a(i, j) - shared(i, j)) * (1.0 - scales[d + KERNELS]);
            G *= weights(i, j);
            UNROLL for (int kernel = 0; kernel < KERNELS; kernel++) {
                double k[4], s[4];
                cross(i, j, kernel, k, s);
                if (kernel > 0) sum[d + kernel] += G * part(i, j, kernel, k);
                const double scaled = G * scales[d + kernel];
                UNROLL for (int q = 0; q < 4; q++) s[q] *= scaled;
                UNROLL for (int c = begin(kernel); c < end(kernel); c++) {
                    const double* x = points + c * 2 * m;
                    const double w_i = x[i], l_i = x[m + i], w_j = x[j], l_j = x[m + j];
                    const double near = s[0] * (w_i - w_j) * (w_i - w_j) + s[1] * (l_i - l_j) * (l_i - l_j);
                    sum[c] += near - s[2] * (w_i - l_j) * (w_i - l_j) - s[3] * (l_i - w_j) * (l_i - w_j);
                }
            }
        }
        if (split) sum[d] -= sum[d + KERNELS - 1];
        UNROLL for (int c = 0; c < SUMS; c++) {
            const double found = lane_sum(sum[c]);
            if (lane() == 0) partial[thread_index() / WARP * SUMS + c] = found;
        }
        if (people) attribute(M, alpha, pull, root);
        sync_block();
        for (int c = thread_index(); c < SUMS; c += thread_count()) {
            double found = 0.0;
            for (int w = 0; w < thread_count() / WARP; w++) found += partial[w * SUMS + c];
            total[c] = found;
        }
        for (int v = thread_index(); people && v < voters; v += thread_count()) {
            double found = 0.0;
            for (int i = 0; i < m; i++) found += voter[i] == v ? felt[i] : 0.0;
            total[SUMS + v] = found;
        }
    }

    // What every row of G says of its voter's log c, which stands in that row and in its column.
    METHOD void attribute(const Matrices& M, const double* alpha, const double* pull, const double* root) const {
        for (int i = thread_index(); i < m; i += thread_count()) {
            double found = 0.0;
            for (int j = 0; j < m; j++) {
                const double both = 2.0 * alpha[i] * alpha[j] + pull[i] * alpha[j] + alpha[i] * pull[j];
                const double a = i >= j ? M.a(i, j) : M.a(j, i);
                found += 0.5 * (both + 2.0 * root[i] * root[j] * M.symmetric_b(i, j)) * (a - shared(i, j));
            }
            felt[i] = found;
        }
    }
};
