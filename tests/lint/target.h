// Compiles a small target from literal text, by the same steps as the program.
#ifndef SHARDC_TESTS_LINT_TARGET_H_
#define SHARDC_TESTS_LINT_TARGET_H_

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/example.h"
#include "lint/rules/lint.h"
#include "lint/run.h"
#include "model/project.h"
#include "plan/compile.h"

namespace shardc {

struct TestTarget {
  std::unique_ptr<const Compiled> compiled;
  std::optional<ModelConfig> model;
  LintInputs inputs;
  std::string errors;  // findings of reading, if any
};

// Returns the examples of a lint, given its name ("dead-rule").
const LintExamples& ExamplesOf(std::string_view lint);

// Returns `good`, with its empty members copied from `bad`.
LintExample Filled(const LintExample& bad, const LintExample& good);

TestTarget Build(const LintExample& example);

// Runs all lints, including those in preview, and compares the committed plan.
LintResult LintExampleText(const LintExample& example, std::string* errors);
// Return the findings of an example, or their codes. The example must be
// readable.
std::vector<Finding> FindingsOf(const LintExample& example);
std::multiset<std::string> CodesOf(const LintExample& example);

}  // namespace shardc

#endif  // SHARDC_TESTS_LINT_TARGET_H_
