// The element-wise kernels under Google Benchmark, in bytes a second.

#include <benchmark/benchmark.h>

#include <vector>

#include "exec/kernels/kernels.h"

namespace shardc::exec {
namespace {

std::vector<float> Ramp(size_t count) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) {
    x[i] = -static_cast<float>(i % 97) / 10;
  }
  return x;
}

template <class In, class Out>
void Report(benchmark::State& state, size_t count) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(count) *
                          static_cast<int64_t>(sizeof(In) + sizeof(Out)));
}

void BM_Exp(benchmark::State& state) {
  const std::vector<float> x = Ramp(static_cast<size_t>(state.range(0)));
  std::vector<float> y(x.size());
  for (auto _ : state) {
    Exp(x, y);
    benchmark::DoNotOptimize(y.data());
  }
  Report<float, float>(state, x.size());
}
BENCHMARK(BM_Exp)->Arg(4096);

void BM_ExpNonPositive(benchmark::State& state) {
  const std::vector<float> x = Ramp(static_cast<size_t>(state.range(0)));
  std::vector<float> y(x.size());
  for (auto _ : state) {
    ExpNonPositive(x, y);
    benchmark::DoNotOptimize(y.data());
  }
  Report<float, float>(state, x.size());
}
BENCHMARK(BM_ExpNonPositive)->Arg(4096);

template <void (*kConvert)(std::span<const float>, std::span<uint16_t>)>
void BM_Narrow(benchmark::State& state) {
  const std::vector<float> x = Ramp(static_cast<size_t>(state.range(0)));
  std::vector<uint16_t> y(x.size());
  for (auto _ : state) {
    kConvert(x, y);
    benchmark::DoNotOptimize(y.data());
  }
  Report<float, uint16_t>(state, x.size());
}
BENCHMARK_TEMPLATE(BM_Narrow, F32ToBf16)->Arg(4096)->Name("F32ToBf16");
BENCHMARK_TEMPLATE(BM_Narrow, F32ToF16)->Arg(4096)->Name("F32ToF16");

void BM_AddInto(benchmark::State& state) {
  const std::vector<float> x = Ramp(static_cast<size_t>(state.range(0)));
  std::vector<float> y(x.size());
  for (auto _ : state) {
    AddInto(x, y);
    benchmark::DoNotOptimize(y.data());
  }
  Report<float, float>(state, x.size());
}
BENCHMARK(BM_AddInto)->Arg(4096);

void BM_Rotate(benchmark::State& state) {
  std::vector<float> x = Ramp(static_cast<size_t>(state.range(0)));
  const std::vector<float> c(x.size() / 2, 0.8f);
  const std::vector<float> s(x.size() / 2, 0.6f);
  for (auto _ : state) {
    Rotate(x, c, s, false);
    benchmark::DoNotOptimize(x.data());
  }
  Report<float, float>(state, x.size());
}
BENCHMARK(BM_Rotate)->Arg(128);

}  // namespace
}  // namespace shardc::exec

BENCHMARK_MAIN();
