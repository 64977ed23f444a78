// Folds a run of five or more identical layers to four layers: the first and
// the last, which have other ops before or after them, and two layers between
// them. How an op is lowered depends only on the ops next to it and on the
// shardings of its operands. If the second and the third layer are lowered
// equally, so are all layers between the first and the last. The second layer
// then represents the layers that are not built. Instead of one layer, a block
// of several layers may be repeated. For example:
//
//   32 identical layers                   build 0, 1, 2, 31; 1 represents 29
//   5 with a window, 1 without, 10 times  build blocks 0, 1, 2, 9; block 1
//                                         represents 7
//
// Some ops have an operand for each layer, such as the sum for the gradient's
// norm or for the losses of routers. If such an op reshards an operand, the
// choice of the reshard may depend on the number of operands. The program is
// then not folded.
#include "step/layer_fold.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "source/size.h"
#include "step/build_context.h"
#include "step/lines.h"
#include "step/op_def.h"
#include "step/program.h"

namespace shardc::step {
namespace {

constexpr size_t kLongestPeriod = 16;
// The number of blocks that are built of each run of identical blocks.
constexpr size_t kBuilt = 4;

// Returns how often the first `period` numbers from `begin` on occur in
// succession. `kinds` has a number for each layer, which is equal for layers
// with the same ops. In 0 0 1 0 0 1 2, the first 3 numbers occur twice.
size_t RepeatsOf(std::span<const int32_t> kinds, size_t begin, size_t period) {
  size_t end = begin + period;
  while (end < kinds.size() && kinds[end] == kinds[end - period]) ++end;
  return (end - begin) / period;
}

// Returns the layer of each op, or -1 if the op belongs to no layer or to
// several layers. Some ops are written outside of the layers, such as the
// square of a gradient for the norm. Such an op is assigned to a layer if all
// its operands belong to this layer.
std::vector<int32_t> LayersOfOps(const Graph& graph,
                                 std::vector<int32_t>& layer_of_value) {
  layer_of_value.assign(graph.values.size(), -1);
  std::vector<int32_t> out;
  out.reserve(graph.ops.size());
  for (const Op& op : graph.ops) {
    int32_t layer = op.layer;
    if (layer < 0 && !op.in.empty()) {
      layer = layer_of_value[AsIndex(op.in.front())];
      for (const ValueId value : op.in) {
        if (layer_of_value[AsIndex(value)] != layer) layer = -1;
      }
    }
    out.push_back(layer);
    layer_of_value[AsIndex(op.out)] = layer;
  }
  return out;
}

// Returns whether the op reads values of both the second and the third block of
// a run. In the graph of all layers, such an op has an operand for each block.
bool Spans(const Op& op, const std::vector<int32_t>& layer_of_value,
           const LayerFold& fold) {
  if (op.in.size() < 3) return false;
  const auto reads = [&](int32_t begin, int32_t period) {
    return std::any_of(op.in.begin(), op.in.end(), [&](ValueId value) {
      const int32_t layer = layer_of_value[AsIndex(value)];
      return layer >= begin && layer < begin + period;
    });
  };
  return std::any_of(
      fold.runs.begin(), fold.runs.end(), [&](const LayerFold::Run& run) {
        return reads(run.second, run.period) && reads(run.third, run.period);
      });
}

class ProgramComparison {
 public:
  ProgramComparison(const Graph& graph, const Program& program)
      : graph_(graph), program_(program) {}

  // Returns whether two instructions differ only in their layers. The layer of
  // `b` must be `apart` layers after the layer of `a`, unless both instructions
  // are outside of layers.
  bool AreSame(const Instruction& a, const Instruction& b,
               int32_t apart) const {
    if (a.kind != b.kind || a.axes != b.axes || a.dim != b.dim ||
        a.other != b.other || a.collective != b.collective || a.max != b.max ||
        a.shift != b.shift || a.in.size() != b.in.size() ||
        !AreSameOps(a.op, b.op, apart) || !AreSameSlots(a.out, b.out)) {
      return false;
    }
    for (size_t i = 0; i < a.in.size(); ++i) {
      if (!AreSameSlots(a.in[i], b.in[i])) return false;
    }
    return true;
  }

 private:
  bool AreSameOps(int32_t a, int32_t b, int32_t apart) const {
    if (a < 0 || b < 0) return a == b;
    const Op& x = graph_.ops[AsIndex(a)];
    const Op& y = graph_.ops[AsIndex(b)];
    const bool placed = x.layer < 0 ? y.layer < 0 : x.layer + apart == y.layer;
    return placed && x.kind == y.kind && x.phase == y.phase &&
           x.name == y.name && NeedUnsharded(x) == NeedUnsharded(y);
  }
  // Returns the labels that must be unsharded by the op's definition. An op may
  // name such a label only in its attributes, so comparing the labels of the
  // operands would miss it.
  std::array<LabelId, 2> NeedUnsharded(const Op& op) const {
    const UnshardedRule rule = DefOf(op.kind).unsharded;
    return rule == nullptr ? std::array<LabelId, 2>{kNoLabel, kNoLabel}
                           : rule(graph_, op);
  }
  bool AreSameSlots(int32_t a, int32_t b) const {
    const Slot& x = program_.slots[AsIndex(a)];
    const Slot& y = program_.slots[AsIndex(b)];
    return x.sharding == y.sharding &&
           graph_.values[AsIndex(x.value)].labels ==
               graph_.values[AsIndex(y.value)].labels;
  }

  const Graph& graph_;
  const Program& program_;
};

}  // namespace

LayerFold FoldLayers(std::span<const int32_t> kinds) {
  LayerFold out;
  out.times.assign(kinds.size(), 0);
  const auto build = [&](size_t layer, int64_t times) {
    out.layers.push_back(static_cast<int32_t>(layer));
    out.times[layer] = times;
  };
  for (size_t at = 0; at < kinds.size();) {
    size_t period = 0, repeats = 0, saved = 0;
    for (size_t p = 1; p <= kLongestPeriod && at + p <= kinds.size(); ++p) {
      const size_t n = RepeatsOf(kinds, at, p);
      if (n <= kBuilt || (n - kBuilt) * p <= saved) continue;
      period = p;
      repeats = n;
      saved = (n - kBuilt) * p;
    }
    if (saved == 0) {
      build(at++, 1);
      continue;
    }
    const size_t blocks[kBuilt] = {0, 1, 2, repeats - 1};
    for (const size_t block : blocks) {
      const auto times =
          static_cast<int64_t>(block == 1 ? repeats - kBuilt + 1 : 1);
      for (size_t i = 0; i < period; ++i) {
        build(at + block * period + i, times);
      }
    }
    out.runs.push_back({.second = static_cast<int32_t>(at + period),
                        .third = static_cast<int32_t>(at + 2 * period),
                        .period = static_cast<int32_t>(period)});
    at += repeats * period;
  }
  return out;
}

std::optional<std::vector<int64_t>> InstructionTimes(const Graph& graph,
                                                     const Program& program,
                                                     const LayerFold& fold) {
  std::vector<int32_t> layer_of_value;
  const std::vector<int32_t> layer_of_op = LayersOfOps(graph, layer_of_value);
  std::vector<int64_t> out;
  out.reserve(program.code.size());
  std::vector<std::vector<size_t>> by_layer(fold.times.size());
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& step = program.code[i];
    const ValueId value = program.slots[AsIndex(step.out)].value;
    const int32_t of_value = layer_of_value[AsIndex(value)];
    const int32_t layer =
        step.op < 0 ? of_value : layer_of_op[AsIndex(step.op)];
    if (step.op >= 0 && step.kind == InstructionKind::kCollective) {
      const Op& op = graph.ops[AsIndex(step.op)];
      if (value != op.out && Spans(op, layer_of_value, fold)) {
        return std::nullopt;
      }
    }
    out.push_back(layer < 0 ? 1 : fold.times[AsIndex(layer)]);
    if (layer >= 0) by_layer[AsIndex(layer)].push_back(i);
  }
  const ProgramComparison compare(graph, program);
  for (const LayerFold::Run& run : fold.runs) {
    const int32_t apart = run.third - run.second;
    for (int32_t i = 0; i < run.period; ++i) {
      const auto& second = by_layer[AsIndex(run.second + i)];
      const auto& third = by_layer[AsIndex(run.third + i)];
      const bool same = std::equal(
          second.begin(), second.end(), third.begin(), third.end(),
          [&](size_t a, size_t b) {
            return compare.AreSame(program.code[a], program.code[b], apart);
          });
      if (!same) return std::nullopt;
    }
  }
  return out;
}

// Finds layers that have the same ops. The ops of a layer follow from its
// parameters, its settings and the `if` conditions of its lines in the
// description. All three are read for each layer without building any op.
// Layers that agree in all three are assigned the same number:
//
//   DeepSeek-V3, dense MLPs in layers 0 to 2   ->  0 0 0 1 1 1 ...
//   Gemma 3, every sixth layer without window  ->  0 0 0 0 0 1 0 0 0 0 0 1 ...

namespace {

// Joins the properties of a layer to a string. Two layers have the same ops if
// their strings are equal.
class Signature {
 public:
  void Add(int64_t number) { text_ += std::to_string(number) + ","; }
  void Add(double number) { Add(std::bit_cast<int64_t>(number)); }
  void Add(const Rope& rope) {
    for (const double number :
         {rope.base, rope.factor, rope.original_length, rope.beta_fast,
          rope.beta_slow, rope.low_frequency_factor, rope.high_frequency_factor,
          rope.amplitude, rope.rotary_fraction}) {
      Add(number);
    }
    Add(int64_t{rope.truncate});
    Add(int64_t{rope.interleaved});
    text_ += rope.scaling + ",";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddParameters(const Roles& roles, std::span<const uint32_t> class_of_row,
                   int32_t layer, Signature& out) {
  for (size_t role = 0; role < roles.in_layers.size(); ++role) {
    if (!roles.in_layers[role]) continue;
    const std::vector<int64_t>& rows =
        roles.RowsOf(static_cast<int32_t>(role), layer);
    out.Add(static_cast<int64_t>(rows.size()));
    if (!rows.empty()) out.Add(int64_t{class_of_row[AsIndex(rows.front())]});
  }
}

}  // namespace

std::optional<std::vector<int32_t>> LayerKinds(
    const ModelDescription& description, const ModelConfig* config,
    const Roles& roles, Mode mode, std::span<const uint32_t> class_of_row) {
  // Errors are not reported here, because the builder of the graph reports the
  // same errors.
  Findings unreported;
  const auto formulas = Formulas::Make(description, config, unreported);
  if (formulas == nullptr) return std::nullopt;
  SetInferredSizes(description, roles, *formulas);
  BuildContext context(description, mode, unreported, {});
  context.labels.MakeCommon(roles.sizes);
  SettingsReader reader(description, config, *formulas, unreported);
  const auto settings = reader.Read(context.mode, context.form.view,
                                    context.graph().common, context.labels);
  if (!settings) return std::nullopt;
  std::map<std::string, int32_t> known;
  std::vector<int32_t> out;
  for (size_t stack = 0; stack < roles.stack_layers.size(); ++stack) {
    const auto begin = static_cast<int32_t>(roles.BeginOf(stack));
    const auto count = static_cast<int32_t>(roles.stack_layers[stack]);
    for (int32_t layer = begin; layer < begin + count; ++layer) {
      const auto own = reader.ReadLayer(layer - begin, *settings,
                                        context.graph().common, context.labels);
      if (!own) return std::nullopt;
      Signature what;
      what.Add(static_cast<int64_t>(stack));
      AddParameters(roles, class_of_row, layer, what);
      what.Add(int64_t{own->windowed});
      what.Add(int64_t{own->chunked});
      what.Add(int64_t{own->rotates});
      what.Add(own->rope);
      for (const DescribedLine& line : description.stacks[stack].layer) {
        if (line.when.text.empty()) continue;
        what.Add(int64_t{formulas->Condition(line.when)});
      }
      const auto next = static_cast<int32_t>(known.size());
      out.push_back(known.try_emplace(what.text(), next).first->second);
    }
  }
  if (unreported.HasErrors()) return std::nullopt;
  return out;
}

}  // namespace shardc::step
