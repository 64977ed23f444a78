// What another system's file gives: rules with the comments that stood with
// them, axis rules, a mesh.
#ifndef SHARDC_MODEL_IMPORTED_H_
#define SHARDC_MODEL_IMPORTED_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/axis_rules.h"
#include "model/mesh.h"
#include "model/rules.h"

namespace shardc {

struct ImportedRule {
  Rule rule;
  std::vector<std::string> comments;  // without `#`
};

struct Imported {
  std::vector<std::string> comments;  // of the whole file
  std::optional<Mesh> mesh;
  AxisRules axes;
  std::vector<ImportedRule> rules;
  char separator = 0;  // of the patterns; 0: not said
  Policy policy;
  // Where names are matched otherwise than by patterns: the rule (-1: none)
  // that the system itself gives a name, by which the patterns are judged.
  std::function<int32_t(std::string_view name)> winner;
};

}  // namespace shardc

#endif  // SHARDC_MODEL_IMPORTED_H_
