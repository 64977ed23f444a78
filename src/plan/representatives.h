// One parameter for each group of parameters that have the same plan on any
// mesh.
#ifndef SHARDC_PLAN_REPRESENTATIVES_H_
#define SHARDC_PLAN_REPRESENTATIVES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "model/manifest.h"
#include "model/rules.h"
#include "plan/compile.h"

namespace shardc {

// Inputs that are compiled in place of a whole tree's, for many meshes.
struct Representatives {
  Manifest manifest;  // the representatives, in the order of the whole tree
  RuleSet rules;      // with the counts of `place` that names gave
  // The number of parameters that each tensor of `manifest` stands for. It is 0
  // for a tensor that is there only because another one takes its spec by
  // `like`.
  std::vector<int64_t> counts;
  // For each tensor of `manifest`, where `place` puts the parameters of its
  // group.
  struct Placed {
    int64_t count = 0;                           // of indices, from 0
    std::map<int64_t, int64_t> parameters = {};  // by index: their number
    // Returns the number of parameters at each coordinate of an axis.
    std::map<int64_t, int64_t> Along(int64_t axis_size) const;
  };
  std::vector<Placed> placed;
  // For each tensor of the complete tree, the number of its representative.
  std::vector<uint32_t> of;
};

// Groups the parameters of a plan by layout and by name without numbers.
// Whether two parameters share a layout depends on no size of the mesh. `rules`
// are those that were compiled.
Representatives RepresentativesOf(const Compiled& compiled, RuleSet rules);

}  // namespace shardc

#endif  // SHARDC_PLAN_REPRESENTATIVES_H_
