// CUDA C++ for g++: the keywords, built-in variables and functions that the kernels use, for the simulator. NVRTC does not
// read this file.
#pragma once

#define __global__ static
#define __device__
#define __host__
#define __shared__ static  // blocks run one after the other, so that all threads of one share a static variable
#define __launch_bounds__(...)
#define __forceinline__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __restrict__

#define SIMULATED 1

struct dim3 {
    unsigned x, y, z;
};

namespace simulator {

// Of the thread that is running, and of its launch.
dim3 thread_index();
dim3 block_index();
dim3 block_shape();
dim3 grid_shape();

void barrier(const char *place);
double shuffle(unsigned mask, double value, int source, const char *place);
int lane();
int compare_and_swap(int *place, int expected, int value);

template <int... I>
struct Sequence {};
template <int N, int... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <int... I>
struct Count<0, I...> {
    typedef Sequence<I...> type;
};

// The code of a parameter's type, for the check of arguments: a letter and the size in bytes, after a star for a pointer.
template <typename T>
struct Code;
#define SIMULATED_TYPE(type, code)                                      \
    template <>                                                         \
    struct Code<type> {                                                 \
        static const char *name() { return code; }                      \
    };                                                                  \
    template <>                                                         \
    struct Code<type *> {                                               \
        static const char *name() { return "*" code; }                  \
    };                                                                  \
    template <>                                                         \
    struct Code<const type *> {                                         \
        static const char *name() { return "*" code; }                  \
    };
SIMULATED_TYPE(bool, "b1")
SIMULATED_TYPE(int, "i4")
SIMULATED_TYPE(unsigned, "u4")
SIMULATED_TYPE(long long, "i8")
SIMULATED_TYPE(float, "f4")
SIMULATED_TYPE(double, "f8")

struct Launch;
int run(const Launch &launch, void (*thread)(void *), void *data);

template <typename... A>
struct Call {
    void (*kernel)(A...);
    void **arguments;

    template <int... I>
    __attribute__((no_sanitize("thread"))) void unpack(Sequence<I...>) {
        kernel(*(A *)arguments[I]...);
    }

    static __attribute__((no_sanitize("thread"))) void thread(void *data) {
        ((Call *)data)->unpack(typename Count<sizeof...(A)>::type());
    }
};

template <typename... A>
int launch(void (*kernel)(A...), const Launch &shape, void **arguments) {
    Call<A...> call = {kernel, arguments};
    return run(shape, Call<A...>::thread, &call);
}

template <typename... A>
void describe(void (*)(A...), void (*add)(const char *)) {
    const char *codes[] = {Code<A>::name()...};
    for (const char *code : codes) add(code);
}

}  // namespace simulator

#define SIMULATED_KERNEL(number, ...)                                                                      \
    extern "C" __attribute__((visibility("default"))) int launch_##number(const simulator::Launch *shape, \
                                                                          void **arguments) {             \
        return simulator::launch(__VA_ARGS__, *shape, arguments);                                         \
    }                                                                                                      \
    extern "C" __attribute__((visibility("default"))) void describe_##number(void (*add)(const char *)) { \
        simulator::describe(__VA_ARGS__, add);                                                            \
    }

#define threadIdx (simulator::thread_index())
#define blockIdx (simulator::block_index())
#define blockDim (simulator::block_shape())
#define gridDim (simulator::grid_shape())
#define SIMULATED_TEXT(x) #x
#define SIMULATED_NUMBER(x) SIMULATED_TEXT(x)
#define SIMULATED_PLACE __FILE__ ":" SIMULATED_NUMBER(__LINE__)
#define __syncthreads() simulator::barrier(SIMULATED_PLACE)
#define __shfl_xor_sync(mask, value, change) \
    decltype(value)(simulator::shuffle(mask, value, simulator::lane() ^ (change), SIMULATED_PLACE))
#define __shfl_sync(mask, value, source) \
    decltype(value)(simulator::shuffle(mask, value, source, SIMULATED_PLACE))
#define atomicCAS(place, expected, value) simulator::compare_and_swap(place, expected, value)

// CUDA's mathematical functions exist for float and for double under one name.
#define SIMULATED_FUNCTION(name)                        \
    extern "C" double name(double);                     \
    extern "C" float name##f(float);                    \
    static inline float name(float x) { return name##f(x); }
SIMULATED_FUNCTION(exp)
SIMULATED_FUNCTION(log)
SIMULATED_FUNCTION(tanh)
SIMULATED_FUNCTION(erf)
SIMULATED_FUNCTION(sqrt)
extern "C" double fmax(double, double);
extern "C" float fmaxf(float, float);
static inline float fmax(float x, float y) { return fmaxf(x, y); }
extern "C" double fmin(double, double);
extern "C" float fminf(float, float);
static inline float fmin(float x, float y) { return fminf(x, y); }
static inline float __int_as_float(int bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
static inline int min(int x, int y) { return x < y ? x : y; }
static inline int max(int x, int y) { return x > y ? x : y; }
