// The table of data types. It is searched by the names of safetensors and
// numpy, by aliases and by array-protocol codes. The size of a tensor with less
// than a byte per element is rounded up to a whole byte. Sizes are computed
// from groups of eight elements, because a tensor's number of bits may not fit
// int64_t. Block types (model/manifest.h) have a second table. For example:
//
//   `bfloat16`            ->  BF16
//   `<f4`                 ->  F32
//   3 elements of F4      ->  12 bits, so 2 bytes
//   512 elements of Q4_K  ->  2 blocks, which have 288 bytes
#include "model/dtype.h"

#include <array>
#include <string>
#include <tuple>
#include <utility>

#include "model/manifest.h"
#include "source/size.h"

namespace shardc {
namespace {

struct Row {
  Dtype dtype;
  std::string_view name;  // The name in safetensors, such as BF16.
  int bits;
  // The name in numpy, such as `bfloat16` (from ml_dtypes), and the code of
  // numpy's array protocol, such as `f4`.
  std::string_view numpy;
  std::string_view code;
};

// The rows have the order of the enumeration, so that Dtype is their index.
constexpr std::array<Row, 24> kRows = {{
    {Dtype::kBool, "BOOL", 8, "bool", "b1"},
    {Dtype::kU8, "U8", 8, "uint8", "u1"},
    {Dtype::kI8, "I8", 8, "int8", "i1"},
    {Dtype::kI16, "I16", 16, "int16", "i2"},
    {Dtype::kU16, "U16", 16, "uint16", "u2"},
    {Dtype::kI32, "I32", 32, "int32", "i4"},
    {Dtype::kU32, "U32", 32, "uint32", "u4"},
    {Dtype::kI64, "I64", 64, "int64", "i8"},
    {Dtype::kU64, "U64", 64, "uint64", "u8"},
    {Dtype::kF16, "F16", 16, "float16", "f2"},
    {Dtype::kBF16, "BF16", 16, "bfloat16", ""},
    {Dtype::kF32, "F32", 32, "float32", "f4"},
    {Dtype::kF64, "F64", 64, "float64", "f8"},
    {Dtype::kC64, "C64", 64, "complex64", "c8"},
    {Dtype::kF8E4M3, "F8_E4M3", 8, "float8_e4m3fn", ""},
    {Dtype::kF8E5M2, "F8_E5M2", 8, "float8_e5m2", ""},
    {Dtype::kF8E8M0, "F8_E8M0", 8, "float8_e8m0fnu", ""},
    {Dtype::kF4, "F4", 4, "float4_e2m1fn", ""},
    {Dtype::kF6E2M3, "F6_E2M3", 6, "float6_e2m3fn", ""},
    {Dtype::kF6E3M2, "F6_E3M2", 6, "float6_e3m2fn", ""},
    {Dtype::kI4, "I4", 4, "int4", ""},
    {Dtype::kU4, "U4", 4, "uint4", ""},
    {Dtype::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8, "float8_e4m3fnuz", ""},
    {Dtype::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8, "float8_e5m2fnuz", ""},
}};

// A block type of ggml. A complete block has `elements` elements in `bytes`
// bytes.
struct BlockRow {
  Dtype dtype;
  std::string_view name;
  int64_t elements;
  int64_t bytes;
};

constexpr std::array<BlockRow, 24> kBlockRows = {{
    {block::kQ4_0, "Q4_0", 32, 18},       {block::kQ4_1, "Q4_1", 32, 20},
    {block::kQ5_0, "Q5_0", 32, 22},       {block::kQ5_1, "Q5_1", 32, 24},
    {block::kQ8_0, "Q8_0", 32, 34},       {block::kQ8_1, "Q8_1", 32, 36},
    {block::kQ2K, "Q2_K", 256, 84},       {block::kQ3K, "Q3_K", 256, 110},
    {block::kQ4K, "Q4_K", 256, 144},      {block::kQ5K, "Q5_K", 256, 176},
    {block::kQ6K, "Q6_K", 256, 210},      {block::kQ8K, "Q8_K", 256, 292},
    {block::kIq2Xxs, "IQ2_XXS", 256, 66}, {block::kIq2Xs, "IQ2_XS", 256, 74},
    {block::kIq3Xxs, "IQ3_XXS", 256, 98}, {block::kIq1S, "IQ1_S", 256, 50},
    {block::kIq4Nl, "IQ4_NL", 32, 18},    {block::kIq3S, "IQ3_S", 256, 110},
    {block::kIq2S, "IQ2_S", 256, 82},     {block::kIq4Xs, "IQ4_XS", 256, 136},
    {block::kIq1M, "IQ1_M", 256, 56},     {block::kTq1_0, "TQ1_0", 256, 54},
    {block::kTq2_0, "TQ2_0", 256, 66},    {block::kMxfp4, "MXFP4", 32, 17},
}};

static_assert(static_cast<size_t>(kBlockRows[0].dtype) == kRows.size());

// Other names of data types in numpy, JAX and torch.
constexpr std::pair<std::string_view, Dtype> kAliases[] = {
    {"bool_", Dtype::kBool},         {"?", Dtype::kBool},
    {"half", Dtype::kF16},           {"single", Dtype::kF32},
    {"double", Dtype::kF64},         {"float8_e4m3", Dtype::kF8E4M3},
    {"float8_e8m0", Dtype::kF8E8M0}, {"F8_E4M3FN", Dtype::kF8E4M3},
    {"F8_E8M0FNU", Dtype::kF8E8M0},  {"F4_E2M1", Dtype::kF4},
    {"float4_e2m1", Dtype::kF4},     {"float6_e2m3", Dtype::kF6E2M3},
    {"float6_e3m2", Dtype::kF6E3M2},
};

template <class Rows>
constexpr auto TypesOf(const Rows& rows) {
  std::array<Dtype, std::tuple_size_v<Rows>> all{};
  for (size_t i = 0; i < rows.size(); ++i) all[i] = rows[i].dtype;
  return all;
}

constexpr auto kAll = TypesOf(kRows);
constexpr auto kBlocks = TypesOf(kBlockRows);

const Row& RowOf(Dtype dtype) { return kRows[static_cast<size_t>(dtype)]; }

// Returns the row of a type with blocks; null for any other type.
const BlockRow* BlockRowOf(Dtype dtype) {
  const auto place = static_cast<size_t>(dtype);
  return place < kRows.size() ? nullptr : &kBlockRows[place - kRows.size()];
}

}  // namespace

std::string_view DtypeName(Dtype dtype) {
  const BlockRow* block = BlockRowOf(dtype);
  return block != nullptr ? block->name : RowOf(dtype).name;
}

int DtypeBits(Dtype dtype) {
  const BlockRow* block = BlockRowOf(dtype);
  if (block == nullptr) return RowOf(dtype).bits;
  return static_cast<int>((block->bytes * 8 + block->elements - 1) /
                          block->elements);
}

int64_t BlockElements(Dtype dtype) {
  const BlockRow* block = BlockRowOf(dtype);
  return block != nullptr ? block->elements : 1;
}

int64_t BlockAlong(const TensorType& type, size_t dim) {
  const bool last = type.shape && dim + 1 == type.shape->size();
  return last && type.dtype ? BlockElements(*type.dtype) : 1;
}

std::span<const Dtype> AllDtypes() { return kAll; }

std::span<const Dtype> BlockDtypes() { return kBlocks; }

std::optional<Dtype> ParseStoredDtype(std::string_view text) {
  for (const BlockRow& row : kBlockRows) {
    if (text == row.name) return row.dtype;
  }
  return ParseDtype(text);
}

std::optional<Dtype> ParseDtype(std::string_view text) {
  for (const Row& row : kRows) {
    if (text == row.name || text == row.numpy) return row.dtype;
  }
  for (const auto& [name, dtype] : kAliases) {
    if (text == name) return dtype;
  }
  // Codes of numpy's array protocol, such as `<f4`. The big-endian `>f4` is not
  // accepted, because safetensors has no big-endian types.
  if (!text.empty() && (text[0] == '<' || text[0] == '|' || text[0] == '=')) {
    text.remove_prefix(1);
  }
  if (text.empty()) return std::nullopt;
  for (const Row& row : kRows) {
    if (text == row.code) return row.dtype;
  }
  return std::nullopt;
}

std::optional<int64_t> BytesOf(int64_t elements, Dtype dtype) {
  if (const BlockRow* block = BlockRowOf(dtype)) {
    const int64_t blocks =
        elements / block->elements + (elements % block->elements > 0 ? 1 : 0);
    return CheckedMul(blocks, block->bytes);
  }
  const int bits = DtypeBits(dtype);
  if (bits % 8 == 0) return CheckedMul(elements, bits / 8);
  // Only the quotient by 8 is multiplied, because the number of bits may not
  // fit int64_t.
  auto whole = CheckedMul(elements / 8, bits);
  if (!whole) return std::nullopt;
  return CheckedAdd(*whole, ((elements % 8) * bits + 7) / 8);
}

}  // namespace shardc
