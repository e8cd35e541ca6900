// The whole search for one row's hyperparameters, one thread block a row: core/evidence.py and core/laplace.py in one
// launch. DIMENSION is d, MATERN the kernel's family; DETAIL says that comparisons have weights and share noise.
constexpr int D = DIMENSION;
constexpr int P = D + 1;

struct Prior {
    double linear, exponential, quadratic, centre;
    METHOD double log_density(double t) const {
        return linear * t + exponential * exp(t) + quadratic * (t - centre) * (t - centre);
    }
    METHOD double slope(double t) const { return linear + exponential * exp(t) + 2.0 * quadratic * (t - centre); }
};

// A term in the sum of all log length scales about the centre: how much they move together.
struct Together {
    double quadratic, centre;
    METHOD double sum(const double* theta) const {
        double total = 0.0;
        for (int j = lane(); j < D; j += WARP) total += theta[j] - centre;
        return lane_sum(total);
    }
};

struct Evidence {
    Matrices M;
    const double *E, *gram, *weight, *noise;
    double nugget, per_variance, margin, tolerance;
    int plain, damped;
    Prior prior, scale_prior;
    Together together;
    // area: the scaled end points (D x 2m), or the corners and strips of the factorizations.
    double *area, *z, *kept, *alpha, *target, *slope, *omega, *root, *work, *pull, *partial, *scales;
    int newton_steps;

    METHOD static int area_size(int m) {
        const int points = 2 * m * D, strips = 2 * PANEL * m + CORNER, corners = (m + PANEL - 1) / PANEL * CORNER;
        const int larger_two = points > strips ? points : strips;
        return larger_two > corners ? larger_two : corners;
    }

    METHOD double* place(double* memory, int m) {
        M.s = memory, M.m = m, M.ld = Matrices::stride(m);
        area = memory + m * M.ld;
        z = area + area_size(m), kept = z + m, alpha = kept + m, target = alpha + m, slope = target + m;
        omega = slope + m, root = omega + m, work = root + m, pull = work + m, scales = pull + m, partial = scales + P;
        return partial + thread_count() / WARP * P;
    }

    METHOD double operator()(const double* theta, double* gradient) {
        stage(theta);
        assemble();
        const bool settled = find_map();
        const double value = finish() + log_prior(theta);
        stage(theta);
        accumulate(theta, gradient);
        // A MAP without certificate has no evidence: the search must not move there.
        const bool usable = settled && fabs(value) < INFINITE;
        for (int i = thread_index(); usable && i < M.m; i += thread_count()) kept[i] = z[i];
        sync_block();
        return usable ? -value : INFINITE;
    }

    // The end points in units of the length scales, one row a dimension; all winners, then all losers.
    METHOD void stage(const double* theta) {
        for (int j = thread_index(); j < P; j += thread_count())
            scales[j] = j < D ? 1.0 / exp(theta[j]) : exp(theta[j]) * per_variance;
        sync_block();
        const int count = 2 * M.m;
        for (int e = thread_index(); e < count * D; e += thread_count()) {
            const int j = e % D;
            area[j * count + e / D] = E[e] * scales[j];
        }
        sync_block();
    }

    // k and its slope between the end points of comparisons i and j: winners, losers, winner-loser, loser-winner.
    METHOD void cross(int i, int j, double (&k)[4], double (&s)[4]) const {
        double h[4] = {0.0, 0.0, 0.0, 0.0};
        // Not unrolled whole: the compiler would keep all coordinates in registers until the gradient asks again.
        UNROLL_2 for (int c = 0; c < D; c++) {
            const double* x = area + c * 2 * M.m;
            const double w_i = x[i], l_i = x[M.m + i], w_j = x[j], l_j = x[M.m + j];
            h[0] += (w_i - w_j) * (w_i - w_j);
            h[1] += (l_i - l_j) * (l_i - l_j);
            h[2] += (w_i - l_j) * (w_i - l_j);
            h[3] += (l_i - w_j) * (l_i - w_j);
        }
        UNROLL for (int q = 0; q < 4; q++) profile(-0.5 * h[q], k[q], s[q]);
    }

    METHOD double weights(int i, int j) const { return DETAIL ? weight[i] * weight[j] : 1.0; }

    METHOD double shared(int i, int j) const { return DETAIL ? noise[i * M.m + j] : 0.0; }

    METHOD void assemble() {
        for (Triangle at(thread_index()); at.i < M.m; at.advance(thread_count())) {
            double k[4], s[4];
            cross(at.i, at.j, k, s);
            const double contrast = (k[0] - k[3]) - (k[2] - k[1]);
            const double own = (contrast + nugget * gram[at.i * M.m + at.j]) * scales[D];
            M.a(at.i, at.j) = own * weights(at.i, at.j) + shared(at.i, at.j);
        }
        sync_block();
    }

    // Slope, omega and its root at z_i; the distance of alpha_i from the slope goes to work[i].
    METHOD void site(int i) {
        const double shifted = z[i] - margin, psi = hazard(shifted);
        slope[i] = psi;
        omega[i] = psi * (psi + shifted);
        root[i] = sqrt(omega[i]);
        work[i] = fabs(alpha[i] - psi);
    }

    METHOD double off() const {
        double largest = 0.0;
        for (int i = lane(); i < M.m; i += WARP) largest = larger(largest, work[i]);
        return lane_max(largest);
    }

    // The alpha at which the local quadratic model is stationary goes to target. Sites must be known.
    METHOD void newton_target() {
        newton_steps++;
        for (int i = thread_index(); i < M.m; i += thread_count()) target[i] = slope[i] + omega[i] * z[i];
        build(M, root);
        sync_block();
        for (int i = thread_index(); i < M.m; i += thread_count()) M.b(M.m, i) = root[i] * times_a(M, target, i);
        sync_block();
        factor(M, area);
        back_substitute(M, area, pull);
        for (int i = thread_index(); i < M.m; i += thread_count()) target[i] -= root[i] * pull[i];
        sync_block();
    }

    METHOD double objective(const double* weights, const double* differences) const {
        double sum = 0.0;
        for (int i = lane(); i < M.m; i += WARP)
            sum += 0.5 * weights[i] * differences[i] - log_cdf(differences[i] - margin);
        return lane_sum(sum);
    }

    // Plain steps from the last MAP; where they do not settle, again from zero with steps halved until J falls.
    METHOD bool find_map() {
        double J = INFINITE, step = 1.0;
        for (int count = 0; count < plain + damped; count++) {
            if (count == 0 || count == plain) {
                for (int i = thread_index(); i < M.m; i += thread_count())
                    z[i] = count == 0 ? kept[i] : 0.0, alpha[i] = 0.0, site(i);
                sync_block();
                if (count == plain) J = objective(alpha, z);
            }
            newton_target();
            for (int i = thread_index(); i < M.m; i += thread_count())
                target[i] = count < plain ? target[i] : alpha[i] + (target[i] - alpha[i]) * step;
            sync_block();
            for (int i = thread_index(); i < M.m; i += thread_count()) pull[i] = times_a(M, target, i);
            bool better = true;
            if (count >= plain) {
                sync_block();
                const double J_trial = objective(target, pull);
                better = J_trial <= J + 64.0 * 2.220446049250313e-16 * (1.0 + fabs(J));
                J = better ? J_trial : J;
                step = better ? 1.0 : 0.5 * step;
            }
            for (int i = thread_index(); better && i < M.m; i += thread_count())
                alpha[i] = target[i], z[i] = pull[i], site(i);
            sync_block();
            const double left = off();
            sync_block();
            if (left <= tolerance) return true;
        }
        return false;
    }

    // log Z at the MAP. Leaves minus the inverse of B in b, root at the exact omega, and u of G in pull.
    METHOD double finish() {
        for (int i = thread_index(); i < M.m; i += thread_count()) {
            double exact, log_slope;
            curvature(z[i] - margin, exact, log_slope);
            root[i] = sqrt(exact);
            slope[i] = log_slope;
            work[i] = log_cdf(z[i] - margin) - 0.5 * alpha[i] * z[i];
        }
        sync_block();
        build(M, root);
        sync_block();
        sweep(M, omega, area);
        double value = 0.0;
        for (int i = lane(); i < M.m; i += WARP) value += work[i] - 0.5 * log(omega[i]);
        value = lane_sum(value);
        // The posterior variance of a difference times omega is 1 - (1/B)_pp: no division by an omega that may underflow.
        for (int i = thread_index(); i < M.m; i += thread_count()) pull[i] = (-M.b(i, i) - 1.0) * slope[i];
        sync_block();
        for (int i = thread_index(); i < M.m; i += thread_count()) target[i] = root[i] * times_a(M, pull, i);
        sync_block();
        for (int i = thread_index(); i < M.m; i += thread_count()) pull[i] += root[i] * times_b(M, target, i);
        sync_block();
        return value;
    }

    METHOD double log_prior(const double* theta) const {
        double sum = 0.0;
        for (int j = lane(); j < D; j += WARP) sum += prior.log_density(theta[j]);
        const double shift = together.sum(theta);
        return lane_sum(sum) + together.quadratic * shift * shift + scale_prior.log_density(theta[D]);
    }

    // Minus the gradient of evidence plus priors: sum of G times dA over pairs of comparisons, twice off the diagonal.
    METHOD void accumulate(const double* theta, double* gradient) {
        double sum[P];
        UNROLL for (int c = 0; c < P; c++) sum[c] = 0.0;
        for (Triangle at(thread_index()); at.i < M.m; at.advance(thread_count())) {
            const int i = at.i, j = at.j;
            const double both = 2.0 * alpha[i] * alpha[j] + pull[i] * alpha[j] + alpha[i] * pull[j];
            double G = 0.25 * (both + 2.0 * root[i] * root[j] * M.b(i, j));
            if (i != j) G *= 2.0;
            sum[D] += G * (M.a(i, j) - shared(i, j));
            double k[4], s[4];
            cross(i, j, k, s);
            G *= scales[D] * weights(i, j);
            UNROLL for (int q = 0; q < 4; q++) s[q] *= G;
            UNROLL for (int c = 0; c < D; c++) {
                const double* x = area + c * 2 * M.m;
                const double w_i = x[i], l_i = x[M.m + i], w_j = x[j], l_j = x[M.m + j];
                const double near = s[0] * (w_i - w_j) * (w_i - w_j) + s[1] * (l_i - l_j) * (l_i - l_j);
                sum[c] += near - s[2] * (w_i - l_j) * (w_i - l_j) - s[3] * (l_i - w_j) * (l_i - w_j);
            }
        }
        UNROLL for (int c = 0; c < P; c++) {
            const double total = lane_sum(sum[c]);
            if (lane() == 0) partial[thread_index() / WARP * P + c] = total;
        }
        const double pulled = 2.0 * together.quadratic * together.sum(theta);
        sync_block();
        for (int c = thread_index(); c < P; c += thread_count()) {
            double total = c < D ? prior.slope(theta[c]) + pulled : scale_prior.slope(theta[D]);
            for (int w = 0; w < thread_count() / WARP; w++) total += partial[w * P + c];
            gradient[c] = -total;
        }
    }
};

KERNEL evidence(const double* E, const double* gram, const double* theta, const double* start, const double* weight,
                const double* noise, const double* low, const double* high, double* x, double* value, double* gradient, int* ended, int m, double nugget,
                double per_variance, double margin, double tolerance, int plain, int damped, double linear,
                double exponential, double quadratic, double centre, double joint, double scale_linear,
                double scale_quadratic, double scale_centre, double small, double decrease, double longest,
                double sufficient, double shortest, int rounds) {
    SHARED(memory);
    const long long at = block_index();
    Evidence objective;
    Row row;
    row.place(objective.place(memory, m), P);
    row.low = low, row.high = high;
    objective.E = E + at * 2 * m * D, objective.gram = gram + at * m * m;
    objective.weight = weight + at * m, objective.noise = noise + at * m * m;
    objective.nugget = nugget, objective.per_variance = per_variance, objective.margin = margin;
    objective.tolerance = tolerance, objective.plain = plain, objective.damped = damped;
    objective.prior = {linear, exponential, quadratic, centre};
    objective.together = {joint, centre};
    objective.scale_prior = {scale_linear, 0.0, scale_quadratic, scale_centre};
    objective.newton_steps = 0;
    for (int i = thread_index(); i < m; i += thread_count()) objective.kept[i] = start[at * m + i];
    for (int j = thread_index(); j < P; j += thread_count()) row.x[j] = theta[at * P + j];
    const Limits limits = {small, decrease, longest, sufficient, shortest, rounds};
    const Ended end = descend<Block>(objective, row, limits);
    for (int j = thread_index(); j < P; j += thread_count()) x[at * P + j] = row.x[j], gradient[at * P + j] = row.g[j];
    if (thread_index() == 0) {
        value[at] = end.value;
        ended[3 * at] = end.converged, ended[3 * at + 1] = end.rounds, ended[3 * at + 2] = objective.newton_steps;
    }
}
