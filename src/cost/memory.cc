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
#include <cmath>
#include <map>
#include <vector>

#include "comm/reshard.h"
#include "cost/states.h"
#include "cost/unknown_roles.h"
#include "model/shard_range.h"
#include "source/checked.h"
#include "source/wording.h"

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
    const bool one = param.role.module_role == Role::kEmbedding ||
                     param.role.module_role == Role::kHead || !param.IsWeight();
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
  for (const Bytes& one : held.by) {
    if (one && held.total) held.total = CheckedAdd(*held.total, *one);
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
  return !at_least &&
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

Memory MemoryOf(const CostInputs& work, const Settings& settings) {
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
  if (!out.activations) out.unknown.push_back(std::move(why));
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
  set(Component::kActivations, activations, activations);
  set(Component::kLogits, logits, logits);
  set(Component::kGathered, weights, weights);
  Sum(out.most);
  Sum(out.least);
  // Without the bytes of the emptiest device, the sum has only other bytes.
  if (known && !out.least.Of(Component::kParameters)) out.least.total.reset();
  if (peak && known && out.most.total && !out.at_least) {
    const int64_t states =
        *out.most.total - (Size(peak->kept) + peak->Besides()).value();
    out.taken = TakenOf(work, settings, states, *peak);
  }
  out.capacity = CapacityOf(work.mesh.device.value_or(Device{}), settings);
  return out;
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

}  // namespace shardc::cost
