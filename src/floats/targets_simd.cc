// A target can run if the processor has all instructions that it is compiled
// for and the operating system saves its registers; `__builtin_cpu_supports`
// checks both. For example AVX-512 needs the OS to save the zmm registers. On
// Arm, Linux reports the instructions that programs may use.
#include "floats/targets_simd.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <atomic>
#include <bit>

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

enum Register : size_t { kEcx = 2 };

// For instruction sets that some compilers have no name for.
bool Has(unsigned leaf, Register where, unsigned bit) {
  unsigned registers[4] = {};
  return __get_cpuid_count(leaf, 0, &registers[0], &registers[1], &registers[2],
                           &registers[3]) != 0 &&
         (registers[where] >> bit & 1) != 0;
}

bool HasSsse3() { return __builtin_cpu_supports("ssse3"); }

bool HasSse4() {
  return HasSsse3() && __builtin_cpu_supports("sse4.1") &&
         __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("aes") &&
         __builtin_cpu_supports("pclmul");
}

bool HasAvx2() {
  const bool half_floats = Has(1, kEcx, 29);
  const bool leading_zeros = Has(0x80000001, kEcx, 5);
  return HasSse4() && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("fma") && half_floats && leading_zeros;
}

bool HasAvx3() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd");
}

bool HasAvx3Dl() {
  const bool vector_aes = Has(7, kEcx, 9);
  return HasAvx3() && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bitalg") &&
         __builtin_cpu_supports("avx512vpopcntdq") &&
         __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("gfni") && vector_aes;
}

int64_t Detect() {
  __builtin_cpu_init();
  int64_t targets = HWY_STATIC_TARGET;
  if (HasSsse3()) targets |= HWY_SSSE3;
  if (HasSse4()) targets |= HWY_SSE4;
  if (HasAvx2()) targets |= HWY_AVX2;
  if (HasAvx3()) targets |= HWY_AVX3;
  if (HasAvx3Dl()) targets |= HWY_AVX3_DL;
  return targets;
}

#elif HWY_ARCH_ARM_A64 && defined(__linux__)

bool Has(uint64_t type, uint64_t bit) { return (getauxval(type) & bit) != 0; }

// Returns the bytes of an SVE vector, or 0 without SVE.
int VectorBytes() {
  const int length = prctl(PR_SVE_GET_VL);
  return length < 0 ? 0 : length & PR_SVE_VL_LEN_MASK;
}

// Highway compiles its NEON target for processors with the AES instructions,
// and two more targets for the sizes of vectors that are usual.
int64_t Detect() {
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

// Highway compiles several targets only for the systems above.
int64_t Detect() { return HWY_STATIC_TARGET; }

#endif

std::atomic<int64_t> used{0};

}  // namespace

int64_t DetectedTargets() {
  static const int64_t targets = Detect();
  return targets;
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
