// Rotary positions: each pair (x_i, x_{i + half}) of a row turned by the angle of its position. See ops/rotary.py.

#include "common.cuh"

// Row r of x stands at the position (r / heads) % length: heads is 1 where neighboring rows are neighboring positions.
// Turned back, for the backward, with direction = -1.
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
