// Finds which block of numbers shares a scale in each weight, from the modules
// that the configuration lists.
#ifndef SHARDC_LINT_ANALYSIS_QUANTISED_MODULES_H_
#define SHARDC_LINT_ANALYSIS_QUANTISED_MODULES_H_

#include <cstdint>
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
  // Returns the block of a module, such as `layers.0.mlp.up_proj`, or null if
  // it is not quantised or this is not known. The parts of the name are
  // separated by dots.
  const QuantisedBlock* Of(std::string_view module) const;

 private:
  // One entry of a list of modules.
  struct Entry {
    std::string text;
    std::vector<Regex> pattern;  // empty or one
    bool Names(std::string_view module) const;
  };
  Entry Read(const std::string& text);

  std::vector<QuantisedBlock> blocks_;
  std::vector<std::vector<Entry>> targets_;  // indexed as blocks_
  std::vector<Entry> excluded_;
  // Whether a pattern uses syntax that RE2 lacks.
  bool unknown_ = false;
};

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_QUANTISED_MODULES_H_
