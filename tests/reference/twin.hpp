// The names of kernels/cuda/target.cuh for an ordinary C++ compiler: a block is one thread of this program, or several that
// meet at barriers, so that a missing barrier shows as a wrong number (or to a thread sanitizer).
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <thread>
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
#define VECTORS_OF_TWO(one, other)
constexpr int WARP = LANES;

template <int VALUE>
struct Fixed {
    METHOD Fixed(int = 0) {}
    METHOD constexpr operator int() const { return VALUE; }
};

struct Context {
    int thread = 0, threads = 1, block = 0;
    double *memory = nullptr, *exchange = nullptr;
    std::barrier<>*of_block = nullptr, *of_warp = nullptr;
};
static thread_local Context context;

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

constexpr double GUARD = 1.2345678e300;

// Runs a kernel: block after block, each block's threads side by side. False where one wrote past its shared memory.
template <class Body>
static bool launch(int blocks, int threads, int bytes, Body body) {
    const int size = bytes / sizeof(double);
    bool intact = true;
    for (int block = 0; block < blocks; block++) {
        // Shared memory starts as noise; what is read before it is written must show.
        std::vector<double> memory(size + 8, std::nan("")), exchange(threads);
        std::fill(memory.begin() + size, memory.end(), GUARD);
        std::barrier<> of_block(threads);
        std::vector<std::unique_ptr<std::barrier<>>> of_warp;
        for (int w = 0; w < threads / WARP; w++) of_warp.push_back(std::make_unique<std::barrier<>>(WARP));
        const auto one = [&](int thread) {
            context = {thread, threads, block, memory.data(), exchange.data(), threads > 1 ? &of_block : nullptr,
                       of_warp[thread / WARP].get()};
            body();
            if (threads > 1) of_block.arrive_and_drop();
        };
        if (threads == 1) {
            one(0);
        } else {
            std::vector<std::thread> team;
            for (int t = 0; t < threads; t++) team.emplace_back(one, t);
            for (auto& t : team) t.join();
        }
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
