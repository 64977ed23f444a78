// The numbers that GGUF files use for data types and for types of metadata.
#ifndef SHARDC_IMPORTERS_GGUF_TYPES_H_
#define SHARDC_IMPORTERS_GGUF_TYPES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "model/block_types.h"
#include "model/dtype.h"

namespace shardc::gguf {

// A data type and its number in ggml. The numbers 4, 5, 31 to 33 and 36 to 38
// are absent, because ggml has removed their types.
struct GgmlType {
  uint32_t id;
  Dtype dtype;
};

inline constexpr GgmlType kTypes[] = {
    {0, Dtype::kF32},    {1, Dtype::kF16},     {2, block::kQ4_0},
    {3, block::kQ4_1},   {6, block::kQ5_0},    {7, block::kQ5_1},
    {8, block::kQ8_0},   {9, block::kQ8_1},    {10, block::kQ2K},
    {11, block::kQ3K},   {12, block::kQ4K},    {13, block::kQ5K},
    {14, block::kQ6K},   {15, block::kQ8K},    {16, block::kIq2Xxs},
    {17, block::kIq2Xs}, {18, block::kIq3Xxs}, {19, block::kIq1S},
    {20, block::kIq4Nl}, {21, block::kIq3S},   {22, block::kIq2S},
    {23, block::kIq4Xs}, {24, Dtype::kI8},     {25, Dtype::kI16},
    {26, Dtype::kI32},   {27, Dtype::kI64},    {28, Dtype::kF64},
    {29, block::kIq1M},  {30, Dtype::kBF16},   {34, block::kTq1_0},
    {35, block::kTq2_0}, {39, block::kMxfp4},
};

// The types of metadata values that the reader of GGUF distinguishes.
enum ValueType : uint32_t {
  kUint32 = 4,
  kInt32 = 5,  // types 0 to 5 are integers of 8, 16 and 32 bits
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kValueTypes = 13,
};
// The number of bytes of a metadata value, indexed by ValueType. It is 0 for
// strings and arrays, which have no fixed size.
inline constexpr std::array<size_t, kValueTypes> kValueBytes = {
    1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

}  // namespace shardc::gguf

#endif  // SHARDC_IMPORTERS_GGUF_TYPES_H_
