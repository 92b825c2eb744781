// Layer normalization: y = w z + b with z = (x - mean) / sigma, a row of x at a time. See ops/normalization.py.
//
// THREADS threads share a row, and each keeps ITEMS of its numbers in registers: a row is read once and written once.

#include "common.cuh"

template <typename Number, int THREADS, int ITEMS>
__global__ void layer_norm_forward(const Number *x, const Number *weight, const Number *bias, Number *y,
                                   Wide<Number> *statistics, int rows, int width, double eps) {
    typedef Wide<Number> T;
    int row = blockIdx.x * (blockDim.x / THREADS) + threadIdx.x / THREADS;
    int thread = threadIdx.x % THREADS;
    if (row >= rows) return;  // all threads of a row together
    x += (long long)row * width;
    y += (long long)row * width;

    T c[ITEMS];
    T sum = 0;
    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        c[i] = column < width ? T(x[column]) : T(0);
        sum += c[i];
    }
    T mean = reduce<Sum, THREADS>(sum) / width;
    // The mean of numbers near 10000 is itself rounded. What it is off by is the mean of what is left.
    sum = 0;
    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        c[i] = column < width ? c[i] - mean : T(0);
        sum += c[i];
    }
    T rest = reduce<Sum, THREADS>(sum) / width;
    sum = 0;
    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        if (column < width) c[i] -= rest;
        sum += c[i] * c[i];
    }
    T inverse = 1 / sqrt(reduce<Sum, THREADS>(sum) / width + T(eps));  // 1 / sigma

    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        if (column >= width) break;
        T z = c[i] * inverse;
        if (weight) z *= T(weight[column]);
        if (bias) z += T(bias[column]);
        y[column] = z;
    }
    if (thread == 0) {
        statistics[3 * row] = mean;
        statistics[3 * row + 1] = rest;
        statistics[3 * row + 2] = inverse;
    }
}

// dx = (p - mean(p) - z mean(p z)) / sigma  with  p = g w.  The cotangents of w and b are sums over the rows, of g z and
// of g. Each group of threads sums those of its rows in registers, then the block its groups in shared memory; what the
// blocks have found, (blocks, 2, width), is summed by column_sums.
template <typename Number, int THREADS, int ITEMS>
__global__ void layer_norm_backward(const Number *g, const Number *x, const Number *weight,
                                    const Wide<Number> *statistics, Number *dx, Wide<Number> *partial, int rows,
                                    int width) {
    typedef Wide<Number> T;
    const int GROUPS = THREADS == 32 ? 4 : 1;
    __shared__ T of_group[GROUPS][2][THREADS * ITEMS];
    int group = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
    T dweight[ITEMS] = {}, dbias[ITEMS] = {};

    for (int row = blockIdx.x * GROUPS + group; row < rows; row += gridDim.x * GROUPS) {
        long long start = (long long)row * width;
        T mean = statistics[3 * row], rest = statistics[3 * row + 1], inverse = statistics[3 * row + 2];
        T z[ITEMS], p[ITEMS];
        T sum_p = 0, sum_pz = 0;
        for (int i = 0; i < ITEMS; i++) {
            int column = thread + i * THREADS;
            z[i] = p[i] = 0;
            if (column < width) {
                T cotangent = g[start + column];
                z[i] = (T(x[start + column]) - mean - rest) * inverse;
                p[i] = weight ? cotangent * T(weight[column]) : cotangent;
                dweight[i] += cotangent * z[i];
                dbias[i] += cotangent;
            }
            sum_p += p[i];
            sum_pz += p[i] * z[i];
        }
        T mean_p = reduce<Sum, THREADS>(sum_p) / width;
        T mean_pz = reduce<Sum, THREADS>(sum_pz) / width;
        for (int i = 0; i < ITEMS; i++) {
            int column = thread + i * THREADS;
            if (column < width) dx[start + column] = (p[i] - mean_p - z[i] * mean_pz) * inverse;
        }
    }
    if (!partial) return;
    for (int i = 0; i < ITEMS; i++) {
        of_group[group][0][thread + i * THREADS] = dweight[i];
        of_group[group][1][thread + i * THREADS] = dbias[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * width; i += blockDim.x) {
        T total = 0;
        for (int other = 0; other < GROUPS; other++) total += of_group[other][i / width][i % width];
        partial[(long long)blockIdx.x * 2 * width + i] = total;
    }
}
