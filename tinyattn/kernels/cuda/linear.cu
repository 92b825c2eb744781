// The bias of a linear layer, added to every row of the product.
//
// Trade-offs: matmul of CuPy does not add a bias, so that the product is read and written once more.

#include "common.cuh"

template <typename Number>
__global__ void add_bias(Number *y, const Number *bias, int size, int width) {
    typedef Wide<Number> T;
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < size; n += gridDim.x * blockDim.x)
        y[n] = T(y[n]) + T(bias[n % width]);
}
