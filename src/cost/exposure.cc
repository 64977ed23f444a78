// Computes the seconds of collectives, and decides which computation hides
// them. Collectives of weights are hidden by the computation of other layers.
// Reductions of gradients over replicas are hidden by the backward pass. All
// other collectives are partly exposed. The bytes come from Communication.
//
// For example, eight H100s of one host all-gather weights, and each device
// sends 382 MB. A device's links have a peak rate of 450 GB/s and reach 0.8 of
// it, so the all-gather takes 382 MB / 360 GB/s = 1.1 ms.
#include "cost/exposure.h"

#include <algorithm>
#include <cmath>

#include "comm/collective_def.h"
#include "source/index.h"

namespace shardc::cost {
namespace {

constexpr int64_t kTorusSide = 16;

// Returns whether a transfer moves parameters, gradients or the optimizer's
// states.
bool IsState(const Transfer& one) {
  return one.part == "parameters" || one.part == "gradients" ||
         one.part == "optimizer";
}

}  // namespace

Exposure::Exposure(const CostInputs& work, const Settings& settings,
                   const Communication& communication, const Stack& stack,
                   double layers)
    : work_(work),
      settings_(settings),
      communication_(communication),
      stack_(stack),
      layers_(layers),
      network_(NetworkOf(*settings.profile, work.WholeMesh())) {
  for (const ParamClass& param : work.params) {
    AxisGroup axes;
    for (int dim = 0; dim < std::ssize(param.spec); ++dim) {
      for (const std::string& axis : work.GatheredAt(param, dim)) {
        axes.push_back(axis);
      }
    }
    gathered_.insert(DropTrivial(work.mesh, axes));
    if (settings.zero < 2) continue;
    // ZeRO stage 2 reduces gradients layer by layer over the axes of a
    // parameter's replicas, which shard tokens but not the parameter. Stage 3
    // also gathers weights over these axes. So these axes are added to
    // `gathered_`, which lists the axes of all collectives that run layer by
    // layer.
    for (const std::string& axis : work.TokenAxes()) {
      const auto shards = [&](const AxisGroup& dim) {
        return std::find(dim.begin(), dim.end(), axis) != dim.end();
      };
      if (std::none_of(param.spec.begin(), param.spec.end(), shards)) {
        axes.push_back(axis);
      }
    }
    gathered_.insert(DropTrivial(work.mesh, axes));
  }
}

// Returns the bytes per second that each device of a collective's group sends.
double Exposure::BusRate(const Place& place, const Rates& rates) const {
  const double port = rates.far * network_.leaving / Real(network_.inside);
  if (IsTorus(network_.fabric)) {
    if (place.domains > 1) return port;
    const double links = place.members > kTorusSide ? 4 : 2;
    return links * rates.near * network_.link_rate;
  }
  const double near = rates.near * NearRate(network_, place);
  if (place.domains == 1) return near;
  return stack_.one_port ? port : std::min(near, port * Real(place.near));
}

double Exposure::Hosts() const {
  const double host = IsTorus(network_.fabric) ? 256 : Real(network_.inside);
  return std::max(1.0, Real(work_.mesh.devices) / host);
}
double Exposure::Doublings() const { return std::log2(Hosts()); }

double Exposure::GroupLatency(const Rates& rates) const {
  return IsTorus(network_.fabric) ? 0 : rates.host_latency * Hosts();
}

bool Exposure::OfWeights(const Transfer& one) const {
  return !settings_.gathers_once &&
         (one.part == "parameters" || one.part == "gradients") &&
         gathered_.contains(DropTrivial(work_.mesh, one.axes));
}

bool Exposure::OverLength(const Transfer& one) const {
  const AxisGroup& length = work_.Length();
  return std::any_of(
      one.axes.begin(), one.axes.end(), [&](const std::string& axis) {
        return std::find(length.begin(), length.end(), axis) != length.end();
      });
}

// Returns whether the backward pass repeats a layer's collectives. If no tensor
// of a layer is kept, software other than XLA repeats all of the layer's
// collectives, even those that no gradient needs.
bool Exposure::RepeatsCollectives() const {
  return settings_.remat.keep == step::Keep::kNothing &&
         stack_.kernel != Kernel::kAny;
}

const Curve* Exposure::CurveOf(Collective kind, const Place& place,
                               const Rates& rates) {
  if (rates.near_curves == nullptr || place.domains > 1) return nullptr;
  const auto* const found = std::find(
      kCurveCollectives.begin(), kCurveCollectives.end(), CollectiveName(kind));
  if (found == kCurveCollectives.end()) return nullptr;
  const Curve& curve =
      (*rates.near_curves)[AsIndex(found - kCurveCollectives.begin())];
  return curve.empty() ? nullptr : &curve;
}

double Exposure::Seconds(const Transfer& one, const Rates& rates) const {
  const Place place =
      PlaceOf(work_.WholeMesh(), network_, DropTrivial(work_.mesh, one.axes));
  if (place.members == 1 || one.sent == 0) return 0;
  // A shift in a ring takes one latency for each device of the ring.
  const CollectiveDef& of = DefOf(one.kind);
  const double passes =
      of.route == Route::kShift ? Real(place.members) : Real(of.passes);
  double count = Real(one.count);
  double latency = passes * rates.latency;
  if (OfWeights(one)) {
    // All weights of a layer are gathered in one collective, so the number of
    // collectives in a micro-batch is at most the number of layers.
    count = std::min(count, layers_ * Real(settings_.microbatches));
    latency += GroupLatency(rates);
  }
  const Curve* const curve = CurveOf(one.kind, place, rates);
  if (curve != nullptr) {
    // A measured rate includes the latency, so none is added.
    return count * SecondsAt(*curve, Real(one.sent) / count);
  }
  return Real(one.sent) / BusRate(place, rates) + count * latency;
}

Moves Exposure::At(const Rates& rates, const ExpertLayers& experts) const {
  Moves out;
  for (const Transfer& one : communication_.transfers) {
    if (experts.IsDispatch(one)) continue;
    const double seconds = Seconds(one, rates);
    // In ZeRO stage 2 the updated weights are gathered for the next forward
    // pass, so the time of this all-gather is added to the forward pass.
    const bool early = one.part == "parameters" && settings_.zero == 2;
    PassMoves& pass = one.backward && !early ? out.backward : out.forward;
    if (OfWeights(one)) {
      pass.weights += seconds;
    } else if (IsState(one)) {
      out.gradients += seconds;
    } else if (one.part == "experts") {
      pass.experts += seconds;
    } else if (one.part == "attention" && OverLength(one)) {
      pass.ring += seconds;
    } else {
      pass.tensor += seconds;
    }
  }
  if (RepeatsCollectives()) {
    out.backward.tensor = std::max(out.backward.tensor, 2 * out.forward.tensor);
  }
  return out;
}

}  // namespace shardc::cost
