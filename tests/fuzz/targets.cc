#include "fuzz/targets.h"

#include <cstdio>
#include <cstdlib>

namespace shardc::fuzz {

Target FindTarget(std::string_view name) {
  for (const auto targets :
       {TextTargets(), JsonTargets(), BinaryTargets(), GeneratedTargets(),
        EditorTargets(), CommandTargets(), StoredTargets()}) {
    for (const NamedTarget& target : targets) {
      if (target.name == name) return target.run;
    }
  }
  return nullptr;
}

void Require(bool good, std::string_view what) {
  if (good) return;
  std::fprintf(stderr, "does not hold: %.*s\n", static_cast<int>(what.size()),
               what.data());
  std::abort();
}

}  // namespace shardc::fuzz
