// Cross-entropy from logits, row by row. See ops/losses.py.
//
// Trade-offs: probabilities are not stored; backward computes them again from two numbers per row.

#include "common.cuh"

// loss = log sum_c exp(x_c - m) - (x_t - m). Each thread updates a running maximum and a running sum of exponentials, so
// that the row is read once; at the end the threads' pairs are combined (an online softmax).
// Saved for backward: m and the sum, (rows, 2).
template <typename Number, typename Id, int THREADS>
__global__ void cross_entropy_forward(const Number *logits, const Id *target, Wide<Number> *losses,
                                      Wide<Number> *statistics, int *fault, int rows, int classes, int ignored) {
    typedef Wide<Number> T;
    int row = blockIdx.x * (blockDim.x / THREADS) + threadIdx.x / THREADS;
    int thread = threadIdx.x % THREADS;
    if (row >= rows) return;  // all threads of a row together
    const Number *x = logits + (long long)row * classes;

    T m = -INFINITE, sum = 0;
    for (int c = thread; c < classes; c += THREADS) {
        T value = x[c];
        T larger = Largest::of(m, value);
        T shift = larger == -INFINITE ? T(0) : larger;
        sum = sum * (m == shift ? T(1) : exp(m - shift)) + (value == shift ? T(1) : exp(value - shift));
        m = larger;
    }
    T largest = reduce<Largest, THREADS>(m);
    T shift = largest == -INFINITE ? T(0) : largest;
    T total = fmax(reduce<Sum, THREADS>(sum * (m == shift ? T(1) : exp(m - shift))), T(1));

    if (thread != 0) return;
    statistics[2 * row] = shift;
    statistics[2 * row + 1] = total;
    long long t = target[row];
    T loss = 0;
    if (t != ignored) {
        if (t < 0 || t >= classes) {
            note_fault(fault, 2, t, classes);
        } else {
            T picked = x[t];
            loss = log(total) - (picked == shift ? T(0) : picked - shift);
        }
    }
    losses[row] = loss;
}

// The sum or the mean of the losses, and the number of counted targets, in one block and a fixed order.
template <typename Number, typename Id>
__global__ void cross_entropy_reduce(const Wide<Number> *losses, const Id *target, Number *out, int *count, int rows,
                                     int ignored, int mean) {
    typedef Wide<Number> T;
    T sum = 0;
    int counted = 0;
    for (int row = threadIdx.x; row < rows; row += 256) {
        sum += losses[row];
        counted += target[row] != ignored;
    }
    sum = reduce<Sum, 256>(sum);
    counted = reduce<Sum, 256>(counted);
    if (threadIdx.x != 0) return;
    *count = mean ? max(counted, 1) : 1;
    *out = sum / *count;
}

// dx_c = scale (p_c - [c = t]). The scale is the cotangent of the row's loss: g[row], or g[0] / count if the losses were
// reduced.
template <typename Number, typename Id>
__global__ void cross_entropy_backward(const Number *g, const Number *logits, const Id *target,
                                       const Wide<Number> *statistics, const int *count, Number *dx, int rows,
                                       int classes, int ignored) {
    typedef Wide<Number> T;
    int row = blockIdx.x;
    long long start = (long long)row * classes;
    long long t = target[row];
    T scale = t == ignored ? T(0) : count ? T(g[0]) / *count : T(g[row]);
    T shift = statistics[2 * row], total = statistics[2 * row + 1];
    for (int c = threadIdx.x; c < classes; c += blockDim.x) {
        T x = logits[start + c];
        T p = (x == shift ? T(1) : exp(x - shift)) / total;
        dx[start + c] = scale == 0 ? T(0) : scale * (p - (c == t ? 1 : 0));
    }
}
