// Computes the shapes and bytes of a program at given sizes. A collective sends
// the bytes that the formulas of comm/ return for its operand. A dimension of
// size L that is sharded over axes with n devices in total has L / n elements
// on each device:
//
//   q [b, t, n, h] with b:dp n:tp, [8, 4, 16, 4] on dp=2 tp=4
//     ->  [4, 4, 4, 4] on a device
#include "step/program.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "source/join.h"
#include "source/size.h"

namespace shardc::step {

bool IsPrefix(const AxisList& prefix, const AxisList& whole) {
  return prefix.size() <= whole.size() &&
         std::equal(prefix.begin(), prefix.end(), whole.begin());
}

int64_t Axes::Parts(const AxisList& list) const {
  int64_t out = 1;
  for (AxisId axis : list) out *= sizes[axis];
  return out;
}

AxisList Axes::Of(const AxisGroup& group) const {
  AxisList out;
  for (const std::string& name : group) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) continue;
    const auto axis = static_cast<AxisId>(found - names.begin());
    if (!Holds(out.set(), axis)) out.push_back(axis);
  }
  return out;
}

AxisGroup Axes::Group(const AxisList& list) const {
  AxisGroup out;
  for (AxisId axis : list) out.push_back(names[axis]);
  return out;
}

Axes AxesOf(const Mesh& mesh) {
  Axes out;
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.size == 1) continue;
    out.names.push_back(axis.name);
    out.sizes.push_back(axis.size);
  }
  return out;
}

AxisSet Sharding::sharded_over() const {
  AxisSet out = 0;
  for (size_t d = 0; d < rank; ++d) {
    out = static_cast<AxisSet>(out | dims[d].set());
  }
  return out;
}

Spec SpecOf(const Axes& axes, const Sharding& sharding) {
  Spec out;
  for (size_t d = 0; d < sharding.rank; ++d) {
    out.push_back(axes.Group(sharding.dims[d]));
  }
  return out;
}

Shape ShapeOf(const Graph& graph, ValueId value, const Sizes& sizes) {
  Shape out;
  for (LabelId label : graph.values[AsIndex(value)].labels) {
    out.push_back(sizes[AsIndex(label)]);
  }
  return out;
}

Shape LocalShapeOf(const Graph& graph, const Program& program, int32_t slot,
                   const Sizes& sizes) {
  const Slot& of = program.slots[AsIndex(slot)];
  Shape out = ShapeOf(graph, of.value, sizes);
  for (size_t d = 0; d < out.size(); ++d) {
    out[d] /= program.axes.Parts(of.sharding.dims[d]);
  }
  return out;
}

int64_t LocalElements(const Axes& axes, const Value& value,
                      const Sharding& sharding, const Sizes& sizes) {
  Size out = 1;
  for (size_t d = 0; d < value.labels.size(); ++d) {
    out *= sizes[AsIndex(value.labels[d])] / axes.Parts(sharding.dims[d]);
  }
  return out.value();
}

int64_t ElementBytesOf(const Value& value, int64_t element_bytes) {
  if (value.integral) return kIntegerBytes;
  return value.bytes > 0 ? value.bytes : element_bytes;
}

int64_t SentBytes(const Graph& graph, const Program& program,
                  const Instruction& instruction, const Sizes& sizes,
                  int64_t element_bytes) {
  if (instruction.kind != InstructionKind::kCollective) return 0;
  const Slot& from = program.slots[AsIndex(instruction.in[0])];
  const Value& value = graph.values[AsIndex(from.value)];
  const int64_t elements =
      LocalElements(program.axes, value, from.sharding, sizes);
  return BusiestSent(instruction.collective, elements,
                     ElementBytesOf(value, element_bytes),
                     program.axes.Parts(instruction.axes));
}

std::string ShardingText(const Graph& graph, const Axes& axes, ValueId value,
                         const Sharding& sharding) {
  const auto joined = [&](const auto& list) {
    std::string out;
    for (AxisId axis : list) {
      AppendItem(out, "+", axes.names[axis]);
    }
    return out;
  };
  std::string out;
  const Value& of = graph.values[AsIndex(value)];
  for (size_t d = 0; d < of.labels.size(); ++d) {
    if (sharding.dims[d].empty()) continue;
    AppendItem(out, " ",
               graph.labels[AsIndex(of.labels[d])].name + ":" +
                   joined(sharding.dims[d]));
  }
  if (sharding.partial != 0) {
    AxisList partial;
    for (AxisId a = 0; a < axes.count(); ++a) {
      if (Holds(sharding.partial, a)) partial.push_back(a);
    }
    out += (out.empty() ? "pending " : " pending ") + joined(partial);
  }
  return out.empty() ? "whole" : out;
}

// Computes the sizes of labels from the batch, the length and the known sizes
// of the model's dimensions. For example:
//
//   n 32, h 128                           ->  (n h) 4096
//   length 4096                           ->  4096 queries, but 1 in decoding
//   4096 tokens, each for 2 of 8 experts  ->  1,024 slots for each expert

// The largest number of slots of an expert's queue. A larger queue would exceed
// the limit of a step's bytes.
constexpr double kMostSlots = 1e18;

void SetInferredSizes(const ModelDescription& description, const Roles& roles,
                      Formulas& formulas) {
  if (formulas.has_config()) return;
  for (size_t i = 0; i < description.dims.size(); ++i) {
    const int64_t size = roles.sizes[i];
    if (size > 0) formulas.SetDim(description.dims[i].first, size);
  }
}

void FinishSizes(const Graph& graph, Sizes& sizes) {
  const RingLabels& ring = graph.ring;
  if (ring.turns != kNoLabel) {
    const auto size = [&](LabelId label) -> int64_t& {
      return sizes[AsIndex(label)];
    };
    size(ring.query_rows) = size(graph.common.query) / size(ring.turns);
    size(ring.key_rows) = size(graph.common.key) / size(ring.turns);
  }
  // The factors and parts of a label have lower numbers than the label, so
  // their sizes are already set.
  for (size_t i = 0; i < graph.labels.size(); ++i) {
    const DimLabel& label = graph.labels[i];
    if (!label.parts.empty()) {
      sizes[i] = 0;
      for (const LabelId part : label.parts) {
        sizes[i] = (Size(sizes[i]) + sizes[AsIndex(part)]).value();
      }
    }
    if (!label.factors.empty()) {
      Size product = 1;
      for (const LabelId factor : label.factors) {
        product *= sizes[AsIndex(factor)];
      }
      sizes[i] = product.value();
    }
  }
}

Sizes RealSizes(const StepModel& step, int64_t batch, int64_t length) {
  const Graph& graph = step.graph;
  const CommonLabels& common = graph.common;
  Sizes sizes = step.sizes;
  const auto size = [&](LabelId label) -> int64_t& {
    return sizes[AsIndex(label)];
  };
  const bool decodes =
      std::any_of(graph.caches.begin(), graph.caches.end(),
                  [](const Cache& cache) { return cache.before != kNoValue; });
  size(common.batch) = batch;
  size(common.query) = decodes ? 1 : length;
  size(common.key) = length;
  if (common.encoder_query != kNoLabel) {
    const int64_t tokens =
        step.encoder_length > 0 ? step.encoder_length : length;
    size(common.encoder_query) = size(common.encoder_key) = tokens;
  }
  if (common.slot != kNoLabel && common.experts != kNoLabel) {
    const double each =
        static_cast<double>(size(common.query)) *
        static_cast<double>(size(common.top_k)) /
        static_cast<double>(std::max<int64_t>(size(common.experts), 1));
    const double factor = step.capacity > 0 ? step.capacity : 1;
    const double slots = std::min(std::ceil(each * factor), kMostSlots);
    size(common.slot) = std::max<int64_t>(1, static_cast<int64_t>(slots));
  }
  FinishSizes(graph, sizes);
  return sizes;
}

// Computes the width of each value, which is the number of bytes of one
// element. The width follows from the values that the value depends on, and
// from the values that depend on it.
//
// A value that depends on parameters only has the width of the widest of these
// parameters. In training its width is at most that of activations, to which
// wider parameters are cast. A value that becomes a gradient only by additions
// and reshapes has the gradient's width. In decoding, the cache and all values
// that are only reshaped from it have the width of the cache's dtype.
//
//   parameters F32, activations BF16, gradients F32:
//     bytes of an element in the all_gather of q: 2, in the reduce_scatter of
//     its gradient d:q: 4, in the all_reduce of the activation x: 2

namespace {

bool Reshapes(const Op& op) {
  switch (op.kind) {
    case OpKind::kMerge:
    case OpKind::kSplit:
    case OpKind::kIdentity:
    case OpKind::kRename:
    case OpKind::kRepeat:
      return true;
    default:
      return false;
  }
}

class WidthSetter {
 public:
  WidthSetter(Graph& graph, const ElementWidths& widths)
      : graph_(graph), widths_(widths) {}

  void Run() {
    SetWeights();
    SetCaches();
    if (widths_.trains) SetGradients();
    for (size_t i = 0; i < graph_.updated.size(); ++i) {
      Set(graph_.updated[i], StoredOf(i));
    }
  }

 private:
  void Set(ValueId value, int64_t bytes) {
    if (value < 0 || graph_.values[AsIndex(value)].integral) return;
    graph_.values[AsIndex(value)].bytes = static_cast<uint8_t>(bytes);
  }

  int64_t StoredOf(size_t parameter) const {
    const int64_t stored = parameter < widths_.parameters.size()
                               ? widths_.parameters[parameter]
                               : 0;
    return stored > 0 ? stored : widths_.activations;
  }

  void SetWeights() {
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      const int64_t stored = StoredOf(i);
      Set(graph_.parameters[i].value,
          widths_.trains ? std::min(stored, widths_.activations) : stored);
    }
    const std::vector<char> weight = FindWeights(graph_);
    for (const Op& op : graph_.ops) {
      if (op.in.empty() || weight[AsIndex(op.out)] == 0) continue;
      int64_t most = 0;
      for (const ValueId value : op.in) {
        most = std::max<int64_t>(most, graph_.values[AsIndex(value)].bytes);
      }
      Set(op.out, most);
    }
  }

  void SetCaches() {
    std::vector<char> cached(graph_.values.size(), 0);
    for (const Cache& cache : graph_.caches) {
      // In prefill (without a cache before the step) attention reads the new
      // keys before they are stored in the cache, so the cache's width does not
      // apply.
      if (cache.before < 0) continue;
      for (const ValueId value : {cache.before, cache.after}) {
        if (value >= 0) cached[AsIndex(value)] = 1;
      }
    }
    for (const Op& op : graph_.ops) {
      if (Reshapes(op) && cached[AsIndex(op.in[0])] != 0) {
        cached[AsIndex(op.out)] = 1;
      }
    }
    for (size_t v = 0; v < cached.size(); ++v) {
      if (cached[v] != 0) Set(static_cast<ValueId>(v), widths_.cache);
    }
  }

  // If a value contributes to the gradients of several parameters, it has the
  // largest of their widths.
  void SetGradients() {
    std::vector<int64_t> width(graph_.values.size(), 0);
    const auto widen = [&](ValueId value, int64_t bytes) {
      if (value < 0) return;
      width[AsIndex(value)] = std::max(width[AsIndex(value)], bytes);
    };
    for (size_t i = 0; i < graph_.gradients.size(); ++i) {
      widen(graph_.gradients[i], widths_.gradients.value_or(StoredOf(i)));
    }
    const std::vector<char> gradient = FindGradientValues(graph_);
    for (size_t i = graph_.ops.size(); i > 0;) {
      --i;
      const Op& op = graph_.ops[i];
      if (gradient[AsIndex(op.out)] == 0) continue;
      for (const ValueId value : op.in) {
        if (gradient[AsIndex(value)] != 0) {
          widen(value, width[AsIndex(op.out)]);
        }
      }
    }
    for (size_t v = 0; v < width.size(); ++v) {
      if (width[v] > 0) Set(static_cast<ValueId>(v), width[v]);
    }
  }

  Graph& graph_;
  const ElementWidths& widths_;
};

}  // namespace

bool IsTrained(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBF16 ||
         dtype == Dtype::kF32 || dtype == Dtype::kF64;
}

std::vector<char> FindGradientValues(const Graph& graph) {
  std::vector<char> out(graph.values.size(), 0);
  for (const ValueId value : graph.gradients) {
    if (value >= 0) out[AsIndex(value)] = 1;
  }
  for (size_t i = graph.ops.size(); i > 0;) {
    --i;
    const Op& op = graph.ops[i];
    if (op.phase != Phase::kBackward || op.recompute_of >= 0) continue;
    const bool form = op.kind == OpKind::kMerge || op.kind == OpKind::kSplit ||
                      op.kind == OpKind::kAdd || op.kind == OpKind::kIdentity;
    if (!form || out[AsIndex(op.out)] == 0) continue;
    for (const ValueId value : op.in) out[AsIndex(value)] = 1;
  }
  return out;
}

void SetWidths(Graph& graph, const ElementWidths& widths) {
  WidthSetter(graph, widths).Run();
}

std::vector<char> FindWeights(const Graph& graph) {
  std::vector<char> out(graph.values.size(), 0);
  const auto is = [&](ValueId value) { return out[AsIndex(value)] != 0; };
  for (const Parameter& parameter : graph.parameters) {
    out[AsIndex(parameter.value)] = 1;
  }
  for (const Op& op : graph.ops) {
    if (op.in.empty()) continue;
    out[AsIndex(op.out)] =
        static_cast<char>(std::all_of(op.in.begin(), op.in.end(), is));
  }
  return out;
}

}  // namespace shardc::step
