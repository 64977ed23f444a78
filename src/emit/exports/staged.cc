// Converts a plan with pipeline stages to a plan without stages, on the same
// mesh or on the mesh of one stage. A plan without stages cannot express some
// parameters, such as those that are on some of the ranks only. One finding
// reports all of these parameters. For example:
//
//   an embedding that the head shares, on ranks 0 and 3 of 4  ->  inexpressible
#include "emit/exports/staged.h"

#include <string>
#include <vector>

#include "plan/stage_units.h"
#include "plan/without_stages.h"
#include "source/wording.h"

namespace shardc::exports {
std::optional<ReadPlan> WithoutStages(const ReadPlan& plan,
                                      std::string_view format,
                                      Findings& findings) {
  ReadPlan out = plan;
  out.stages.reset();
  std::vector<std::string> names;
  for (ReadParam& param : out.params) {
    if (!TakeStagesAway(*plan.stages, param)) names.push_back(param.name);
  }
  if (names.empty()) return out;
  const auto more = static_cast<int64_t>(names.size()) - 1;
  Finding& finding = findings.Add(
      code::kInexpressible, {},
      "`" + std::string(format) + "` cannot express the stages of " +
          ShortQuote(names[0]) +
          (more > 0 ? " and " + Counted(more, "other parameter") : "") +
          ": on some ranks of `" + plan.stages->axis +
          "`, or with different numbers of layers",
      "`torch-pipeline` and the other formats of pipelines write the stages; "
      "`dtensor`, `megatron` and `vllm` the sharding within a stage");
  finding.params = std::move(names);
  return std::nullopt;
}

ReadPlan WithinStage(const ReadPlan& plan) {
  ReadPlan out = plan;
  out.mesh = StageMesh(plan.mesh, plan.stages->axis);
  if (const auto at = out.mesh.Find(plan.stages->axis)) {
    const auto number = static_cast<std::ptrdiff_t>(*at);
    out.mesh.axes.erase(out.mesh.axes.begin() + number);
    if (!out.mesh.dcn.empty()) {
      out.mesh.dcn.erase(out.mesh.dcn.begin() + number);
    }
  }
  out.stages.reset();
  for (ReadParam& param : out.params) param.stages = {};
  return out;
}

}  // namespace shardc::exports
