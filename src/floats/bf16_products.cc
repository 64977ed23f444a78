// Detects the processor's instructions that multiply bfloat16 numbers. If the
// processor has Intel's AMX, requests the AMX tile registers from Linux. These
// registers hold 8 KiB, so Linux saves them only for processes that have
// requested them. The request fails before Linux 5.16. It also fails if a
// thread has an alternate signal stack that is too small for the registers.
#include "floats/bf16_products.h"

#include <atomic>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <hwy/detect_targets.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "floats/targets_simd.h"
#endif

namespace shardc {
namespace {

struct Detected {
  bool vectors = false;
  bool tiles = false;
  bool is_amd = false;
};

#if defined(__x86_64__) && defined(__linux__)

bool HasBit(unsigned value, int bit) { return (value >> bit & 1) != 0; }

// Returns whether the operating system saves the tile registers. In the
// register XCR0, bit 17 represents the configuration of tiles and bit 18 their
// data. The processor must have the instruction XGETBV, which every processor
// with AVX has.
bool SavesTiles() {
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return HasBit(low, 17) && HasBit(low, 18);
}

bool IsPermitted() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Detects the instructions. The numbers of the feature bits are those of
// Intel's manual: AMX-BF16 (22) and AMX-TILE (24) are in EDX of CPUID leaf 7.0,
// and AVX512_BF16 (5) is in EAX of leaf 7.1.
Detected Detect() {
  constexpr unsigned kAuthenticAmd = 0x68747541;  // "Auth", in EBX of leaf 0
  Detected out;
  if ((DetectedTargets() & HWY_AVX3) == 0) return out;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0 || !HasBit(eax, 5)) {
    return out;
  }
  out.vectors = true;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    out.tiles =
        HasBit(edx, 22) && HasBit(edx, 24) && SavesTiles() && IsPermitted();
  }
  out.is_amd =
      __get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0 && ebx == kAuthenticAmd;
  return out;
}

#else

Detected Detect() { return {}; }

#endif

const Detected& OfThisProcessor() {
  static const Detected detected = Detect();
  return detected;
}

Bf16Products Fastest() {
  const Detected& detected = OfThisProcessor();
  if (detected.tiles) return Bf16Products::kTiles;
  return detected.vectors && detected.is_amd ? Bf16Products::kVectors
                                             : Bf16Products::kNone;
}

constexpr int kFastest = -1;
std::atomic<int> used{kFastest};

}  // namespace

bool HasBf16Products(Bf16Products products) {
  switch (products) {
    case Bf16Products::kTiles:
      return OfThisProcessor().tiles;
    case Bf16Products::kVectors:
      return OfThisProcessor().vectors;
    case Bf16Products::kNone:
      return true;
  }
  return false;
}

Bf16Products UsedBf16Products() {
  const int chosen = used.load(std::memory_order_relaxed);
  return chosen == kFastest ? Fastest() : static_cast<Bf16Products>(chosen);
}

void UseBf16Products(Bf16Products products) {
  used.store(static_cast<int>(products), std::memory_order_relaxed);
}

void UseFastestBf16Products() {
  used.store(kFastest, std::memory_order_relaxed);
}

}  // namespace shardc
