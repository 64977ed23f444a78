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

// Decides how decoding reads the keys of the KV cache: in one sequential stream
// of addresses, or in two streams with prefetch instructions. Which is faster
// depends on the processor. The hardware prefetcher of AMD's family 19h (Zen 3
// and 4) fills the second-level cache ahead of one stream. Prefetch
// instructions for addresses far ahead would occupy the miss buffers that this
// prefetcher needs. The prefetcher of Zen 5 (family 1Ah) stops at the end of a
// page, so two streams are faster there.
//
// The table has the measured speed of decoding, as a fraction of the speed at
// which the processor reads memory sequentially. With a float32 cache, the
// speed depends on the physical pages that the process gets, so it is a range.
//
//   Zen 4, bfloat16 cache  one stream 0.84          two with prefetching 0.65
//   Zen 4, float32 cache   one stream 0.50 to 0.79  two 0.53 to 0.67
//   Zen 5                                           two 0.9

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace shardc {
namespace {

#if defined(__x86_64__) || defined(__i386__)

// Returns the processor's family as AMD and Intel number it: the base family,
// plus the extended family if the base family is 15.
unsigned Family(unsigned signature) {
  const unsigned base = signature >> 8 & 0xF;
  return base == 0xF ? base + (signature >> 20 & 0xFF) : base;
}

bool IsZen3Or4() {
  constexpr unsigned kAuthenticAmd = 0x68747541;  // "Auth", in EBX of leaf 0
  constexpr unsigned kZen3And4 = 0x19;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0 || ebx != kAuthenticAmd) {
    return false;
  }
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
         Family(eax) == kZen3And4;
}

#else

bool IsZen3Or4() { return false; }

#endif

}  // namespace

bool OneStreamIsFaster() {
  static const bool is_faster = IsZen3Or4();
  return is_faster;
}

}  // namespace shardc
