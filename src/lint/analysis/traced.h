// Compares a traced program with what the configuration and the `model:`
// section state about the model. A program is the better evidence.
#ifndef SHARDC_LINT_ANALYSIS_TRACED_H_
#define SHARDC_LINT_ANALYSIS_TRACED_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/topic.h"
#include "plan/plan.h"
#include "program/facts.h"
#include "source/finding.h"

namespace shardc {

// Returns what the facts show about each parameter of the plan. Null for a
// parameter that the facts lack, or have in another shape.
std::vector<const program::ParamFacts*> ParamsOfPlan(
    const program::Facts& facts, const Plan& plan);

// The sizes that a program shows, each with the parameter and the line that
// show it first: "`elk` at model.py:12".
struct TracedSizes {
  using Sizes = std::map<int64_t, std::string>;
  // `heads` are query heads. Of KV heads without a group of query heads it is
  // not known whether other parameters have the same number of heads.
  Sizes heads, kv_heads, head_dims, experts, vocabularies;
};
// Returns no sizes without a traced program.
TracedSizes TracedSizesOf(const Facts& facts);

// Adds the sizes of the configuration that the program contradicts.
void AddTracedMisfits(const Facts& facts, const TracedSizes& traced,
                      std::vector<Misfit>& out);

// Reports parameters whose role in the `model:` section has another division of
// a dimension than the program: `n h` with 16 heads of 256 where the program
// has 32 heads of 128.
void ReportTracedRoles(const Facts& facts, const Code& code, FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_TRACED_H_
