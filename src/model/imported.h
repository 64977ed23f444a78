// The result of importing another system's sharding rules: rules together with
// their comments, axis rules, and a mesh.
#ifndef SHARDC_MODEL_IMPORTED_H_
#define SHARDC_MODEL_IMPORTED_H_

#include <optional>
#include <string>
#include <vector>

#include "model/axis_rules.h"
#include "model/mesh.h"
#include "model/rules.h"

namespace shardc {

struct ImportedRule {
  Rule rule;
  // The comments of the rule in the imported file, without `#`.
  std::vector<std::string> comments;
};

struct Imported {
  // The comments that concern the file as a whole.
  std::vector<std::string> comments;
  std::optional<Mesh> mesh;
  AxisRules axes;
  // The logical axes that the imported file registers, in its order.
  std::vector<Registration> registrations;
  std::vector<ImportedRule> rules;
  // The separator between the parts of names in patterns; 0 if unknown.
  char separator = 0;
  Policy policy;
};

}  // namespace shardc

#endif  // SHARDC_MODEL_IMPORTED_H_
