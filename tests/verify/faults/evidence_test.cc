#include "verify/faults/evidence.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace shardc::verify {

static std::string Printed(const Evidence& x) {
  return "digest " + std::to_string(std::bit_cast<uint64_t>(x));
}

namespace {

exec::Buffer Ones() {
  exec::Buffer out = exec::Buffer::Zeros({2, 2}, Dtype::kF32);
  for (float& x : out.real) x = 1;
  return out;
}

TEST_CASE("one bit of one element changes the evidence") {
  Evidence a, b, c;
  exec::Buffer other = Ones();
  a.Add(Ones());
  b.Add(other);
  CHECK(a == b);
  other.real[3] = 1.0000001f;
  c.Add(other);
  CHECK_FALSE(a == c);
  // The sign of a zero is part of the digest.
  Evidence plus, minus;
  other.real = {0, 0, 0, 0};
  plus.Add(other);
  other.real[0] = -0.0f;
  minus.Add(other);
  CHECK_FALSE(plus == minus);
}

TEST_CASE("shapes, dtypes, tables and ledgers change the evidence") {
  exec::Buffer long_one = Ones(), narrow = Ones();
  long_one.shape = {4, 1};
  narrow.dtype = Dtype::kBF16;
  Evidence plain, shaped, narrowed;
  plain.Add(Ones());
  shaped.Add(long_one);
  narrowed.Add(narrow);
  CHECK_FALSE(plain == shaped);
  CHECK_FALSE(plain == narrowed);

  Evidence two, one;
  two.Add(std::vector<int64_t>{1, 2});
  one.Add(std::vector<int64_t>{1});
  CHECK_FALSE(one == two);

  exec::Ledger sent, more;
  sent.Record(Collective::kPpermute, {"x"}, 2, {4, 4}, "key");
  more.Record(Collective::kPpermute, {"x"}, 2, {4, 5}, "key");
  Evidence a, b;
  a.Add(sent);
  b.Add(more);
  CHECK_FALSE(a == b);
}

TEST_CASE("watched seams give the same results, and record them") {
  Mesh mesh;
  mesh.axes.push_back({"x", 2, AxisType::kAuto});
  const exec::SimMesh sim(mesh);
  const exec::PerDevice in = {Ones(), Ones()};
  Evidence evidence, untouched;
  exec::Machine plain(sim), watched(sim, 1, Watched({}, evidence));
  const auto expected = AllReduce(plain, {"x"}, in, exec::Reduce::kSum, "ones");
  const auto got = AllReduce(watched, {"x"}, in, exec::Reduce::kSum, "ones");
  for (size_t d = 0; d < got.size(); ++d) {
    CHECK(exec::BitEqual(got[d], expected[d]));
  }
  CHECK(watched.ledger().TotalSent() == plain.ledger().TotalSent());
  CHECK_FALSE(evidence == untouched);
}

}  // namespace
}  // namespace shardc::verify
