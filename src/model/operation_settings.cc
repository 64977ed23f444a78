#include "model/operation_settings.h"

#include <algorithm>

namespace shardc {
namespace {

using Name = std::string_view;

// Without the paged kernels, which have none.
constexpr std::array<Name, 7> kDropout = {
    "vanilla",     "sdpa",           "flash_attn2", "ring",
    "blocksparse", "flash_decoding", "ulysses"};
constexpr std::array<Name, 4> kQueryBlocks = {"flash_attn2", "ring",
                                              "blocksparse", "ulysses"};
constexpr std::array<Name, 10> kKeyBlocks = {
    "flash_attn2",
    "ring",
    "blocksparse",
    "flash_decoding",
    "ulysses",
    "ragged_page_attention_v2",
    "ragged_page_attention_v3",
    "unified_attention",
    "paged_flash_attention",
    "multi_latent_ragged_page_attention_v1"};
constexpr std::array<Name, 5> kPages = {
    "ragged_page_attention_v2", "ragged_page_attention_v3", "unified_attention",
    "paged_flash_attention", "multi_latent_ragged_page_attention_v1"};
constexpr std::array<Name, 3> kProducts = {"vanilla", "sdpa", "flash_attn2"};
constexpr std::array<Name, 1> kRing = {"ring"};
constexpr std::array<Name, 1> kUlysses = {"ulysses"};
constexpr std::array<Name, 1> kDecoding = {"flash_decoding"};
constexpr std::array<Name, 1> kBlockSparse = {"blocksparse"};

// Calls `visit(setting, own member, other's member)` for each.
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

void SettingsRecord::Lay(const SettingsRecord& over) {
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

std::span<const std::string_view> TakenBy(Setting setting) {
  switch (setting) {
    case Setting::kDropout:
      return kDropout;
    case Setting::kBlocksizeQ:
    case Setting::kBlocksizeB:
      return kQueryBlocks;
    case Setting::kBlocksizeK:
      return kKeyBlocks;
    case Setting::kPageSize:
      return kPages;
    case Setting::kSequenceAxis:
    case Setting::kScanRing:
    case Setting::kOrder:
      return kRing;
    case Setting::kRingAxes:
      return kUlysses;
    case Setting::kMerge:
      return kDecoding;
    case Setting::kBlockMask:
    case Setting::kGlobalBlocks:
      return kBlockSparse;
    case Setting::kRuntimeDtype:
    case Setting::kSoftmaxDtype:
    case Setting::kSoftmaxScale:
    case Setting::kSoftCap:
      return {};
    case Setting::kDotBits:
      return kProducts;
  }
  return {};
}

bool Takes(std::string_view operation, Setting setting) {
  const auto names = TakenBy(setting);
  return names.empty() ||
         std::find(names.begin(), names.end(), operation) != names.end();
}

}  // namespace shardc
