// Estimates the time of a training step. The step has these parts:
//
// - A matmul takes as long as its floating-point operations at a
//   fraction of the peak rate, or as long as reading and writing its operands
//   if this is longer.
// - Attention runs at a fraction of the peak rate that depends on the kernel.
// - Norms and activation functions take as long as reading and writing their
//   operands.
// - An all-gather of weights runs while another layer is computed, so only the
//   longer of the two counts. A hidden all-gather also slows the computation
//   down, by a fraction of the all-gather's own time.
// - The time of collectives of activations is added.
//
// For example, a layer's forward pass takes 20.96 ms, and the all-gather of the
// next layer's weights takes 1.08 ms. If a hidden all-gather slows the
// computation down by 15 % of the all-gather's own time, both together take
// max(20.96 + 0.15 * 1.08, 1.08) = 21.12 ms.
//
// Which collectives a step has, and their bytes, come from Communication, as
// for all other figures of `shardc cost`.
#include "cost/expected.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "cost/experts.h"
#include "cost/memory.h"
#include "cost/rates.h"
#include "cost/time.h"
#include "cost/unknown_roles.h"
#include "model/mesh_layout.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::cost {
namespace {

// The number of element-wise kernels in the forward pass of a layer.
constexpr double kOtherKernels = 8;
// The bytes of memory that the loss reads and writes for each logit, in the
// forward and the backward pass together.
constexpr double kLossBytes = 20;
// The bytes of memory that unfused attention reads and writes for each score.
constexpr double kScoreBytes = 11;
// The same for flash attention whose kernel cannot add sinks to the softmax.
constexpr double kSinkScoreBytes = 5;
// The bytes of memory that recomputing both norms of a layer with experts reads
// and writes for each element of the hidden state.
constexpr double kNormBytes = 8;
// Ring attention sends keys and values while it computes. Even if computation
// hides such a transfer, the step becomes longer by this fraction of the
// transfer's time.
constexpr double kRingCost = 0.1;
// Reductions of gradients run while a micro-batch is computed. At most this
// fraction of the micro-batch's time can hide them.
constexpr double kGradientsHidden = 0.8;
// The fraction of the reductions' time that is added to the step even if the
// reductions are hidden.
constexpr double kGradientsCost = 0.05;

// The seconds of a forward pass over all layers and micro-batches, or of the
// part of it that the backward pass recomputes.
struct Pass {
  // `routing` is ExpertLayers::Routing() of all layers.
  double matmuls = 0, attention = 0, other = 0, routing = 0;
  double Sum() const { return matmuls + attention + other + routing; }
};

double LayerCount(const CostInputs& work, const std::vector<Matmul>& matmuls) {
  double out = 0;
  for (const Matmul& one : matmuls) {
    if (one.role == Role::kOutput) out += one.layers;
  }
  if (work.model) out = std::max(out, Real(work.model->layers.value_or(0)));
  return std::max(out, 1.0);
}

// Returns whether the parameter is a vector of a head's size: the scale of a
// norm of each head, as that of the queries in Qwen3.
bool IsNormOfHead(const CostInputs& work, const ParamClass& param) {
  const auto head = work.model ? work.model->head_dim : std::nullopt;
  return head && !param.IsWeight() && param.role.leaf != Leaf::kBias &&
         param.type.shape && !param.type.shape->empty() &&
         param.type.shape->back() == *head && work.Hidden() != head;
}

class StepTime {
 public:
  StepTime(const CostInputs& work, const Settings& settings,
           const Memory& memory, const Communication& communication,
           const Stack& stack, const Tokens& tokens, double hidden)
      : work_(work),
        settings_(settings),
        memory_(memory),
        stack_(stack),
        tokens_(tokens),
        hidden_(hidden),
        matmuls_(MatmulsOf(work, tokens)),
        layers_(LayerCount(work, matmuls_)),
        experts_(work, settings, stack, matmuls_, layers_),
        exposure_(work, settings, communication, stack, layers_),
        unfused_(IsUnfused(settings, stack)),
        stores_sinks_(experts_.Any() && work.model &&
                      work.model->attention_sinks && !stack.fuses_sinks),
        norms_heads_(std::any_of(work.params.begin(), work.params.end(),
                                 [&](const ParamClass& param) {
                                   return IsNormOfHead(work, param);
                                 })),
        optimizer_bytes_(OptimizerBytes()) {}

  std::vector<TimePart> PartsAt(const Rates& rates) const {
    const Pass forward = ForwardAt(rates);
    const Pass again = RecomputedOf(forward, rates);
    const Pass backward = {2 * forward.matmuls - FrozenMatmuls(rates),
                           forward.attention * AttentionBackward(),
                           2 * forward.other, 2 * forward.routing};
    const Moves moves = exposure_.At(rates, experts_);
    Exposed before = ExposedOf(moves.forward, forward.attention, rates);
    Exposed after = ExposedOf(moves.backward, backward.attention, rates);
    before.experts += DispatchAt(rates, 2);
    after.experts += DispatchAt(rates, RepeatsDispatch() ? 4 : 2);
    const double forward_s = forward.Sum() + before.Sum();
    const double backward_s = backward.Sum() + again.Sum() + after.Sum();
    const double weights = WeightsAt(moves, forward_s, backward_s, rates);
    double layers_s = forward_s + backward_s + weights;
    const double host = std::max(
        0.0, Real(settings_.microbatches) * experts_.Host(rates) - layers_s);
    layers_s += host;
    const double head = HeadAt(rates);
    const double gradients = GradientsAt(moves.gradients, layers_s);
    const double optimizer = optimizer_bytes_ / rates.optimizer_bytes;
    const double step = layers_s + head + gradients + optimizer;
    std::vector<TimePart> out = {
        {"matmuls", forward.matmuls + backward.matmuls},
        {"attention", forward.attention + backward.attention},
        {"other_operations", forward.other + backward.other},
        {"recomputation", again.Sum()},
        {"head_and_loss", head},
        {"tensor_collectives", before.tensor + after.tensor},
        {"weight_collectives", weights},
        {"context_collectives", before.ring + after.ring},
        {"expert_collectives", before.experts + after.experts},
        {"gradients", gradients},
        {"optimizer", optimizer},
        {"scale", step * rates.scale * exposure_.Doublings()}};
    if (experts_.Any()) {
      out.insert(out.begin() + 3,
                 {"expert_routing", forward.routing + backward.routing});
      out.insert(out.end() - 1, {"host", host});
    }
    return out;
  }

  // Returns the parts of a layer with experts for one micro-batch, in the
  // forward and the backward pass. Collectives of weights and of
  // tensor-parallel activations, and recomputation, have the mean times of all
  // layers.
  std::vector<TimePart> ExpertLayerAt(const Rates& rates) const {
    if (!experts_.Any()) return {};
    const double mean = Real(settings_.microbatches) * layers_;
    const std::vector<TimePart> step = PartsAt(rates);
    const auto part = [&](std::string_view name) {
      const auto found =
          std::find_if(step.begin(), step.end(),
                       [&](const TimePart& one) { return one.name == name; });
      return found->seconds / mean;
    };
    const auto matmuls = [&](bool experts) {
      const auto of = [&](bool frozen) {
        return LayerMatmuls(rates, true, [&](const Matmul& one) {
          return one.expert == experts && !one.OfDenseMlp() &&
                 (!frozen || one.frozen);
        });
      };
      return 3 * of(false) - of(true);
    };
    std::vector<TimePart> out = {
        {"matmuls", matmuls(false)},
        {"attention", part("attention")},
        {"other_operations", 3 * (OtherBytes(true) / rates.other_bytes +
                                  kOtherKernels * rates.launch)},
        {"expert_matmuls", matmuls(true)},
        {"expert_routing", 3 * experts_.Routing(rates)},
        {"recomputation", part("recomputation")},
        {"tensor_collectives", part("tensor_collectives")},
        {"weight_collectives", part("weight_collectives")},
        {"context_collectives", part("context_collectives")},
        {"expert_collectives",
         part("expert_collectives") * layers_ / experts_.Layers()}};
    double sum = 0;
    for (const TimePart& one : out) sum += one.seconds;
    out.push_back({"host", std::max(0.0, experts_.HostOfLayer(rates) - sum)});
    return out;
  }

 private:
  // The seconds of a pass's collectives that are not hidden by computation.
  struct Exposed {
    double tensor = 0, ring = 0, experts = 0;
    double Sum() const { return tensor + ring + experts; }
  };
  // A ring's transfers run while attention computes with the blocks that have
  // already arrived. While hidden, a transfer adds the fraction kRingCost of
  // its time.
  static Exposed ExposedOf(const PassMoves& moves, double attention,
                           const Rates& rates) {
    return {rates.exposed * moves.tensor,
            std::max(0.0, moves.ring - attention) +
                kRingCost * std::min(moves.ring, attention),
            rates.experts_exposed * moves.experts};
  }

  // Returns the seconds that collectives of weights add to both passes. If the
  // collectives take longer than the computation of a pass, they determine the
  // length of the pass. Otherwise they slow the computation down by a fraction
  // of their time. The collectives of the first and the last layer are not
  // hidden.
  double WeightsAt(const Moves& moves, double forward_s, double backward_s,
                   const Rates& rates) const {
    const double before = moves.forward.weights, after = moves.backward.weights;
    return std::max(rates.hidden_cost * before, before - forward_s) +
           std::max(rates.hidden_cost * after, after - backward_s) +
           (before + after) / layers_;
  }

  // Returns whether the backward pass sends the tokens to their experts again.
  // If so, it repeats all of the layer's experts.
  bool RepeatsDispatch() const {
    return settings_.remat.keep == step::Keep::kNothing ||
           (settings_.remat.Recomputes() && memory_.activations &&
            IsRecomputed("dispatched"));
  }

  // Returns the exposed seconds of `count` all-to-alls for each layer and
  // micro-batch.
  double DispatchAt(const Rates& rates, double count) const {
    return rates.dispatch_exposed * count * experts_.AllToAll(rates) *
           experts_.Layers() * Real(settings_.microbatches);
  }

  double AttentionBackward() const {
    return unfused_ || stores_sinks_ ? kUnfusedBackward : kFlashBackward;
  }

  double GradientsAt(double seconds, double layers_s) const {
    if (!stack_.hides_gradients) return seconds;
    const double hidden =
        kGradientsHidden * layers_s / Real(settings_.microbatches);
    return std::max(0.0, seconds - hidden) + kGradientsCost * seconds;
  }

  // Returns an identifier of the kernel that multiplies a role's weight. One
  // kernel multiplies the weights of queries, keys and values with the same
  // rows, so these roles have the same identifier. Gate and up share another
  // identifier.
  static int KernelOf(Role role) {
    switch (role) {
      case Role::kQuery:
      case Role::kKey:
      case Role::kValue:
      case Role::kFusedKeyValue:
      case Role::kFusedQkv:
        return 0;
      case Role::kGate:
      case Role::kUp:
      case Role::kFusedGateUp:
        return 1;
      default:
        return 2 + static_cast<int>(role);
    }
  }

  // Returns the seconds of a matmul in all layers that have it. The
  // matmul runs in bfloat16 or in 8 bits. In both cases its operands and
  // result are read and written with two bytes per element.
  static double MatmulSeconds(const Matmul& one, double rate,
                              const Curve* curve, const Rates& rates) {
    if (curve != nullptr) {
      rate *= ValueAt(*curve, std::min({one.rows, one.in, one.out}));
    }
    const double bytes = 2 * (one.rows * one.in + one.rows * one.out +
                              one.in * one.out * one.matrices);
    return one.layers * (std::max(2 * one.rows * one.in * one.out / rate,
                                  bytes / rates.matmul_bytes) +
                         rates.launch);
  }

  // Returns the seconds of the matmuls of all layers, or of those of one layer
  // for a single micro-batch. The matmul of the router is a part of
  // ExpertLayers::Routing().
  template <typename Counts>
  double LayerMatmuls(const Rates& rates, bool one_layer,
                      const Counts& counts) const {
    std::map<std::tuple<int, bool, double, double, double>, Matmul> kernels;
    for (const Matmul& one : matmuls_) {
      if (one.role == Role::kHead || !counts(one)) continue;
      if (one.role == Role::kRouter && experts_.Any()) continue;
      auto& kernel = kernels[{KernelOf(one.role), one.expert, one.layers,
                              one.rows, one.in}];
      const double out = kernel.out + one.out;
      kernel = one;
      kernel.out = out;
    }
    double seconds = 0;
    for (auto& [key, kernel] : kernels) {
      if (one_layer) kernel.layers = 1;
      seconds +=
          kernel.expert
              ? kernel.layers * experts_.OfMatmul(kernel, rates)
              : MatmulSeconds(kernel, rates.layers, rates.layer_curve, rates);
    }
    return one_layer ? seconds : seconds * Real(settings_.microbatches);
  }

  // Returns the seconds of the gradients that weights without a gradient save
  // in the backward pass.
  double FrozenMatmuls(const Rates& rates) const {
    return LayerMatmuls(rates, false,
                        [](const Matmul& one) { return one.frozen; });
  }

  Pass ForwardAt(const Rates& rates) const {
    const double micro = Real(settings_.microbatches);
    Pass out;
    out.matmuls =
        LayerMatmuls(rates, false, [](const Matmul&) { return true; });
    out.routing = micro * experts_.Layers() * experts_.Routing(rates);
    const double flops = AttentionFlops(work_, tokens_);
    if (unfused_) {
      out.attention = micro * (4 * flops / rates.attention +
                               kScoreBytes * Scores() / rates.other_bytes);
    } else if (stores_sinks_) {
      // All scores are computed, those of later tokens too.
      const double width = Real(work_.model->head_dim.value_or(0));
      out.attention = micro * (4 * Scores() * width / rates.attention +
                               kSinkScoreBytes * Scores() / rates.matmul_bytes +
                               layers_ * rates.launch);
    } else {
      out.attention =
          micro * (flops / rates.attention + layers_ * rates.launch);
    }
    out.other = micro * (OtherBytes(false) / rates.other_bytes +
                         kOtherKernels * layers_ * rates.launch);
    return out;
  }

  double Scores() const {
    const auto& model = work_.model;
    const double heads = model ? Real(model->heads.value_or(0)) : 0;
    const double layers = work_.LayersWithAttention().value_or(layers_);
    return Real(tokens_.All()) * Real(tokens_.keys) * heads /
           Real(cost::HeadParts(work_)) * layers;
  }

  // Returns the bytes that norms, residual sums, rotations, activation
  // functions and casts to 8 bits read and write for one micro-batch, with two
  // bytes per element. With `one_layer`, returns those of a layer with experts.
  // Those of experts themselves are a part of ExpertLayers::Routing().
  double OtherBytes(bool one_layer) const {
    double elements = 0, split = Real(work_.Parts(work_.hidden));
    // The number of rows of attention's output projections, summed over layers.
    double outputs = 0;
    for (const Matmul& one : matmuls_) {
      if (experts_.Any() && (one.expert || (one_layer && one.OfDenseMlp()))) {
        continue;
      }
      const double layer_rows = one_layer ? one.rows : one.rows * one.layers;
      switch (one.role) {
        case Role::kQuery:
        case Role::kKey:
        case Role::kValue:
        case Role::kFusedQkv:
        case Role::kFusedKeyValue:
          elements += 2 * layer_rows * one.out;
          // Norms of queries and keys.
          if (experts_.Any() && norms_heads_ &&
              (one.role == Role::kQuery || one.role == Role::kKey)) {
            elements += 2 * layer_rows * one.out;
          }
          if (RunsInFp8(settings_) && one.role != Role::kKey &&
              one.role != Role::kValue) {
            elements += layer_rows * one.in;
          }
          break;
        case Role::kLatentDown:
          if (experts_.Any() && RunsInFp8(settings_)) {
            elements += layer_rows * one.in / 2;
          }
          break;
        case Role::kLatentUp:
          if (experts_.Any()) elements += 2 * layer_rows * one.out;
          break;
        case Role::kGate:
        case Role::kUp:
          elements += layer_rows * one.out;
          break;
        case Role::kFusedGateUp:
          elements += layer_rows * one.out;
          break;
        case Role::kDown:
          elements += layer_rows * one.in;
          if (RunsInFp8(settings_)) elements += layer_rows * (one.in + hidden_);
          break;
        case Role::kOutput:
          outputs += layer_rows;
          if (RunsInFp8(settings_)) elements += layer_rows * one.in;
          if (stack_.splits_norms) {
            split = std::max(split, HeadParts());
          }
          break;
        default:
          break;
      }
    }
    // The encoder and the decoder have different numbers of tokens, so the rows
    // are summed over the layers of both.
    double rows =
        tokens_.encoder_length > 0 ? outputs : Real(tokens_.All()) * layers_;
    if (one_layer) rows = Real(tokens_.All());
    elements += 10 * rows * hidden_ / split;
    return 2 * elements;
  }

  // Returns the elements of the hidden state of one micro-batch, over all
  // layers.
  double NormElements() const {
    double split = Real(work_.Parts(work_.hidden));
    if (stack_.splits_norms) split = std::max(split, HeadParts());
    return Real(tokens_.All()) * layers_ * hidden_ / split;
  }

  // Returns the number of parts into which the heads are divided. It is the
  // product of the sizes of the axes that shard the heads and do not shard the
  // tokens.
  double HeadParts() const {
    AxisGroup axes = work_.query[2];
    const AxisGroup tokens = work_.TokenAxes();
    std::erase_if(
        axes, [&](const std::string& axis) { return IsAmong(axis, tokens); });
    return Real(work_.Parts(axes));
  }

  static std::string_view TensorOf(Role role) {
    switch (role) {
      case Role::kQuery:
        return "q_proj";
      case Role::kKey:
        return "k_proj";
      case Role::kValue:
        return "v_proj";
      case Role::kFusedQkv:
        return "qkv_proj";
      case Role::kFusedKeyValue:
        return "kv_proj";
      case Role::kLatentDown:
        return "latent_down";
      case Role::kLatentUp:
        return "latent_up";
      case Role::kOutput:
        return "out_proj";
      case Role::kGate:
      case Role::kFusedGateUp:
        return "gate_proj";
      case Role::kUp:
        return "up_proj";
      case Role::kRouter:
        return "router";
      case Role::kOther:  // the input projection of a mixer, as in Mamba
        return "in_proj";
      default:
        return {};
    }
  }

  // Returns whether the backward pass recomputes a tensor of this name.
  bool IsRecomputed(std::string_view name) const {
    const auto& tensors = memory_.activations->tensors;
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](const LayerTensor& tensor) {
                         return tensor.what.name == name && tensor.repeated;
                       });
  }

  Pass RecomputedOf(const Pass& forward, const Rates& rates) const {
    if (!settings_.remat.Recomputes() || !memory_.activations) return {};
    // With `nothing_saveable`, frameworks repeat a layer's complete forward
    // pass, including tensors that no gradient needs.
    if (settings_.remat.keep == step::Keep::kNothing) return forward;
    Pass out;
    out.matmuls = LayerMatmuls(rates, false, [&](const Matmul& one) {
      if (one.expert && RepeatsDispatch()) return true;
      const std::string_view name = TensorOf(one.role);
      return !name.empty() && IsRecomputed(name);
    });
    if (IsRecomputed("context") || IsRecomputed("logits")) {
      out.attention = forward.attention;
    }
    if (!experts_.Any()) {
      if (IsRecomputed("norm") || IsRecomputed("activation")) {
        out.other = forward.other;
      }
      return out;
    }
    const double micro = Real(settings_.microbatches);
    if (IsRecomputed("norm")) {
      out.other = micro * kNormBytes * NormElements() / rates.other_bytes;
    }
    if (RepeatsDispatch()) {
      out.routing = forward.routing;
    } else if (IsRecomputed("product")) {
      out.routing = micro * experts_.Layers() * experts_.Activation(rates);
    }
    return out;
  }

  double HeadAt(const Rates& rates) const {
    double seconds = 0;
    for (const Matmul& one : matmuls_) {
      if (one.role != Role::kHead) continue;
      seconds +=
          (one.frozen ? 2 : 3) *
              MatmulSeconds(one, rates.head, rates.head_curve, rates) +
          kLossBytes * one.rows * one.out * one.layers / rates.other_bytes;
    }
    return seconds * Real(settings_.microbatches);
  }

  // Returns the bytes that the optimizer's update reads and writes: the
  // optimizer states, the parameter and its gradient. If the states are in the
  // memory of the host, all of these bytes are read and written there, or are
  // sent there and back.
  double OptimizerBytes() const {
    double out = 0;
    for (const ParamClass& param : work_.params) {
      if (!param.type.shape || !IsTrained(param)) continue;
      const StateBytes states = StatesOf(work_, param, settings_);
      const auto elements =
          CheckedProduct(ShardShape(work_.mesh, *param.type.shape, param.spec));
      const double parts =
          settings_.zero > 0 ? Real(ReplicaParts(work_, param)) : 1;
      const bool wide = DtypeBits(*param.type.dtype) >= 32;
      out += Real(param.CountOnDevice()) *
             (2 * Real(states.optimizer.value_or(0)) +
              2 * Real(states.offloaded.value_or(0)) +
              Real(elements.value_or(0)) / parts * (wide ? 18 : 10));
    }
    return out;
  }

  const CostInputs& work_;
  const Settings& settings_;
  const Memory& memory_;
  const Stack& stack_;
  const Tokens tokens_;
  const double hidden_;
  const std::vector<Matmul> matmuls_;
  const double layers_;
  const ExpertLayers experts_;
  const Exposure exposure_;
  const bool unfused_;
  // True if attention stores scores because its kernel cannot add sinks.
  const bool stores_sinks_;
  // True if queries and keys are normalised.
  const bool norms_heads_;
  const double optimizer_bytes_;
};

// Returns the time of the step, or nullopt when ExpectedTimeOf returns nullopt.
std::optional<StepTime> StepOf(const CostInputs& work, const Settings& settings,
                               const Memory& memory,
                               const Communication& communication) {
  const auto tokens = TokensOf(work, settings);
  const auto hidden = work.Hidden();
  if (work.mode != Mode::kTrain || settings.profile == nullptr || !tokens ||
      !hidden || !settings.batch || !settings.length || LacksFp4(settings) ||
      LacksHostMemory(settings) || !work.not_known.empty() || memory.at_least ||
      !communication.unknown.empty()) {
    return std::nullopt;
  }
  return std::optional<StepTime>(std::in_place, work, settings, memory,
                                 communication, StackOf(work, settings),
                                 *tokens, Real(*hidden));
}

}  // namespace

double SumOf(const std::vector<TimePart>& parts) {
  return std::accumulate(
      parts.begin(), parts.end(), 0.0,
      [](double sum, const TimePart& part) { return sum + part.seconds; });
}

bool SupportsExperts(const DeviceProfile& profile) {
  return profile.efficiency.runs > 0 && !IsTorus(profile.fabric);
}

std::optional<double> ExpectedSecondsOf(const CostInputs& work,
                                        const Settings& settings,
                                        const Memory& memory,
                                        const Communication& communication) {
  const auto step = StepOf(work, settings, memory, communication);
  if (!step) return std::nullopt;
  return SumOf(
      step->PartsAt(ExpectedRates(work, settings, StackOf(work, settings))));
}

std::optional<StepSeconds> ExpectedStepSecondsOf(
    const CostInputs& work, const Settings& settings, const Memory& memory,
    const Communication& communication) {
  const auto step = StepOf(work, settings, memory, communication);
  if (!step) return std::nullopt;
  StepSeconds out;
  double scale = 0;
  for (const TimePart& part :
       step->PartsAt(ExpectedRates(work, settings, StackOf(work, settings)))) {
    const bool after = part.name == "gradients" || part.name == "optimizer";
    double& sum = part.name == "scale" ? scale : after ? out.after : out.tasks;
    sum += part.seconds;
  }
  // The part "scale" is the time by which a step becomes longer on more hosts.
  // It is a fraction of the sum of all other parts, so it is distributed over
  // `tasks` and `after` in proportion to their seconds.
  const double factor = 1 + scale / std::max(1e-30, out.tasks + out.after);
  return StepSeconds{out.tasks * factor, out.after * factor};
}

std::optional<ExpectedTime> ExpectedTimeOf(const CostInputs& work,
                                           const Settings& settings,
                                           const Memory& memory,
                                           const Communication& communication) {
  const DeviceProfile* profile = settings.profile;
  const auto step = StepOf(work, settings, memory, communication);
  if (!step) return std::nullopt;
  const Stack& stack = StackOf(work, settings);
  const Rates rates = ExpectedRates(work, settings, stack);
  ExpectedTime out;
  out.parts = step->PartsAt(rates);
  out.seconds = SumOf(out.parts);
  out.expert_layer = step->ExpertLayerAt(rates);
  out.least = SumOf(step->PartsAt(BestRates(settings)));
  out.most = SumOf(step->PartsAt(WorstRates(rates)));
  const auto flops = ModelFlopsOf(work, settings);
  const double per_chip = Real(profile->devices_per_chip);
  out.model_flops_share = flops.value_or(0) / Real(work.mesh.devices) /
                          out.seconds / (profile->bf16_rate / per_chip);
  out.tokens_per_second = Real(*settings.batch) * Real(*settings.length) /
                          Real(work.mesh.devices) / out.seconds;
  out.stack = &stack;
  out.stack_assumed = settings.stack == nullptr;
  out.has_experts = work.model && work.model->experts;
  out.measured = SupportsExperts(*profile);
  out.calibrated =
      profile->efficiency.runs > 0 && !(work.model && work.model->experts);
  return out;
}

}  // namespace shardc::cost
