// Selects the instruction set of the kernels among those that are compiled in
// and that this processor supports. A processor without AVX-512 gets AVX2 or a
// lesser set. Products of bfloat16 numbers are used only together with the best
// instruction set.

#include <hwy/highway.h>

#include "exec/kernels/kernels.h"
#include "floats/bf16_products.h"
#include "floats/targets_simd.h"

namespace shardc::exec {

namespace {

// Returns, as a bit set, the compiled targets (instruction sets) that this
// processor has.
int64_t Usable() { return DetectedTargets() & HWY_TARGETS; }

// Each of these names selects the best instruction set, together with an
// instruction that multiplies bfloat16 numbers. The fastest is first.
struct NamedProducts {
  std::string_view name;
  Bf16Products products;
};
constexpr NamedProducts kNamedProducts[] = {
    {"AMX", Bf16Products::kTiles},
    {"VDPBF16PS", Bf16Products::kVectors},
};

}  // namespace

std::vector<std::string> KernelTargets() {
  std::vector<std::string> names;
  for (const auto& [name, products] : kNamedProducts) {
    if (HasBf16Products(products)) names.emplace_back(name);
  }
  for (int64_t rest = Usable(); rest != 0; rest &= rest - 1) {
    names.emplace_back(hwy::TargetName(rest & -rest));
  }
  return names;
}

bool UseKernelTarget(std::string_view name) {
  if (name.empty()) {
    UseTargets(0);
    UseFastestBf16Products();
    return true;
  }
  for (const auto& [known, products] : kNamedProducts) {
    if (name != known || !HasBf16Products(products)) continue;
    UseTargets(0);
    UseBf16Products(products);
    return true;
  }
  for (int64_t rest = Usable(); rest != 0; rest &= rest - 1) {
    if (name != hwy::TargetName(rest & -rest)) continue;
    UseTargets(rest & -rest);
    UseBf16Products(Bf16Products::kNone);
    return true;
  }
  return false;
}

}  // namespace shardc::exec
