#include "verify/settings.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "source/wording.h"

namespace shardc::verify {
namespace {

template <class To, class From>
void Set(To& to, const std::optional<From>& from) {
  if (from) to = static_cast<To>(*from);
}

// Two blocks and a ragged tail.
int64_t Cut(int64_t length, int64_t block) {
  return std::min(block, std::max<int64_t>(2, (length * 3 + 7) / 8));
}

// `length` is the case's, `given` the one that it stands for.
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

std::string RealText(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end.ptr);
}

std::string AxesText(const AxisGroup& axes) {
  std::string out;
  for (const std::string& axis : axes) {
    out += (out.empty() ? "" : ", ") + JsonString(axis);
  }
  return '[' + out + ']';
}

std::string BoolText(bool value) { return value ? "true" : "false"; }

template <class T, size_t kCount>
std::string NameText(const std::array<std::string_view, kCount>& names,
                     T value) {
  return JsonString(names[static_cast<size_t>(value)]);
}

std::string ValueText(const Case& test, Setting setting) {
  const exec::OperationSettings& s = test.settings;
  const Features& f = test.features;
  exec::AttentionOptions options;
  options.scale = f.scale;
  switch (setting) {
    case Setting::kRuntimeDtype:
      return s.runtime_dtype ? JsonString(DtypeName(*s.runtime_dtype)) : "null";
    case Setting::kSoftmaxDtype:
      return JsonString(DtypeName(s.softmax_dtype));
    case Setting::kSoftmaxScale:
      return RealText(options.ScaleFor(test.sizes.head_dim));
    case Setting::kSoftCap:
      return RealText(f.soft_cap);
    case Setting::kDropout:
      return RealText(f.dropout);
    case Setting::kBlocksizeQ:
      return std::to_string(s.blocksize_q);
    case Setting::kBlocksizeK:
      return std::to_string(s.blocksize_k);
    case Setting::kBlocksizeB:
      return std::to_string(s.blocksize_b);
    case Setting::kPageSize:
      return std::to_string(s.page_size);
    case Setting::kSequenceAxis:
      return s.sequence_axis.empty() ? "null" : JsonString(s.sequence_axis);
    case Setting::kRingAxes:
      return AxesText(s.ring_axes);
    case Setting::kScanRing:
      return BoolText(s.scan_ring);
    case Setting::kOrder:
      return NameText(kSequenceOrderNames, s.order);
    case Setting::kMerge:
      return NameText(kDecodeMergeNames, s.merge);
    case Setting::kBlockMask:
      return NameText(kBlockMaskNames, s.block_mask);
    case Setting::kGlobalBlocks:
      return std::to_string(s.global_blocks);
    case Setting::kDotBits:
      return std::to_string(s.dot_bits);
  }
  return "null";
}

}  // namespace

void LaySettings(const SettingsRecord& record, Case& test) {
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
  // Its table is test data, which a mask of another kind has no use for.
  if (record.block_mask && test.operation->name == "blocksparse") {
    f.custom_blocks = s.block_mask == exec::BlockMask::kCustom;
  }
}

void FitBlocks(const SettingsRecord& record, const Sizes& given, Case& test) {
  Fit(record.blocksize_q, "blocksize_q", given.query_length,
      test.sizes.query_length, test.settings.blocksize_q, test);
  Fit(record.blocksize_k, "blocksize_k", given.key_length,
      test.sizes.key_length, test.settings.blocksize_k, test);
}

std::string SettingsMembers(const Case& test, bool all) {
  std::string out;
  for (size_t i = 0; i < kSettingNames.size(); ++i) {
    const auto setting = static_cast<Setting>(i);
    if (!all && !Takes(test.operation->name, setting)) continue;
    if (!out.empty()) out += ", ";
    out += JsonString(kSettingNames[i]) + ": " + ValueText(test, setting);
  }
  return out;
}

}  // namespace shardc::verify
