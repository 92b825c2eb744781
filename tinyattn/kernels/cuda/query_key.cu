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
    T first[PAIRS], second[PAIRS];
    T sum = 0;
    for (int n = 0; n < PAIRS; n++) {
        int i = lane + 32 * n;
        first[n] = i < half ? T(x[start + i]) : T(0);
        second[n] = i < half ? T(x[start + half + i]) : T(0);
        sum += first[n] * first[n] + second[n] * second[n];
    }
    T square = reduce<Sum, 32>(sum) / (2 * half);
    T inverse = normalized ? 1 / sqrt(square + T(eps)) : T(1);
    for (int n = 0; n < PAIRS; n++) {
        int i = lane + 32 * n;
        if (i >= half) break;
        Rotation<T> by = rotation_of<T>(cosine, sine, row / heads % length, half, i);
        T z1 = first[n] * inverse, z2 = second[n] * inverse;
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
    T z1[PAIRS], z2[PAIRS], p1[PAIRS], p2[PAIRS];
    T squares = 0, products = 0;
    for (int n = 0; n < PAIRS; n++) {
        int i = lane + 32 * n;
        z1[n] = z2[n] = p1[n] = p2[n] = 0;
        if (i >= half) continue;
        Rotation<T> by = rotation_of<T>(cosine, sine, row / heads % length, half, i);
        T g1 = g[start + i], g2 = g[start + half + i];
        p1[n] = g1 * by.cosine + g2 * by.sine;
        p2[n] = g2 * by.cosine - g1 * by.sine;
        z1[n] = x[start + i];
        z2[n] = x[start + half + i];
        squares += z1[n] * z1[n] + z2[n] * z2[n];
        products += p1[n] * z1[n] + p2[n] * z2[n];
    }
    T square = reduce<Sum, 32>(squares) / (2 * half);
    T product = reduce<Sum, 32>(products) / (2 * half);  // mean(p x)
    T inverse = normalized ? 1 / sqrt(square + T(eps)) : T(1);
    T along = normalized ? product * inverse * inverse : T(0);  // mean(p z) / r
    for (int n = 0; n < PAIRS; n++) {
        int i = lane + 32 * n;
        if (i >= half) break;
        g[start + i] = (p1[n] - z1[n] * along) * inverse;
        g[start + half + i] = (p2[n] - z2[n] * along) * inverse;
    }
}
