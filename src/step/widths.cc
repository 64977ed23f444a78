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
#include "step/widths.h"

#include <algorithm>

#include "source/index.h"
#include "step/weights.h"

namespace shardc::step {
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

}  // namespace shardc::step
