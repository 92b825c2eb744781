// Layer normalization: y = w z + b with z = (x - mean) / sigma, a row of x at a time. See ops/normalization.py.
//
// THREADS threads share a row, and each keeps ITEMS of its numbers in registers: a row is read once and written once.
//
// Trade-offs: registers limit a row to 2048 numbers. The mean is computed twice, because the first one is rounded.

#include "common.cuh"
#include "counter.cuh"
#include "rows.cuh"

// Inside a transformer block x is the residual stream and y the output of a branch that is added to it first: x + D(y + b)
// is stored to `sum`, and normalized. y, b and the dropout D are optional. So is `base`, which gets the normalized rows plus
// a bias: cuBLAS adds the product of the next branch to it.
template <typename Number, int THREADS, int ITEMS>
__global__ void layer_norm_forward(const Number *x, const Number *branch, const Number *branch_bias, Number *sum,
                                   const Number *weight, const Number *bias, const Number *base_bias, Number *base,
                                   Number *out, Wide<Number> *statistics, int rows, int width,
                                   double eps, DROPOUT) {
    typedef Wide<Number> T;
    int row = blockIdx.x * (blockDim.x / THREADS) + threadIdx.x / THREADS;
    int thread = threadIdx.x % THREADS;
    if (row >= rows) return;  // all threads of a row together
    long long start = (long long)row * width;

    T c[ITEMS];
    T total = 0;
    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        c[i] = 0;
        if (column < width) {
            Number value = x[start + column];
            if (branch) {
                int n = int(start) + column;
                value = T(value) + branch_value(branch, branch_bias, n, column, low, high, threshold, factor);
                sum[start + column] = value;
            }
            c[i] = value;
            if (base) base[start + column] = T(value) + (base_bias ? T(base_bias[column]) : T(0));
        }
        total += c[i];
    }
    T mean = reduce<Sum, THREADS>(total) / width;
    // The mean of numbers near 10000 has a rounding error, which is the mean of the differences from it.
    total = 0;
    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        c[i] = column < width ? c[i] - mean : T(0);
        total += c[i];
    }
    T rest = reduce<Sum, THREADS>(total) / width;
    total = 0;
    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        if (column < width) c[i] -= rest;
        total += c[i] * c[i];
    }
    T inverse = 1 / sqrt(reduce<Sum, THREADS>(total) / width + T(eps));  // 1 / sigma
    if (inverse == 0) inverse = inverse_of_large<THREADS>(c, width);  // squares have overflowed

    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        if (column >= width) break;
        T z = c[i] * inverse;
        if (weight) z *= T(weight[column]);
        if (bias) z += T(bias[column]);
        out[start + column] = z;
    }
    if (thread == 0) {
        statistics[3 * row] = mean;
        statistics[3 * row + 1] = rest;
        statistics[3 * row + 2] = inverse;
    }
}

// dx = (p - mean(p) - z mean(p z)) / sigma + r  with  p = g w.  g is the sum of `parts` matrices; r is the cotangent that
// reaches x past the norm, and is optional. D dx, the cotangent of the branch that was added to x, goes to `dbranch`.
//
// Sums over the rows, of g z for w, of g for b and of D dx for the bias of the branch: each block leaves its own in a row
// of `partial`, which has `stride` columns.
template <typename Number, int THREADS, int ITEMS>
__global__ void layer_norm_backward(const Number *g, const Number *x, const Number *weight,
                                    const Wide<Number> *statistics, const Number *residual, Number *dx,
                                    Number *dbranch, Wide<Number> *partial, int rows, int width, int parts, int stride,
                                    int has_branch_bias, DROPOUT) {
    typedef Wide<Number> T;
    const int GROUPS = THREADS == 32 ? 4 : 1;
    int group = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
    T dweight[ITEMS] = {}, dbias[ITEMS] = {}, dbranch_bias[ITEMS] = {};

    for (int row = blockIdx.x * GROUPS + group; row < rows; row += gridDim.x * GROUPS) {
        long long start = (long long)row * width;
        T mean = statistics[3 * row], rest = statistics[3 * row + 1], inverse = statistics[3 * row + 2];
        T z[ITEMS], p[ITEMS];
        T sum_p = 0, sum_pz = 0;
        for (int i = 0; i < ITEMS; i++) {
            int column = thread + i * THREADS;
            z[i] = p[i] = 0;
            if (column < width) {
                T cotangent = 0;
                for (int part = 0; part < parts; part++)
                    cotangent += T(g[(long long)part * rows * width + start + column]);
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
            if (column >= width) break;
            T value = (p[i] - mean_p - z[i] * mean_pz) * inverse;
            if (residual) value += T(residual[start + column]);
            dx[start + column] = value;
            T dropped = dropped_out(value, int(start) + column, low, high, threshold, factor);
            if (dbranch) dbranch[start + column] = dropped;
            dbranch_bias[i] += dropped;
        }
    }
    if (!partial) return;
    partial += (long long)blockIdx.x * stride;
    store_partial_sums<THREADS, ITEMS, GROUPS>(dweight, partial, width);
    store_partial_sums<THREADS, ITEMS, GROUPS>(dbias, partial + width, width);
    if (has_branch_bias) store_partial_sums<THREADS, ITEMS, GROUPS>(dbranch_bias, partial + 2 * width, width);
}
