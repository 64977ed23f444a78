// Chooses one parameter for each group of parameters that have the same plan on
// any mesh.
#ifndef SHARDC_PLAN_REPRESENTATIVES_H_
#define SHARDC_PLAN_REPRESENTATIVES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "model/manifest.h"
#include "model/rules.h"
#include "plan/compile.h"

namespace shardc {

// Inputs with one parameter per group. They are compiled for many meshes in
// place of the complete tree.
struct Representatives {
  Manifest manifest;  // the representatives, in the order of the whole tree
  RuleSet rules;      // with `place` counts of the complete tree
  // The number of parameters that each tensor of `manifest` represents. The
  // number is 0 for a tensor that is present only because another tensor takes
  // its spec (`like`).
  std::vector<int64_t> counts;
  // For each tensor of `manifest`, how `place` distributes the parameters of
  // its group.
  struct Placed {
    int64_t count = 0;  // indices run from 0 to before this number
    // The number of parameters by index.
    std::map<int64_t, int64_t> parameters = {};
    // Returns the number of parameters at each coordinate of an axis.
    std::map<int64_t, int64_t> Along(int64_t axis_size) const;
  };
  std::vector<Placed> placed;
  // For each tensor of the complete tree, the index of its representative.
  std::vector<uint32_t> of;
};

// Groups the parameters of a plan by layout and by name without numbers. Two
// parameters share a layout on all meshes or on none, so the groups hold for
// every mesh. `rules` must be the compiled rules.
Representatives RepresentativesOf(const Compiled& compiled, RuleSet rules);

}  // namespace shardc

#endif  // SHARDC_PLAN_REPRESENTATIVES_H_
