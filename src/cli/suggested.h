// Suggested rules and their proof: what is written is compiled and linted
// first, as `plan` and `check` will do it.
#ifndef SHARDC_CLI_SUGGESTED_H_
#define SHARDC_CLI_SUGGESTED_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "suggest/suggest.h"

namespace shardc::cli {

struct SuggestedRules {
  suggest::Suggestion suggestion;
  std::string text;                          // YAML
  std::unique_ptr<const Compiled> compiled;  // null: it does not compile
  // Errors and warnings that `check` has of the rules, not of the mesh.
  std::vector<Finding> left;
  std::string misfit;  // why the mesh is none for this model; empty: it is

  bool Good() const { return left.empty() && misfit.empty(); }
};

// Whether there is anything to go by; a finding says why not.
bool HasShapes(const Manifest& manifest, Findings& findings);

// `manifest` has shapes. `name` is what places in the text are called by.
SuggestedRules SuggestFor(const Manifest& manifest, const Mesh& mesh,
                          const std::optional<ModelConfig>& model,
                          const suggest::Wishes& wishes, const Common& common,
                          const std::string& name);

// Why rules are not written: what is left, as findings.
void Refuse(const SuggestedRules& rules, const Mesh& mesh,
            const std::optional<ModelConfig>& model, Findings& findings);

// For people: what was chosen, and what is left to be done.
std::string SuggestionText(const SuggestedRules& rules);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SUGGESTED_H_
