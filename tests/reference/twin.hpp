// The names of kernels/cuda/target.cuh for an ordinary C++ compiler. A block's threads take turns: each runs until it
// waits for others, every other round in the opposite order. So a thread is as far ahead of its neighbours as it can be
// without a barrier, and a missing one that matters to the result shows as a wrong number, the same every time.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <ucontext.h>
#include <utility>
#include <vector>

using std::abs, std::erfc, std::exp, std::fabs, std::fmax, std::log, std::log1p, std::sqrt;

#define DEVICE static inline
#define METHOD inline
#define KERNEL static void
#define UNROLL
#define UNROLL_2
#define SHARED(name) double* name = context.memory
#define INFINITE std::numeric_limits<double>::infinity()
#ifndef LANES
#define LANES 1
#endif
#define NUMBER(constant) Fixed<constant>
#define IN_H(k, i, p) ((k) * (p) + (i))
#define VECTORS
#define VECTORS_SUM
#define VECTORS_OF_TWO(one, other)
constexpr int WARP = LANES;

template <int VALUE>
struct Fixed {
    METHOD Fixed(int = 0) {}
    METHOD constexpr operator int() const { return VALUE; }
};

static void give_way();
static long opened;

// What threads wait at for each other.
struct Barrier {
    int members, arrived = 0;
    long round = 0;

    void open_if_complete() {
        if (arrived == members) arrived = 0, round++, opened++;
    }
    void arrive_and_wait() {
        const long now = round;
        arrived++;
        open_if_complete();
        while (round == now) give_way();
    }
    void leave() {
        members--;
        open_if_complete();
    }
};

struct Context {
    int thread = 0, threads = 1, block = 0;
    double *memory = nullptr, *exchange = nullptr;
    Barrier *of_block = nullptr, *of_warp = nullptr;
};
static Context context;

// A thread's own stack and place, and whether it has ended.
struct Player {
    ucontext_t at;
    std::vector<char> stack = std::vector<char>(1 << 18);
    bool ended = false;
};
static ucontext_t referee;
static Player* playing;
static void (*play)();

static void give_way() {
    const Context own = context;
    swapcontext(&playing->at, &referee);
    context = own;
}

static void begin() {
    play();
    playing->ended = true;
}

DEVICE int thread_index() { return context.thread; }
DEVICE int thread_count() { return context.threads; }
DEVICE int block_index() { return context.block; }
DEVICE void sync_block() {
    if (context.of_block) context.of_block->arrive_and_wait();
}
DEVICE void sync_warp() {
    if (WARP > 1) context.of_warp->arrive_and_wait();
}
DEVICE double from_lane_xor(double value, int offset) {
    context.exchange[context.thread] = value;
    sync_warp();
    const double other = context.exchange[context.thread ^ offset];
    sync_warp();
    return other;
}

DEVICE double rsqrt(double x) { return 1.0 / sqrt(x); }

// exp(x^2) erfc(x), the square's rounding carried along; its asymptotic series where erfc would underflow.
DEVICE double erfcx(double x) {
    const double square = x * x, rest = std::fma(x, x, -square);
    if (x < 25.0) return exp(square) * erfc(x) * (1.0 + rest);
    double term = 1.0, sum = 1.0;
    for (int k = 1; k < 12; k++) term *= -(2 * k - 1) / (2.0 * square), sum += term;
    return sum * 0.56418958354775628695 / x;
}

constexpr double INVERSE_SQRT_2 = 0.70710678118654752440;
constexpr double SQRT_2_OVER_PI = 0.79788456080286535588;
DEVICE double hazard(double z) { return SQRT_2_OVER_PI / erfcx(-INVERSE_SQRT_2 * z); }

constexpr double GUARD = 1.2345678e300;

// Every thread's turns, until all have ended. Where none can go on, they wait at different barriers.
template <class One>
static void take_turns(int threads, const One& one) {
    static const One* each;
    static int next;
    each = &one, next = 0;
    play = [] { (*each)(next); };
    std::vector<Player> players(threads);
    for (auto& player : players) {
        getcontext(&player.at);
        player.at.uc_stack.ss_sp = player.stack.data(), player.at.uc_stack.ss_size = player.stack.size();
        player.at.uc_link = &referee;
        makecontext(&player.at, begin, 0);
    }
    for (int left = threads, round = 0; left; round++) {
        const long before = opened - left;
        for (int i = 0; i < threads; i++) {
            next = round % 2 ? threads - 1 - i : i;
            playing = &players[next];
            if (playing->ended) continue;
            swapcontext(&referee, &playing->at);
            left -= playing->ended;
        }
        if (opened - left == before) {
            std::fputs("no thread can go on: they wait at different barriers\n", stderr);
            std::abort();
        }
    }
}

// Runs a kernel: block after block, each block's threads in turns. False where one wrote past its shared memory.
template <class Body>
static bool launch(int blocks, int threads, int bytes, Body body) {
    const int size = bytes / sizeof(double);
    bool intact = true;
    for (int block = 0; block < blocks; block++) {
        // Shared memory starts as noise; what is read before it is written must show.
        std::vector<double> memory(size + 8, std::nan("")), exchange(threads);
        std::fill(memory.begin() + size, memory.end(), GUARD);
        Barrier of_block{threads};
        std::vector<Barrier> of_warp(threads / WARP, Barrier{WARP});
        const auto one = [&](int thread) {
            context = {thread, threads, block, memory.data(), exchange.data(), threads > 1 ? &of_block : nullptr,
                       &of_warp[thread / WARP]};
            body();
            if (threads > 1) of_block.leave();
        };
        threads == 1 ? one(0) : take_turns(threads, one);
        intact = intact && std::all_of(memory.begin() + size, memory.end(), [](double v) { return v == GUARD; });
    }
    return intact;
}

// As the driver does it: one pointer to each argument.
template <class... A, std::size_t... I>
static void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_const_t<A>*>(arguments[I])...);
}

template <class... A>
static bool run(void (*kernel)(A...), int blocks, int threads, int bytes, void** arguments) {
    return launch(blocks, threads, bytes, [&] { call(kernel, arguments, std::index_sequence_for<A...>{}); });
}
