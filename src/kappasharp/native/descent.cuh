// Quasi-Newton minimisation of one row in a box, by one team of threads: numerics/quasi_newton.py, round by round.
//
// A team is a block or a warp. Sums over a shared vector are taken by every warp for itself, all in the same order, so
// that every thread of the team decides alike and no barrier is needed for it.

DEVICE double lane_sum(double value) {
    for (int offset = WARP / 2; offset > 0; offset /= 2) value += from_lane_xor(value, offset);
    return value;
}

// NaN wins, as in torch.
DEVICE double larger(double a, double b) { return a > b || a != a ? a : b; }

DEVICE double lane_max(double value) {
    for (int offset = WARP / 2; offset > 0; offset /= 2) value = larger(value, from_lane_xor(value, offset));
    return value;
}

DEVICE int lane() { return thread_index() % WARP; }

DEVICE double clamped(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

struct Block {
    METHOD static int rank() { return thread_index(); }
    METHOD static int size() { return thread_count(); }
    METHOD static void sync() { sync_block(); }
};

struct Warp {
    METHOD static int rank() { return lane(); }
    METHOD static int size() { return WARP; }
    METHOD static void sync() { sync_warp(); }
};

struct Limits {
    double gradient, decrease, longest, sufficient, shortest;
    int rounds;
};

struct Ended {
    double value;
    int converged, rounds;
};

// The vectors of one row, in memory that its team shares: ten of length p, and H.
struct Row {
    int p;
    double *x, *g, *trial, *g_trial, *direction, *projected, *open, *s, *y, *Hy, *H;
    const double *low, *high;

    METHOD double* place(double* memory, int length) {
        p = length;
        x = memory, g = x + p, trial = g + p, g_trial = trial + p, direction = g_trial + p;
        projected = direction + p, open = projected + p, s = open + p, y = s + p, Hy = y + p, H = Hy + p;
        return H + p * p;
    }
};

DEVICE double times_H(const Row& row, const double* v, int i) {
    double even = 0.0, odd = 0.0;
    int k = 0;
    for (; k + 1 < row.p; k += 2) {
        even += row.H[IN_H(k, i, row.p)] * v[k];
        odd += row.H[IN_H(k + 1, i, row.p)] * v[k + 1];
    }
    return k < row.p ? even + odd + row.H[IN_H(k, i, row.p)] * v[k] : even + odd;
}

// BFGS: H <- c H + u v' + v u', with c the scale that the first update sets. False where the curvature is not positive.
template <class Team>
DEVICE bool learn(Row& row, bool first) {
    const int p = row.p;
    double sy = 0.0, yy = 0.0;
    for (int i = lane(); i < p; i += WARP) sy += row.s[i] * row.y[i], yy += row.y[i] * row.y[i];
    sy = lane_sum(sy), yy = lane_sum(yy);
    if (!(sy > 1e-10 * yy)) return false;
    const double rho = 1.0 / fmax(sy, 2.2250738585072014e-308), scale = first ? sy / yy : 1.0;
    for (int i = Team::rank(); i < p; i += Team::size()) row.Hy[i] = scale * times_H(row, row.y, i);
    Team::sync();
    double yHy = 0.0;
    for (int i = lane(); i < p; i += WARP) yHy += row.y[i] * row.Hy[i];
    const double half = 0.5 + 0.5 * rho * lane_sum(yHy);
    for (int e = Team::rank(); e < p * p; e += Team::size()) {
        const int i = e / p, j = e % p;
        const double u_i = rho * row.s[i], u_j = rho * row.s[j];
        const double v_i = half * row.s[i] - row.Hy[i], v_j = half * row.s[j] - row.Hy[j];
        row.H[e] = scale * row.H[e] + u_i * v_j + v_i * u_j;
    }
    return true;
}

// The factor that minimises the parabola through what is known, kept in [0.1, 0.5].
DEVICE double shrink(double f, double f_trial, double promise) {
    const double parabola = -0.5 * promise / (f_trial - f - promise);
    return parabola > 0.1 ? (parabola < 0.5 ? parabola : 0.5) : 0.1;
}

// Projected gradient and direction at x; true where the row has converged.
template <class Team>
DEVICE bool aim(Row& row, const Limits& limits, int updates) {
    const int p = row.p;
    for (int i = Team::rank(); i < p; i += Team::size()) {
        const double room = row.g[i] > 0.0 ? row.x[i] - row.low[i] : row.high[i] - row.x[i];
        row.open[i] = room > 0.0 ? 1.0 : 0.0;
        row.projected[i] = row.g[i] * row.open[i];
    }
    Team::sync();
    for (int i = Team::rank(); i < p; i += Team::size())
        row.direction[i] = times_H(row, row.projected, i) * row.open[i];
    Team::sync();
    double largest = 0.0, length = 0.0, slope = 0.0;
    for (int i = lane(); i < p; i += WARP) {
        largest = larger(largest, fabs(row.projected[i]));
        length = larger(length, fabs(row.direction[i]));
        slope += row.direction[i] * row.projected[i];
    }
    largest = lane_max(largest), length = lane_max(length);
    const double factor = length <= limits.longest ? -1.0 : -(limits.longest / length);
    slope = lane_sum(slope) * factor;
    Team::sync();
    for (int i = Team::rank(); i < p; i += Team::size()) row.direction[i] *= factor;
    return largest <= limits.gradient || (-0.5 * slope <= limits.decrease && updates >= 2);
}

// After a trial: true where it descends enough; s and y are then the step and the change of the gradient.
template <class Team>
DEVICE bool descends(Row& row, double f, double f_trial, double sufficient, double& promise) {
    promise = 0.0;
    for (int i = lane(); i < row.p; i += WARP) promise += row.g[i] * (row.trial[i] - row.x[i]);
    promise = lane_sum(promise);
    for (int i = Team::rank(); i < row.p; i += Team::size()) {
        row.s[i] = row.trial[i] - row.x[i];
        row.y[i] = (row.g_trial[i] - row.g[i]) * row.open[i];
    }
    Team::sync();
    return f_trial <= f + sufficient * promise;
}

// From the start in row.x. The objective takes (trial, g_trial) and returns the value, to every thread the same.
template <class Team, class Objective>
DEVICE Ended descend(Objective& objective, Row& row, const Limits& limits) {
    const int p = row.p;
    for (int i = Team::rank(); i < p; i += Team::size()) row.trial[i] = clamped(row.x[i], row.low[i], row.high[i]);
    for (int e = Team::rank(); e < p * p; e += Team::size()) row.H[e] = e / p == e % p ? 1.0 : 0.0;
    double f = INFINITE, step = 1.0;
    int updates = 0;
    bool converged = false;
    for (int rounds = 0;; rounds++) {
        Team::sync();
        const double f_trial = objective(row.trial, row.g_trial);
        double promise = 0.0;
        const bool moves = rounds == 0 || descends<Team>(row, f, f_trial, limits.sufficient, promise);
        if (moves) {
            if (rounds > 0) updates += learn<Team>(row, updates == 0);
            f = f_trial, step = 1.0;
            Team::sync();
            for (int i = Team::rank(); i < p; i += Team::size()) row.x[i] = row.trial[i], row.g[i] = row.g_trial[i];
        } else {
            step *= shrink(f, f_trial, promise);
        }
        Team::sync();
        if (moves) converged = aim<Team>(row, limits, updates);
        if (converged || step < limits.shortest || rounds == limits.rounds) {
            return {f, converged && fabs(f) < INFINITE, rounds};
        }
        for (int i = Team::rank(); i < p; i += Team::size())
            row.trial[i] = clamped(row.x[i] + step * row.direction[i], row.low[i], row.high[i]);
    }
}
