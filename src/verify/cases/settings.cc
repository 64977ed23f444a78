// A record of settings laid over a case. Reduced lengths would be one block
// each, so blocks shrink with them to two and a ragged tail:
//
//   block 512, length 4096 reduced to 16  ->  (16 * 3 + 7) / 8 = 6: 6, 6, 4
#include "verify/cases/settings.h"

#include <algorithm>
#include <optional>

#include "source/json_writer.h"

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

template <class T, size_t kCount>
void WriteName(JsonWriter& json,
               const std::array<std::string_view, kCount>& names, T value) {
  json.String(names[static_cast<size_t>(value)]);
}

void WriteValue(JsonWriter& json, const Case& test, Setting setting) {
  const exec::OperationSettings& s = test.settings;
  const Features& f = test.features;
  exec::AttentionOptions options;
  options.scale = f.scale;
  switch (setting) {
    case Setting::kRuntimeDtype:
      if (s.runtime_dtype) {
        json.String(DtypeName(*s.runtime_dtype));
      } else {
        json.Null();
      }
      break;
    case Setting::kSoftmaxDtype:
      json.String(DtypeName(s.softmax_dtype));
      break;
    case Setting::kSoftmaxScale:
      json.Value(options.ScaleFor(test.sizes.head_dim));
      break;
    case Setting::kSoftCap:
      json.Value(f.soft_cap);
      break;
    case Setting::kDropout:
      json.Value(f.dropout);
      break;
    case Setting::kBlocksizeQ:
      json.Value(s.blocksize_q);
      break;
    case Setting::kBlocksizeK:
      json.Value(s.blocksize_k);
      break;
    case Setting::kBlocksizeB:
      json.Value(s.blocksize_b);
      break;
    case Setting::kPageSize:
      json.Value(s.page_size);
      break;
    case Setting::kSequenceAxis:
      if (s.sequence_axis.empty()) {
        json.Null();
      } else {
        json.String(s.sequence_axis);
      }
      break;
    case Setting::kRingAxes:
      json.Array(s.ring_axes);
      break;
    case Setting::kScanRing:
      json.Value(s.scan_ring);
      break;
    case Setting::kOrder:
      WriteName(json, kSequenceOrderNames, s.order);
      break;
    case Setting::kMerge:
      WriteName(json, kDecodeMergeNames, s.merge);
      break;
    case Setting::kBlockMask:
      WriteName(json, kBlockMaskNames, s.block_mask);
      break;
    case Setting::kGlobalBlocks:
      json.Value(s.global_blocks);
      break;
    case Setting::kDotBits:
      json.Value(s.dot_bits);
      break;
  }
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

void WriteSettingsMembers(JsonWriter& json, const Case& test, bool all) {
  for (size_t i = 0; i < kSettingNames.size(); ++i) {
    const auto setting = static_cast<Setting>(i);
    if (!all && !test.operation->Takes(setting)) continue;
    json.Key(kSettingNames[i]);
    WriteValue(json, test, setting);
  }
}

}  // namespace shardc::verify
