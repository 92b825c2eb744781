// FlashAttention: out = softmax(scale q k^T) v, tile by tile, so that no array of all scores is ever made.
// See attention/dense.py for the mathematics, attention/flash.py for the algorithm.
//
// A query (in backward: a query or a key) belongs to PARTS neighboring threads, each of which has 32 of its features in
// registers. Tiles of the other side are loaded to shared memory, where all threads of a block read them.
//
// Trade-offs: see attention.py.

#include "common.cuh"
#include "counter.cuh"

const int THREADS = 128;
const int CHUNK = 8;  // keys between two updates of the maximum

// The parameters that all kernels share.
#define CALL                                                                                                          \
    int heads, int queries, int keys, int head_dim, int value_dim, int swapped, int causal, double scale,            \
        int mask_batch, int mask_head, int mask_query, int mask_key, unsigned low, unsigned high, unsigned threshold, \
        double factor

template <int HEAD_DIM>
struct Shape {
    static const int PARTS = HEAD_DIM <= 32 ? 1 : HEAD_DIM / 32;
    static const int WIDTH = HEAD_DIM / PARTS;
    static const int ROWS = THREADS / PARTS;  // queries, or keys, of a block

    // The index of a part's feature. The parts take turns with groups of four features, so that shared memory is read
    // without bank conflicts, four numbers at a time.
    static __device__ int feature(int d, int part) { return d / 4 * 4 * PARTS + part * 4 + d % 4; }

    template <typename T>
    static __device__ T sum_parts(T value) {
        for (int distance = 1; distance < PARTS; distance *= 2)
            value += __shfl_xor_sync(0xffffffffu, value, distance);
        return value;
    }
};

// The number of rows of a tile: as many as fit 16 KiB, at most 32.
template <typename T, int HEAD_DIM>
struct Tile {
    static const int FITTING = 16384 / int(sizeof(T)) / HEAD_DIM;
    static const int ROWS = FITTING < 32 ? FITTING : 32;
};

// The start of row i of a head, in memory laid out (batch, heads, length, width), or swapped (batch, length, heads, width).
__device__ inline long long row_start(int number, int i, int heads, int length, int width, int swapped) {
    long long batch = number / heads, head = number % heads;
    return (swapped ? (batch * length + i) * heads + head : (batch * heads + head) * length + i) * width;
}

// Load one thread's part of a row, times a factor; zeros beyond the width and the length.
template <int HEAD_DIM, typename Number, typename T>
__device__ void load_part(T *part_of_row, const Number *array, int part, T times, int number, int i, int heads,
                          int length, int width, int swapped) {
    long long start = row_start(number, i, heads, length, width, swapped);
    for (int d = 0; d < Shape<HEAD_DIM>::WIDTH; d++) {
        int column = Shape<HEAD_DIM>::feature(d, part);
        part_of_row[d] = i < length && column < width ? T(array[start + column]) * times : T(0);
    }
}

template <int HEAD_DIM, typename Number, typename T>
__device__ void store_part(const T *part_of_row, Number *array, int part, T times, int number, int i, int heads,
                           int length, int width, int swapped) {
    long long start = row_start(number, i, heads, length, width, swapped);
    for (int d = 0; d < Shape<HEAD_DIM>::WIDTH; d++) {
        int column = Shape<HEAD_DIM>::feature(d, part);
        if (i < length && column < width) array[start + column] = part_of_row[d] * times;
    }
}

// Load the rows from `first` on, times a factor, to shared memory. All threads of the block must call.
template <int ROWS, int HEAD_DIM, typename Number, typename T>
__device__ void load_tile(T (*tile)[HEAD_DIM], const Number *array, T times, int number, int first, int heads,
                          int length, int width, int swapped) {
    for (int n = threadIdx.x; n < ROWS * HEAD_DIM; n += THREADS) {
        int row = n / HEAD_DIM, column = n % HEAD_DIM;
        bool inside = first + row < length && column < width;
        tile[row][column] =
            inside ? T(array[row_start(number, first + row, heads, length, width, swapped) + column]) * times : T(0);
    }
}

// Whether query i may see key j.
__device__ inline bool sees(int i, int j, int number, const bool *mask, int heads, int queries, int keys, int causal,
                            int mask_batch, int mask_head, int mask_query, int mask_key) {
    if (i >= queries || j >= keys || (causal && j > i + keys - queries)) return false;
    if (!mask) return true;
    return mask[(long long)(number / heads) * mask_batch + (long long)(number % heads) * mask_head +
                (long long)i * mask_query + (long long)j * mask_key];
}
#define SEES(i, j) \
    sees(i, j, number, mask, heads, queries, keys, causal, mask_batch, mask_head, mask_query, mask_key)

// The factor of a weight under dropout; its counter is its index in the array of all weights.
template <typename T>
__device__ T kept(int i, int j, int number, int queries, int keys, unsigned low, unsigned high, unsigned threshold,
                  double factor) {
    unsigned counter = (unsigned(number) * unsigned(queries) + unsigned(i)) * unsigned(keys) + unsigned(j);
    return random_bits(low, high, counter) >= threshold ? T(factor) : T(0);
}
#define KEPT(i, j) (threshold ? kept<T>(i, j, number, queries, keys, low, high, threshold, factor) : T(1))

// A score of infinity is replaced by the largest finite number, since inf - inf would be NaN.
template <typename T>
__device__ T bounded(T score) {
    return score > largest_finite<T>() ? largest_finite<T>() : score;
}

// For each query the average of the values, and the log-sum-exp of its scores for the backward pass.
template <typename Number, int HEAD_DIM>
__global__ void attention_forward(const Number *q, const Number *k, const Number *v, const bool *mask, Number *out,
                                  Wide<Number> *log_sum_exp, CALL) {
    typedef Wide<Number> T;
    typedef Shape<HEAD_DIM> S;
    const int KEYS = Tile<T, HEAD_DIM>::ROWS;
    __shared__ __align__(16) T k_tile[KEYS][HEAD_DIM];
    __shared__ __align__(16) T v_tile[KEYS][HEAD_DIM];
    int number = blockIdx.x, part = threadIdx.x % S::PARTS;
    int i = blockIdx.y * S::ROWS + threadIdx.x / S::PARTS;

    T query[S::WIDTH], sum[S::WIDTH] = {};
    load_part<HEAD_DIM>(query, q, part, T(scale), number, i, heads, queries, head_dim, swapped);
    T m = -INFINITE, total = 0;
    // Keys from `end` on are hidden from all queries of the block.
    int end = causal ? min(keys, int(blockIdx.y + 1) * S::ROWS + keys - queries) : keys;
    for (int first = 0; first < end; first += KEYS) {
        __syncthreads();  // the last tile may still be read
        load_tile<KEYS, HEAD_DIM>(k_tile, k, T(1), number, first, heads, keys, head_dim, swapped);
        load_tile<KEYS, HEAD_DIM>(v_tile, v, T(1), number, first, heads, keys, value_dim, swapped);
        __syncthreads();
        for (int start = 0; start < KEYS; start += CHUNK) {
            T score[CHUNK];
            T largest = m;
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                T product = 0;
#pragma unroll
                for (int d = 0; d < S::WIDTH; d++) product += query[d] * k_tile[start + j][S::feature(d, part)];
                product = S::sum_parts(product);
                score[j] = SEES(i, first + start + j) ? bounded(product) : T(-INFINITE);
                largest = fmax(largest, score[j]);
            }
            T shift = largest == -INFINITE ? T(0) : largest;
            T rescale = exp(m - shift);
            m = largest;
            total *= rescale;
#pragma unroll
            for (int d = 0; d < S::WIDTH; d++) sum[d] *= rescale;
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                T weight = exp(score[j] - shift);
                total += weight;
                weight *= KEPT(i, first + start + j);
#pragma unroll
                for (int d = 0; d < S::WIDTH; d++) sum[d] += weight * v_tile[start + j][S::feature(d, part)];
            }
        }
    }
    T inverse = total == 0 ? T(0) : 1 / total;  // a query that sees no key gets 0
    store_part<HEAD_DIM>(sum, out, part, inverse, number, i, heads, queries, value_dim, swapped);
    if (part == 0 && i < queries)
        log_sum_exp[(long long)number * queries + i] = total == 0 ? T(-INFINITE) : m + log(total);
}

// With P = exp(S - log_sum_exp), dP = D (dO V^T) and delta = sum_j P_j dP_j = <dO, O>,
//     dS = P (dP - delta),    dQ = scale dS K.
// Stores delta for the other half of the backward pass.
template <typename Number, int HEAD_DIM>
__global__ void attention_backward_queries(const Number *g, const Number *q, const Number *k, const Number *v,
                                           const bool *mask, const Number *out, const Wide<Number> *log_sum_exp,
                                           Wide<Number> *delta, Number *dq, CALL) {
    typedef Wide<Number> T;
    typedef Shape<HEAD_DIM> S;
    const int KEYS = Tile<T, HEAD_DIM>::ROWS;
    __shared__ __align__(16) T k_tile[KEYS][HEAD_DIM];
    __shared__ __align__(16) T v_tile[KEYS][HEAD_DIM];
    int number = blockIdx.x, part = threadIdx.x % S::PARTS;
    int i = blockIdx.y * S::ROWS + threadIdx.x / S::PARTS;

    T query[S::WIDTH], cotangent[S::WIDTH], sum[S::WIDTH];
    load_part<HEAD_DIM>(sum, out, part, T(1), number, i, heads, queries, value_dim, swapped);
    load_part<HEAD_DIM>(cotangent, g, part, T(1), number, i, heads, queries, value_dim, swapped);
    load_part<HEAD_DIM>(query, q, part, T(scale), number, i, heads, queries, head_dim, swapped);
    T along = 0;
    for (int d = 0; d < S::WIDTH; d++) {
        along += cotangent[d] * sum[d];
        sum[d] = 0;
    }
    along = S::sum_parts(along);
    long long row = (long long)number * queries + i;
    T lse = i < queries ? log_sum_exp[row] : T(0);
    if (part == 0 && i < queries) delta[row] = along;

    int end = causal ? min(keys, int(blockIdx.y + 1) * S::ROWS + keys - queries) : keys;
    for (int first = 0; first < end; first += KEYS) {
        __syncthreads();
        load_tile<KEYS, HEAD_DIM>(k_tile, k, T(1), number, first, heads, keys, head_dim, swapped);
        load_tile<KEYS, HEAD_DIM>(v_tile, v, T(1), number, first, heads, keys, value_dim, swapped);
        __syncthreads();
        for (int j = 0; j < KEYS; j++) {
            T score = 0, dp = 0;
#pragma unroll
            for (int d = 0; d < S::WIDTH; d++) {
                score += query[d] * k_tile[j][S::feature(d, part)];
                dp += cotangent[d] * v_tile[j][S::feature(d, part)];
            }
            score = S::sum_parts(score);
            dp = S::sum_parts(dp);
            if (!SEES(i, first + j)) continue;
            T ds = exp(bounded(score) - lse) * (dp * KEPT(i, first + j) - along);
#pragma unroll
            for (int d = 0; d < S::WIDTH; d++) sum[d] += ds * k_tile[j][S::feature(d, part)];
        }
    }
    store_part<HEAD_DIM>(sum, dq, part, T(scale), number, i, heads, queries, head_dim, swapped);
}

//     dK = scale dS^T Q,    dV = (D P)^T dO:  a block has some keys, and loops over all queries that see them.
template <typename Number, int HEAD_DIM>
__global__ void attention_backward_keys(const Number *g, const Number *q, const Number *k, const Number *v,
                                        const bool *mask, const Wide<Number> *log_sum_exp, const Wide<Number> *delta,
                                        Number *dk, Number *dv, CALL) {
    typedef Wide<Number> T;
    typedef Shape<HEAD_DIM> S;
    const int QUERIES = Tile<T, HEAD_DIM>::ROWS;
    __shared__ __align__(16) T q_tile[QUERIES][HEAD_DIM];
    __shared__ __align__(16) T g_tile[QUERIES][HEAD_DIM];
    __shared__ T lse_tile[QUERIES];
    __shared__ T delta_tile[QUERIES];
    int number = blockIdx.x, part = threadIdx.x % S::PARTS;
    int j = blockIdx.y * S::ROWS + threadIdx.x / S::PARTS;

    T key[S::WIDTH], value[S::WIDTH], dkey[S::WIDTH] = {}, dvalue[S::WIDTH] = {};
    load_part<HEAD_DIM>(key, k, part, T(1), number, j, heads, keys, head_dim, swapped);
    load_part<HEAD_DIM>(value, v, part, T(1), number, j, heads, keys, value_dim, swapped);

    // Queries before `begin` see none of the block's keys.
    int begin = causal ? max(0, int(blockIdx.y) * S::ROWS - (keys - queries)) : 0;
    for (int first = begin; first < queries; first += QUERIES) {
        __syncthreads();
        load_tile<QUERIES, HEAD_DIM>(q_tile, q, T(scale), number, first, heads, queries, head_dim, swapped);
        load_tile<QUERIES, HEAD_DIM>(g_tile, g, T(1), number, first, heads, queries, value_dim, swapped);
        if (threadIdx.x < QUERIES) {
            long long row = (long long)number * queries + first + threadIdx.x;
            bool inside = first + int(threadIdx.x) < queries;
            lse_tile[threadIdx.x] = inside ? log_sum_exp[row] : T(0);
            delta_tile[threadIdx.x] = inside ? delta[row] : T(0);
        }
        __syncthreads();
        for (int i = 0; i < QUERIES; i++) {
            T score = 0, dp = 0;
#pragma unroll
            for (int d = 0; d < S::WIDTH; d++) {
                score += key[d] * q_tile[i][S::feature(d, part)];
                dp += value[d] * g_tile[i][S::feature(d, part)];
            }
            score = S::sum_parts(score);
            dp = S::sum_parts(dp);
            if (!SEES(first + i, j)) continue;
            T weight = exp(bounded(score) - lse_tile[i]);
            T keep = KEPT(first + i, j);
            T ds = weight * (dp * keep - delta_tile[i]);
            weight *= keep;
#pragma unroll
            for (int d = 0; d < S::WIDTH; d++) {
                dkey[d] += ds * q_tile[i][S::feature(d, part)];
                dvalue[d] += weight * g_tile[i][S::feature(d, part)];
            }
        }
    }
    store_part<HEAD_DIM>(dkey, dk, part, T(1), number, j, heads, keys, head_dim, swapped);
    store_part<HEAD_DIM>(dvalue, dv, part, T(1), number, j, heads, keys, value_dim, swapped);
}
