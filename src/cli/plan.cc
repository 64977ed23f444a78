// `shardc plan`: mesh + rules + manifest to a plan.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "emit/emit.h"

namespace shardc::cli {
namespace {

struct PlanFlags {
  InputFlags inputs;
  std::string output;
  bool keep_going = false;
  bool write_locked = false;
  std::vector<std::string> weight_decay_exclude;
};

// Where the plan goes: -o, the target's committed plan, or stdout.
std::optional<std::string> OutputPath(const PlanFlags& flags,
                                      const Target& target,
                                      Findings& findings) {
  if (!flags.write_locked) return flags.output;
  if (!flags.output.empty()) {
    findings.Add(code::kUsage, {},
                 "`--output` and `--write-locked` both say where the plan goes",
                 "give one of them");
    return std::nullopt;
  }
  if (target.plan.empty()) {
    findings.Add(
        code::kUsage, target.place, "the target has no `plan` to write",
        "give it one: `plan: plans/" +
            (target.name.empty() ? "name" : target.name) + ".plan.json`");
    return std::nullopt;
  }
  return target.plan;
}

int RunPlan(const PlanFlags& flags, const Common& common, Findings& findings) {
  const auto target = ChooseTarget(flags.inputs, findings);
  if (!target) return kFailed;
  const auto path = OutputPath(flags, *target, findings);
  auto loaded = LoadTarget(flags.inputs, *target, common, findings);
  if (!loaded || !path) return kFailed;
  loaded->options.weight_decay_exclude = flags.weight_decay_exclude;
  const auto compiled =
      Compile(std::move(loaded->mesh), std::move(loaded->rules),
              std::move(loaded->manifest), loaded->options, findings);
  if (compiled == nullptr) return kFailed;

  Findings found = PlanFindings(*compiled);
  const bool refused = found.HasErrors();
  Tell(common, PlanSummaryText(compiled->plan, compiled->rules.rules));
  int status = refused ? kFound : kDone;
  if (!refused || flags.keep_going) {
    const std::string json =
        PlanJson(compiled->plan, refused ? found.all() : std::span<Finding>{});
    if (!PutResult(json, *path, findings)) status = kFailed;
  }
  findings.Append(std::move(found));
  return status;
}

}  // namespace

Run DeclarePlan(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  AddInputFlags(app, flags->inputs);
  app.add_option("-o,--output", flags->output,
                 "where the plan goes (default: stdout)")
      ->type_name("FILE");
  app.add_flag("--keep-going", flags->keep_going,
               "write the plan with its diagnostics even when parameters are "
               "unmatched or illegal");
  app.add_flag("--write-locked", flags->write_locked,
               "write the target's committed plan");
  app.add_option("--weight-decay-exclude", flags->weight_decay_exclude,
                 "patterns of parameters that take no weight decay: adds a "
                 "boolean to each parameter of the plan")
      ->type_name("REGEX");
  return [flags](const Common& common, Findings& findings) {
    return RunPlan(*flags, common, findings);
  };
}

}  // namespace shardc::cli
