// Writes the settings of a case's attention operation as JSON. A setting that
// the case does not give is written with the default that the operation uses.
// The scale is therefore always a number. An axis that is not set is written as
// null. For example, the default scale is one over the square root of the head
// dimension:
//
//   head_dim 16, scale not given  ->  "softmax_scale": 0.25
#include "emit/verify/settings_json.h"

#include <array>
#include <string_view>

#include "model/operation_settings.h"

namespace shardc {
namespace {

using verify::Case;
using verify::Features;

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

void WriteSettingsMembers(JsonWriter& json, const Case& test, bool all) {
  for (size_t i = 0; i < kSettingNames.size(); ++i) {
    const auto setting = static_cast<Setting>(i);
    if (!all && !test.operation->Takes(setting)) continue;
    json.Key(kSettingNames[i]);
    WriteValue(json, test, setting);
  }
}

}  // namespace shardc
