// The random bits of backend/counter.py: a function of a key, in two halves, and of an element's number.

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
