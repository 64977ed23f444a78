// Injects faults into arithmetic: into the online softmax, rounding, and the
// quantisation of rows to few bits. Each fault replaces one function of
// Arithmetic.
//
// Example: with sum-not-rescaled a new maximum rescales only the output, and
// not the sum of the weights so far.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "exec/kernels/arithmetic.h"
#include "floats/convert.h"
#include "verify/faults/injection.h"

namespace shardc::verify {
namespace {

using exec::Arithmetic;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

float BiasThenCap(float product, float cap, float bias) {
  return exec::CapThenBias(product + bias, cap, 0);
}

void KeepSum(float factor, float& /*sum*/, std::span<float> out) {
  float unused = 0;
  exec::RescaleState(factor, unused, out);
}

void ResetState(float /*factor*/, float& sum, std::span<float> out) {
  sum = 0;
  std::fill(out.begin(), out.end(), 0.0f);
}

void AbsorbInBf16(float weight, float kept, const float* value, float& sum,
                  std::span<float> out) {
  exec::AbsorbKey(weight, kept, value, sum, out);
  sum = RoundTo(Dtype::kBF16, sum);
  RoundAll(Dtype::kBF16, out);
}

// Returns the same result as AbsorbKey, but is another function. Operations use
// their fast kernels only if AbsorbKey is not replaced. The fault of wrong
// block sizes replaces it, because only the plain loops use the requested block
// sizes.
void AbsorbInLoops(float weight, float kept, const float* value, float& sum,
                   std::span<float> out) {
  exec::AbsorbKey(weight, kept, value, sum, out);
}

void SinkWithValue(float weight, float& sum, std::span<float> out) {
  exec::AbsorbSink(weight, sum, out);
  for (float& x : out) x += weight;
}

float Truncated(Dtype /*dtype*/, float x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffff0000u);
}

float RoundedTwice(Dtype dtype, float x) {
  return RoundTo(dtype, RoundTo(Dtype::kBF16, x));
}

float MinusInfinity(Dtype /*dtype*/) {
  return -std::numeric_limits<float>::infinity();
}

float LargestOfHalf(std::span<const float> row) {
  return exec::LargestMagnitude(row.first(row.size() / 2));
}

double KeyStepOnly(int32_t sum, double /*query_step*/, double key_step) {
  return sum * key_step;
}

float Wrapped(std::span<const float> x, float largest, std::span<int8_t> q) {
  const float scale = exec::StoreInt8(x, largest, q);
  std::replace(q.begin(), q.end(), int8_t{127}, int8_t{-128});
  return scale;
}

// Returns NaN as the scale of a row of zeros, as if 0 were divided by 0.
float DividedByZero(std::span<const float> x, float largest,
                    std::span<int8_t> q) {
  const float scale = exec::StoreInt8(x, largest, q);
  return scale == 0 ? kNaN : scale;
}

float ScaleOfNext(std::span<const float> scales, size_t row) {
  return scales[(row + 1) % scales.size()];
}

float FirstScale(std::span<const float> scales, size_t /*row*/) {
  return scales[0];
}

float ScaleOf127(std::span<const float> scales, size_t row) {
  return scales[row] * (127.5f / 127.0f);
}

void Change(Fault fault, Arithmetic& a) {
  switch (fault) {
    case Fault::kCapAfterBias:
      a.logit = BiasThenCap;
      break;
    case Fault::kNoMaxSubtraction:
      a.reference = [](float) { return 0.0f; };
      break;
    case Fault::kSumNotRescaled:
      a.rescale = KeepSum;
      break;
    case Fault::kStateResetPerBlock:
      a.rescale = ResetState;
      break;
    case Fault::kBf16Accumulator:
      a.absorb = AbsorbInBf16;
      break;
    case Fault::kTileByLocalSize:
      a.absorb = AbsorbInLoops;
      break;
    case Fault::kSinkHasValue:
      a.absorb_sink = SinkWithValue;
      break;
    case Fault::kTruncatingRound:
      a.store = Truncated;
      break;
    case Fault::kDoubleRound:
      a.store = RoundedTwice;
      break;
    case Fault::kMaskOverflowsSoftmax:
      a.lowest = MinusInfinity;
      break;
    case Fault::kDotMaximumOfHalf:
      a.largest = LargestOfHalf;
      break;
    case Fault::kDotScaleForgotten:
      a.unscale = KeyStepOnly;
      break;
    case Fault::kCachePositiveWraps:
    case Fault::kPagedPositiveWraps:
      a.quantise = Wrapped;
      break;
    case Fault::kCacheZeroRowDivides:
    case Fault::kPagedZeroRowDivides:
      a.quantise = DividedByZero;
      break;
    case Fault::kDotNeighbourScale:
    case Fault::kCacheNeighbourScale:
    case Fault::kPagedNeighbourScale:
      a.scale = ScaleOfNext;
      break;
    case Fault::kCacheFirstScale:
    case Fault::kPagedFirstScale:
      a.scale = FirstScale;
      break;
    case Fault::kCacheUneven127:
    case Fault::kPagedUneven127:
      a.scale = ScaleOf127;
      break;
    default:
      break;
  }
}

}  // namespace

void InjectIntoArithmetic(Fault fault, exec::Seams& seams) {
  Arithmetic wrong;
  Change(fault, wrong);
  seams.Set(wrong);
}

}  // namespace shardc::verify
