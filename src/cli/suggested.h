// Suggests rules and proves them. Before the text of the rules is written, it
// is compiled and linted in the same way as by `plan` and `check`.
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
#include "suggest/choose.h"
#include "suggest/mesh.h"
#include "suggest/suggest.h"

namespace shardc::cli {

struct SuggestedRules {
  suggest::Suggestion suggestion;
  // The preferences with which the rules were suggested.
  suggest::Preferences preferences;
  std::string text;                          // rules file, as YAML
  std::unique_ptr<const Compiled> compiled;  // null if the text has errors
  // Errors and warnings of `check` about the rules, without findings that no
  // rules could avoid.
  std::vector<Finding> left;
  // Why the model does not fit on the mesh; empty if it fits.
  std::string misfit;

  bool Good() const { return left.empty() && misfit.empty(); }
};

// Returns whether the manifest has parameters and all of them have a shape.
// Otherwise adds a finding.
bool HasShapes(const Manifest& manifest, Findings& findings);

// Suggests rules. `manifest` must have shapes. `name` is the file name in
// findings about the rules' text. In tensors that stack layers, one dimension
// counts the layers. If the model has one layer stack, and sizes and names do
// not determine this dimension, the user is prompted for it on a terminal.
SuggestedRules SuggestFor(const Manifest& manifest, const Mesh& mesh,
                          const std::optional<ModelConfig>& model,
                          const suggest::Preferences& preferences,
                          const Common& common, const std::string& name);

// Adds the reasons why the rules are not written: the findings `rules.left` and
// `rules.misfit`. The manifest for which the rules were suggested must still
// exist, because `rules.suggestion` has a pointer to it.
void Refuse(const SuggestedRules& rules, const Mesh& mesh,
            const std::optional<ModelConfig>& model, const Common& common,
            Findings& findings);

// Returns a line for each layer stack whose layer dimension is not determined
// by names and sizes. The line has the dimension that was assumed.
std::string UndecidedText(const SuggestedRules& rules);

Option ScanAxisOption(std::string* axis);

// Reads the value of `--scan-axis`. Returns nullopt after a finding.
std::optional<ScanAxis> ReadScanAxis(const std::string& text,
                                     Findings& findings);

// Returns the parameters of unknown role and their share of the model's bytes,
// and a line for each fact that is not known; empty if there is none.
std::string UnknownText(const SuggestedRules& rules);

// Returns a summary of the suggested rules: whether they are written, the
// number of rules, the bytes of the parameters on a device, whether the size of
// an attention head was assumed, and the lines of UnknownText() and
// UndecidedText().
std::string SuggestionText(const SuggestedRules& rules, bool written);

struct MeshFlags {
  std::string memory, batch, sequence = "8192", per_host = "8", profile;
};
Options MeshChoice(MeshFlags& flags);

// Returns the mesh in the form that `--mesh` accepts: `dp:2,tp:4`.
std::string MeshWords(const Mesh& mesh);

struct PickedMesh {
  Mesh mesh;  // empty if `refused` is true
  bool refused = false;
};
// Prints the best candidates and returns the best mesh. If the model fits on no
// mesh, or if the roles of parameters are unknown, so that the times of meshes
// are not known, adds a finding and sets `refused` (exit status 1). Returns
// nullopt after a finding about an invalid option (exit status 2).
std::optional<PickedMesh> PickMesh(const MeshFlags& flags,
                                   const std::string& devices,
                                   const Manifest& manifest,
                                   const std::optional<ModelConfig>& model,
                                   const suggest::Preferences& preferences,
                                   const Common& common, Findings& findings);

// Returns the text after `mesh:` in a project file, beginning with the space or
// the line break after the colon. The text is a string of axes and sizes. If
// the mesh has other properties, such as slices, it is a YAML mapping.
std::string MeshYaml(const Mesh& mesh);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SUGGESTED_H_
