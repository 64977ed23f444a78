// Suggests a rules file for a model on a mesh.
#ifndef SHARDC_SUGGEST_SUGGEST_H_
#define SHARDC_SUGGEST_SUGGEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"
#include "model/not_known.h"
#include "model/project.h"
#include "model/rules.h"
#include "suggest/choose.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"
#include "suggest/patterns.h"

namespace shardc::suggest {

struct Request {
  const Manifest* manifest = nullptr;  // must outlive the suggestion
  const Mesh* mesh = nullptr;
  const ModelConfig* model = nullptr;  // the model's configuration; may be null
  Preferences preferences = {};
};

// Parameter groups with the same role, spec and placement. They become one or
// several rules: one for each pattern.
struct RuleGroup {
  std::vector<uint32_t> groups;
  const Choice* choice = nullptr;
  // The Title of the rules (an enum of write.cc), as a number. Rules are
  // written in the order of these numbers.
  int order = 0;
};

struct Suggestion {
  Tree tree;
  ModelDims dims;
  MeshAxes mesh;
  Choices choices;
  std::vector<RuleGroup> rule_groups;
  Patterns patterns;
  Imported file;
  int64_t bytes_per_device = 0;
  // The facts about the model that neither names nor sizes nor the
  // configuration show.
  std::vector<NotKnown> not_known;
  // Why the mesh does not suit the model; empty if it does.
  std::string misfit;
  // Indexed by the manifest's tensors: the index of the rule that matches the
  // tensor; -1 if no rule matches it.
  std::vector<int32_t> rule_of;

  // Returns the bytes that the devices of one replica hold together, divided by
  // the model's bytes; 1 if the model is fully sharded.
  double Ratio() const;
};

// The parameters that InferredDims::IsOfUnknownRole() reports.
struct UnknownRoles {
  int64_t params = 0;
  int64_t bytes = 0;
  double share = 0;                // of the model's bytes
  std::vector<std::string> names;  // of their groups

  bool any() const { return params > 0; }
  // Returns whether their share is too large for statements about the entire
  // model.
  bool AreMany() const;
  // Returns a text such as "12 parameters (34.5 %) of unknown role".
  std::string Text() const;
};

// Finds the parameters of unknown role. If `by_name` is true, also those whose
// role only other parameters show: commands that read roles from names do not
// know it.
UnknownRoles UnknownRolesOf(const Tree& tree, const ModelDims& dims,
                            bool by_name = false);

// Returns the roles that are not known as a fact, and what settles it.
NotKnown NotKnownRoles(const UnknownRoles& roles, bool has_config);

Suggestion Suggest(const Request& request);

// Returns whether a model has so many parameter groups that Suggest() makes no
// patterns. Then no mesh suits the model.
bool HasTooManyGroups(const Tree& tree);

// Returns the reason why a mesh does not suit a model; empty if it does.
std::string MisfitOf(const Tree& tree, const MeshAxes& mesh,
                     const Choices& choices);

// Writes a suggestion as a rules file with comments.

// Returns the rule groups in the order in which the file lists them. Parameter
// groups are in one rule group if they have the same comment and spec.
std::vector<RuleGroup> RuleGroupsOf(const Tree& tree, const ModelDims& dims,
                                    const Choices& choices);

Imported WriteFile(const Suggestion& suggestion, const Mesh& mesh);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_SUGGEST_H_
