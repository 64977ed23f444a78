// Computes what a system makes of a configuration: its grids of ranks, the
// sharding of each parameter, the stages, and what each rank holds.
#ifndef SHARDC_SYSTEMS_DEPLOYMENT_H_
#define SHARDC_SYSTEMS_DEPLOYMENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "source/finding.h"
#include "source/source.h"
#include "systems/config_text.h"
#include "systems/system.h"

namespace shardc::systems {

// Inputs of a configuration that its file lacks.
struct ConfigInputs {
  std::optional<int64_t> devices;
  std::string model;     // the path of the model's sizes; empty to look for it
  std::string manifest;  // the path of a manifest in place of a tree
  std::string families;  // the folder of the user's descriptions
  // Reads a manifest, because this room reads no files of other formats.
  std::optional<Manifest> given_manifest = std::nullopt;
  // Further settings, `key=value`, which replace those of the file. `key=`
  // removes a key. `env.NAME=value` gives a variable, whose uses ReadConfig has
  // replaced already.
  std::vector<std::string> set = {};
  // Whether keys and values that are not known are notes, and what does not
  // depend on them is computed.
  bool lenient = false;
};

struct GridAxis {
  std::string name;
  int64_t size = 1;
};
// Axes of ranks, the slowest first.
using Grid = std::vector<GridAxis>;

// One division of a dimension, by axes of a grid that are flattened.
struct Share {
  std::vector<std::string> axes;
  int64_t parts = 1;
  Division division = Division::kExact;
  int64_t units = 1;
};

// How a parameter is divided.
struct Placement {
  std::vector<std::vector<Share>> dims;
  // The equal parts of dimension `parts_dim`, each of which is divided.
  int64_t parts = 1;
  size_t parts_dim = 0;
  // If not 1, the parameter is a flat buffer of which each rank has a part.
  Share flat;
};

// The stages of a pipeline, in the order of the model.
struct DeployedStages {
  std::string axis;
  int64_t ranks = 1, virtual_stages = 1;
  std::vector<int64_t> layers;  // of each stage
  bool folded = false;
  std::optional<int64_t> microbatches;
  std::string schedule;
  // The rank of the stage axis that runs a stage.
  int64_t RankOf(int64_t stage) const;
};

struct HeldParameter {
  size_t tensor = 0;  // index into Deployment::manifest
  Shape shape;        // of the part that the rank holds
};

struct Deployment {
  const System* system = nullptr;
  SourceRef source;
  // The values of all names that expressions of the system's file define, as
  // text, in the order of the file.
  std::vector<std::pair<std::string, std::string>> derived;
  int64_t world = 0;
  std::vector<Grid> grids;
  // One mesh that has the axes of all grids as axes or as groups of axes;
  // nullopt if there is none.
  std::optional<Mesh> mesh;
  // The mesh axes, the slowest first, that make up an axis of a grid.
  std::map<std::string, AxisGroup, std::less<>> axes;
  std::optional<Manifest> manifest;
  std::string model_path;  // the config.json; empty if the sizes are keys
  std::vector<Placement> placements;  // one for each tensor
  std::optional<DeployedStages> stages;
  std::vector<int64_t> stage_of;  // of each tensor
  std::string copied;  // a table that the last stage holds too, or empty
  // Keys and values of the step: {"seq", "4096"}.
  std::vector<std::pair<std::string, std::string>> step;
  // Why the manifest is absent, such as a size that is missing; empty if it is
  // not.
  std::string no_model;
  // Checks that could not be made, with what is missing.
  std::vector<std::pair<std::string, std::string>> not_checked;

  // Returns the coordinate of a rank on an axis of a grid; 0 for axes that no
  // grid has.
  int64_t CoordinateOf(int64_t rank, std::string_view axis) const;
  // Returns the shape of a tensor on a rank.
  Shape LocalShape(size_t tensor, int64_t rank) const;
  // Returns what a rank holds, in the order of the manifest.
  std::vector<HeldParameter> HeldBy(int64_t rank) const;
  // Returns the bytes of the parameters of a rank; nullopt on overflow.
  std::optional<int64_t> BytesOf(int64_t rank) const;
};

// What the keys of a configuration state about the ranks: nothing, axes that
// all have one rank, or axes with several ranks or of a size that is not known.
enum class Divides : uint8_t { kNot, kTrivially, kYes };
Divides DividesRanks(const System& system, const ConfigText& text);

// Returns whether a configuration is one of the system: one of its commands, or
// a mapping with one of its marks.
bool IsOf(const System& system, const ConfigText& text);

// Reads the configurations of a file that are of the system, and returns the
// one with this name or, if `name` is empty, the only one or the first command.
// Returns nullopt after a finding, such as a variable of `environment` that the
// file does not have.
std::optional<ConfigText> ReadConfig(const System& system,
                                     const SourceRef& source,
                                     const std::string& name,
                                     Findings& findings,
                                     const Environment& environment = {});

// Computes the deployment of a configuration. Findings state what the system
// refuses, what it does silently, keys that are not known, and values that the
// file does not have. Returns nullopt if the ranks or the parameters cannot be
// computed. The manifest is absent if no model is known.
std::optional<Deployment> Deploy(const System& system, const ConfigText& text,
                                 const ConfigInputs& inputs,
                                 Findings& findings);

// Returns a rules file, with its stages. Adds a finding (inexpressible) for
// each parameter whose sharding a plan cannot state, and returns nullopt.
std::optional<std::string> RulesOf(const Deployment& deployment,
                                   Findings& findings);

}  // namespace shardc::systems

#endif  // SHARDC_SYSTEMS_DEPLOYMENT_H_
