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
  uint32_t option = 0;  // of RuleOptions
  Mesh mesh;            // without axes of size 1, unless given
  AxisSizes sizes;
  bool usual_order = true;  // data, sharded data, experts, sequence, tensor
  std::string unmeasured;   // why no measured run is like it; empty: one is
};

// Returns the mesh without axes of size 1. If it has no other axes, one of them
// remains.
Mesh WithoutTrivial(const Mesh& mesh);

// Returns the meshes of a base: the given one, or all, with the axes in their
// usual order.
std::vector<Mesh> MeshesOf(const Request& request, const RuleOptions& options,
                           Base base);
// Returns the mesh with its axes in different orders: one for each set of
// devices of an axis that share a host or a fast link. The usual order is
// first.
std::vector<Mesh> OrdersOf(const Mesh& mesh, const DeviceProfile& profile);

// Returns the changes of rules that a mesh of these sizes can have. Changes
// that no measured run supports are included only with `unmeasured`, one at a
// time.
std::vector<RuleChanges> ChangesFor(const AxisSizes& sizes, bool unmeasured);

// Returns a candidate, or nullopt if the base has no rules for the mesh.
std::optional<Candidate> MakeCandidate(const Request& request,
                                       RuleOptions& options, Base base,
                                       const Mesh& mesh,
                                       const RuleChanges& changes);

// Returns all candidates of the search space, in a fixed order. Without
// Request::unmeasured and a given mesh, only those that a measured run
// supports.
std::vector<Candidate> AllCandidates(const Request& request,
                                     RuleOptions& options);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_CANDIDATES_H_
