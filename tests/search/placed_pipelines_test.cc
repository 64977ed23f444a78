// Tests at which places pipelines are inserted into the result of a search.
#include "search/search.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardc::search {
namespace {

Sharding MeshOf(double seconds, int64_t bytes) {
  Sharding out;
  out.report.memory.capacity = 120;
  out.report.memory.taken.emplace(cost::TakenBytes{}).expected = bytes;
  auto& time = out.report.expected.emplace(cost::ExpectedTime{});
  time.seconds = seconds;
  time.parts = {
      {"matmuls", seconds - 0.25}, {"gradients", 0.125}, {"optimizer", 0.125}};
  return out;
}

Pipeline PipelineOf(int64_t ranks, double seconds, int64_t bytes) {
  Pipeline out;
  out.mesh.axes = {{"pp", ranks, AxisType::kAuto}, {"dp", 2, AxisType::kAuto}};
  out.sizes.data = 2;
  out.axis = "pp";
  out.schedule = "interleaved";
  out.virtual_stages = 2;
  out.layers.assign(static_cast<size_t>(2 * ranks), 1);
  out.settings.profile = FindDeviceProfile("h100-sxm");
  out.seconds = seconds;
  out.least = seconds / 2;
  out.most = 2 * seconds;
  out.bubble = 0.25;
  out.after = 0.5;
  out.taken = bytes;
  return out;
}

// Returns the result of a search with these pipelines and a front of two
// meshes, the first of which is the winner.
Found With(std::vector<Pipeline> pipelines) {
  Found out;
  out.front = {MeshOf(4, 100), MeshOf(4.5, 50)};
  out.shown = {0, 1};
  out.knee = 1;
  out.winner = out.front.front();
  out.ties = {{"dp", *out.winner}};
  out.pipelines.fitting = std::move(pipelines);
  if (!out.pipelines.fitting.empty()) {
    out.pipelines.fastest = out.pipelines.fitting.front();
  }
  Request request;
  request.settings.profile = FindDeviceProfile("h100-sxm");
  PlacePipelines(out, request);
  return out;
}

TEST_CASE("a pipeline that nothing beats is on the front next to the meshes") {
  const Found found = With({PipelineOf(8, 3, 110), PipelineOf(4, 3.5, 115),
                            PipelineOf(2, 4.25, 80), PipelineOf(16, 5, 60)});
  REQUIRE(found.front.size() == 4);
  CHECK(found.front[0].stages == 16);
  CHECK(found.front[0].schedule == "interleaved with 2 stages a rank");
  CHECK(found.front[0].unmeasured.empty());
  CHECK_FALSE(found.front[1].IsPipeline());
  CHECK(found.front[2].stages == 4);
  CHECK(found.front[2].Bytes() == 80);
  CHECK(found.knee == 3);
  CHECK(found.shown == std::vector<size_t>{0, 1, 2, 3});
}

TEST_CASE("a pipeline beyond the window of times is not on the front") {
  const Found found = With({PipelineOf(2, 5.5, 10)});
  CHECK(found.front.size() == 2);
  CHECK(found.shown.size() == 2);
}

TEST_CASE("pipelines within 5 % of the fastest are ties") {
  const Found found = With({PipelineOf(8, 3, 110), PipelineOf(4, 3.9, 115),
                            PipelineOf(2, 4.1, 80), PipelineOf(16, 4.3, 60)});
  REQUIRE(found.ties.size() == 2);
  CHECK(found.ties[0].kind == "pp+dp");
  CHECK(found.ties[0].best.Seconds() == 3.9);
}

TEST_CASE("each number of ranks is an alternative whose parts add up") {
  const Found found = With({PipelineOf(8, 3, 110), PipelineOf(4, 4.1, 115),
                            PipelineOf(8, 4.2, 80), PipelineOf(2, 6, 60)});
  REQUIRE(found.why_not.size() == 3);
  const Verdict verdicts[] = {Verdict::kSlower, Verdict::kTie,
                              Verdict::kFaster};
  const char* const changes[] = {"pp 1 -> 2", "pp 1 -> 4", "pp 1 -> 8"};
  for (size_t i = 0; i < 3; ++i) {
    const WhyNot& one = found.why_not[i];
    CAPTURE(one.changes[0]);
    CHECK(one.changes[0] == changes[i]);
    CHECK(one.verdict == verdicts[i]);
    double sum = 0;
    for (const cost::TimePart& part : one.parts) sum += part.seconds;
    CHECK(sum == doctest::Approx(one.best->Seconds() - 4).epsilon(1e-12));
    CHECK(one.because.find("excluded") == std::string::npos);
  }
  // A quarter of the step of 3 s is the bubble, and half a second is updates.
  CHECK(found.why_not[2].parts[0].seconds == 0.75);
  CHECK(found.why_not[2].parts[1].seconds == 0.25);
}

TEST_CASE("a pipeline wins if it is faster by more than a tie") {
  const Found faster = With({PipelineOf(8, 3.7, 110)});
  CHECK(faster.winner->IsPipeline());
  CHECK(faster.winner->report.expected->least == 3.7 / 2);
  CHECK(faster.winner->report.expected->most == 2 * 3.7);
  CHECK(faster.without_stages->Seconds() == 4);
  CHECK(faster.Compared().Seconds() == 4);
  const Found tie = With({PipelineOf(8, 3.9, 110)});
  CHECK_FALSE(tie.winner->IsPipeline());
  CHECK_FALSE(tie.without_stages.has_value());
  CHECK_FALSE(With({}).winner->IsPipeline());
}

TEST_CASE("a pipeline that no measured run has states why it cannot win") {
  Pipeline one = PipelineOf(8, 3, 110);
  CHECK(WhyUnmeasured(one).empty());
  one.division = Division::kTimes;
  CHECK(WhyUnmeasured(one) ==
        "no measured run divides its layers by the times of the stages");
  one.sizes.sharded = 2;
  CHECK(WhyUnmeasured(one) ==
        "no measured run gathers weights for each micro-batch");
  one.schedule = "zbv";
  CHECK(WhyUnmeasured(one) == "no measured run has the schedule");
}

}  // namespace
}  // namespace shardc::search
