// Shared by several kernels: float16 in memory, the type of sums, reductions over the threads of a row, and faults.
//
// Trade-offs: float16 is defined here, so that kernels need no header of the CUDA toolkit, which CuPy runs without.

// A float16 number in memory; arithmetic is in float.
struct Half {
    unsigned short bits;

    Half() = default;
    __device__ Half(float value);
    __device__ operator float() const;
};

#ifdef SIMULATED
#include "half.h"
#else
__device__ inline Half::Half(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
__device__ inline Half::operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
#endif

// The type of arithmetic: double for double, float for the others.
template <typename Number>
struct WideOf {
    typedef float type;
};
template <>
struct WideOf<double> {
    typedef double type;
};
template <typename Number>
using Wide = typename WideOf<Number>::type;

#define INFINITE __int_as_float(0x7f800000)

// The largest finite number.
template <typename T>
__device__ inline T largest_finite() {
    return sizeof(T) == 4 ? T(3.4028234663852886e38) : T(1.7976931348623157e308);
}

struct Sum {
    template <typename T>
    static __device__ T of(T a, T b) { return a + b; }
};
struct Largest {
    template <typename T>
    static __device__ T of(T a, T b) { return a > b || a != a ? a : b; }  // NaN wins
};

// The sum or the maximum over the THREADS threads that share a row: 32, a warp, or all threads of the block. All of them
// must call, and all get the same result. Lanes exchange values in pairs at distances 16, 8, 4, 2, 1 (a butterfly).
template <typename Operation, int THREADS, typename T>
__device__ T reduce(T value) {
    for (int distance = 16; distance > 0; distance /= 2)
        value = Operation::of(value, __shfl_xor_sync(0xffffffffu, value, distance));
    if constexpr (THREADS > 32) {
        __shared__ T of_warp[THREADS / 32];
        __syncthreads();  // the values of the last reduction may still be read
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
        __syncthreads();
        value = of_warp[0];
        for (int warp = 1; warp < THREADS / 32; warp++) value = Operation::of(value, of_warp[warp]);
    }
    return value;
}

// 1 / sqrt(mean of squares) of a row whose squares overflow, where eps is negligible: the numbers are first divided by the
// largest one. Each thread has ITEMS of the row's numbers, and zeros beyond its end.
template <int THREADS, int ITEMS, typename T>
__device__ T inverse_of_large(const T (&kept)[ITEMS], int width) {
    T largest = 0;
    for (int i = 0; i < ITEMS; i++) largest = Largest::of(largest, kept[i] < 0 ? -kept[i] : kept[i]);
    largest = reduce<Largest, THREADS>(largest);
    T sum = 0;
    for (int i = 0; i < ITEMS; i++) sum += (kept[i] / largest) * (kept[i] / largest);
    return 1 / sqrt(reduce<Sum, THREADS>(sum) / width) / largest;
}

// Record the first index out of range: the kind of index, its value, and the bound. The host raises an error when it next
// reads a result: see faults.py.
__device__ inline void note_fault(int *fault, int kind, long long index, int limit) {
    if (atomicCAS(fault, 0, kind) == 0) {
        fault[1] = int(index);
        fault[2] = limit;
    }
}
