// Tests which pipelines a search compares with its winner.
#include "search/pipelines.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "cost/rates.h"
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
  CHECK(Find(*request).why_not == "no measured TPU run has a pipeline");
  request = Small();
  request->settings.profile = FindDeviceProfile("trn2");
  CHECK(Find(*request).why_not ==
        "no measured run on a torus, all of which are of TPUs, has a pipeline");
  request = Small();
  request->mesh = Mesh{};
  CHECK_FALSE(Find(*request).why_not.empty());
}

TEST_CASE("rules to keep that cannot be read have no pipelines") {
  auto request = Small();
  request->keep_rules = true;
  request->read = [](const RulesFile&) { return std::nullopt; };
  const Pipelines found = Find(*request);
  CHECK(found.why_not == "the rules cannot be read");
  CHECK_FALSE(found.fastest.has_value());
}

TEST_CASE("experts are divided over the devices of a rank") {
  const auto request = RequestFor({.layers = 8, .experts = 4}, 16, "h100-sxm",
                                  64, 2048, int64_t{40} << 30);
  const SettingsGrid grid(*request);
  RuleOptions options(*request, grid);
  const PipelineDrafts drafts =
      DraftPipelines(*request, grid, options, options.bases().front(), "pp",
                     Deadline(std::nullopt));
  const auto divides = [](const PipelineDrafts::StagedMesh& one) {
    return one.sizes.experts > 1;
  };
  CHECK(std::any_of(drafts.meshes.begin(), drafts.meshes.end(), divides));
  CHECK(Find(*request).fastest.has_value());
}

// What the drafts of a request with several micro-batches have: their ZeRO
// stages, and whether a rank has fully sharded data.
struct Drafted {
  std::set<int> zeros;
  bool shards = false;
};

Drafted DraftedFor(const Request& request) {
  const SettingsGrid grid(request);
  RuleOptions options(request, grid);
  const PipelineDrafts drafts =
      DraftPipelines(request, grid, options, options.bases().front(), "pp",
                     Deadline(std::nullopt));
  Drafted out;
  for (const PipelineDraft& one : drafts.all) {
    CHECK(one.bound <= one.expected);
    if (grid[one.setting].microbatches == 1) continue;
    out.zeros.insert(grid[one.setting].zero);
    out.shards = out.shards || drafts.meshes[one.mesh].sizes.sharded > 1;
  }
  CHECK(std::is_sorted(drafts.all.begin(), drafts.all.end(),
                       [](const PipelineDraft& a, const PipelineDraft& b) {
                         return a.expected < b.expected;
                       }));
  return out;
}

TEST_CASE("fully sharded data and ZeRO stage 3 are drafted on each rank") {
  auto request = Small();
  request->settings.memory = int64_t{5} << 30;
  request->settings.stack = cost::FindStack("xla");
  const Drafted drafted = DraftedFor(*request);
  CHECK(drafted.shards);
  CHECK(drafted.zeros == std::set<int>{0, 1, 3});
}

// A rank that gathers its weights once a step holds their shards as well, and
// it does not shard the sum of the gradients of several micro-batches. So
// replicas with ZeRO stage 1 need the least memory.
TEST_CASE(
    "of pipelines with equal times the one of the fewest bytes is drafted") {
  auto request = Small();
  const Drafted drafted = DraftedFor(*request);
  CHECK_FALSE(drafted.shards);
  CHECK(drafted.zeros == std::set<int>{0, 1});
}

// What the drafts with ZeRO stage 1 are compared by: their option, ranks and
// other axes than those of the data, schedule, chunks, policy and
// micro-batches.
using DraftKey = std::tuple<uint32_t, int64_t, int64_t, int64_t, int64_t,
                            uint32_t, int32_t, std::string, int64_t>;

TEST_CASE("of equal pipelines the lowest ZeRO stage is drafted") {
  for (const int64_t batch : {8, 64}) {
    auto request = RequestFor({.layers = 8}, 16, "h100-sxm", batch, 2048,
                              int64_t{40} << 30);
    const auto drafts_of = [&](const SettingsGrid& grid) {
      RuleOptions options(*request, grid);
      return DraftPipelines(*request, grid, options, options.bases().front(),
                            "pp", Deadline(std::nullopt));
    };
    const auto key = [](const PipelineDrafts& all, const SettingsGrid& grid,
                        const PipelineDraft& one) {
      const AxisSizes& sizes = all.meshes[one.mesh].sizes;
      return DraftKey{one.option,
                      all.RanksOf(one),
                      sizes.experts,
                      sizes.sequence,
                      sizes.tensor,
                      one.schedule,
                      one.chunks,
                      grid[one.setting].remat.text,
                      grid[one.setting].microbatches};
    };
    const SettingsGrid grid(*request);
    const PipelineDrafts drafts = drafts_of(grid);
    request->zero_fixed = true;
    request->settings.zero = 1;
    const SettingsGrid first_stage(*request);
    const PipelineDrafts others = drafts_of(first_stage);
    std::map<DraftKey, const PipelineDraft*> known;
    for (const PipelineDraft& one : others.all) {
      known[key(others, first_stage, one)] = &one;
    }
    for (const PipelineDraft& one : drafts.all) {
      if (grid[one.setting].zero <= 1) continue;
      const auto other = known.find(key(drafts, grid, one));
      if (other == known.end()) continue;
      CHECK(std::pair(one.bytes, one.expected) <
            std::pair(other->second->bytes, other->second->expected));
    }
  }
}

TEST_CASE("a long sequence is divided over the devices of a rank") {
  auto request =
      RequestFor({.layers = 8}, 16, "h100-sxm", 16, 32768, int64_t{60} << 30);
  const SettingsGrid grid(*request);
  RuleOptions options(*request, grid);
  const PipelineDrafts drafts =
      DraftPipelines(*request, grid, options, options.bases().front(), "pp",
                     Deadline(std::nullopt));
  const auto divides = [](const PipelineDrafts::StagedMesh& one) {
    return one.sizes.sequence > 1;
  };
  CHECK(std::any_of(drafts.meshes.begin(), drafts.meshes.end(), divides));
  const Pipelines found = Find(*request);
  int64_t divided = 0;
  for (const Pipeline& one : found.fitting) {
    CAPTURE(MeshText(one.mesh));
    CAPTURE(one.settings.microbatches);
    CHECK(one.bound <= one.seconds);
    CHECK(one.gathers_once);
    if (one.sizes.sequence > 1) ++divided;
  }
  CHECK(divided > 0);
  // No published run divides a shorter sequence.
  request =
      RequestFor({.layers = 8}, 16, "h100-sxm", 16, 4096, int64_t{60} << 30);
  for (const Pipeline& one : Find(*request).fitting) {
    CHECK(one.sizes.sequence == 1);
  }
}

TEST_CASE("no pipeline is faster than its bound, or fits without its ranks") {
  for (const int64_t experts : {0, 4}) {
    auto request = RequestFor({.layers = 8, .experts = experts}, 16, "h100-sxm",
                              64, 2048, int64_t{40} << 30);
    request->unmeasured = true;
    const Pipelines found = Find(*request);
    CHECK_FALSE(found.fitting.empty());
    for (const Pipeline& one : found.fitting) {
      CAPTURE(MeshText(one.mesh));
      CAPTURE(one.schedule);
      CAPTURE(one.virtual_stages);
      CAPTURE(one.settings.zero);
      CAPTURE(one.settings.microbatches);
      CHECK(one.bound <= one.seconds);
      CHECK(one.bytes <= one.taken);
      CHECK(one.taken <= one.most_taken);
      CHECK(one.most_taken <= int64_t{40} << 30);
    }
  }
}

TEST_CASE("other schedules are evaluated only if they are allowed") {
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
  const SettingsGrid grid(*request);
  RuleOptions options(*request, grid);
  std::set<std::string_view> schedules;
  const PipelineDrafts drafts =
      DraftPipelines(*request, grid, options, options.bases().front(), "pp",
                     Deadline(std::nullopt));
  for (const PipelineDraft& one : drafts.all) {
    schedules.insert(ScheduleBounds()[one.schedule].name);
  }
  for (const char* const name :
       {"zb-h1", "interleaved-zb", "zb-h2", "zbv", "dualpipe", "dualpipev"}) {
    CAPTURE(name);
    CHECK(schedules.contains(name));
  }
  REQUIRE(all.fastest.has_value());
  CHECK(all.fastest->seconds <= measured.fastest->seconds);
}

TEST_CASE("a deadline ends the search for pipelines") {
  const auto request = Small();
  const Pipelines found = Find(*request, 0.0);
  CHECK_FALSE(found.finished);
  CHECK(found.evaluated == 0);
  CHECK_FALSE(found.left_bound);
}

}  // namespace
}  // namespace shardc::search
