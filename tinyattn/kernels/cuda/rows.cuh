// Rows shared by THREADS threads each, a warp or a block: sums over the rows, and the residual stream.
//
// Trade-offs: sums over rows are kept in registers over all rows of a group, and reach memory once per block.

// Each thread has sums for ITEMS of the columns, over the rows of its group: store their totals over the GROUPS groups of
// the block, (width), to `partial`. All threads of the block must call.
template <int THREADS, int ITEMS, int GROUPS, typename T>
__device__ void store_partial_sums(const T *sums, T *partial, int width) {
    __shared__ T of_group[GROUPS][THREADS * ITEMS];
    int group = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
    __syncthreads();  // the sums of an earlier call may still be read
    for (int i = 0; i < ITEMS; i++) of_group[group][thread + i * THREADS] = sums[i];
    __syncthreads();
    for (int column = threadIdx.x; column < width; column += blockDim.x) {
        T total = 0;
        for (int other = 0; other < GROUPS; other++) total += of_group[other][column];
        partial[column] = total;
    }
}

// What a branch of a block adds to the residual stream at the element n: dropout of y + b, the bias b being optional.
template <typename Number>
__device__ Wide<Number> branch_value(const Number *y, const Number *bias, int n, int column, DROPOUT) {
    Wide<Number> value = y[n];
    if (bias) value += Wide<Number>(bias[column]);
    return dropped_out(value, n, low, high, threshold, factor);
}
