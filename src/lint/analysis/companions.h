// Finds the companions of a weight (its bias, scale, zero point and group
// indices), and in which order a quantised weight stores its inputs.
#ifndef SHARDC_LINT_ANALYSIS_COMPANIONS_H_
#define SHARDC_LINT_ANALYSIS_COMPANIONS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "roles/role.h"

namespace shardc {

struct Companion {
  const ParameterGroup* weight = nullptr;
  // The bias, scale, zero point or group indices of `weight`.
  const ParameterGroup* other = nullptr;
  bool indexes = false;  // whether `other` holds the group index of each input
  // The leaf of `other`. It may be joined with its module, as in
  // `down_proj_scales`.
  Leaf leaf = Leaf::kOther;
  // Whether the last dimension of `weight` holds the numbers of one block,
  // which share a scale.
  bool blocks = false;
};
std::vector<Companion> CompanionsOf(const Facts& facts);

// Whether the inputs that share a scale are consecutive in a weight.
enum class InputOrder : uint8_t {
  kConsecutive,
  // Each input names its group, and the inputs of a group are anywhere
  // (act-order of GPTQ), so that every range of inputs needs all scales.
  kReordered,
  // Each input names its group, and nothing states whether the groups are
  // consecutive.
  kUnknown,
};

struct Inputs {
  InputOrder order = InputOrder::kConsecutive;
  // The dimension of the weight that counts its inputs; -1 if it is unknown.
  int dim = -1;
  // What shows that they are reordered, as in "the configuration states
  // desc_act true"; empty for other orders.
  std::string evidence;
};

// The inputs of each quantised weight that has group indices, keyed by group.
class InputOrders {
 public:
  InputOrders(const Facts& facts, const std::vector<Companion>& companions);

  // Returns the inputs of a weight; consecutive inputs if it has no group
  // indices.
  Inputs Of(const ParameterGroup& weight) const;

 private:
  std::map<const ParameterGroup*, Inputs> inputs_;
};

// Returns the scales and zero points of weights whose inputs are reordered and
// split over axes over which weights are not gathered. A device needs all of
// them, so that they are correctly replicated.
std::set<const ParameterGroup*> ScalesNeededWhole(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_COMPANIONS_H_
