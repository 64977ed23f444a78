// `shardc plan`: mesh + rules + manifest to a plan. An illegal spec or a
// parameter without a rule: exit 1, and no plan but with --keep-going.
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
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return kFailed;
  const auto path = OutputPath(flags, *target, findings);
  auto loaded = LoadTarget(flags.inputs, *target, common, findings);
  if (!loaded || !path) return kFailed;
  if (!flags.weight_decay_exclude.empty()) {
    auto& patterns = loaded->options.weight_decay_exclude.emplace();
    for (const std::string& text : flags.weight_decay_exclude) {
      patterns.push_back(
          {text, {MakeSource("--weight-decay-exclude", text), 0, text.size()}});
    }
  }
  const auto compiled =
      Compile(std::move(loaded->mesh), std::move(loaded->rules),
              std::move(loaded->manifest), loaded->options, findings);
  if (compiled == nullptr) return kFailed;

  Findings found = PlanFindings(*compiled);
  const bool refused = found.HasErrors();
  Tell(common, PlanSummaryText(*compiled));
  int status = refused ? kFound : kDone;
  if (!refused || flags.keep_going) {
    const auto write = [&](Sink& out) {
      WritePlanJson(compiled->plan,
                    refused ? found.all() : std::span<Finding>{}, out);
    };
    if (!PutResult(write, *path, findings)) status = kFailed;
  }
  findings.Append(std::move(found));
  return status;
}

Options OptionsOf(PlanFlags& flags) {
  Options options = AllInputs(flags.inputs);
  Append(
      options,
      {{.name = "--output",
        .to = &flags.output,
        .value = "FILE",
        .help = "where the plan goes (default: stdout)",
        .letter = 'o'},
       {.name = "--keep-going",
        .to = &flags.keep_going,
        .help = "write the plan with its diagnostics even when parameters are "
                "unmatched or illegal"},
       {.name = "--write-locked",
        .to = &flags.write_locked,
        .help = "write the target's committed plan"},
       {.name = "--weight-decay-exclude",
        .to = &flags.weight_decay_exclude,
        .value = "REGEX",
        .help = "patterns of parameters that take no weight decay: adds a "
                "boolean to each parameter of the plan",
        .several = Several::kWords}});
  return options;
}

}  // namespace

const Command kPlan = {
    .name = "plan",
    .summary = "compile mesh, rules and manifest to a plan",
    .about = R"(
Compiles a plan and writes it as JSON, with a summary for people on standard
error: totals, the largest replicated parameters, hits by rule, corrections
and what no rule matches. Where a parameter is unmatched or a spec is illegal
nothing is written, unless `--keep-going` asks for it.)",
    .example =
        "shardc plan --mesh dp:2,fsdp:8,tp:4 --rules builtin:llama "
        "--manifest model.safetensors.index.json -o plan.json",
    .declare = [] { return Declare(OptionsOf, RunPlan); },
};

}  // namespace shardc::cli
