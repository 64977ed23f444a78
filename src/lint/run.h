// Directory: lint. Runs the lints and selects, suppresses and fixes their
// findings.
// Its files include headers of these directories: source, model, yaml, match,
// plan/difference, lint/analysis, lint/rules.
//
// This file runs the selected lints whose inputs are given.
#ifndef SHARDC_LINT_RUN_H_
#define SHARDC_LINT_RUN_H_

#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/topic.h"
#include "lint/select.h"

namespace shardc {

struct SkippedLint {
  const Lint* lint = nullptr;
  std::string missing;  // in words: "a model's config.json, a batch"
};

struct LintResult {
  std::vector<Finding> findings;  // in no particular order
  std::vector<SkippedLint> skipped;
  int64_t ignored = 0;  // number of findings that ignore comments removed
};

// Runs the selected lints. `extra` are findings of other parts of the program,
// such as findings about the committed plan. Ignore comments and changed levels
// apply to them as well.
LintResult RunLints(const Facts& facts, const Selection& selection,
                    FindingSink extra = {});

}  // namespace shardc

#endif  // SHARDC_LINT_RUN_H_
