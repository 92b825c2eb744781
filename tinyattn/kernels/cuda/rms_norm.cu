// Root-mean-square normalization: y = w z with z = x / r, r = sqrt(mean(x^2) + eps), a row of x at a time.
//
// THREADS threads share a row, and each keeps ITEMS of its numbers in registers: a row is read once and written once.
//
// Trade-offs: registers limit a row to 2048 numbers.

#include "common.cuh"
#include "counter.cuh"
#include "rows.cuh"

// Inside a transformer block x is the residual stream and y the output of a branch that is added to it first: see
// layer_norm.cu.
template <typename Number, int THREADS, int ITEMS>
__global__ void rms_norm_forward(const Number *x, const Number *branch, const Number *branch_bias, Number *sum,
                                 const Number *weight, const Number *base_bias, Number *base, Number *out,
                                 Wide<Number> *inverse_root, int rows, int width, double eps, DROPOUT) {
    typedef Wide<Number> T;
    int row = blockIdx.x * (blockDim.x / THREADS) + threadIdx.x / THREADS;
    int thread = threadIdx.x % THREADS;
    if (row >= rows) return;  // all threads of a row together
    long long start = (long long)row * width;

    T kept[ITEMS];
    T total = 0;
    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        kept[i] = 0;
        if (column < width) {
            Number value = x[start + column];
            if (branch) {
                int n = int(start) + column;
                value = T(value) + branch_value(branch, branch_bias, n, column, low, high, threshold, factor);
                sum[start + column] = value;
            }
            kept[i] = value;
            if (base) base[start + column] = T(value) + (base_bias ? T(base_bias[column]) : T(0));
        }
        total += kept[i] * kept[i];
    }
    T inverse = 1 / sqrt(reduce<Sum, THREADS>(total) / width + T(eps));  // 1 / r
    if (inverse == 0) inverse = inverse_of_large<THREADS>(kept, width);  // squares have overflowed

    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        if (column >= width) break;
        T z = kept[i] * inverse;
        out[start + column] = weight ? z * T(weight[column]) : z;
    }
    if (thread == 0) inverse_root[row] = inverse;
}

// dx = (p - z mean(p z)) / r + residual  with  p = g w; the arguments are those of layer_norm_backward. Sums over the rows:
// of g z for w, and of D dx for the bias of the branch.
template <typename Number, int THREADS, int ITEMS>
__global__ void rms_norm_backward(const Number *g, const Number *x, const Number *weight,
                                  const Wide<Number> *inverse_root, const Number *residual, Number *dx,
                                  Number *dbranch, Wide<Number> *partial, int rows, int width, int parts, int stride,
                                  int has_branch_bias, DROPOUT) {
    typedef Wide<Number> T;
    const int GROUPS = THREADS == 32 ? 4 : 1;
    int group = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
    T dweight[ITEMS] = {}, dbranch_bias[ITEMS] = {};

    for (int row = blockIdx.x * GROUPS + group; row < rows; row += gridDim.x * GROUPS) {
        long long start = (long long)row * width;
        T inverse = inverse_root[row];
        T z[ITEMS], p[ITEMS];
        T sum_pz = 0;
        for (int i = 0; i < ITEMS; i++) {
            int column = thread + i * THREADS;
            z[i] = p[i] = 0;
            if (column < width) {
                T cotangent = 0;
                for (int part = 0; part < parts; part++)
                    cotangent += T(g[(long long)part * rows * width + start + column]);
                z[i] = T(x[start + column]) * inverse;
                p[i] = weight ? cotangent * T(weight[column]) : cotangent;
                dweight[i] += cotangent * z[i];
            }
            sum_pz += p[i] * z[i];
        }
        T mean_pz = reduce<Sum, THREADS>(sum_pz) / width;
        for (int i = 0; i < ITEMS; i++) {
            int column = thread + i * THREADS;
            if (column >= width) break;
            T value = (p[i] - z[i] * mean_pz) * inverse;
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
    if (has_branch_bias) store_partial_sums<THREADS, ITEMS, GROUPS>(dbranch_bias, partial + width, width);
}
