// Room: step. One step of a model: its graph, and what a mesh makes of it.
// A program is the graph's ops on shards with the collectives between them. It
// is symbolic in sizes: bytes and shapes are formulas, asked for at real sizes
// and at small ones alike.
#ifndef SHARDC_STEP_PROGRAM_H_
#define SHARDC_STEP_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/collective.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/spec.h"
#include "model/step_graph.h"

namespace shardc::step {

using AxisId = uint8_t;    // index into Axes
using AxisSet = uint16_t;  // bits by AxisId
inline constexpr size_t kMaxAxes = 15;
inline constexpr size_t kMaxRank = 8;

inline AxisSet Bit(AxisId axis) { return static_cast<AxisSet>(1U << axis); }
inline bool Holds(AxisSet set, AxisId axis) { return (set & Bit(axis)) != 0; }

// Axes in the order in which they cut a dimension, the major one first.
class AxisList {
 public:
  AxisList() = default;
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  AxisId operator[](size_t i) const { return axes_[i]; }
  AxisId back() const { return axes_[count_ - 1U]; }
  const AxisId* begin() const { return axes_.data(); }
  const AxisId* end() const { return axes_.data() + count_; }
  void push_back(AxisId axis) {
    axes_[count_++] = axis;
    set_ = static_cast<AxisSet>(set_ | Bit(axis));
  }
  void push_front(AxisId axis) {
    for (size_t i = count_; i > 0; --i) axes_[i] = axes_[i - 1];
    axes_[0] = axis;
    ++count_;
    set_ = static_cast<AxisSet>(set_ | Bit(axis));
  }
  void pop_back() {
    const AxisId last = axes_[--count_];
    axes_[count_] = 0;
    set_ = static_cast<AxisSet>(set_ & ~Bit(last));
  }
  AxisSet set() const { return set_; }
  bool operator==(const AxisList&) const = default;

 private:
  std::array<AxisId, kMaxAxes - 1> axes_{};
  AxisSet set_ = 0;
  uint8_t count_ = 0;
};

bool IsPrefix(const AxisList& prefix, const AxisList& whole);

// The mesh's axes of more than one device, in its order.
struct Axes {
  std::vector<std::string> names = {};
  std::vector<int64_t> sizes = {};

  size_t count() const { return names.size(); }
  int64_t Parts(const AxisList& list) const;
  // Axes of size 1 and those the mesh lacks fall away.
  AxisList Of(const AxisGroup& group) const;
  AxisGroup Group(const AxisList& list) const;
  AxisSet SetOf(const AxisGroup& group) const { return Of(group).set(); }
};
Axes AxesOf(const Mesh& mesh);

// How a value lies: for each of its dimensions the axes that cut it, and the
// axes over which what the devices hold has still to be summed. An axis stands
// at most once in all of it; one that stands nowhere replicates.
struct Sharding {
  std::array<AxisList, kMaxRank> dims{};
  uint8_t rank = 0;
  AxisSet partial = 0;

  AxisSet cut() const;  // axes of all dimensions
  AxisSet used() const { return static_cast<AxisSet>(cut() | partial); }
  bool operator==(const Sharding&) const = default;
};
Spec SpecOf(const Axes& axes, const Sharding& sharding);

// A value in one layout.
struct Slot {
  ValueId value = kNoValue;
  Sharding sharding = {};
};

enum class InstructionKind : uint8_t { kInput, kLocal, kSlice, kCollective };

struct Instruction {
  InstructionKind kind = InstructionKind::kLocal;
  int32_t op = -1;  // of the graph: what it does, or what it is moved for
  std::vector<int32_t> in = {};  // slots
  int32_t out = -1;
  // Of slices and collectives.
  AxisList axes = {};
  uint8_t dim = 0;    // cut, joined, or scattered
  uint8_t other = 0;  // all_to_all: the dimension that is joined
  Collective collective = Collective::kAllGather;
  bool max = false;  // all_reduce of maxima
  // ppermute: whole shards go so many places on along `axes`; 0: to where `out`
  // has these in another order.
  int8_t shift = 0;
};

// An op for which an axis could serve several labels.
struct ShardingConflict {
  int32_t op = -1;
  AxisId axis = 0;
  std::vector<LabelId> labels = {};
  LabelId chosen = kNoLabel;  // kNoLabel: gathered
  int64_t bytes = 0;          // sent by a device for the choice, real sizes
  LabelId cheapest = kNoLabel;
  int64_t least = 0;
};

struct Program {
  Axes axes = {};
  std::vector<Slot> slots = {};
  std::vector<Instruction> code = {};
  std::vector<ShardingConflict> conflicts = {};
  // By ValueId: the slot it ends in, or -1.
  std::vector<int32_t> result = {};
  // What an anchor could not be given, in words.
  std::vector<std::string> notes = {};
};

// Sizes of a value's dimensions, and of each device's part.
Shape ShapeOf(const Graph& graph, ValueId value, const Sizes& sizes);
Shape LocalShapeOf(const Graph& graph, const Program& program, int32_t slot,
                   const Sizes& sizes);
int64_t LocalElements(const Axes& axes, const Value& value,
                      const Sharding& sharding, const Sizes& sizes);

// What one device sends for an instruction: the busiest one. `element_bytes`
// is that of real values; whole ones take 4.
int64_t SentBytes(const Graph& graph, const Program& program,
                  const Instruction& instruction, const Sizes& sizes,
                  int64_t element_bytes);
inline constexpr int64_t kWholeBytes = 4;

// `b:fsdp+dp d:tp | pending dp`, as reports show it.
std::string ShardingText(const Graph& graph, const Axes& axes, ValueId value,
                         const Sharding& sharding);

}  // namespace shardc::step

#endif  // SHARDC_STEP_PROGRAM_H_
