// unified_attention: ragged queries [N, H, D] over two pools of pages
// [P, ps, K, D], one for keys and one for values.
#include "exec/operations/operation.h"
#include "exec/pages/paged_program.h"

namespace shardc::exec {
namespace {

OperationOutcome Run(Machine& machine, const AttentionProblem& problem,
                     const AttentionSpecs& specs,
                     const OperationSettings& settings) {
  return RunPaged(machine, problem, specs, settings, *kUnified.pages,
                  kUnified.name);
}

void Bytes(Traffic& traffic) { PagedBytes(traffic, *kUnified.pages); }

}  // namespace

constinit const Operation kUnified = {
    .name = "unified_attention",
    .summary = "ragged queries over pages of keys and of values",
    .supports = kPagedSupports,
    .pages = PagedKernel{.format = PageFormat::kSeparate},
    .trace = StateTrace::kPages,
    .settings = {Setting::kBlocksizeK, Setting::kPageSize},
    .inputs = {Input::kSinksByKeyHead},
    .bytes = Bytes,
    .run = Run,
};

}  // namespace shardc::exec
