// A round of the ascent of EUBO through outcomes that are nearly straight in the design, one warp a start:
// acquisition/composite.py in one launch. The prior covariance is a sum: a kernel over the parameters, and one over the
// outcomes. A start's two designs have outcomes of their own at the start, slopes, and bends along each coordinate.
using Seen = NUMBER(SEEN);
using Improvement = NUMBER(IMPROVEMENT);
using Nothing = NUMBER(0);

struct Straight {
    // Over parameters and over outcomes; their sum, which has no coordinates of its own, has the weights.
    Near<Dimension> near;
    Near<Seen> seen;
    Near<Nothing> whole;
    Improvement improvement;
    double outputscale, least_variance, of_near, of_seen;
    // Shared by the run: length scales. The start's: both designs, their outcomes (2 x k), slopes and bends (2 x d x k).
    const double *near_scales, *seen_scales, *start, *outcomes, *J, *B;
    // The warp's own: both designs and their outcomes in units of the length scales; the gradient in the outcomes.
    double *Z, *O, *G;

    METHOD double* place(double* memory) {
        Z = memory, O = Z + 2 * near.d, G = O + 2 * seen.d;
        return whole.place(seen.place(near.place(G + 2 * seen.d)));
    }

    METHOD static int own_size(int d, int k, Matern matern, int n, int columns) {
        return 2 * d + 4 * k + 2 * Near<Nothing>::own_size(matern, n, 0) + Near<Nothing>::own_size(matern, n, columns);
    }

    METHOD double operator()(const double* x, double* gradient) const {
        lift(x);
        near.look(Z);
        seen.look(O);
        const double own_near = apart(Z, near.d, of_near), own_seen = apart(O, seen.d, of_seen);
        join();
        const double mean_b = whole.known();
        double squares = 0.0;
        for (int c = 1 + lane(); c < whole.columns; c += WARP) squares += whole.du[c] * whole.du[c];
        const double variance = 2.0 * outputscale * (1.0 - (own_near + own_seen)) - lane_sum(squares);
        const double spread = sqrt(larger(variance, outputscale * least_variance));
        const double delta = whole.du[0], ratio = delta / spread, share = cdf(ratio), height = density(ratio);
        const double pull = height / spread;
        weigh(share, pull);
        collect(x, pull * outputscale, gradient);
        const double value = delta * share + spread * height;
        return -(improvement ? value : value + mean_b);
    }

    // Designs, and their outcomes as the slopes and bends say.
    METHOD void lift(const double* x) const {
        const int d = near.d, k = seen.d;
        for (int e = lane(); e < 2 * d; e += WARP) Z[e] = (x[e] - 0.5) / near_scales[e % d];
        for (int e = lane(); e < 2 * k; e += WARP) {
            const int first = e / k * d, c = e % k;
            double outcome = outcomes[e];
            for (int j = first; j < first + d; j++) {
                const double step = x[j] - start[j];
                outcome += step * (J[j * k + c] + 0.5 * step * B[j * k + c]);
            }
            O[e] = (outcome - 0.5) / seen_scales[c];
        }
        sync_warp();
    }

    // One kernel's share of the correlation between the two designs.
    METHOD double apart(const double* at, int size, double of) const {
        double value, slope;
        own_profile(at, size, value, slope);
        return of * value;
    }

    METHOD void own_profile(const double* at, int size, double& value, double& slope) const {
        double distance = 0.0;
        for (int c = lane(); c < size; c += WARP) distance += (at[c] - at[size + c]) * (at[c] - at[size + c]);
        profile(near.matern, -0.5 * lane_sum(distance), value, slope);
    }

    // Both kernels' sum; slopes, which may be the values themselves, by their shares.
    METHOD void join() const {
        for (int i = lane(); i < whole.n; i += WARP) {
            whole.near_a[i] = of_near * near.near_a[i] + of_seen * seen.near_a[i];
            whole.near_b[i] = of_near * near.near_b[i] + of_seen * seen.near_b[i];
            near.slope_a[i] *= of_near, near.slope_b[i] *= of_near;
            seen.slope_a[i] *= of_seen, seen.slope_b[i] *= of_seen;
        }
        sync_warp();
    }

    // The derivatives of EUBO in the sum times each kernel's slope, in place of the slopes.
    METHOD void weigh(double share, double pull) const {
        whole.pass();
        for (int i = lane(); i < whole.n; i += WARP) {
            const double beta = whole.weights[i * whole.ld_w];
            const double T_a = share * beta - pull * whole.along(i);
            const double T_b = improvement ? -T_a : beta - T_a;
            near.slope_a[i] *= T_a, near.slope_b[i] *= T_b;
            seen.slope_a[i] *= T_a, seen.slope_b[i] *= T_b;
        }
        sync_warp();
    }

    // Minus the gradient in the designs: their own, and the outcomes' by the slopes.
    METHOD void collect(const double* x, double pull, double* gradient) const {
        const int d = near.d, k = seen.d;
        double value, near_slope, seen_slope;
        own_profile(Z, d, value, near_slope);
        own_profile(O, k, value, seen_slope);
        for (int e = lane(); e < 2 * k; e += WARP)
            G[e] = along(seen, O, pull * of_seen * seen_slope, e, k) / seen_scales[e % k];
        sync_warp();
        for (int e = lane(); e < 2 * d; e += WARP) {
            double sum = along(near, Z, pull * of_near * near_slope, e, d) / near_scales[e % d];
            const double step = x[e] - start[e];
            for (int c = 0; c < k; c++) sum += (J[e * k + c] + step * B[e * k + c]) * G[e / d * k + c];
            gradient[e] = -sum;
        }
        sync_warp();
    }

    template <class Part>
    METHOD double along(const Part& part, const double* at, double apart, int e, int size) const {
        const int c = e % size;
        const double step = apart * (at[c] - at[size + c]);
        return part.moment(e < size ? part.slope_a : part.slope_b, c, at[e]) + (e < size ? step : -step);
    }
};

// What decides a start's way from look to look, in the order of composite.py.
struct Trust {
    double least_radius, poor, good, shorter, longer, least_step;
};

// Where one start is, and what was found where it looked last.
struct Way {
    int d, k;
    double *points, *outcomes, *J, *B, *trial;
    const double *seen, *slopes;

    // The largest coordinate of the step to where it looked.
    METHOD double length() const {
        double longest = 0.0;
        for (int j = lane(); j < 2 * d; j += WARP) longest = larger(longest, fabs(trial[j] - points[j]));
        return lane_max(longest);
    }

    // Bends after slopes at two places; slopes, and the place, where they are taken over.
    METHOD void learn(bool bends, bool takes_slopes, bool moves, double least_step) const {
        for (int e = lane(); e < 2 * d * k; e += WARP) {
            const int j = e / k;
            const double step = trial[j] - points[j];
            const bool known = fabs(step) >= least_step && fabs(seen[j / d * k + e % k]) < INFINITE;
            if (bends && known) B[e] = (slopes[e] - J[e]) / step;
            if (takes_slopes) J[e] = slopes[e];
        }
        sync_warp();
        if (!moves) return;
        for (int j = lane(); j < 2 * d; j += WARP) points[j] = trial[j];
        for (int e = lane(); e < 2 * k; e += WARP) outcomes[e] = seen[e];
        sync_warp();
    }
};

// A look and what it promised: how far outcomes are believed then, and whether the start moves.
DEVICE double believed(const Trust& rules, double share, double step, double radius) {
    if (!(share >= rules.poor)) return rules.shorter * step;
    return share > rules.good && step >= rules.good * radius ? rules.longer * radius : radius;
}

KERNEL straight(const double* near_scales, const double* seen_scales, const double* shares_of, const double* outputscale,
                const double* X, const double* Y, const double* weights, double* points, double* outcomes, double* J,
                double* B, const double* low, const double* high, const double* seen, const double* slopes,
                double* trial, double* values, double* radii, double* promises, int* ended, int* looks, int n,
                int columns, int d, int k, int matern, int improvement, int starts, int shares, int moves, int solves,
                int bends, double least_variance, double small, double decrease, double longest, double sufficient,
                double shortest, int rounds, double least_radius, double poor, double good, double shorter,
                double longer, double least_step) {
    SHARED(memory);
    const int run = block_index() / shares, share = block_index() % shares, warps = thread_count() / WARP;
    const Dimension dimension = d;
    const Seen many = k;
    Straight objective;
    objective.improvement = improvement;
    objective.near.d = dimension, objective.near.matern = matern, objective.near.n = n, objective.near.columns = 0;
    objective.seen.d = many, objective.seen.matern = matern, objective.seen.n = n, objective.seen.columns = 0;
    objective.whole.d = 0, objective.whole.matern = matern, objective.whole.n = n, objective.whole.columns = columns;
    double* scales = objective.near.hold(memory, X + (long long)run * n * dimension, weights);
    scales = objective.seen.hold(scales, Y + (long long)run * n * many, weights);
    scales = objective.whole.hold(scales, X, weights + (long long)run * n * columns);
    for (int c = thread_index(); c < dimension; c += thread_count()) scales[c] = near_scales[run * dimension + c];
    for (int c = thread_index(); c < many; c += thread_count()) scales[dimension + c] = seen_scales[run * many + c];
    sync_block();
    const int warp = thread_index() / WARP, first = share * warps + warp, p = 2 * dimension;
    if (first >= starts) return;
    const long long at = (long long)run * starts + first;
    const Way way = {dimension, many, points + at * p, outcomes + at * 2 * many, J + at * p * many, B + at * p * many,
                     trial + at * p, seen + at * 2 * many, slopes + at * p * many};
    objective.outputscale = outputscale[run], objective.least_variance = least_variance;
    objective.of_near = shares_of[2 * run], objective.of_seen = shares_of[2 * run + 1];
    objective.near_scales = scales, objective.seen_scales = scales + dimension;
    const int own = Straight::own_size(dimension, many, matern, n, columns) + 12 * p + p * p;
    Row row;
    double* box = row.place(objective.place(scales + dimension + many + warp * own), p);
    double value = values[at], radius = radii[at], promise = promises[at];
    bool has_ended = ended[at];
    // Minus EUBO of what was found: there no step is taken.
    objective.start = way.trial, objective.outcomes = way.seen, objective.J = way.slopes, objective.B = way.B;
    for (int j = lane(); j < p; j += WARP) row.x[j] = way.trial[j];
    sync_warp();
    const double found = objective(row.x, row.g);
    if (moves) {
        const double gain = (value - found) / fmax(promise, 2.2250738585072014e-308), step = way.length();
        const bool gained = gain > sufficient && !has_ended;
        const Trust rules = {least_radius, poor, good, shorter, longer, least_step};
        if (!has_ended) radius = believed(rules, gain, step, radius);
        way.learn(bends, gained || !bends, gained, least_step);
        if (gained) value = found;
    } else {
        value = found;
    }
    if (solves) promise = 0.0;
    if (solves && !has_ended) {
        const double *least = low + at * p, *most = high + at * p;
        for (int j = lane(); j < p; j += WARP) {
            row.x[j] = way.points[j];
            box[j] = clamped(way.points[j] - radius, least[j], most[j]);
            box[p + j] = clamped(way.points[j] + radius, least[j], most[j]);
        }
        row.low = box, row.high = box + p;
        objective.start = way.points, objective.outcomes = way.outcomes, objective.J = way.J;
        const Limits limits = {small, decrease, longest, sufficient, shortest, rounds};
        sync_warp();
        promise = value - descend<Warp>(objective, row, limits).value;
        has_ended = promise <= decrease || radius < least_radius;
    }
    for (int j = lane(); j < p; j += WARP) way.trial[j] = solves && !has_ended ? row.x[j] : way.points[j];
    sync_warp();
    if (lane() == 0) {
        // A look that the start had not ended before.
        looks[at] += moves && !ended[at];
        values[at] = value, radii[at] = radius, promises[at] = promise, ended[at] = has_ended;
    }
}
