// Conducts parse -> match -> resolve -> legalize -> plan. The only file of
// this room that knows those rooms' machinery.
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

// What the command line says over the files.
struct CompileOptions {
  std::vector<Mode> modes = {kAllModes.begin(), kAllModes.end()};
  Policy policy;    // wins over files' and rules' own
  int threads = 1;  // never changes the result
  WeightDecayExclusions weight_decay_exclude;  // over the rules files'
};

// Everything the pipeline found, owned: the facts that plan, explain, check
// and diff read. Nothing here is words.
struct Compiled {
  Mesh mesh;
  RuleSet rules;
  Manifest manifest;
  CompileOptions options;
  std::optional<Resolver> resolver;
  std::optional<Matcher> matcher;
  Matches matches;  // by tensor
  Plan plan;

  // The policy in force for a rule (-1: none), after command line and files.
  IllegalPolicy IllegalFor(int32_t rule) const;
  int64_t MinSizeFor(int32_t rule) const;
  UnmatchedPolicy Unmatched() const;
  Compat CompatMode() const;
  // A parameter's spec in some mode, or one of attention's tensors.
  bool HasIllegal() const;
  bool HasUnmatched() const { return plan.summary.unmatched > 0; }
};

// Findings are about input that cannot be compiled (bad regex, unknown name,
// missing `like` target, circle). Unmatched and illegal parameters are facts
// of the result, not findings. Nothing when there are errors.
std::unique_ptr<const Compiled> Compile(Mesh mesh, RuleSet rules,
                                        Manifest manifest,
                                        const CompileOptions& options,
                                        Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_COMPILE_H_
