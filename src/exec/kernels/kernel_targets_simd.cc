// Selects the instruction sets that the kernels may use: those compiled in that
// this processor has, for example AVX2 and below on a processor without
// AVX-512.

#include <hwy/highway.h>

#include "exec/kernels/kernels.h"
#include "floats/targets_simd.h"

namespace shardc::exec {

namespace {

// Returns the compiled targets that this processor has.
int64_t Usable() { return DetectedTargets() & HWY_TARGETS; }

}  // namespace

std::vector<std::string> KernelTargets() {
  std::vector<std::string> names;
  for (int64_t rest = Usable(); rest != 0; rest &= rest - 1) {
    names.emplace_back(hwy::TargetName(rest & -rest));
  }
  return names;
}

bool UseKernelTarget(std::string_view name) {
  int64_t chosen = 0;
  for (int64_t rest = Usable(); rest != 0; rest &= rest - 1) {
    if (name == hwy::TargetName(rest & -rest)) chosen = rest & -rest;
  }
  if (chosen == 0 && !name.empty()) return false;
  UseTargets(chosen);
  return true;
}

}  // namespace shardc::exec
