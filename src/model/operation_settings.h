// Settings of attention operations. They come from a settings file, a model's
// config.json or flags. Each operation (exec/operations) declares which
// settings apply to it. Callers pass these declarations to the functions that
// read settings.
#ifndef SHARDC_MODEL_OPERATION_SETTINGS_H_
#define SHARDC_MODEL_OPERATION_SETTINGS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/dtype.h"
#include "source/size.h"
#include "source/source.h"

namespace shardc {

// The order in which the ranks of a ring (ring attention) hold the sequence.
enum class SequenceOrder : uint8_t {
  kContiguous,
  // The sequence has 2n chunks for n ranks. Rank r holds the chunks r and
  // 2n-1-r, which balances the work of causal attention.
  kZigZag,
  kStriped,  // Position p is on rank p mod n.
};

// How decoding merges the partial softmaxes of devices that hold different
// positions of the KV cache.
enum class DecodeMerge : uint8_t {
  // All-reduces the softmax's maximum, and then its sum and the output.
  kAllReduce,
  // All-gathers each device's normalised output and log-sum-exp.
  kAllGather,
};

enum class BlockMask : uint8_t { kCausal, kSliding, kGlobal, kCustom };

// The names in files and flags, in the order of the enumerations.
inline constexpr std::array<std::string_view, 3> kSequenceOrderNames = {
    "contiguous", "zig_zag", "striped"};
inline constexpr std::array<std::string_view, 2> kDecodeMergeNames = {
    "all_reduce", "all_gather"};
inline constexpr std::array<std::string_view, 4> kBlockMaskNames = {
    "causal", "sliding", "global", "custom"};

// All settings, in the order of the names in kSettingNames.
enum class Setting : uint8_t {
  kRuntimeDtype,
  kSoftmaxDtype,
  kSoftmaxScale,
  kSoftCap,
  kDropout,
  kBlocksizeQ,
  kBlocksizeK,
  kBlocksizeB,
  kPageSize,
  kSequenceAxis,
  kRingAxes,
  kScanRing,
  kOrder,
  kMerge,
  kBlockMask,
  kGlobalBlocks,
  kDotBits,
};
inline constexpr std::array<std::string_view, 17> kSettingNames = {
    "runtime_dtype", "softmax_dtype", "softmax_scale", "soft_cap",
    "dropout",       "blocksize_q",   "blocksize_k",   "blocksize_b",
    "page_size",     "sequence_axis", "ring_axes",     "scan_ring_attention",
    "order",         "merge",         "block_mask",    "global_blocks",
    "dot_bits",
};
static_assert(kSettingNames.size() ==
              static_cast<size_t>(Setting::kDotBits) + 1);
constexpr std::string_view SettingName(Setting setting) {
  return kSettingNames[static_cast<size_t>(setting)];
}

using SettingSet = EnumSet<Setting>;
// The settings that apply to every operation.
inline constexpr SettingSet kCommonSettings = {
    Setting::kRuntimeDtype, Setting::kSoftmaxDtype, Setting::kSoftmaxScale,
    Setting::kSoftCap};

// What the readers of settings must know about an operation. Callers pass it,
// because the readers cannot include exec/operations.
struct KnownOperation {
  std::string_view name;
  SettingSet settings;  // The settings that apply to the operation.
};

// Returns the names of the operations to which a setting applies.
std::vector<std::string_view> TakenBy(
    Setting setting, std::span<const KnownOperation> operations);

// The settings of one operation, or the defaults of all operations. A member is
// empty if the file does not give its setting.
struct SettingsRecord {
  // The dtype of computations: F32, BF16 or F16.
  std::optional<Dtype> runtime_dtype;
  // The dtype of the softmax: F32, BF16 or F16.
  std::optional<Dtype> softmax_dtype;
  // The factor by which attention logits are multiplied; above 0.
  std::optional<double> softmax_scale;
  // The soft cap of attention logits; 0 means no cap.
  std::optional<double> soft_cap;
  // The dropout rate, at least 0 and below 1.
  std::optional<double> dropout;
  std::optional<int64_t> blocksize_q, blocksize_k, blocksize_b;
  std::optional<int64_t> page_size;
  std::optional<std::string> sequence_axis;
  Place sequence_axis_place;
  std::optional<std::vector<std::string>> ring_axes;
  Place ring_axes_place;
  std::optional<bool> scan_ring_attention;
  std::optional<SequenceOrder> order;
  std::optional<DecodeMerge> merge;
  std::optional<BlockMask> block_mask;
  std::optional<int64_t> global_blocks;
  // The bits of the operands of matmuls: 8 or 4, or 0 for operands that
  // are not quantised.
  std::optional<int64_t> dot_bits;

  bool Has(Setting setting) const;
  void Drop(Setting setting);
  // Replaces each setting for which `over` has a value by that value.
  void Override(const SettingsRecord& over);
};

struct OperationsFile {
  SettingsRecord defaults;
  std::vector<std::pair<std::string, SettingsRecord>> operations;

  const SettingsRecord* Find(std::string_view operation) const;
};

}  // namespace shardc

#endif  // SHARDC_MODEL_OPERATION_SETTINGS_H_
