// Computes the sizes of labels from the batch, the length and the known sizes
// of the model's dimensions. For example:
//
//   n 32, h 128                           ->  (n h) 4096
//   length 4096                           ->  4096 queries, but 1 in decoding
//   4096 tokens, each for 2 of 8 experts  ->  1,024 slots for each expert
#include "step/sizes.h"

#include <algorithm>
#include <cmath>

#include "source/index.h"
#include "source/size.h"

namespace shardc::step {

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

}  // namespace shardc::step
