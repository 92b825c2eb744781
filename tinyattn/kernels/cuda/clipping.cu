// The norm of all gradients as one vector, and the gradients scaled to a norm of at most max_norm.
//
// Trade-offs: sums of squares are in double, where no square of a float32 overflows or underflows; the rule
// computes float64.

#include "common.cuh"

const int THREADS = 256;

// The partial sum of squares of each block, to the element of its index.
template <typename Number>
__global__ void sum_of_squares(const Number *gradient, double *partial, int size) {
    double sum = 0;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < size; i += gridDim.x * THREADS) {
        double value = Wide<Number>(gradient[i]);
        sum += value * value;
    }
    sum = reduce<Sum, THREADS>(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// In one block: the norm, and the factor min(1, max_norm / (norm + 1e-6)), or 1 if the norm is NaN or infinite.
template <typename Real>
__global__ void clip_factor(const Real *partial, Real *norm_and_factor, int parts, double max_norm) {
    Real sum = 0;
    for (int i = threadIdx.x; i < parts; i += THREADS) sum += partial[i];
    sum = reduce<Sum, THREADS>(sum);
    if (threadIdx.x != 0) return;
    Real norm = sqrt(sum), factor = max_norm / (norm + 1e-6);
    norm_and_factor[0] = norm;
    norm_and_factor[1] = norm <= largest_finite<Real>() && factor < 1 ? factor : 1;
}

template <typename Number>
__global__ void scale_down(Number *gradient, const double *norm_and_factor, int size) {
    Wide<Number> factor = norm_and_factor[1];
    if (factor == 1) return;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x)
        gradient[i] = Wide<Number>(gradient[i]) * factor;
}
