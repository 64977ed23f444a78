// Computes the shapes of a case's tensors, in the case's layout and as [batch,
// length, heads, dim]. Before tensors of different layouts are compared, they
// are converted to the second form. For example:
//
//   thd, batch 2, length 8  ->  [16, heads, dim] and [2, 8, heads, dim]
#include "verify/cases/case.h"

#include <algorithm>
#include <array>
#include <optional>

#include "exec/attention/narrow.h"
#include "source/size.h"

namespace shardc::verify {
namespace {

// Returns the sharding in the order [batch, length, heads, dim] of a tensor
// that has the spec `spec` in the case's layout.
exec::TensorSharding Canonical(const Case& test, int64_t length, int64_t heads,
                               int64_t dim, const Spec& spec) {
  return exec::InBthd(
      ShapeIn(test.layout, test.sizes.batch, length, heads, dim), spec,
      test.layout);
}

}  // namespace

Shape ShapeIn(Layout layout, int64_t batch, int64_t length, int64_t heads,
              int64_t dim) {
  switch (layout) {
    case Layout::kBhtd:
      return {batch, heads, length, dim};
    case Layout::kThd:
      return {batch * length, heads, dim};
    case Layout::kBthd:
      break;
  }
  return {batch, length, heads, dim};
}

Dtype KeyDtype(const Case& test) {
  return test.kv_dtype && exec::IsRealDtype(*test.kv_dtype) ? *test.kv_dtype
                                                            : test.dtype;
}

bool HasInt8Pages(const Case& test) {
  return test.kv_dtype == Dtype::kI8 && test.operation->pages;
}

Dtype OutputDtype(const Case& test) {
  if (test.settings.runtime_dtype) return *test.settings.runtime_dtype;
  // The two dtypes are floating-point, so they always have a common dtype.
  return exec::Promote(test.dtype, KeyDtype(test)).value_or(Dtype::kF32);
}

exec::TensorSharding QueryOf(const Case& test) {
  const Sizes& n = test.sizes;
  return Canonical(test, n.query_length, n.heads, n.head_dim, test.specs.query);
}

exec::TensorSharding KeyOf(const Case& test) {
  const Sizes& n = test.sizes;
  return Canonical(test, n.key_length, n.key_heads, n.head_dim, test.specs.key);
}

exec::TensorSharding ValueOf(const Case& test) {
  const Sizes& n = test.sizes;
  return Canonical(test, n.key_length, n.key_heads, n.ValueDim(),
                   test.specs.value);
}

exec::TensorSharding OutputOf(const Case& test) {
  const Sizes& n = test.sizes;
  return Canonical(test, n.query_length, n.heads, n.ValueDim(),
                   test.specs.output);
}

namespace {

// The features of an attention, such as a window or dropout. Each feature has a
// name and the values that it sets in a case. Some features add an input, such
// as a mask, which the operation must support. The values are chosen to reveal
// mistakes: a window is longer than half of the keys, and a soft cap is low
// enough to change logits. For example:
//
//   window on 16 keys  ->  16 / 2 + 1 = 9 keys

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

// Applies the requested settings of an operation to a case. A block of keys
// that is as long as the case would hide mistakes between blocks. If the length
// of a case is reduced, the block size is therefore reduced to about three
// eighths of the length. Most lengths then have two complete blocks and a
// shorter one. For example, if a length of 4096 is reduced to 16 and blocks
// have 512 keys:
//
//   (16 * 3 + 7) / 8 = 6, so the blocks have 6, 6 and 4 keys

namespace {

template <class To, class From>
void Set(To& to, const std::optional<From>& from) {
  if (from) to = static_cast<To>(*from);
}

// Returns `block`, limited to about three eighths of the length. The limit is
// at least 2.
int64_t Cut(int64_t length, int64_t block) {
  return std::min(block, std::max<int64_t>(2, (length * 3 + 7) / 8));
}

// Sets a block size. `length` is the case's length and `given` the length that
// the user requested. `asked` is the block size that the user requested.
void Fit(const std::optional<int64_t>& asked, std::string_view name,
         int64_t given, int64_t length, int64_t& block, Case& test) {
  if (!asked) {
    block = Cut(length, block);
    return;
  }
  if (*asked < length || *asked >= given) return;
  block = Cut(length, *asked);
  if (block == *asked) return;
  test.remarks.push_back("`" + std::string(name) + "` " +
                         std::to_string(*asked) + " is " +
                         std::to_string(block) + " here, as the length is " +
                         std::to_string(length) + " in place of " +
                         std::to_string(given) + " (--full keeps it)");
}

}  // namespace

void ApplySettings(const SettingsRecord& record, Case& test) {
  exec::OperationSettings& s = test.settings;
  if (record.runtime_dtype) s.runtime_dtype = record.runtime_dtype;
  Set(s.softmax_dtype, record.softmax_dtype);
  Set(s.blocksize_q, record.blocksize_q);
  Set(s.blocksize_k, record.blocksize_k);
  Set(s.blocksize_b, record.blocksize_b);
  Set(s.page_size, record.page_size);
  if (record.sequence_axis) s.sequence_axis = *record.sequence_axis;
  if (record.ring_axes) s.ring_axes = *record.ring_axes;
  Set(s.scan_ring, record.scan_ring_attention);
  Set(s.order, record.order);
  Set(s.merge, record.merge);
  Set(s.block_mask, record.block_mask);
  Set(s.global_blocks, record.global_blocks);
  Set(s.dot_bits, record.dot_bits);
  Features& f = test.features;
  if (record.softmax_scale) f.scale = record.softmax_scale;
  Set(f.soft_cap, record.soft_cap);
  Set(f.dropout, record.dropout);
  // With the block mask `custom`, the case gets a random table of blocks as
  // test data. Operations without the setting `block_mask` read no table.
  if (record.block_mask && test.operation->Takes(Setting::kBlockMask)) {
    f.custom_blocks = s.block_mask == exec::BlockMask::kCustom;
  }
}

void FitBlocks(const SettingsRecord& record, const Sizes& given, Case& test) {
  Fit(record.blocksize_q, "blocksize_q", given.query_length,
      test.sizes.query_length, test.settings.blocksize_q, test);
  Fit(record.blocksize_k, "blocksize_k", given.key_length,
      test.sizes.key_length, test.settings.blocksize_k, test);
}

}  // namespace shardc::verify
