// Softmax of a row of scores: y_i = exp(x_i - m) / sum_j exp(x_j - m) with the row's maximum m. See ops/softmax.py.
//
// THREADS threads share a row, and each keeps ITEMS of its numbers in registers: a row is read once and written once.
// Scores of -inf are masked: their probability is 0, even if all scores of a row are masked. Scores of +inf share the
// probability 1.
//
// Trade-offs: registers limit a row to 2048 scores.

#include "common.cuh"

template <typename Number, int THREADS, int ITEMS>
__global__ void softmax_forward(const Number *x, Number *y, int rows, int width) {
    typedef Wide<Number> T;
    int row = blockIdx.x * (blockDim.x / THREADS) + threadIdx.x / THREADS;
    int thread = threadIdx.x % THREADS;
    if (row >= rows) return;  // all threads of a row together
    x += (long long)row * width;
    y += (long long)row * width;

    T kept[ITEMS];
    T largest = -INFINITE;
    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        kept[i] = column < width ? T(x[column]) : T(-INFINITE);
        largest = Largest::of(largest, kept[i]);
    }
    T m = reduce<Largest, THREADS>(largest);
    if (m == -INFINITE) m = 0;  // -inf - -inf would be NaN

    T sum = 0;
    for (int i = 0; i < ITEMS; i++) {
        kept[i] = kept[i] == m ? T(1) : exp(kept[i] - m);  // inf - inf too would be NaN
        sum += kept[i];  // 0 beyond the row
    }
    T total = fmax(reduce<Sum, THREADS>(sum), T(1));  // the maximum contributes 1, unless all are masked
    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        if (column < width) y[column] = kept[i] / total;
    }
}

// dx_j = y_j (g_j - sum_i g_i y_i)
template <typename Number, int THREADS, int ITEMS>
__global__ void softmax_backward(const Number *g, const Number *y, Number *dx, int rows, int width) {
    typedef Wide<Number> T;
    int row = blockIdx.x * (blockDim.x / THREADS) + threadIdx.x / THREADS;
    int thread = threadIdx.x % THREADS;
    if (row >= rows) return;
    g += (long long)row * width;
    y += (long long)row * width;
    dx += (long long)row * width;

    T cotangent[ITEMS], kept[ITEMS];
    T sum = 0;
    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        cotangent[i] = column < width ? T(g[column]) : T(0);
        kept[i] = column < width ? T(y[column]) : T(0);
        sum += cotangent[i] * kept[i];
    }
    T along = reduce<Sum, THREADS>(sum);
    for (int i = 0; i < ITEMS; i++) {
        int column = thread + i * THREADS;
        if (column < width) dx[column] = kept[i] * (cotangent[i] - along);
    }
}
