// Enumerates the candidates of a search: meshes with an order of their axes,
// and rules that shard the parameters.
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
  uint32_t option = 0;  // index of the candidate's rules in RuleOptions
  Mesh mesh;            // has no axes of size 1, unless the user gave the mesh
  AxisSizes sizes;
  // Whether the axes have the order dp, fsdp, ep, sp, tp.
  bool usual_order = true;
  // Why no measured run resembles the candidate; empty if one does.
  std::string unmeasured;
};

// Returns the mesh without axes of size 1. If all axes have size 1, one axis is
// kept.
Mesh WithoutTrivial(const Mesh& mesh);

// Returns the meshes on which the rules of `base` (given by the user, or
// suggested) are tried. If the request has a mesh, this mesh is the only one.
// Otherwise every mesh with the requested number of devices is returned, with
// its axes in the usual order. If there are more than 100,000 meshes, the
// result is empty.
std::vector<Mesh> MeshesOf(const Request& request, const RuleOptions& options,
                           Base base);
// Returns the mesh with its axes in different orders; its own order is the
// first. Two orders are equivalent if the device groups along each axis and
// each pair of axes have the same place in the network. Only the first of
// equivalent orders is returned.
std::vector<Mesh> OrdersOf(const Mesh& mesh, const DeviceProfile& profile);

// Returns the changes of rules that are tried on a mesh with these axis sizes.
// If `unmeasured` is true, changes that no measured run supports are tried too,
// but only one of them at a time.
std::vector<RuleChanges> ChangesFor(const AxisSizes& sizes, bool unmeasured);

// Returns a candidate. Returns nullopt if `base` has no rules for the mesh, or
// if a change does not apply to these rules.
std::optional<Candidate> MakeCandidate(const Request& request,
                                       RuleOptions& options, Base base,
                                       const Mesh& mesh,
                                       const RuleChanges& changes);

// Returns all candidates of the search space, in a fixed order. Candidates that
// no measured run supports are returned only if Request::unmeasured is set or
// the user gave the mesh.
std::vector<Candidate> AllCandidates(const Request& request,
                                     RuleOptions& options);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_CANDIDATES_H_
