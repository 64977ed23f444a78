// Compiles a target (a mesh, rules and a model's parameters) to a plan:
// resolves the specs of the rules for the mesh, matches names with rules, and
// legalizes the spec of each parameter by its shape.
#ifndef SHARDC_PLAN_COMPILE_H_
#define SHARDC_PLAN_COMPILE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "match/match.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "plan/plan.h"
#include "resolve/resolve.h"
#include "source/finding.h"

namespace shardc::step {
class ParameterUses;
}  // namespace shardc::step

namespace shardc {

struct PlannedStages;

// Options of the command line, which override the same settings in files.
struct CompileOptions {
  std::vector<Mode> modes = {kAllModes.begin(), kAllModes.end()};
  // Overrides the policies of rules files and the settings of rules.
  Policy policy;
  int threads = 1;  // The number of threads, which does not change the result.
  // If given, overrides the exclusions from weight decay in the rules files.
  WeightDecayExclusions weight_decay_exclude;
};

// The result of compiling a target, together with the compiled inputs. It
// cannot be copied, because the names in `plan` point into `manifest`.
struct Compiled {
  Compiled() = default;
  Compiled(Compiled&&) = default;
  Compiled& operator=(Compiled&&) = default;

  Mesh mesh;
  // The mesh with factors in place of axes that have sub-axes in the plan's
  // specs (RefinedMesh() in model/sub_axis.h). The program of a step runs on
  // this mesh. Without `kv_replicate` it is `mesh`.
  Mesh step_mesh;
  RuleSet rules;
  Manifest manifest;
  CompileOptions options;
  std::optional<Resolver> resolver;
  // The compiled patterns. A result of CompileOn() shares them with the earlier
  // result from which it was compiled.
  std::shared_ptr<const Matcher> matcher;
  // What the parameters do by the `model:` section of the rules. A result of
  // CompileOn() shares it with the earlier result.
  std::shared_ptr<step::ParameterUses> uses;
  Matches matches;  // The rules that match each tensor.
  Plan plan;
  // The stages of the pipeline that the inputs declare (divide.h). Null if they
  // declare no stages, or if the stages are refused.
  std::shared_ptr<const PlannedStages> stages;
  // The mesh axis of the declared stages; empty if no stages are declared.
  std::string stage_axis;
  // The reasons why declared stages are refused; empty if they are not refused.
  std::vector<Finding> stage_findings;

  // These functions return a setting as it applies to the parameters of a rule
  // (-1 if no rule applies), or, for Unmatched() and CompatMode(), to all
  // parameters. A setting of the command line overrides the rule's own setting,
  // and the rule's own setting overrides the files' policy.
  IllegalPolicy IllegalFor(int32_t rule) const;
  int64_t MinSizeFor(int32_t rule) const;
  UnmatchedPolicy Unmatched() const;
  Compat CompatMode() const;
  // Returns whether the spec of a parameter, or of a tensor of attention such
  // as the query, is illegal in one of the modes.
  bool HasIllegal() const;
  bool HasUnmatched() const { return plan.summary.unmatched > 0; }
};

// Compiles a target. Returns null after a finding if an input cannot be
// compiled, for example because of a bad regex, an unknown name, or a `like`
// whose target does not exist. Unmatched and illegal parameters are part of the
// result and not findings.
std::unique_ptr<Compiled> Compile(Mesh mesh, RuleSet rules, Manifest manifest,
                                  const CompileOptions& options,
                                  Findings& findings);

// Compiles a target for another mesh, and reuses the matches of names in
// `earlier`. `rules` may differ from the earlier rules only in axis rules,
// which map logical axes such as HEAD to mesh axes. Returns the same result and
// adds the same findings as Compile(). Neither function divides the model into
// stages (divide.h).
std::unique_ptr<const Compiled> CompileOn(const Compiled& earlier, Mesh mesh,
                                          RuleSet rules, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_COMPILE_H_
