// Which instruction sets the kernels may use.

#include <hwy/highway.h>
#include <hwy/targets.h>

#include "exec/kernels/kernels.h"

namespace shardc::exec {

namespace {

// The compiled targets that this processor has; the lowest bit is the best.
int64_t Usable() {
  hwy::SetSupportedTargetsForTest(0);
  return hwy::SupportedTargets() & HWY_TARGETS;
}

}  // namespace

std::vector<std::string> KernelTargets() {
  const int64_t now = hwy::SupportedTargets();
  std::vector<std::string> names;
  for (int64_t rest = Usable(); rest != 0; rest &= rest - 1) {
    names.emplace_back(hwy::TargetName(rest & -rest));
  }
  hwy::SetSupportedTargetsForTest(now);
  return names;
}

bool UseKernelTarget(std::string_view name) {
  int64_t chosen = 0;
  for (int64_t rest = Usable(); rest != 0; rest &= rest - 1) {
    if (name == hwy::TargetName(rest & -rest)) chosen = rest & -rest;
  }
  if (chosen == 0 && !name.empty()) return false;
  hwy::SetSupportedTargetsForTest(chosen);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return true;
}

}  // namespace shardc::exec
