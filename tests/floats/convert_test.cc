#include "floats/convert.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "exec/kernels/kernels.h"
#include "floats/oracle.h"

namespace shardc {
namespace {

std::vector<uint16_t> AllHalves() {
  std::vector<uint16_t> all(0x10000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}

// Returns every value of both formats, the midpoints to the next value and the
// numbers next to these (if float32 has them), NaNs, and random bit patterns.
std::vector<uint32_t> Singles() {
  std::vector<uint32_t> out;
  for (const uint16_t bits : AllHalves()) {
    const uint32_t half = oracle::Float32FromFloat16(bits);
    const uint32_t brain = oracle::Float32FromBfloat16(bits);
    for (const uint32_t step : {0u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu}) {
      out.push_back(half + step);
    }
    for (const uint32_t step : {0u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      out.push_back(brain | step);
    }
  }
  std::mt19937 random(3);
  for (int i = 0; i < 300'000; ++i) {
    auto bits = static_cast<uint32_t>(random());
    // A third of them are where float16 is subnormal or overflows.
    if (i % 3 == 0) {
      bits = (bits & 0x8000'1fffu) | (0x33000000u + random() % 0x15000000u);
    }
    out.push_back(bits);
  }
  return out;
}

std::vector<uint64_t> Doubles() {
  std::vector<uint64_t> out;
  for (const uint32_t bits : Singles()) {
    const double value = double{std::bit_cast<float>(bits)};
    const auto wide = std::bit_cast<uint64_t>(value);
    // A NaN must remain a NaN even if only the lowest bits of its payload are
    // set.
    for (const uint64_t step : {0, 1, 0x1fffffff}) out.push_back(wide + step);
  }
  std::mt19937_64 random(4);
  for (int i = 0; i < 100'000; ++i) out.push_back(random());
  return out;
}

TEST_CASE("half.h gives the oracle's bits, for NaNs too") {
  int wrong = 0;
  for (const uint16_t bits : AllHalves()) {
    wrong += std::bit_cast<uint32_t>(FromFloat16(bits)) !=
             oracle::Float32FromFloat16(bits);
    wrong += std::bit_cast<uint32_t>(FromBFloat16(bits)) !=
             oracle::Float32FromBfloat16(bits);
  }
  CHECK(wrong == 0);
  for (const uint32_t bits : Singles()) {
    const auto x = std::bit_cast<float>(bits);
    wrong += Float16Bits(x) != oracle::Float16FromFloat32(bits);
    wrong += BFloat16Bits(x) != oracle::Bfloat16FromFloat32(bits);
  }
  CHECK(wrong == 0);
  for (const uint64_t bits : Doubles()) {
    const auto x = std::bit_cast<double>(bits);
    wrong += Float16Bits(x) != oracle::Float16FromFloat64(bits);
    wrong += BFloat16Bits(x) != oracle::Bfloat16FromFloat64(bits);
  }
  CHECK(wrong == 0);
}

// Returns the first `count` of `values`, converted from `from` to `to`, with
// input and output at odd addresses.
std::string Converted(Dtype from, Dtype to, const std::string& values,
                      size_t count) {
  const std::string in = 'x' + values;
  std::string out(1 + count * static_cast<size_t>(DtypeBits(to)) / 8 + 1, 'y');
  ConvertFloats(from, to, in.data() + 1, out.data() + 1, count);
  CHECK(out.front() == 'y');  // nothing next to them is written
  CHECK(out.back() == 'y');
  return out.substr(1, out.size() - 2);
}

template <class T>
std::string Bytes(const std::vector<T>& values, size_t count) {
  return {reinterpret_cast<const char*>(values.data()), count * sizeof(T)};
}

template <class From, class Convert>
void CheckPair(Dtype from, Dtype to, const std::vector<From>& values,
               Convert convert) {
  CAPTURE(DtypeName(from));
  CAPTURE(DtypeName(to));
  std::vector<decltype(convert(values[0]))> want;
  for (const From value : values) want.push_back(convert(value));
  for (const size_t count : {values.size(), size_t{0}, size_t{1}, size_t{7},
                             size_t{33}, size_t{100}}) {
    const bool same =
        Converted(from, to, Bytes(values, count), count) == Bytes(want, count);
    CHECK(same);
  }
}

void CheckPairs() {
  const auto halves = AllHalves();
  const auto singles = Singles();
  const auto doubles = Doubles();
  CheckPair(Dtype::kF32, Dtype::kF16, singles, oracle::Float16FromFloat32);
  CheckPair(Dtype::kF32, Dtype::kBF16, singles, oracle::Bfloat16FromFloat32);
  CheckPair(Dtype::kF16, Dtype::kF32, halves, oracle::Float32FromFloat16);
  CheckPair(Dtype::kBF16, Dtype::kF32, halves, oracle::Float32FromBfloat16);
  CheckPair(Dtype::kBF16, Dtype::kF16, halves, [](uint16_t bits) {
    return oracle::Float16FromFloat32(oracle::Float32FromBfloat16(bits));
  });
  CheckPair(Dtype::kF16, Dtype::kBF16, halves, [](uint16_t bits) {
    return oracle::Bfloat16FromFloat32(oracle::Float32FromFloat16(bits));
  });
  CheckPair(Dtype::kF64, Dtype::kF32, doubles, oracle::Float32FromFloat64);
  CheckPair(Dtype::kF64, Dtype::kF16, doubles, oracle::Float16FromFloat64);
  CheckPair(Dtype::kF64, Dtype::kBF16, doubles, oracle::Bfloat16FromFloat64);
  CheckPair(Dtype::kF16, Dtype::kF16, halves, [](uint16_t x) { return x; });
}

TEST_CASE("vectors give the oracle's bits on every target") {
  for (const std::string& target : exec::KernelTargets()) {
    CAPTURE(target);
    REQUIRE(exec::UseKernelTarget(target));
    CheckPairs();
  }
  exec::UseKernelTarget("");
}

TEST_CASE("arrays are rounded as single numbers are") {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBF16}) {
    for (const size_t count : {0, 1, 7, 1024, 1025, 3000}) {
      std::vector<float> all(count);
      for (size_t i = 0; i < count; ++i) {
        all[i] = std::ldexp(1.0f + static_cast<float>(i) / 3001,
                            static_cast<int>(i % 60) - 30);
      }
      std::vector<float> each = all;
      RoundAll(dtype, all);
      for (float& x : each) x = RoundTo(dtype, x);
      CHECK(all == each);
    }
  }
}

TEST_CASE("CanConvert lists the supported pairs") {
  CHECK(CanConvert(Dtype::kF64, Dtype::kBF16));
  CHECK(CanConvert(Dtype::kF16, Dtype::kF32));
  CHECK_FALSE(CanConvert(Dtype::kF32, Dtype::kF64));
  CHECK_FALSE(CanConvert(Dtype::kF8E4M3, Dtype::kF32));
  CHECK_FALSE(CanConvert(Dtype::kI32, Dtype::kF32));
}

}  // namespace
}  // namespace shardc
