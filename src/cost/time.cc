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
#include <optional>
#include <string>

#include "comm/collective.h"
#include "comm/reshard.h"
#include "cost/activations.h"
#include "cost/memory.h"
#include "cost/rates.h"
#include "cost/unknown_roles.h"
#include "model/mesh_layout.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::cost {
namespace {

// Lists the matmuls of a plan, with their sizes on a device. Each
// weight has one matmul. An output head that shares the embedding table has a
// matmul too. The matmuls inside attention have no weight, and are not in the
// list: AttentionFlops computes their floating-point operations.
//
// For example, the weight `up` [4096, 14336] is in 32 layers, and its dimension
// 14336 is sharded over tp=8. With 16,384 tokens on a device, its entry is:
//
//   rows 16,384, in 4,096, out 1,792, layers 32

// Returns the quotient of a size and of the largest shard's size, or `parts` if
// the size is 0. It is `parts` if they divide the size, and less for uneven
// shards: 18 experts over 32 devices are one expert on each of 18 devices.
double PartsOnFullest(int64_t size, int64_t parts) {
  return size == 0 ? Real(parts) : Real(size) / Real(ShareOf(size, parts));
}

// Sets the rows and the matrices of an expert's matmul. Devices along an axis
// that shards the experts hold different experts. Each therefore computes only
// a part of the rows, unless the axis also shards the tokens: then its devices
// have different rows already, and the rows are not divided again.
void UseExperts(const CostInputs& work, const ParamClass& param,
                Matmul& matmul) {
  matmul.rows *=
      Real(work.model ? work.model->experts_per_token.value_or(1) : 1);
  // The parts into which experts are divided, and those over which their tokens
  // are sent.
  double owners = 1, receivers = 1;
  const AxisGroup split = work.TokenAxes();
  const auto divide = [&](const AxisGroup& axes, int64_t size) {
    owners *= PartsOnFullest(size, work.Parts(axes));
    AxisGroup sent = axes;
    std::erase_if(
        sent, [&](const std::string& axis) { return IsAmong(axis, split); });
    receivers *= PartsOnFullest(size, work.Parts(sent));
  };
  for (int d = 0; d + 2 < param.Rank(); ++d) {
    divide(work.KeptAt(param, d), param.SizeAt(d));
  }
  if (!param.placed_along.empty()) divide({param.placed_along}, 0);
  matmul.matrices = std::max(
      1.0, Real(param.Matrices()) / std::max(matmul.layers, 1.0) / owners);
  matmul.rows /= receivers;
}

double ShareAt(const CostInputs& work, const ParamClass& param, int dim) {
  return Real(
      ShareOf(param.SizeAt(dim), work.Parts(work.Kept(param.AxesAt(dim)))));
}

// Returns the number of parts into which the sharding of the hidden state
// divides a matmul. Over an axis that shards the hidden state but not the
// weight, a device multiplies only its own part of the hidden state, and the
// results are summed. The number is the product of the sizes of these axes. It
// is 1 for matmuls of experts and for matmuls that do not read the hidden
// state.
double HiddenParts(const CostInputs& work, const ParamClass& param) {
  const Role role = param.role.module_role;
  const bool reads = TakesWidth(role) || role == Role::kEmbedding ||
                     role == Role::kLatentDown || role == Role::kFusedKeyValue;
  if (param.role.expert || !reads) return 1;
  AxisGroup axes = work.hidden;
  for (const AxisGroup& own : param.spec) {
    std::erase_if(axes,
                  [&](const std::string& axis) { return IsAmong(axis, own); });
  }
  return Real(work.Parts(axes));
}

// Returns the product of a convolution before the layers of an audio encoder,
// such as Whisper's. The convolution's weight is [out, in, window]. Returns
// nullopt for other parameters. Two frames of audio become one token. The first
// convolution has a result for each frame. The last one, whose input has the
// hidden size, has a result for each token.
std::optional<Matmul> ConvolutionOf(const CostInputs& work,
                                    const ParamClass& param,
                                    const Tokens& tokens) {
  if (!IsEncoderConvolution(param)) return std::nullopt;
  const auto hidden = work.Hidden();
  if (!hidden || param.SizeAt(0) != *hidden) return std::nullopt;
  const double frames = param.SizeAt(1) == *hidden ? 1 : 2;
  return Matmul{.role = Role::kConvolution,
                .rows = frames * Real(tokens.Of(param.stream)),
                .in = ShareAt(work, param, 1) * Real(param.SizeAt(2)),
                .out = ShareAt(work, param, 0),
                .layers = Real(param.count)};
}

}  // namespace

std::vector<Matmul> MatmulsOf(const CostInputs& work, const Tokens& tokens) {
  LayerCounts layers(work);
  std::vector<Matmul> out;
  const double all = Real(tokens.All());
  // Serving computes the logits of a sequence's last token only.
  const double ends = work.mode == Mode::kTrain ? all : Real(tokens.rows);
  for (const ParamClass& param : work.params) {
    if (const auto convolution = ConvolutionOf(work, param, tokens)) {
      out.push_back(*convolution);
    }
    if (!param.IsWeight()) continue;
    Matmul one;
    one.role = param.role.module_role;
    one.expert = param.role.expert;
    one.frozen = param.frozen;
    one.shared_expert = param.role.shared_expert;
    one.rows = !one.expert && one.role == Role::kHead
                   ? ends
                   : Real(tokens.Of(param.stream));
    if (one.rows == 0) continue;
    const int64_t parts = work.Parts(work.Kept(param.AxesAt(param.in_dim)));
    one.in = Real(param.Inputs()) /
             PartsOnFullest(param.SizeAt(param.in_dim), parts) /
             HiddenParts(work, param);
    one.out = ShareAt(work, param, param.out_dim);
    one.layers = Real(layers.Of(param));
    // A layer that predicts a further token has experts and a head.
    if (!one.OfDenseMlp()) one.layers += Real(work.next_token_layers);
    if (one.expert) UseExperts(work, param, one);
    out.push_back(one);
  }
  const ParamClass* table = work.Find(Role::kEmbedding);
  if (work.Find(Role::kHead) == nullptr && table != nullptr &&
      table->type.shape->size() == 2 && !IsEncoderAlone(work)) {
    out.push_back({.role = Role::kHead,
                   .frozen = table->frozen,
                   .rows = ends,
                   .in = ShareAt(work, *table, 1) / HiddenParts(work, *table),
                   .out = ShareAt(work, *table, 0),
                   .layers = 1 + Real(work.next_token_layers)});
  }
  return out;
}

namespace {

// Returns the number of layers whose attention computes its keys from the
// tokens of `stream`, for example from those of the encoder. These are the
// layers with a projection of keys that is applied to these tokens.
double AttentionLayers(const CostInputs& work, Stream stream) {
  LayerCounts layers(work);
  double out = 0;
  for (const ParamClass& param : work.params) {
    const Role role = param.role.module_role;
    const bool keys = role == Role::kKey || role == Role::kFusedKeyValue ||
                      role == Role::kFusedQkv;
    if (param.IsWeight() && param.stream == stream && keys) {
      out += Real(layers.Of(param));
    }
  }
  return out;
}

}  // namespace

int64_t HeadParts(const CostInputs& work) {
  if (!work.model || !work.model->heads) return work.Parts(work.query[2]);
  int64_t parts = 1;
  for (const std::string& axis : work.query[2]) {
    const int64_t all = Times(parts, work.mesh.SizeOf(axis));
    if (*work.model->heads % all != 0) break;
    parts = all;
  }
  return parts;
}

double AttentionFlops(const CostInputs& work, const Tokens& tokens) {
  const auto& model = work.model;
  if (!model || !model->heads || !model->head_dim || !model->layers) return 0;
  const double layers =
      work.LayersWithAttention().value_or(Real(*model->layers)) +
      Real(work.next_token_layers);
  const auto limit =
      model->sliding_window ? model->sliding_window : model->attention_chunk;
  const double windowed = limit ? work.LayersWithWindow() : 0;
  const double heads = Real(*model->heads) / Real(HeadParts(work));
  // With causal attention, a query attends to half of the keys on average, or
  // to half of its chunk. With a sliding window, the first queries attend to
  // fewer keys than the window: with 64 tokens and a window of 16, a query
  // attends to 14 keys on average.
  const bool sees_all =
      IsGeneration(work.mode) || !model->causal || !work.causal;
  const double seen = sees_all ? 1 : 0.5;
  const double keys = Real(tokens.keys);
  double window = std::min(keys, Real(limit.value_or(tokens.keys)));
  if (!sees_all) {
    window *=
        model->sliding_window ? 1 - window / (2 * std::max(keys, 1.0)) : 0.5;
  }
  // With latent attention, and in MiMo-V2, a head's values are narrower than
  // its keys.
  const int64_t key = *model->head_dim;
  const auto narrow =
      model->latent_value_dim ? model->latent_value_dim : model->value_dim;
  const double width = Real(key) + Real(narrow.value_or(key));
  const int64_t windowed_key = model->windowed_head_dim.value_or(key);
  const int64_t windowed_value =
      model->windowed_value_dim.value_or(narrow.value_or(windowed_key));
  // `width` is the size of a head's key plus that of its value. Some layers
  // with full attention, or with a window, have heads of another size, and
  // layers with a window may also have another number of heads. Their
  // operations are multiplied by `full_width` or `windowed_width`.
  const double full_width =
      Real(model->full_head_dim.value_or(key)) / Real(key);
  const double windowed_width =
      (Real(windowed_key) + Real(windowed_value)) / width *
      Real(model->windowed_heads.value_or(*model->heads)) / Real(*model->heads);
  const double all = IsEncoderAlone(work)
                         ? 0
                         : (layers - windowed) * keys * seen * full_width +
                               windowed * window * windowed_width;
  // The tokens of an encoder, and cross-attention, attend to all keys of the
  // encoder.
  const double encoder_keys = Real(tokens.encoder_keys);
  const double crossed = AttentionLayers(work, Stream::kCrossed) * encoder_keys;
  const double encoder = AttentionLayers(work, Stream::kEncoder) * encoder_keys;
  double parts = 1;
  if (IsGeneration(work.mode)) parts = Real(work.Parts(work.key[1]));
  const double pairs = Real(tokens.All()) * (all + crossed) / parts +
                       Real(tokens.Of(Stream::kEncoder)) * encoder;
  return 2 * heads * width * pairs;
}

// Computes the bytes of memory that a step reads and writes. Serving reads
// weights and cache once. Training reads the parameters once. It reads the
// gradients and the optimizer's states once and writes them once.
//
// A serving step reads only the experts that its tokens choose. If each of T
// tokens chooses k of E experts, and all experts are chosen equally often, no
// token chooses an expert with the probability (1 - k/E)^T. For example, in
// DeepSeek-V3 a token chooses 8 of 256 experts:
//
//     1 token      8 experts of a layer are read
//    16 tokens    102
//   256 tokens    256

int64_t SendersTo(const CostInputs& work, const ParamClass& experts) {
  AxisGroup axes;
  const auto add = [&](const AxisGroup& owners) {
    const AxisGroup tokens = work.TokenAxes();
    for (const std::string& axis : owners) {
      const bool sends = IsAmong(axis, tokens);
      const bool fresh = !IsAmong(axis, axes);
      if (sends && fresh) axes.push_back(axis);
    }
  };
  for (int d = 0; d < std::ssize(experts.spec); ++d) {
    if (experts.MayCountExperts(d)) add(work.KeptAt(experts, d));
  }
  if (!experts.placed_along.empty()) add({experts.placed_along});
  return work.Parts(axes);
}

namespace {

// Returns the bytes of parameters on the device that reads the most.
double ParametersRead(const CostInputs& work, const Settings& settings,
                      double chosen) {
  HeldBytes experts, others;
  for (const ParamClass& param : work.params) {
    Hold(param, StatesOf(work, param, settings).parameter,
         param.role.expert ? experts : others);
  }
  return Real(others.Fullest().value_or(0)) +
         chosen * Real(experts.Fullest().value_or(0));
}

}  // namespace

std::optional<double> ChosenExperts(const CostInputs& work,
                                    const Settings& settings) {
  const ParamClass* const experts = work.Find(Role::kDown, true);
  const auto tokens = TokensOf(work, settings);
  if (work.mode == Mode::kTrain || experts == nullptr || !tokens ||
      !work.model || !work.model->experts_per_token) {
    return std::nullopt;
  }
  const double all = Real(work.Experts());
  const double share = Real(*work.model->experts_per_token) / all;
  if (!(share < 1)) return 1;
  const double sent = Real(tokens->All()) * Real(SendersTo(work, *experts));
  // 1 - (1 - share)^sent, without a loss of digits if the share is small.
  return -std::expm1(sent * std::log1p(-share));
}

double MemoryTrafficOf(const CostInputs& work, const Settings& settings,
                       const Memory& memory) {
  const auto of = [&](Component component) {
    return Real(memory.most.Of(component).value_or(0));
  };
  double parameters = of(Component::kParameters);
  if (const auto chosen = ChosenExperts(work, settings)) {
    parameters = std::min(parameters, ParametersRead(work, settings, *chosen));
  }
  double out = parameters + of(Component::kCache);
  if (work.mode == Mode::kTrain) {
    out +=
        2 * Real(memory.gradients.value_or(0)) + 2 * of(Component::kOptimizer);
  }
  return out;
}

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

double Across(const Network& network, const GroupSpan& place, double whole) {
  if (place.domains == 1) return 0;
  return whole * Real(place.domains - 1) / Real(place.domains) *
         Real(place.sharing) / network.leaving;
}

double Alpha(const Network& network, const GroupSpan& place, Collective kind) {
  const double far = place.domains > 1 ? Real(place.domains) : 0;
  const double near = Real(place.members - 1) - far;
  return network.start + Passes(kind) * (std::max(near, 0.0) * network.step +
                                         far * network.far_step);
}

double ExchangeSeconds(const Network& network, const GroupSpan& place,
                       double sent) {
  const double others = Real(place.members - 1);
  const double inside = sent * Real(place.near - 1) / others;
  const double out = sent * Real(place.members - place.near) / others;
  return std::max(inside / NearRate(network, place),
                  place.domains > 1
                      ? out * Real(place.near * place.sharing) / network.leaving
                      : 0.0);
}

double SwitchSeconds(const Network& network, const GroupSpan& place,
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

double TorusSeconds(const Network& network, const GroupSpan& place,
                    Collective kind, double sent) {
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

double NearRate(const Network& network, const GroupSpan& place) {
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

GroupSpan SpanOf(const Mesh& mesh, const Network& network,
                 const AxisGroup& axes) {
  GroupSpan out;
  const AxisGroup own = DropTrivial(mesh, axes);
  out.members = mesh.Parts(own).value_or(1);
  // Mesh::dcn has the number of slices along each axis, so the number of slices
  // in a group is computed from it and not from device numbers.
  if (mesh.slices > 1 && IsTorus(network.fabric) &&
      mesh.dcn.size() == mesh.axes.size()) {
    for (size_t i = 0; i < mesh.axes.size(); ++i) {
      const MeshAxis& axis = mesh.axes[i];
      if (!IsAmong(axis.name, own)) continue;
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
      if (IsAmong(axis.name, own)) {
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

double CollectiveSeconds(const Network& network, const GroupSpan& place,
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

std::optional<double> ModelFlopsOf(const CostInputs& work,
                                   const Settings& settings) {
  // One device that holds everything repeats nothing.
  CostInputs one = work;
  for (ParamClass& param : one.params) {
    for (AxisGroup& axes : param.spec) axes.clear();
    param.placed.clear();
    param.placed_along.clear();
  }
  for (Spec* spec : {&one.query, &one.key, &one.value, &one.output}) {
    for (AxisGroup& axes : *spec) axes.clear();
  }
  one.hidden.clear();
  one.kv_parts.reset();
  if (one.expert_axes) one.expert_axes->clear();
  Settings all_rows = settings;
  all_rows.microbatches = 1;
  return FlopsOf(one, all_rows, Memory{});
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
    const GroupSpan place =
        SpanOf(work.WholeMesh(), network, DropTrivial(work.mesh, one.axes));
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
