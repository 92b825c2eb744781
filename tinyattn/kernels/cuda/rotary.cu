// Rotary positions: each pair (x_i, x_{i + half}) of a row is rotated by the angle of its position. See ops/rotary.py.
//
// Trade-offs: a thread per pair; the tables are read from the cache of the GPU.

#include "common.cuh"

// Row r of x has the position (r / heads) % length; heads is 1 if neighboring rows have neighboring positions.
// direction = -1 rotates back, for the backward pass.
template <typename Number>
__global__ void rotary(const Number *x, Number *y, int pairs, const Number *cosine, const Number *sine, int half,
                       int heads, int length, int direction) {
    typedef Wide<Number> T;
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < pairs; n += gridDim.x * blockDim.x) {
        int row = n / half, i = n % half;
        int position = row / heads % length;
        T c = cosine[position * half + i], s = T(sine[position * half + i]) * direction;
        long long first = 2ll * row * half + i;
        T x1 = x[first], x2 = x[first + half];
        y[first] = x1 * c - x2 * s;
        y[first + half] = x1 * s + x2 * c;
    }
}
