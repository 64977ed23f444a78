// The features of an attention, such as a window or dropout. Each feature has a
// name and the values that it sets in a case. Some features add an input, such
// as a mask, which the operation must support. The values are chosen to reveal
// mistakes: a window is longer than half of the keys, and a soft cap is low
// enough to change logits. For example:
//
//   window on 16 keys  ->  16 / 2 + 1 = 9 keys
#include "verify/cases/features.h"

#include <algorithm>
#include <array>

#include "source/index.h"

namespace shardc::verify {
namespace {

constexpr std::array kAll = {
    Feature::kBias,         Feature::kBiasByHead,     Feature::kMask,
    Feature::kAdditiveMask, Feature::kSegments,       Feature::kWindow,
    Feature::kSinks,        Feature::kSinksByKeyHead, Feature::kSoftCap,
    Feature::kLeftPadding,  Feature::kMaskedRow,      Feature::kDropout,
    Feature::kLargeLogits,  Feature::kCustomBlocks,   Feature::kScale,
};

constexpr std::array<std::string_view, kAll.size()> kNames = {
    "bias",         "bias_by_head",  "mask",       "additive_mask",
    "segments",     "window",        "sinks",      "sinks_by_key_head",
    "soft_cap",     "left_padding",  "masked_row", "dropout",
    "large_logits", "custom_blocks", "scale",
};

bool Has(const Features& f, Feature feature) {
  switch (feature) {
    case Feature::kBias:
      return f.bias && !f.bias_by_head;
    case Feature::kBiasByHead:
      return f.bias && f.bias_by_head;
    case Feature::kMask:
      return f.mask;
    case Feature::kAdditiveMask:
      return f.additive_mask;
    case Feature::kSegments:
      return f.segments;
    case Feature::kWindow:
      return f.window.has_value();
    case Feature::kSinks:
      return f.sinks_rank == 1;
    case Feature::kSinksByKeyHead:
      return f.sinks_rank == 2;
    case Feature::kSoftCap:
      return f.soft_cap > 0;
    case Feature::kLeftPadding:
      return f.left_padding;
    case Feature::kMaskedRow:
      return f.masked_row;
    case Feature::kDropout:
      return f.dropout > 0;
    case Feature::kLargeLogits:
      return f.large_logits;
    case Feature::kCustomBlocks:
      return f.custom_blocks;
    case Feature::kScale:
      return f.scale.has_value();
  }
  return false;
}

// Returns the input that an operation must support to use the feature, or
// nullopt if every operation can use it.
std::optional<exec::Input> InputOf(Feature feature) {
  switch (feature) {
    case Feature::kBias:
    case Feature::kBiasByHead:
      return exec::Input::kBias;
    case Feature::kMask:
    case Feature::kAdditiveMask:
    case Feature::kMaskedRow:  // the row is masked by an explicit mask
      return exec::Input::kMask;
    case Feature::kDropout:
      return exec::Input::kDropout;
    case Feature::kSegments:
      return exec::Input::kSegments;
    case Feature::kLeftPadding:
      return exec::Input::kLeftPadding;
    case Feature::kSinksByKeyHead:
      return exec::Input::kSinksByKeyHead;
    case Feature::kCustomBlocks:
      return exec::Input::kBlockTable;
    case Feature::kWindow:
    case Feature::kSinks:
    case Feature::kSoftCap:
    case Feature::kLargeLogits:
    case Feature::kScale:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::span<const Feature> AllFeatures() { return kAll; }

std::string_view FeatureName(Feature feature) {
  return kNames[static_cast<size_t>(feature)];
}

std::optional<Feature> ParseFeature(std::string_view name) {
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) return std::nullopt;
  return kAll[AsIndex(at - kNames.begin())];
}

bool Takes(const exec::Operation& operation, Mode mode, Layout layout,
           Feature feature) {
  if (const auto input = InputOf(feature); input && !operation.Takes(*input)) {
    return false;
  }
  const bool packed = layout == Layout::kThd;
  switch (feature) {
    // Packed rows always have segments, and each row starts at its own first
    // token. The two features therefore do not apply to them.
    case Feature::kSegments:
    case Feature::kLeftPadding:
      return !packed;
    case Feature::kMaskedRow:
      return !packed || !IsGeneration(mode);
    default:
      return true;
  }
}

void SwitchOn(Feature feature, Case& test) {
  Features& f = test.features;
  switch (feature) {
    case Feature::kBias:
      f.bias = true;
      break;
    case Feature::kBiasByHead:
      f.bias = f.bias_by_head = true;
      break;
    case Feature::kMask:
      f.mask = true;
      break;
    case Feature::kAdditiveMask:
      f.additive_mask = true;
      break;
    case Feature::kSegments:
      f.segments = true;
      break;
    case Feature::kWindow:
      // The window must end inside a shard, not at its end. A window of half of
      // the keys plus one ends inside a shard if the number of shards is even
      // and each shard has several keys.
      if (!f.window) {
        f.window = std::max<int64_t>(1, test.sizes.key_length / 2 + 1);
      }
      break;
    case Feature::kSinks:
      f.sinks_rank = 1;
      break;
    case Feature::kSinksByKeyHead:
      f.sinks_rank = 2;
      break;
    case Feature::kSoftCap:
      if (f.soft_cap == 0) f.soft_cap = 5;
      break;
    case Feature::kLeftPadding:
      f.left_padding = true;
      break;
    case Feature::kMaskedRow:
      f.masked_row = true;
      break;
    case Feature::kDropout:
      f.dropout = 0.25;
      break;
    case Feature::kLargeLogits:
      f.large_logits = true;
      break;
    case Feature::kCustomBlocks:
      f.custom_blocks = true;
      test.settings.block_mask = exec::BlockMask::kCustom;
      break;
    case Feature::kScale:
      if (!f.scale) f.scale = 0.37;
      break;
  }
}

std::optional<exec::Window> WindowOf(const Features& features) {
  if (!features.window) return std::nullopt;
  exec::Window out = exec::LastKeys(*features.window);
  if (features.window_right) out.right = features.window_right;
  return out;
}

std::vector<std::string_view> FeatureNames(const Case& test) {
  std::vector<std::string_view> out;
  for (const Feature feature : kAll) {
    if (Has(test.features, feature)) out.push_back(FeatureName(feature));
  }
  if (test.longer) out.emplace_back("long");
  return out;
}

}  // namespace shardc::verify
