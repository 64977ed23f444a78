// Compiles a target's inputs: match, resolve and legalize, in this order.
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

namespace shardc {

struct PlannedStages;

// Options of the command line, which win over files.
struct CompileOptions {
  std::vector<Mode> modes = {kAllModes.begin(), kAllModes.end()};
  Policy policy;    // wins over files' and rules' own
  int threads = 1;  // does not change the result
  WeightDecayExclusions weight_decay_exclude;  // wins over the rules files'
};

// Everything the pipeline found, owned by this value: the facts that plan,
// explain, check and diff read. It contains no messages.
struct Compiled {
  Mesh mesh;
  RuleSet rules;
  Manifest manifest;
  CompileOptions options;
  std::optional<Resolver> resolver;
  std::shared_ptr<const Matcher> matcher;  // shared by CompileOn
  Matches matches;                         // by tensor
  Plan plan;
  // The stages of a pipeline that the inputs declare; null without (divide.h).
  std::shared_ptr<const PlannedStages> stages;
  std::string stage_axis;  // as declared; empty: no stages are declared
  // Why declared stages are refused, if they are.
  std::vector<Finding> stage_findings;

  // The policy for a rule (-1: none) after command line and files.
  IllegalPolicy IllegalFor(int32_t rule) const;
  int64_t MinSizeFor(int32_t rule) const;
  UnmatchedPolicy Unmatched() const;
  Compat CompatMode() const;
  // Returns whether some parameter's spec in some mode, or the spec of an
  // attention tensor, is illegal.
  bool HasIllegal() const;
  bool HasUnmatched() const { return plan.summary.unmatched > 0; }
};

// Compiles a target. Findings report input that cannot be compiled: a bad
// regex, an unknown name, a missing `like` target, a cycle of `like`; then
// there is no result. Unmatched and illegal parameters are no findings but part
// of the result.
std::unique_ptr<Compiled> Compile(Mesh mesh, RuleSet rules, Manifest manifest,
                                  const CompileOptions& options,
                                  Findings& findings);

// Compiles for another mesh a target that was compiled before, whose names are
// not matched again. `rules` differ from the earlier ones in axis rules only.
// Findings and result are those of Compile; it is not divided into stages.
std::unique_ptr<const Compiled> CompileOn(const Compiled& earlier, Mesh mesh,
                                          RuleSet rules, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_COMPILE_H_
