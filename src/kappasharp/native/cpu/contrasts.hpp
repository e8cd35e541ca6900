// How the evidence's A depends on the hyperparameters, by one thread: the covariance of the answers' differences of
// utility, and the sum of G times its derivatives. The kernel is taken between designs, each counted once however often
// it was compared, and its slopes are kept from the first to the second.
using Dimension = int;
using Detail = int;
using Split = int;
using People = int;

// The kernel's value and slope at h, both in place of it unless it is Matern's: then the slope goes to `slope`.
DEVICE void profile_row(Matern matern, double* h, double* slope, int n) {
    if (!matern) {
        VECTORS for (int j = 0; j < n; j++) h[j] = exp_negative(h[j]);
        return;
    }
    VECTORS for (int j = 0; j < n; j++) {
        const double square = -10.0 * h[j], scaled = sqrt(square > 1e-30 ? square : 1e-30);
        const double decay = exp_negative(-scaled);
        slope[j] = (5.0 / 3.0) * (1.0 + scaled) * decay;
        h[j] = (1.0 + scaled + scaled * scaled / 3.0) * decay;
    }
}

// h = -1/2 the squared distances of n points, X (d x ld), to the point with coordinates z[0], z[stride] …; four
// coordinates at a time, so that h is read and written once for four.
DEVICE void half_distances(const double* X, int ld, const double* z, int stride, int d, double* __restrict__ h, int n) {
    for (int j = 0; j < n; j++) h[j] = 0.0;
    int c = 0;
    for (; c + 3 < d; c += 4, X += 4 * ld, z += 4 * stride) {
        const double *x_1 = X + ld, *x_2 = x_1 + ld, *x_3 = x_2 + ld;
        const double z_0 = z[0], z_1 = z[stride], z_2 = z[2 * stride], z_3 = z[3 * stride];
        VECTORS for (int j = 0; j < n; j++) {
            const double a_0 = X[j] - z_0, a_1 = x_1[j] - z_1, a_2 = x_2[j] - z_2, a_3 = x_3[j] - z_3;
            h[j] -= 0.5 * ((a_0 * a_0 + a_1 * a_1) + (a_2 * a_2 + a_3 * a_3));
        }
    }
    for (; c < d; c++, X += ld, z += stride) {
        const double z_0 = z[0];
        VECTORS for (int j = 0; j < n; j++) h[j] -= 0.5 * (X[j] - z_0) * (X[j] - z_0);
    }
}

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
    // How many designs there are, at most 2m; which one each end point is, winners, then losers; at which end point each
    // was met first.
    int n, *design, *first;
    // The designs in units of the length scales (d x n), k and its slopes (n x n), by how much each is asked for (n x n),
    // a row of G and one over the designs, 1/length scales and output scale, and what the factorizations use.
    double *points, *k, *slopes, *asked, *G, *along, *scales, *own;
    // Of a sum: the second kernel and its slopes, and how much of the output scale each kernel has; k is both, so shared.
    double *second, *second_slopes, share[2];
    // What every difference is multiplied with: its weight and its voter's consistency; and rho.
    double *loudness, rho;

    METHOD double* place(double* memory) {
        const int most = 2 * m, square = most * most;
        design = reinterpret_cast<int*>(memory), first = reinterpret_cast<int*>(memory + m);
        points = memory + most, k = points + most * d, asked = k + square;
        double* free = asked + square;
        slopes = second = second_slopes = k;
        if (matern || split) slopes = free, free += square;
        if (split) second = second_slopes = free, free += square;
        if (split && matern) second_slopes = free, free += square;
        G = free, along = G + m, scales = along + most, loudness = scales + d + 1, own = loudness + (people ? m : 0);
        n = 0;
        for (int e = 0; e < most; e++) {
            design[e] = find(E + e * d);
            if (design[e] == n) first[n++] = e;
        }
        return own + (m + 2) * Matrices::stride(m);
    }

    // Which of the designs met so far this one is; n where it is new.
    METHOD int find(const double* x) const {
        for (int at = 0; at < n; at++) {
            if (std::equal(x, x + d, E + first[at] * d)) return at;
        }
        return n;
    }

    METHOD void stage(const double* theta) {
        for (int c = 0; c < d; c++) scales[c] = 1.0 / exp(theta[c]);
        scales[d] = exp(theta[d]) * per_variance;
        share[0] = 1.0;
        if (split) {
            const double other = exp(theta[d + 1]) * per_variance, both = scales[d] + other;
            share[0] = scales[d] / both, share[1] = other / both, scales[d] = both;
        }
        if (people) hear(theta + d + (split ? 2 : 1));
        for (int at = 0; at < n; at++) {
            for (int c = 0; c < d; c++) points[c * n + at] = E[first[at] * d + c] * scales[c];
        }
    }

    // logit rho, then every log c.
    METHOD void hear(const double* theta) {
        rho = 1.0 / (1.0 + exp(-theta[0]));
        for (int i = 0; i < m; i++)
            loudness[i] = (voter[i] < 0 ? 1.0 : exp(theta[1 + voter[i]])) * (detail ? weight[i] : 1.0);
    }

    METHOD void restage(const double*) {}

    METHOD double* spare() const { return own; }

    // What the covariance of two differences is multiplied with.
    METHOD double times(int i, int j) const {
        if (!people) return weight[i] * weight[j];
        return loudness[i] * loudness[j] * (alike(i, j) ? 1.0 : rho);
    }

    METHOD bool alike(int i, int j) const { return voter[i] >= 0 && voter[i] == voter[j]; }

    // A, after `stage`.
    METHOD void assemble(const Matrices& M) const {
        for (int r = 0; r < n; r++) {
            look(r);
            for (int c = 0; c < r; c++) k[c * n + r] = k[r * n + c];
        }
        const double scale = scales[d];
        for (int i = 0; i < m; i++) {
            const double *won = k + design[i] * n, *lost = k + design[m + i] * n, *gram_i = gram + i * m;
            VECTORS for (int at = 0; at < n; at++) along[at] = won[at] - lost[at];
            double* to = M.A + i * M.ld;
            for (int j = 0; j <= i; j++) {
                to[j] = (along[design[j]] - along[design[m + j]] + nugget * gram_i[j]) * scale;
                if (detail || people) to[j] *= times(i, j);
                if (detail) to[j] += noise[i * m + j];
            }
            for (int j = 0; j < i; j++) M.A[j * M.ld + i] = to[j];
        }
    }

    // k and its slopes from design r to those before it.
    METHOD void look(int r) const {
        double *to = k + r * n, *other = second + r * n;
        half_distances(points, n, points + r, n, split ? split : d, to, r + 1);
        profile_row(matern, to, slopes + r * n, r + 1);
        if (!split) return;
        const double* there = points + split * n;
        half_distances(there, n, there + r, n, d - split, other, r + 1);
        profile_row(matern, other, second_slopes + r * n, r + 1);
        if (!matern) std::copy(to, to + r + 1, slopes + r * n);
        VECTORS for (int c = 0; c <= r; c++) to[c] = share[0] * to[c] + share[1] * other[c];
        for (int c = 0; c < r; c++) second[c * n + r] = other[c];
    }

    // The sum of G times dA over pairs of comparisons to `total`; G is made of the dual weights alpha, of u in `pull`, of
    // root and of minus the inverse of B in b.
    METHOD void accumulate(const Matrices& M, const double* alpha, const double* pull, const double* root,
                           double* total) const {
        double* of_people = total + d + (split ? 2 : 1);
        for (double* c = total; c < of_people + (people ? 1 + voters : 0); c++) *c = 0.0;
        for (int e = 0; e < n * n; e++) asked[e] = 0.0;
        for (int i = 0; i < m; i++) {
            weigh(M, alpha, pull, root, i);
            double felt = dot(G, M.A + i * M.ld, m);
            if (detail) felt -= dot(G, noise + i * m, m);
            total[d] += felt;
            if (people) attribute(M, i, felt, of_people);
            if (detail || people) {
                for (int j = 0; j < m; j++) G[j] *= times(i, j);
            }
            for (int at = 0; at < n; at++) along[at] = 0.0;
            for (int j = 0; j < m; j++) along[design[j]] += G[j], along[design[m + j]] -= G[j];
            add_one(asked + design[i] * n, scales[d], along, design[i]);
            add_one(asked + design[m + i] * n, -scales[d], along, design[m + i]);
            if (split) total[d + 1] += of_second(i);
        }
        if (split) total[d] -= total[d + 1];
        by_lengths(slopes, share[0], 0, split ? split : d, total);
        if (split) by_lengths(second_slopes, share[1], split, d, total);
    }

    // What a row of G, and the same over the designs in `along`, say of the second kernel's output scale.
    METHOD double of_second(int i) const {
        const double *won = second + design[i] * n, *lost = second + design[m + i] * n;
        return scales[d] * share[1] * (dot(along, won, n) - dot(along, lost, n) + nugget * dot(G, gram + i * m, m));
    }

    // What a row of G says of logit rho and of its voter's log c, which stands in that row and in its column.
    METHOD void attribute(const Matrices& M, int i, double felt, double* total) const {
        double apart = 0.0;
        for (int j = 0; j < m; j++) {
            if (!alike(i, j)) apart += G[j] * (M.A[i * M.ld + j] - (detail ? noise[i * m + j] : 0.0));
        }
        total[0] += (1.0 - rho) * apart;
        if (voter[i] >= 0) total[1 + voter[i]] += 2.0 * felt;
    }

    // The sums for one kernel's length scales, over the designs.
    METHOD void by_lengths(const double* slopes, double share, int from, int to, double* total) const {
        for (int r = 1; r < n; r++) {
            const double *slope = slopes + r * n, *times = asked + r * n, twice = 2.0 * share;
            VECTORS for (int at = 0; at < r; at++) along[at] = twice * times[at] * slope[at];
            for (int c = from; c < to; c++) {
                const double *x = points + c * n, z = x[r];
                double sum = 0.0;
                VECTORS_SUM for (int at = 0; at < r; at++) sum += along[at] * (x[at] - z) * (x[at] - z);
                total[c] += sum;
            }
        }
    }

    // G's row i.
    METHOD void weigh(const Matrices& M, const double* alpha, const double* pull, const double* root, int i) const {
        const double *b = M.U + i * M.ld, both = 0.25 * (2.0 * alpha[i] + pull[i]);
        const double own_alpha = 0.25 * alpha[i], own_root = 0.5 * root[i];
        VECTORS for (int j = 0; j < m; j++) G[j] = both * alpha[j] + own_alpha * pull[j] + own_root * root[j] * b[j];
    }
};
