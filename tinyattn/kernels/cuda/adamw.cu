// AdamW over flat storage, one pass over four arrays. Names as in optim/adamw.py.
//
// Trade-offs: the time is that of reading four numbers and writing three per parameter; arithmetic is negligible.

#include "common.cuh"

template <typename Real>
__global__ void adamw_update(Real *values, const Real *gradient, Real *first_moment, Real *second_moment,
                             int size, double decay, double beta1, double beta2, double epsilon, double rate) {
    const Real limit = sizeof(Real) == 4 ? Real(0x1p63) : Real(0x1p511);  // see with_finite_squares
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
        Real g = gradient[i];
        if (g >= 2 * limit && g <= largest_finite<Real>()) g = limit;
        if (g <= -2 * limit && g >= -largest_finite<Real>()) g = -limit;
        Real m = Real(beta1) * first_moment[i] + Real(1 - beta1) * g;
        Real v = Real(beta2) * second_moment[i] + Real(1 - beta2) * g * g;
        first_moment[i] = m;
        second_moment[i] = v;
        values[i] = values[i] * Real(decay) - Real(rate) * m / (sqrt(v) + Real(epsilon));
    }
}
