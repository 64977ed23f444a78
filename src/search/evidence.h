// Which choices are supported by measured runs. A search exploits every cost
// that the model of the step leaves out. A choice without a measured run
// therefore wins only if the user allows it.
#ifndef SHARDC_SEARCH_EVIDENCE_H_
#define SHARDC_SEARCH_EVIDENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cost/settings.h"
#include "model/axis_rules.h"
#include "model/mesh.h"

namespace shardc::search {

// The sizes of a mesh by what its axes parallelise, under some axis rules.
struct AxisSizes {
  int64_t data = 1, sharded = 1, experts = 1, sequence = 1, tensor = 1;
};
AxisSizes SizesOf(const Mesh& mesh, const AxisRules& rules);

// Returns why no measured run is like a mesh, or like settings; empty if one
// is. The settings have a profile.
std::string WhyUnmeasured(const AxisSizes& sizes,
                          const cost::Settings& settings);
std::string WhyUnmeasuredSettings(const cost::Settings& settings);

// What measured runs say about the figures that decide one choice.
struct Known {
  std::string choice;  // "mesh"
  std::string text;
};
// Returns it for each choice of a search, and for the experts of a model that
// has some: whether the winner divides them or not is not supported by a run.
std::vector<Known> KnownChoices(bool has_experts);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_EVIDENCE_H_
