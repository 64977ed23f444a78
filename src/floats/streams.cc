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
#include "floats/streams.h"

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
