// Op by op: how its operands must lie is chosen, they are moved there (from the
// copy from which that is cheapest, and the copy is kept for who comes later),
// the op runs on shards, and its result is brought to its anchor. Wishes go
// backwards first: a result without an anchor of its own is wished as its only
// consumer wants it, so that a gradient's op sees the parameter's layout
// through the merge that follows it.
//
//   y [b:dp t d] @normed, q [(n h):tp d:fsdp]
//     all_gather fsdp of q; linear q -> [b:dp t (n h):tp]
#include "step/lower.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "step/factors.h"
#include "step/weights.h"

namespace shardc::step {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

struct Wish {
  std::optional<Layout> layout;
  bool gradient = false;
};

// How an op that is run again was lowered the first time.
struct Lowered {
  std::vector<Layout> operands;
  Layout result;
  AxisList maxima;
};

class Lowerer {
 public:
  Lowerer(const LowerRequest& request, Unsupported& why)
      : request_(request),
        graph_(*request.graph),
        why_(why),
        weight_(FindWeights(graph_)) {
    out_.axes = AxesOf(request.mesh);
    settings_ = {.axes = &out_.axes,
                 .sizes = &request.sizes,
                 .element_bytes = request.element_bytes,
                 .data = 0,
                 .policy = request.policy};
  }

  std::optional<Program> Run() {
    if (out_.axes.count() >= kMaxAxes) {
      Fail("the mesh has more axes than a step's program can name", "", "");
      return std::nullopt;
    }
    settings_.data = out_.axes.SetOf(request_.anchors.data);
    copies_.resize(graph_.values.size());
    FindFixed();
    FindWishes();
    out_.slots.reserve(graph_.ops.size() * 2);
    out_.code.reserve(graph_.ops.size() * 2);
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      op_ = static_cast<int32_t>(i);
      const Op& op = graph_.ops[i];
      if (op.phase != phase_) EnterPhase(op.phase);
      if (!LowerOp(op)) return std::nullopt;
    }
    FinishResults();
    return std::move(out_);
  }

 private:
  bool Fail(std::string message, std::string op, std::string axis) {
    why_ = {std::move(message), std::move(op), std::move(axis)};
    return false;
  }
  const Value& ValueOf(ValueId value) const { return graph_.values[At(value)]; }

  // Values that lie as their parameter does.
  void FindFixed() {
    fixed_.assign(graph_.values.size(), -1);
    const auto fix = [&](const std::vector<ValueId>& values) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] >= 0) fixed_[At(values[i])] = static_cast<int32_t>(i);
      }
    };
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      const ValueId value = graph_.parameters[i].value;
      fixed_[At(value)] = static_cast<int32_t>(i);
    }
    fix(graph_.gradients);
    fix(graph_.updated);
    for (const auto* list : {&graph_.moments, &graph_.updated_moments}) {
      for (size_t i = 0; i < list->size(); ++i) {
        for (ValueId value : {(*list)[i].first, (*list)[i].second}) {
          if (value >= 0) fixed_[At(value)] = static_cast<int32_t>(i);
        }
      }
    }
    FixGradients();
    parameter_.resize(graph_.parameters.size());
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      parameter_[i] = ParameterLayout(i);
    }
  }

  // Those of single micro-batches too, where each is reduced.
  void FixGradients() {
    std::map<std::pair<std::string_view, int32_t>, int32_t> known;
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      const Parameter& parameter = graph_.parameters[i];
      known[{parameter.role, parameter.layer}] = static_cast<int32_t>(i);
    }
    for (const Op& op : graph_.ops) {
      constexpr std::string_view kGradient = "grad:";
      if (op.micro < 0 || !op.anchor.starts_with(kGradient)) continue;
      const auto found = known.find(
          {std::string_view(op.anchor).substr(kGradient.size()), op.layer});
      if (found != known.end()) fixed_[At(op.out)] = found->second;
    }
  }

  Layout ParameterLayout(size_t i) const {
    const Value& value = ValueOf(graph_.parameters[i].value);
    Layout out;
    out.rank = static_cast<uint8_t>(std::min(value.labels.size(), kMaxRank));
    if (i >= request_.parameters.size()) return out;
    const Spec& spec = request_.parameters[i];
    for (size_t d = 0; d < out.rank && d < spec.size(); ++d) {
      out.dims[d] = out_.axes.Of(spec[d]);
    }
    return out;
  }

  // The layout that an op's result is brought to.
  std::optional<Layout> AnchorOf(const Op& op) {
    const int32_t fixed = fixed_[At(op.out)];
    if (fixed >= 0) return parameter_[At(fixed)];
    if (op.anchor.empty()) return std::nullopt;
    if (op.phase != Phase::kForward && IsForwardOnly(op.anchor)) {
      return std::nullopt;
    }
    return AnchorLayout(request_.anchors, out_.axes, graph_, request_.sizes,
                        op.anchor, ValueOf(op.out).labels, out_.notes);
  }

  void FindWishes() {
    const size_t values = graph_.values.size();
    std::vector<int32_t> consumers(values, 0);
    // What reads a value that is computed anew reads the value.
    std::vector<ValueId> first(values);
    for (size_t v = 0; v < values; ++v) first[v] = static_cast<ValueId>(v);
    for (const Op& op : graph_.ops) {
      if (op.again >= 0) first[At(op.out)] = graph_.ops[At(op.again)].out;
    }
    for (const Op& op : graph_.ops) {
      if (op.again >= 0) continue;
      for (ValueId value : op.in) ++consumers[At(first[At(value)])];
    }
    wishes_.resize(values);
    anchored_.assign(values, 0);
    is_gradient_.assign(values, 0);
    for (ValueId value : graph_.gradients) {
      if (value >= 0) is_gradient_[At(value)] = 1;
    }
    for (const Op& op : graph_.ops) {
      const bool of_micro = op.micro >= 0 && op.phase == Phase::kBackward;
      if (of_micro && fixed_[At(op.out)] >= 0) is_gradient_[At(op.out)] = 1;
    }
    for (size_t i = graph_.ops.size(); i > 0;) {
      --i;
      const Op& op = graph_.ops[i];
      if (op.again >= 0) continue;
      Wish& own = wishes_[At(op.out)];
      if (std::optional<Layout> anchor = AnchorOf(op)) {
        own = {anchor, is_gradient_[At(op.out)] != 0};
        anchored_[At(op.out)] = 1;
      }
      if (!own.layout.has_value() || !RuleOf(op.kind).passes_wish) continue;
      for (ValueId value : op.in) {
        const bool alike =
            ValueOf(value).labels.size() == ValueOf(op.out).labels.size() ||
            RuleOf(op.kind).structural;
        const ValueId own_value = first[At(value)];
        if (!alike || consumers[At(own_value)] != 1) continue;
        if (op.kind == OpKind::kAdd &&
            ValueOf(value).labels != ValueOf(op.out).labels) {
          continue;
        }
        if (value != op.in[0] && op.kind != OpKind::kAdd) continue;
        wishes_[At(own_value)] = {
            PullBack(graph_, op, out_.axes, request_.sizes, *own.layout),
            own.gradient};
      }
    }
    lowered_.resize(graph_.ops.size());
    repeated_.assign(graph_.ops.size(), 0);
    for (const Op& op : graph_.ops) {
      if (op.again < 0) continue;
      repeated_[At(op.again)] = 1;
      const ValueId of = graph_.ops[At(op.again)].out;
      wishes_[At(op.out)] = wishes_[At(of)];
      anchored_[At(op.out)] = anchored_[At(of)];
    }
  }

  // Gathered copies are fetched again in backward, and by each micro-batch;
  // reduced ones are kept.
  void EnterPhase(Phase phase) {
    phase_ = phase;
    if (phase == Phase::kOptimizer || request_.keep_gathered) return;
    for (std::vector<int32_t>& copies : copies_) {
      std::erase_if(copies, [&](int32_t slot) {
        return slot < static_cast<int32_t>(gathered_.size()) &&
               gathered_[At(slot)];
      });
    }
  }

  int32_t NewSlot(ValueId value, const Layout& layout, bool gathered) {
    out_.slots.push_back({value, layout});
    gathered_.push_back(gathered);
    return static_cast<int32_t>(out_.slots.size() - 1);
  }

  const Layout& LayoutOf(int32_t slot) const {
    return out_.slots[At(slot)].layout;
  }

  // The slot in which consumers see a value.
  int32_t Seen(ValueId value) const { return copies_[At(value)].front(); }

  // From a slot to a layout, by slices and collectives.
  int32_t EmitMoves(int32_t from, const Layout& to) {
    bool gathered = gathered_[At(from)];
    for (const Move& move : PlanMoves(LayoutOf(from), to)) {
      const ValueId value = out_.slots[At(from)].value;
      gathered = gathered || (move.kind == InstructionKind::kCollective &&
                              (move.collective == Collective::kAllGather ||
                               move.collective == Collective::kAllToAll ||
                               move.collective == Collective::kPpermute));
      const int32_t slot = NewSlot(value, move.after, gathered);
      out_.code.push_back({.kind = move.kind,
                           .op = op_,
                           .in = {from},
                           .out = slot,
                           .axes = move.axes,
                           .dim = move.dim,
                           .other = move.other,
                           .collective = move.collective,
                           .max = false});
      from = slot;
    }
    return from;
  }

  // A slot of the value that lies so.
  int32_t Bring(ValueId value, const Layout& to) {
    std::vector<int32_t>& copies = copies_[At(value)];
    int32_t best = -1;
    MoveCost least;
    for (int32_t slot : copies) {
      const Layout& from = LayoutOf(slot);
      if (from == to) return slot;
      if ((to.partial & ~from.partial) != 0) continue;
      const MoveCost cost =
          CostOf(PlanMoves(from, to), out_.axes, ValueOf(value), from,
                 request_.sizes, request_.element_bytes);
      if (best < 0 || cost.bytes < least.bytes ||
          (cost.bytes == least.bytes && cost.collectives < least.collectives)) {
        best = slot;
        least = cost;
      }
    }
    const AxisSet before = LayoutOf(best).partial;
    const int32_t out = EmitMoves(best, to);
    // Once reduced, nobody reduces it again.
    if (before != 0 && to.partial == 0) {
      copies.insert(copies.begin(), out);
    } else {
      copies.push_back(out);
    }
    return out;
  }

  bool LowerOp(const Op& op) {
    if (ValueOf(op.out).labels.size() > kMaxRank) {
      return Fail("a value has more dimensions than a program can name",
                  op.name, "");
    }
    if (op.kind == OpKind::kInput) return LowerInput(op);
    if (op.kind == OpKind::kAdd && op.in.size() > 2 &&
        ValueOf(op.out).labels.empty()) {
      LowerScalars(op);
      return true;
    }
    if (op.kind == OpKind::kRoll && op.fn.empty() && LowerRoll(op)) return true;
    if (op.again >= 0) return LowerAgain(op, lowered_[At(op.again)]);
    return RuleOf(op.kind).structural ? LowerStructural(op) : LowerPlain(op);
  }

  // As the first time, so that it sends what was sent then.
  bool LowerAgain(const Op& op, const Lowered& first) {
    std::vector<int32_t> operands;
    operands.reserve(op.in.size());
    for (size_t i = 0; i < op.in.size(); ++i) {
      operands.push_back(Bring(op.in[i], first.operands[i]));
    }
    Finish(op, std::move(operands), first.result, first.maxima);
    return true;
  }

  // Numbers that are pending over the same axes are added before these are
  // reduced: one collective for all of them.
  void LowerScalars(const Op& op) {
    std::vector<std::pair<AxisSet, std::vector<int32_t>>> groups;
    for (ValueId value : op.in) {
      const int32_t slot = Seen(value);
      const AxisSet pending = LayoutOf(slot).partial;
      auto found = std::find_if(
          groups.begin(), groups.end(),
          [&](const auto& group) { return group.first == pending; });
      if (found == groups.end()) {
        groups.emplace_back(pending, std::vector<int32_t>{});
        found = groups.end() - 1;
      }
      found->second.push_back(slot);
    }
    std::vector<int32_t> sums;
    for (auto& [pending, slots] : groups) {
      Layout layout;
      layout.partial = pending;
      if (groups.size() == 1) return Finish(op, std::move(slots), layout, {});
      const int32_t sum = NewSlot(op.out, layout, false);
      out_.code.push_back({.kind = InstructionKind::kLocal,
                           .op = op_,
                           .in = std::move(slots),
                           .out = sum,
                           .axes = {}});
      layout.partial = 0;
      sums.push_back(EmitMoves(sum, layout));
    }
    Finish(op, std::move(sums), Layout{}, {});
  }

  bool LowerInput(const Op& op) {
    Layout layout;
    layout.rank = static_cast<uint8_t>(ValueOf(op.out).labels.size());
    const Wish& wish = wishes_[At(op.out)];
    if (wish.layout.has_value()) layout = *wish.layout;
    if (!Divides(op, layout)) return false;
    const int32_t slot = NewSlot(op.out, layout, false);
    out_.code.push_back({.kind = InstructionKind::kInput,
                         .op = op_,
                         .in = {},
                         .out = slot,
                         .axes = {}});
    copies_[At(op.out)] = {slot};
    return true;
  }

  bool Divides(const Op& op, const Layout& layout) {
    const Value& value = ValueOf(op.out);
    for (size_t d = 0; d < layout.rank; ++d) {
      const int64_t size = request_.sizes[At(value.labels[d])];
      if (size % out_.axes.Parts(layout.dims[d]) != 0) {
        return Fail("dimension " + graph_.labels[At(value.labels[d])].name +
                        " of " + std::to_string(size) + " does not divide by " +
                        GroupText(out_.axes.Group(layout.dims[d])),
                    op.name, out_.axes.names[layout.dims[d].back()]);
      }
    }
    return true;
  }

  const Layout* WantedOf(const Op& op) const {
    const Wish& wish = wishes_[At(op.out)];
    return wish.layout.has_value() ? &*wish.layout : nullptr;
  }

  bool LowerStructural(const Op& op) {
    const Layout from = LayoutOf(Seen(op.in[0]));
    Layout have = from;
    // Repeating makes more of what is pending: it is reduced before.
    if (op.kind == OpKind::kRepeat) have.partial = 0;
    const Structural passed =
        PassThrough(graph_, op, out_.axes, request_.sizes, have, WantedOf(op));
    const int32_t operand = Bring(op.in[0], passed.operand);
    Finish(op, {operand}, passed.result, {});
    return true;
  }

  // Where every device has one row, rows move on from device to device. False
  // where they do not lie so.
  bool LowerRoll(const Op& op) {
    const int32_t from = Seen(op.in[0]);
    const std::vector<LabelId>& labels = ValueOf(op.out).labels;
    const size_t d = static_cast<size_t>(
        std::find(labels.begin(), labels.end(), op.label) - labels.begin());
    const Layout layout = LayoutOf(from);
    const AxisList& axes = layout.dims[d];
    if (axes.empty() || out_.axes.Parts(axes) != request_.sizes[At(op.label)]) {
      return false;
    }
    if (repeated_[At(op_)] != 0) lowered_[At(op_)] = {{layout}, layout, {}};
    const int32_t slot = NewSlot(op.out, layout, false);
    out_.code.push_back({.kind = InstructionKind::kCollective,
                         .op = op_,
                         .in = {from},
                         .out = slot,
                         .axes = axes,
                         .dim = static_cast<uint8_t>(d),
                         .other = 0,
                         .collective = Collective::kPpermute,
                         .max = false,
                         .shift = op.sign});
    copies_[At(op.out)] = {slot};
    return true;
  }

  bool LowerPlain(const Op& op) {
    OpLabels labels;
    if (!LabelsOf(graph_, op, labels)) {
      return Fail("an op has more labels than a program can name", op.name, "");
    }
    Question question{.op = &op,
                      .labels = &labels,
                      .operands = {},
                      .result = &ValueOf(op.out),
                      .wanted = WantedOf(op),
                      .gradient = wishes_[At(op.out)].gradient};
    question.operands.reserve(op.in.size());
    for (size_t i = 0; i < op.in.size(); ++i) {
      const ValueId value = op.in[i];
      OperandView view{
          .value = &ValueOf(value),
          .layout = &LayoutOf(Seen(value)),
          .copies = {},
          .weight = weight_[At(value)] != 0,
          .repeated = std::find(op.in.begin(), op.in.begin() + int64_t(i),
                                value) != op.in.begin() + int64_t(i)};
      for (int32_t slot : copies_[At(value)]) {
        view.copies.push_back(&LayoutOf(slot));
      }
      question.operands.push_back(std::move(view));
    }
    const Answer answer = Choose(settings_, question);
    std::vector<int32_t> operands;
    operands.reserve(op.in.size());
    for (size_t i = 0; i < op.in.size(); ++i) {
      operands.push_back(Bring(op.in[i], answer.operands[i]));
    }
    for (Clash clash : answer.clashes) {
      clash.op = op_;
      out_.clashes.push_back(std::move(clash));
    }
    Finish(op, std::move(operands), answer.result, answer.maxima);
    return true;
  }

  void Finish(const Op& op, std::vector<int32_t> operands, const Layout& result,
              const AxisList& maxima) {
    if (repeated_[At(op_)] != 0) {
      Lowered& of = lowered_[At(op_)];
      for (int32_t operand : operands) of.operands.push_back(LayoutOf(operand));
      of.result = result;
      of.maxima = maxima;
    }
    int32_t slot = NewSlot(op.out, result, false);
    out_.code.push_back({.kind = InstructionKind::kLocal,
                         .op = op_,
                         .in = std::move(operands),
                         .out = slot,
                         .axes = {}});
    if (!maxima.empty()) {
      const int32_t reduced = NewSlot(op.out, result, false);
      out_.code.push_back({.kind = InstructionKind::kCollective,
                           .op = op_,
                           .in = {slot},
                           .out = reduced,
                           .axes = maxima,
                           .dim = 0,
                           .other = 0,
                           .collective = Collective::kAllReduce,
                           .max = true});
      slot = reduced;
    }
    if (anchored_[At(op.out)] != 0) {
      slot = EmitMoves(slot, *wishes_[At(op.out)].layout);
      // Where it is brought to is where it lies, not a copy.
      gathered_[At(slot)] = false;
    }
    copies_[At(op.out)] = {slot};
  }

  // Nothing that leaves the step is pending.
  void FinishResults() {
    const auto finish = [&](ValueId value) {
      if (value < 0 || copies_[At(value)].empty()) return;
      Layout layout = LayoutOf(Seen(value));
      if (layout.partial == 0) return;
      layout.partial = 0;
      Bring(value, layout);
    };
    op_ = -1;
    finish(graph_.loss);
    finish(graph_.logits);
    finish(graph_.gradient_norm);
    for (const Cache& cache : graph_.caches) finish(cache.after);
    out_.result.assign(graph_.values.size(), -1);
    for (size_t v = 0; v < copies_.size(); ++v) {
      if (!copies_[v].empty()) out_.result[v] = copies_[v].front();
    }
  }

  const LowerRequest& request_;
  const Graph& graph_;
  Unsupported& why_;
  ChoiceSettings settings_;
  Program out_;
  Phase phase_ = Phase::kForward;
  int32_t op_ = -1;
  std::vector<std::vector<int32_t>> copies_;  // by value: slots, seen one first
  const std::vector<char> weight_;            // by value
  std::vector<bool> gathered_;                // by slot
  std::vector<int32_t> fixed_;  // by value: the parameter it lies as, or -1
  std::vector<Layout> parameter_;
  std::vector<Wish> wishes_;    // by value
  std::vector<char> anchored_;  // by value: the wish is an anchor
  std::vector<char> is_gradient_;
  std::vector<char> repeated_;    // by op
  std::vector<Lowered> lowered_;  // by op that is run again
};

}  // namespace

std::optional<Program> Lower(const LowerRequest& request, Unsupported& why) {
  return Lowerer(request, why).Run();
}

}  // namespace shardc::step
