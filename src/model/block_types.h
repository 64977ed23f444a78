// Data types that ggml stores in blocks, such as Q4_K. A block has a fixed
// number of elements of the innermost dimension, together with their scales.
// These types continue the numbering of Dtype (model/dtype.h), and the
// functions DtypeName, DtypeBits and BytesOf accept them.
#ifndef SHARDC_MODEL_BLOCK_TYPES_H_
#define SHARDC_MODEL_BLOCK_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/dtype.h"
#include "model/manifest.h"

namespace shardc {
namespace block {

inline constexpr Dtype kQ4_0{24};
inline constexpr Dtype kQ4_1{25};
inline constexpr Dtype kQ5_0{26};
inline constexpr Dtype kQ5_1{27};
inline constexpr Dtype kQ8_0{28};
inline constexpr Dtype kQ8_1{29};
inline constexpr Dtype kQ2K{30};
inline constexpr Dtype kQ3K{31};
inline constexpr Dtype kQ4K{32};
inline constexpr Dtype kQ5K{33};
inline constexpr Dtype kQ6K{34};
inline constexpr Dtype kQ8K{35};
inline constexpr Dtype kIq2Xxs{36};
inline constexpr Dtype kIq2Xs{37};
inline constexpr Dtype kIq3Xxs{38};
inline constexpr Dtype kIq1S{39};
inline constexpr Dtype kIq4Nl{40};
inline constexpr Dtype kIq3S{41};
inline constexpr Dtype kIq2S{42};
inline constexpr Dtype kIq4Xs{43};
inline constexpr Dtype kIq1M{44};
inline constexpr Dtype kTq1_0{45};
inline constexpr Dtype kTq2_0{46};
inline constexpr Dtype kMxfp4{47};

}  // namespace block

std::span<const Dtype> BlockDtypes();
// Parses the dtypes that a manifest may have: the spellings that ParseDtype
// accepts, and ggml's names of block types, such as "Q4_K". Returns nullopt for
// any other text.
std::optional<Dtype> ParseStoredDtype(std::string_view text);

// Returns the number of elements of a block; 1 for a type without blocks.
int64_t BlockElements(Dtype dtype);
// Returns the number of elements along dimension `dim` that are stored in one
// block. Blocks are along the last dimension, so the number is 1 for all other
// dimensions. It is also 1 if the shape or the dtype is unknown.
int64_t BlockAlong(const TensorType& type, size_t dim);

}  // namespace shardc

#endif  // SHARDC_MODEL_BLOCK_TYPES_H_
