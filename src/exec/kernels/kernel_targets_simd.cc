// Selects the instruction sets that the kernels may use. A set must be compiled
// in, and this processor must have it: a processor without AVX-512 gets AVX2
// and below. AMX is used together with the best of these sets.

#include <hwy/highway.h>

#include "exec/kernels/kernels.h"
#include "floats/bf16_tiles.h"
#include "floats/targets_simd.h"

namespace shardc::exec {

namespace {

// Returns the compiled targets that this processor has.
int64_t Usable() { return DetectedTargets() & HWY_TARGETS; }

constexpr std::string_view kAmx = "AMX";

}  // namespace

std::vector<std::string> KernelTargets() {
  std::vector<std::string> names;
  if (HasBf16Tiles()) names.emplace_back(kAmx);
  for (int64_t rest = Usable(); rest != 0; rest &= rest - 1) {
    names.emplace_back(hwy::TargetName(rest & -rest));
  }
  return names;
}

bool UseKernelTarget(std::string_view name) {
  const bool best = name.empty() || (name == kAmx && HasBf16Tiles());
  int64_t chosen = 0;
  for (int64_t rest = Usable(); rest != 0; rest &= rest - 1) {
    if (name == hwy::TargetName(rest & -rest)) chosen = rest & -rest;
  }
  if (chosen == 0 && !best) return false;
  UseTargets(chosen);
  AllowBf16Tiles(best);
  return true;
}

}  // namespace shardc::exec
