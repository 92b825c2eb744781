// Sums over the rows of a matrix: a thread a column, and a row of blocks for each part of the rows.

#include "common.cuh"

template <typename Number, typename Result>
__global__ void column_sums(const Number *matrix, Result *sums, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    Wide<Number> total = 0;
    for (int row = blockIdx.y; row < rows; row += gridDim.y)
        total += Wide<Number>(matrix[(long long)row * columns + column]);
    sums[(long long)blockIdx.y * columns + column] = total;
}
