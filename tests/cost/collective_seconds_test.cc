// Collectives on small networks whose seconds can be computed by hand.
#include "cost/time.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "cost/models.h"

namespace shardc::cost {
namespace {

double GatherSeconds(const char* profile, int64_t side) {
  const Mesh mesh = MeshOf({{"X", side}});
  Network network = NetworkOf(*FindDeviceProfile(profile), mesh);
  network.start = network.step = network.far_step = 0;
  network.link_rate = 1e9;
  const auto n = static_cast<double>(side);
  return CollectiveSeconds(network, SpanOf(mesh, network, {"X"}),
                           Collective::kAllGather, 1e9 * (n - 1) / n);
}

// On a closed ring, data travel both ways, and half of the ring's length each
// way.
TEST_CASE("which sides of a torus are rings that close") {
  CHECK(GatherSeconds("tpu-v5e", 16) == doctest::Approx(8.0 / 16));
  CHECK(GatherSeconds("tpu-v5e", 15) == doctest::Approx(14.0 / 15));
  CHECK(GatherSeconds("tpu-v5e", 8) == doctest::Approx(7.0 / 8));
  CHECK(GatherSeconds("tpu-v5e", 4) == doctest::Approx(3.0 / 4));
  CHECK(GatherSeconds("tpu-v4", 4) == doctest::Approx(2.0 / 4));
  CHECK(GatherSeconds("tpu-v4", 8) == doctest::Approx(4.0 / 8));
  CHECK(GatherSeconds("tpu-v4", 6) == doctest::Approx(5.0 / 6));
}

// Returns the seconds of an all-to-all in which each device holds an equal part
// of `whole` bytes, and sends an equal share of its part to every other device.
double ExchangeSeconds(const char* profile,
                       const std::vector<std::pair<std::string, int64_t>>& axes,
                       double whole) {
  const Mesh mesh = MeshOf(axes);
  Network network = NetworkOf(*FindDeviceProfile(profile), mesh);
  network.start = network.step = network.far_step = 0;
  network.link_rate = 1e9;
  AxisGroup all;
  for (const auto& [name, size] : axes) all.push_back(name);
  const auto n = static_cast<double>(mesh.devices);
  return CollectiveSeconds(network, SpanOf(mesh, network, all),
                           Collective::kAllToAll, whole / n * (n - 1) / n);
}

// An all-gather of 16 GB takes 8 of 16 steps of 1 GB on a closed ring, and 7 of
// 8 steps of 2 GB on an open one.
TEST_CASE("an all-to-all takes a quarter of an all-gather, or half if open") {
  CHECK(ExchangeSeconds("tpu-v5e", {{"X", 16}}, 16e9) ==
        doctest::Approx(8.0 / 4));
  CHECK(ExchangeSeconds("tpu-v5e", {{"X", 8}}, 16e9) ==
        doctest::Approx(14.0 / 2));
  CHECK(ExchangeSeconds("tpu-v4", {{"X", 4}}, 16e9) ==
        doctest::Approx(8.0 / 4));
  CHECK(ExchangeSeconds("tpu-v4", {{"X", 6}}, 12e9) ==
        doctest::Approx(10.0 / 2));
  // Two closed rings share the bytes, and each sends both ways. If one ring is
  // open, both are slower.
  CHECK(ExchangeSeconds("tpu-v4", {{"X", 4}, {"Y", 4}}, 16e9) ==
        doctest::Approx((8.0 + 8.0) / 4 / 4));
  CHECK(ExchangeSeconds("tpu-v4", {{"X", 4}, {"Y", 6}}, 12e9) ==
        doctest::Approx((6.0 + 10.0) / 4 / 2));
}

TEST_CASE("an all-reduce passes twice, and sends by the ring's factor") {
  const Mesh mesh = MeshOf({{"X", 4}});
  Network network = NetworkOf(*FindDeviceProfile("h100-sxm"), mesh);
  network.start = network.step = network.far_step = 0;
  network.device_rate = 1e9;
  const GroupSpan place = SpanOf(mesh, network, {"X"});
  const auto seconds = [&](Collective kind, double sent) {
    return CollectiveSeconds(network, place, kind, sent);
  };
  CHECK(seconds(Collective::kAllGather, 3e9) == doctest::Approx(3));
  CHECK(seconds(Collective::kReduceScatter, 3e9) == doctest::Approx(3));
  CHECK(seconds(Collective::kAllReduce, 6e9) == doctest::Approx(6));
  CHECK(seconds(Collective::kAllToAll, 3e9) == doctest::Approx(3));
  CHECK(seconds(Collective::kPpermute, 1e9) == doctest::Approx(1));
}

}  // namespace
}  // namespace shardc::cost
