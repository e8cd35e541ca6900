// The names of cuda/target.cuh for one thread of an ordinary processor: a block is one thread, a barrier nothing. Loops
// over neighbouring numbers are marked for the compiler's vectors.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

using std::erfc, std::exp, std::fabs, std::fmax, std::log, std::log1p, std::sqrt;

#define DEVICE static inline
// What loops by vectors call: a call would keep them from it.
#define WITHIN static inline __attribute__((always_inline))
#define METHOD inline
#define KERNEL static void
#define UNROLL
#define SHARED(name) double* name = context.memory
#define INFINITE std::numeric_limits<double>::infinity()
#define NUMBER(constant) int
#define IN_H(k, i, p) ((i) * (p) + (k))
#define VECTORS _Pragma("omp simd")
// Of a loop that adds to `sum`.
#define VECTORS_SUM _Pragma("omp simd reduction(+ : sum)")
#define VECTORS_SUMS _Pragma("omp simd reduction(+ : s_0, s_1, s_2, s_3)")
#define IN_WORDS(text) _Pragma(#text)
#define VECTORS_OF_TWO(one, other) IN_WORDS(omp simd reduction(+ : one, other))
constexpr int WARP = 1;

// Neighbouring numbers in one register: as many as this processor has room for, as GCC and Clang both know them.
#if defined(__AVX512F__)
constexpr int ACROSS = 8;
#elif defined(__AVX__)
constexpr int ACROSS = 4;
#else
constexpr int ACROSS = 2;
#endif
// How many of them are worked on side by side, so that with the eight rows of a panel all registers are used.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int ABREAST = 2;
#else
constexpr int ABREAST = 1;
#endif
typedef double Numbers __attribute__((vector_size(8 * ACROSS)));
#define UNROLL_ALL _Pragma("GCC unroll 25")

struct Context {
    int block;
    double* memory;
};
static thread_local Context context;

DEVICE int thread_index() { return 0; }
DEVICE int thread_count() { return 1; }
DEVICE int block_index() { return context.block; }
DEVICE void sync_block() {}
DEVICE void sync_warp() {}
DEVICE double from_lane_xor(double value, int) { return value; }

// exp for x <= 0 to one unit in the last place, in operations that vectors have: x = n log 2 + r, |r| <= log(2)/2, and
// exp r by its series. Below -708 it is exp(-708), 3e-308.
WITHIN double exp_negative(double x) {
    x = x < -708.0 ? -708.0 : x;
    const double n = __builtin_rint(x * 1.44269504088896340736);
    const double r = std::fma(n, -1.90821492927058770002e-10, std::fma(n, -6.93147180369123816490e-01, x));
    double sum = 1.0 / 6227020800.0;
    sum = std::fma(sum, r, 1.0 / 479001600.0);
    sum = std::fma(sum, r, 1.0 / 39916800.0);
    sum = std::fma(sum, r, 1.0 / 3628800.0);
    sum = std::fma(sum, r, 1.0 / 362880.0);
    sum = std::fma(sum, r, 1.0 / 40320.0);
    sum = std::fma(sum, r, 1.0 / 5040.0);
    sum = std::fma(sum, r, 1.0 / 720.0);
    sum = std::fma(sum, r, 1.0 / 120.0);
    sum = std::fma(sum, r, 1.0 / 24.0);
    sum = std::fma(sum, r, 1.0 / 6.0);
    sum = std::fma(sum, r, 0.5);
    sum = std::fma(sum, r, 1.0);
    sum = std::fma(sum, r, 1.0);
    // 2^n: n is the lowest bits of n + 1.5 * 2^52.
    const double shifted = n + 6755399441055744.0;
    std::uint64_t bits;
    std::memcpy(&bits, &shifted, 8);
    bits = (bits + 1023) << 52;
    double power;
    std::memcpy(&power, &bits, 8);
    return sum * power;
}

// exp(a^2) erfc(a) for a >= 0 is a polynomial in (a - 4)/(a + 4) over 1 + 2a (after Shepherd and Laframboise 1981; by
// Chebyshev interpolation in 40 digits): even powers and odd ones side by side, without a loop, which would keep the one
// around it from vectors.
WITHIN double scaled_erfc(double a) {
    const double q = (a - 4.0) / (a + 4.0), square = q * q;
    double even = -2.659599690247243e-10, odd = 9.311744978233986e-10;
    even = std::fma(even, square, 3.1695881915677687e-09), odd = std::fma(odd, square, -1.2346866043824214e-08);
    even = std::fma(even, square, -2.056064927570754e-08), odd = std::fma(odd, square, 1.063385561859502e-07);
    even = std::fma(even, square, 7.746992727019289e-08), odd = std::fma(odd, square, -8.210939042560581e-07);
    even = std::fma(even, square, 2.919733377962875e-07), odd = std::fma(odd, square, 5.706604414895734e-06);
    even = std::fma(even, square, -1.1221287012353476e-05), odd = std::fma(odd, square, -2.4397746422436416e-05);
    even = std::fma(even, square, 0.0001506214900124047), odd = std::fma(odd, square, -0.00019925714661091188);
    even = std::fma(even, square, -0.0007577732613730956), odd = std::fma(odd, square, 0.005031970067657489);
    even = std::fma(even, square, -0.016197734059799265), odd = std::fma(odd, square, 0.03716751552655567);
    even = std::fma(even, square, -0.06633036581218697), odd = std::fma(odd, square, 0.0937328349990944);
    even = std::fma(even, square, -0.10103906603630056), odd = std::fma(odd, square, 0.06809705425466908);
    even = std::fma(even, square, 0.015379652102619604), odd = std::fma(odd, square, -0.1396211168405623);
    return std::fma(std::fma(even, q, odd), q, 1.2329951186255526);
}

// exp(x^2) erfc(x); below zero 2 exp(x^2) minus that of -x, the square's rounding carried along.
DEVICE double erfcx(double x) {
    const double a = fabs(x), above = scaled_erfc(a) / (1.0 + 2.0 * a), square = x * x, rest = std::fma(x, x, -square);
    return x >= 0.0 ? above : 2.0 * exp(square) * (1.0 + rest) - above;
}

constexpr double INVERSE_SQRT_2 = 0.70710678118654752440;
constexpr double SQRT_2_OVER_PI = 0.79788456080286535588;

// The standard normal's density over its distribution function, without a branch, so that vectors have it: for a = |z|
// over the root of 2 that is c/erfcx(a) below zero, above it c exp(-a^2)/(2 - exp(-a^2) erfcx(a)), in one quotient.
WITHIN double hazard(double z) {
    const double a = INVERSE_SQRT_2 * fabs(z), square = 0.5 * z * z, times = 1.0 + 2.0 * a, sum = scaled_erfc(a);
    const double power = exp_negative(-square), falling = square > 708.0 ? 0.0 : power, above = 2.0 * times - falling * sum;
    return SQRT_2_OVER_PI * times * (z > 0.0 ? falling : 1.0) / (z > 0.0 ? above : sum);
}

DEVICE Numbers load(const double* from) {
    Numbers all;
    std::memcpy(&all, from, sizeof all);
    return all;
}

DEVICE void store(double* to, const Numbers& all) { std::memcpy(to, &all, sizeof all); }

// What is subtracted is nothing: so both compilers know it for one number in all places.
DEVICE Numbers repeated(double one) { return one - Numbers{}; }

DEVICE double sum_of(const Numbers& all) {
    double one[ACROSS];
    store(one, all);
    for (int half = ACROSS / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) one[i] += one[i + half];
    }
    return one[0];
}

// sum += a b over n neighbours, in four sums side by side.
DEVICE double dot(const double* a, const double* b, int n) {
    Numbers sums[4] = {};
    int i = 0;
    for (; i + 4 * ACROSS <= n; i += 4 * ACROSS) {
        UNROLL_ALL for (int c = 0; c < 4; c++) sums[c] += load(a + i + c * ACROSS) * load(b + i + c * ACROSS);
    }
    for (; i + ACROSS <= n; i += ACROSS) sums[0] += load(a + i) * load(b + i);
    double sum = sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
}

// y += c x over n neighbours.
DEVICE void add_one(double* __restrict__ y, double c, const double* x, int n) {
    VECTORS for (int j = 0; j < n; j++) y[j] += c * x[j];
}

// y += c_0 x_0 + … over n neighbours, four vectors at a time: each y is read and written once for four products.
DEVICE void add_four(double* __restrict__ y, const double (&c)[4], const double* x, int ld, int n) {
    const double *x_1 = x + ld, *x_2 = x_1 + ld, *x_3 = x_2 + ld;
    VECTORS for (int j = 0; j < n; j++) y[j] = y[j] + c[0] * x[j] + c[1] * x_1[j] + c[2] * x_2[j] + c[3] * x_3[j];
}
