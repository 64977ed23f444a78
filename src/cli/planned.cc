// Loads a plan for commands that accept either `--plan FILE` or the inputs of a
// plan. A compiled plan is written as JSON and read back in memory. For
// example:
//
//   show memory --plan p.json          ->  the table of the file
//   show memory --mesh tp:4 --rules..  ->  compiled, written and read in memory
//
// The text of a million parameters would take most of the command's memory. A
// command that does not compare plans therefore writes and reads only the first
// parameter of each class of equal parameters (ParamClasses).
#include "cli/planned.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "cli/plan_findings.h"
#include "cost/settings.h"
#include "emit/emit.h"
#include "legalize/legalize.h"
#include "lint/rules/all.h"
#include "plan/fingerprint.h"
#include "source/file.h"
#include "source/wording.h"
#include "target/open.h"

namespace shardc::cli {
namespace {

std::string ProblemText(const Edit& edit, const TensorType& type) {
  switch (edit.reason) {
    case Reason::kRepeatedAxis:
      return "uses axis " + Quote(edit.axis) + " twice";
    case Reason::kTooLong:
      return "has more entries than the shape " + ShapeText(*type.shape) +
             " has dimensions";
    case Reason::kMissingAxis:
      return "uses axis " + Quote(edit.axis) + ", which the mesh lacks";
    default:
      return "does not divide the shape " + ShapeText(*type.shape);
  }
}

std::unique_ptr<const Planned> ReadPlanned(const std::string& file,
                                           EditedPlan edited,
                                           const std::string& model,
                                           const std::string& families,
                                           Findings& findings) {
  auto out = std::make_unique<Planned>();
  auto table = ReadTable(file, edited, findings);
  if (!table) return nullptr;
  out->table = std::move(*table);
  out->view = AllParams(out->table);
  if (!model.empty()) {
    out->model = OpenModel(model, families, *out->view, findings);
    if (!out->model) return nullptr;
  }
  return out;
}

// Classes of parameters whose entries in the plan's text differ only in the
// name. The parameters of a class have the same rule, type, specs and weight
// decay, and the same devices hold them.
struct ParamClasses {
  std::vector<uint32_t> first;     // first parameter, indexed by class
  std::vector<uint32_t> class_of;  // class, indexed by parameter
};

ParamClasses ClassesOf(const Plan& plan) {
  ParamClasses out;
  std::map<std::tuple<uint32_t, int64_t, bool, uint32_t>, uint32_t> known;
  constexpr int64_t kNowhere = -1;
  out.class_of.reserve(plan.params.size());
  auto last = known.end();
  for (uint32_t i = 0; i < plan.params.size(); ++i) {
    const PlannedParam& param = plan.params[i];
    const std::tuple key(
        param.layout, plan.CoordinateOf(param).value_or(kNowhere),
        plan.WeightDecayOf(i), plan.stages ? plan.stage_set[i] : 0U);
    if (last == known.end() || last->first != key) {
      const auto next = static_cast<uint32_t>(out.first.size());
      bool fresh = false;
      std::tie(last, fresh) = known.try_emplace(key, next);
      if (fresh) out.first.push_back(i);
    }
    out.class_of.push_back(last->second);
  }
  return out;
}

// Returns the plan with only the first parameter of each class. The names of
// these parameters are stored in `names`, which must outlive the result.
Plan FirstOfEach(const Plan& plan, const ParamClasses& classes,
                 std::vector<std::string_view>& names) {
  Plan out;
  out.mesh = plan.mesh;
  out.modes = plan.modes;
  out.rules = plan.rules;
  out.types = plan.types;
  out.plain_names = plan.plain_names;
  for (const uint32_t first : classes.first) {
    names.push_back(plan.names[first]);
    out.params.push_back(plan.params[first]);
    if (!plan.weight_decay.empty()) {
      out.weight_decay.push_back(plan.weight_decay[first]);
    }
    if (plan.stages) out.stage_set.push_back(plan.stage_set[first]);
  }
  out.names = names;
  out.coordinates = plan.coordinates;
  out.stages = plan.stages;
  out.stage_sets = plan.stage_sets;
  out.layouts = plan.layouts;
  out.placement_axes = plan.placement_axes;
  out.attention = plan.attention;
  out.activations = plan.activations;
  out.has_weight_decay = plan.has_weight_decay;
  out.summary = plan.summary;
  return out;
}

std::optional<PlanTable> TableOfPlan(const Plan& plan, Findings& findings) {
  std::string text = TextOf([&](Sink& out) { WritePlanJson(plan, {}, out); });
  return ReadPlanTable(
      MakeSource("the plan compiled from the inputs", std::move(text)),
      EditedPlan::kAllowed, findings);
}

// Returns the table of a compiled plan. Only the first parameter of each class
// is written as text and read back.
std::optional<PlanTable> ShortTableOf(const Compiled& compiled,
                                      Findings& findings) {
  const Plan& plan = compiled.plan;
  const ParamClasses classes = ClassesOf(plan);
  std::vector<std::string_view> names;
  auto table = TableOfPlan(FirstOfEach(plan, classes, names), findings);
  if (!table) return std::nullopt;
  table->classes.mesh = compiled.mesh;
  table->classes.fingerprint = Fingerprint(plan);
  table->classes.kv = plan.kv;
  table->names.reserve(plan.names.size());
  table->names.assign(plan.names.begin(), plan.names.end());
  // Two classes of the plan (`classes`) may have the same text. The table then
  // has one class for both. The class of each parameter in the plan is
  // therefore replaced by its class in the table.
  std::vector<uint32_t> class_of;
  class_of.reserve(classes.class_of.size());
  for (const uint32_t own : classes.class_of) {
    class_of.push_back(table->class_of[own]);
  }
  table->class_of = std::move(class_of);
  return table;
}

}  // namespace

bool HasIllegalSpec(const ReadPlan& plan, Findings& findings) {
  for (const ReadParam& param : plan.params) {
    // The last spec that was found legal. Most modes of a parameter have the
    // same Spec object, which is then checked only once.
    const Spec* legal_spec = nullptr;
    for (const Mode mode : plan.modes) {
      const Spec& spec = param.SpecOf(mode);
      if (&spec == legal_spec) continue;
      const Legal legal =
          LegalizeStored(spec, param.type, plan.mesh,
                         {.illegal = param.Illegal(), .parts = param.parts});
      if (legal.problems.empty()) {
        legal_spec = &spec;
        continue;
      }
      const Edit& edit = legal.problems.front();
      findings.Add(CodeOf(edit.reason), param.place,
                   "the spec " + SpecText(spec) + " of " +
                       ShortQuote(param.name) + " in " +
                       std::string(ModeName(mode)) + " " +
                       ProblemText(edit, param.type),
                   "change the rules, and write the plan again without "
                   "`--keep-going`");
      return true;
    }
  }
  return false;
}

bool HasDividedParts(const ReadPlan& plan, Mode mode, Findings& findings) {
  for (const ReadParam& param : plan.params) {
    const DimParts parts = ShardedParts(param.parts, param.SpecOf(mode));
    if (parts.empty()) continue;
    findings.Add(
        code::kInexpressible, param.place,
        "the plan divides each of several parts of a dimension of " +
            ShortQuote(param.name) + " (`parts` " + DimPartsText(parts) +
            "), and a program shards an array in one range for each "
            "device, so that the two cannot be compared",
        "compare the program with a plan of parameters that are stored "
        "separately, or with the mesh alone (`--mesh`)");
    return true;
  }
  return false;
}

Findings HeadFindings(const Compiled& compiled, const cost::CostInputs& work) {
  Findings out;
  for (const cost::UnevenHeads& one : cost::UnevenHeadsOf(work)) {
    const auto rule = one.kv ? AxisRule::kKvHead : AxisRule::kHead;
    Place place = compiled.rules.axes_places[static_cast<size_t>(rule)];
    if (place.source == nullptr) place = {work.model->source};
    // If the axes do not divide the number of KV heads, `check` reports a
    // warning, but `cost` refuses the plan. The level is set to error before
    // the finding is added, so that it is counted as an error.
    Finding finding;
    finding.code = one.kv ? &kKvHeadsIndivisible.code : &kHeadsIndivisible.code;
    finding.level = Level::kError;
    finding.place = place;
    finding.message = UnevenText(one) + " that attention shards over it";
    finding.help = "give `" + std::string(AxisRuleName(rule)) +
                   "` an axis whose size divides the heads, or [] for none; "
                   "`--illegal drop` leaves these heads unsharded";
    out.Add(std::move(finding));
  }
  return out;
}

void PrintUnevenHeads(const Compiled& compiled,
                      const std::optional<ModelConfig>& model,
                      std::span<const Mode> modes, const Common& common) {
  std::set<std::string> printed;
  for (const Mode mode : modes) {
    const Findings uneven =
        HeadFindings(compiled, cost::MakeCostInputs(compiled, model, mode));
    for (const Finding& one : uneven.all()) {
      if (!printed.insert(one.message).second) continue;
      PrintMessage(common,
                   "note: " + one.message +
                       ": the step leaves out what does not divide, "
                       "but `cost` and `search --all` refuse it without "
                       "`--illegal drop`\n");
    }
  }
}

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
  auto table = TableOfPlan(compiled.plan, findings);
  if (table) table->classes.mesh = compiled.mesh;
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
  if (!file.empty()) {
    return ReadPlanned(file, edited, target.model, target.families, findings);
  }
  if (!IsNamed(target.mesh) && target.rules.empty() &&
      target.manifest.empty() && target.model.empty()) {
    findings.Add(code::kUsage, {}, "neither a plan nor its inputs are given",
                 "write `--plan FILE`, or `--mesh dp:2,tp:4 --rules auto "
                 "--model config.json`, or a target in a `shardc.yaml` in this "
                 "folder or above");
    return nullptr;
  }
  auto out = std::make_unique<Planned>();
  out->compiled = LoadAndCompile(flags, target, common, findings, &out->model);
  if (out->compiled == nullptr) return nullptr;
  Findings wrong = PlanFindings(*out->compiled);
  wrong.Append(StageFindings(*out->compiled));
  found = wrong.HasErrors();
  findings.Append(std::move(wrong));
  if (found) return nullptr;
  auto table = ShortTableOf(*out->compiled, findings);
  if (!table) return nullptr;
  out->table = std::move(*table);
  return out;
}

}  // namespace shardc::cli
