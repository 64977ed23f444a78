// Counts the elements that each device sends when a tensor is resharded. A spec
// divides a tensor into blocks, which are shards (model/shard_range.h). A
// device receives the overlap of the block that it needs with every block that
// it does not hold. In each dimension, a block of one spec overlaps only a
// range of blocks of the other spec, so only the blocks in these ranges are
// looked up. For example:
//
//   8 rows, held in blocks of 4 and needed in blocks of 2: the needed block 3
//   (rows 6 and 7) overlaps only the held block 1 (rows 4 to 7)
#include "comm/sent.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "model/mesh_layout.h"
#include "model/shard_range.h"
#include "source/index.h"
#include "source/size.h"

namespace shardc {
namespace {

// Returns the index of a device's block along each dimension.
std::vector<int64_t> BlockOf(const Sharding& sharding, size_t rank,
                             int64_t device) {
  const std::vector<int64_t> at = sharding.coordinates(device);
  std::vector<int64_t> out(rank);
  for (size_t d = 0; d < rank; ++d) {
    out[d] = IndexAlong(sharding.mesh, at, AxesAt(sharding.spec, d));
  }
  return out;
}

// The blocks of each dimension. Consecutive blocks of a dimension are adjacent.
using Blocks = std::vector<std::vector<ShardRange>>;

Blocks BlocksOf(const Sharding& sharding, const Shape& shape) {
  Blocks out(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    const AxisGroup axes = AxesAt(sharding.spec, d);
    const std::vector<int64_t> sizes = AxisSizes(sharding.mesh, axes);
    const int64_t parts = sharding.mesh.Parts(axes).value_or(1);
    for (int64_t i = 0; i < parts; ++i) {
      out[d].push_back(RangeOfShard(shape[d], sizes, i));
    }
  }
  return out;
}

// The devices that hold a block, and the number of devices that have been sent
// a part of it. The holders take turns: the next sender is number `sent` modulo
// the number of holders.
struct Holders {
  std::vector<int64_t> devices;
  size_t sent = 0;
};

// Iterates over the blocks of a spec that overlap one block of another spec.
// In each dimension, the indices of the overlapping blocks are a range.
class Overlaps {
 public:
  // `have` are the blocks that devices hold. `want` is the range of the needed
  // block in each dimension, which is not empty.
  Overlaps(const Blocks& have, std::vector<ShardRange> want)
      : have_(have), want_(std::move(want)), first_(have.size()) {
    for (size_t d = 0; d < have.size(); ++d) {
      // Of several blocks with the same begin, only the last is not empty.
      const auto after =
          std::upper_bound(have[d].begin(), have[d].end(), want_[d].begin,
                           [](int64_t begin, const ShardRange& block) {
                             return begin < block.begin;
                           });
      first_[d] = after - have[d].begin() - 1;
    }
    at_ = first_;
  }

  const std::vector<int64_t>& block() const { return at_; }

  int64_t Elements() const {
    Size out = 1;
    for (size_t d = 0; d < at_.size(); ++d) {
      const ShardRange& held = have_[d][AsIndex(at_[d])];
      out *= std::min(held.end(), want_[d].end()) -
             std::max(held.begin, want_[d].begin);
    }
    return out.value();
  }

  // Moves to the next block; returns false after the last one.
  bool Next() {
    for (size_t d = at_.size(); d > 0; --d) {
      const size_t i = d - 1;
      const auto next = AsIndex(++at_[i]);
      if (next < have_[i].size() && have_[i][next].begin < want_[i].end()) {
        return true;
      }
      at_[i] = first_[i];
    }
    return false;
  }

 private:
  const Blocks& have_;
  std::vector<ShardRange> want_;
  std::vector<int64_t> first_, at_;
};

}  // namespace

std::vector<int64_t> CountSent(const Sharding& from, const Sharding& to,
                               const Shape& shape) {
  const size_t rank = shape.size();
  const int64_t devices = from.mesh.devices;
  std::vector<int64_t> out(AsIndex(devices), 0);
  const Blocks have = BlocksOf(from, shape);
  std::map<std::vector<int64_t>, Holders> blocks;
  for (int64_t device = 0; device < devices; ++device) {
    blocks[BlockOf(from, rank, device)].devices.push_back(device);
  }
  for (int64_t device = 0; device < devices; ++device) {
    const std::vector<int64_t> own = BlockOf(from, rank, device);
    const std::vector<int64_t> at = to.coordinates(device);
    std::vector<ShardRange> want(rank);
    bool empty = false;
    for (size_t d = 0; d < rank; ++d) {
      want[d] = RangeAlong(to.mesh, at, AxesAt(to.spec, d), shape[d]);
      empty = empty || want[d].size == 0;
    }
    if (empty) continue;
    Overlaps overlaps(have, std::move(want));
    do {
      const auto block = blocks.find(overlaps.block());
      if (overlaps.block() == own || block == blocks.end()) continue;
      Holders& holders = block->second;
      const size_t turn = holders.sent++ % holders.devices.size();
      int64_t& sum = out[AsIndex(holders.devices[turn])];
      sum = (Size(sum) + overlaps.Elements()).value();
    } while (overlaps.Next());
  }
  return out;
}

}  // namespace shardc
