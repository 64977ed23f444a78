// Plans the steps of a reshard. Each dimension has a list of axes, and a list
// that it must get. If the present list is a beginning of the target list, the
// axis that follows in the target list is the next axis of the dimension. Until
// the target is reached, the first of these steps that applies is repeated:
//   1. slice, if the next axis shards no dimension and the value is not partial
//      over it
//   2. reduce_scatter, if the value is partial over the next axis
//   3. all_to_all, if the next axis is the minor axis of another dimension
//   4. all_reduce over partial axes that the target does not use
//   5. ppermute, if a dimension's axes only change their order
//   6. all_gather of the minor axis of a dimension that loses this axis
// Steps that make shards smaller come first, so that later steps send less.
// Consecutive slices, reduce_scatters or all_gathers on one dimension are
// merged into one step over several axes. For example:
//
//   [b:dp t d] partial tp, to [b:dp t:tp d]     reduce_scatter tp on t
//   [d:fsdp+tp], to [d]                         all_gather fsdp+tp
#include "step/reshard.h"

#include <algorithm>
#include <optional>

#include "source/size.h"

namespace shardc::step {
namespace {

class Planner {
 public:
  Planner(const Sharding& from, const Sharding& to) : now_(from), to_(to) {}

  std::vector<ReshardStep> Run() {
    while (!(now_ == to_)) {
      if (Extend(InstructionKind::kSlice, Collective::kAllGather)) continue;
      if (Extend(InstructionKind::kCollective, Collective::kReduceScatter)) {
        continue;
      }
      if (Exchange() || Reduce() || Permute() || Gather()) continue;
      break;
    }
    return std::move(steps_);
  }

 private:
  // Returns the next axis that must be added to dimension d, if the present
  // axes of the dimension are a prefix of its target axes.
  std::optional<AxisId> Next(size_t d) const {
    const AxisList& now = now_.dims[d];
    const AxisList& to = to_.dims[d];
    if (now.size() >= to.size() || !IsPrefix(now, to)) return std::nullopt;
    return to[now.size()];
  }

  void Push(InstructionKind kind, Collective collective, AxisId axis, size_t d,
            size_t other = 0) {
    const auto dim = static_cast<uint8_t>(d);
    ReshardStep* const last = steps_.empty() ? nullptr : &steps_.back();
    const bool joins =
        last != nullptr && last->kind == kind && last->dim == dim &&
        (kind == InstructionKind::kSlice || last->collective == collective) &&
        (kind == InstructionKind::kSlice ||
         collective == Collective::kReduceScatter ||
         collective == Collective::kAllGather);
    if (joins) {
      if (collective == Collective::kAllGather &&
          kind == InstructionKind::kCollective) {
        last->axes.push_front(axis);
      } else {
        last->axes.push_back(axis);
      }
      last->after = now_;
      return;
    }
    ReshardStep step{.kind = kind,
                     .collective = collective,
                     .axes = {},
                     .dim = dim,
                     .other = static_cast<uint8_t>(other),
                     .after = now_};
    step.axes.push_back(axis);
    steps_.push_back(step);
  }

  bool Extend(InstructionKind kind, Collective collective) {
    const bool slice = kind == InstructionKind::kSlice;
    for (size_t d = 0; d < now_.rank; ++d) {
      const std::optional<AxisId> axis = Next(d);
      if (!axis.has_value()) continue;
      if (slice ? Holds(now_.used(), *axis) : !Holds(now_.partial, *axis)) {
        continue;
      }
      now_.dims[d].push_back(*axis);
      if (!slice) now_.partial = AxisSet(now_.partial & ~Bit(*axis));
      Push(kind, collective, *axis, d);
      return true;
    }
    return false;
  }

  bool Exchange() {
    for (size_t d = 0; d < now_.rank; ++d) {
      const std::optional<AxisId> axis = Next(d);
      if (!axis.has_value()) continue;
      for (size_t e = 0; e < now_.rank; ++e) {
        AxisList& from = now_.dims[e];
        if (e == d || from.empty() || from.back() != *axis) continue;
        from.pop_back();
        now_.dims[d].push_back(*axis);
        Push(InstructionKind::kCollective, Collective::kAllToAll, *axis, d, e);
        return true;
      }
    }
    return false;
  }

  bool Reduce() {
    const AxisSet leave =
        static_cast<AxisSet>(now_.partial & ~to_.partial & ~to_.sharded_over());
    if (leave == 0) return false;
    AxisList axes;
    for (AxisId a = 0; a < kMaxAxes; ++a) {
      if (Holds(leave, a)) axes.push_back(a);
    }
    now_.partial = AxisSet(now_.partial & ~leave);
    steps_.push_back({.kind = InstructionKind::kCollective,
                      .collective = Collective::kAllReduce,
                      .axes = axes,
                      .dim = 0,
                      .other = 0,
                      .after = now_});
    return true;
  }

  bool Permute() {
    for (size_t d = 0; d < now_.rank; ++d) {
      if (now_.dims[d] == to_.dims[d] ||
          now_.dims[d].set() != to_.dims[d].set()) {
        continue;
      }
      const AxisList axes = now_.dims[d];
      now_.dims[d] = to_.dims[d];
      steps_.push_back({.kind = InstructionKind::kCollective,
                        .collective = Collective::kPpermute,
                        .axes = axes,
                        .dim = static_cast<uint8_t>(d),
                        .other = 0,
                        .after = now_});
      return true;
    }
    return false;
  }

  bool Gather() {
    for (size_t d = 0; d < now_.rank; ++d) {
      if (now_.dims[d].empty() || IsPrefix(now_.dims[d], to_.dims[d])) continue;
      const AxisId axis = now_.dims[d].back();
      now_.dims[d].pop_back();
      Push(InstructionKind::kCollective, Collective::kAllGather, axis, d);
      return true;
    }
    return false;
  }

  Sharding now_;
  const Sharding& to_;
  std::vector<ReshardStep> steps_;
};

}  // namespace

std::vector<ReshardStep> PlanReshard(const Sharding& from, const Sharding& to) {
  return Planner(from, to).Run();
}

ReshardCost CostOf(const std::vector<ReshardStep>& steps, const Axes& axes,
                   const Value& value, const Sharding& from, const Sizes& sizes,
                   int64_t element_bytes) {
  ReshardCost out;
  const Sharding* before = &from;
  for (const ReshardStep& step : steps) {
    if (step.kind == InstructionKind::kCollective) {
      ++out.collectives;
      const int64_t sent = BusiestSent(
          step.collective, LocalElements(axes, value, *before, sizes),
          ElementBytesOf(value, element_bytes), axes.Parts(step.axes));
      out.bytes = (Size(out.bytes) + sent).value();
    }
    before = &step.after;
  }
  return out;
}

}  // namespace shardc::step
