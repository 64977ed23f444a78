#include "floor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "floor_simd.cc"
#include <hwy/foreach_target.h>  // before highway.h: includes this file again
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shardc::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

double Spin(int64_t rounds, float* out) {
  const hn::ScalableTag<float> d;
  constexpr int64_t kChains = 12;  // over the latency, under 16 registers
  hn::Vec<decltype(d)> x[kChains];
  const auto a = hn::Set(d, 0.999f);
  const auto b = hn::Set(d, 0.001f);
#pragma GCC unroll 12
  for (int64_t i = 0; i < kChains; ++i) {
    x[i] = hn::Set(d, static_cast<float>(i));
  }
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int64_t i = 0; i < kChains; ++i) x[i] = hn::MulAdd(x[i], a, b);
  }
#pragma GCC unroll 12
  for (int64_t i = 1; i < kChains; ++i) x[0] = hn::Add(x[0], x[i]);
  *out = hn::GetLane(x[0]);
  return static_cast<double>(rounds) * kChains * 2 *
         static_cast<double>(hn::Lanes(d));
}

uint64_t Read(const uint64_t* data, size_t count) {
  const hn::ScalableTag<uint64_t> d;
  const size_t n = hn::Lanes(d);
  auto s0 = hn::Zero(d);
  auto s1 = s0;
  auto s2 = s0;
  auto s3 = s0;
  for (size_t i = 0; i < count; i += 4 * n) {
    s0 = hn::Add(s0, hn::LoadU(d, data + i));
    s1 = hn::Add(s1, hn::LoadU(d, data + i + n));
    s2 = hn::Add(s2, hn::LoadU(d, data + i + 2 * n));
    s3 = hn::Add(s3, hn::LoadU(d, data + i + 3 * n));
  }
  const auto sum = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace shardc::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardc::bench {

HWY_EXPORT(Spin);
HWY_EXPORT(Read);

double SpinFma(int64_t rounds) {
  volatile float keep = 0;
  float out = 0;
  const double flops = HWY_DYNAMIC_DISPATCH(Spin)(rounds, &out);
  keep = out;
  static_cast<void>(keep);
  return flops;
}

uint64_t ReadAll(const void* data, size_t bytes) {
  return HWY_DYNAMIC_DISPATCH(Read)(static_cast<const uint64_t*>(data),
                                    bytes / 8);
}

}  // namespace shardc::bench
#endif  // HWY_ONCE
