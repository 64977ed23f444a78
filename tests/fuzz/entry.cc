// The entry point for libFuzzer. FUZZ_TARGET names the target.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fuzz/checks.h"
#include "fuzz/targets.h"

namespace {

shardc::fuzz::Target target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* name = std::getenv("FUZZ_TARGET");
  target = name == nullptr ? nullptr : shardc::fuzz::FindTarget(name);
  if (target == nullptr) {
    std::fprintf(stderr, "FUZZ_TARGET names no target\n");
    std::exit(2);
  }
  shardc::fuzz::ArmChecks();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target({reinterpret_cast<const char*>(data), size});
  return 0;
}
