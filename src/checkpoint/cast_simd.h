// The vector loops of cast.h, compiled for each instruction set and chosen
// when the program runs. Whole vectors only: each returns how many elements
// it has done from the front.
#ifndef SHARDC_CHECKPOINT_CAST_SIMD_H_
#define SHARDC_CHECKPOINT_CAST_SIMD_H_

#include <cstddef>
#include <cstdint>

namespace shardc {

// No alignment is needed.
size_t SimdFloat16FromFloat32(const char* in, char* out, size_t count);
size_t SimdBfloat16FromFloat32(const char* in, char* out, size_t count);
size_t SimdFloat32FromFloat16(const char* in, char* out, size_t count);
size_t SimdFloat32FromBfloat16(const char* in, char* out, size_t count);
size_t SimdFloat16FromBfloat16(const char* in, char* out, size_t count);
size_t SimdBfloat16FromFloat16(const char* in, char* out, size_t count);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_CAST_SIMD_H_
