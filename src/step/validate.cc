// Checks the shardings of a program as a compiler checks types. The sharding of
// a collective's result follows from its operand and its axes. The sharding of
// an op's result follows from its operands, by the op's definition. A slot (a
// value in one sharding) with any other sharding is a fault:
//
//   all_reduce over tp of a value that is not partial over tp
#include "step/validate.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "model/legal_sizes.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/constraints.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

AxisSet Minus(AxisSet a, AxisSet b) { return static_cast<AxisSet>(a & ~b); }
AxisSet Plus(AxisSet a, AxisSet b) { return static_cast<AxisSet>(a | b); }

AxisList Joined(AxisList list, const AxisList& more) {
  for (AxisId axis : more) list.push_back(axis);
  return list;
}

class Checker {
 public:
  Checker(const Graph& graph, const Program& program, const Sizes& sizes)
      : graph_(graph), program_(program), sizes_(sizes) {
    maxima_.assign(program.slots.size(), 0);
  }

  std::vector<ProgramFault> Run() {
    for (const Instruction& step : program_.code) {
      op_ = step.op;
      CheckUnique(ShardingOf(step.out));
      for (int32_t slot : step.in) {
        const bool reduced = step.kind == InstructionKind::kCollective &&
                             step.max &&
                             maxima_[AsIndex(slot)] == step.axes.set();
        if (maxima_[AsIndex(slot)] != 0 && !reduced) {
          Fail("a maximum is read before it is reduced");
        }
      }
      switch (step.kind) {
        case InstructionKind::kInput:
          if (ShardingOf(step.out).partial != 0) Fail("an input is partial");
          break;
        case InstructionKind::kSlice:
          CheckSlice(step);
          break;
        case InstructionKind::kCollective:
          CheckCollective(step);
          break;
        case InstructionKind::kLocal:
          CheckLocal(step);
          break;
      }
    }
    CheckResults();
    return std::move(faults_);
  }

 private:
  void Fail(std::string message) {
    faults_.push_back({op_, std::move(message)});
  }
  const Sharding& ShardingOf(int32_t slot) const {
    return program_.slots[AsIndex(slot)].sharding;
  }
  void Expect(const Sharding& is, const Sharding& want, const char* what) {
    if (!(is == want)) Fail(std::string(what) + " does not give this layout");
  }

  void CheckUnique(const Sharding& sharding) {
    AxisSet seen = sharding.partial;
    for (size_t d = 0; d < sharding.rank; ++d) {
      for (AxisId axis : sharding.dims[d]) {
        if (Holds(seen, axis)) Fail("an axis is used twice");
        seen = Plus(seen, Bit(axis));
      }
    }
  }

  void CheckSlice(const Instruction& step) {
    Sharding want = ShardingOf(step.in[0]);
    if ((want.used() & step.axes.set()) != 0) {
      Fail("a slice along an axis that is in use");
      return;
    }
    want.dims[step.dim] = Joined(want.dims[step.dim], step.axes);
    Expect(ShardingOf(step.out), want, "a slice");
  }

  void CheckCollective(const Instruction& step) {
    const Sharding& from = ShardingOf(step.in[0]);
    const Sharding& to = ShardingOf(step.out);
    Sharding want = from;
    const AxisSet axes = step.axes.set();
    switch (step.collective) {
      case Collective::kAllGather:
        // An all_gather is checked in reverse: slicing its result along its
        // axes must result in the operand's sharding.
        want = to;
        want.dims[step.dim] = Joined(to.dims[step.dim], step.axes);
        Expect(from, want, "an all_gather");
        return;
      case Collective::kReduceScatter:
        if (Minus(axes, from.partial) != 0)
          Fail("a value is reduced over an axis over which it is not partial");
        want.partial = Minus(want.partial, axes);
        want.dims[step.dim] = Joined(want.dims[step.dim], step.axes);
        break;
      case Collective::kAllReduce:
        if (step.max) {
          if ((from.used() & axes) != 0) Fail("a maximum over axes in use");
        } else if (Minus(axes, from.partial) != 0) {
          Fail("a value is reduced over an axis over which it is not partial");
        }
        want.partial = Minus(want.partial, axes);
        break;
      case Collective::kAllToAll:
        want = to;
        want.dims[step.other] = Joined(to.dims[step.other], step.axes);
        want.dims[step.dim] = from.dims[step.dim];
        Expect(from, want, "an all_to_all");
        want = to;
        want.dims[step.dim] = Joined(from.dims[step.dim], step.axes);
        Expect(to, want, "an all_to_all");
        return;
      case Collective::kPpermute:
        if (want.dims[step.dim].set() != to.dims[step.dim].set()) {
          Fail("a ppermute changes the axes");
        }
        want.dims[step.dim] = to.dims[step.dim];
        if (step.shift != 0) CheckShift(step, from);
        break;
      default:  // PlanReshard and Lower use no other collective
        Fail("a " + std::string(CollectiveName(step.collective)));
        return;
    }
    Expect(to, want, "a collective");
  }

  // Checks a ppermute that rolls a dimension. Each device must have a single
  // index of this dimension.
  void CheckShift(const Instruction& step, const Sharding& from) {
    const Op& op = graph_.ops[AsIndex(step.op)];
    const auto* const roll = std::get_if<RollAttributes>(&op.attributes);
    const bool rolls = roll != nullptr && roll->sign == step.shift &&
                       program_.slots[AsIndex(step.in[0])].value == op.in[0] &&
                       program_.slots[AsIndex(step.out)].value == op.out;
    if (!rolls || !(from.dims[step.dim] == step.axes)) {
      Fail("a ppermute moves shards of an op that is no roll");
      return;
    }
    const LabelId label = graph_.values[AsIndex(op.out)].labels[step.dim];
    if (label != roll->label ||
        program_.axes.Parts(step.axes) != sizes_[AsIndex(label)]) {
      Fail("a device holds more than one row of a rolled dimension");
    }
  }

  void CheckLocal(const Instruction& step) {
    const Op& op = graph_.ops[AsIndex(step.op)];
    if (DefOf(op.kind).structural) {
      CheckStructural(step, op);
    } else {
      CheckPlain(step, op);
    }
  }

  void CheckStructural(const Instruction& step, const Op& op) {
    const Sharding& to = ShardingOf(step.out);
    const Structural passed =
        PassThrough(graph_, op, program_.axes, sizes_, ShardingOf(step.in[0]),
                    op.kind == OpKind::kRepeat ? &to : nullptr);
    if (!(passed.operand == ShardingOf(step.in[0]))) {
      Fail("axes straddle the factors of a dimension");
    }
    Expect(to, passed.result, "the op");
  }

  void CheckPlain(const Instruction& step, const Op& op) {
    OpLabels labels;
    if (!LabelsOf(graph_, op, labels)) return;
    std::array<AxisList, OpLabels::kMost> lists{};
    std::array<bool, OpLabels::kMost> known{};
    for (size_t i = 0; i < step.in.size(); ++i) {
      const Sharding& sharding = ShardingOf(step.in[i]);
      for (size_t d = 0; d < sharding.rank; ++d) {
        const auto label = AsIndex(labels.of[i][d]);
        if (known[label] && !(lists[label] == sharding.dims[d])) {
          Fail("operands are sharded differently along " +
               graph_.labels[AsIndex(labels.labels[label].label)].name);
        }
        known[label] = true;
        lists[label] = sharding.dims[d];
        if (labels.labels[label].kind == LabelKind::kNeed &&
            !sharding.dims[d].empty()) {
          Fail("a dimension that must be unsharded is sharded");
        }
      }
    }
    CheckResult(step, op, labels, lists, known);
  }

  void CheckResult(const Instruction& step, const Op& op,
                   const OpLabels& labels,
                   const std::array<AxisList, OpLabels::kMost>& lists,
                   const std::array<bool, OpLabels::kMost>& known) {
    const Sharding& to = ShardingOf(step.out);
    Sharding want = to;
    for (size_t d = 0; d < to.rank; ++d) {
      const auto label = AsIndex(labels.result[d]);
      if (known[label]) want.dims[d] = lists[label];
      if (labels.labels[label].kind == LabelKind::kNeed &&
          !to.dims[d].empty()) {
        Fail("a dimension that must be unsharded is sharded");
      }
    }
    want.partial = Flowing(step, op);
    for (size_t label = 0; label < labels.count; ++label) {
      if (labels.labels[label].kind == LabelKind::kSum) {
        want.partial = Plus(want.partial, lists[label].set());
      } else if (labels.labels[label].kind == LabelKind::kMax) {
        maxima_[AsIndex(step.out)] =
            Plus(maxima_[AsIndex(step.out)], lists[label].set());
      }
    }
    Expect(to, want, "the op");
  }

  // Returns the axes over which the result is partial because an operand is
  // partial over them.
  AxisSet Flowing(const Instruction& step, const Op& op) {
    AxisSet all = 0;
    for (size_t i = 0; i < step.in.size(); ++i) {
      const AxisSet mine = ShardingOf(step.in[i]).partial;
      if (mine != 0 && !IsLinearIn(op.kind, i)) {
        Fail("the op is not linear in a partial operand");
      }
      for (size_t j = 0; j < step.in.size(); ++j) {
        if (j == i) continue;
        const Sharding& other = ShardingOf(step.in[j]);
        const bool together = DefOf(op.kind).linear == Linearity::kTogether;
        if (together ? Minus(mine, other.partial) != 0
                     : (mine & other.used()) != 0) {
          Fail(together
                   ? "a partial operand is added to one that is not"
                   : "an operand is partial over an axis that another uses");
        }
      }
      all = Plus(all, mine);
    }
    return all;
  }

  void CheckResults() {
    const auto sharding_of = [&](ValueId value) -> const Sharding* {
      if (value < 0) return nullptr;
      const int32_t slot = program_.result[AsIndex(value)];
      return slot < 0 ? nullptr : &ShardingOf(slot);
    };
    op_ = -1;
    for (ValueId value : {graph_.loss, graph_.logits, graph_.gradient_norm}) {
      const Sharding* const sharding = sharding_of(value);
      if (sharding != nullptr && sharding->partial != 0) {
        Fail("a result of the step is partial");
      }
    }
    const auto check = [&](size_t i, ValueId value, ValueId as,
                           const char* what, const char* other) {
      const Sharding* const is = sharding_of(value);
      const Sharding* const want = sharding_of(as);
      if (is == nullptr || want == nullptr || *is == *want) return;
      Fail(std::string(what) + " of " + graph_.parameters[i].role +
           " is not sharded as " + other);
    };
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      const ValueId parameter = graph_.parameters[i].value;
      const bool moments =
          i < graph_.moments.size() && graph_.moments[i].first >= 0;
      if (i < graph_.gradients.size()) {
        check(i, graph_.gradients[i],
              moments ? graph_.moments[i].first : parameter, "the gradient",
              moments ? "its moments" : "the parameter");
      }
      if (i < graph_.updated.size()) {
        check(i, graph_.updated[i], parameter, "the new value",
              "the parameter");
      }
    }
  }

  const Graph& graph_;
  const Program& program_;
  const Sizes& sizes_;
  int32_t op_ = -1;
  std::vector<AxisSet> maxima_;
  std::vector<ProgramFault> faults_;
};

}  // namespace

std::vector<ProgramFault> Validate(const Graph& graph, const Program& program,
                                   const Sizes& sizes) {
  return Checker(graph, program, sizes).Run();
}

// Checks sizes that depend on each other. For example, the op that repeats KV
// heads needs a number of heads that the number of KV heads divides, and a
// rotary embedding needs an even number of rotated elements. The same message
// is reported only once:
//
//   repeat k [b, s, 4, h] for n 6
//     ->  4 KV heads cannot serve 6 attention heads: 4 does not divide 6
//
// CheckBytes checks that the bytes of all values fit in 64 bits.

namespace {

// An upper bound of the bytes of an element, including a margin for copies of
// the value in other shardings.
constexpr int64_t kBytesAndRoom = 16;

std::optional<int64_t> SizeOf(const Sizes& sizes, LabelId label) {
  if (label == kNoLabel) return std::nullopt;
  return sizes[AsIndex(label)];
}

ModelSizes SizesOf(const Graph& graph, const Op& op, const Sizes& sizes) {
  ModelSizes out;
  // If KV heads were copied, their label has two factors: the KV heads, and the
  // copies of each. The number of copies was chosen to fit the mesh, so it is
  // not checked.
  if (op.kind == OpKind::kRepeat) {
    const auto& heads = As<HeadGroupAttributes>(op);
    if (!graph.labels[AsIndex(heads.kv_heads)].factors.empty()) return out;
    out.kv_heads = SizeOf(sizes, heads.kv_heads);
    out.heads = SizeOf(sizes, heads.query_heads);
  } else if (op.kind == OpKind::kRope) {
    const auto& rotated = As<RopeAttributes>(op);
    const Rope& rope = graph.ropes[AsIndex(rotated.rope)];
    const int64_t head_dim = sizes[AsIndex(rotated.label)];
    out.head_dim = head_dim;
    out.rotary_dim = RotaryDim(head_dim, rope.rotary_fraction);
  }
  return out;
}

std::string ExpertGroups(const Graph& graph, const Sizes& sizes, const Op& op) {
  const auto& best = As<TopGroupsAttributes>(op);
  const int64_t groups = sizes[AsIndex(best.groups)];
  const int64_t chosen = sizes[AsIndex(best.chosen)];
  const int64_t experts = SizeOf(sizes, graph.common.experts).value_or(0);
  if (groups < 1 || experts % groups != 0) {
    return CountText(experts) + " experts do not divide into " +
           CountText(groups) + " groups";
  }
  if (chosen < 1 || chosen > groups) {
    return "the router chooses " + CountText(chosen) + " of " +
           CountText(groups) + " groups of experts";
  }
  return "";
}

}  // namespace

bool CheckSizes(const Graph& graph, const Sizes& sizes, const Place& place,
                Findings& findings) {
  const size_t before = findings.errors();
  std::set<std::string> reported;
  const auto report = [&](std::string message, std::string help) {
    if (message.empty() || !reported.insert(message).second) return;
    findings.Add(code::kNumber, place, std::move(message), std::move(help));
  };
  const auto check = [&](const ModelSizes& of) {
    for (IllegalSize& one : IllegalSizes(of)) {
      report(std::move(one.message), std::move(one.help));
    }
  };
  for (const Op& op : graph.ops) {
    check(SizesOf(graph, op, sizes));
    if (op.kind == OpKind::kTopGroups) {
      report(ExpertGroups(graph, sizes, op),
             "each group has the same number of experts");
    }
  }
  ModelSizes routed;
  routed.experts = SizeOf(sizes, graph.common.experts);
  routed.experts_per_token = SizeOf(sizes, graph.common.top_k);
  check(routed);
  return findings.errors() == before;
}

bool CheckBytes(const Graph& graph, const Sizes& sizes, const Place& place,
                Findings& findings, std::span<const int64_t> layer_times) {
  Size all = 0;
  const Op* largest = nullptr;
  int64_t most = 0;
  for (const Op& op : graph.ops) {
    Size elements = kBytesAndRoom;
    for (const LabelId label : graph.values[AsIndex(op.out)].labels) {
      elements *= sizes[AsIndex(label)];
    }
    const bool repeats = !layer_times.empty() && op.layer >= 0;
    all += repeats ? elements * layer_times[AsIndex(op.layer)] : elements;
    if (elements.value() <= most) continue;
    most = elements.value();
    largest = &op;
  }
  if (all.Fits() || largest == nullptr) return true;
  std::string shape;
  for (const LabelId label : graph.values[AsIndex(largest->out)].labels) {
    shape +=
        (shape.empty() ? "[" : ", ") + std::to_string(sizes[AsIndex(label)]);
  }
  findings.Add(code::kOverflow, place,
               "the bytes of the step's values do not fit in 64 bits: the "
               "largest is " +
                   shape + "], of `" + largest->name + "`",
               "give a smaller batch or length");
  return false;
}

}  // namespace shardc::step
