// Rows of a table by id; backward sums the cotangents of the rows of each id. See ops/embedding.py.
//
// Trade-offs: backward sorts the ids instead of adding atomically, so that runs are bit-identical.

#include "common.cuh"

template <typename Number, typename Id>
__global__ void embedding_forward(const Id *ids, const Number *weight, Number *out, int *fault, int size, int rows,
                                  int width) {
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < size; n += gridDim.x * blockDim.x) {
        long long id = ids[n / width];
        if (id < 0 || id >= rows) {
            note_fault(fault, 1, id, rows);
            out[n] = Number(0);
        } else {
            out[n] = weight[id * width + n % width];
        }
    }
}

// Keys for sorting: by id, then by position, so that the order of equal ids is fixed.
template <typename Id>
__global__ void sort_keys(const Id *ids, long long *keys, int count) {
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < count; n += gridDim.x * blockDim.x)
        keys[n] = (long long)ids[n] * count + n;
}

// The index of the first of the sorted keys that is not below a bound, by bisection.
__device__ inline int first_from(const long long *keys, int count, long long bound) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (keys[middle] < bound) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The sum of the rows of g with the id blockIdx.x, a segment of the sorted keys. gridDim.y blocks share the segment, and
// each stores a partial sum: (gridDim.y, ids, width).
template <typename Number, typename Result>
__global__ void sum_by_id(const Number *g, const long long *keys, Result *sums, int count, int width, int padding) {
    typedef Wide<Number> T;
    int id = blockIdx.x;
    __shared__ int bounds[2];
    if (threadIdx.x < 2) bounds[threadIdx.x] = first_from(keys, count, (long long)(id + threadIdx.x) * count);
    __syncthreads();
    int start = bounds[0], length = bounds[1] - start;
    int from = start + (long long)length * blockIdx.y / gridDim.y;
    int to = start + (long long)length * (blockIdx.y + 1) / gridDim.y;
    for (int column = threadIdx.x; column < width; column += blockDim.x) {
        T total = 0;
        for (int i = from; i < to; i++) total += T(g[(keys[i] - (long long)id * count) * width + column]);
        sums[((long long)blockIdx.y * gridDim.x + id) * width + column] = id == padding ? T(0) : total;
    }
}
