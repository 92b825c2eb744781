// Muon over flat storage: matrices of one shape are gathered into a stack, and the updates of the stack are applied to
// them. See optim/muon.py. cuBLAS computes the products in between.
//
// Element (r, c) of matrix n is at offsets[n] + r * row_step + c * column_step in the flat arrays; blockIdx.y is n.
//
// Trade-offs: squares are summed in double, where none of float32 overflows or underflows.

#include "common.cuh"

const int THREADS = 256;

// B = momentum B + G, and the direction U = G + momentum B (or B), with the partial sums of its squares, one per block.
template <typename Real>
__global__ void muon_directions(const Real *gradient, Real *momentum, const long long *offsets, Real *directions,
                                double *partial, int rows, int columns, int row_step, int column_step, double share,
                                int nesterov) {
    long long offset = offsets[blockIdx.y], start = (long long)blockIdx.y * rows * columns;
    double sum = 0;
    for (int n = blockIdx.x * THREADS + threadIdx.x; n < rows * columns; n += gridDim.x * THREADS) {
        long long place = offset + (long long)(n / columns) * row_step + (long long)(n % columns) * column_step;
        Real g = gradient[place];
        Real b = Real(share) * momentum[place] + g;
        momentum[place] = b;
        Real u = nesterov ? g + Real(share) * b : b;
        directions[start + n] = u;
        sum += double(u) * double(u);
    }
    sum = reduce<Sum, THREADS>(sum);
    if (threadIdx.x == 0) partial[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

// Divide each matrix by its norm.
template <typename Real>
__global__ void muon_normalize(Real *directions, const double *partial, int size) {
    double sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += partial[blockIdx.y * gridDim.x + i];
    double inverse = sum == 0 ? 1 : 1 / sqrt(sum);
    long long start = (long long)blockIdx.y * size;
    for (int n = blockIdx.x * THREADS + threadIdx.x; n < size; n += gridDim.x * THREADS)
        directions[start + n] = directions[start + n] * inverse;
}

// a I + b G + c G^2, from stacks of G and of G^2, in-place of the latter.
template <typename Real>
__global__ void muon_polynomial(const Real *gram, Real *square, int rows, int size, double a, double b, double c) {
    for (int n = blockIdx.x * THREADS + threadIdx.x; n < size; n += gridDim.x * THREADS) {
        Real diagonal = n / rows % rows == n % rows ? Real(a) : Real(0);
        square[n] = Real(c) * square[n] + Real(b) * gram[n] + diagonal;
    }
}

// W = decay W - rate U.
template <typename Real>
__global__ void muon_apply(Real *values, const long long *offsets, const Real *updates, int rows, int columns,
                           int row_step, int column_step, double decay, double rate) {
    long long offset = offsets[blockIdx.y], start = (long long)blockIdx.y * rows * columns;
    for (int n = blockIdx.x * THREADS + threadIdx.x; n < rows * columns; n += gridDim.x * THREADS) {
        long long place = offset + (long long)(n / columns) * row_step + (long long)(n % columns) * column_step;
        values[place] = values[place] * Real(decay) - Real(rate) * updates[start + n];
    }
}
