// Decides for each mesh axis which dimension label of an op the axis shards.
// The options of an axis are the labels that it shards in an operand, or in the
// preferred sharding of the result. If there is only one option, it is chosen,
// except in one case: the axis is gathered before the op if this costs less and
// the preferred sharding of the result does not use the axis.
//
// With several options, the policy decides. Under the policy `published`, a
// data axis (a mesh axis of BATCH, QUERY_LENGTH or FSDP) keeps the label that
// it shards in activations. Any other axis keeps the label that it shards in
// weights. If there is not exactly one such label, or if the axis shards no
// weight, the costs of its options are compared. Under the policy `cost`, the
// costs of all combinations of the axes' options are compared.
//
// The cheapest combination sends the fewest bytes at real sizes. If several
// send equally many, the fewest collectives decide, and then the fewest
// elements of the local loop nest. If these are equal too, the first
// combination is chosen. Combinations are in the order of the mesh's axes and,
// for each axis, of the op's labels, with unsharded last. So the choice depends
// only on the input files. For example:
//
//   linear of y [b:fsdp t d] and w [f:tp d:fsdp]: fsdp, a data axis, may shard
//   b or d. `published` keeps b, so the weight is gathered.
#include "source/list.h"
#include "step/lower.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "source/size.h"

namespace shardc::step {
namespace {

// An assignment has for each axis the index of the op's label that the axis
// shards, or one of these two constants.
constexpr int8_t kUnsharded = -1;  // The axis shards no label.
// The axis shards no label, and the operand and the result are partial over it.
constexpr int8_t kStaysPartial = -2;
using Assignment = std::array<int8_t, kMaxAxes>;

struct Key {
  int64_t bytes = 0, collectives = 0, work = 0;
  bool operator<(const Key& other) const {
    return std::tie(bytes, collectives, work) <
           std::tie(other.bytes, other.collectives, other.work);
  }
};

// The options of one axis: indices of labels of an op, kUnsharded or
// kStaysPartial. The list has a fixed capacity and allocates no memory, because
// one is made for each axis of each op.
class OptionList {
 public:
  void push_back(int8_t option) { options_[count_++] = option; }
  void push_front(int8_t option) {
    std::copy_backward(begin(), end(), options_.begin() + count_ + 1);
    options_[0] = option;
    ++count_;
  }
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  int8_t operator[](size_t i) const { return options_[i]; }
  int8_t front() const { return options_[0]; }
  const int8_t* begin() const { return options_.data(); }
  const int8_t* end() const { return options_.data() + count_; }

 private:
  std::array<int8_t, OpLabels::kMost + 2> options_{};
  uint8_t count_ = 0;
};

// The labels of an op that one axis shards in operands or in the preferred
// sharding of the result.
struct Carried {
  // The labels that the axis may shard, in the order of the op's labels.
  OptionList options;
  // Sets of label indices, as bits: the labels that the axis shards in weights,
  // in other operands, and in the preferred sharding of the result.
  uint32_t by_weights = 0, by_activations = 0, by_preferred = 0;
  bool partial = false;
  bool stays_partial = false;
};

class Chooser {
 public:
  Chooser(const ChoiceSettings& settings, const ChoiceRequest& request)
      : set_(settings), request_(request), labels_(*request.labels) {}

  Choice Run() {
    const size_t n = set_.axes->count();
    chosen_.fill(kUnsharded);
    std::array<Carried, kMaxAxes> of_axes;
    for (AxisId a = 0; a < n; ++a) of_axes[a] = Carriers(a);
    const std::span<const Carried> carried(of_axes.data(), n);
    // Each axis starts with its default option, so that the cost of an option
    // of one axis can be computed before the other axes are decided.
    for (AxisId a = 0; a < n; ++a) chosen_[a] = Default(carried[a], a);
    if (set_.policy == Policy::kCost) {
      ChooseByCost(carried);
    } else {
      for (AxisId a = 0; a < n; ++a) ChooseAsPublished(a, carried[a]);
    }
    Choice out = Derive(chosen_);
    for (AxisId a = 0; set_.records_conflicts && a < n; ++a) {
      RecordConflict(a, carried[a], out);
    }
    return out;
  }

 private:
  LabelKind Kind(int8_t label) const {
    return labels_.labels[AsIndex(label)].kind;
  }

  Carried Carriers(AxisId axis) const {
    Carried out;
    uint32_t seen = 0;
    size_t partial = 0, others = 0;
    bool linear = true;
    for (size_t i = 0; i < request_.operands.size(); ++i) {
      const OperandView& operand = request_.operands[i];
      const Sharding& sharding = *operand.sharding;
      if (Holds(sharding.partial, axis)) {
        ++partial;
        linear = linear && IsLinearIn(request_.op->kind, i);
      } else if (Holds(sharding.sharded_over(), axis) &&
                 !IsGatheredForRows(i, axis)) {
        ++others;
      }
      for (size_t d = 0; d < sharding.rank; ++d) {
        if (!Holds(sharding.dims[d].set(), axis)) continue;
        const uint32_t bit = 1U << static_cast<uint32_t>(labels_.of[i][d]);
        if (Kind(labels_.of[i][d]) == LabelKind::kNeed) continue;
        seen |= bit;
        (operand.weight ? out.by_weights : out.by_activations) |= bit;
      }
    }
    if (request_.wanted != nullptr) {
      for (size_t d = 0; d < request_.wanted->rank; ++d) {
        if (!Holds(request_.wanted->dims[d].set(), axis)) continue;
        const int8_t label = labels_.result[d];
        if (Kind(label) == LabelKind::kNeed) continue;
        seen |= 1U << static_cast<uint32_t>(label);
        out.by_preferred |= 1U << static_cast<uint32_t>(label);
      }
    }
    for (size_t label = 0; label < labels_.count; ++label) {
      if ((seen >> label & 1U) != 0) {
        out.options.push_back(static_cast<int8_t>(label));
      }
    }
    out.partial = partial > 0;
    const bool together =
        DefOf(request_.op->kind).linear == Linearity::kTogether;
    out.stays_partial =
        partial > 0 && linear && others == 0 &&
        (together ? partial == request_.operands.size() : partial == 1) &&
        !Grows(axis);
    return out;
  }

  // Returns whether the operand i of a product is gathered rather than the rows
  // in the queues of experts, the other operand, reduced: it is an activation
  // with at most as many elements. An example is the cotangent of the weights
  // of a token's experts, a product of the token's cotangent and its rows.
  bool IsGatheredForRows(size_t i, AxisId axis) const {
    if (request_.op->kind != OpKind::kEinsum || request_.operands[i].weight) {
      return false;
    }
    const OperandView& rows = request_.operands[1 - i];
    return HasLabel(*rows.value, set_.labels.slot) &&
           OnDevice(request_.operands[i], axis) <= OnDevice(rows, axis);
  }
  // Returns the elements of an operand on a device, once it is gathered over
  // the axis.
  int64_t OnDevice(const OperandView& operand, AxisId axis) const {
    int64_t out = Elements(*operand.value);
    for (AxisId a = 0; a < set_.axes->count(); ++a) {
      if (a != axis && Holds(operand.sharding->sharded_over(), a)) {
        out /= set_.axes->sizes[a];
      }
    }
    return out;
  }

  // Returns whether the result has more elements than each operand that is
  // partial over the axis. If so, it is cheaper to reduce these operands before
  // the op.
  bool Grows(AxisId axis) const {
    int64_t most = 0;
    for (const OperandView& operand : request_.operands) {
      if (!Holds(operand.sharding->partial, axis)) continue;
      most = std::max(most, Elements(*operand.value));
    }
    return FilledElements(*request_.result) > most;
  }
  // Returns the elements of a value without those that are always 0: a token
  // has at most one slot in the queue of an expert, so a value [b t e c] for
  // each token, expert and slot is counted as [b t e].
  int64_t FilledElements(const Value& value) const {
    const LabelId slot = set_.labels.slot;
    const int64_t all = Elements(value);
    if (!HasLabel(value, slot) || !HasLabel(value, set_.labels.query)) {
      return all;
    }
    return all / std::max<int64_t>(1, (*set_.sizes)[AsIndex(slot)]);
  }
  static bool HasLabel(const Value& value, LabelId label) {
    return label != kNoLabel && IsAmong(label, value.labels);
  }
  int64_t Elements(const Value& value) const {
    Size out = 1;
    for (LabelId label : value.labels) out *= (*set_.sizes)[AsIndex(label)];
    return out.value();
  }

  static bool In(uint32_t bits, int8_t label) {
    return (bits >> static_cast<uint32_t>(label) & 1U) != 0;
  }

  int8_t Default(const Carried& carried, AxisId axis) const {
    if (carried.stays_partial) return kStaysPartial;
    if (carried.options.empty()) return kUnsharded;
    const bool data = Holds(set_.data, axis);
    const uint32_t weights =
        carried.by_weights | (request_.gradient ? carried.by_preferred : 0U);
    const uint32_t first = data ? carried.by_activations : weights;
    const uint32_t second =
        data ? (request_.gradient ? 0U : carried.by_preferred)
             : carried.by_activations;
    for (uint32_t bits : {first, second}) {
      for (int8_t label : carried.options) {
        if (In(bits, label)) return label;
      }
    }
    return carried.options.front();
  }

  static int Count(uint32_t bits) { return __builtin_popcount(bits); }

  // Returns whether one of the labels with these indices counts experts.
  bool ShardsExperts(uint32_t bits) const {
    for (size_t label = 0; label < labels_.count; ++label) {
      if (In(bits, static_cast<int8_t>(label)) &&
          labels_.labels[label].label == set_.labels.experts) {
        return true;
      }
    }
    return false;
  }

  // Returns whether gathering the axis before the op is an option: the axis
  // shards a single label, the result has this label, and the preferred
  // sharding of the result does not use the axis.
  bool MayBeUnsharded(AxisId axis, const Carried& carried) const {
    return request_.wanted != nullptr &&
           !Holds(request_.wanted->sharded_over(), axis) &&
           carried.options.size() == 1 &&
           Kind(carried.options.front()) == LabelKind::kMap;
  }

  void ChooseAsPublished(AxisId axis, const Carried& carried) {
    if (carried.stays_partial || carried.options.empty()) return;
    if (carried.options.size() == 1) {
      if (MayBeUnsharded(axis, carried)) {
        OptionList options = carried.options;
        options.push_back(kUnsharded);
        chosen_[axis] = Cheapest(axis, options);
        // Rather than the rows in the queues of experts, their operand is
        // gathered, because shared experts and the router read it too.
        if (HasLabel(*request_.result, set_.labels.slot) &&
            BytesOf(axis, kUnsharded) <= BytesOf(axis, chosen_[axis])) {
          chosen_[axis] = kUnsharded;
        }
      }
      return;
    }
    const bool data = Holds(set_.data, axis);
    const uint32_t weights =
        carried.by_weights | (request_.gradient ? carried.by_preferred : 0U);
    const bool has_weight = weights != 0;
    const uint32_t stays = data ? carried.by_activations : weights;
    // Experts are not gathered for few tokens, as the biases of experts would
    // be in decoding.
    if (data && ShardsExperts(carried.by_weights)) {
      chosen_[axis] = Cheapest(axis, carried.options);
      return;
    }
    // With the default option, the weight (or, on a data axis, the activation)
    // keeps its sharding.
    if (has_weight && Count(stays) == 1) return;  // keeps the default
    chosen_[axis] = Cheapest(axis, carried.options);
  }

  int8_t Cheapest(AxisId axis, const OptionList& options) const {
    Assignment trial = chosen_;
    int8_t best = options.front();
    std::optional<Key> least;
    for (int8_t option : options) {
      trial[axis] = option;
      const Key key = KeyOf(trial);
      if (!least.has_value() || key < *least) {
        least = key;
        best = option;
      }
    }
    return best;
  }

  int64_t BytesOf(AxisId axis, int8_t option) const {
    Assignment trial = chosen_;
    trial[axis] = option;
    return KeyOf(trial).bytes;
  }

  void ChooseByCost(std::span<const Carried> carried) {
    std::vector<AxisId> open;
    std::vector<OptionList> options;
    for (AxisId a = 0; a < carried.size(); ++a) {
      OptionList of = carried[a].options;
      if (carried[a].stays_partial) of.push_front(kStaysPartial);
      if (of.empty()) continue;
      // Unsharded is an option if the axis could shard several labels, or if it
      // may be gathered before the op. Otherwise the axis keeps the one label
      // that it shards.
      if (of.size() > 1 || MayBeUnsharded(a, carried[a]))
        of.push_back(kUnsharded);
      if (of.size() < 2) continue;
      open.push_back(a);
      options.push_back(of);
    }
    if (open.empty()) return;
    std::vector<size_t> at(open.size(), 0);
    Assignment trial = chosen_, best = chosen_;
    std::optional<Key> least;
    while (true) {
      for (size_t i = 0; i < open.size(); ++i) {
        trial[open[i]] = options[i][at[i]];
      }
      const Key key = KeyOf(trial);
      if (!least.has_value() || key < *least) {
        least = key;
        best = trial;
      }
      size_t i = open.size();
      while (i > 0 && ++at[i - 1] == options[i - 1].size()) at[--i] = 0;
      if (i == 0) break;
    }
    chosen_ = best;
  }

  // Returns the axes that shard a label, the major axis first. Their order is
  // copied from one value, which is an operand or the result with its preferred
  // sharding: the value that shards the label over the most of these axes. If
  // there are several such values, it is the largest one, because the others
  // are cheaper to reshard. If the result and an operand are equally large, it
  // is the result. For example, if this value shards the label over (fsdp, tp),
  // and dp shards the label as well, the list is (fsdp, tp, dp). The list ends
  // before the first axis that does not divide the rest of the label's size.
  AxisList OrderOf(const Assignment& assignment, size_t label) const {
    AxisSet mine = 0;
    for (AxisId a = 0; a < set_.axes->count(); ++a) {
      if (assignment[a] == static_cast<int8_t>(label)) {
        mine = static_cast<AxisSet>(mine | Bit(a));
      }
    }
    if (mine == 0) return {};
    AxisList order;
    int64_t largest = 0;
    const auto consider = [&](const AxisList& list, const Value& value) {
      AxisList filtered;
      for (AxisId axis : list) {
        if (Holds(mine, axis)) filtered.push_back(axis);
      }
      if (filtered.empty() || filtered.size() < order.size()) return;
      const int64_t elements = Elements(value);
      if (filtered.size() == order.size() && elements <= largest) return;
      order = filtered;
      largest = elements;
    };
    if (request_.wanted != nullptr) {
      for (size_t d = 0; d < request_.wanted->rank; ++d) {
        if (labels_.result[d] == static_cast<int8_t>(label)) {
          consider(request_.wanted->dims[d], *request_.result);
        }
      }
    }
    for (size_t i = 0; i < request_.operands.size(); ++i) {
      const Sharding& sharding = *request_.operands[i].sharding;
      for (size_t d = 0; d < sharding.rank; ++d) {
        if (labels_.of[i][d] == static_cast<int8_t>(label)) {
          consider(sharding.dims[d], *request_.operands[i].value);
        }
      }
    }
    for (AxisId a = 0; a < set_.axes->count(); ++a) {
      if (Holds(mine, a) && !Holds(order.set(), a)) order.push_back(a);
    }
    AxisList out;
    int64_t left = (*set_.sizes)[AsIndex(labels_.labels[label].label)];
    for (AxisId axis : order) {
      if (left % set_.axes->sizes[axis] != 0) break;
      left /= set_.axes->sizes[axis];
      out.push_back(axis);
    }
    return out;
  }

  Choice Derive(const Assignment& assignment) const {
    Choice out;
    std::array<AxisList, OpLabels::kMost> lists{};
    AxisSet stays_partial = 0;
    for (AxisId a = 0; a < set_.axes->count(); ++a) {
      if (assignment[a] == kStaysPartial)
        stays_partial = static_cast<AxisSet>(stays_partial | Bit(a));
    }
    for (size_t label = 0; label < labels_.count; ++label) {
      lists[label] = OrderOf(assignment, label);
      const LabelKind kind = labels_.labels[label].kind;
      if (kind == LabelKind::kSum) {
        out.result.partial =
            static_cast<AxisSet>(out.result.partial | lists[label].set());
      } else if (kind == LabelKind::kMax) {
        for (AxisId axis : lists[label]) out.maxima.push_back(axis);
      }
    }
    out.operands.resize(request_.operands.size());
    for (size_t i = 0; i < request_.operands.size(); ++i) {
      Sharding& to = out.operands[i];
      to.rank = request_.operands[i].sharding->rank;
      for (size_t d = 0; d < to.rank; ++d) {
        to.dims[d] = lists[AsIndex(labels_.of[i][d])];
      }
      to.partial = static_cast<AxisSet>(request_.operands[i].sharding->partial &
                                        stays_partial);
      out.result.partial =
          static_cast<AxisSet>(out.result.partial | to.partial);
    }
    out.result.rank = static_cast<uint8_t>(request_.result->labels.size());
    for (size_t d = 0; d < out.result.rank; ++d) {
      out.result.dims[d] = lists[AsIndex(labels_.result[d])];
    }
    return out;
  }

  Key KeyOf(const Assignment& assignment) const {
    const Choice choice = Derive(assignment);
    Key key;
    const auto charge = [&](const ReshardCost& cost) {
      key.bytes += cost.bytes;
      key.collectives += cost.collectives;
    };
    const auto cost = [&](const Value& value, const Sharding& from,
                          const Sharding& to) {
      return CostOf(PlanReshard(from, to), *set_.axes, value, from, *set_.sizes,
                    set_.element_bytes);
    };
    for (size_t i = 0; i < request_.operands.size(); ++i) {
      const OperandView& operand = request_.operands[i];
      if (operand.repeated) continue;
      std::optional<ReshardCost> least;
      for (const Sharding* copy : operand.copies) {
        if ((choice.operands[i].partial & ~copy->partial) != 0) continue;
        const ReshardCost one = cost(*operand.value, *copy, choice.operands[i]);
        if (!least.has_value() || one.bytes < least->bytes) least = one;
      }
      if (least.has_value()) charge(*least);
    }
    Sharding result = choice.result;
    for (AxisId axis : choice.maxima) {
      result.partial = static_cast<AxisSet>(result.partial | Bit(axis));
    }
    Sharding goal = result;
    goal.partial = 0;
    charge(cost(*request_.result, result,
                request_.wanted != nullptr ? *request_.wanted : goal));
    key.work = Work(assignment);
    return key;
  }

  // Returns the number of elements of the op's loop nest on one device.
  int64_t Work(const Assignment& assignment) const {
    double out = 1;
    for (size_t label = 0; label < labels_.count; ++label) {
      out *= static_cast<double>(
          (*set_.sizes)[AsIndex(labels_.labels[label].label)]);
    }
    for (AxisId a = 0; a < set_.axes->count(); ++a) {
      if (assignment[a] >= 0) {
        out /= static_cast<double>(set_.axes->sizes[a]);
      }
    }
    return out < 4e18 ? static_cast<int64_t>(out)
                      : int64_t{4'000'000'000'000'000'000};
  }

  void RecordConflict(AxisId axis, const Carried& carried, Choice& out) const {
    if (carried.options.size() < 2) return;
    ShardingConflict conflict{.op = -1,
                              .axis = axis,
                              .labels = {},
                              .chosen = LabelOf(chosen_[axis]),
                              .bytes = KeyOf(chosen_).bytes,
                              .cheapest = kNoLabel,
                              .least = 0};
    for (int8_t option : carried.options) {
      conflict.labels.push_back(LabelOf(option));
    }
    OptionList options = carried.options;
    options.push_back(kUnsharded);
    Assignment trial = chosen_;
    trial[axis] = Cheapest(axis, options);
    conflict.cheapest = LabelOf(trial[axis]);
    conflict.least = KeyOf(trial).bytes;
    if (conflict.least >= conflict.bytes) {
      conflict.least = conflict.bytes;
      conflict.cheapest = conflict.chosen;
    }
    out.conflicts.push_back(std::move(conflict));
  }

  LabelId LabelOf(int8_t option) const {
    return option < 0 ? kNoLabel : labels_.labels[AsIndex(option)].label;
  }

  const ChoiceSettings& set_;
  const ChoiceRequest& request_;
  const OpLabels& labels_;
  Assignment chosen_{};
};

}  // namespace

Choice Choose(const ChoiceSettings& settings, const ChoiceRequest& request) {
  return Chooser(settings, request).Run();
}

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
