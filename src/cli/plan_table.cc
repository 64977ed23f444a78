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
                                           const std::string& model,
                                           Findings& findings) {
  auto out = std::make_unique<Planned>();
  const SourceRef source = ReadSource(file, findings);
  auto table =
      source == nullptr ? std::nullopt : ReadPlanTable(source, findings);
  if (!table) return nullptr;
  out->table = std::move(*table);
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return nullptr;
  out->view = ViewPlan(*document, findings);
  if (!model.empty()) out->model = ReadModelConfig(model, findings);
  if (!out->view || (!model.empty() && !out->model)) return nullptr;
  return out;
}

}  // namespace

std::optional<PlanTable> ReadTable(const std::string& path,
                                   Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  return ReadPlanTable(source, findings);
}

std::optional<PlanTable> TableOf(const Compiled& compiled, Findings& findings) {
  std::string text =
      TextOf([&](Sink& out) { WritePlanJson(compiled.plan, {}, out); });
  auto table = ReadPlanTable(
      MakeSource("the plan compiled from the inputs", std::move(text)),
      findings);
  if (table) table->classes.plan.mesh = compiled.mesh;
  return table;
}

cost::CostInputs Planned::WorkIn(Mode mode) const {
  return compiled != nullptr ? cost::MakeCostInputs(*compiled, model, mode)
                             : cost::MakeCostInputs(*view, model, mode);
}

std::unique_ptr<const Planned> LoadPlanned(const InputFlags& flags,
                                           const std::string& file,
                                           const Target& target,
                                           const Common& common, bool& found,
                                           Findings& findings) {
  if (!file.empty()) return ReadPlanned(file, target.model, findings);
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
