// Queries and keys of a transformer block between projection and attention: the bias of the projection, normalization by
// the root mean square of a head's vector, and rotary positions. See ops/normalization.py and ops/rotary.py.
//
// Trade-offs: one pass over memory for all of them; a warp per vector leaves lanes idle if a head has fewer than 64
// features.

#include "common.cuh"

// Adds a bias to each matrix of a stack (3, rows, width): queries, keys and values. blockIdx.y is the matrix.
template <typename Number>
__global__ void add_projection_biases(Number *projections, const Number *query, const Number *key,
                                      const Number *value, int size, int width) {
    typedef Wide<Number> T;
    const Number *bias = blockIdx.y == 0 ? query : blockIdx.y == 1 ? key : value;
    Number *matrix = projections + (long long)blockIdx.y * size;
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < size; n += gridDim.x * blockDim.x)
        matrix[n] = T(matrix[n]) + T(bias[n % width]);
}

// A warp has a head's vector, and a lane the pairs (x_i, x_{i + half}) with i = lane and i = lane + 32: half <= 64.
const int PAIRS = 2;

// The lane's pairs of a vector: their first elements, then their second ones, and zeros beyond the last pair.
template <typename Number, typename T>
__device__ void load_pairs(const Number *x, T *pairs, int lane, int half) {
    for (int n = 0; n < PAIRS; n++) {
        int i = lane + 32 * n;
        pairs[n] = i < half ? T(x[i]) : T(0);
        pairs[n + PAIRS] = i < half ? T(x[half + i]) : T(0);
    }
}

// 1 / r with r = sqrt(mean(x^2) + eps), for the vector of a warp.
template <typename T>
__device__ T inverse_root(const T (&pairs)[2 * PAIRS], int half, T eps) {
    T sum = 0;
    for (int n = 0; n < 2 * PAIRS; n++) sum += pairs[n] * pairs[n];
    T inverse = 1 / sqrt(reduce<Sum, 32>(sum) / (2 * half) + eps);
    return inverse == 0 ? inverse_of_large<32>(pairs, 2 * half) : inverse;
}

template <typename T>
struct Rotation {
    T cosine, sine;
};

// The rotation of pair i at a position; without tables the identity.
template <typename T, typename Number>
__device__ Rotation<T> rotation_of(const Number *cosine, const Number *sine, int position, int half, int i) {
    if (!cosine) return {T(1), T(0)};
    return {T(cosine[position * half + i]), T(sine[position * half + i])};
}

// y = R z with z = x / r, r = sqrt(mean(x^2) + eps) (z = x unless `normalized`) and the rotation R of the position.
// x is (2, batch, length, heads, 2 half): the position of row n is n / heads % length.
template <typename Number>
__global__ void query_key_forward(const Number *x, const Number *cosine, const Number *sine, Number *y, int rows,
                                  int heads, int length, int half, int normalized, double eps) {
    typedef Wide<Number> T;
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;  // all lanes of a row together
    long long start = 2ll * row * half;
    T z[2 * PAIRS];  // the first elements of the pairs, then the second ones
    load_pairs(x + start, z, lane, half);
    T inverse = normalized ? inverse_root(z, half, T(eps)) : T(1);
    for (int n = 0; n < PAIRS; n++) {
        int i = lane + 32 * n;
        if (i >= half) break;
        Rotation<T> by = rotation_of<T>(cosine, sine, row / heads % length, half, i);
        T z1 = z[n] * inverse, z2 = z[n + PAIRS] * inverse;
        y[start + i] = z1 * by.cosine - z2 * by.sine;
        y[start + half + i] = z1 * by.sine + z2 * by.cosine;
    }
}

// With p = R^T g:  dx = (p - z mean(p z)) / r, or p unless `normalized`; in place of g.
template <typename Number>
__global__ void query_key_backward(Number *g, const Number *x, const Number *cosine, const Number *sine, int rows,
                                   int heads, int length, int half, int normalized, double eps) {
    typedef Wide<Number> T;
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    long long start = 2ll * row * half;
    T z[2 * PAIRS], p[2 * PAIRS];
    load_pairs(x + start, z, lane, half);
    T inverse = normalized ? inverse_root(z, half, T(eps)) : T(1);
    T sum_pz = 0;
    for (int n = 0; n < PAIRS; n++) {
        int i = lane + 32 * n;
        if (i >= half) break;
        Rotation<T> by = rotation_of<T>(cosine, sine, row / heads % length, half, i);
        T g1 = g[start + i], g2 = g[start + half + i];
        p[n] = g1 * by.cosine + g2 * by.sine;
        p[n + PAIRS] = g2 * by.cosine - g1 * by.sine;
        z[n] *= inverse;
        z[n + PAIRS] *= inverse;
        sum_pz += p[n] * z[n] + p[n + PAIRS] * z[n + PAIRS];
    }
    T mean_pz = normalized ? reduce<Sum, 32>(sum_pz) / (2 * half) : T(0);
    for (int n = 0; n < PAIRS; n++) {
        int i = lane + 32 * n;
        if (i >= half) break;
        g[start + i] = (p[n] - z[n] * mean_pz) * inverse;
        g[start + half + i] = (p[n + PAIRS] - z[n + PAIRS] * mean_pz) * inverse;
    }
}
