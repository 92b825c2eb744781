// Sums over the rows of matrices: a thread for each column, and several blocks for parts of the rows.
//
// Trade-offs: see columns.py.

#include "common.cuh"

// A stack of matrices (gridDim.z, rows, columns) to sums (gridDim.y, stride), of which block (., y, z) computes the columns
// of matrix z over every gridDim.y-th row.
template <typename Number, typename Result>
__global__ void column_sums(const Number *matrix, Result *sums, int rows, int columns, int stride) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    matrix += (long long)blockIdx.z * rows * columns;
    Wide<Number> total = 0;
    for (int row = blockIdx.y; row < rows; row += gridDim.y)
        total += Wide<Number>(matrix[(long long)row * columns + column]);
    sums[(long long)blockIdx.y * stride + blockIdx.z * columns + column] = total;
}
