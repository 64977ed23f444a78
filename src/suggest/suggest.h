// Suggests a rules file for a model on a mesh; runs all stages.
#ifndef SHARDC_SUGGEST_SUGGEST_H_
#define SHARDC_SUGGEST_SUGGEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/imported.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "suggest/choice.h"
#include "suggest/dims.h"
#include "suggest/mesh_axes.h"
#include "suggest/parameter_groups.h"
#include "suggest/patterns.h"

namespace shardc::suggest {

struct Request {
  const Manifest* manifest = nullptr;  // outlives the suggestion
  const Mesh* mesh = nullptr;
  const ModelConfig* model = nullptr;  // may be null
  Preferences preferences = {};
};

// Parameter groups of one role, spec and placement: one rule, or several.
struct RuleGroup {
  std::vector<uint32_t> groups;
  const Choice* choice = nullptr;
  int order = 0;  // of its role in the file
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
  std::string misfit;  // as MisfitOf
  // The index of the rule written for each tensor; -1: none.
  std::vector<int32_t> rule_of;

  // Returns the bytes that all devices of one replica hold together, divided by
  // the bytes of the model.
  double Ratio() const;
};

Suggestion Suggest(const Request& request);

// Why a mesh does not fit a model; empty if it fits.
std::string MisfitOf(const Tree& tree, const MeshAxes& mesh,
                     const Choices& choices);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_SUGGEST_H_
