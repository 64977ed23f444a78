// Applies the requested settings of an operation to a case. A block of keys
// that is as long as the case would hide mistakes between blocks. If the length
// of a case is reduced, the block size is therefore reduced to about three
// eighths of the length. Most lengths then have two complete blocks and a
// shorter one. For example, if a length of 4096 is reduced to 16 and blocks
// have 512 keys:
//
//   (16 * 3 + 7) / 8 = 6, so the blocks have 6, 6 and 4 keys
#include "verify/cases/settings.h"

#include <algorithm>
#include <optional>

namespace shardc::verify {
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
