// Estimates the memory of a step that `verify step` proves. The request is
// converted to the settings of `cost`. Settings that `verify step` does not
// have, such as the optimizer, get the defaults of `cost`:
//
//   --microbatches 4 --zero 1  ->  cost::Settings with the same two values
#include "cli/step_memory.h"

#include <string>

#include "cli/dtype_help.h"
#include "cli/output.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

bool ReadDtype(std::string_view flag, const std::string& text,
               std::optional<Dtype>& out, Findings& findings) {
  if (text.empty()) return true;
  out = ParseDtype(text);
  if (out && DtypeBits(*out) >= 8) return true;
  findings.Add(code::kUsage, FlagPlace(flag, text),
               ShortQuote(text) +
                   " is not a dtype of at least one byte per element, such as "
                   "bfloat16",
               DtypeHelp(text));
  return false;
}

cost::Settings SettingsOf(const verify::StepRequest& request,
                          const StepDtypes& dtypes) {
  cost::Settings out;
  out.batch = request.batch;
  if (IsGeneration(request.mode)) {
    out.kv_length = request.length;
  } else {
    out.length = request.length;
  }
  out.activations = dtypes.activations;
  out.cache = dtypes.cache;
  out.gradients = dtypes.gradients;
  out.operation = request.operation;
  if (request.mode != Mode::kTrain) return out;
  out.remat = request.remat;
  out.zero = request.zero;
  out.microbatches = request.microbatches;
  out.reduction = request.reduction;
  return out;
}

}  // namespace

Options StepDtypeOptions(StepDtypeFlags& flags) {
  return {{.name = "--activation-dtype",
           .to = &flags.activations,
           .value = "DTYPE",
           .help = "dtype of activations, for the bytes (default: bfloat16)"},
          {.name = "--grad-dtype",
           .to = &flags.gradients,
           .value = "DTYPE",
           .help = "dtype of gradients, for the bytes (default: that of their "
                   "parameters)"},
          {.name = "--kv-dtype",
           .to = &flags.cache,
           .value = "DTYPE",
           .help = "dtype of the KV cache, for the bytes (default: bfloat16)"},
          {.name = "--zero",
           .to = &flags.zero,
           .value = "0|1|2|3",
           .help = "ZeRO stage, which shards over replicas: 1 the optimizer's "
                   "states, 2 gradients too, 3 parameters too (default: 0)"}};
}

std::optional<StepDtypes> ReadStepDtypes(const StepDtypeFlags& flags,
                                         verify::StepRequest& request,
                                         Findings& findings) {
  StepDtypes out;
  std::optional<Dtype> activations, cache;
  if (!ReadDtype("--activation-dtype", flags.activations, activations,
                 findings) ||
      !ReadDtype("--grad-dtype", flags.gradients, out.gradients, findings) ||
      !ReadDtype("--kv-dtype", flags.cache, cache, findings)) {
    return std::nullopt;
  }
  out.activations = activations.value_or(out.activations);
  out.cache = cache.value_or(out.cache);
  request.element_bytes = DtypeBits(out.activations) / 8;
  request.cache_bytes = DtypeBits(out.cache) / 8;
  if (out.gradients) request.gradient_bytes = DtypeBits(*out.gradients) / 8;
  if (flags.zero.empty()) return out;
  const auto stage = ParseInteger("--zero", flags.zero, 0, findings);
  if (!stage) return std::nullopt;
  constexpr int64_t kMostStage = 3;
  if (*stage > kMostStage) {
    findings.Add(code::kUsage, FlagPlace("--zero", flags.zero),
                 "ZeRO has the stages 0 to 3");
    return std::nullopt;
  }
  request.zero = static_cast<int>(*stage);
  return out;
}

std::optional<verify::StepMemory> MemoryOfStep(
    const verify::StepRequest& request, const StepDtypes& dtypes,
    const std::optional<ModelConfig>& model) {
  const cost::Memory memory = MemoryOf(
      cost::MakeCostInputs(*request.compiled, model, request.mode),
      WithLossOf(request.compiled->rules, SettingsOf(request, dtypes)));
  if (!memory.unknown.empty() || !memory.most.total) return std::nullopt;
  verify::StepMemory out;
  out.total = *memory.most.total;
  for (size_t i = 0; i < cost::kComponentCount; ++i) {
    const int64_t bytes = memory.most.by[i].value_or(0);
    out.components.emplace_back(cost::kComponentNames[i], bytes);
  }
  if (memory.taken) {
    out.moment = cost::kMomentKeys[static_cast<size_t>(memory.taken->moment)];
  }
  return out;
}

}  // namespace shardc::cli
