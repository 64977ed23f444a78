// Loads a plan for commands that accept either `--plan FILE` or inputs.
// ReadPlanTable checks a file for edits. The file is then read again for the
// members that the table lacks, without another check:
//
//   show mesh --plan p.json          ->  the table of the file
//   show mesh --mesh tp:4 --rules..  ->  compiled, written and read in memory
#include "cli/plan_table.h"

#include <utility>

#include "cli/plan_findings.h"
#include "emit/emit.h"
#include "parse/project.h"
#include "source/file.h"
#include "source/json.h"

namespace shardc::cli {
namespace {

std::unique_ptr<const Planned> ReadPlanned(const std::string& file,
                                           EditedPlan edited,
                                           const std::string& model,
                                           Findings& findings) {
  auto out = std::make_unique<Planned>();
  const SourceRef source = ReadSource(file, findings);
  auto table = source == nullptr ? std::nullopt
                                 : ReadPlanTable(source, edited, findings);
  if (!table) return nullptr;
  out->table = std::move(*table);
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return nullptr;
  // ReadPlanTable has already checked the file for edits.
  out->view = ViewPlan(*document, EditedPlan::kAllowed, findings);
  if (!model.empty()) out->model = ReadModelConfig(model, findings);
  if (!out->view || (!model.empty() && !out->model)) return nullptr;
  return out;
}

}  // namespace

Option AllowEditedOption(bool* to) {
  return {.name = "--allow-edited",
          .to = to,
          .help = "read a plan that was changed since it was written"};
}

EditedPlan EditedPlanOf(bool allow_edited) {
  return allow_edited ? EditedPlan::kAllowed : EditedPlan::kRefused;
}

std::optional<PlanTable> ReadTable(const std::string& path, EditedPlan edited,
                                   Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  return ReadPlanTable(source, edited, findings);
}

std::optional<PlanTable> TableOf(const Compiled& compiled, Findings& findings) {
  std::string text =
      TextOf([&](Sink& out) { WritePlanJson(compiled.plan, {}, out); });
  auto table = ReadPlanTable(
      MakeSource("the plan compiled from the inputs", std::move(text)),
      EditedPlan::kAllowed, findings);
  if (table) table->classes.plan.mesh = compiled.mesh;
  return table;
}

cost::CostInputs Planned::WorkIn(Mode mode) const {
  return compiled != nullptr ? cost::MakeCostInputs(*compiled, model, mode)
                             : cost::MakeCostInputs(*view, model, mode);
}

std::unique_ptr<const Planned> LoadPlanned(const InputFlags& flags,
                                           const std::string& file,
                                           EditedPlan edited,
                                           const Target& target,
                                           const Common& common, bool& found,
                                           Findings& findings) {
  if (!file.empty()) return ReadPlanned(file, edited, target.model, findings);
  auto out = std::make_unique<Planned>();
  out->compiled = LoadAndCompile(flags, target, common, findings, &out->model);
  if (out->compiled == nullptr) return nullptr;
  Findings wrong = PlanFindings(*out->compiled);
  found = wrong.HasErrors();
  findings.Append(std::move(wrong));
  if (found) return nullptr;
  auto table = TableOf(*out->compiled, findings);
  if (!table) return nullptr;
  out->table = std::move(*table);
  return out;
}

}  // namespace shardc::cli
