// Tests which pipelines a search compares with its winner.
#include "search/pipelines.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

#include "devices/profiles.h"
#include "search/requests.h"

namespace shardc::search {
namespace {

std::unique_ptr<Request> Small() {
  return RequestFor({.layers = 8}, 16, "h100-sxm", 64, 2048, int64_t{40} << 30);
}

Pipelines Find(const Request& request,
               std::optional<double> seconds = std::nullopt) {
  const SettingsGrid grid(request);
  RuleOptions options(request, grid);
  return FindPipelines(request, grid, options, Deadline(seconds));
}

TEST_CASE("the fastest pipeline has all layers and devices, and fits") {
  const auto request = Small();
  const Pipelines found = Find(*request);
  REQUIRE(found.fastest.has_value());
  const Pipeline& one = *found.fastest;
  CHECK(std::accumulate(one.layers.begin(), one.layers.end(), int64_t{0}) == 8);
  const int64_t ranks = one.mesh.SizeOf(one.axis);
  CHECK(static_cast<int64_t>(one.layers.size()) == ranks * one.virtual_stages);
  int64_t devices = 1;
  for (const MeshAxis& axis : one.mesh.axes) devices *= axis.size;
  CHECK(devices == 16);
  CHECK(one.mesh.axes.front().name == one.axis);
  CHECK(one.bytes < int64_t{40} << 30);
  CHECK(one.seconds > 0);
  CHECK(one.settings.zero <= 1);
  CHECK((one.virtual_stages > 1) == (one.schedule == "interleaved"));
  CHECK(found.evaluated > 0);
  CHECK(found.evaluated <= found.bounded);
}

TEST_CASE("with less memory the fastest pipeline takes no less time") {
  auto request = Small();
  const Pipelines large = Find(*request);
  request->settings.memory = int64_t{5} << 30;
  const Pipelines small = Find(*request);
  REQUIRE(large.fastest.has_value());
  if (small.fastest) {
    CHECK(small.fastest->seconds >= large.fastest->seconds);
    CHECK(small.fastest->bytes < int64_t{5} << 30);
  }
  request->settings.memory = 1 << 20;
  CHECK_FALSE(Find(*request).fastest.has_value());
}

TEST_CASE("pipelines that no run supports are not evaluated") {
  auto request = Small();
  request->settings.profile = FindDeviceProfile("tpu-v5p");
  CHECK_FALSE(Find(*request).why_not.empty());
  request = Small();
  request->mesh = Mesh{};
  CHECK_FALSE(Find(*request).why_not.empty());
  request = RequestFor({.layers = 8, .experts = 4}, 16, "h100-sxm", 64, 2048,
                       int64_t{40} << 30);
  const Pipelines found = Find(*request);
  CHECK(found.why_not.find("experts") != std::string::npos);
  CHECK(found.evaluated == 0);
}

TEST_CASE("zero-bubble schedules are evaluated only if they are allowed") {
  auto request = Small();
  const auto is_measured = [](const Pipeline& one) {
    return one.schedule == "1f1b" || one.schedule == "interleaved";
  };
  const Pipelines measured = Find(*request);
  CHECK(std::all_of(measured.fitting.begin(), measured.fitting.end(),
                    is_measured));
  request->unmeasured = true;
  const Pipelines all = Find(*request);
  CHECK_FALSE(std::all_of(all.fitting.begin(), all.fitting.end(), is_measured));
  REQUIRE(all.fastest.has_value());
  CHECK(all.fastest->seconds <= measured.fastest->seconds);
}

TEST_CASE("a deadline ends the search for pipelines") {
  const auto request = Small();
  const Pipelines found = Find(*request, 0.0);
  CHECK_FALSE(found.finished);
  CHECK(found.evaluated == 0);
}

}  // namespace
}  // namespace shardc::search
