// Linux saves the tile registers of AMX, 8 KiB, only for processes that have
// asked for it. Linux refuses if a thread has an alternate signal stack that is
// too small for the tiles, and versions before 5.16 do not know the request.
#include "floats/bf16_tiles.h"

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

#if defined(__x86_64__) && defined(__linux__)

bool HasBit(unsigned value, int bit) { return (value >> bit & 1) != 0; }

// Returns whether the operating system saves the registers of components 17 and
// 18 of XCR0, the configuration and the data of tiles. The processor must have
// the instruction XGETBV, which every processor with AVX has.
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

// The bits of Intel's manual: AMX-BF16 (22) and AMX-TILE (24) are in EDX of
// CPUID leaf 7.0. AVX512_BF16 (5), by which kernels round weights, is in EAX of
// leaf 7.1.
bool Detect() {
  if ((DetectedTargets() & HWY_AVX3) == 0) return false;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 ||
      !HasBit(edx, 22) || !HasBit(edx, 24)) {
    return false;
  }
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 &&
         HasBit(eax, 5) && SavesTiles() && IsPermitted();
}

#else

bool Detect() { return false; }

#endif

std::atomic<bool> are_allowed{true};

}  // namespace

bool HasBf16Tiles() {
  static const bool has_tiles = Detect();
  return has_tiles;
}

bool UsesBf16Tiles() {
  return are_allowed.load(std::memory_order_relaxed) && HasBf16Tiles();
}

void AllowBf16Tiles(bool allowed) {
  are_allowed.store(allowed, std::memory_order_relaxed);
}

}  // namespace shardc
