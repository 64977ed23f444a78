// `shardc diff`: what changed between two plans, between a plan and what the
// inputs give now, or between two modes of one plan.
#include <memory>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/plan_table.h"
#include "emit/plans/plan_diff.h"
#include "plan/diff.h"

namespace shardc::cli {
namespace {

struct DiffFlags {
  InputFlags inputs;
  std::string before, after, output;
  Strings between;
};

// What the inputs give now.
std::optional<PlanTable> ViewInputs(const DiffFlags& flags,
                                    const Common& common, Findings& findings) {
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return std::nullopt;
  const auto compiled = LoadAndCompile(flags.inputs, *target, common, findings);
  if (compiled == nullptr) return std::nullopt;
  return TableOf(*compiled, findings);
}

// With the plans that its names are views into.
struct Difference {
  PlanTable before;
  std::optional<PlanTable> after;
  PlanDiff diff;
};

std::unique_ptr<const Difference> Between(const DiffFlags& flags,
                                          Findings& findings) {
  const auto modes = ParseModes(flags.between, findings);
  if (!modes) return nullptr;
  if (modes->size() != 2 || !flags.after.empty()) {
    findings.Add(code::kUsage, {}, "--between compares two modes of one plan",
                 "write `shardc diff --between prefill,decode PLAN`");
    return nullptr;
  }
  auto table = ReadTable(flags.before, findings);
  if (!table) return nullptr;
  auto out = std::make_unique<Difference>();
  out->before = std::move(*table);
  out->diff = DiffModes(out->before, modes->front(), modes->back());
  return out;
}

std::unique_ptr<const Difference> DiffOf(const DiffFlags& flags,
                                         const Common& common,
                                         Findings& findings) {
  if (!flags.between.empty()) return Between(flags, findings);
  auto before = ReadTable(flags.before, findings);
  auto after = flags.after.empty() ? ViewInputs(flags, common, findings)
                                   : ReadTable(flags.after, findings);
  if (!before || !after) return nullptr;
  auto out = std::make_unique<Difference>();
  out->before = std::move(*before);
  out->after = std::move(*after);
  out->diff = DiffPlans(out->before, *out->after);
  return out;
}

int RunDiff(const DiffFlags& flags, const Common& common, Findings& findings) {
  const auto difference = DiffOf(flags, common, findings);
  if (difference == nullptr) return kFailed;
  const PlanDiff* diff = &difference->diff;
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteDiffJson(*diff, out);
    } else if (common.format == "markdown") {
      WriteDiffMarkdown(*diff, out);
    } else {
      WriteDiffText(*diff, out);
    }
  };
  if (!PutResult(write, flags.output, findings)) return kFailed;
  return diff->empty() ? kDone : kFound;
}

Options OptionsOf(DiffFlags& flags) {
  Options options = {{.name = "BEFORE",
                      .to = &flags.before,
                      .value = "FILE",
                      .help = "a plan",
                      .required = true},
                     {.name = "AFTER",
                      .to = &flags.after,
                      .value = "FILE",
                      .help = "another; without it what the inputs give now"}};
  Append(options, AllInputs(flags.inputs));
  Append(options, {{.name = "--between",
                    .to = &flags.between,
                    .value = "MODE,MODE",
                    .help = "compare two modes of one plan, such as "
                            "prefill,decode",
                    .several = Several::kCommas},
                   OutputOption(&flags.output)});
  return options;
}

}  // namespace

const Command kDiff = {
    .name = "diff",
    .summary = "what changed between two plans",
    .about = R"(
Compares two plans; a plan and what the inputs give now, where one is given; or
two modes of one plan (`--between`). Parameters that are alike but for digits in
their names and differ in the same way are one entry. For each it says the spec
before and after, what a device holds, and, on one mesh, the collective that
moves a parameter from the one to the other with the bytes that the busiest
device sends. Parameters that came or went or have another type, those that
another rule won, and attention's specs follow.

`--format markdown` is a table for a comment in a pull request, `json` is
shardc.diff/v1.

Exits with 1 when the plans differ.)",
    .example = "shardc diff old.plan.json new.plan.json",
    .formats = "text|json|markdown",
    .declare = [] { return Declare(OptionsOf, RunDiff); },
};

}  // namespace shardc::cli
