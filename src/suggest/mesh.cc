// Every way to write the devices as dp x fsdp x ep x tp is tried, with the
// specs that it would get: tp inside of a host, ep only where it divides the
// experts. Adam's states in single precision and one layer's recomputed
// activations have to fit; of what fits, the least time a token is best:
//
//   8 billion parameters, 64 devices of 80 GiB  ->  dp 8, fsdp 8
#include "suggest/mesh.h"

#include <algorithm>
#include <cmath>

#include "suggest/dims.h"
#include "suggest/objective.h"
#include "suggest/suggest.h"

namespace shardc::suggest {
namespace {

// Of the memory, the rest is for what is not counted.
constexpr double kUsable = 0.9;
// Times that differ by less are one.
constexpr double kTie = 0.01;
// Of one device, out of its host (COSTS: 400e9 of eight).
constexpr double kHostLink = 50e9;
// Bytes of activations for each token: kept by layer and number of the width,
// and of the layer that is computed again (arXiv 2205.05198: 34).
constexpr double kKept = 2;
constexpr double kWorking = 34;

class Picker {
 public:
  Picker(const Tree& tree, const ModelConfig* model, const MeshWish& wish,
         const Wishes& wishes)
      : tree_(tree), model_(model), wish_(wish), wishes_(wishes) {}

  std::vector<MeshOption> Pick() {
    const Readings once = ReadDims(tree_, model_, 1);
    for (int64_t tp = 1; tp <= std::min(wish_.per_host, wish_.devices); ++tp) {
      if (wish_.devices % tp != 0) continue;
      const Readings readings = ReadDims(tree_, model_, tp);
      const int64_t rest = wish_.devices / tp;
      for (int64_t ep = 1; ep <= rest; ++ep) {
        if (rest % ep != 0) continue;
        if (ep > 1 && (once.facts.experts == 0 || once.facts.experts % ep != 0))
          continue;
        for (int64_t fsdp = 1; fsdp <= rest / ep; ++fsdp) {
          if ((rest / ep) % fsdp != 0) continue;
          Try(readings, rest / ep / fsdp, fsdp, ep, tp);
        }
      }
    }
    Sort();
    return std::move(out_);
  }

 private:
  void Try(const Readings& readings, int64_t dp, int64_t fsdp, int64_t ep,
           int64_t tp) {
    // Copies alone split no parameter.
    if (dp > 1 && fsdp * ep * tp == 1) return;
    MeshAxes axes;
    axes.dp = dp;
    axes.fsdp = fsdp;
    axes.ep = ep;
    axes.tp = tp;
    const Choices choices = Choose(tree_, readings, axes, wishes_);
    if (!MisfitOf(tree_, axes, choices).empty()) return;
    const int64_t shards = dp * fsdp * ep;
    Assumed assumed;
    if (model_ != nullptr && model_->experts_per_token) {
      assumed.experts_per_token = *model_->experts_per_token;
    }
    assumed.tokens = wish_.sequence;
    if (wish_.batch) {
      if (*wish_.batch % shards != 0 && shards % *wish_.batch != 0) return;
      assumed.tokens =
          std::max<int64_t>(1, *wish_.batch * wish_.sequence / shards);
    }
    if (fsdp * ep * tp > wish_.per_host) assumed.data_link = kHostLink;
    if (wish_.devices > wish_.per_host) assumed.replica_link = kHostLink;
    const auto pieces = PiecesOf(tree_, choices);
    const Costs costs = CostOf(tree_, readings, axes, pieces, assumed);
    MeshOption option;
    option.bytes = costs.state + Activations(readings, assumed);
    option.fits = option.bytes <= kUsable * static_cast<double>(wish_.memory);
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
    option.mesh.devices = wish_.devices;
    out_.push_back(std::move(option));
  }

  double Activations(const Readings& readings, const Assumed& assumed) const {
    double layers = 0;
    double width = 0;
    for (size_t k = 0; k < readings.kinds.size(); ++k) {
      const Reading& reading = readings.kinds[k];
      if (!reading.IsMatrix()) continue;
      if (IsAttention(reading.part) || IsMlp(reading.part)) {
        width = std::max(width, static_cast<double>(reading.width_size));
      }
      if (reading.part == Part::kOutput) {
        layers += static_cast<double>(tree_.kinds[k].count());
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
    // Among those as fast as the best: few axes, then little memory.
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
  const MeshWish& wish_;
  const Wishes& wishes_;
  std::vector<MeshOption> out_;
};

}  // namespace

std::vector<MeshOption> MeshesFor(const Tree& tree, const ModelConfig* model,
                                  const MeshWish& wish, const Wishes& wishes) {
  return Picker(tree, model, wish, wishes).Pick();
}

}  // namespace shardc::suggest
