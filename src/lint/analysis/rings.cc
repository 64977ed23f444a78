#include "lint/analysis/rings.h"

#include <algorithm>

namespace shardc {
namespace {

bool IsZigZag(const OperationsFile& settings, const KnownOperation& operation) {
  if (!operation.settings.Has(Setting::kOrder)) return false;
  const SettingsRecord* record = settings.Find(operation.name);
  const auto& order = record != nullptr && record->order
                          ? record->order
                          : settings.defaults.order;
  return order == SequenceOrder::kZigZag;
}

}  // namespace

std::vector<ZigZagRing> RingsOf(const VerifyInput& input,
                                const OperationsFile& settings,
                                std::span<const KnownOperation> operations) {
  std::vector<ZigZagRing> out;
  for (const KnownOperation& operation : operations) {
    if (!IsZigZag(settings, operation)) continue;
    const std::string name(operation.name);
    for (const VerifyInput::Named& named : input.operations) {
      if (named.operation == name)
        out.push_back({name, named.mode, named.place});
    }
    if (input.operations.empty()) {
      out.push_back(
          {name, std::nullopt, input.inline_settings.value_or(Place())});
    }
  }
  return out;
}

}  // namespace shardc
