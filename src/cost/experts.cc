// Computes the times of the parts of a step that only models with experts have.
//
// A device routes Tr tokens, of which each chooses k of E experts, so that its
// experts compute r = Tr k rows if the routing is balanced. For example, Qwen3
// 235B with 4,096 tokens on two tensor-parallel H100s (k = 8, width 4,096,
// experts of width 1,536, whole-step graphs for attention and the router):
//
//   rows       16,384
//   matmuls   2 * 16,384 * 4,096 * 3,072 FLOP at 0.87 * 0.71 of 989 TFLOP/s,
//              and half of it again for `down`: 1.03 ms
//   routing    2 (5 r d + 3 r f) bytes at 0.7 of 3.35 TB/s, the router, and 14
//              kernels: 0.47 ms
//
// An all-to-all over e devices on N hosts sends b k (N - 1) / N bytes between
// hosts if each copy of a token is sent, and b (N - 1) (1 - (1 - 1 / N)^k) if a
// token is sent once to each host, where b are the bytes of the tokens.
//
// Sources of the forms and numbers: published operator tables of DeepEP
// (deepseek-ai/DeepEP, README), published runs of Megatron-Bridge, NeMo and
// Megatron-Core's model zoo, listed in testdata/published/moe.csv.
#include "cost/experts.h"

#include <algorithm>
#include <cmath>

#include "comm/collective.h"
#include "source/json.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::cost {
namespace {

// The kernels of the router and of both permutations in the forward pass.
constexpr double kRoutingKernels = 14;
// The fraction of the bfloat16 peak rate that the matmul of the router
// reaches, and the bytes that choosing the experts reads and writes for each
// score.
constexpr double kRouterShare = 0.3, kChoiceBytes = 24;
// The elements that the activation function reads and writes for each element
// of its result.
constexpr double kActivationPasses = 3;

std::optional<JsonValue> ValueOf(const JsonDocument& config,
                                 std::string_view key) {
  const auto text = config.root().Find("text_config");
  const JsonValue root = text && text->IsObject() ? *text : config.root();
  return root.Find(key);
}

std::optional<int64_t> NumberOf(const JsonDocument& config,
                                std::string_view key) {
  const auto found = ValueOf(config, key);
  if (!found || found->kind() != JsonKind::kInteger) return std::nullopt;
  return found->integer();
}

std::unique_ptr<const JsonDocument> ConfigOf(
    const std::optional<ModelConfig>& model) {
  if (!model || model->source == nullptr) return nullptr;
  Findings unreported;  // the configuration was read before
  return JsonDocument::Parse(model->source, unreported);
}

const ParamClass* ExpertsOf(const CostInputs& work) {
  return work.Find(Role::kDown, true);
}

}  // namespace

AxisGroup ExpertAxes(const CostInputs& work, const ParamClass& param) {
  AxisGroup out;
  const auto add = [&](const std::string& axis) { AddOnce(out, axis); };
  const int rank = static_cast<int>(param.type.shape->size());
  for (int d = 0; d < rank; ++d) {
    if (!param.MayCountExperts(d)) continue;
    for (const std::string& axis : DropTrivial(work.mesh, param.AxesAt(d))) {
      add(axis);
    }
  }
  if (work.expert_axes) {
    std::erase_if(out, [&](const std::string& axis) {
      return !IsAmong(axis, *work.expert_axes);
    });
  }
  if (!param.placed_along.empty()) out.push_back(param.placed_along);
  return out;
}

std::optional<int64_t> NextTokenLayers(
    const std::vector<ParamClass>& params,
    const std::optional<ModelConfig>& model) {
  if (!model || !model->experts) return 0;
  const bool present =
      std::any_of(params.begin(), params.end(), [](const ParamClass& param) {
        return param.name.find("eh_proj") != std::string::npos;
      });
  if (present) return 0;
  const auto config = ConfigOf(model);
  if (config == nullptr) return 0;
  constexpr int64_t kMost = 8;
  const auto stated = ValueOf(*config, "num_nextn_predict_layers");
  if (!stated || stated->IsNull()) return 0;
  if (stated->kind() != JsonKind::kInteger || stated->integer() < 0 ||
      stated->integer() > kMost) {
    return std::nullopt;
  }
  return stated->integer();
}

ExpertLayers::ExpertLayers(const CostInputs& work, const Settings& settings,
                           const Stack& stack,
                           const std::vector<Matmul>& matmuls, double layers)
    : settings_(settings),
      dispatcher_(settings.dispatcher.value_or(stack.dispatcher)),
      network_(NetworkOf(*settings.profile, work.WholeMesh())) {
  const ParamClass* const experts = ExpertsOf(work);
  if (experts == nullptr) return;
  for (const Matmul& one : matmuls) {
    if (!one.expert || one.role != Role::kDown) continue;
    layers_ += one.layers;
    rows_ = one.rows;
    inner_ = one.in;
    width_ = one.out;
  }
  if (layers_ == 0) return;
  dense_layers_ = std::max(0.0, layers - layers_);
  chosen_ = Real(work.model ? work.model->experts_per_token.value_or(1) : 1);
  tokens_ = rows_ / chosen_;
  width_ = Real(work.Hidden().value_or(0));
  rows_ *= settings.capacity_factor.value_or(1);
  experts_ = Real(work.Experts());
  const AxisGroup axes = ExpertAxes(work, *experts);
  const AxisGroup split = work.TokenAxes();
  const bool sends = std::any_of(
      axes.begin(), axes.end(),
      [&](const std::string& axis) { return IsAmong(axis, split); });
  // The rates of dispatchers were measured in switched networks.
  if (sends && !IsTorus(network_.fabric)) {
    axes_ = axes;
    place_ = SpanOf(work.WholeMesh(), network_, DropTrivial(work.mesh, axes));
  }
  if (place_.domains > 1) {
    const auto config = ConfigOf(work.model);
    if (config != nullptr) {
      const int64_t groups = NumberOf(*config, "n_group").value_or(1);
      const int64_t chosen = NumberOf(*config, "topk_group").value_or(groups);
      if (chosen < groups) most_hosts_ = Real(chosen);
    }
  }
}

bool ExpertLayers::IsDispatch(const Transfer& one) const {
  return one.part == "experts" && !axes_.empty() &&
         std::all_of(
             one.axes.begin(), one.axes.end(),
             [&](const std::string& axis) { return IsAmong(axis, axes_); });
}

double ExpertLayers::OfMatmul(const Matmul& one, const Rates& rates) const {
  const double rows = one.rows * settings_.capacity_factor.value_or(1);
  const double rate = rates.layers * inner_ / (inner_ + rates.expert_half);
  const double bytes =
      2 * (rows * one.in + rows * one.out + one.in * one.out * one.matrices);
  return rates.skew *
             std::max(2 * rows * one.in * one.out / rate,
                      bytes / rates.matmul_bytes) /
             rates.experts +
         rates.launch;
}

double ExpertLayers::Activation(const Rates& rates) const {
  return rates.skew * 2 * kActivationPasses * rows_ * inner_ /
         (rates.experts * rates.matmul_bytes);
}

double ExpertLayers::Routing(const Rates& rates) const {
  if (!Any()) return 0;
  double elements = rates.permutation_passes * rows_ * width_;
  // The operands of matmuls in 8 bits are cast.
  if (RunsInFp8(settings_)) elements += rows_ * (width_ + inner_);
  const double seconds =
      rates.skew * 2 * elements / rates.matmul_bytes +
      2 * tokens_ * width_ * experts_ / (kRouterShare * rates.peak) +
      kChoiceBytes * tokens_ * experts_ / rates.matmul_bytes +
      kRoutingKernels * rates.launch;
  return seconds / rates.experts + Activation(rates);
}

double ExpertLayers::AllToAll(const Rates& rates) const {
  if (axes_.empty() || place_.members <= 1) return 0;
  const double devices = Real(place_.members), near = Real(place_.near),
               hosts = Real(place_.domains);
  const double link = NearRate(network_, place_);
  const double net = network_.leaving / Real(network_.inside);
  const double bytes =
      tokens_ * width_ * Real(DtypeBits(settings_.activations)) / 8;
  const double inside = bytes * (near - 1) / near / link;
  const double outside = bytes / net;
  const double copies =
      std::max(inside * chosen_ / rates.copies_near,
               outside * chosen_ * (hosts - 1) / hosts / rates.copies_far);
  double seconds = copies;
  if (dispatcher_ != Dispatcher::kAllToAll) {
    const double reached = devices * (1 - std::pow(1 - 1 / devices, chosen_));
    double sent = (hosts - 1) * (1 - std::pow(1 - 1 / hosts, chosen_));
    if (most_hosts_ > 0) {
      sent = std::min(sent, std::min(most_hosts_, hosts) * (hosts - 1) / hosts);
    }
    // Software that sends tokens once can also send copies.
    seconds = std::min(seconds, std::max(inside * reached / rates.tokens_near,
                                         outside * sent / rates.tokens_far));
  }
  return (seconds + rates.dispatch_start + 2 * rates.latency) / rates.dispatch;
}

double ExpertLayers::HostOfLayer(const Rates& rates) const {
  return Any() ? rates.host : 0;
}

double ExpertLayers::Host(const Rates& rates) const {
  return HostOfLayer(rates) * (layers_ + rates.dense_host * dense_layers_);
}

// Computes the seconds of collectives, and decides which computation hides
// them. Collectives of weights are hidden by the computation of other layers.
// Reductions of gradients over replicas are hidden by the backward pass. All
// other collectives are partly exposed. The bytes come from Communication.
//
// For example, eight H100s of one host all-gather weights, and each device
// sends 382 MB. A device's links have a peak rate of 450 GB/s and reach 0.8 of
// it, so the all-gather takes 382 MB / 360 GB/s = 1.1 ms.

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
        return IsAmong(axis, dim);
      };
      if (std::none_of(param.spec.begin(), param.spec.end(), shards)) {
        axes.push_back(axis);
      }
    }
    gathered_.insert(DropTrivial(work.mesh, axes));
  }
}

// Returns the bytes per second that each device of a collective's group sends.
double Exposure::BusRate(const GroupSpan& place, const Rates& rates) const {
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
      one.axes.begin(), one.axes.end(),
      [&](const std::string& axis) { return IsAmong(axis, length); });
}

// Returns whether the backward pass repeats a layer's collectives. If no tensor
// of a layer is kept, software other than XLA repeats all of the layer's
// collectives, even those that no gradient needs.
bool Exposure::RepeatsCollectives() const {
  return settings_.remat.keep == step::Keep::kNothing &&
         stack_.kernel != Kernel::kAny;
}

const Curve* Exposure::CurveOf(Collective kind, const GroupSpan& place,
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
  const GroupSpan place =
      SpanOf(work_.WholeMesh(), network_, DropTrivial(work_.mesh, one.axes));
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
