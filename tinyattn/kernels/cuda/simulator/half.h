// Conversions of float16 on the host: those of the compiler, which round to the nearest as the GPU does.
#pragma once

namespace simulator {
SIMULATED_TYPE(Half, "f2")
}

inline Half::Half(float value) {
    _Float16 half = (_Float16)value;
    __builtin_memcpy(&bits, &half, sizeof bits);
}
inline Half::operator float() const {
    _Float16 half;
    __builtin_memcpy(&half, &bits, sizeof half);
    return (float)half;
}
