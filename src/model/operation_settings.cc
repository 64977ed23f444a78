// Merges the settings of attention operations, and finds which settings are
// given. Each setting is an optional member of a struct. The function ForEach
// lists all members, and all other functions use this list, so no function can
// forget a setting. For example:
//
//   {page_size 16, soft_cap 30} merged with {page_size 8}
//     ->  {page_size 8, soft_cap 30}
#include "model/operation_settings.h"

namespace shardc {
namespace {

// Calls `visit(setting, own's member, other's member)` for each setting.
template <class Own, class Other, class Visit>
void ForEach(Own& own, Other& other, Visit visit) {
  visit(Setting::kRuntimeDtype, own.runtime_dtype, other.runtime_dtype);
  visit(Setting::kSoftmaxDtype, own.softmax_dtype, other.softmax_dtype);
  visit(Setting::kSoftmaxScale, own.softmax_scale, other.softmax_scale);
  visit(Setting::kSoftCap, own.soft_cap, other.soft_cap);
  visit(Setting::kDropout, own.dropout, other.dropout);
  visit(Setting::kBlocksizeQ, own.blocksize_q, other.blocksize_q);
  visit(Setting::kBlocksizeK, own.blocksize_k, other.blocksize_k);
  visit(Setting::kBlocksizeB, own.blocksize_b, other.blocksize_b);
  visit(Setting::kPageSize, own.page_size, other.page_size);
  visit(Setting::kSequenceAxis, own.sequence_axis, other.sequence_axis);
  visit(Setting::kRingAxes, own.ring_axes, other.ring_axes);
  visit(Setting::kScanRing, own.scan_ring_attention, other.scan_ring_attention);
  visit(Setting::kOrder, own.order, other.order);
  visit(Setting::kMerge, own.merge, other.merge);
  visit(Setting::kBlockMask, own.block_mask, other.block_mask);
  visit(Setting::kGlobalBlocks, own.global_blocks, other.global_blocks);
  visit(Setting::kDotBits, own.dot_bits, other.dot_bits);
}

}  // namespace

bool SettingsRecord::Has(Setting setting) const {
  bool has = false;
  ForEach(*this, *this, [&](Setting which, const auto& own, const auto&) {
    if (which == setting) has = own.has_value();
  });
  return has;
}

void SettingsRecord::Drop(Setting setting) {
  ForEach(*this, *this, [&](Setting which, auto& own, const auto&) {
    if (which == setting) own.reset();
  });
}

void SettingsRecord::Override(const SettingsRecord& over) {
  if (over.ring_axes) ring_axes_place = over.ring_axes_place;
  if (over.sequence_axis) sequence_axis_place = over.sequence_axis_place;
  ForEach(*this, over, [](Setting, auto& own, const auto& other) {
    if (other) own = other;
  });
}

const SettingsRecord* OperationsFile::Find(std::string_view operation) const {
  for (const auto& [name, record] : operations) {
    if (name == operation) return &record;
  }
  return nullptr;
}

std::vector<std::string_view> TakenBy(
    Setting setting, std::span<const KnownOperation> operations) {
  std::vector<std::string_view> out;
  for (const KnownOperation& operation : operations) {
    if (operation.settings.Has(setting)) out.push_back(operation.name);
  }
  return out;
}

}  // namespace shardc
