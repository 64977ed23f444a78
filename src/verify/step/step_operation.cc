// Decides whether an attention operation can run in a step. The decision uses
// the plan's specs and shapes without elements, as the verification of
// attention does. How the operation runs in a step (as a global view, a kernel
// on slices or a ring) is decided by exec/step/operation_form.h.
#include "verify/step/step_operation.h"

#include <algorithm>
#include <utility>

#include "exec/machine/mesh_sim.h"
#include "exec/step/operation_form.h"
#include "plan/compile.h"
#include "source/index.h"
#include "step/build.h"
#include "step/sizes.h"
#include "verify/cases/matrix.h"
#include "verify/judge/given.h"

namespace shardc::verify {
namespace {

// Returns the sizes of attention, from the graph of one layer, or nullopt if
// the model's description cannot be built.
std::optional<Sizes> SizesOf(const StepRequest& request) {
  // The errors of this graph are dropped, because building all layers reports
  // them again.
  Findings unreported;
  const auto model = step::BuildForward(
      *request.compiled->rules.model, request.config,
      request.compiled->manifest, request.mode, unreported, {0});
  if (!model) return std::nullopt;
  const step::Graph& graph = model->graph;
  const step::Sizes sizes =
      step::RealSizes(*model, request.batch, request.length);
  const auto size = [&](step::LabelId label) { return sizes[AsIndex(label)]; };
  Sizes out;
  out.batch = request.batch;
  out.query_length = out.key_length = request.length;
  for (const step::Op& op : graph.ops) {
    const auto& labels = graph.values[AsIndex(op.out)].labels;
    if (op.constraint == "q" && labels.size() > 3) {
      // The dimensions are [batch, tokens, heads, head dim]. If query heads are
      // divided into groups, several dimensions take the place of `heads`.
      out.heads = 1;
      for (size_t i = 2; i + 1 < labels.size(); ++i) {
        out.heads *= size(labels[i]);
      }
      out.head_dim = size(labels.back());
    } else if (op.kind == step::OpKind::kRename && labels.size() == 4 &&
               step::As<step::RenameAttributes>(op).to == graph.common.key) {
      out.key_heads = size(labels[2]);
    } else if (op.kind == step::OpKind::kCacheWrite && labels.size() == 4) {
      out.key_heads = size(labels[2]);
    }
  }
  return SizesOfMode(out, request.mode);
}

std::optional<Case> CaseOf(const StepRequest& request, const Mesh& mesh) {
  const auto sizes = SizesOf(request);
  if (!sizes) return std::nullopt;
  Case out;
  out.operation = request.operation;
  out.mode = request.mode;
  out.mesh = mesh;
  out.sizes = *sizes;
  out.dtype = request.element_bytes == 2 ? Dtype::kBF16 : Dtype::kF32;
  out.features.causal = true;
  out.specs = ResolveSpecs(*request.compiled->resolver, out,
                           request.compiled->IllegalFor(-1));
  return out;
}

}  // namespace

std::optional<step::AttentionForm> FormOf(const StepRequest& request,
                                          const Mesh& mesh, std::string& why) {
  step::AttentionForm out;
  if (request.operation == nullptr) return out;
  const exec::Operation& operation = *request.operation;
  const auto refuse = [&](const std::string& reason) {
    why = std::string(operation.name) + ": " + reason;
    return std::nullopt;
  };
  if (operation.IsPaged()) {
    return refuse("a step keeps keys in caches, not in pages");
  }
  if (!Applies(operation, request.mode, Layout::kBthd)) {
    return refuse("is for decoding alone");
  }
  const auto test = CaseOf(request, mesh);
  if (!test) return out;
  if (const auto refusal = RefusalAt(*test)) return refuse(refusal->reason);
  if (operation.global_view) return out;
  if (request.compiled->rules.model->HasEncoder()) {
    return refuse("a model with an encoder runs as described");
  }
  const exec::SimMesh sim(mesh);
  return exec::StepForm(operation, sim.Parts(test->specs.query[1]),
                        test->sizes.key_heads / sim.Parts(test->specs.key[2]));
}

std::vector<step::ShardingConstraintOverride> OverridesOf(
    const StepRequest& request) {
  if (request.operation == nullptr) return {};
  step::ShardingConstraints constraints =
      step::ShardingConstraintsOf(*request.compiled->resolver, request.mode);
  const auto own = static_cast<int64_t>(constraints.overrides.size());
  exec::AddStepOverrides(*request.operation, constraints);
  return {constraints.overrides.begin() + own, constraints.overrides.end()};
}

std::optional<exec::SentBytes> FormulaOf(const StepRequest& request,
                                         const Mesh& mesh) {
  const auto test = CaseOf(request, mesh);
  if (!test) return std::nullopt;
  return SentAt(*test);
}

}  // namespace shardc::verify
