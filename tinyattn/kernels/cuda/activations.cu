// Activation functions, element by element: GELU, its approximation by tanh, squared ReLU. See ops/activations.py.
//
// In the feed-forward layer of a transformer block a bias is added to x first; elsewhere `bias` is null.
//
// Trade-offs: see activations.py.

#include "common.cuh"

enum Kind { GELU, GELU_TANH, RELU_SQUARED };

// The standard normal's cumulative Phi and density phi: of the approximation, (1 + tanh u) / 2 with
// u = sqrt(2/pi) (x + 0.044715 x^3) and its derivative.
template <int KIND, typename T>
__device__ void normal_cumulative(T x, T &cumulative, T &density) {
    if (KIND == GELU_TANH) {
        const T c = T(0.7978845608028654);  // sqrt(2 / pi)
        T t = tanh(c * (x + T(0.044715) * x * x * x));
        cumulative = T(0.5) * (1 + t);
        density = T(0.5) * (1 - t * t) * c * (1 + T(3 * 0.044715) * x * x);
    } else {
        cumulative = T(0.5) * (1 + erf(x * T(0.7071067811865476)));
        density = exp(T(-0.5) * x * x) * T(0.3989422804014327);  // 1 / sqrt(2 pi)
    }
}

// x Phi(x), or max(x, 0)^2.
template <int KIND, typename T>
__device__ T activation(T x) {
    if (KIND == RELU_SQUARED) {
        T positive = Largest::of(x, T(0));
        return positive * positive;
    }
    T cumulative, density;
    normal_cumulative<KIND>(x, cumulative, density);
    return x * cumulative;
}

// g times the derivative: Phi(x) + x phi(x), or 2 max(x, 0).
template <int KIND, typename T>
__device__ T activation_vjp(T g, T x) {
    if (KIND == RELU_SQUARED) return g * 2 * Largest::of(x, T(0));
    T cumulative, density;
    normal_cumulative<KIND>(x, cumulative, density);
    return g * (cumulative + x * density);
}

template <typename Number, int KIND>
__global__ void activation_forward(const Number *x, const Number *bias, Number *y, int size, int width) {
    typedef Wide<Number> T;
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < size; n += gridDim.x * blockDim.x) {
        T value = x[n];
        if (bias) value += T(bias[n % width]);
        y[n] = activation<KIND>(value);
    }
}

template <typename Number, int KIND>
__global__ void activation_backward(const Number *g, const Number *x, Number *dx, int size) {
    typedef Wide<Number> T;
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < size; n += gridDim.x * blockDim.x)
        dx[n] = activation_vjp<KIND>(T(g[n]), T(x[n]));
}

// As activation_backward for rows of x to which a bias was added. Its sums over the rows of dx for the bias, those of
// block (., y), which has every gridDim.y-th row, go to row y of `partial`, which has `stride` columns.
template <typename Number, int KIND>
__global__ void biased_activation_backward(const Number *g, const Number *x, const Number *bias, Number *dx,
                                           Wide<Number> *partial, int rows, int width, int stride) {
    typedef Wide<Number> T;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    T total = 0;
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        int n = row * width + column;
        T value = activation_vjp<KIND>(T(g[n]), T(x[n]) + T(bias[column]));
        dx[n] = value;
        total += value;
    }
    partial[(long long)blockIdx.y * stride + column] = total;
}
