// Decides which choices of a search are supported by measured runs. A choice
// looks too fast if the cost model leaves out one of its costs, and a search
// would prefer such choices. Therefore a choice without a measured run wins
// only if the user allows that.
#ifndef SHARDC_SEARCH_EVIDENCE_H_
#define SHARDC_SEARCH_EVIDENCE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost/settings.h"
#include "model/axis_rules.h"
#include "model/mesh.h"

namespace shardc::search {

// The number of devices for each kind of parallelism: the product of the sizes
// of the mesh axes that the axis rules assign to this kind.
struct AxisSizes {
  int64_t data = 1, sharded = 1, experts = 1, sequence = 1, tensor = 1;
  // The number of devices among which whole experts are distributed.
  int64_t holders = 1;
};
AxisSizes SizesOf(const Mesh& mesh, const AxisRules& rules);

// Returns a text such as "no measured TPU run has a pipeline", where `what` is
// "a pipeline". For another device with a torus, such as Trainium2, the text
// states that all measured runs on a torus are of TPUs. Empty if the profile
// has no torus.
std::string NoTorusRun(const DeviceProfile& profile, std::string_view what);

// Return why no measured run resembles a mesh or settings; empty if one does.
// The settings must have a profile. `experts` is the number of experts of a
// layer, or 0.
std::string WhyUnmeasured(const AxisSizes& sizes,
                          const cost::Settings& settings, int64_t experts);
std::string WhyUnmeasuredSettings(const cost::Settings& settings);

// The errors of the expected times of published pipelines.
inline constexpr std::string_view kPipelineErrors =
    "of 104 published runs, half are within 6 % and 90 of 100 within 13 %";

// How measured runs support one choice of the search, as a text for the user.
struct Known {
  std::string choice;  // the name of the choice, for example "mesh"
  std::string text;
};
// Returns an entry for each choice of a search. If the model has experts, one
// more entry states that measured runs support no mesh for such a model, with
// or without expert parallelism.
std::vector<Known> KnownChoices(bool has_experts);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_EVIDENCE_H_
