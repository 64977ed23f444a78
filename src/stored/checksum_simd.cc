// Folds a long text: computes a shorter text that has the same CRC. The method
// is from Gopal and others, "Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ Instruction", Intel 2009. Consider a block of 128 bits that begins
// D bits before another block. The first block can be removed without changing
// the CRC if two products are added to the second block. These are the products
// of the first block's two halves with x^(D+32) and x^(D-32), modulo the
// polynomial. Four vectors are folded in parallel, which are 16 blocks with
// AVX-512 and 4 with NEON.
#include "stored/checksum.h"

// Enables the AVX-512 target of highway that has carry-less multiplication of
// vectors.
#define HWY_WANT_AVX3_DL 1
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stored/checksum_simd.cc"
// foreach_target.h compiles this file once for each target, so highway.h must
// be included after it.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "floats/targets_simd.h"

HWY_BEFORE_NAMESPACE();
namespace shardc {
namespace HWY_NAMESPACE {

// Only two targets (instruction sets) fold. On the others, the CRC instruction
// is as fast as folding, or carry-less products are slow.
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON

namespace hn = hwy::HWY_NAMESPACE;

size_t Fold(const char* bytes, size_t count, uint32_t state, char* folded,
            size_t* kept) {
  const hn::ScalableTag<uint8_t> d8;
  const hn::ScalableTag<uint64_t> d64;
  using V = hn::Vec<decltype(d64)>;
  const size_t step = hn::Lanes(d8);
  const size_t stride = 4 * step;
  if (count < 2 * stride || stride > kMaxFoldedBytes) return 0;
  // The factors are shifted left by one bit. In the product of two bit-reversed
  // numbers, all bits are one place too low.
  static const uint64_t factors[2] = {
      uint64_t{CrcPowerOfBytes(stride + 4)} << 1,
      uint64_t{CrcPowerOfBytes(stride - 4)} << 1};
  const V factor = hn::LoadDup128(d64, factors);
  const auto load = [&](size_t at) {
    return hn::BitCast(
        d64, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(bytes) + at));
  };
  const auto fold = [&](V block, size_t at) {
    return hn::Xor(
        hn::Xor(hn::CLMulLower(block, factor), hn::CLMulUpper(block, factor)),
        load(at));
  };
  const V start =
      hn::IfThenElseZero(hn::FirstN(d64, 1), hn::Set(d64, uint64_t{state}));
  V a = hn::Xor(load(0), start);
  V b = load(step), c = load(2 * step), d = load(3 * step);
  size_t at = stride;
  for (; at + stride <= count; at += stride) {
    a = fold(a, at);
    b = fold(b, at + step);
    c = fold(c, at + 2 * step);
    d = fold(d, at + 3 * step);
  }
  const auto store = [&](V block, size_t to) {
    hn::StoreU(hn::BitCast(d8, block), d8,
               reinterpret_cast<uint8_t*>(folded) + to);
  };
  store(a, 0), store(b, step), store(c, 2 * step), store(d, 3 * step);
  *kept = stride;
  return at;
}

#else

size_t Fold(const char*, size_t, uint32_t, char*, size_t*) { return 0; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace shardc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardc {

SIMD_EXPORT(Fold);

size_t FoldCrc32c(const char* bytes, size_t count, uint32_t state, char* folded,
                  size_t* kept) {
  // This file is compiled for several instruction sets (targets). On 64-bit
  // Arm, all of them may need AES instructions and carry-less products. A
  // processor without these instructions can run none of the targets.
  if ((DetectedTargets() & HWY_TARGETS) == 0) return 0;
  return SIMD_DISPATCH(Fold)(bytes, count, state, folded, kept);
}

}  // namespace shardc
#endif  // HWY_ONCE
