// Lints about a model that the rules, its `model:` section or its config.json
// describe, and that is not the one in the manifest.
//
//   section with `head`, tree without  ->  SHD236
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "facts/parameters.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "lint/analysis/traced.h"
#include "lint/rules/all.h"
#include "model/axis_rules.h"
#include "roles/classify.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/validate.h"

namespace shardc {

// Reports that the names of a large share of the model do not show what its
// matrices do, so that other lints cannot judge how they are split. For
// example, if these names had the words `qkv` and `up`, lints would compare the
// spec of the first with the heads, and that of the second with its siblings:
//
//   blocks/*/zorp/kernel [1024, 3072]  blocks/*/blick/kernel [1024, 4096]
namespace {

// Of a smaller model, every device could hold all matrices.
constexpr int64_t kLeastBytes = int64_t{16} << 20;

// Returns whether tensor parallelism splits a matrix of the group whose name
// does not show its role.
bool IsSplitUnknown(const Facts& facts, const ParameterGroup& group) {
  const TensorType& type = facts.TypeOf(group);
  if (!type.shape || !facts.Judged(group)) return false;
  int64_t parts = 1;
  for (int dim = 0; dim < facts.Rank(group); ++dim) {
    parts *= facts.TensorParts(facts.AxesAt(group, dim));
  }
  if (parts <= 1) return false;
  const facts::Group& known = facts.Known(group);
  // What a word suggests is not enough for lints, unless they find the parts of
  // the matrix by its shape. Where a word joins the module and the leaf, as in
  // `gate_up_proj_blocks`, the word of the module is known.
  const bool suggested = known.evidence == facts::Evidence::kLikelyWord &&
                         (known.role().leaf != group.role.leaf ||
                          facts.blocks().Of(group) != nullptr ||
                          facts.blocks().MixerOf(group) != nullptr);
  return IsUnknownMatrix(group.name, facts.separator(),
                         suggested ? known.role() : group.role, *type.shape,
                         UnscannedDims(facts, facts.stacks(), group));
}

}  // namespace

void CheckUnknownRoles(const Facts& facts, FindingSink& sink) {
  // The section `model` of the rules names what each parameter does.
  const bool described = facts.compiled().rules.model != nullptr;
  if (described && facts.Step() != nullptr) return;
  int64_t params = 0;
  int64_t bytes = 0;
  const ParameterGroup* largest = nullptr;
  LintFinding finding = FindingAt(kUnknownRoles.code);
  for (const ParameterGroup& group : facts.groups()) {
    if (!IsSplitUnknown(facts, group)) continue;
    params += group.count();
    bytes = CheckedAdd(bytes, facts.TotalBytes(group)).value_or(INT64_MAX);
    facts.AddNames(facts.Members(group), finding);
    if (largest == nullptr ||
        facts.TotalBytes(group) > facts.TotalBytes(*largest)) {
      largest = &group;
    }
  }
  if (largest == nullptr || bytes < kLeastBytes ||
      static_cast<double>(bytes) <=
          kMostUnknownRoles * static_cast<double>(facts.total_bytes())) {
    return;
  }
  finding.place = facts.GroupPlace(*largest);
  finding.message =
      "tensor parallelism splits " + Counted(params, "matrix", "matrices") +
      " (" + PercentText(bytes, facts.total_bytes()) +
      ") of unknown role, such as " + GroupName(facts, *largest) +
      ": whether a split ends inside a head or a fused part, and whether "
      "projections agree, is not checked";
  finding.help =
      "describe the step in a `model:` section, whose lines name the "
      "parameters; or verify the heads and the parts of these matrices "
      "yourself and ignore this finding";
  sink.push_back(std::move(finding));
}

namespace {

// Returns the place of the configuration's file, or of the manifest if the
// configuration has no file.
Place ConfigPlace(const Facts& facts) {
  const SourceRef& source = facts.model()->source;
  return source == nullptr
             ? facts.RulePlace(-1)
             : Place{source, Place::kEntireFile, Place::kEntireFile};
}

}  // namespace

void CheckConfigMisfit(const Facts& facts, FindingSink& sink) {
  for (const Misfit& misfit : facts.misfits()) {
    LintFinding finding = FindingAt(kConfigMisfit.code, ConfigPlace(facts));
    finding.message = misfit.observation;
    if (misfit.heads) {
      finding.message += "; lints that count heads are skipped";
    }
    finding.help = "give the config.json that came with these parameters";
    if (misfit.group != nullptr) {
      facts.AddNames(facts.Members(*misfit.group), finding);
    }
    sink.push_back(std::move(finding));
  }
}

void CheckParameterWithoutRole(const Facts& facts, FindingSink& sink) {
  ReportRoleFault(facts, step::RoleFault::kNone, kParameterWithoutRole.code,
                  "give it a role under `params` of the `model:` section, or "
                  "name it under `skip`",
                  sink);
}

void CheckParameterWithTwoRoles(const Facts& facts, FindingSink& sink) {
  ReportRoleFault(facts, step::RoleFault::kTwo, kParameterWithTwoRoles.code,
                  "make the pattern of one of them narrower, with `^`, `$` or "
                  "more parts of the name",
                  sink);
}

void CheckShapeIsNotTheRoles(const Facts& facts, FindingSink& sink) {
  // If the configuration is that of another model, SHD223 reports that.
  if (!facts.misfits().empty()) return;
  ReportRoleFault(
      facts, step::RoleFault::kShape, kShapeIsNotTheRoles.code,
      "correct the role's dimensions under `params` of the `model:` "
      "section, or the configuration",
      sink);
  ReportTracedRoles(facts, kShapeIsNotTheRoles.code, sink);
}

// Reports roles of the `model:` section that are not used. A role that is not
// optional needs a parameter, and an op that reads the parameter. A role that
// belongs to layers needs a parameter in each layer.
void CheckRoleNeverUsed(const Facts& facts, FindingSink& sink) {
  const StepFacts* const step = facts.Step();
  if (step == nullptr) return;
  LintFinding finding = FindingAt(kRoleNeverUsed.code);
  // If a pack (rules inside the program) describes the role, the finding is a
  // note, because users may have changed the model.
  if (step->builtin()) finding.level = Level::kNote;
  std::vector<std::string> texts;
  for (const step::RoleProblem& problem : step->roles().problems) {
    if (problem.fault != step::RoleFault::kMissing &&
        problem.fault != step::RoleFault::kUnused) {
      continue;
    }
    const DescribedRole& role =
        step->description().roles[static_cast<size_t>(problem.role)];
    // An optional role may be unused. For an optional role, kMissing means that
    // only some experts have its parameter, which is reported.
    if (role.optional && problem.fault == step::RoleFault::kUnused) continue;
    texts.push_back(problem.message);
    if (texts.size() == 1) {
      finding.place = role.place;
    } else {
      finding.labels.push_back({role.place, "and here"});
    }
  }
  if (texts.empty()) return;
  finding.message =
      "the `model:` section does not fit this tree: " + ListText(texts);
  finding.help =
      "correct the role's pattern, write `?` after the name of a role that a "
      "model may lack, or remove the role";
  sink.push_back(std::move(finding));
}

namespace {

void Report(Mode mode, Place place, const std::string& message,
            FindingSink& sink) {
  LintFinding finding = FindingAt(kStepNotLowered.code, std::move(place));
  finding.message = "the step of the model in " + std::string(ModeName(mode)) +
                    " has no program: " + message;
  finding.help = "`shardc verify step --mode " + std::string(ModeName(mode)) +
                 "` prints why";
  sink.push_back(std::move(finding));
}

}  // namespace

void CheckStepNotLowered(const Facts& facts, FindingSink& sink) {
  const StepFacts* const step = facts.Step();
  if (step == nullptr) return;
  if (!step->refusals().empty()) {
    const StepRefusal& first = step->refusals().front();
    Report(first.mode, first.place, first.message, sink);
  }
  for (const Mode mode : {Mode::kTrain, Mode::kPrefill, Mode::kDecode}) {
    const ModeStep* const of = step->Find(mode);
    if (of == nullptr) continue;
    const auto faults =
        step::Validate(of->graph(), of->program(), of->step.sizes);
    if (faults.empty()) continue;
    const auto op = static_cast<size_t>(std::max(faults.front().op, 0));
    Report(mode, step->description().stacks[0].repeat.place,
           StepOpName(of->graph().ops[op]) + ": " + faults.front().message,
           sink);
  }
}

}  // namespace shardc
