// Computes the shapes and bytes of a program at given sizes. A collective sends
// the bytes that the formulas of comm/ return for its operand. A dimension of
// size L that is sharded over axes with n devices in total has L / n elements
// on each device:
//
//   q [b, t, n, h] with b:dp n:tp, [8, 4, 16, 4] on dp=2 tp=4
//     ->  [4, 4, 4, 4] on a device
#include "step/program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "comm/collective.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/constraints.h"
#include "step/op_def.h"

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

namespace {

// Computes the bytes that a device holds at each instruction of a program. A
// slot is a value in one sharding, and it is stored in a buffer. A buffer is
// live from the instruction that writes it to the last instruction that reads
// any slot in it. Inputs of the step are live during the entire program, and
// results of the step until its end. The bytes at an instruction are sums over
// live buffers.
//
// Several slots may share a buffer. The result of a view, or of an update in
// place, is in the buffer of an operand. So is the result of an elementwise op
// or an all-reduce that is the last to read an operand of the same size. Every
// other slot has a separate buffer:
//
//   t = x * w               a separate buffer
//   u = tanh(t)             the buffer of t, if no later op reads t
//   v = split u             the buffer of u
//   p' = adamw(p, ...)      the buffer of p

struct HeldBuffer {
  // The first and the last instruction during which the buffer is live.
  int64_t begin = 0, end = 0;
  int64_t bytes = 0;
  Held held = Held::kActivations;
};

class BufferLiveness {
 public:
  BufferLiveness(const Graph& graph, const Program& program, const Sizes& sizes,
                 const ElementBytes& bytes)
      : graph_(graph), program_(program), sizes_(sizes), bytes_(bytes) {}

  std::vector<HeldBytes> Run() {
    last_ = static_cast<int64_t>(program_.code.size()) - 1;
    FindKinds();
    FindViews();
    FindEnds();
    Settle();
    return Sums();
  }

 private:
  // Returns the bytes of an instruction's result on a device. A parameter may
  // be stored in float32 and cast to bfloat16 when it is read. Its Value::bytes
  // is then 2, the element size after the cast. The stored element size, 4, is
  // Value::bytes of the updated parameter, which replaces the stored value.
  int64_t BytesOf(const Instruction& step) const {
    const Slot& of = program_.slots[AsIndex(step.out)];
    const Value& value = graph_.values[AsIndex(of.value)];
    const ValueId update = step.kind == InstructionKind::kInput
                               ? update_of_[AsIndex(of.value)]
                               : kNoValue;
    const Value& stored =
        update == kNoValue ? value : graph_.values[AsIndex(update)];
    int64_t width = ElementBytesOf(stored, bytes_.values);
    if (kinds_[AsIndex(of.value)] == Held::kMoments) width = bytes_.moments;
    return (Size(width) *
            LocalElements(program_.axes, value, of.sharding, sizes_))
        .value();
  }

  void FindKinds() {
    kinds_.assign(graph_.values.size(), Held::kActivations);
    stays_.assign(graph_.values.size(), 0);
    const auto set = [&](ValueId value, Held held, bool stays) {
      if (value < 0) return;
      kinds_[AsIndex(value)] = held;
      stays_[AsIndex(value)] = stays ? 1 : 0;
    };
    for (const Data& data : graph_.data) set(data.value, Held::kInputs, true);
    for (const Parameter& parameter : graph_.parameters) {
      set(parameter.value, Held::kParameters, true);
    }
    for (ValueId value : graph_.updated) set(value, Held::kParameters, true);
    update_of_.assign(graph_.values.size(), kNoValue);
    for (size_t i = 0; i < graph_.updated.size(); ++i) {
      update_of_[AsIndex(graph_.parameters[i].value)] = graph_.updated[i];
    }
    for (ValueId value : graph_.gradients) {
      set(value, Held::kGradients, graph_.updated.empty());
    }
    for (const auto* list : {&graph_.moments, &graph_.updated_moments}) {
      for (const Moments& moments : *list) {
        set(moments.first, Held::kMoments, true);
        set(moments.second, Held::kMoments, true);
      }
    }
    for (const Cache& cache : graph_.caches) {
      set(cache.before, Held::kCaches, true);
      set(cache.after, Held::kCaches, true);
    }
    // Until they are added to the sum, the gradients of single micro-batches
    // belong to the same class of memory as the sum, kGradients.
    for (size_t i = graph_.ops.size(); i > 0;) {
      --i;
      const Op& op = graph_.ops[i];
      if (op.micro < 0 || op.kind != OpKind::kAdd) continue;
      if (kinds_[AsIndex(op.out)] != Held::kGradients) continue;
      for (ValueId value : op.in) set(value, Held::kGradients, false);
    }
    set(graph_.loss, Held::kActivations, true);
    set(graph_.logits, Held::kActivations, graph_.loss == kNoValue);
  }

  // Returns the index of the operand that a result of AdamW updates. The
  // operands are (p, g, m, v, clip).
  static int64_t UpdatedOperand(AdamWResult result) {
    switch (result) {
      case AdamWResult::kParameter:
        return 0;
      case AdamWResult::kFirstMoment:
        return 2;
      case AdamWResult::kSecondMoment:
        return 3;
    }
    return -1;
  }

  // Returns the index of the operand in whose buffer the result is stored, or
  // -1 if the result is not stored in an operand's buffer.
  static int64_t StoredIn(const Op& op) {
    switch (DefOf(op.kind).storage) {
      case Storage::kFirstOperand:
        return 0;
      case Storage::kUpdated:
        return UpdatedOperand(As<AdamWAttributes>(op).result);
      default:
        return -1;
    }
  }

  bool MayOverwrite(const Op& op) const {
    const Storage storage = DefOf(op.kind).storage;
    return storage == Storage::kOverwrites ||
           (storage == Storage::kIfNothingSums && SumsNothing(op));
  }

  bool SumsNothing(const Op& op) const {
    const auto& out = graph_.values[AsIndex(op.out)].labels;
    return std::all_of(op.in.begin(), op.in.end(), [&](ValueId value) {
      const auto& labels = graph_.values[AsIndex(value)].labels;
      return std::all_of(labels.begin(), labels.end(),
                         [&](LabelId label) { return IsAmong(label, out); });
    });
  }

  void FindViews() {
    home_.assign(program_.slots.size(), -1);
    for (const Instruction& step : program_.code) {
      int32_t& home = home_[AsIndex(step.out)];
      home = step.out;
      if (step.kind != InstructionKind::kLocal) continue;
      const int64_t place = StoredIn(graph_.ops[AsIndex(step.op)]);
      if (place < 0 || AsIndex(place) >= step.in.size()) continue;
      home = home_[AsIndex(step.in[AsIndex(place)])];
    }
  }

  void FindEnds() {
    homes_.resize(program_.slots.size());
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& step = program_.code[i];
      const auto now = static_cast<int64_t>(i);
      if (home_[AsIndex(step.out)] == step.out) {
        HeldBuffer& own = homes_[AsIndex(step.out)];
        own.begin = now;
        own.bytes = BytesOf(step);
        own.held = HeldIn(step);
      }
      Reach(step.out, now);
      for (int32_t slot : step.in) Reach(slot, now);
      const ValueId value = program_.slots[AsIndex(step.out)].value;
      const bool input = step.kind == InstructionKind::kInput;
      if (stays_[AsIndex(value)] == 0) continue;
      if (input) homes_[AsIndex(step.out)].begin = 0;
      if (input || program_.result[AsIndex(value)] == step.out) {
        Reach(step.out, last_);
      }
    }
  }
  void Reach(int32_t slot, int64_t instruction) {
    HeldBuffer& home = homes_[AsIndex(home_[AsIndex(slot)])];
    home.end = std::max(home.end, instruction);
  }

  Held HeldIn(const Instruction& step) const {
    const Held held = kinds_[AsIndex(program_.slots[AsIndex(step.out)].value)];
    const bool copy = held == Held::kParameters &&
                      step.kind != InstructionKind::kInput &&
                      step.kind != InstructionKind::kLocal;
    return copy ? Held::kGathered : held;
  }

  // Stores the result of each elementwise op and each all-reduce in the buffer
  // of an operand of the same size, if no later op reads that operand.
  void Settle() {
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& step = program_.code[i];
      const bool local = step.kind == InstructionKind::kLocal;
      const bool in_place = step.kind == InstructionKind::kCollective &&
                            DefOf(step.collective).in_place;
      if (home_[AsIndex(step.out)] != step.out ||
          !(in_place ||
            (local && MayOverwrite(graph_.ops[AsIndex(step.op)])))) {
        continue;
      }
      HeldBuffer& own = homes_[AsIndex(step.out)];
      for (int32_t slot : step.in) {
        HeldBuffer& other = homes_[AsIndex(home_[AsIndex(slot)])];
        if (other.end != static_cast<int64_t>(i) || other.bytes != own.bytes) {
          continue;
        }
        // The operand's buffer now ends before this instruction. Its bytes are
        // then counted only once, as the bytes of the result.
        --other.end;
        break;
      }
    }
  }

  std::vector<HeldBytes> Sums() const {
    std::vector<HeldBytes> out(program_.code.size() + 1);
    for (size_t slot = 0; slot < homes_.size(); ++slot) {
      const HeldBuffer& home = homes_[slot];
      if (home_[slot] != static_cast<int32_t>(slot) || home.end < home.begin) {
        continue;
      }
      const auto held = static_cast<size_t>(home.held);
      out[AsIndex(home.begin)][held] += home.bytes;
      out[AsIndex(home.end) + 1][held] -= home.bytes;
    }
    for (size_t i = 1; i < out.size(); ++i) {
      for (size_t held = 0; held < kHeldCount; ++held) {
        out[i][held] += out[i - 1][held];
      }
    }
    out.pop_back();
    return out;
  }

  const Graph& graph_;
  const Program& program_;
  const Sizes& sizes_;
  const ElementBytes bytes_;
  int64_t last_ = 0;
  // Indexed by ValueId: the class of memory of the value.
  std::vector<Held> kinds_;
  // Indexed by ValueId: 1 if the value is live until the end, else 0.
  std::vector<char> stays_;
  // Indexed by ValueId of a parameter: the updated parameter.
  std::vector<ValueId> update_of_;
  // Indexed by slot: the slot that owns the buffer of this slot.
  std::vector<int32_t> home_;
  // Indexed by slot: the buffer, if the slot owns one.
  std::vector<HeldBuffer> homes_;
};

}  // namespace

std::string_view HeldName(Held held) {
  static constexpr std::array<std::string_view, kHeldCount> kNames = {
      "parameters", "moments",  "gradients",  "caches",
      "inputs",     "gathered", "activations"};
  return kNames[static_cast<size_t>(held)];
}

int64_t TotalOf(const HeldBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

std::vector<HeldBytes> HeldOver(const Graph& graph, const Program& program,
                                const Sizes& sizes, const ElementBytes& bytes) {
  return BufferLiveness(graph, program, sizes, bytes).Run();
}

PeakMemory PeakOf(const Graph& graph, const Program& program,
                  const Sizes& sizes, const ElementBytes& bytes) {
  PeakMemory out;
  int64_t most = -1;
  const std::vector<HeldBytes> over = HeldOver(graph, program, sizes, bytes);
  for (size_t i = 0; i < over.size(); ++i) {
    const int64_t total = TotalOf(over[i]);
    if (total <= most) continue;
    most = total;
    out.instruction = static_cast<int64_t>(i);
    out.bytes = over[i];
  }
  return out;
}

// Counts the floating-point operations of an op on one device. The op's formula
// (OpDef::flops) is given the product of the sizes that all labels of the op
// have on one device. If several operands have a label, their shards of this
// label are equal.
//
// An op on the queues of experts has both a label for tokens and a label for
// the slots of a queue. The tokens are left out of the product, because each
// slot holds at most one token. For example, a matmul:
//
//   [b, t, d] x [f, d] -> [b, t, f], b over dp 2, f over tp 4:
//   2 * b/2 * t * d * f/4

namespace {

OpExtent ExtentOf(const Graph& graph, const Program& program,
                  const Instruction& instruction, const OpLabels& labels,
                  const Sizes& sizes) {
  std::array<double, OpLabels::kMost> shards{};
  // Returns the number of elements of a slot (a value in one sharding) on a
  // device, and stores the sizes of its labels' shards in `shards`.
  const auto elements = [&](int32_t index,
                            const std::array<int8_t, kMaxRank>& dims) {
    const Slot& slot = program.slots[AsIndex(index)];
    double all = 1;
    for (size_t d = 0; d < slot.sharding.rank; ++d) {
      const LabelId label = graph.values[AsIndex(slot.value)].labels[d];
      const int64_t size =
          sizes[AsIndex(label)] / program.axes.Parts(slot.sharding.dims[d]);
      const auto shard = static_cast<double>(size);
      shards[AsIndex(dims[d])] = shard;
      all *= shard;
    }
    return all;
  };
  OpExtent out;
  out.operands = static_cast<double>(instruction.in.size());
  for (size_t i = 0; i < instruction.in.size(); ++i) {
    out.last_operand = elements(instruction.in[i], labels.of[i]);
  }
  out.result = elements(instruction.out, labels.result);
  double tokens = 1;
  bool slots = false;
  for (size_t i = 0; i < labels.count; ++i) {
    out.combinations *= shards[i];
    if (labels.labels[i].label == graph.common.query) tokens = shards[i];
    slots = slots || labels.labels[i].label == graph.common.slot;
  }
  if (slots) out.combinations /= tokens;
  return out;
}

}  // namespace

double FlopsOf(const Graph& graph, const Program& program,
               const Instruction& instruction, const Sizes& sizes) {
  if (instruction.kind != InstructionKind::kLocal) return 0;
  const Op& op = graph.ops[AsIndex(instruction.op)];
  const OpDef& def = DefOf(op.kind);
  OpLabels labels;
  if (def.flops == nullptr || !LabelsOf(graph, op, labels)) return 0;
  return def.flops(op, ExtentOf(graph, program, instruction, labels, sizes));
}

bool IsMatmul(const Graph& graph, const Op& op) {
  OpLabels labels;
  if (op.kind != OpKind::kEinsum || !LabelsOf(graph, op, labels)) return false;
  return std::any_of(
      labels.labels.begin(), labels.labels.begin() + labels.count,
      [](const RuleLabel& one) { return one.kind == LabelKind::kSum; });
}

}  // namespace shardc::step
