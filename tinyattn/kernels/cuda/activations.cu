// Activation functions, element by element: what they compute is written in ops/activations.py.

#include "common.cuh"

// Phi(x) and its derivative: TANH for the approximation (1 + tanh u) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3).
template <bool TANH, typename T>
__device__ void normal_cumulative(T x, T &cumulative, T &density) {
    if (TANH) {
        const T c = T(0.7978845608028654);  // sqrt(2 / pi)
        T t = tanh(c * (x + T(0.044715) * x * x * x));
        cumulative = T(0.5) * (1 + t);
        density = T(0.5) * (1 - t * t) * c * (1 + T(3 * 0.044715) * x * x);
    } else {
        cumulative = T(0.5) * (1 + erf(x * T(0.7071067811865476)));
        density = exp(T(-0.5) * x * x) * T(0.3989422804014327);  // 1 / sqrt(2 pi)
    }
}

template <typename Number>
__global__ void relu_squared_forward(const Number *x, Number *y, int size) {
    typedef Wide<Number> T;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
        T positive = Largest::of(T(x[i]), T(0));
        y[i] = positive * positive;
    }
}

// dx = 2 g max(x, 0)
template <typename Number>
__global__ void relu_squared_backward(const Number *g, const Number *x, Number *dx, int size) {
    typedef Wide<Number> T;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x)
        dx[i] = T(g[i]) * 2 * Largest::of(T(x[i]), T(0));
}

template <typename Number, bool TANH>
__global__ void gelu_forward(const Number *x, Number *y, int size) {
    typedef Wide<Number> T;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
        T cumulative, density;
        normal_cumulative<TANH>(T(x[i]), cumulative, density);
        y[i] = T(x[i]) * cumulative;
    }
}

// dx = g (Phi(x) + x Phi'(x))
template <typename Number, bool TANH>
__global__ void gelu_backward(const Number *g, const Number *x, Number *dx, int size) {
    typedef Wide<Number> T;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
        T cumulative, density;
        normal_cumulative<TANH>(T(x[i]), cumulative, density);
        dx[i] = T(g[i]) * (cumulative + T(x[i]) * density);
    }
}
