#include "exec/operations/operation.h"

#include <algorithm>
#include <array>

namespace shardc::exec {
namespace {

constexpr std::array kOperations = {
#define SHARDC_OPERATION(name) &name,
#include "exec/operations/table.h"
#undef SHARDC_OPERATION
};

}  // namespace

std::span<const Operation* const> Operations() { return kOperations; }

const Operation* FindOperation(std::string_view name) {
  const auto found = std::find_if(
      kOperations.begin(), kOperations.end(),
      [&](const Operation* operation) { return operation->name == name; });
  return found == kOperations.end() ? nullptr : *found;
}

std::vector<KnownOperation> KnownOperations() {
  std::vector<KnownOperation> out;
  for (const Operation* operation : kOperations) {
    out.push_back({operation->name, kCommonSettings | operation->settings});
  }
  return out;
}

}  // namespace shardc::exec
