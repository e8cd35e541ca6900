// What a program calls: the blocks one after another, with the arguments as the CUDA driver takes them.
template <class... A, std::size_t... I>
static void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_const_t<A>*>(arguments[I])...);
}

constexpr int DONE = 1, NO_MEMORY = 2, PAST_ITS_MEMORY = 3, FENCE = 8, LINE = 8;
constexpr double UNTOUCHED = 1.2345678e300;

template <class... A>
static int run(void (*kernel)(A...), int blocks, long long bytes, void** arguments) {
    const long long size = bytes / sizeof(double);
    const std::unique_ptr<double[]> whole(new (std::nothrow) double[size + FENCE + LINE]);
    if (!whole) return NO_MEMORY;
    double* memory = whole.get() + (LINE - reinterpret_cast<std::uintptr_t>(whole.get()) / sizeof(double) % LINE) % LINE;
    double* fence = memory + size;
    std::fill(fence, fence + FENCE, UNTOUCHED);
    for (int block = 0; block < blocks; block++) {
        context = {block, memory};
        call(kernel, arguments, std::index_sequence_for<A...>{});
    }
    return std::count(fence, fence + FENCE, UNTOUCHED) == FENCE ? DONE : PAST_ITS_MEMORY;
}

#define ENTRY __attribute__((visibility("default"))) int
extern "C" ENTRY run_evidence(int blocks, long long bytes, void** arguments) { return run(evidence, blocks, bytes, arguments); }
extern "C" ENTRY run_eubo(int blocks, long long bytes, void** arguments) { return run(eubo, blocks, bytes, arguments); }
extern "C" ENTRY run_straight(int blocks, long long bytes, void** arguments) { return run(straight, blocks, bytes, arguments); }
extern "C" ENTRY run_calibration(int blocks, long long bytes, void** arguments) { return run(calibration, blocks, bytes, arguments); }
extern "C" ENTRY run_laplace(int blocks, long long bytes, void** arguments) { return run(laplace, blocks, bytes, arguments); }
extern "C" ENTRY run_precision(int blocks, long long bytes, void** arguments) { return run(precision, blocks, bytes, arguments); }
extern "C" ENTRY run_shrunken(int blocks, long long bytes, void** arguments) { return run(shrunken, blocks, bytes, arguments); }
