#include "plan/read.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>

#include "plan/difference/plan_difference.h"
#include "plan/staged_plan.h"

namespace shardc {
namespace {

constexpr std::string_view kSizes =
    R"("microbatches": 4, "placement": "loop", "schedule": "1f1b",
       "virtual": 1, "table":
       "sha256:0000000000000000000000000000000000000000000000000000000000000000")";
constexpr std::string_view kOf =
    R"("of": [{"ranks": [0], "layers": [0, 3], "parts": ["first"]},
              {"ranks": [1], "layers": [3, 5], "parts": ["last"]}])";

struct Read {
  std::optional<ReadPlan> plan;
  std::string findings;
};

Read Parse(const std::string& stages, const std::string& params,
           const std::string& ranks = "2") {
  Findings findings;
  const auto document = JsonDocument::Parse(
      MakeSource("p",
                 R"({"schema": "shardc.plan/v2", "fingerprint": "",
  "mesh": {"axes": [{"name": "pp", "size": )" +
                     ranks + R"(}, {"name": "tp", "size": 2}]},
  "modes": ["train"], "stages": )" +
                     stages + R"(, "rules": [], "attention": {}, "params": )" +
                     params + "}"),
      findings);
  REQUIRE(document != nullptr);
  Read out{ParsePlan(*document, EditedPlan::kAllowed, findings), ""};
  for (const Finding& finding : findings.all()) {
    out.findings += finding.code->Id() + " " + finding.message;
  }
  return out;
}

std::string Stages(std::string_view axis, std::string_view rest) {
  return R"({"axis": ")" + std::string(axis) + R"(", )" + std::string(rest) +
         "}";
}

std::string Replaced(std::string_view text, std::string_view from,
                     std::string_view to) {
  return std::string(text).replace(text.find(from), from.size(), to);
}

std::string Usual() {
  return Stages("pp", std::string(kSizes) + ", " + std::string(kOf));
}

TEST_CASE("plan: stages of parameters and layers of stacks are read") {
  const Read read = Parse(Usual(), R"({
    "a": {"shape": [4], "dtype": "F32", "spec": ["tp"], "stages": [1]},
    "b": {"shape": [4], "dtype": "F32", "spec": [], "stages": [0, 1]},
    "c": {"shape": [5, 2], "dtype": "F32", "spec": [],
          "slices": {"dim": 0, "of": [[0, 3], [3, 5]]}}})");
  CHECK(read.findings == "");
  REQUIRE(read.plan);
  REQUIRE(read.plan->stages);
  const PlanStages& stages = *read.plan->stages;
  CHECK(stages.ranks == 2);
  CHECK(stages.of[1].last);
  const auto& params = read.plan->params;
  CHECK(RanksOf(stages, params[0].stages) == std::vector<int32_t>{1});
  CHECK(RanksOf(stages, params[1].stages) == std::vector<int32_t>{0, 1});
  CHECK(LayersOnRank(stages, params[2].stages, 0) == 3);
  CHECK(LayersOnRank(stages, params[2].stages, 1) == 2);
  CHECK(LayersOnRank(stages, params[0].stages, 0) == 0);

  BytesByRank bytes(stages);
  bytes.Add(params[0].stages, 8, 3);
  bytes.Add(params[1].stages, 100, 1);
  bytes.Add(params[2].stages, 40, 1);
  CHECK(bytes.Fullest() ==
        std::vector<std::optional<int64_t>>{100 + 24, 24 + 100 + 16});
  // A product that overflows is unknown, on the ranks that hold it alone.
  BytesByRank large(stages);
  large.Add(params[0].stages, INT64_MAX / 2, 3);
  CHECK(large.Fullest() == std::vector<std::optional<int64_t>>{0, {}});
  large.Add(params[1].stages, 8, 1);
  CHECK(large.Fullest() == std::vector<std::optional<int64_t>>{8, {}});
  bytes.Add(params[0].stages, std::nullopt, 1);
  CHECK_FALSE(MostOf(bytes.Fullest()));
}

TEST_CASE("plan: stages that cannot be are refused") {
  const std::string good =
      R"({"a": {"shape": [4], "dtype": "F32", "spec": [], "stages": [0]}})";
  const auto of = [](std::string_view text) {
    return Stages("pp", std::string(kSizes) + ", " + std::string(text));
  };
  const auto param = [](std::string_view members) {
    return R"({"a": {"shape": [5, 2], "dtype": "F32", "spec": [])" +
           std::string(members) + "}}";
  };
  const struct {
    std::string stages, params;
    std::string_view found;
  } cases[] = {
      {"[]", good, "SHD022 `stages` of the plan is not an object"},
      {Stages("zz", std::string(kSizes) + ", " + std::string(kOf)), good,
       "SHD028 the plan's mesh has no axis `zz`"},
      {of(R"("of": [])"), good, "SHD022 a pipeline has at least one stage"},
      {of(R"("of": [{"ranks": [2], "layers": [0, 1], "parts": []}])"), good,
       "SHD022 a rank is an integer from 0 to 1, below the size of `pp`"},
      {of(R"("of": [{"ranks": [0], "layers": [1, 2], "parts": []}])"), good,
       "SHD022 the layers of a stage are [first, end], and begin where those "
       "of the stage before end"},
      {of(R"("of": [{"ranks": [0], "layers": [0, -1], "parts": []}])"), good,
       "SHD023 `layers` of a stage is not [first, end], two integers of 0 or "
       "more"},
      {of(R"("of": [{"ranks": [0], "layers": [0], "parts": []}])"), good,
       "SHD022 `layers` of a stage is not [first, end], two integers of 0 or "
       "more"},
      {of(R"("of": [{"ranks": [0], "layers": [0, 100001], "parts": []}])"),
       good, "SHD005 a stage has layer 100,000, beyond 100,000 layers"},
      {of(R"("of": [{"layers": [0, 1], "parts": []}])"), good,
       "SHD022 a stage has no `ranks`"},
      {Stages("pp",
              Replaced(kSizes, R"("microbatches": 4)", R"("microbatches": 0)") +
                  ", " + std::string(kOf)),
       good,
       "SHD023 `microbatches` of `stages` is not an integer of 1 or more"},
      {Stages("pp",
              Replaced(kSizes, "loop", "looop") + ", " + std::string(kOf)),
       good,
       "SHD022 `placement` of `stages` is not one of `loop`, `v`, `both` and "
       "`listed`"},
      {of(R"("of": [{"ranks": [0], "layers": [0, 1], "parts": ["frist"]}])"),
       good, "SHD022 `parts` of a stage is not a list of `first` and `last`"},
      {of(R"("of": [{"ranks": [0], "layers": [0, 1], "parts": [1]}])"), good,
       "SHD022 `parts` of a stage is not a list of `first` and `last`"},
      {of(std::string(kOf) + R"(, "hidden": "tp")"), good,
       "SHD022 `hidden` of `stages` is not a list of names of axes"},
      {of(std::string(kOf) + R"(, "copies": {})"), good,
       "SHD022 `copies` of `stages` is not a list"},
      {of(std::string(kOf) +
          R"(, "copies": [{"param": "a", "stages": [2], "ranks": [0]}])"),
       good, "SHD022 there is no such stage"},
      {Usual(), param(""), "SHD022 the parameter is in no stage"},
      {Usual(), param(R"(, "stages": 1)"),
       "SHD022 `stages` of a parameter is not a list of integers of 0 or "
       "more"},
      {Usual(), param(R"(, "stages": [1, 0])"),
       "SHD022 the stages of a parameter are numbers from 0 to 1, ascending"},
      {Usual(), param(R"(, "stages": [2])"),
       "SHD022 the stages of a parameter are numbers from 0 to 1, ascending"},
      {Usual(),
       param(
           R"(, "stages": [1], "slices": {"dim": 0, "of": [[0, 3], [3, 5]]})"),
       "SHD022 a parameter has `stages` or `slices`, not both"},
      {Usual(), param(R"(, "slices": {"dim": 0, "of": [[0, 5]]})"),
       "SHD022 `slices` has a range of layers for each stage"},
      {Usual(), param(R"(, "slices": {"dim": 0, "of": [[0, 3], [5, 3]]})"),
       "SHD022 a range of layers is [begin, end]"},
      {Usual(),
       param(R"(, "slices": {"dim": 0, "dims": 2, "of": [[0, 3], [3, 5]]})"),
       "SHD022 layers are counted by 1 dimension or by 3"},
      {Usual(), param(R"(, "slices": {"dim": 2, "of": [[0, 3], [3, 5]]})"),
       "SHD022 the parameter has no such dimension of layers"},
      {Usual(), param(R"(, "slices": {"dim": 0, "of": [[0, 3], [4, 5]]})"),
       "SHD022 a stage begins where the stage before it ends"},
      {Usual(), param(R"(, "slices": {"dim": 0, "of": [[0, 3], [3, 4]]})"),
       "SHD022 the stages do not have all layers of the parameter"},
      {Usual(),
       R"({"a": {"shape": [4], "dtype": "F32", "spec": ["pp"],
                 "stages": [0]}})",
       "SHD022 the spec of the parameter uses `pp`, the axis of the stages"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.stages);
    CAPTURE(one.params);
    CHECK(Parse(one.stages, one.params).findings == one.found);
  }
  CHECK(Parse(Usual(), good, "1099511627776").findings ==
        "SHD005 a pipeline of 1,099,511,627,776 ranks is more than 1,048,576");
}

PlanStages Divided(const std::vector<int64_t>& layers,
                   const std::vector<int32_t>& ranks) {
  PlanStages out;
  out.axis = "pp";
  out.ranks = 2;
  int64_t end = 0;
  for (size_t s = 0; s < layers.size(); ++s) {
    out.of.push_back({{ranks[s]}, {end, end + layers[s]}, false, false});
    end += layers[s];
  }
  return out;
}

std::string Moves(const PlanStages& before, const PlanStages& after) {
  std::string out;
  for (const LayerMove& move : LayerMoves(before, after)) {
    out += LayersText(move.layers) + ": " + std::to_string(move.stage_before) +
           ">" + std::to_string(move.stage_after) + "; ";
  }
  return out;
}

TEST_CASE("layers that move between stages or ranks") {
  const PlanStages even = Divided({4, 4}, {0, 1});
  CHECK(Moves(even, even) == "");
  CHECK(Moves(even, Divided({5, 3}, {0, 1})) == "layer 4: 1>0; ");
  CHECK(Moves(Divided({5, 3}, {0, 1}), even) == "layer 4: 0>1; ");
  CHECK(Moves(even, Divided({4, 4}, {1, 0})) ==
        "layers 0-3: 0>0; layers 4-7: 1>1; ");
  CHECK(Moves(even, Divided({0, 8}, {0, 1})) == "layers 0-3: 0>1; ");
  // Only layers that both plans have are compared.
  CHECK(Moves(even, Divided({4, 2}, {0, 1})) == "");

  const auto moves = LayerMoves(even, Divided({5, 3}, {0, 1}));
  const auto in = [](int32_t stage) {
    ParamStages out;
    out.of = {{stage}};
    return out;
  };
  CHECK(IsExplained(moves, in(1), in(0)));
  CHECK_FALSE(IsExplained(moves, in(0), in(1)));
  ParamStages stack;
  stack.dim = 0;
  CHECK(IsExplained(moves, stack, stack));
  CHECK_FALSE(IsExplained({}, stack, stack));
}

TEST_CASE("parameters of stages without stages") {
  const PlanStages even = Divided({2, 2}, {0, 1});
  const auto param = [](std::vector<StageShare> of, std::optional<int64_t> dim,
                        int64_t dims = 1) {
    ReadParam out;
    out.spec = {{"tp"}};
    out.stages.of = std::move(of);
    out.stages.dim = dim;
    out.stages.dims = dims;
    out.stages.layers = 4;
    return out;
  };
  ReadParam one = param({{1}}, std::nullopt);
  CHECK(TakeStagesAway(even, one));
  CHECK(one.placement == ReadPlacement{"pp", 1});
  ReadParam both = param({{0}, {1}}, std::nullopt);
  CHECK(TakeStagesAway(even, both));
  CHECK_FALSE(both.placement);
  ReadParam stack = param({{0, 0, 2}, {1, 2, 4}}, 0);
  CHECK(TakeStagesAway(even, stack));
  CHECK(SpecText(stack.spec) == R"([["pp", "tp"]])");
  ReadParam uneven = param({{0, 0, 3}, {1, 3, 4}}, 0);
  CHECK_FALSE(TakeStagesAway(even, uneven));
  ReadParam strided = param({{0, 0, 2}, {1, 2, 4}}, 1, 3);
  CHECK(TakeStagesAway(even, strided));
  CHECK(SpecText(strided.spec) == R"(["tp", null, "pp"])");
  ReadParam placed = param({{1}}, std::nullopt);
  placed.placement = ReadPlacement{"tp", 0};
  CHECK_FALSE(TakeStagesAway(even, placed));
}

TEST_CASE("a drawing of what stages alone express is for one rank") {
  PlanStages three = Divided({1, 2, 1}, {0, 1, 2});
  three.ranks = 3;
  ReadParam tied;
  tied.stages.of = {{0}, {2}};
  const DrawnParam one = DrawnWithoutStages(three, tied);
  CHECK(one.rank == ReadPlacement{"pp", 0});
  CHECK_FALSE(one.param.placement);
  ReadParam uneven;
  uneven.type.shape = Shape{4, 8};
  uneven.stages.dim = 0;
  uneven.stages.layers = 4;
  uneven.stages.of = {{1, 0, 3}, {2, 3, 4}};
  const DrawnParam layers = DrawnWithoutStages(three, uneven);
  CHECK(layers.rank == ReadPlacement{"pp", 1});
  CHECK(layers.param.type.shape == Shape{3, 8});
  ReadParam all;
  all.stages.of = {{0}, {1}, {2}};
  CHECK_FALSE(DrawnWithoutStages(three, all).rank);
}

}  // namespace
}  // namespace shardc
