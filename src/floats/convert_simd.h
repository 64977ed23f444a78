// Declares the vectorised loops with which convert.cc converts arrays of
// floats. They are compiled for each instruction set, and the program chooses
// one set when it runs. Arrays may have any alignment.
#ifndef SHARDC_FLOATS_CONVERT_SIMD_H_
#define SHARDC_FLOATS_CONVERT_SIMD_H_

#include <cstddef>

namespace shardc {

void SimdF16FromF32(const void* in, void* out, size_t count);
void SimdBf16FromF32(const void* in, void* out, size_t count);
void SimdF32FromF16(const void* in, void* out, size_t count);
void SimdF32FromBf16(const void* in, void* out, size_t count);
void SimdF16FromBf16(const void* in, void* out, size_t count);
void SimdBf16FromF16(const void* in, void* out, size_t count);

}  // namespace shardc

#endif  // SHARDC_FLOATS_CONVERT_SIMD_H_
