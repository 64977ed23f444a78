// Checks that the plan shards the heads of attention in the same way as the
// attention cases of `shardc verify`. The plan shards heads by the specs of the
// attention projections: the parameters of query, key, value and output.
// Projections that cannot be compared are listed with the reason. For example:
//
//   not compared with the axis rules: `h/*/attn/c_attn/kernel`, since it holds
//   query, key and value in one tensor; `shardc verify step` runs them
#include "cli/verify_projections.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/projections.h"
#include "model/sub_axis.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr std::string_view kStepRuns = "`shardc verify step` runs them";

std::string_view RoleText(Role role) {
  switch (role) {
    case Role::kQuery:
      return "query";
    case Role::kKey:
      return "key";
    case Role::kValue:
      return "value";
    case Role::kOutput:
      return "output";
    default:
      return {};
  }
}

verify::Status StatusOf(ProjectionStatus status) {
  return status == ProjectionStatus::kAgrees    ? verify::Status::kPass
         : status == ProjectionStatus::kDiffers ? verify::Status::kFail
                                                : verify::Status::kUnsupported;
}

AxisGroup HeadsOf(const Spec& spec) {
  constexpr size_t kHeads = 2;  // index in [batch, length, heads, head size]
  return spec.size() > kHeads ? spec[kHeads] : AxisGroup{};
}

std::vector<HeadAxes> AxesByMode(const VerifyWork& work) {
  std::vector<HeadAxes> out;
  for (const Mode mode : work.request.modes) {
    verify::Case test;
    test.mode = mode;
    test.mesh = work.compiled->step_mesh;
    test.sizes = verify::SizesOfMode(work.request.sizes, mode);
    const auto specs = verify::ResolveSpecs(*work.compiled->resolver, test,
                                            work.request.illegal);
    out.push_back({mode, JoinedGroup(HeadsOf(specs.query)),
                   JoinedGroup(HeadsOf(specs.key))});
  }
  return out;
}

// Some projections cannot be compared with the axis rules, by which the cases
// shard heads. Adds a remark for each reason, which lists the parameters that
// could not be compared for this reason.
void AddRemarks(verify::Report& report) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const verify::Projection& one : report.projections) {
    if (one.status != verify::Status::kUnsupported) continue;
    const auto at = std::find_if(
        reasons.begin(), reasons.end(),
        [&](const auto& other) { return other.first == one.reason; });
    auto& names =
        at != reasons.end()
            ? at->second
            : reasons.emplace_back(one.reason, std::vector<std::string>{})
                  .second;
    names.push_back("`" + one.parameter + "`");
  }
  for (const auto& [reason, names] : reasons) {
    report.remarks.push_back(
        "not compared with the axis rules: " + ListText(names, names.size()) +
        ", since " + reason + "; " + std::string(kStepRuns));
  }
}

}  // namespace

void AddProjections(const VerifyWork& work, verify::Report& report) {
  if (!work.has_rules) return;
  if (work.compiled == nullptr) {
    report.remarks.push_back(
        "attention runs the axis rules; without --manifest the specs of the "
        "projections' weights are not compared with them");
    return;
  }
  LintInputs inputs;
  inputs.compiled = work.compiled.get();
  if (work.model) inputs.model = &*work.model;
  const Facts facts(inputs);
  const verify::Sizes& sizes = work.request.sizes;
  const bool latent = sizes.latent_rank > 0 && sizes.latent_value_dim > 0;
  const auto compared = CompareProjections(
      facts,
      {.heads = sizes.heads,
       .kv_heads = sizes.key_heads,
       .head_dim = sizes.head_dim},
      latent ? sizes.latent_value_dim : sizes.ValueDim(), AxesByMode(work));
  for (const ComparedProjection& one : compared) {
    report.projections.push_back(
        {.parameter = GroupName(facts, *one.group),
         .count = one.group->count(),
         .role = std::string(RoleText(one.group->role.role)),
         .place = one.group->rule < 0 ? "" : RuleText(facts, one.group->rule),
         .status = StatusOf(one.status),
         .modes = one.modes,
         .reason = one.reason,
         .help = one.help});
  }
  if (report.projections.empty()) {
    report.remarks.push_back(
        "no parameter of the manifest has a name of a query, key, value or "
        "output projection, so that none was compared with the axis rules; " +
        std::string(kStepRuns));
  }
  AddRemarks(report);
}

}  // namespace shardc::cli
