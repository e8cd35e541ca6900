// The whole search for one row's hyperparameters, one thread block a row: inference/evidence.py and laplace.py in one
// launch.

struct Evidence : Newton {
    Contrasts contrasts;
    Priors priors;

    METHOD double* place(double* memory) {
        double* free = Newton::place(contrasts.place(M.place(memory)));
        spare = contrasts.spare();
        return free;
    }

    METHOD double operator()(const double* theta, double* gradient) {
        contrasts.stage(theta);
        contrasts.assemble(M);
        const bool settled = find_map();
        const double value = finish() + priors.log_density(theta);
        contrasts.restage(theta);
        contrasts.accumulate(M, alpha, pull, root, gradient);
        priors.add(theta, gradient);
        // A MAP without certificate has no evidence: the search must not move there.
        const bool usable = settled && fabs(value) < INFINITE;
        for (int i = thread_index(); usable && i < M.m; i += thread_count()) kept[i] = z[i];
        sync_block();
        return usable ? -value : INFINITE;
    }

    // log Z at the MAP. Leaves minus the inverse of B in b, root at the exact omega, and u of G in pull.
    METHOD double finish() {
        for (int i = thread_index(); i < M.m; i += thread_count()) {
            double exact, log_slope;
            likelihood.curve(i, z[i], exact, log_slope);
            root[i] = sqrt(exact);
            slope[i] = log_slope;
            work[i] = likelihood.log_probability(i, z[i]) - 0.5 * alpha[i] * z[i];
        }
        sync_block();
        build(M, root);
        sync_block();
        sweep(M, omega, spare);
        double value = 0.0;
        for (int i = lane(); i < M.m; i += WARP) value += work[i] - 0.5 * log(omega[i]);
        value = lane_sum(value);
        // The posterior variance of a difference times omega is 1 - (1/B)_pp: no division by an omega that may underflow.
        for (int i = thread_index(); i < M.m; i += thread_count()) pull[i] = (-M.b(i, i) - 1.0) * slope[i];
        sync_block();
        times_all(M, pull, target);
        for (int i = thread_index(); i < M.m; i += thread_count()) target[i] *= root[i];
        sync_block();
        for (int i = thread_index(); i < M.m; i += thread_count()) pull[i] += root[i] * times_b(M, target, i);
        sync_block();
        return value;
    }
};

KERNEL evidence(const double* E, const double* gram, const double* theta, const double* start, const double* weight,
                const double* noise, const int* voter, const double* between, const double* middle, const double* half,
                const double* time, const double* nodes, const double* low, const double* high, double* x, double* value,
                double* gradient, int* ended, double* reached, int m, int d, int matern, int detail, int graded, int split,
                int voters, double nugget, double per_variance, double margin, double tolerance, int plain, int damped,
                double linear, double exponential, double quadratic, double centre, double joint, double second_centre,
                double second_joint, double scale_linear, double scale_quadratic, double scale_centre,
                double ratio_quadratic, double ratio_centre, double shared_quadratic, double shared_centre,
                double consistency_quadratic, double consistency_centre, double small, double decrease, double longest,
                double sufficient, double shortest, int rounds) {
    SHARED(memory);
    const long long at = block_index();
    const Dimension dimension = d;
    Evidence objective;
    objective.M.m = m;
    Priors& priors = objective.priors;
    priors.d = dimension, priors.split = split, priors.people = voters > 0, priors.voters = voters;
    priors.length = {linear, exponential, quadratic, centre}, priors.together = {joint, centre};
    priors.second = {linear, exponential, quadratic, second_centre}, priors.second_together = {second_joint, second_centre};
    priors.scale = {scale_linear, 0.0, scale_quadratic, scale_centre};
    priors.ratio = {0.0, 0.0, ratio_quadratic, ratio_centre};
    priors.shared = {0.0, 0.0, shared_quadratic, shared_centre};
    priors.consistency = {0.0, 0.0, consistency_quadratic, consistency_centre};
    const int P = priors.size();
    Contrasts& contrasts = objective.contrasts;
    contrasts.d = dimension, contrasts.matern = matern, contrasts.detail = detail, contrasts.m = m;
    contrasts.split = split, contrasts.people = voters > 0, contrasts.voters = voters;
    contrasts.E = E + at * 2 * m * dimension, contrasts.gram = gram + at * m * m;
    contrasts.weight = weight + at * m, contrasts.noise = noise + at * m * m;
    contrasts.voter = voter + at * m;
    contrasts.nugget = nugget, contrasts.per_variance = per_variance;
    objective.likelihood = {graded, margin, between + at * m, middle + at * m, half + at * m, time + at * m, nodes};
    objective.tolerance = tolerance, objective.plain = plain, objective.damped = damped;
    Row row;
    row.place(objective.place(memory), P);
    row.low = low, row.high = high;
    for (int i = thread_index(); i < m; i += thread_count()) objective.kept[i] = start[at * m + i];
    for (int j = thread_index(); j < P; j += thread_count()) row.x[j] = theta[at * P + j];
    const Limits limits = {small, decrease, longest, sufficient, shortest, rounds};
    const Ended end = descend<Block>(objective, row, limits);
    for (int j = thread_index(); j < P; j += thread_count()) x[at * P + j] = row.x[j], gradient[at * P + j] = row.g[j];
    for (int i = thread_index(); i < m; i += thread_count()) reached[at * m + i] = objective.kept[i];
    if (thread_index() == 0) {
        value[at] = end.value;
        ended[3 * at] = end.converged, ended[3 * at + 1] = end.rounds, ended[3 * at + 2] = objective.steps;
    }
}
