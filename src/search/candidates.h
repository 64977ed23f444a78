// The shardings of the parameters that are searched: meshes with their order of
// axes, and rules.
#ifndef SHARDC_SEARCH_CANDIDATES_H_
#define SHARDC_SEARCH_CANDIDATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "search/evidence.h"
#include "search/request.h"
#include "search/rule_options.h"

namespace shardc::search {

struct Candidate {
  uint32_t option = 0;  // index into RuleOptions
  Mesh mesh;            // without axes of size 1, unless the user gave it
  AxisSizes sizes;
  bool usual_order = true;  // axes in the order dp, fsdp, ep, sp, tp
  std::string unmeasured;   // why no measured run is like it; may be empty
};

// Returns the mesh without axes of size 1. If all axes have size 1, one
// remains.
Mesh WithoutTrivial(const Mesh& mesh);

// Returns the meshes on which the rules of `base`, the given or the suggested
// ones, are tried: the requested mesh, or every mesh with the requested number
// of devices, axes in the usual order. More than 100,000 meshes are not tried:
// the result is then empty.
std::vector<Mesh> MeshesOf(const Request& request, const RuleOptions& options,
                           Base base);
// Returns the mesh with its axes in different orders, its own order first. Two
// orders are equal if the groups of each axis and of each pair of axes have the
// same place in the network; only the first of equal orders is returned.
std::vector<Mesh> OrdersOf(const Mesh& mesh, const DeviceProfile& profile);

// Returns the changes of rules that a mesh of these sizes can have. Changes
// that no measured run supports are included only with `unmeasured`, at most
// one of them at a time.
std::vector<RuleChanges> ChangesFor(const AxisSizes& sizes, bool unmeasured);

// Returns a candidate, or nullopt if the base has no rules for the mesh or if a
// change does not apply to them.
std::optional<Candidate> MakeCandidate(const Request& request,
                                       RuleOptions& options, Base base,
                                       const Mesh& mesh,
                                       const RuleChanges& changes);

// Returns all candidates of the search space, in a fixed order. Unless
// Request::unmeasured is set or the mesh is given, only candidates that a
// measured run supports are returned.
std::vector<Candidate> AllCandidates(const Request& request,
                                     RuleOptions& options);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_CANDIDATES_H_
