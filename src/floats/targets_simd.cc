// Detects the targets (instruction sets) that this processor can run. A target
// can run if the processor has all its instructions, and if the operating
// system saves its registers when it switches threads. For example, AVX-512
// needs an operating system that saves the zmm registers. On Arm, Linux reports
// the instructions that programs may use.
#include "floats/targets_simd.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <initializer_list>

#if HWY_ARCH_X86
#include <cpuid.h>
#elif HWY_ARCH_ARM_A64 && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

namespace shardc {
namespace {

#if HWY_ARCH_X86

// The result of the instruction CPUID. On virtual machines each CPUID takes
// about 20 us, so it runs only when the first kernel or checksum needs it.
// `__builtin_cpu_supports` would run it at the start of every command.
struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers Query(unsigned leaf) {
  Registers out;
  __cpuid_count(leaf, 0, out.eax, out.ebx, out.ecx, out.edx);
  return out;
}

// Returns, as bits, the registers that the operating system saves: bit 1
// represents the xmm registers, bit 2 the ymm registers, and bits 5 to 7 the
// zmm and mask registers.
unsigned SavedRegisters() {
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool HasBits(unsigned value, std::initializer_list<int> bits) {
  return std::all_of(bits.begin(), bits.end(),
                     [&](int bit) { return (value >> bit & 1) != 0; });
}

// The positions of feature bits in the manuals of Intel and AMD. These bits are
// in ECX of leaf 1.
constexpr int kPclmul = 1, kSsse3 = 9, kFma = 12, kSse41 = 19, kSse42 = 20;
constexpr int kAes = 25, kOsXsave = 27, kAvx = 28, kHalfFloats = 29;

int64_t DetectTargets() {
  const Registers basic = Query(0);
  const Registers one = Query(1);
  const Registers seven = basic.eax >= 7 ? Query(7) : Registers{};
  constexpr unsigned kExtended = 0x80000001;
  const Registers extended =
      Query(0x80000000).eax >= kExtended ? Query(kExtended) : Registers{};
  constexpr int kBmi = 3, kAvx2 = 5, kBmi2 = 8, kLeadingZeros = 5;
  // The positions of the feature bits of AVX-512's parts.
  constexpr int kF = 16, kDq = 17, kCd = 28, kBw = 30, kVl = 31;
  constexpr int kVbmi = 1, kVbmi2 = 6, kVnni = 11, kBitalg = 12, kPopcnt = 14;
  constexpr int kGfni = 8, kVectorAes = 9, kVectorPclmul = 10;
  const unsigned saved = HasBits(one.ecx, {kOsXsave}) ? SavedRegisters() : 0;
  int64_t targets = HWY_STATIC_TARGET;
  if (!HasBits(one.ecx, {kSsse3})) return targets;
  targets |= HWY_SSSE3;
  if (!HasBits(one.ecx, {kPclmul, kSse41, kSse42, kAes})) return targets;
  targets |= HWY_SSE4;
  if (!HasBits(saved, {1, 2}) || !HasBits(one.ecx, {kFma, kAvx, kHalfFloats}) ||
      !HasBits(seven.ebx, {kBmi, kAvx2, kBmi2}) ||
      !HasBits(extended.ecx, {kLeadingZeros})) {
    return targets;
  }
  targets |= HWY_AVX2;
  if (!HasBits(saved, {5, 6, 7}) ||
      !HasBits(seven.ebx, {kF, kDq, kCd, kBw, kVl})) {
    return targets;
  }
  targets |= HWY_AVX3;
  if (HasBits(seven.ecx, {kVbmi, kVbmi2, kVnni, kBitalg, kPopcnt, kGfni,
                          kVectorAes, kVectorPclmul})) {
    targets |= HWY_AVX3_DL;
  }
  return targets;
}

#elif HWY_ARCH_ARM_A64 && defined(__linux__)

bool Has(uint64_t type, uint64_t bit) { return (getauxval(type) & bit) != 0; }

// Returns the size of an SVE vector in bytes, or 0 without SVE.
int VectorBytes() {
  const int length = prctl(PR_SVE_GET_VL);
  return length < 0 ? 0 : length & PR_SVE_VL_LEN_MASK;
}

// Highway's NEON target contains AES instructions, so the processor must have
// them. Highway also has an SVE target for vectors of 32 bytes, and an SVE2
// target for vectors of 16 bytes.
int64_t DetectTargets() {
  int64_t targets = 0;
  if (Has(AT_HWCAP, HWCAP_AES)) targets |= HWY_NEON;
  if (Has(AT_HWCAP, HWCAP_SVE)) {
    targets |= HWY_SVE;
    if (VectorBytes() == 32) targets |= HWY_SVE_256;
  }
  if (Has(AT_HWCAP2, HWCAP2_SVE2) && Has(AT_HWCAP2, HWCAP2_SVEAES)) {
    targets |= HWY_SVE2;
    if (VectorBytes() == 16) targets |= HWY_SVE2_128;
  }
  return targets;
}

#else

// On other processors Highway compiles only one target.
int64_t DetectTargets() { return HWY_STATIC_TARGET; }

#endif

std::atomic<int64_t> used{0};

}  // namespace

int64_t DetectedTargets() {
  static const int64_t targets = DetectTargets();
  return targets;
}

bool HasSse42() {
#if HWY_ARCH_X86
  return HasBits(Query(1).ecx, {kSse42});
#else
  return false;
#endif
}

void UseTargets(int64_t targets) {
  used.store(targets, std::memory_order_relaxed);
}

size_t TargetIndex(int64_t compiled) {
  int64_t run = used.load(std::memory_order_relaxed);
  if (run == 0) run = DetectedTargets();
  const int64_t places =
      HWY_CHOSEN_TARGET_SHIFT(run & compiled) | HWY_CHOSEN_TARGET_MASK_SCALAR;
  return static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(places)));
}

}  // namespace shardc
