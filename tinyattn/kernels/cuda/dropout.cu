// Dropout under the mask of backend/counter.py: element n is kept if its random bits are at least the threshold.

#include "common.cuh"
#include "counter.cuh"

template <typename Number>
__global__ void dropout(const Number *x, Number *y, int size, unsigned low, unsigned high, unsigned threshold,
                        double scale) {
    typedef Wide<Number> T;
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < size; n += gridDim.x * blockDim.x)
        y[n] = random_bits(low, high, n) >= threshold ? T(x[n]) * T(scale) : T(0);
}
