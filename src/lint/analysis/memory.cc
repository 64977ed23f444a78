// Replicated and evenly sharded parameters take the same bytes on all devices;
// placed ones are added by coordinate, of which the fullest counts. The result
// is that of the mode that needs most:
//
//   3 experts of 1 GiB placed on ep 2: coordinates hold 2 and 1  ->  2 GiB
#include "lint/analysis/memory.h"

#include "comm/memory.h"
#include "lint/analysis/cache.h"
#include "source/checked.h"
#include "source/wording.h"

namespace shardc {
namespace {

int64_t ParameterBytes(const Facts& facts, size_t mode) {
  HeldBytes held;
  for (const PlannedParam& param : facts.plan().params) {
    const ParamLayout& layout = facts.plan().layouts[param.layout];
    if (mode >= layout.modes.size()) continue;
    const int64_t bytes = layout.modes[mode].bytes_per_device.value_or(0);
    if (!param.coordinate || layout.rule < 0) {
      held.Add(bytes);
      continue;
    }
    held.AddAt(facts.PlacementAxis(layout), *param.coordinate, bytes);
  }
  return held.Fullest().value_or(INT64_MAX);
}

}  // namespace

std::string MemoryUse::ToString() const {
  std::string out = BytesText(parameters) + " of parameters";
  if (cache > 0) out += " and " + BytesText(cache) + " of KV cache";
  return out;
}

std::optional<MemoryUse> MostMemory(const Facts& facts) {
  std::optional<MemoryUse> most;
  const auto& modes = facts.plan().modes;
  for (size_t i = 0; i < modes.size(); ++i) {
    MemoryUse use;
    use.mode = modes[i];
    use.parameters = ParameterBytes(facts, i);
    if (modes[i] != Mode::kTrain) {
      use.cache = CacheBytesPerDevice(facts, modes[i]).value_or(0);
    }
    if (CheckedAdd(use.parameters, use.cache) &&
        (!most || use.Total() > most->Total())) {
      most = use;
    }
  }
  return most;
}

}  // namespace shardc
