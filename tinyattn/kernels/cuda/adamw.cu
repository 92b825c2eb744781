// AdamW over flat storage, one pass over four arrays. See optim/adamw.py, from which the names are.

#include "common.cuh"

template <typename Number>
__global__ void adamw_update(Number *values, const Number *gradient, Number *first_moment, Number *second_moment,
                             int size, double decay, double beta1, double beta2, double epsilon, double rate) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
        Number g = gradient[i];
        Number m = Number(beta1) * first_moment[i] + Number(1 - beta1) * g;
        Number v = Number(beta2) * second_moment[i] + Number(1 - beta2) * g * g;
        first_moment[i] = m;
        second_moment[i] = v;
        values[i] = values[i] * Number(decay) - Number(rate) * m / (sqrt(v) + Number(epsilon));
    }
}
