// AMD's family 19h (Zen 3 and 4) fills the second-level cache ahead of one
// sequential stream by itself; prefetch instructions far ahead take buffers for
// misses from it. On Zen 4, a cache of bfloat16 was decoded at 0.84 of the
// speed of a plain read in one stream of keys, and at 0.65 in two streams with
// prefetching; of float32, whose runs vary with the pages that the process
// gets, at 0.50 to 0.79 and at 0.53 to 0.67. On Zen 5 (family 1Ah) two streams
// reach 0.9, because its prefetcher stops at the end of a page.
#include "floats/streams.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace shardc {
namespace {

#if defined(__x86_64__) || defined(__i386__)

// The family as AMD and Intel number it: the base family, and the extended one
// added where the base is 15.
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
