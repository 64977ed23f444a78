// A rules file for a tree on a mesh, from the first stage to the last.
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
#include "suggest/choose.h"
#include "suggest/patterns.h"

namespace shardc::suggest {

struct Request {
  const Manifest* manifest = nullptr;  // outlives the suggestion
  const Mesh* mesh = nullptr;
  const ModelConfig* model = nullptr;  // may be null
  Wishes wishes = {};
};

// Kinds of one role, spec and place: a rule, or several.
struct Group {
  std::vector<uint32_t> kinds;
  const Choice* choice = nullptr;
  int order = 0;  // of its role, for readers
};

struct Suggestion {
  Tree tree;
  Readings readings;
  MeshAxes mesh;
  Choices choices;
  std::vector<Group> groups;
  Patterns patterns;
  Imported file;
  int64_t bytes_per_device = 0;
  std::string misfit;
  // The rule that each tensor is meant to get, by tensor; -1: none.
  std::vector<int32_t> rule_of;

  // Bytes of all devices over those of the model, copies over dp aside.
  double Ratio() const;
};

Suggestion Suggest(const Request& request);

// Why a mesh does not fit a model; empty where it does.
std::string MisfitOf(const Tree& tree, const MeshAxes& mesh,
                     const Choices& choices);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_SUGGEST_H_
