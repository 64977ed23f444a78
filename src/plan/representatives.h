// Chooses one parameter to represent each group of parameters that have the
// same layout on every mesh.
#ifndef SHARDC_PLAN_REPRESENTATIVES_H_
#define SHARDC_PLAN_REPRESENTATIVES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "match/match.h"
#include "model/manifest.h"
#include "model/project.h"
#include "model/rules.h"
#include "plan/compile.h"

namespace shardc {

// The inputs of a target, reduced to one parameter for each group. They are
// compiled for many meshes in place of the complete tree of parameters.
struct Representatives {
  Manifest manifest;  // The representatives, in the order of the complete tree.
  // The rules. The `place` of a rule distributes tensors with an index, such as
  // experts, over the devices of an axis. Its count is that of the complete
  // tree, for example 256 for 256 experts, although only one of them is in
  // `manifest`.
  RuleSet rules;
  // The number of parameters that each tensor of `manifest` represents. It is 0
  // for a tensor that is present only because another tensor copies its spec
  // (`like`).
  std::vector<int64_t> counts;
  // Indexed by tensor of `manifest`: the parameters of the tensor's group, by
  // the index that `place` finds in their names.
  struct Placed {
    // The number of indices, such as 256 for the experts 0 to 255.
    int64_t count = 0;
    // Maps each index to the number of parameters of the group that have it.
    std::map<int64_t, int64_t> parameters = {};
    // Returns the number of parameters of the group at each coordinate of an
    // axis.
    std::map<int64_t, int64_t> Along(int64_t axis_size) const;
  };
  std::vector<Placed> placed;
  // Indexed by tensor of the complete tree: the index of its representative.
  std::vector<uint32_t> of;
};

// Groups the parameters of a plan by layout and by name without numbers. Two
// parameters that share a layout on one mesh share a layout on every mesh, so
// the groups are valid for every mesh. `rules` must be the compiled rules. The
// parameters of a group have the same quantisation block in `model`, which may
// be null.
Representatives RepresentativesOf(const Compiled& compiled, RuleSet rules,
                                  const ModelConfig* model = nullptr);

// Returns the facts about the parameters of `whole` for those of them that are
// in `few`.
std::shared_ptr<facts::TargetParameters> ParametersOfChosen(
    const Compiled& whole, const Compiled& few);

// Finds which block of numbers shares a scale in each weight, from the modules
// that the configuration lists.

class QuantisedModules {
 public:
  explicit QuantisedModules(const ModelConfig& model);

  // Returns the blocks that the configuration has for some modules.
  const std::vector<QuantisedBlock>& blocks() const { return blocks_; }
  // Returns whether a block has more than one number.
  bool Any() const;
  // Returns the block of the weight with this name, or null if its module is
  // not quantised or this is not known. With `leaf`, the last part of the name
  // is that of the weight, as in `layers.0.mlp.up_proj.weight`. Without it, the
  // name is that of the module.
  const QuantisedBlock* Of(std::string_view weight, char separator,
                           bool leaf) const;

 private:
  // A list of modules.
  struct Entries {
    std::set<std::string, std::less<>> names;
    std::vector<Regex> patterns;
    bool Name(std::string_view module) const;
  };
  Entries Read(const std::vector<std::string>& list);

  std::vector<QuantisedBlock> blocks_;
  std::vector<Entries> targets_;  // indexed as blocks_
  Entries excluded_;
  // Whether a pattern uses syntax that RE2 lacks.
  bool unknown_ = false;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_REPRESENTATIVES_H_
