// Corrects what names say about parameters by the parameters next to them:
// gates, experts, up projections and mixers whose words have other meanings in
// other models.
#ifndef SHARDC_FACTS_NEIGHBOURS_H_
#define SHARDC_FACTS_NEIGHBOURS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/manifest.h"
#include "roles/classify.h"

namespace shardc::facts {

// A parameter group, and its role, which is corrected.
struct Neighbour {
  std::string_view name;         // with `*` in place of the numbers
  const Shape* shape = nullptr;  // null if unknown
  // The number of dimensions that do not count scanned layers, and the sizes of
  // the first three of them.
  int rank = 0;
  std::array<int64_t, 3> sizes = {};
  int64_t count = 0;
  // Whether a `model:` section of the rules gives the role. It is not changed.
  bool stated = false;
  ParameterRole* role = nullptr;
  // Set to true for a projection into or out of a mixer: a state-space block,
  // or linear attention whose projections have names such as `in_proj_qkvz` in
  // place of `q_proj`. The module of a projection out of a mixer gets the role
  // of an output projection.
  bool* mixes = nullptr;
};

// What the configuration states; nullopt if unknown.
struct StatedSizes {
  std::optional<int64_t> hidden = {}, vocabulary = {}, experts = {};
};

// Corrects the roles. Adapters have an unknown role.
void CorrectByNeighbours(std::span<Neighbour> groups, char separator,
                         const StatedSizes& stated);

}  // namespace shardc::facts

#endif  // SHARDC_FACTS_NEIGHBOURS_H_
