// Computes the seconds of collectives, and the time of a step.
//
// In a switched network, each device has fast links to the other devices of its
// host, and each host has links to other hosts. Transfers inside hosts and
// between hosts run at the same time, so the slower one determines the time.
// Groups over the same hosts share the bandwidth of these hosts. For example,
// 64 devices in 8 hosts gather S bytes in total. The links of a device reach
// 450e9 bytes per second, and the links of a host to other hosts reach 400e9:
//
//   7/8 S / 450e9 s inside a host, 7/8 S / 400e9 s between hosts
//
// In a torus each axis is a ring. In a closed ring, each of the two directions
// carries half of the bytes. Otherwise one direction carries all of them. A
// collective takes at least the latency of its hops. For example, an all-gather
// on a closed ring of 4 needs 2 hops of a microsecond each. It takes at least 2
// microseconds, even if it gathers only a few bytes.
//
// Sources: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective
// Communication Operations in MPICH", 2005; github.com/jax-ml/scaling-book,
// sharding.md and gpus.md; alpha of NVIDIA's tuning.cc (ring, LL).
#include "cost/time.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "comm/collective_def.h"
#include "comm/reshard.h"
#include "cost/activations.h"
#include "cost/matmuls.h"
#include "cost/rates.h"
#include "cost/unknown_roles.h"
#include "model/mesh_layout.h"

namespace shardc::cost {
namespace {

constexpr double kMicro = 1e-6;
// Latencies of NCCL's ring algorithm with the LL protocol: once per collective,
// per step over NVLink, and per step over the network.
constexpr double kStart = 6.6 * kMicro, kNear = 0.6 * kMicro,
                 kFar = 2.7 * kMicro;
// Latencies of a hop over ICI, and of a step between slices. The latency
// between slices is estimated from round trips in data centres.
constexpr double kHop = 1 * kMicro, kSliceStep = 10 * kMicro;

// Returns whether the ring along a side of a torus is closed. A 2-D torus
// closes a side of 16, a 3-D torus closes sides that are multiples of 4.
bool Closes(Fabric fabric, int64_t side) {
  return fabric == Fabric::kTorus2d ? side == 16 : side % 4 == 0;
}

// Returns how many times the total bytes cross the links in one collective. An
// all-reduce is a reduce-scatter and an all-gather, so the bytes cross the
// links twice. In all other collectives they cross the links once.
double Passes(Collective kind) { return DefOf(kind).passes; }

// Returns the total bytes that a group gathers, scatters or reduces, from the
// bytes that one member sends.
double TotalOf(Collective kind, double sent, int64_t n) {
  const double part = Real(n) / Real(n - 1);
  return sent * part / Passes(kind);
}

double Across(const Network& network, const Place& place, double whole) {
  if (place.domains == 1) return 0;
  return whole * Real(place.domains - 1) / Real(place.domains) *
         Real(place.sharing) / network.leaving;
}

double Alpha(const Network& network, const Place& place, Collective kind) {
  const double far = place.domains > 1 ? Real(place.domains) : 0;
  const double near = Real(place.members - 1) - far;
  return network.start + Passes(kind) * (std::max(near, 0.0) * network.step +
                                         far * network.far_step);
}

double ExchangeSeconds(const Network& network, const Place& place,
                       double sent) {
  const double others = Real(place.members - 1);
  const double inside = sent * Real(place.near - 1) / others;
  const double out = sent * Real(place.members - place.near) / others;
  return std::max(inside / NearRate(network, place),
                  place.domains > 1
                      ? out * Real(place.near * place.sharing) / network.leaving
                      : 0.0);
}

double SwitchSeconds(const Network& network, const Place& place,
                     Collective kind, double sent) {
  const double alpha = Alpha(network, place, kind);
  if (DefOf(kind).route == Route::kShift) {
    const double near = network.fabric == Fabric::kFullMesh
                            ? network.link_rate
                            : network.device_rate;
    // A domain is a set of devices that fast links join. A ring that spans
    // several domains enters and leaves each domain once, so only one member of
    // a domain sends its bytes out of the domain.
    const double far =
        place.domains > 1 ? Real(place.sharing) / network.leaving : 0;
    return network.start +
           (place.domains > 1 ? network.far_step : network.step) +
           sent * std::max(place.near > 1 ? 1 / near : 0.0, far);
  }
  if (DefOf(kind).route == Route::kPairs) {
    return alpha + ExchangeSeconds(network, place, sent);
  }
  const double whole = TotalOf(kind, sent, place.members);
  const double near = whole * Real(place.near - 1) / Real(place.near) /
                      NearRate(network, place);
  return alpha + Passes(kind) * std::max(near, Across(network, place, whole));
}

// Returns the lengths of the rings of a torus that mesh axes of these sizes
// span. An axis that is longer than the longest side of a torus covers several
// dimensions of the torus, with a ring in each.
std::vector<double> RingsOf(Fabric fabric, const std::vector<int64_t>& sides) {
  const double longest = fabric == Fabric::kTorus2d ? 16 : 28;
  std::vector<double> out;
  for (const int64_t side : sides) {
    const int dims = static_cast<int>(std::max(
        1.0, std::ceil(std::log(Real(side)) / std::log(longest) - 1e-9)));
    for (int i = 0; i < dims; ++i) {
      out.push_back(std::pow(Real(side), 1.0 / dims));
    }
  }
  return out;
}

double TorusSeconds(const Network& network, const Place& place, Collective kind,
                    double sent) {
  const double rate = network.link_rate;
  if (DefOf(kind).route == Route::kShift) {
    return std::max(network.step, sent / rate);
  }
  const bool exchange = DefOf(kind).route == Route::kPairs;
  // In an all-to-all, each of n devices has 1 / n of the total bytes. It keeps
  // 1 / n of its bytes and sends the rest.
  const double whole = exchange
                           ? sent * Real(place.members) * Real(place.members) /
                                 Real(place.members - 1)
                           : TotalOf(kind, sent, place.members);
  const std::vector<double> rings = RingsOf(network.fabric, place.sides);
  double hops = 0, seconds = 0;
  bool closed = true;
  for (const double side : rings) {
    const bool closes =
        Closes(network.fabric, static_cast<int64_t>(std::lround(side)));
    closed = closed && closes;
    const double steps = closes ? std::floor(side / 2) : side - 1;
    hops += steps;
    seconds += steps * whole / side / rate;
  }
  const int most = network.fabric == Fabric::kTorus2d ? 2 : 3;
  const double dims = std::min<double>(most, Real(std::ssize(rings)));
  if (!rings.empty()) seconds /= Real(std::ssize(rings)) * dims;
  // In an all-to-all, a byte travels on average half as far as in an
  // all-gather, and a quarter as far if the rings are closed.
  if (exchange) seconds /= closed ? 4 : 2;
  const double inside = std::max(hops * network.step, seconds);
  const double out = exchange ? 0 : Across(network, place, whole);
  const double far =
      place.domains > 1 ? Real(place.domains - 1) * network.far_step : 0;
  return Passes(kind) * std::max(inside, far + out);
}

}  // namespace

bool IsTorus(Fabric fabric) {
  return fabric == Fabric::kTorus2d || fabric == Fabric::kTorus3d;
}

double NearRate(const Network& network, const Place& place) {
  if (network.fabric != Fabric::kFullMesh) return network.device_rate;
  // A device of a full mesh has one link to each of the others.
  return std::min(
      network.device_rate,
      network.link_rate * Real(std::max<int64_t>(place.near - 1, 1)));
}

Network NetworkOf(const DeviceProfile& profile, const Mesh& mesh) {
  Network out;
  const int64_t per_chip = profile.devices_per_chip;
  out.fabric = profile.fabric;
  out.link_rate = profile.link_rate / Real(per_chip);
  out.device_rate = out.link_rate * Real(profile.links);
  int64_t host = profile.chips_per_host * per_chip;
  if (mesh.processes > 1) host = mesh.devices / mesh.processes;
  host = std::max<int64_t>(host, 1);
  int64_t inside = host;
  if (IsTorus(profile.fabric) && profile.fabric_chips != 0) {
    inside = profile.fabric_chips * per_chip;
  } else if (profile.fabric_chips != 0) {
    // A rack whose hosts share one switch.
    inside = std::max(inside, profile.fabric_chips * per_chip);
  } else if (IsTorus(profile.fabric)) {
    inside = mesh.devices / std::max<int64_t>(mesh.slices, 1);
  }
  out.inside =
      std::clamp<int64_t>(inside, 1, std::max<int64_t>(mesh.devices, 1));
  // If a mesh uses only some chips of a host, it uses the same fraction of the
  // host's outgoing links.
  out.leaving = profile.host_rate * Real(out.inside) /
                Real(profile.chips_per_host * per_chip);
  const bool torus = IsTorus(profile.fabric);
  out.start = torus ? 0 : kStart;
  out.step = torus ? kHop : kNear;
  out.far_step = torus ? kSliceStep : kFar;
  return out;
}

Place PlaceOf(const Mesh& mesh, const Network& network, const AxisGroup& axes) {
  Place out;
  const AxisGroup own = DropTrivial(mesh, axes);
  out.members = mesh.Parts(own).value_or(1);
  // Mesh::dcn has the number of slices along each axis, so the number of slices
  // in a group is computed from it and not from device numbers.
  if (mesh.slices > 1 && IsTorus(network.fabric) &&
      mesh.dcn.size() == mesh.axes.size()) {
    for (size_t i = 0; i < mesh.axes.size(); ++i) {
      const MeshAxis& axis = mesh.axes[i];
      if (std::find(own.begin(), own.end(), axis.name) == own.end()) continue;
      out.domains *= mesh.dcn[i];
      if (axis.size / mesh.dcn[i] > 1) {
        out.sides.push_back(axis.size / mesh.dcn[i]);
      }
    }
    out.near = out.members / out.domains;
  } else {
    // Neighbouring devices along an axis differ by `stride` in their numbers,
    // and a domain is a range of consecutive numbers. If the mesh has several
    // slices, the devices of one slice have consecutive numbers. So only the
    // part of an axis that is inside a slice can be in one domain.
    int64_t stride = 1;
    for (size_t i = mesh.axes.size(); i > 0;) {
      --i;
      const MeshAxis& axis = mesh.axes[i];
      const int64_t size = axis.size / SlicesAlong(mesh, i);
      if (std::find(own.begin(), own.end(), axis.name) != own.end()) {
        const int64_t room =
            std::max<int64_t>(1, network.inside / std::max<int64_t>(stride, 1));
        const int64_t near = size <= room ? size : std::gcd(size, room);
        out.near *= near;
        if (near > 1) out.sides.push_back(near);
      }
      stride *= size;
    }
    out.domains = std::max<int64_t>(1, out.members / out.near);
  }
  out.sharing = std::max<int64_t>(1, network.inside / out.near);
  return out;
}

double CollectiveSeconds(const Network& network, const Place& place,
                         Collective kind, double sent) {
  if (place.members == 1 || sent <= 0) return 0;
  return IsTorus(network.fabric) ? TorusSeconds(network, place, kind, sent)
                                 : SwitchSeconds(network, place, kind, sent);
}

double Time::Least() const {
  return std::max({compute, memory, communication});
}

double Time::Most() const { return compute + memory + communication; }

std::optional<double> FlopsOf(const CostInputs& work, const Settings& settings,
                              const Memory& memory) {
  const auto tokens = TokensOf(work, settings);
  if (!tokens || !work.not_known.empty()) return std::nullopt;
  double once = AttentionFlops(work, *tokens), frozen = 0;
  for (const Matmul& matmul : MatmulsOf(work, *tokens)) {
    once += matmul.Flops();
    if (matmul.frozen) frozen += matmul.Flops();
  }
  once *= Real(settings.microbatches);
  frozen *= Real(settings.microbatches);
  if (work.mode != Mode::kTrain) return once;
  double again = 0;
  if (memory.activations && settings.remat.Recomputes()) {
    again = RecomputedShare(*memory.activations);
  }
  return once * (3 + again) - frozen;
}

namespace {

// Returns the seconds of a step's operations at the peak rates. If the step
// runs in 8 bits, only the matmuls of layers do. Attention and the output head
// run in bfloat16.
double ComputeSeconds(const CostInputs& work, const Settings& settings,
                      double flops) {
  const DeviceProfile& profile = *settings.profile;
  const double per_chip = Real(profile.devices_per_chip);
  const double seconds = flops / (profile.bf16_rate / per_chip);
  const auto tokens = TokensOf(work, settings);
  if (!tokens || !RunsInFp8(settings)) return seconds;
  double layers = 0, others = AttentionFlops(work, *tokens);
  for (const Matmul& matmul : MatmulsOf(work, *tokens)) {
    (matmul.role == Role::kHead ? others : layers) += matmul.Flops();
  }
  if (layers <= 0) return seconds;
  const double ratio = profile.bf16_rate / NarrowPeak(settings);
  return seconds * (layers * ratio + others) / (layers + others);
}

}  // namespace

std::optional<Time> TimeOf(const CostInputs& work, const Settings& settings,
                           const Memory& memory, Communication& communication) {
  const DeviceProfile* profile = settings.profile;
  const auto flops = FlopsOf(work, settings, memory);
  // A time without one of its terms would be a lower bound that looks like a
  // figure.
  const bool serves_unknown =
      work.mode != Mode::kTrain && !memory.most.Of(Component::kCache);
  if (profile == nullptr || !flops || work.ServesQuantised() ||
      memory.at_least || serves_unknown || !communication.unknown.empty()) {
    return std::nullopt;
  }
  const double per_chip = Real(profile->devices_per_chip);
  Time out;
  out.compute = ComputeSeconds(work, settings, *flops);
  out.memory = MemoryTrafficOf(work, settings, memory) /
               (profile->memory_rate / per_chip);
  const Network network = NetworkOf(*profile, work.WholeMesh());
  for (Transfer& one : communication.transfers) {
    const Place place =
        PlaceOf(work.WholeMesh(), network, DropTrivial(work.mesh, one.axes));
    one.seconds =
        Real(one.count) * CollectiveSeconds(network, place, one.kind,
                                            Real(one.sent) / Real(one.count));
    out.communication += one.seconds;
  }
  out.bound = Bound::kCompute;
  if (out.memory > out.compute) out.bound = Bound::kMemory;
  if (out.communication > std::max(out.compute, out.memory)) {
    out.bound = Bound::kCommunication;
  }
  return out;
}

}  // namespace shardc::cost
