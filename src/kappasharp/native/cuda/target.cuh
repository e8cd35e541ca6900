// What the kernels need of CUDA; cpu/target.hpp has the same names for the CPU, so the kernels themselves hold no CUDA
// word and no #ifdef. tests/reference/twin.hpp plays a block's threads by this machine's.
#define DEVICE static __device__ __forceinline__
#define METHOD __device__ __forceinline__
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
#define UNROLL _Pragma("unroll")
#define UNROLL_2 _Pragma("unroll 2")
#define SHARED(name) extern __shared__ double name[]
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)
// A number that the kernel is compiled for; what the launch says of it is not read.
#define NUMBER(constant) Fixed<constant>
// Where H, which is symmetric, has its entry (k, i): threads side by side have neighbouring i.
#define IN_H(k, i, p) ((k) * (p) + (i))
// Loops that the CPU takes by vectors.
#define VECTORS
#define VECTORS_SUM
#define VECTORS_OF_TWO(one, other)
constexpr int WARP = 32;

template <int VALUE>
struct Fixed {
    METHOD Fixed(int = 0) {}
    METHOD constexpr operator int() const { return VALUE; }
};

DEVICE int thread_index() { return threadIdx.x; }
DEVICE int thread_count() { return blockDim.x; }
DEVICE int block_index() { return blockIdx.x; }
DEVICE void sync_block() { __syncthreads(); }
DEVICE void sync_warp() { __syncwarp(); }
DEVICE double from_lane_xor(double value, int offset) { return __shfl_xor_sync(0xffffffffu, value, offset); }

constexpr double INVERSE_SQRT_2 = 0.70710678118654752440;
constexpr double SQRT_2_OVER_PI = 0.79788456080286535588;
DEVICE double hazard(double z) { return SQRT_2_OVER_PI / erfcx(-INVERSE_SQRT_2 * z); }
