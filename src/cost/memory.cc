// Computes the bytes that devices hold. Parameters, gradients and optimizer
// states take the same bytes on every device, unless a rule with `place` puts
// tensors on only a part of the devices. If an axis does not divide a size, the
// bytes of cache, activations and logits are computed for the fullest device.
//
// For example, 7.5e9 parameters in bfloat16 are trained with adamw on 64
// replicas. Each device holds:
//
//   without ZeRO   parameters 15 GB, gradients 15 GB, states 90 GB: 120 GB
//   ZeRO 1         31.4 GB, because the states are divided over the replicas
//   ZeRO 2         16.6 GB, because the gradients are divided too
//   ZeRO 3          1.9 GB, because the parameters are divided too
#include "cost/memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

#include "comm/reshard.h"
#include "cost/next_token.h"
#include "cost/unknown_roles.h"
#include "model/mesh_layout.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/program.h"

namespace shardc::cost {
namespace {

using Bytes = std::optional<int64_t>;

// The bytes of a parameter while it is used. The parameter is then unsharded
// over the axes over which it is gathered, and still sharded over all other
// axes. Under ZeRO 3 it is also gathered over the axes of replicas. `gathers`
// is true if it is gathered over at least one axis. The bytes are nullopt if
// they do not fit in 64 bits.
struct UsedWeight {
  Bytes bytes;
  bool gathers = false;
};
UsedWeight UsedBytes(const CostInputs& work, const Settings& settings,
                     const ParamClass& param) {
  UsedWeight out;
  const bool replicas = work.mode == Mode::kTrain && settings.zero == 3 &&
                        ReplicaParts(work, param) > 1;
  out.gathers = replicas || work.IsGathered(param);
  const auto elements = CheckedProduct(work.UsedShape(param));
  if (elements) {
    out.bytes =
        BytesOf(*elements, GatheredDtype(work, settings, *param.type.dtype));
  }
  return out;
}

// Returns the bytes of the weights that a device gathers once a step. Axes over
// which a weight is not gathered still divide its bytes. Returns nullopt if the
// bytes do not fit in 64 bits.
std::optional<GatheredWeights> GatheredOnce(const CostInputs& work,
                                            const Settings& settings) {
  HeldBytes out;
  for (const ParamClass& param : work.params) {
    if (!param.type.shape || !param.type.dtype) continue;
    const UsedWeight used = UsedBytes(work, settings, param);
    if (!used.gathers) continue;
    if (!used.bytes) return std::nullopt;
    Hold(param, used.bytes, out);
  }
  const Bytes held = out.Fullest();
  if (!held) return std::nullopt;
  return GatheredWeights{.held = *held};
}

// Returns the bytes of gathered weights on a device: the sum over the weights
// of one layer, and the bytes of the largest other parameter except norms and
// biases. Parameters that are not gathered are left out. Axes over which a
// weight is not gathered still divide its bytes. Returns nullopt if the bytes
// do not fit in 64 bits.
std::optional<GatheredWeights> GatheredBytes(const CostInputs& work,
                                             const Settings& settings) {
  if (settings.gathers_once) return GatheredOnce(work, settings);
  LayerCounts counts(work);
  Bytes layers = 0, largest = 0;
  for (const ParamClass& param : work.params) {
    if (!param.type.shape || !param.type.dtype) continue;
    const UsedWeight used = UsedBytes(work, settings, param);
    if (!used.gathers) continue;
    const Bytes whole = used.bytes;
    if (!whole) return std::nullopt;
    // A matrix under a strange name is a layer's as well.
    const bool weight =
        param.IsWeight() || (param.strange && param.type.shape->size() > 1);
    const bool one = param.role.module_role == Role::kEmbedding ||
                     param.role.module_role == Role::kHead || !weight;
    if (one) {
      if (param.role.module_role != Role::kNorm &&
          param.role.leaf != Leaf::kBias) {
        largest = std::max(*largest, *whole);
      }
      continue;
    }
    const int64_t layers_of =
        param.sharing_layers > 0 ? param.Matrices() : counts.Of(param);
    const int64_t each = std::max<int64_t>(layers_of, 1);
    const Bytes all = CheckedMul(*whole, param.CountOnDevice());
    layers = all && layers ? CheckedAdd(*layers, *all / each) : std::nullopt;
    if (!layers) return std::nullopt;
  }
  return GatheredWeights{.layer = *layers, .largest = *largest};
}

// Returns the bytes of a copy of all trained parameters whose dtype is wider
// than that of the activations. The copy has the dtype of the activations.
int64_t CastBytes(const CostInputs& work, const Settings& settings) {
  HeldBytes out;
  for (const ParamClass& param : work.params) {
    if (!param.type.shape || !param.type.dtype || !IsTrained(param)) continue;
    const Dtype stored = *param.type.dtype;
    if (GatheredDtype(work, settings, stored) == stored) continue;
    const Bytes bytes = StatesOf(work, param, settings).parameter;
    const int64_t bits = DtypeBits(stored);
    if (bytes)
      Hold(param, *bytes / bits * DtypeBits(settings.activations), out);
  }
  return out.Fullest().value_or(INT64_MAX);
}

// Replaces the layers of the only cache of a model, and those of its int8
// scales, by layers with their own numbers of KV heads.
std::vector<CacheSizes> WithKvHeads(const LayersByKvHeads& layers,
                                    const std::vector<CacheSizes>& caches) {
  std::vector<CacheSizes> out;
  for (const CacheSizes& cache : caches) {
    for (const auto& [heads, count] : layers) {
      out.push_back(cache);
      out.back().kv_heads = heads;
      out.back().layers = count;
    }
  }
  return out;
}

// Serving keeps a state for each request and each layer that mixes tokens
// without a KV cache. Its size is not computed.
void AddStatesOfMixers(const CostInputs& work, Memory& out) {
  NotKnown states{
      .what =
          "the bytes of the states that state-space blocks and linear "
          "attention keep for each request"};
  for (const ParamClass& param : work.params) {
    if (param.mixes && param.stream == Stream::kModel) {
      states.params.push_back(param.name);
    }
  }
  if (states.params.empty()) return;
  out.unknown.push_back(std::move(states));
  out.at_least = true;
}

Bytes CacheOf(const CostInputs& work, const Settings& settings, Memory& out) {
  if (work.mode == Mode::kTrain) return 0;
  AddStatesOfMixers(work, out);
  const auto length = settings.kv_length ? settings.kv_length : settings.length;
  if (!work.model || !settings.batch || !length) {
    out.unknown.push_back({.what = "the KV cache",
                           .settled_by = "--model, --batch and --kv-len"});
    return std::nullopt;
  }
  // The missing fact is in CostInputs::not_known.
  if (work.unknown_axes) return std::nullopt;
  auto caches = CachesOf(*work.model, *settings.batch, *length, settings.cache);
  if (caches) {
    const LayersByKvHeads layers = work.KvHeadsByShape();
    const bool windows =
        work.model->sliding_window || work.model->attention_chunk;
    if (!layers.empty() && windows) {
      out.unknown.push_back(
          {.what = "the KV cache: layers have different numbers of KV heads, "
                   "and the configuration does not say which of them have a "
                   "window"});
      return std::nullopt;
    }
    if (!layers.empty()) caches = WithKvHeads(layers, *caches);
  }
  if (!caches) {
    out.unknown.push_back(
        {.what =
             work.model->has_encoder
                 ? "the KV cache: the model has an encoder, whose keys are "
                   "kept too"
                 : "the KV cache: the configuration does not define heads and "
                   "layers"});
    return std::nullopt;
  }
  return CacheBytesPerDevice(*caches,
                             {work.Parts(work.key[0]), work.Parts(work.key[1]),
                              work.kv_parts.value_or(work.Parts(work.key[2]))});
}

void Sum(Held& held) {
  held.total = 0;
  for (size_t i = 0; i < kComponentCount; ++i) {
    if (held.total) held.total = CheckedAdd(*held.total, held.KnownOf(i));
  }
}

struct KeptBytes {
  HeldBytes parameters, gradients, optimizer;
};

// Adds the bytes of all parameters, gradients and optimizer states to `kept`.
// Returns false if a size is unknown.
bool HoldAll(const CostInputs& work, const Settings& settings,
             KeptBytes& kept) {
  bool known = true;
  for (const ParamClass& param : work.params) {
    const StateBytes each = StatesOf(work, param, settings);
    known = known && each.parameter && each.gradient && each.optimizer;
    Hold(param, each.parameter, kept.parameters);
    Hold(param, each.gradient, kept.gradients);
    Hold(param, each.optimizer, kept.optimizer);
    if (!param.type.shape ||
        DividesEvenly(work.mesh, *param.type.shape, param.spec)) {
      continue;
    }
    for (HeldBytes* held :
         {&kept.parameters, &kept.gradients, &kept.optimizer}) {
      held->MarkUneven();
    }
  }
  return known;
}

// Returns whether the gradients exist only from the backward pass to the
// update. On a single device with one micro-batch they do: nothing reduces
// the gradients, and there are no gradients of earlier micro-batches. Software
// that keeps gradients in buffers is an exception.
bool FreesGradients(const CostInputs& work, const Settings& settings) {
  return work.mode == Mode::kTrain && !work.all_stages &&
         work.mesh.devices == 1 && settings.microbatches == 1 &&
         !StackOf(work, settings).memory.keeps_gradients;
}

// Returns the gradients of a step for which FreesGradients is true. `all` are
// the bytes of the gradients of all parameters.
StepGradients GradientsOf(const CostInputs& work, const Settings& settings,
                          int64_t all) {
  const Role last =
      work.Find(Role::kHead) != nullptr ? Role::kHead : Role::kEmbedding;
  HeldBytes first;
  for (const ParamClass& param : work.params) {
    if (param.role.module_role != last) continue;
    Hold(param, StatesOf(work, param, settings).gradient, first);
  }
  return {.first = std::min(first.Fullest().value_or(0), all), .all = all};
}

}  // namespace

std::optional<int64_t> CacheBytesOf(const CostInputs& work,
                                    const Settings& settings,
                                    std::vector<NotKnown>& unknown) {
  Memory out;
  const Bytes bytes = CacheOf(work, settings, out);
  AddNotKnown(out.unknown, unknown);
  return out.unknown.empty() ? bytes : std::nullopt;
}

void Hold(const ParamClass& param, Bytes each, HeldBytes& held) {
  if (param.placed.empty()) {
    held.Add(each ? CheckedMul(*each, param.count) : std::nullopt);
    return;
  }
  for (const auto& [coordinate, count] : param.placed) {
    held.AddAt(param.placed_along, coordinate,
               each ? CheckedMul(*each, count) : std::nullopt);
  }
}

Dtype GatheredDtype(const CostInputs& work, const Settings& settings,
                    Dtype stored) {
  const bool narrower = DtypeBits(settings.activations) < DtypeBits(stored);
  return work.mode == Mode::kTrain && narrower ? settings.activations : stored;
}

TakenBytes TakenOf(const CostInputs& work, const Settings& settings,
                   int64_t states, const Peak& peak) {
  const Stack& stack = StackOf(work, settings);
  const int64_t context = ContextBytes(work, stack);
  const Size held = Size(states) + peak.kept;
  TakenBytes out;
  out.least = (Size(states) + peak.least_kept + peak.least).value();
  out.expected = Grown((held + peak.Besides()).value(), stack.memory.allocator);
  out.most =
      (Size(Grown((held + peak.most).value(), stack.memory.most_allocator)) +
       context)
          .value();
  out.least = std::min(out.least, out.expected);
  out.moment = peak.moment;
  out.stack = &stack;
  out.stack_assumed = settings.stack == nullptr;
  return out;
}

int64_t Grown(int64_t bytes, double factor) {
  const double out = Real(bytes) * factor;
  return out < 9.2e18 ? std::llround(out) : INT64_MAX;
}

int64_t ContextBytes(const CostInputs& work, const Stack& stack) {
  constexpr int64_t kContext = 1'000'000'000, kAxis = 700'000'000;
  if (!stack.memory.context) return 0;
  const auto used =
      std::count_if(work.mesh.axes.begin(), work.mesh.axes.end(),
                    [](const MeshAxis& axis) { return axis.size > 1; });
  return kContext + kAxis * used;
}

bool Memory::Complete() const {
  return !at_least && !lacks_layers &&
         std::all_of(most.by.begin(), most.by.end(),
                     [](const Bytes& one) { return one.has_value(); });
}

std::optional<Fit> Memory::VerdictOfKnown() const {
  if (!capacity || !most.total) return std::nullopt;
  const int64_t lower = taken ? taken->least : *most.total;
  const int64_t upper = taken ? taken->most : *most.total;
  if (lower > *capacity) return Fit::kExceeds;
  return upper <= *capacity ? Fit::kFits : Fit::kMayFit;
}

std::optional<Fit> Memory::Verdict() const {
  const auto known = VerdictOfKnown();
  return Complete() || known != Fit::kFits ? known : std::nullopt;
}

std::optional<bool> Memory::Fits() const {
  const auto verdict = Verdict();
  return verdict ? std::optional(*verdict == Fit::kFits) : std::nullopt;
}

namespace {

// Returns the memory of the parameters of `work`. A step computes the logits
// `heads` times for each token.
Memory MemoryOfParams(const CostInputs& work, const Settings& settings,
                      int64_t heads) {
  Memory out;
  KeptBytes kept;
  const bool known = HoldAll(work, settings, kept);
  if (!known) {
    out.unknown.push_back(
        {.what = "parameters: the manifest has no shape or dtype for some"});
  }
  AddNotKnown(work.not_known, out.unknown);
  const bool roles_known = work.not_known.empty();
  out.at_least = !roles_known;
  if (const auto missing = MissingExpertChoice(work)) {
    AddNotKnown({*missing}, out.unknown);
    out.at_least = true;
  }
  if (auto missing = MissingNextTokenLayers(work)) {
    out.unknown.push_back(std::move(*missing));
    out.lacks_layers = true;
  }
  const auto set = [&](Component component, Bytes most, Bytes least) {
    out.most.by[static_cast<size_t>(component)] = most;
    out.least.by[static_cast<size_t>(component)] = least;
  };
  const auto held = [&](Component component, const HeldBytes& bytes) {
    if (known) set(component, bytes.Fullest(), bytes.Emptiest(work.mesh));
  };
  if (work.ServesQuantised()) {
    out.unknown.push_back(MissingQuantisedWeights());
    out.at_least = true;
  } else {
    held(Component::kParameters, kept.parameters);
  }
  held(Component::kGradients, kept.gradients);
  held(Component::kOptimizer, kept.optimizer);
  out.gradients = out.most.Of(Component::kGradients);
  const Bytes cache = CacheOf(work, settings, out);
  set(Component::kCache, cache, cache);
  NotKnown why;
  out.activations = ActivationsOf(work, settings, why);
  if (!out.activations) {
    out.unknown.push_back(std::move(why));
  } else if (auto& logits = out.activations->logits) {
    // The backward pass begins after all losses, so all logits exist at once.
    logits = Times(*logits, heads);
  }
  Bytes activations, logits, weights;
  std::optional<Peak> peak;
  std::optional<GatheredWeights> gathered;
  if (roles_known) {
    gathered = GatheredBytes(work, settings);
  } else {
    // Each of these is computed from the roles of all weights.
    out.activations.reset();
    if (FreesGradients(work, settings)) {
      set(Component::kGradients, std::nullopt, std::nullopt);
    }
    if (settings.optimizer == Optimizer::kMuon) {
      set(Component::kOptimizer, std::nullopt, std::nullopt);
    }
    if (auto trained = UnknownAdapters(work)) {
      out.unknown.push_back(std::move(*trained));
      out.gradients.reset();
      set(Component::kGradients, std::nullopt, std::nullopt);
      set(Component::kOptimizer, std::nullopt, std::nullopt);
    }
  }
  if (gathered) {
    weights = std::max({gathered->layer, gathered->largest, gathered->held});
  }
  if (out.activations) {
    activations = out.activations->Total();
    logits = out.activations->logits;
    if (!logits) {
      out.unknown.push_back({.what = std::string(kUnknownLogits)});
    }
    if (work.mode == Mode::kTrain && gathered) {
      gathered->casts = CastBytes(work, settings);
      out.weights = gathered;
      const bool frees = out.gradients && FreesGradients(work, settings);
      peak = PeakOf(work, settings, *out.activations, *gathered,
                    frees ? GradientsOf(work, settings, *out.gradients)
                          : StepGradients{});
      if (frees) {
        set(Component::kGradients, peak->gradients, peak->gradients);
      }
      activations = (Size(peak->kept) + peak->working).value();
      if (logits) logits = peak->logits;
      weights = (Size(peak->gathered) + gathered->held).Checked();
    }
  }
  if (activations && !out.activations->sums_known) {
    out.unknown.push_back(MissingSums());
    const auto i = static_cast<size_t>(Component::kActivations);
    out.most.parts[i] = out.least.parts[i] = *activations;
    activations.reset();
  }
  set(Component::kActivations, activations, activations);
  set(Component::kLogits, logits, logits);
  set(Component::kGathered, weights, weights);
  Sum(out.most);
  Sum(out.least);
  // Without the bytes of the emptiest device, the sum has only other bytes.
  if (known && !out.least.Of(Component::kParameters)) out.least.total.reset();
  if (peak && logits && known && out.most.total && !out.at_least &&
      !out.lacks_layers) {
    const int64_t states =
        *out.most.total - (Size(peak->kept) + peak->Besides()).value();
    out.taken = TakenOf(work, settings, states, *peak);
  }
  out.capacity = CapacityOf(work.mesh.device.value_or(Device{}), settings);
  return out;
}

}  // namespace

Memory MemoryOf(const CostInputs& work, const Settings& settings) {
  if (work.next_token_layers == 0 || work.LacksLayers()) {
    return MemoryOfParams(work, settings, 1);
  }
  return MemoryOfParams(WithNextTokenLayers(work), settings,
                        1 + work.next_token_layers);
}

std::optional<int64_t> CapacityOf(const Device& device,
                                  const Settings& settings) {
  if (settings.memory) return settings.memory;
  const DeviceProfile* const named = FindDeviceProfile(device.profile);
  const bool stated =
      named == nullptr || device.memory_bytes != named->DeviceMemory();
  if (device.memory_bytes && (stated || settings.profile == nullptr)) {
    return device.memory_bytes;
  }
  if (settings.profile == nullptr) return std::nullopt;
  return settings.profile->DeviceMemory();
}

// Computes the sizes of optimizer states, which have the sharding of their
// parameter. Adafactor replaces the second moments of a tensor by sums over the
// rows and over the columns of its two largest dimensions. If the second
// largest dimension is below 128, it keeps one number per element instead. Muon
// keeps one number per element of a projection. For other parameters it keeps
// two numbers, as Adam does.
//
// For example, under adafactor a device keeps 512 sums of rows and 11,008 sums
// of columns for a tensor [4096, 11008] whose dimension 0 is split into 8
// shards.
//
// Sources: Rajbhandari et al., ZeRO (arXiv 1910.02054); optax's adamw, lion and
// adafactor. In the ZeRO paper, K is the number of bytes of states per
// parameter. Here K is 12: master copy, momentum and variance, each in float32.

namespace {

using MaybeBytes = std::optional<int64_t>;

constexpr int64_t kLeastFactored = 128;

MaybeBytes SumOfBytes(MaybeBytes a, MaybeBytes b) {
  return a && b ? CheckedAdd(*a, *b) : std::nullopt;
}

int64_t ShareOf(int64_t elements, int64_t parts) {
  return elements / parts + (elements % parts != 0 ? 1 : 0);
}

// Returns the number of elements of Adafactor's two vectors, which replace a
// matrix of second moments. Returns nullopt if the tensor is not factored,
// because it has fewer than two dimensions or because its second largest
// dimension is too small.
MaybeBytes FactoredElements(const Shape& whole, const Shape& shard) {
  if (whole.size() < 2) return std::nullopt;
  std::vector<size_t> order(whole.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return whole[a] < whole[b]; });
  const size_t largest = order.back(), second = order[order.size() - 2];
  if (whole[second] < kLeastFactored) return std::nullopt;
  const auto without = [&](size_t dim) {
    Shape left = shard;
    left.erase(left.begin() + static_cast<long>(dim));
    return CheckedProduct(left);
  };
  return SumOfBytes(without(largest), without(second));
}

// The numbers of first and of second moments that the optimizer keeps for one
// parameter on a device.
struct MomentCounts {
  MaybeBytes first = 0, second = 0;
};

MomentCounts SlotsOf(Optimizer optimizer, const ParamClass& param,
                     const Shape& shard, int64_t elements) {
  switch (optimizer) {
    case Optimizer::kAdamW:
      return {elements, elements};
    case Optimizer::kMuon:
      return {elements,
              param.IsWeight() && param.role.module_role != Role::kHead
                  ? 0
                  : elements};
    case Optimizer::kLion:
    case Optimizer::kMomentum:
      return {elements, 0};
    case Optimizer::kAdafactor: {
      const MaybeBytes factored = FactoredElements(*param.type.shape, shard);
      return {0, factored ? factored : MaybeBytes(elements)};
    }
    case Optimizer::kSgd:
      break;
  }
  return {};
}

MaybeBytes In(MaybeBytes elements, Dtype dtype, int64_t parts) {
  return elements ? BytesOf(ShareOf(*elements, parts), dtype) : std::nullopt;
}

// Returns whether gradients stay partial while they are summed over several
// micro-batches, and are reduced once at the end. The sum is then not sharded
// over the axes of this reduction.
bool SumsArePartial(const Settings& settings) {
  return settings.microbatches > 1 &&
         settings.reduction == step::Reduction::kOnce;
}

// Returns the number of elements that a device holds of a gradient that is
// summed over micro-batches. If the gradient is reduced only at the end, it is
// not sharded over the axes over which the weight is gathered.
MaybeBytes SumElements(const CostInputs& work, const ParamClass& param,
                       const Settings& settings, int64_t elements) {
  if (!SumsArePartial(settings)) return elements;
  return CheckedProduct(work.UsedShape(param));
}

}  // namespace

bool IsTrained(const ParamClass& param) {
  return !param.frozen && param.type.dtype &&
         step::IsTrained(*param.type.dtype);
}

int64_t ReplicaParts(const CostInputs& work, const ParamClass& param) {
  const auto shards = [&](const std::string& axis) {
    return axis == param.placed_along ||
           std::any_of(
               param.spec.begin(), param.spec.end(),
               [&](const AxisGroup& axes) { return IsAmong(axis, axes); });
  };
  int64_t parts = 1;  // cannot overflow: at most the number of devices
  for (const AxisGroup* tokens : {&work.Batch(), &work.Length()}) {
    for (const std::string& axis : *tokens) {
      if (!shards(axis)) parts *= work.mesh.SizeOf(axis);
    }
  }
  return parts;
}

StateBytes StatesOf(const CostInputs& work, const ParamClass& param,
                    const Settings& settings) {
  StateBytes out;
  if (!param.type.shape || !param.type.dtype) return out;
  const Shape shard = ShardShape(work.mesh, *param.type.shape, param.spec);
  const MaybeBytes elements = CheckedProduct(shard);
  if (!elements) return out;
  const Dtype dtype = *param.type.dtype;
  const bool train = work.mode == Mode::kTrain;
  const int64_t replicas = train ? ReplicaParts(work, param) : 1;
  const auto parts = [&](int stage) {
    return settings.zero >= stage ? replicas : 1;
  };
  out.parameter = In(elements, dtype, parts(3));
  out.gradient = out.optimizer = 0;
  if (!train || !IsTrained(param)) return out;
  out.gradient = In(SumElements(work, param, settings, *elements),
                    settings.gradients.value_or(dtype),
                    SumsArePartial(settings) ? 1 : parts(2));
  const MomentCounts slots =
      SlotsOf(settings.optimizer, param, shard, *elements);
  const Dtype first = settings.first_moment.value_or(Dtype::kF32);
  const Dtype second = settings.second_moment.value_or(Dtype::kF32);
  out.optimizer = SumOfBytes(In(slots.first, first, parts(1)),
                             In(slots.second, second, parts(1)));
  std::optional<Dtype> master = settings.master;
  if (!settings.master_given && DtypeBits(dtype) < 32) master = Dtype::kF32;
  if (master) {
    out.optimizer = SumOfBytes(out.optimizer, In(elements, *master, parts(1)));
  }
  if (settings.offloads_optimizer) {
    out.offloaded = out.optimizer;
    out.optimizer = 0;
  }
  return out;
}

// Computes the peak memory of a training step. A layer's backward pass and the
// loss do not run at the same time. The expected peak therefore includes only
// the larger of the two, and the upper estimate includes both.
//
// For example, Llama 3 8B runs on fsdp:8 with one row of 32,768 tokens per
// device, and only the inputs of layers are kept. The peak is at the loss:
//
//   parameters, gradients and states 15 GiB, kept inputs 8, gathered weights
//   1.4, and 3.5 copies of the logits of 15.7 each: in total 79.2 GiB
//
// With the reserve of the allocator, the expected memory is 81.5 GiB.
// torchtitan reports 83.9 GiB for this step.

namespace {

constexpr double kEagerLoss = 4, kCompiledLoss = 1.5, kLossSpread = 0.5;
// In the lower and in the upper estimate, the bytes of a layer are multiplied
// by these factors. The lower factor is below 1, because the backward pass of a
// layer does not hold all tensors of the layer at the same time.
constexpr double kLeastLayer = 0.7, kMostLayer = 1.1;

int64_t RoundedBytes(double bytes) {
  constexpr double kMost = 9.2e18;
  return bytes < kMost ? std::llround(bytes) : INT64_MAX;
}

struct CopyRange {
  double least = 0, expected = 0, most = 0;
};

CopyRange CopiesOf(const Settings& settings, const StackMemory& stack) {
  const auto around = [](double copies) {
    return CopyRange{std::max(0.0, copies - kLossSpread), copies,
                     copies + kLossSpread};
  };
  switch (settings.loss) {
    case LossKind::kStack:
      return {stack.least_loss, stack.loss,
              std::max(stack.most_loss, stack.loss)};
    case LossKind::kEager:
      return around(kEagerLoss);
    case LossKind::kCompiled:
      return around(kCompiledLoss);
    case LossKind::kFused:
      return around(0);
  }
  return {};
}

// Returns whether the backward pass of the layer holds the gradient of this
// tensor at the same time as the tensor.
bool IsWide(const LayerTensor& tensor) {
  constexpr std::array<std::string_view, 3> kWide = {"gate_proj", "up_proj",
                                                     "product"};
  return IsAmong(tensor.what.name, kWide);
}

class Parts {
 public:
  Parts(const CostInputs& work, const Settings& settings,
        const Activations& activations, const StackMemory& stack)
      : work_(work),
        settings_(settings),
        activations_(activations),
        stack_(stack) {}

  // Returns the bytes kept from the forward pass for the backward pass. If
  // `expected` is true and nothing is recomputed, they include the bytes that
  // the training software `stack_` keeps in addition to the step's tensors.
  double Kept(bool expected) const {
    const bool all = !settings_.remat.Recomputes();
    return Real(activations_.kept) * (expected && all ? stack_.kept : 1);
  }

  // Returns the bytes of the layer whose backward pass runs: the tensors that
  // it recomputes, gradients inside the layer, and inputs gathered over the
  // axes that shard the hidden state.
  double Layer() const {
    double out = Real(activations_.working), input = 0;
    for (const LayerTensor& tensor : activations_.tensors) {
      if (tensor.encoder != activations_.encoder_works) continue;
      if (IsWide(tensor)) out += Real(tensor.bytes);
      if (tensor.what.made == step::Made::kCarried) input = Real(tensor.bytes);
    }
    const double parts = Real(work_.Parts(work_.hidden));
    return (out + 2 * input + 2 * input * (parts - 1)) * stack_.layer;
  }

  double Logits() const {
    return Real(activations_.logits.value_or(0)) * ChunkShare();
  }

  // Returns the bytes of the hidden state's gradient at the loss if the
  // vocabulary is sharded, else 0. The gradient is then partial, and is not
  // sharded over the axes of the hidden state.
  double HiddenGradient() const {
    if (!activations_.logits_sharded) return 0;
    for (const LayerTensor& tensor : activations_.tensors) {
      if (tensor.what.made != step::Made::kCarried || tensor.encoder) continue;
      return Real(tensor.bytes) * Real(work_.Parts(work_.hidden)) *
             ChunkShare();
    }
    return 0;
  }

 private:
  double ChunkShare() const {
    const auto tokens = TokensOf(work_, settings_);
    if (!tokens || !settings_.loss_chunk || tokens->All() <= 0) return 1;
    return std::min(1.0, Real(*settings_.loss_chunk) / Real(tokens->All()));
  }

  const CostInputs& work_;
  const Settings& settings_;
  const Activations& activations_;
  const StackMemory& stack_;
};

}  // namespace

double LossCopies(const Settings& settings, const StackMemory& stack) {
  return CopiesOf(settings, stack).expected;
}

Peak PeakOf(const CostInputs& work, const Settings& settings,
            const Activations& activations, const GatheredWeights& gathered,
            const StepGradients& gradients) {
  const StackMemory& stack = StackOf(work, settings).memory;
  const Parts parts(work, settings, activations, stack);
  const CopyRange copies = CopiesOf(settings, stack);
  const double layer = parts.Layer(), logits = parts.Logits();
  const double hidden = copies.expected > 0 ? parts.HiddenGradient() : 0;
  const double casts = stack.casts_all ? Real(gathered.casts) : 0;
  const double weights =
      Real(gathered.layer) +
      (stack.frees_gathered ? 0
                            : Real(std::max(gathered.layer, gathered.largest)));
  const double at_loss =
      copies.expected * logits + hidden + (stack.frees_gathered ? 0 : weights);
  const double kept = parts.Kept(true), least_kept = parts.Kept(false);
  // During the backward pass, gradients grow and kept activations are freed. So
  // the memory is largest while the pass runs its first or its last layer.
  const double first = Real(gradients.first), all = Real(gradients.all);
  const double at_first = layer + weights + first;
  const double at_last = layer + weights + all - kept;
  Peak out;
  out.moment = at_loss >= std::max(at_first, at_last) ? Moment::kLoss
                                                      : Moment::kBackward;
  const bool loss = out.moment == Moment::kLoss;
  const bool last = !loss && at_last > at_first;
  out.kept = last ? 0 : RoundedBytes(kept);
  out.least_kept = last ? 0 : RoundedBytes(least_kept);
  out.layer = RoundedBytes(layer);
  out.working = loss ? 0 : out.layer;
  out.logits = loss ? RoundedBytes(copies.expected * logits + hidden) : 0;
  out.gathered =
      RoundedBytes(casts + (loss && stack.frees_gathered ? 0 : weights));
  if (!loss) out.gradients = last ? gradients.all : gradients.first;
  const double least_loss = copies.least * logits;
  const double least_layer = kLeastLayer * layer;
  const double least =
      stack.frees_gathered
          ? std::max(least_loss, least_layer + first + weights)
          : weights + std::max(least_loss, least_layer + first);
  const double least_last = weights + least_layer + all;
  out.least = RoundedBytes(last ? std::max(least_kept + least, least_last)
                                : std::max(least, least_last - least_kept));
  out.most = RoundedBytes(casts + weights + copies.most * logits + hidden +
                          kMostLayer * layer + all + (last ? kept : 0));
  return out;
}

}  // namespace shardc::cost
