// Computes the times of serving. A decode step is the sum of its operators,
// each with a start and the rates that the profile's `serving:` states, and of
// what the engine adds to layers and steps. Prompts are prefilled between the
// decode steps, so the time of a token (TPOT) is that of a step and of its
// part of a prefill.
//
// For example, with 64 slots, prompts of 922 tokens and 922 generated tokens, a
// step of Llama 70B in fp8 on 8 devices of H200 (tp) takes:
//
//   matmuls 3.3 ms, attention 1.3, collectives 2.5, launches 2.0, scheduler
//   0.9; and prefill adds 2.0 ms
//
// In a closed loop, the scheduler decides how long a prompt waits and how much
// its prefill delays the requests that decode (cost/queue.h). It is simulated
// with the times of these steps.
#include "cost/serving.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cost/experts.h"
#include "cost/memory.h"
#include "cost/queue.h"
#include "cost/time.h"
#include "cost/unknown_roles.h"
#include "model/mesh_layout.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc::cost {
namespace {

// Starts of operators are measured one operator at a time. In a CUDA graph, an
// operator starts while the one before it ends.
constexpr double kStartsInGraph = 0.5;
// Routers send more tokens to some experts, so the matmuls of experts reach
// this fraction of their rate for equal numbers of tokens.
constexpr double kRoutedShare = 0.7;
// Norms, rotary embeddings and activation functions read and write 14 tensors
// of the hidden size, half of them fused, at half of the memory's rate.
constexpr double kSmallTensors = 14;
// Fewer heads than this take as long as this number.
constexpr double kLeastLatentHeads = 16;
// Tokens are sent to experts in 8 bits, and come back in 16.
constexpr double kExchangedBytes = 3;
constexpr double kFarShare = 0.8;  // of a network link
// Devices that only prefill are kept busy for this fraction of the time, and
// prompts wait as in an open queue.
constexpr double kBusyPrefill = 0.7;
constexpr int64_t kRuntimeBytes = 2'000'000'000;
constexpr double kMostMeasuredRequests = 512;  // of an attention rank
constexpr int64_t kMostContext = int64_t{1} << 30;
// Published steps are within these factors of the computed time of a token for
// 9 of 10 points (tests/cli/serving_points_test.py). The lower bound is that of
// a step: prompts whose cache is kept add nothing. Steps that no published
// point supports are within a factor of 2 of these bounds or not even that.
constexpr double kLeastToken = 0.54, kMostToken = 1.5;
constexpr double kUnmeasured = 2;
// The time to the first token is within these factors for 9 of 10 points, if
// all settings of the scheduler are stated or not.
constexpr double kFirstStated = 2, kFirstDefaults = 3;
// The fraction of servers that have one of the other values that an engine's
// file lists for a setting. With 0, the expected time is that with the engine's
// values, which is 24 % below the median of 1,467 measured times, and a factor
// of 3 contains 89.5 % of them. With 0.15, 0.2 and 0.25, it is 10, 5 and 1 %
// below, and the factor contains 93, 95 and 96 %.
constexpr double kOtherValue = 0.2;

bool IsLayerWeight(const ParamClass& param) {
  const Role role = param.role.module_role;
  return param.IsApplied() &&
         (IsAttention(role) || IsMlp(role) || role == Role::kLatentDown ||
          role == Role::kLatentUp);
}

// Returns the format of a weight of a layer that the request states.
std::optional<ServedFormat> StatedFormat(const ParamClass& param,
                                         const ServingRequest& request) {
  return param.role.expert ? request.experts : request.linear;
}

std::optional<ServedFormat> StoredFormat(const CostInputs& work,
                                         const ParamClass& param) {
  const Dtype dtype = param.type.dtype.value_or(Dtype::kF32);
  if (param.role.packed_blocks) return ServedFormat::kMxfp4;
  if (dtype == Dtype::kBF16 || dtype == Dtype::kF16) return ServedFormat::kBf16;
  if (dtype != Dtype::kF8E4M3) return std::nullopt;
  return work.model && work.model->quant_rows > 1 ? ServedFormat::kFp8Block
                                                  : ServedFormat::kFp8;
}

// The formats of the weights of a class, with the fraction of its layers that
// have each.
using Formats = std::vector<std::pair<ServedFormat, double>>;

// Returns the formats of a class in a quantised model, by the configuration.
// The name of a class has `*` for the number of the layer.
std::optional<Formats> ConfiguredFormats(const CostInputs& work,
                                         const ServingRequest& request,
                                         const ParamClass& param) {
  if (!request.stored || !work.model || !work.model->layers) {
    return std::nullopt;
  }
  constexpr std::string_view kWeight = ".weight";
  std::string module = param.name;
  if (module.ends_with(kWeight)) {
    module.resize(module.size() - kWeight.size());
  }
  const size_t star = module.find('*');
  for (size_t at = module.rfind('*'); at != star; at = module.rfind('*')) {
    module.replace(at, 1, "0");
  }
  const int64_t layers = star == module.npos ? 1 : *work.model->layers;
  Formats out;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::string name = module;
    if (star != name.npos) name.replace(star, 1, std::to_string(layer));
    const auto format = request.stored(name);
    if (!format) return std::nullopt;
    auto known = std::find_if(out.begin(), out.end(), [&](const auto& one) {
      return one.first == *format;
    });
    if (known == out.end()) known = out.insert(out.end(), {*format, 0});
    known->second += 1 / Real(layers);
  }
  return out;
}

// Returns the formats in which the weights of a class are served.
std::optional<Formats> FormatsOf(const CostInputs& work,
                                 const ServingRequest& request,
                                 const ParamClass& param) {
  if (const auto stated = StatedFormat(param, request)) {
    return Formats{{*stated, 1}};
  }
  if (work.ServesQuantised()) return ConfiguredFormats(work, request, param);
  const auto stored = StoredFormat(work, param);
  return stored ? std::optional(Formats{{*stored, 1}}) : std::nullopt;
}

bool HasMxfp4(const Formats& formats) {
  return std::any_of(formats.begin(), formats.end(), [](const auto& one) {
    return one.first == ServedFormat::kMxfp4;
  });
}

// Returns the format of all weights of layers, or of all their experts. Returns
// nullopt if it is unknown, or if weights have several formats.
std::optional<ServedFormat> FormatOf(const CostInputs& work,
                                     const ServingRequest& request,
                                     bool experts) {
  std::optional<ServedFormat> out;
  for (const ParamClass& param : work.params) {
    if (!IsLayerWeight(param) || param.role.expert != experts) continue;
    const auto formats = FormatsOf(work, request, param);
    if (!formats || formats->size() != 1) return std::nullopt;
    const ServedFormat one = formats->front().first;
    if (out && *out != one) return std::nullopt;
    out = one;
  }
  return out ? out : ServedFormat::kBf16;
}

// Returns the devices over which an engine divides a layer: the most over which
// a weight outside of the experts is sharded.
int64_t TensorParts(const CostInputs& work) {
  int64_t out = 1;
  for (const ParamClass& param : work.params) {
    if (!IsLayerWeight(param) || param.role.expert) continue;
    int64_t parts = 1;
    for (const AxisGroup& axes : param.spec) {
      parts = Times(parts, work.Parts(axes));
    }
    out = std::max(out, parts);
  }
  return out;
}

bool HasVocabulary(const ParamClass& param) {
  return param.role.role == Role::kEmbedding || param.role.role == Role::kHead;
}

// Returns the dimension of the vocabulary of an embedding or of a head: the
// other one is the hidden size. Returns nullopt if the sizes do not show it.
std::optional<size_t> VocabDim(const CostInputs& work,
                               const ParamClass& param) {
  const auto& shape = param.type.shape;
  const auto hidden = work.Hidden();
  if (!HasVocabulary(param) || !shape || shape->size() != 2 || !hidden) {
    return std::nullopt;
  }
  if ((*shape)[1] == *hidden) return 0;
  if ((*shape)[0] == *hidden) return 1;
  return std::nullopt;
}

// How the engine of a request changes the shards that rules give. Without its
// `layout`, nothing changes.
class EngineShards {
 public:
  EngineShards(const CostInputs& work, const Settings& settings,
               const ServingRequest& request)
      : work_(work), tensor_(TensorParts(work)) {
    if (request.engine == nullptr || !request.engine->layout) return;
    layout_ = &*request.engine->layout;
    if (settings.profile != nullptr) {
      padding_ = layout_->Mxfp4On(settings.profile->name);
    }
  }

  // Returns how many times as many elements of an embedding or a head a device
  // has as the rules say. The engine divides its rows, whatever the rules do.
  double VocabShare(const ParamClass& param) const {
    const auto dim = layout_ == nullptr ? std::nullopt : VocabDim(work_, param);
    if (!dim) return 1;
    Shape own = *param.type.shape;
    own[*dim] = layout_->PaddedVocab(own[*dim]) / tensor_;
    const auto elements = CheckedProduct(own);
    const auto rules =
        CheckedProduct(ShardShape(work_.mesh, *param.type.shape, param.spec));
    return elements && rules && *rules > 0 ? Real(*elements) / Real(*rules) : 1;
  }

  // Returns VocabShare() of the head, or of the embedding that is also the
  // head.
  double HeadShare() const {
    double out = 1;
    for (const ParamClass& param : work_.params) {
      if (param.role.role == Role::kHead) return VocabShare(param);
      if (param.role.role == Role::kEmbedding) out = VocabShare(param);
    }
    return out;
  }

  // Returns the shape of a device's shard of the weight of a layer. If `mxfp4`,
  // kernels pad that of an expert.
  Shape Of(const ParamClass& param, bool mxfp4) const {
    Shape shard = ShardShape(work_.mesh, *param.type.shape, param.spec);
    if (!mxfp4 || !param.role.expert || !padding_) return shard;
    return Padded(param, shard).value_or(shard);
  }

  // Returns whether kernels may pad a weight, by sizes that are not known.
  bool MayPad(const ParamClass& param, bool mxfp4) const {
    return layout_ != nullptr && mxfp4 && param.role.expert &&
           (!padding_ ||
            !Padded(param,
                    ShardShape(work_.mesh, *param.type.shape, param.spec)));
  }

  // Returns why the engine refuses the layout.
  std::vector<std::string> Refusals() const {
    if (layout_ == nullptr || !work_.model) return {};
    ShardedSizes sizes = {.heads = work_.model->heads,
                          .kv_heads = work_.model->kv_heads,
                          .vocab = {}};
    if (work_.model->latent_rank) sizes.kv_heads.reset();
    for (const ParamClass& param : work_.params) {
      if (const auto dim = VocabDim(work_, param)) {
        sizes.vocab = (*param.type.shape)[*dim];
      }
    }
    return LayoutRefusals(*layout_, sizes, tensor_);
  }

 private:
  static int64_t Rounded(int64_t size, int64_t multiple) {
    return (size + multiple - 1) / multiple * multiple;
  }

  // Kernels of mxfp4 pad the hidden size and the columns of an expert. Gate and
  // up are padded each. Returns nullopt if the sizes do not show which is
  // which.
  std::optional<Shape> Padded(const ParamClass& param, Shape shard) const {
    const auto hidden = work_.Hidden();
    if (!hidden || shard.size() < 2) return std::nullopt;
    const bool fused = param.role.module_role == Role::kFusedGateUp;
    bool found = false;
    for (size_t d = shard.size() - 2; d < shard.size(); ++d) {
      const bool in = param.in_dim == static_cast<int>(d);
      const bool width = fused || param.role.module_role == Role::kGate ||
                                 param.role.module_role == Role::kUp
                             ? in
                             : !in;
      if (width) {
        found |= (*param.type.shape)[d] == *hidden;
        shard[d] = Rounded(shard[d], padding_->hidden);
      } else {
        const int64_t parts = fused ? 2 : 1;
        shard[d] = parts * Rounded(shard[d] / parts, padding_->inner);
      }
    }
    return found ? std::optional(std::move(shard)) : std::nullopt;
  }

  const CostInputs& work_;
  const int64_t tensor_;
  const EngineLayout* layout_ = nullptr;
  std::optional<ExpertPadding> padding_;
};

// Returns the bytes of weights on the fullest device; nullopt if a size or the
// format is unknown.
std::optional<int64_t> WeightBytes(const CostInputs& work,
                                   const Settings& settings,
                                   const ServingRequest& request,
                                   bool experts_only = false) {
  if (work.ServesQuantised() && !request.stored &&
      !(request.linear && request.experts)) {
    return std::nullopt;
  }
  HeldBytes held;
  const EngineShards shards(work, settings, request);
  for (const ParamClass& param : work.params) {
    if (experts_only && !param.role.expert) continue;
    const auto format = StatedFormat(param, request);
    const bool quantised = work.ServesQuantised() && IsLayerWeight(param);
    if ((!format && !quantised) || !IsLayerWeight(param)) {
      // The bytes of a weight in a format that is stated are computed with
      // those of its scales, so stored scales are not added.
      if (format && param.role.role == Role::kScale) continue;
      std::optional<int64_t> bytes = StatesOf(work, param, settings).parameter;
      if (bytes) {
        bytes = std::llround(Real(*bytes) * shards.VocabShare(param));
      }
      Hold(param, bytes, held);
      continue;
    }
    const auto formats = FormatsOf(work, request, param);
    if (!formats || !param.type.shape) return std::nullopt;
    const auto elements = CheckedProduct(shards.Of(param, HasMxfp4(*formats)));
    const auto weights =
        elements ? CheckedMul(*elements, param.packing) : std::nullopt;
    if (!weights) return std::nullopt;
    double bytes = 0;
    for (const auto& [one, share] : *formats) {
      const auto all = ServedBytes(*weights, one);
      if (!all) return std::nullopt;
      bytes += share * Real(*all);
    }
    Hold(param, std::llround(bytes), held);
  }
  return held.Fullest();
}

AxisGroup Joined(AxisGroup axes, const AxisGroup& more) {
  for (const std::string& axis : more) {
    AddOnce(axes, axis);
  }
  return axes;
}

// The bytes per second at which one device sends to other hosts.
double FarRate(const Network& network) {
  return kFarShare * network.leaving / Real(network.inside);
}

bool Overlap(const AxisGroup& a, const AxisGroup& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const std::string& axis) { return IsAmong(axis, b); });
}

// Computes the operators of a step on a device. The profile must have
// `serving`, and the engine must not be null.
class Operators {
 public:
  Operators(const CostInputs& work, const DeviceProfile& profile,
            const EngineProfile& engine, ServedFormat linear,
            ServedFormat experts, Dtype cache, double head_share)
      : work_(work),
        prefill_(work),
        rates_(*profile.serving),
        engine_(engine),
        memory_rate_(profile.memory_rate / Real(profile.devices_per_chip)),
        per_chip_(Real(profile.devices_per_chip)),
        prefill_work_(engine.PrefillWork(profile.name)),
        network_(NetworkOf(profile, work.mesh)),
        linear_(linear),
        expert_format_(experts),
        cache_bits_(DtypeBits(cache)),
        head_share_(head_share),
        matmuls_(MatmulsOf(work, {.rows = 1, .length = 1, .keys = 1})) {
    prefill_.mode = Mode::kPrefill;
    const ModelConfig& model = *work.model;
    width_ = Real(work.Hidden().value_or(0));
    layers_ = Real(*model.layers);
    attention_layers_ = work.LayersWithAttention().value_or(layers_);
    if (const ParamClass* down = work.Find(Role::kDown, true)) {
      senders_ = Real(SendersTo(work, *down));
      chosen_ = Real(model.experts_per_token.value_or(1));
      all_experts_ = Real(work.Experts());
    }
    for (const Matmul& one : matmuls_) {
      if (one.expert && one.role == Role::kDown) {
        expert_layers_ = one.layers;
        experts_ = one.matrices;
      }
      gated_ |= !one.expert && one.role == Role::kGate;
      latent_down_ += one.role == Role::kLatentDown ? 1 : 0;
    }
    FindCollectives();
  }

  // Returns the experts of a layer on this device that `tokens` of each
  // attention rank choose.
  double DistinctExperts(double tokens) const {
    const double share = chosen_ / std::max(all_experts_, 1.0);
    if (share >= 1) return experts_;
    return experts_ * -std::expm1(tokens * senders_ * std::log1p(-share));
  }
  double Experts() const { return expert_layers_ > 0 ? experts_ : 0; }
  bool LeavesHost() const { return leaves_host_; }

  // `requests` are those of an attention rank, and `cache` are the bytes that
  // a device keeps of each of them, whose length is `length`.
  std::vector<TimePart> Decode(double requests, double cache,
                               double length) const {
    const double seconds = requests * cache / (CacheShare() * memory_rate_) +
                           LatentSeconds(requests, cache, length);
    auto out = Parts(requests, requests, seconds);
    out.push_back({"scheduler", engine_.step + engine_.request * requests});
    return out;
  }

  // `prompts` are prefilled together on each attention rank. The cache of the
  // fraction `kept` of each is there already. The least time that the host
  // needs is not in it.
  std::vector<TimePart> Prefill(int64_t tokens, double prompts,
                                double kept = 0) const {
    const bool narrow = work_.model->head_dim.value_or(0) <= kNarrowHead;
    const double flops =
        prompts * (1 - kept * kept) *
        AttentionFlops(prefill_, {.rows = 1, .length = tokens, .keys = tokens});
    auto out = Parts(
        prompts * (1 - kept) * Real(tokens), prompts,
        flops * per_chip_ / (narrow ? rates_.narrow_prefill : rates_.prefill));
    for (TimePart& part : out) part.seconds *= prefill_work_;
    return out;
  }
  // Returns the least seconds of a prefill step.
  double Host() const { return layers_ * engine_.prefill_layer; }

 private:
  static constexpr int64_t kNarrowHead = 64;

  // Two times of one operator that overlap partly.
  static double Overlapped(double a, double b) {
    return std::pow(std::pow(a, 1.5) + std::pow(b, 1.5), 1 / 1.5);
  }
  static double BytesPerWeight(ServedFormat format) {
    constexpr int64_t kWeights = 128 * 128;
    return Real(ServedBytes(kWeights, format).value_or(0)) / Real(kWeights);
  }
  static double RateOf(const ServingRates::ByFormat& rates,
                       ServedFormat format) {
    return rates[static_cast<size_t>(format)].value_or(1);
  }

  double CacheShare() const {
    if (work_.model->latent_rank) return rates_.latent_cache;
    return cache_bits_ > 8 ? rates_.cache : rates_.narrow_cache;
  }

  // Returns the seconds that attention to latent rows takes beyond reading
  // them: all heads read the same rows, so matmuls may take longer.
  double LatentSeconds(double requests, double cache, double length) const {
    const ModelConfig& model = *work_.model;
    if (!model.latent_rank) return 0;
    const double heads =
        std::max(Real(model.heads.value_or(1)) / Real(HeadParts(work_)),
                 kLeastLatentHeads);
    const double width =
        2 * Real(*model.latent_rank) + Real(model.latent_rope_dim.value_or(0));
    const double matmuls = 2 * requests * length * heads * width *
                           attention_layers_ * per_chip_ / rates_.latent;
    const double reads = requests * cache / (CacheShare() * memory_rate_);
    return std::hypot(matmuls, reads) - reads;
  }

  // Returns whether the matmul is not computed together with the one before:
  // engines multiply by queries, keys and values at once.
  double StartsOf(const Matmul& one) const {
    if (one.role == Role::kKey || one.role == Role::kValue) return 0;
    if (one.role == Role::kUp && gated_) return 0;
    return one.role == Role::kLatentDown ? 1.0 / latent_down_ : 1;
  }

  // Returns the parts that decode and prefill have. `ends` are the rows for
  // which logits are computed.
  std::vector<TimePart> Parts(double tokens, double ends,
                              double attention) const {
    double matmuls = 0, head = 0, read = 0, flops = 0;
    for (const Matmul& one : matmuls_) {
      if (one.expert) {
        read += one.layers * DistinctExperts(tokens) * one.in * one.out *
                BytesPerWeight(expert_format_);
        flops += 2 * tokens * one.rows * one.in * one.out * one.layers;
        continue;
      }
      const bool wide = one.role == Role::kHead || one.role == Role::kRouter;
      const ServedFormat format = wide ? ServedFormat::kBf16 : linear_;
      const double rows = one.role == Role::kHead ? ends : tokens * one.rows;
      const double share = one.role == Role::kHead ? head_share_ : 1;
      const double bytes = one.in * one.out * share * BytesPerWeight(format) +
                           2 * rows * (one.in + one.out);
      const double seconds =
          one.layers *
          (kStartsInGraph * rates_.matmul_start * StartsOf(one) +
           Overlapped(2 * rows * one.in * one.out * share * per_chip_ /
                          RateOf(rates_.matmuls, format),
                      bytes / (rates_.weights * memory_rate_)));
      (one.role == Role::kHead ? head : matmuls) += seconds;
    }
    double experts = 0;
    if (expert_layers_ > 0) {
      experts = expert_layers_ * kStartsInGraph * rates_.experts_start +
                Overlapped(read / (rates_.expert_weights * memory_rate_),
                           flops * per_chip_ /
                               (kRoutedShare *
                                RateOf(rates_.experts, expert_format_)));
    }
    double reduced = 0, exchanged = 0;
    for (const Reduction& one : reductions_) {
      reduced += one.layers * ReduceSeconds(one.place, tokens);
    }
    if (exchange_.members > 1) {
      exchanged = expert_layers_ * ExchangeSeconds(tokens);
    }
    return {{"matmuls", matmuls},
            {"attention",
             attention_layers_ * kStartsInGraph * rates_.attention_start +
                 attention},
            {"experts", experts},
            {"small_ops",
             layers_ * kSmallTensors * 2 * width_ * tokens / memory_rate_},
            {"head", head},
            {"all_reduce", reduced},
            {"all_to_all", exchanged},
            {"launches",
             layers_ * engine_.layer + expert_layers_ * engine_.expert_layer}};
  }

  // A tensor of the hidden size is summed over the devices of `place`.
  struct Reduction {
    GroupSpan place;
    double layers = 0;
  };

  void FindCollectives() {
    for (const ParamClass& param : work_.params) {
      const Role role = param.role.module_role;
      if (!IsLayerWeight(param) || !GivesWidth(role) ||
          param.role.shared_expert) {
        continue;
      }
      AxisGroup axes = work_.KeptAt(param, param.in_dim);
      if (param.role.expert) {
        const AxisGroup owners = ExpertAxes(work_, param);
        if (Overlap(owners, work_.TokenAxes())) {
          exchange_ = SpanFor(owners);
        } else {
          axes = Joined(axes, owners);
        }
      }
      const GroupSpan place = SpanFor(axes);
      if (place.members > 1) {
        reductions_.push_back({place, Real(LayerCounts(work_).Of(param))});
      }
    }
  }

  GroupSpan SpanFor(const AxisGroup& axes) {
    const GroupSpan out =
        SpanOf(work_.mesh, network_, DropTrivial(work_.mesh, axes));
    leaves_host_ |= out.domains > 1;
    return out;
  }

  double ReduceSeconds(const GroupSpan& place, double tokens) const {
    const double bytes =
        2 * Real(place.members - 1) / Real(place.members) * tokens * width_ * 2;
    const double near = rates_.all_reduce * NearRate(network_, place);
    return rates_.all_reduce_start +
           bytes /
               (place.domains > 1 ? std::min(near, FarRate(network_)) : near);
  }

  double ExchangeSeconds(double tokens) const {
    const double n = Real(exchange_.members);
    const double bytes =
        tokens * std::min(chosen_, n) * (n - 1) / n * width_ * kExchangedBytes;
    const double far = (n - Real(exchange_.near)) / (n - 1);
    return rates_.all_to_all_start +
           bytes * ((1 - far) /
                        (rates_.all_to_all * NearRate(network_, exchange_)) +
                    far / FarRate(network_));
  }

  const CostInputs& work_;
  CostInputs prefill_;
  const ServingRates& rates_;
  const EngineProfile& engine_;
  const double memory_rate_, per_chip_, prefill_work_;
  const Network network_;
  const ServedFormat linear_, expert_format_;
  const int64_t cache_bits_;
  const double head_share_;  // EngineShards::HeadShare()
  const std::vector<Matmul> matmuls_;
  double width_ = 0, layers_ = 0, attention_layers_ = 0, expert_layers_ = 0;
  double experts_ = 0, all_experts_ = 0, chosen_ = 1, senders_ = 1;
  double latent_down_ = 0;
  bool gated_ = false, leaves_host_ = false;
  std::vector<Reduction> reductions_;
  GroupSpan exchange_;
};

// Lists why no times are computed for this plan.
class Missing {
 public:
  Missing(const CostInputs& work, std::vector<NotKnown>& out)
      : work_(work), out_(out) {}

  void Add(bool missing, std::string what, std::string settled_by = {}) {
    if (!missing) return;
    AddNotKnown(
        {{.what = std::move(what), .settled_by = std::move(settled_by)}}, out_);
  }

  void Sharding() {
    Add(work_.all_stages.has_value(),
        "the times of pipeline stages: no measured engine divides layers");
    Add(work_.Parts(work_.Length()) > 1 || work_.Parts(work_.key[1]) > 1,
        "the time of a step whose tokens or cache are sharded over their "
        "length: no measured engine does so");
    for (const ParamClass& param : work_.params) {
      if (!IsLayerWeight(param)) continue;
      const Role role = param.role.module_role;
      const bool outer = (TakesWidth(role) &&
                          work_.Parts(work_.KeptAt(param, param.in_dim)) > 1) ||
                         (GivesWidth(role) &&
                          work_.Parts(work_.KeptAt(param, param.out_dim)) > 1);
      Add(outer || work_.IsGathered(param),
          "the time of a step with weights that are sharded over the hidden "
          "size or gathered: no engine serves them so",
          "rules that shard weights over heads, columns and experts only");
    }
  }

  void Model() {
    if (const auto missing = MissingExpertChoice(work_)) {
      AddNotKnown({*missing}, out_);
    }
    const auto& model = work_.model;
    Add(!model || !model->layers || !model->heads || !model->head_dim ||
            !work_.Hidden(),
        "the time of a step: the numbers of layers and of heads", "--model");
    if (!model) return;
    Add(model->has_encoder || IsEncoderAlone(work_),
        "the time of a step of a model with an encoder");
    Add(model->index_dim.has_value(),
        "the time of attention that reads only the tokens that an indexer "
        "chooses");
    Add(model->windowed_heads || model->full_head_dim || model->value_dim,
        "the time of attention whose layers have different heads");
    for (const ParamClass& param : work_.params) {
      Add(IsAdapter(param.role.role) || param.sharing_layers > 0,
          "the time of a step with adapters or shared layers");
    }
  }

  void Rates(const DeviceProfile* profile, std::optional<ServedFormat> linear,
             std::optional<ServedFormat> experts, bool has_experts) {
    Add(profile == nullptr, "the time of a step: the device", "--profile");
    if (profile == nullptr) return;
    const std::string device(profile->name);
    Add(!profile->serving,
        "the time of a step: no operators of serving were measured on " +
            device,
        "a profile with `serving:`");
    Add(!linear || !experts, "the format in which the engine stores weights",
        "--served-dtype");
    if (!profile->serving || !linear || !experts) return;
    const auto lacks = [&](const ServingRates::ByFormat& rates,
                           ServedFormat format, std::string_view what) {
      Add(!rates[static_cast<size_t>(format)],
          "the rate of " + std::string(what) + " in " +
              std::string(kServedFormats[static_cast<size_t>(format)]) +
              " on " + device);
    };
    lacks(profile->serving->matmuls, *linear, "matmuls");
    if (has_experts) lacks(profile->serving->experts, *experts, "experts");
  }

 private:
  const CostInputs& work_;
  std::vector<NotKnown>& out_;
};

Between Around(double value, double least, double most) {
  return {value * least, value, value * most};
}

class Evaluator {
 public:
  Evaluator(const CostInputs& work, const Settings& settings,
            const ServingRequest& request)
      : work_(work), settings_(settings) {
    work_.hidden.clear();
    work_.next_token_layers = 0;
    out_.mode = work.mode;
    work_.mode = Mode::kDecode;
    out_.request = request;
    out_.mesh = JoinedMesh(work.mesh);
    if (settings_.profile == nullptr && work.mesh.device) {
      settings_.profile = FindDeviceProfile(work.mesh.device->profile);
    }
    out_.profile = settings_.profile;
    ranks_ = work_.Parts(work_.Batch());
    out_.attention_ranks = ranks_;
  }

  ServingReport Run() {
    out_.capacity = CapacityOf(work_.mesh.device.value_or(Device{}), settings_);
    out_.weights = WeightBytes(work_, settings_, out_.request);
    out_.weights_at_least = MayPad();
    Missing missing(work_, out_.unknown);
    missing.Add(!out_.weights, "the bytes of the weights as they are served",
                "--served-dtype");
    for (std::string& refused : RefusalsOf(work_, out_.request)) {
      missing.Add(true, std::move(refused));
    }
    missing.Add(!out_.capacity, "the memory of a device",
                "--profile or --memory");
    missing.Add(!work_.model, "the KV cache", "--model");
    AddNotKnown(work_.not_known, out_.unknown);
    if (out_.unknown.empty()) Fit();
    Times();
    Assumptions();
    return std::move(out_);
  }

 private:
  // Returns whether the engine pads weights by sizes that are not known.
  bool MayPad() const {
    const EngineShards shards(work_, settings_, out_.request);
    return std::any_of(
        work_.params.begin(), work_.params.end(), [&](const ParamClass& param) {
          if (!IsLayerWeight(param) || !param.type.shape) return false;
          const auto formats = FormatsOf(work_, out_.request, param);
          return formats && shards.MayPad(param, HasMxfp4(*formats));
        });
  }

  // Returns the bytes of a request of this length on a device.
  std::optional<int64_t> CacheAt(int64_t length) {
    Settings settings = settings_;
    settings.batch = ranks_;
    settings.kv_length = std::max<int64_t>(length, 1);
    return CacheBytesOf(work_, settings, out_.unknown);
  }

  // Returns the bytes for caches; nullopt if they are unknown, and negative if
  // the weights do not fit.
  int64_t Budget() const {
    return *out_.capacity - out_.reserve - *out_.weights;
  }

  int64_t SlotsAt(int64_t length) {
    const int64_t each = CacheAt(length).value_or(INT64_MAX);
    return std::max<int64_t>(Budget(), 0) / std::max<int64_t>(each, 1) * ranks_;
  }

  int64_t MeanLength() const {
    return out_.request.input + (3 * out_.request.output + 4) / 5;
  }

  int64_t ContextFor(int64_t slots) {
    const int64_t each = (slots + ranks_ - 1) / ranks_;
    int64_t fits = 0, exceeds = kMostContext + 1;
    while (exceeds - fits > 1) {
      const int64_t middle = fits + (exceeds - fits) / 2;
      const auto bytes = CheckedMul(CacheAt(middle).value_or(INT64_MAX), each);
      (bytes && *bytes <= Budget() ? fits : exceeds) = middle;
    }
    return fits;
  }

  void Fit() {
    ServingRequest& request = out_.request;
    out_.reserve = *out_.capacity / 10 + kRuntimeBytes;
    if (!CacheAt(1)) return;
    if (request.fill == Fill::kContext) {
      request.input = std::max<int64_t>(
          ContextFor(request.slots.value_or(1)) - request.output, 0);
    }
    const int64_t length = request.input + request.output;
    out_.cache_request = CacheAt(length);
    const auto next = CacheAt(length + 1);
    if (!out_.cache_request || !next) return;
    out_.cache_token = *next - *out_.cache_request;
    out_.full_slots = SlotsAt(length);
    out_.mean_slots = SlotsAt(MeanLength());
    if (request.fill == Fill::kSlots) request.slots = out_.full_slots;
    if (request.slots && *request.slots > 0) {
      out_.context = ContextFor(*request.slots);
    }
  }

  void Times() {
    const ServingRequest& request = out_.request;
    const bool has_experts = work_.Find(Role::kDown, true) != nullptr;
    const auto linear = FormatOf(work_, request, false);
    const auto experts = FormatOf(work_, request, true);
    if (request.engine == nullptr) return;
    Missing missing(work_, out_.unknown);
    missing.Model();
    missing.Sharding();
    missing.Rates(out_.profile, linear, experts, has_experts);
    if (!out_.unknown.empty() || !out_.mean_slots) return;
    if (request.slots.value_or(0) < 1 || *out_.mean_slots < 1 ||
        request.input < 1) {
      return;
    }
    const Operators operators(
        work_, *out_.profile, *request.engine, *linear, *experts,
        settings_.cache, EngineShards(work_, settings_, request).HeadShare());
    const auto unmeasured = [&](bool is, std::string why) {
      if (is) out_.unmeasured.push_back(std::move(why));
    };
    unmeasured(operators.LeavesHost(), "collectives that leave a host");
    unmeasured(out_.profile->serving->assumed,
               "operators of " + std::string(out_.profile->name));
    unmeasured(request.engine->points == 0,
               "steps of the engine " + Printable(request.engine->name));
    out_.experts = operators.Experts();
    if (out_.mode == Mode::kPrefill) {
      PrefillTimes(operators);
    } else {
      DecodeTimes(operators);
    }
  }

  // Returns the seconds between the sending of a request and its arrival at the
  // scheduler.
  double Call() const {
    const EngineProfile& engine = *out_.request.engine;
    return engine.prefill_call +
           (work_.model->latent_rank ? engine.latent_call : 0);
  }

  // The factor within which TTFT is expected.
  double FirstBand() const {
    return (StatesAllSettings(out_.request) ? kFirstStated : kFirstDefaults) *
           (out_.unmeasured.empty() ? 1 : kUnmeasured);
  }

  void PrefillTimes(const Operators& operators) {
    ServingTimes times;
    const double busy = out_.request.disaggregated ? kBusyPrefill : 0;
    // Prompts that have no room in the cache wait.
    const double asked =
        out_.request.fill == Fill::kSlots
            ? 1
            : Real(std::min(*out_.request.slots, *out_.mean_slots)) /
                  Real(ranks_);
    const double together = std::max(asked, 1.0);
    times.parts = operators.Prefill(out_.request.input, together,
                                    out_.request.scheduler.prefix_hit);
    const double host = operators.Host() - SumOf(times.parts);
    times.parts.push_back({"host", std::max(host, 0.0)});
    times.step = times.prefill = SumOf(times.parts);
    times.first_parts = {{"prefill", times.prefill},
                         {"engine", Call()},
                         {"queue", busy / 2 / (1 - busy) * times.prefill}};
    // How many decode slots a prefill device has, and how its router chooses,
    // are not known.
    const double band =
        busy > 0 ? std::max(FirstBand(), kFirstDefaults) : FirstBand();
    times.first = Around(SumOf(times.first_parts), 1 / band, band);
    times.rate = Around((busy > 0 ? busy : 1) * together * Real(ranks_) *
                            Real(out_.request.input) / times.step /
                            Real(work_.mesh.devices),
                        1 / kUnmeasured, kUnmeasured);
    out_.times = std::move(times);
  }

  // What a decode step depends on, apart from the requests of a rank.
  struct Decoded {
    const Operators& operators;
    double cache = 0;    // bytes of a request
    int64_t length = 0;  // its tokens
  };

  // The scheduler's queue with the times of these operators.
  QueueInputs QueueOf(const Decoded& decoded,
                      const SchedulerSettings& settings) const {
    const ServingRequest& request = out_.request;
    const EngineProfile& engine = *request.engine;
    QueueInputs out;
    out.slots = std::min(*request.slots, *out_.mean_slots);
    out.ranks = std::min(ranks_, out.slots);
    out.input = Real(request.input);
    out.output = Real(request.output);
    out.order = engine.order;
    out.settings = settings;
    out.decode = [&decoded](double requests) {
      return SumOf(decoded.operators.Decode(requests, decoded.cache,
                                            Real(decoded.length)));
    };
    out.prefill = [&decoded, input = request.input,
                   kept = settings.prefix_hit](double tokens) {
      return SumOf(decoded.operators.Prefill(
          input, tokens / ((1 - kept) * Real(input)), kept));
    };
    out.prefill_share = engine.prefill_share;
    out.host = decoded.operators.Host();
    out.call = Call();
    out.shown_after = engine.shown_after;
    return out;
  }

  // Sets the time to the first token, or why it is not known.
  void First(const QueueTimes& queue, ServingTimes& times) const {
    const ServingRequest& request = out_.request;
    if (request.engine->settings.empty()) {
      times.first_unknown = "the file of the engine states no `settings`";
    } else if (Real(*request.slots) > kFullCache * Real(*out_.mean_slots)) {
      times.first_unknown =
          "the requests take more than 80 % of the room in the cache, and may "
          "wait for it";
    } else {
      const double band = FirstBand();
      times.first = Around(queue.first, 1 / band, band);
      times.first_parts = queue.parts;
      times.first_steady = queue.steady;
      times.first_median = queue.median;
      times.first_99 = queue.percentile_99;
    }
  }

  // The queue with another value of a setting that is not stated.
  struct Other {
    SchedulerSetting setting = SchedulerSetting::kMaxBatchedTokens;
    QueueTimes times;
  };

  // Simulates the queue with each value in use of the settings of a request
  // that are not stated; with `lengths_only`, of kLengths only.
  std::vector<Other> OthersOf(const Decoded& decoded,
                              const ServingRequest& request,
                              bool lengths_only) const {
    std::vector<Other> out;
    for (const EngineSetting& one : request.engine->settings) {
      if (IsAmong(one.setting, request.stated)) continue;
      if (lengths_only && one.setting != SchedulerSetting::kLengths) continue;
      for (const std::string& value : one.others) {
        SchedulerSettings other = request.scheduler;
        SetSetting(one.setting, value, other);
        out.push_back({one.setting, SimulateQueue(QueueOf(decoded, other))});
      }
    }
    return out;
  }

  // Returns the expected TTFT as a multiple of that with the engine's values of
  // the settings that are not stated: the mean logarithm over the values that
  // they may have. The effects of several settings are added.
  static double UnstatedFactor(const QueueTimes& queue,
                               const std::vector<Other>& others) {
    double logarithm = 0;
    for (const Other& one : others) {
      logarithm += kOtherValue * std::log(one.times.first / queue.first);
    }
    return std::exp(logarithm);
  }

  // Moves TTFT to what is expected where settings are not stated. The queue's
  // parts stay those with the engine's values.
  static void Expect(const QueueTimes& queue, const std::vector<Other>& others,
                     ServingTimes& times) {
    if (others.empty()) return;
    const double factor = UnstatedFactor(queue, others);
    for (double* const seconds :
         {&times.first->least, &times.first->expected, &times.first->most,
          &times.first_steady, &times.first_median, &times.first_99}) {
      *seconds *= factor;
    }
    times.first_parts.push_back(
        {"unstated_settings", (factor - 1) * queue.first});
  }

  // Finds the setting that is not stated and that moves TTFT most, and what is
  // expected if one states any of its values.
  void Weigh(const Decoded& decoded, const QueueTimes& queue,
             const std::vector<Other>& others, ServingTimes& times) const {
    double most = 0;
    for (const Other& one : others) {
      const double moved = std::abs(std::log(one.times.first / queue.first));
      if (moved <= most) continue;
      most = moved;
      times.weighty = one.setting;
    }
    if (!times.weighty) return;
    const EngineSetting& setting = *out_.request.engine->Find(*times.weighty);
    std::vector<std::string> values = setting.others;
    values.insert(values.begin(), setting.value);
    for (const std::string& value : values) {
      ServingRequest request = out_.request;
      SetSetting(setting.setting, value, request.scheduler);
      request.stated.push_back(setting.setting);
      const QueueTimes other =
          SimulateQueue(QueueOf(decoded, request.scheduler));
      times.weighed.emplace_back(
          value, other.first *
                     UnstatedFactor(other, OthersOf(decoded, request, false)));
    }
  }

  // Returns the time of a token. Whether requests have equal lengths is known
  // to those who send them, and no engine has a value for it. Where it is not
  // stated, the time is the geometric mean of those with each value in use:
  // with SGLang, prompts of equal requests add half of what others add.
  static double TokenTime(const QueueTimes& queue,
                          const std::vector<Other>& others) {
    double logarithms = 0, count = 1;
    for (const Other& one : others) {
      if (one.setting != SchedulerSetting::kLengths || queue.token <= 0) {
        continue;
      }
      logarithms += std::log(one.times.token / queue.token);
      ++count;
    }
    return queue.token * std::exp(logarithms / count);
  }

  void DecodeTimes(const Operators& operators) {
    const ServingRequest& request = out_.request;
    const double ranks = Real(ranks_);
    const double room = Real(*out_.mean_slots);
    const double steps = Real(std::max<int64_t>(request.output - 1, 1));
    const int64_t length = request.input + request.output / 2;
    const double cache = Real(CacheAt(length).value_or(0));
    ServingTimes times;
    times.running = std::min(Real(*request.slots), room);
    const auto at = [&](double running) {
      times.running = running;
      times.parts =
          operators.Decode(std::max(running / ranks, 1.0), cache, Real(length));
      times.step = SumOf(times.parts);
    };
    const double slots = times.running;
    if (slots / ranks > kMostMeasuredRequests) {
      out_.unmeasured.emplace_back("more than 512 requests on a device");
    }
    double token = 0, total = 0;
    if (request.disaggregated) {
      at(slots);
      token = times.step;
      total = steps * token;
    } else {
      const Decoded decoded{operators, cache, length};
      const QueueInputs inputs = QueueOf(decoded, request.scheduler);
      if (inputs.slots > kMostSimulatedSlots) {
        out_.unknown.push_back(
            {.what = "the time of a step with more than " +
                     CountText(kMostSimulatedSlots) +
                     " requests at once, which no engine serves"});
        return;
      }
      const QueueTimes queue = SimulateQueue(inputs);
      First(queue, times);
      const std::vector<Other> others =
          OthersOf(decoded, request, !times.first);
      token = TokenTime(queue, others);
      if (times.first) Expect(queue, others, times);
      if (times.first && request.weighs_settings) {
        Weigh(decoded, queue, others, times);
      }
      total =
          (times.first ? times.first->expected : queue.first) + steps * token;
      at(slots * steps * token / total);
      token = std::max(token, times.step);
      times.between = token - times.step;
      times.prefill = std::max(inputs.prefill(inputs.input), inputs.host);
    }
    const double requests = std::max(times.running / ranks, 1.0);
    const double wider = out_.unmeasured.empty() ? 1 : kUnmeasured;
    const double least = kLeastToken / wider, most = kMostToken * wider;
    times.token = {least * times.step, token, most * token};
    const double rate =
        slots * Real(request.output) / total / Real(work_.mesh.devices);
    times.rate = Around(rate, 1 / most, 1 / least);
    out_.experts_read = operators.DistinctExperts(requests);
    out_.cache_read = requests * cache;
    const double experts =
        Real(WeightBytes(work_, settings_, request, true).value_or(0));
    out_.weights_read = Real(*out_.weights) - experts;
    if (out_.experts > 0) {
      out_.weights_read += experts * out_.experts_read / out_.experts;
    }
    out_.times = std::move(times);
  }

  void Assumptions() {
    auto& out = out_.assumptions;
    out.emplace_back(
        "a tenth of the memory and 2 GB are left to the engine's runtime");
    if (out_.request.engine != nullptr) {
      const EngineProfile& engine = *out_.request.engine;
      out.push_back(engine.name + " " + engine.versions + ", measured until " +
                    engine.month +
                    "; other versions differ by up to 2.2 times");
      for (const std::string& text : engine.evidence) out.push_back(text);
    }
    if (out_.profile != nullptr && out_.profile->serving) {
      for (const std::string& text : out_.profile->serving->evidence) {
        out.push_back(text);
      }
    }
    if (out_.weights_at_least) {
      out.emplace_back(
          "kernels for experts in mxfp4 pad weights, and the engine's file "
          "does "
          "not state how on this device: weights are lower bounds, and the "
          "requests that fit upper bounds");
    }
    out.emplace_back(
        "not modelled: speculative decoding, several predicted tokens, cached "
        "prefixes, pipeline stages, and experts that get more tokens than "
        "usual");
    if (!out_.unmeasured.empty()) {
      out.push_back(
          "no published step supports these times, so their bounds are twice "
          "as wide: " +
          Join(out_.unmeasured, ", "));
    }
    for (const std::string& note : work_.notes) out.push_back(note);
  }

  CostInputs work_;
  Settings settings_;
  ServingReport out_;
  int64_t ranks_ = 1;
};

}  // namespace

std::vector<std::string> RefusalsOf(const CostInputs& work,
                                    const ServingRequest& request) {
  std::vector<std::string> out;
  for (const std::string& reason : EngineShards(work, {}, request).Refusals()) {
    out.push_back(request.engine->name + " refuses this layout: " + reason);
  }
  return out;
}

bool StatesAllSettings(const ServingRequest& request) {
  const auto& settings = request.engine->settings;
  return !settings.empty() &&
         std::all_of(settings.begin(), settings.end(),
                     [&](const EngineSetting& one) {
                       return IsAmong(one.setting, request.stated);
                     });
}

ServingReport ServingOf(const CostInputs& work, const Settings& settings,
                        const ServingRequest& request) {
  return Evaluator(work, settings, request).Run();
}

int64_t ExpertGroups(const CostInputs& work) {
  const ParamClass* const down = work.Find(Role::kDown, true);
  return down == nullptr ? 1 : work.Parts(ExpertAxes(work, *down));
}

double TransferSeconds(const DeviceProfile& profile, const Mesh& mesh,
                       int64_t bytes) {
  return Real(bytes) / FarRate(NetworkOf(profile, mesh));
}

}  // namespace shardc::cost
