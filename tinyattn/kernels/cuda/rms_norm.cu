// Root-mean-square normalization: y = w z with z = x / r, r = sqrt(mean(x^2) + eps), a row of x at a time.
//
// THREADS threads share a row, and each keeps ITEMS of its numbers in registers: a row is read once and written once.

#include "common.cuh"

template <typename Number, int THREADS, int ITEMS>
__global__ void rms_norm_forward(const Number *x, const Number *weight, Number *y, Wide<Number> *inverse_root, int rows,
                                 int width, double eps) {
    typedef Wide<Number> T;
    int row = blockIdx.x * (blockDim.x / THREADS) + threadIdx.x / THREADS;
    int thread = threadIdx.x % THREADS;
    if (row >= rows) return;  // all threads of a row together
    x += (long long)row * width;
    y += (long long)row * width;

    T kept[ITEMS];
    T sum = 0;
    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        kept[i] = column < width ? T(x[column]) : T(0);
        sum += kept[i] * kept[i];
    }
    T inverse = 1 / sqrt(reduce<Sum, THREADS>(sum) / width + T(eps));  // 1 / r

    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        if (column >= width) break;
        T z = kept[i] * inverse;
        y[column] = weight ? z * T(weight[column]) : z;
    }
    if (thread == 0) inverse_root[row] = inverse;
}

// dx = (p - z mean(p z)) / r  with  p = g w. The cotangent of w is the sum over the rows of g z: each group of threads
// sums its rows' in registers, then the block its groups' in shared memory, into (blocks, width).
template <typename Number, int THREADS, int ITEMS>
__global__ void rms_norm_backward(const Number *g, const Number *x, const Number *weight,
                                  const Wide<Number> *inverse_root, Number *dx, Wide<Number> *partial, int rows,
                                  int width) {
    typedef Wide<Number> T;
    const int GROUPS = THREADS == 32 ? 4 : 1;
    __shared__ T of_group[GROUPS][THREADS * ITEMS];
    int group = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
    T dweight[ITEMS] = {};

    for (int row = blockIdx.x * GROUPS + group; row < rows; row += gridDim.x * GROUPS) {
        long long start = (long long)row * width;
        T inverse = inverse_root[row];
        T z[ITEMS], p[ITEMS];
        T sum_pz = 0;
        for (int i = 0; i < ITEMS; i++) {
            int column = thread + i * THREADS;
            z[i] = p[i] = 0;
            if (column < width) {
                T cotangent = g[start + column];
                z[i] = T(x[start + column]) * inverse;
                p[i] = weight ? cotangent * T(weight[column]) : cotangent;
                dweight[i] += cotangent * z[i];
            }
            sum_pz += p[i] * z[i];
        }
        T mean_pz = reduce<Sum, THREADS>(sum_pz) / width;
        for (int i = 0; i < ITEMS; i++) {
            int column = thread + i * THREADS;
            if (column < width) dx[start + column] = (p[i] - z[i] * mean_pz) * inverse;
        }
    }
    if (!partial) return;
    for (int i = 0; i < ITEMS; i++) of_group[group][thread + i * THREADS] = dweight[i];
    __syncthreads();
    for (int column = threadIdx.x; column < width; column += blockDim.x) {
        T total = 0;
        for (int other = 0; other < GROUPS; other++) total += of_group[other][column];
        partial[(long long)blockIdx.x * width + column] = total;
    }
}
