// Builds each graph of a step at most once. For example, a search evaluates 24
// rules files with 7 rematerialisation policies in two threads. If the same
// layers are identical under all rules files, the search needs only 14 graphs.
// For each policy these are one graph with a single micro-batch, and one with
// several.
#include "cost/step_graphs.h"

#include <algorithm>

#include "source/finding.h"
#include "step/check_sizes.h"
#include "step/formulas.h"
#include "step/sizes.h"

namespace shardc::cost {

const step::Roles* StepGraphs::RolesOf(const Compiled& compiled,
                                       const ModelConfig* config) {
  const std::lock_guard lock(mutex_);
  if (!has_roles_) {
    has_roles_ = true;
    // Building a graph reports errors in the model's description, so they are
    // not reported here.
    Findings unreported;
    const auto formulas =
        step::Formulas::Make(*compiled.rules.model, config, unreported);
    if (formulas != nullptr) {
      roles_ = step::AssignRoles(*compiled.rules.model, *formulas,
                                 compiled.manifest, unreported);
    }
  }
  return roles_ ? &*roles_ : nullptr;
}

const StepGraph& StepGraphs::GraphOf(const StepInputs& inputs,
                                     const step::LayerFold& fold,
                                     const step::AttentionForm& form) {
  Key key = {.mode = inputs.mode,
             .has_microbatches = inputs.microbatches > 1,
             .reduction = inputs.reduction,
             .remat = inputs.remat,
             .form = form,
             .element_bytes = inputs.element_bytes,
             .cache_bytes = inputs.cache_bytes,
             .gradient_bytes = inputs.gradient_bytes,
             .layer_times = fold.times};
  const step::Roles* const roles = RolesOf(*inputs.compiled, inputs.config);
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(
      entries_.begin(), entries_.end(),
      [&](const std::unique_ptr<Entry>& entry) { return entry->key == key; });
  if (at != entries_.end()) return (*at)->graph;
  auto fresh = std::make_unique<Entry>();
  fresh->key = std::move(key);
  StepInputs own = inputs;
  own.roles = roles;
  Findings findings;
  auto model = BuildStepModel(own, fold.layers, findings, form);
  if (model) {
    fresh->graph.model = std::move(*model);
  } else {
    fresh->graph.why_not = findings.all().empty()
                               ? "the model has no step program"
                               : findings.all().front().message;
  }
  entries_.push_back(std::move(fresh));
  return entries_.back()->graph;
}

const StepSizes& StepGraphs::SizesOf(const StepGraph& graph, int64_t rows,
                                     int64_t length) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [&](const std::unique_ptr<Entry>& entry) {
                                 return &entry->graph == &graph;
                               });
  Entry& entry = **at;
  const auto [known, fresh] = entry.sizes.try_emplace({rows, length});
  StepSizes& out = known->second;
  if (!fresh) return out;
  out.sizes = step::RealSizes(graph.model, rows, length);
  Findings findings;
  if (!step::CheckBytes(graph.model.graph, out.sizes, {}, findings,
                        entry.key.layer_times)) {
    out.why_not = findings.all().front().message;
  }
  return out;
}

}  // namespace shardc::cost
