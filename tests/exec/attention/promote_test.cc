#include "exec/attention/narrow.h"

#include <doctest/doctest.h>

#include <vector>

namespace shardc::exec {
namespace {

TEST_CASE("pairs of dtypes promote as in the published table") {
  using D = Dtype;
  struct Case {
    D a, b;
    std::optional<D> want;
  };
  const Case cases[] = {
      {D::kBool, D::kU8, D::kU8},        {D::kU8, D::kI8, D::kI16},
      {D::kU16, D::kI8, D::kI32},        {D::kU32, D::kI32, D::kI64},
      {D::kU64, D::kI8, D::kF64},        {D::kI64, D::kBF16, D::kBF16},
      {D::kU64, D::kF16, D::kF16},       {D::kBF16, D::kF16, D::kF32},
      {D::kBF16, D::kF32, D::kF32},      {D::kF16, D::kF64, D::kF64},
      {D::kF32, D::kC64, D::kC64},       {D::kI32, D::kC64, D::kC64},
      {D::kF8E4M3, D::kF8E5M2, {}},      {D::kF8E4M3, D::kBF16, {}},
      {D::kF8E4M3, D::kI32, D::kF8E4M3}, {D::kI4, D::kI8, {}},
      {D::kBool, D::kI4, D::kI4},        {D::kF64, D::kC64, {}},
      {D::kF6E2M3, D::kF32, {}},
  };
  for (const Case& c : cases) {
    CAPTURE(DtypeName(c.a));
    CAPTURE(DtypeName(c.b));
    CHECK(Promote(c.a, c.b) == c.want);
    CHECK(Promote(c.b, c.a) == c.want);
  }
}

TEST_CASE("promotion is idempotent and associative where defined") {
  for (Dtype a : AllDtypes()) {
    const auto self = Promote(a, a);
    if (self) CHECK(*self == a);
    for (Dtype b : AllDtypes()) {
      CHECK(Promote(a, b) == Promote(b, a));
    }
  }
}

TEST_CASE("operations compute in floats, of 32 bits by default") {
  const auto of = [](std::vector<Dtype> x, PromoteOptions o = {}) {
    return CanonicalDtype(x, o);
  };
  CHECK(of({Dtype::kI32}) == Dtype::kF32);
  CHECK(of({Dtype::kBool, Dtype::kU8}) == Dtype::kF32);
  CHECK(of({Dtype::kI32, Dtype::kBF16}) == Dtype::kBF16);
  CHECK(of({Dtype::kF64, Dtype::kF16}) == Dtype::kF32);
  CHECK(of({Dtype::kF64, Dtype::kF16}, {true, true}) == Dtype::kF64);
  CHECK(of({Dtype::kI64}, {false, false}) == Dtype::kI32);
  CHECK(of({Dtype::kF64, Dtype::kC64}) == Dtype::kC64);
  CHECK(of({Dtype::kI4}) == std::nullopt);
  CHECK(of({}) == std::nullopt);
  const Dtype bf16[] = {Dtype::kBF16};
  const Dtype i8[] = {Dtype::kI8};
  const WeakKind real[] = {WeakKind::kFloat};
  CHECK(CanonicalDtype(bf16, real, {}) == Dtype::kBF16);
  CHECK(CanonicalDtype(i8, real, {}) == Dtype::kF32);
  CHECK(CanonicalDtype({}, real, {true, false}) == Dtype::kF64);
}

}  // namespace
}  // namespace shardc::exec
