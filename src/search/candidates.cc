// Enumerates the shardings that a search considers. Every factorisation of the
// number of devices over the axes is a mesh. The order of the axes decides
// which devices form a group along an axis. Two orders are different candidates
// only if the groups along an axis, or along two axes, are placed differently
// in the network. In this example, the groups have different numbers of members
// in a host:
//
//   dp=2 fsdp=32 on hosts of 8: fsdp has 8 members in a host, dp has 1
//   fsdp=32 dp=2:               fsdp has 4, dp has 2
#include "search/candidates.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "cost/fit.h"
#include "cost/time.h"

namespace shardc::search {
namespace {

// If a search has more meshes than this, none is tried.
constexpr size_t kMostMeshes = 100'000;

// Returns numbers that describe how the device groups along every axis, and
// along every pair of axes, are placed in the network. Orders of the axes with
// equal results are one candidate.
std::vector<int64_t> PlacementOf(const Mesh& mesh,
                                 const std::vector<std::string>& axes,
                                 const DeviceProfile& profile) {
  const cost::Network network = cost::NetworkOf(profile, mesh);
  std::vector<int64_t> out;
  for (size_t i = 0; i < axes.size(); ++i) {
    for (size_t j = i; j < axes.size(); ++j) {
      const cost::Place place =
          cost::PlaceOf(mesh, network, {axes[i], axes[j]});
      out.push_back(place.near);
      out.push_back(place.sharing);
    }
  }
  return out;
}

std::string UnmeasuredText(const Candidate& candidate,
                           const RuleChanges& changes, const Request& request) {
  const int64_t experts =
      request.model ? request.model->experts.value_or(0) : 0;
  std::string out = WhyUnmeasured(candidate.sizes, request.settings, experts);
  if (out.empty() && !changes.Measured()) {
    out = "no measured run has such rules";
  }
  return out;
}

}  // namespace

Mesh WithoutTrivial(const Mesh& mesh) {
  Mesh out = mesh;
  std::erase_if(out.axes, [](const MeshAxis& axis) { return axis.size == 1; });
  if (out.axes.empty() && !mesh.axes.empty()) {
    out.axes.push_back(mesh.axes.size() > 1 ? mesh.axes[1] : mesh.axes[0]);
  }
  return out;
}

std::vector<Mesh> MeshesOf(const Request& request, const RuleOptions& options,
                           Base base) {
  if (request.mesh) return {*request.mesh};
  auto out = cost::MeshesOf(request.devices, options.axes(base), kMostMeshes);
  return out ? std::move(*out) : std::vector<Mesh>{};
}

std::vector<Mesh> OrdersOf(const Mesh& mesh, const DeviceProfile& profile) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes) axes.push_back(axis.name);
  std::vector<size_t> order(mesh.axes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::set<std::vector<int64_t>> seen;
  std::vector<Mesh> out;
  do {
    Mesh one = mesh;
    for (size_t i = 0; i < order.size(); ++i) {
      one.axes[i] = mesh.axes[order[i]];
    }
    if (seen.insert(PlacementOf(one, axes, profile)).second) {
      out.push_back(std::move(one));
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return out;
}

std::vector<RuleChanges> ChangesFor(const AxisSizes& sizes, bool unmeasured) {
  std::vector<RuleChanges> out = {{}};
  const auto both = [&](bool applies, bool RuleChanges::*change) {
    if (!applies) return;
    const size_t before = out.size();
    for (size_t i = 0; i < before; ++i) {
      out.push_back(out[i]);
      out.back().*change = true;
    }
  };
  both(sizes.tensor > 1, &RuleChanges::turns_hidden);
  const size_t before = out.size();
  both(sizes.experts > 1, &RuleChanges::batch_over_experts);
  const size_t sent = out.size();
  for (size_t i = before; i < sent && sizes.tensor > 1; ++i) {
    out.push_back(out[i]);
    out.back().whole_experts = true;
  }
  if (!unmeasured) return out;
  const bool shards = sizes.sharded * sizes.sequence > 1;
  const size_t measured = out.size();
  const auto each = [&](bool applies, bool RuleChanges::*change) {
    for (size_t i = 0; applies && i < measured; ++i) {
      out.push_back(out[i]);
      out.back().*change = true;
    }
  };
  each(sizes.tensor > 1, &RuleChanges::replicates_keys);
  each(shards, &RuleChanges::holds_attention);
  each(shards, &RuleChanges::holds_ends);
  return out;
}

std::optional<Candidate> MakeCandidate(const Request& request,
                                       RuleOptions& options, Base base,
                                       const Mesh& mesh,
                                       const RuleChanges& changes) {
  Candidate out;
  out.mesh = request.mesh ? mesh : WithoutTrivial(mesh);
  const auto option = options.For(base, out.mesh, changes);
  if (!option) return std::nullopt;
  out.option = *option;
  out.sizes = SizesOf(out.mesh, options[*option].evaluator->axes());
  out.unmeasured = UnmeasuredText(out, changes, request);
  return out;
}

std::vector<Candidate> AllCandidates(const Request& request,
                                     RuleOptions& options) {
  std::vector<Candidate> out;
  for (const Base base : options.bases()) {
    for (const Mesh& mesh : MeshesOf(request, options, base)) {
      const auto plain = MakeCandidate(request, options, base, mesh, {});
      if (!plain) continue;
      const bool wanted = request.unmeasured || request.mesh.has_value();
      if (!wanted && !plain->unmeasured.empty()) continue;
      const auto changes = request.keep_rules
                               ? std::vector<RuleChanges>{{}}
                               : ChangesFor(plain->sizes, request.unmeasured);
      for (const RuleChanges& change : changes) {
        auto one = MakeCandidate(request, options, base, mesh, change);
        if (!one) continue;
        if (!request.unmeasured || request.mesh || !change.Measured()) {
          out.push_back(std::move(*one));
          continue;
        }
        const auto orders = OrdersOf(one->mesh, *request.settings.profile);
        for (size_t i = 0; i < orders.size(); ++i) {
          Candidate ordered = *one;
          ordered.mesh = orders[i];
          ordered.usual_order = i == 0;
          if (i > 0 && ordered.unmeasured.empty()) {
            ordered.unmeasured = "no measured run has this order of axes";
          }
          out.push_back(std::move(ordered));
        }
      }
    }
  }
  return out;
}

}  // namespace shardc::search
