// Dropout with the mask of backend/counter.py: element n is kept if its random bits are at least the threshold.
//
// Trade-offs: see counter.cuh.

#include "common.cuh"
#include "counter.cuh"

template <typename Number>
__global__ void dropout(const Number *x, Number *y, int size, DROPOUT) {
    typedef Wide<Number> T;
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < size; n += gridDim.x * blockDim.x)
        y[n] = dropped_out(T(x[n]), n, low, high, threshold, factor);
}
