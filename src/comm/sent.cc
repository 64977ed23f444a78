// Counts the elements that each device sends when a tensor is resharded. A spec
// divides a tensor into blocks of equal size. A device receives the overlap of
// the block that it needs with every block that it does not hold. In each
// dimension, a block of one spec overlaps only a range of blocks of the other
// spec, so only the blocks in these ranges are looked up. For example:
//
//   8 rows, held in blocks of 4 and needed in blocks of 2: the needed block 3
//   (rows 6 and 7) overlaps only the held block 1 (rows 4 to 7)
#include "comm/sent.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "model/mesh_layout.h"
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

std::vector<int64_t> BlockLengths(const Sharding& sharding,
                                  const Shape& shape) {
  std::vector<int64_t> out(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    out[d] /= sharding.mesh.Parts(AxesAt(sharding.spec, d)).value_or(1);
  }
  return out;
}

bool HasZero(const std::vector<int64_t>& lengths) {
  return std::find(lengths.begin(), lengths.end(), 0) != lengths.end();
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
  // `have` and `want` are the lengths, in each dimension, of a block that a
  // device holds and of a block that a device needs. `target` is the index of
  // the needed block in each dimension.
  Overlaps(const std::vector<int64_t>& have, const std::vector<int64_t>& want,
           const std::vector<int64_t>& target)
      : have_(have), want_(want), target_(target), first_(have.size()) {
    for (size_t d = 0; d < have.size(); ++d) {
      first_[d] = target[d] * want[d] / have[d];
    }
    at_ = first_;
  }

  const std::vector<int64_t>& block() const { return at_; }

  int64_t Elements() const {
    Size out = 1;
    for (size_t d = 0; d < at_.size(); ++d) {
      out *= std::min((at_[d] + 1) * have_[d], (target_[d] + 1) * want_[d]) -
             std::max(at_[d] * have_[d], target_[d] * want_[d]);
    }
    return out.value();
  }

  // Moves to the next block; returns false after the last one.
  bool Next() {
    for (size_t d = at_.size(); d > 0; --d) {
      const size_t i = d - 1;
      if (++at_[i] * have_[i] < (target_[i] + 1) * want_[i]) return true;
      at_[i] = first_[i];
    }
    return false;
  }

 private:
  const std::vector<int64_t>& have_;
  const std::vector<int64_t>& want_;
  const std::vector<int64_t>& target_;
  std::vector<int64_t> first_, at_;
};

}  // namespace

std::vector<int64_t> CountSent(const Sharding& from, const Sharding& to,
                               const Shape& shape) {
  const size_t rank = shape.size();
  const int64_t devices = from.mesh.devices;
  std::vector<int64_t> out(AsIndex(devices), 0);
  const std::vector<int64_t> have = BlockLengths(from, shape);
  const std::vector<int64_t> want = BlockLengths(to, shape);
  if (HasZero(have) || HasZero(want)) return out;
  std::map<std::vector<int64_t>, Holders> blocks;
  for (int64_t device = 0; device < devices; ++device) {
    blocks[BlockOf(from, rank, device)].devices.push_back(device);
  }
  for (int64_t device = 0; device < devices; ++device) {
    const std::vector<int64_t> own = BlockOf(from, rank, device);
    const std::vector<int64_t> target = BlockOf(to, rank, device);
    Overlaps overlaps(have, want, target);
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
