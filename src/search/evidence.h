// Decides which choices measured runs support. A search would exploit every
// cost that the cost model leaves out, so a choice without a measured run wins
// only if the user allows that.
#ifndef SHARDC_SEARCH_EVIDENCE_H_
#define SHARDC_SEARCH_EVIDENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cost/settings.h"
#include "model/axis_rules.h"
#include "model/mesh.h"

namespace shardc::search {

// The number of devices for each kind of parallelism: the product of the sizes
// of the mesh axes in its axis rule.
struct AxisSizes {
  int64_t data = 1, sharded = 1, experts = 1, sequence = 1, tensor = 1;
};
AxisSizes SizesOf(const Mesh& mesh, const AxisRules& rules);

// Return why no measured run resembles a mesh or settings; empty if one does.
// The settings must have a profile.
std::string WhyUnmeasured(const AxisSizes& sizes,
                          const cost::Settings& settings);
std::string WhyUnmeasuredSettings(const cost::Settings& settings);

// The evidence of measured runs for one choice.
struct Known {
  std::string choice;  // for example "mesh"
  std::string text;
};
// Returns an entry for each choice of a search. If the model has experts, one
// more entry states that runs support neither meshes with expert parallelism
// nor meshes without.
std::vector<Known> KnownChoices(bool has_experts);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_EVIDENCE_H_
