// Finds which block of numbers shares a scale in each weight, from the modules
// that the configuration lists.
#ifndef SHARDC_PLAN_QUANTISED_MODULES_H_
#define SHARDC_PLAN_QUANTISED_MODULES_H_

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "match/match.h"
#include "model/project.h"

namespace shardc {

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

#endif  // SHARDC_PLAN_QUANTISED_MODULES_H_
