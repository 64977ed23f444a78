// Suggested rules with their proof: the text is compiled and linted before it
// is written, as `plan` and `check` will do.
#ifndef SHARDC_CLI_SUGGESTED_H_
#define SHARDC_CLI_SUGGESTED_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/option.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "suggest/suggest.h"

namespace shardc::cli {

struct SuggestedRules {
  suggest::Suggestion suggestion;
  suggest::Preferences preferences;          // the inputs of the suggestion
  std::string text;                          // YAML
  std::unique_ptr<const Compiled> compiled;  // null: did not compile
  // Errors and warnings that `check` reports for the rules, not for the mesh.
  std::vector<Finding> left;
  std::string misfit;  // why the mesh cannot hold the model; empty: it can

  bool Good() const { return left.empty() && misfit.empty(); }
};

// Returns whether the manifest has parameters, all with a shape; otherwise adds
// a finding.
bool HasShapes(const Manifest& manifest, Findings& findings);

// Suggests rules. `manifest` must have shapes. `name` is the file name that
// findings about the rules' text show. If the only layer stack could have its
// layers in several dimensions, judged by sizes and names, and there is a
// terminal, the user is prompted for the dimension.
SuggestedRules SuggestFor(const Manifest& manifest, const Mesh& mesh,
                          const std::optional<ModelConfig>& model,
                          const suggest::Preferences& preferences,
                          const Common& common, const std::string& name);

// Adds the remaining findings, which are the reason why the rules are not
// written. The manifest of the suggestion must still exist.
void Refuse(const SuggestedRules& rules, const Mesh& mesh,
            const std::optional<ModelConfig>& model, const Common& common,
            Findings& findings);

// Returns a line for each stack that names and sizes leave undecided, with what
// was assumed.
std::string UndecidedText(const SuggestedRules& rules);

Option ScanAxisOption(std::string* axis);

// Reads the value of `--scan-axis`. Returns nullopt after a finding.
std::optional<ScanAxis> ReadScanAxis(const std::string& text,
                                     Findings& findings);

// Returns the summary: what was chosen, and what is undecided.
std::string SuggestionText(const SuggestedRules& rules);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SUGGESTED_H_
