// Searches for the best mesh for a number of devices. Every factorisation of
// this number into the axis sizes dp, fsdp, ep and tp is tried. Choose() finds
// the specs for each. tp must not exceed the number of devices of a host, and
// ep must divide the number of experts.
//
// A mesh fits if its parameters, gradients, Adam states and activations fit
// into 0.9 of a device's memory. The states are in float32. Layers are fully
// rematerialised, so only the inputs of all layers and the tensors of one layer
// are held.
//
// Of the meshes that fit, those within 1 % of the lowest time per token are
// regarded as equally fast. Of these, the mesh with the fewest axes is first.
// For example:
//
//   8 billion parameters, 64 devices of 80 GiB  ->  dp 8, fsdp 8
#include "suggest/mesh.h"

#include <algorithm>
#include <cmath>

#include "suggest/choose.h"
#include "suggest/dims.h"
#include "suggest/objective.h"
#include "suggest/suggest.h"

namespace shardc::suggest {
namespace {

// The usable fraction of a device's memory. The rest is kept for tensors that
// this estimate does not include.
constexpr double kUsable = 0.9;
// A time that exceeds the lowest time by at most this fraction is treated as
// equal to the lowest time.
constexpr double kTie = 0.01;
// The bytes per second that one device sends to other hosts (400 Gbit/s).
constexpr double kHostLink = 50e9;
// Bytes of activations per token and unit of the model's width. kKept is for
// each layer's input, which is kept. kWorking is for the one layer that is
// being recomputed (34 in arXiv 2205.05198).
constexpr double kKept = 2;
constexpr double kWorking = 34;

class MeshSearch {
 public:
  MeshSearch(const Tree& tree, const ModelConfig* model,
             const MeshRequest& request, const Preferences& preferences)
      : tree_(tree),
        model_(model),
        request_(request),
        preferences_(preferences) {}

  std::vector<MeshOption> Run() {
    for (int64_t tp = 1; tp <= std::min(request_.per_host, request_.devices);
         ++tp) {
      if (request_.devices % tp != 0) continue;
      const ModelDims model_dims =
          InferDims(tree_, model_, tp, preferences_.scan_axis);
      const int64_t experts = model_dims.facts.experts;
      const int64_t rest = request_.devices / tp;
      for (int64_t ep = 1; ep <= rest; ++ep) {
        if (rest % ep != 0) continue;
        if (ep > 1 && (experts == 0 || experts % ep != 0)) continue;
        for (int64_t fsdp = 1; fsdp <= rest / ep; ++fsdp) {
          if ((rest / ep) % fsdp != 0) continue;
          Try(model_dims, rest / ep / fsdp, fsdp, ep, tp);
        }
      }
    }
    Sort();
    return std::move(out_);
  }

 private:
  void Try(const ModelDims& model_dims, int64_t dp, int64_t fsdp, int64_t ep,
           int64_t tp) {
    // On a mesh with dp only, every device would hold all parameters.
    if (dp > 1 && fsdp * ep * tp == 1) return;
    MeshAxes axes;
    axes.dp = dp;
    axes.fsdp = fsdp;
    axes.ep = ep;
    axes.tp = tp;
    const Choices choices = Choose(tree_, model_dims, axes, preferences_);
    if (!MisfitOf(tree_, axes, choices).empty()) return;
    const int64_t shards = dp * fsdp * ep;
    Assumed assumed;
    if (model_ != nullptr && model_->experts_per_token) {
      assumed.experts_per_token = *model_->experts_per_token;
    }
    assumed.tokens = request_.sequence;
    if (request_.batch) {
      if (*request_.batch % shards != 0 && shards % *request_.batch != 0)
        return;
      assumed.tokens =
          std::max<int64_t>(1, *request_.batch * request_.sequence / shards);
    }
    if (fsdp * ep * tp > request_.per_host) assumed.data_link = kHostLink;
    if (request_.devices > request_.per_host) assumed.replica_link = kHostLink;
    const auto pieces = ShardedGroupsOf(tree_, choices);
    const Costs costs = CostOf(tree_, model_dims, axes, pieces, assumed);
    MeshOption option;
    option.bytes = costs.state + Activations(model_dims, assumed);
    option.fits =
        option.bytes <= kUsable * static_cast<double>(request_.memory);
    option.nanoseconds =
        costs.Seconds(assumed) * 1e9 /
        static_cast<double>(assumed.tokens * std::max<int64_t>(1, shards));
    const std::pair<const char*, int64_t> sizes[] = {
        {"dp", dp}, {"fsdp", fsdp}, {"ep", ep}, {"tp", tp}};
    for (const auto& [name, size] : sizes) {
      if (size > 1) option.mesh.axes.push_back({.name = name, .size = size});
    }
    if (option.mesh.axes.empty()) {
      option.mesh.axes.push_back({.name = "fsdp", .size = 1});
    }
    option.mesh.devices = request_.devices;
    out_.push_back(std::move(option));
  }

  double Activations(const ModelDims& model_dims,
                     const Assumed& assumed) const {
    double layers = 0;
    double width = 0;
    for (size_t k = 0; k < model_dims.groups.size(); ++k) {
      const InferredDims& inferred = model_dims.groups[k];
      if (!inferred.IsMatrix()) continue;
      if (IsAttention(inferred.role) || IsMlp(inferred.role)) {
        width = std::max(width, static_cast<double>(inferred.width_size));
      }
      if (inferred.role == Role::kOutput) {
        layers += static_cast<double>(tree_.groups[k].count());
      }
    }
    const auto tokens = static_cast<double>(assumed.tokens);
    return kKept * tokens * width * layers + kWorking * tokens * width;
  }

  void Sort() {
    const auto better = [](const MeshOption& a, const MeshOption& b) {
      if (a.fits != b.fits) return a.fits;
      if (!a.fits) return a.bytes < b.bytes;
      return a.nanoseconds < b.nanoseconds;
    };
    std::stable_sort(out_.begin(), out_.end(), better);
    if (out_.empty() || !out_.front().fits) return;
    // Meshes whose time is within kTie of the fastest are sorted by their
    // number of axes, and then by the bytes that a device holds.
    const double limit = out_.front().nanoseconds * (1 + kTie);
    const auto end =
        std::find_if(out_.begin(), out_.end(), [&](const MeshOption& option) {
          return !option.fits || option.nanoseconds > limit;
        });
    std::stable_sort(out_.begin(), end,
                     [](const MeshOption& a, const MeshOption& b) {
                       if (a.mesh.axes.size() != b.mesh.axes.size()) {
                         return a.mesh.axes.size() < b.mesh.axes.size();
                       }
                       return a.bytes < b.bytes;
                     });
  }

  const Tree& tree_;
  const ModelConfig* model_;
  const MeshRequest& request_;
  const Preferences& preferences_;
  std::vector<MeshOption> out_;
};

}  // namespace

std::vector<MeshOption> MeshesFor(const Tree& tree, const ModelConfig* model,
                                  const MeshRequest& request,
                                  const Preferences& preferences) {
  return MeshSearch(tree, model, request, preferences).Run();
}

}  // namespace shardc::suggest
