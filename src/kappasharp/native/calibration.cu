// One run's search for the strength of its correction, one thread block a run: correction/strength.py and
// numerics/eigenvalues.py.
// What cannot be proved here is left to torch, and said.
constexpr double LOW_ACCURACY = 1e-8, HIGH_ACCURACY = 1e-6, EPSILON = 2.220446049250313e-16;
constexpr int LOW_STEPS = 60, FIRST_IMAGES = 10, MAX_SHIFTS = 16, SOLVES_PER_SHIFT = 4, SOLVES_AGAIN = 16, SOLVES = 3,
              MODEL_STEPS = 3, LOW_STARTS = 2;
constexpr double STRIDE = 3.0;

// What is known at one strength: the squares of the extreme vectors, their Rayleigh quotients with H alone.
struct Known {
    double *u, *v, *quotients;
};

struct Calibration {
    Matrices M;
    const double* a;
    double *r, *u, *v, *w, *pivots, *spare, *known;
    int count;

    METHOD double* place(double* memory) {
        const int n = M.m;
        r = M.place(memory), u = r + n, v = u + n, w = v + n, pivots = w + n, spare = pivots + M.room();
        return spare;
    }

    METHOD double inner(const double* x, const double* y) const {
        double sum = 0.0;
        for (int i = lane(); i < M.m; i += WARP) sum += x[i] * y[i];
        return lane_sum(sum);
    }

    // w = (H + R) x
    METHOD void image(const double* x) const {
        times_all(M, x, w);
        for (int i = thread_index(); i < M.m; i += thread_count()) w[i] += r[i] * x[i];
        sync_block();
    }

    // x = w / |w|; returns |w|.
    METHOD double take(double* x) const {
        const double length = sqrt(inner(w, w));
        for (int i = thread_index(); i < M.m; i += thread_count()) x[i] = w[i] / length;
        sync_block();
        return length;
    }

    // The Rayleigh quotient of x, and the length of its residual relative to it.
    METHOD double rayleigh(const double* x, double& distance) const {
        image(x);
        const double value = inner(x, w);
        double sum = 0.0;
        for (int i = lane(); i < M.m; i += WARP) sum += (w[i] - value * x[i]) * (w[i] - value * x[i]);
        distance = sqrt(lane_sum(sum)) / value;
        sync_block();
        return value;
    }

    METHOD bool ready(double sign, double shift) const { return prepare(M, sign, r, shift, pivots, spare); }

    // u becomes the vector of the smallest eigenvalue, by inverse iteration with what `ready` has made.
    // From the constant vector, or from one that swings.
    METHOD void settle_low(bool swings) const {
        for (int i = thread_index(); i < M.m; i += thread_count()) {
            const double turns = 0.6180339887498949 * (i + 1);
            u[i] = swings ? turns - static_cast<int>(turns) - 0.5 : 1.0;
        }
        sync_block();
        bool moving = true;
        for (int step = 0; moving && step < LOW_STEPS + 1; step++) {
            solve(M, pivots, u, w);
            const double along = inner(w, u), spread = 1.0 - along * along / (inner(w, w) * inner(u, u));
            sync_block();
            take(u);
            moving = step == 0 || !(spread <= LOW_ACCURACY);
        }
        improve_low(1);
    }

    METHOD void improve_low(int solves) const {
        for (int step = 0; step < solves; step++) solve(M, pivots, u, w), take(u);
    }

    // A rough vector of the largest eigenvalue, from the heaviest column.
    METHOD void begin_high() const {
        int heaviest = 0;
        for (int i = 1; i < M.m; i++) heaviest = diagonal(i) > diagonal(heaviest) ? i : heaviest;
        for (int i = thread_index(); i < M.m; i += thread_count()) v[i] = i == heaviest ? 1.0 : 0.0;
        sync_block();
        for (int step = 0; step < FIRST_IMAGES; step++) image(v), take(v);
    }

    METHOD double diagonal(int i) const { return entry_a(M, i); }

    // v and `value` become those of the largest eigenvalue; true where a factorization proves that none lies above.
    METHOD bool settle_high(double& value) const {
        double distance = 0.0;
        value = rayleigh(v, distance);
        double margin = distance;
        // Where an eigenvalue lies above the shift, v holds little of its vector: step further out, and then solve more.
        int solves = SOLVES_PER_SHIFT;
        for (int shift = 0; shift < MAX_SHIFTS; shift++) {
            margin = margin > 0.5 * HIGH_ACCURACY ? margin : 0.5 * HIGH_ACCURACY;
            if (!ready(-1.0, value * (1.0 + margin))) {
                margin *= 16.0, solves = SOLVES_AGAIN;
                continue;
            }
            if (margin <= HIGH_ACCURACY) return true;
            for (int step = 0; step < solves; step++) solve(M, pivots, v, w), take(v);
            value = rayleigh(v, distance);
            margin = distance;
        }
        return false;
    }

    METHOD bool proves_low(double low, double high) const {
        const double rounding = 16.0 * EPSILON * high, slack = 10.0 * LOW_ACCURACY * low;
        return ready(1.0, (rounding > slack ? rounding : slack) - low);
    }

    METHOD Known at(int index) const {
        double* start = known + index * (2 * M.m + 2);
        return {start, start + M.m, start + 2 * M.m};
    }

    METHOD void remember(double low, double high) {
        const Known here = at(count++);
        double of_u = 0.0, of_v = 0.0;
        for (int i = lane(); i < M.m; i += WARP) of_u += u[i] * u[i] * r[i], of_v += v[i] * v[i] * r[i];
        of_u = low - lane_sum(of_u), of_v = high - lane_sum(of_v);
        for (int i = thread_index(); i < M.m; i += thread_count()) here.u[i] = u[i] * u[i], here.v[i] = v[i] * v[i];
        if (thread_index() == 0) here.quotients[0] = of_u, here.quotients[1] = of_v;
        sync_block();
    }

    // The condition number as the last point's model has it at another strength.
    METHOD double modelled(double eta) const {
        const Known here = at(count - 1);
        double low = 0.0, high = 0.0;
        for (int i = lane(); i < M.m; i += WARP) {
            const double one = eta * eta / (eta + a[i]);
            low += here.u[i] * one, high += here.v[i] * one;
        }
        return (here.quotients[1] + lane_sum(high)) / (here.quotients[0] + lane_sum(low));
    }

    // Where the last point's model of the condition number meets the target: Newton's method on log kappa over log eta.
    // The model touches at the point; by `bend` times the square of the distance from there it is too low.
    METHOD double model_root(double eta, double bend, double target, double least, double most) const {
        const Known here = at(count - 1);
        const double begin = log(eta);
        for (int step = 0; step < MODEL_STEPS; step++) {
            double low = 0.0, high = 0.0, low_growth = 0.0, high_growth = 0.0;
            for (int i = lane(); i < M.m; i += WARP) {
                const double whole = eta + a[i], one = eta * eta / whole, growth = one * (eta + 2.0 * a[i]) / whole;
                low += here.u[i] * one, high += here.v[i] * one;
                low_growth += here.u[i] * growth, high_growth += here.v[i] * growth;
            }
            low = here.quotients[0] + lane_sum(low), high = here.quotients[1] + lane_sum(high);
            const double away = log(eta) - begin;
            const double slope = lane_sum(high_growth) / high - lane_sum(low_growth) / low + 2.0 * bend * away;
            const double gap = log(high / (low * target)) + bend * away * away;
            eta *= exp(clamped(-gap / (slope < -1e-12 ? slope : -1e-12), -STRIDE, STRIDE));
        }
        return clamped(eta, least, most);
    }

    // Whether every strength of the grid before eta is proved to miss the target by one of the points.
    METHOD bool is_first(double eta, double target, const double* grid, int size) const {
        double missed = 0.0;
        for (int g = thread_index(); g < size && grid[g] < eta; g += thread_count()) {
            double low = INFINITE, high = 0.0;
            for (int p = 0; p < count; p++) {
                const Known here = at(p);
                double of_u = 0.0, of_v = 0.0;
                VECTORS_OF_TWO(of_u, of_v) for (int i = 0; i < M.m; i++) {
                    const double one = grid[g] * grid[g] / (grid[g] + a[i]);
                    of_u += here.u[i] * one, of_v += here.v[i] * one;
                }
                of_u += here.quotients[0], of_v += here.quotients[1];
                low = of_u < low ? of_u : low, high = of_v > high ? of_v : high;
            }
            if (!(high / low > target)) missed = 1.0;
        }
        return everybody(missed == 0.0);
    }

    // Whether it is true of all threads of the block; uses `spare`.
    METHOD bool everybody(bool mine) const {
        const double own = lane_max(mine ? 0.0 : 1.0);
        if (lane() == 0) spare[thread_index() / WARP] = own;
        sync_block();
        double worst = 0.0;
        for (int i = 0; i < thread_count() / WARP; i++) worst = larger(worst, spare[i]);
        sync_block();
        return worst == 0.0;
    }
};

KERNEL calibration(const double* H, const double* prior, const double* grid, double* known, double* eta, double* before,
                   double* after, int* sure, int n, int size, int rounds, double exponent, double accuracy, double least) {
    SHARED(memory);
    const long long at = block_index();
    Calibration search;
    search.M.m = n;
    search.place(memory);
    search.a = prior + at * n, search.known = known + at * (rounds + 1) * (2 * n + 2), search.count = 0;
    hold(search.M, H + at * n * n, 1.0);
    for (int i = thread_index(); i < n; i += thread_count()) search.r[i] = 0.0;
    sync_block();
    double strength = 1.0, low = 0.0, high = 0.0, kappa = 0.0, distance = 0.0, first = 0.0, bend = 0.0;
    search.begin_high();
    bool proved = search.settle_high(high), lowest = false;
    for (int start = 0; proved && !lowest && start < LOW_STARTS; start++) {
        proved = search.ready(1.0, 0.0);
        if (!proved) break;
        search.settle_low(start > 0);
        low = search.rayleigh(search.u, distance);
        lowest = search.proves_low(low, high);
    }
    proved = proved && lowest;
    if (proved) search.remember(low, high);
    first = kappa = high / low;
    const double target = exp((1.0 - exponent) * log(first));
    bool done = !proved;
    if (proved && kappa <= target) strength = 0.0, done = true;
    for (int round = 0; !done && round < rounds; round++) {
        const double strength_before = strength, kappa_before = kappa;
        strength = search.model_root(strength, bend, target, least, grid[size - 1]);
        sync_block();
        for (int i = thread_index(); i < n; i += thread_count())
            search.r[i] = strength * strength / (strength + search.a[i]);
        sync_block();
        proved = search.ready(1.0, 0.0);
        if (!proved) break;
        search.improve_low(SOLVES);
        low = search.rayleigh(search.u, distance), high = search.rayleigh(search.v, distance);
        if (fabs(high / low / target - 1.0) <= accuracy) {
            proved = search.settle_high(high) && search.proves_low(low, high);
            if (!proved) break;
        }
        search.remember(low, high);
        kappa = high / low;
        const double away = log(strength_before / strength);
        bend = round > 0 && away != 0.0 ? log(kappa_before / search.modelled(strength_before)) / (away * away) : 0.0;
        done = fabs(kappa / target - 1.0) <= accuracy;
        if (done) proved = search.is_first(strength, target, grid, size);
    }
    if (thread_index() == 0) eta[at] = strength, before[at] = first, after[at] = kappa, sure[at] = proved && done;
}
