// The residual stream of a transformer block: x + D(y + b), with the output y of a branch, an optional bias b and
// dropout D. layer_norm.cu and rms_norm.cu compute the same in one pass with the next norm.
//
// Trade-offs: see residual.py.

#include "common.cuh"
#include "counter.cuh"
#include "rows.cuh"

template <typename Number>
__global__ void add_branch(const Number *x, const Number *branch, const Number *bias, Number *out, int size, int width,
                           DROPOUT) {
    typedef Wide<Number> T;
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < size; n += gridDim.x * blockDim.x)
        out[n] = T(x[n]) + branch_value(branch, bias, n, bias ? n % width : 0, low, high, threshold, factor);
}

// dy = D g to `dbranch`, if there is dropout, and its sums over the rows for the bias, if there is one: those of block
// (., y), which has every gridDim.y-th row, to row y of `partial`, which has `stride` columns.
template <typename Number>
__global__ void add_branch_backward(const Number *g, Number *dbranch, Wide<Number> *partial, int rows, int width,
                                    int stride, DROPOUT) {
    typedef Wide<Number> T;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    T total = 0;
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        int n = row * width + column;
        T value = dropped_out(T(g[n]), n, low, high, threshold, factor);
        if (dbranch) dbranch[n] = value;
        total += value;
    }
    if (partial) partial[(long long)blockIdx.y * stride + column] = total;
}
