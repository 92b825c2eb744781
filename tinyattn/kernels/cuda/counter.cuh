// The random bits of backend/counter.py: a function of a key, in two halves, and of a counter, an element's index.
//
// Trade-offs: the mask is computed where it is needed and never stored, in a few integer operations per element.

__device__ inline unsigned random_bits(unsigned low, unsigned high, unsigned counter) {
    unsigned bits = (counter ^ low) * 0x9E3779B9u;
    for (int round = 0; round < 2; round++) {
        bits ^= bits >> 16;
        bits *= 0x21F0AAADu;
        bits ^= bits >> 15;
        bits *= 0xD35A2D97u;
        bits ^= bits >> 15;
        bits ^= round == 0 ? high : low;
    }
    return bits;
}

// Dropout: an element is kept, times the factor 1 / (1 - p), if its random bits are at least the threshold p 2^32.
// A threshold of 0 means no dropout.
#define DROPOUT unsigned low, unsigned high, unsigned threshold, double factor

template <typename T>
__device__ T dropped_out(T value, unsigned counter, DROPOUT) {
    if (threshold == 0) return value;
    return random_bits(low, high, counter) >= threshold ? value * T(factor) : T(0);
}
