// Checks whether a system can run a plan: the plan's sizes become keys of the
// system, as `shardc export` writes them, and the system's file states what
// follows from these keys. For example, vLLM has no key for weights that are
// sharded over data parallel ranks, so that a plan with an fsdp axis is
// refused.
#include "cli/runtime_verdict.h"

#include "cli/config_flags.h"
#include "cli/plan_findings.h"
#include "cli/planned.h"
#include "emit/exports/system_keys.h"
#include "parse/config_name.h"
#include "plan/plan_table.h"
#include "source/config_codes.h"
#include "source/wording.h"
#include "systems/plan_keys.h"
#include "systems/system.h"
#include "target/open.h"

namespace shardc::cli {

std::vector<std::string> RuntimesOf(const Target& target,
                                    const std::vector<std::string>& flags) {
  if (!flags.empty()) return flags;
  std::vector<std::string> out;
  for (const StepOption& one : target.step_options) {
    if (one.name == kRuntimeOption) out.push_back(one.value);
  }
  return out;
}

std::vector<Finding> RuntimeVerdict(const std::string& name,
                                    const Target& target,
                                    const Compiled& compiled,
                                    const std::optional<ModelConfig>& model,
                                    Findings& errors) {
  const systems::System* const system = systems::FindSystem(name);
  if (system == nullptr) {
    const Strings names = SystemNames();
    errors.Add(code::kReference, {}, "there is no system " + ShortQuote(name),
               DidYouMean(name, names,
                          "the systems are " + ListInWords(names, Quote)));
    return {};
  }
  const auto table = TableOf(compiled, errors);
  if (!table) return {};
  const auto facts =
      exports::FactsOfPlan(AllParams(*table), Mode::kTrain, model);
  Findings own;
  const auto keys = systems::KeysOfPlan(*system, facts, own);
  const Place place = MeshPlace(target.mesh);
  std::vector<Finding> out;
  for (Finding finding : own.all()) {
    finding.code = &code::kConfigRefused;
    finding.place = place;
    finding.message =
        system->title + " cannot run this plan: " + finding.message;
    out.push_back(std::move(finding));
  }
  if (!keys) return out;
  Findings compared;
  systems::CompareWithPlan(*system, facts, *keys, compiled.manifest,
                           target.model, place, compared);
  out.insert(out.end(), compared.all().begin(), compared.all().end());
  return out;
}

}  // namespace shardc::cli
