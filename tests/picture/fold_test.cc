// Compares folded groups with their parameters one by one, and the sums over
// groups with the plan's summary.
#include "picture/fold.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "draws.h"
#include "source/source.h"

namespace shardc::picture {
namespace {

struct Param {
  std::string name, entry;
};

PlanTable TableOf(const std::string& mesh, const std::vector<Param>& params) {
  std::string text =
      "{\n  \"schema\": \"shardc.plan/v1\",\n  \"fingerprint\": "
      "\"sha256:ab\",\n  \"mesh\": " +
      mesh +
      ",\n  \"modes\": [\"train\", \"decode\"],\n  \"rules\": "
      "[{\"match\": \"a\", \"source\": \"r.yaml:3\"}, {\"match\": "
      "\"b\"}],\n  \"params\": {\n";
  for (size_t i = 0; i < params.size(); ++i) {
    text += "    \"" + params[i].name + "\": " + params[i].entry +
            (i + 1 < params.size() ? ",\n" : "\n");
  }
  text += "  },\n  \"attention\": {}\n}\n";
  Findings findings;
  auto table =
      ReadPlanTable(MakeSource("p", text), EditedPlan::kAllowed, findings);
  REQUIRE(table);
  return std::move(*table);
}

constexpr const char* kMesh =
    R"({"axes": [{"name": "ep", "size": 4, "type": "auto"}, )"
    R"({"name": "tp", "size": 2, "type": "auto"}], "devices": 8})";

std::string Entry(int64_t rows, const std::string& spec,
                  const std::string& more = "") {
  return "{\"shape\": [" + std::to_string(rows) +
         ", 4], \"dtype\": \"BF16\", \"spec\": " + spec + ", \"rule\": 0" +
         more + "}";
}

const ParamGroup* Find(const FoldedPlan& plan, const std::string& shown) {
  for (const ParamGroup& group : plan.groups()) {
    if (group.shown == shown) return &group;
  }
  return nullptr;
}

TEST_CASE("numbers of names are printed as ranges, steps, lists and gaps") {
  std::vector<Param> params;
  const auto add = [&](const std::string& name) {
    params.push_back({name, Entry(8, "[\"tp\"]")});
  };
  for (int i = 0; i < 32; ++i) add("l." + std::to_string(i) + ".a");
  for (int i = 0; i < 61; i += 6) add("l." + std::to_string(i) + ".b");
  for (int i : {0, 1, 3}) add("l." + std::to_string(i) + ".c");
  for (int i = 0; i < 40; i += i % 7 + 1) add("l." + std::to_string(i) + ".d");
  for (int i : {0, 1}) {
    for (int k : {0, 1, 2}) {
      if (i + k < 3) {
        add("l." + std::to_string(i) + ".e." + std::to_string(k));
      }
    }
  }
  // Megatron-Core appends the number of the expert to the leaf.
  for (int i : {0, 1}) {
    for (int k = 0; k < 4; ++k) {
      add("l." + std::to_string(i) + ".experts.fc1.weight" + std::to_string(k));
    }
  }
  add("l.7.{x}");
  add("l.007.f");
  add("l.8.f");
  const PlanTable table = TableOf(kMesh, params);
  const FoldedPlan plan(table);
  REQUIRE(Find(plan, "l.{0..31}.a"));
  CHECK(Find(plan, "l.{0..31}.a")->count == 32);
  CHECK(Find(plan, "l.{0..60..6}.b"));
  CHECK(Find(plan, "l.{0,1,3}.c"));
  CHECK(Find(plan, "l.{0,1,…,38}.d") != nullptr);
  const ParamGroup* sparse = Find(plan, "l.{0,1}.e.{0..2}");
  REQUIRE(sparse);
  CHECK(sparse->count == 5);
  CHECK(sparse->possible == 6);
  const ParamGroup* experts = Find(plan, "l.{0,1}.experts.fc1.weight{0..3}");
  REQUIRE(experts);
  CHECK(experts->count == 8);
  CHECK(experts->possible == 8);
  CHECK(Find(plan, "l.7.\\{x\\}"));
  CHECK(Find(plan, "l.{8,007}.f"));
}

TEST_CASE("another spec or another rule makes another group") {
  const PlanTable table = TableOf(
      kMesh,
      {{"l.0.a", Entry(8, "[\"tp\"]")},
       {"l.1.a", Entry(8, "[\"ep\"]")},
       {"l.2.a", Entry(16, "[\"tp\"]")},
       {"l.3.a",
        Entry(8, "[\"tp\"]", ", \"modes\": {\"decode\": {\"spec\": [null]}}")},
       {"l.4.a",
        Entry(8, "[\"tp\"]",
              ", \"corrections\": [{\"dim\": 1, \"from\": \"ep\", \"to\": "
              "null, \"reason\": \"indivisible\", "
              "\"bytes_per_device_added\": 3}]")}});
  const FoldedPlan plan(table);
  REQUIRE(plan.groups().size() == 5);
  CHECK(plan.IsCorrected(plan.groups()[4]));
  CHECK_FALSE(plan.IsCorrected(plan.groups()[0]));
  CHECK(plan.Each(plan.groups()[3], Mode::kTrain) == 32);
  CHECK(plan.Each(plan.groups()[3], Mode::kDecode) == 64);
  CHECK(plan.Copies(plan.groups()[3], Mode::kTrain) == 4);
  CHECK(plan.IsReplicated(plan.groups()[3], Mode::kDecode));
  CHECK(ModeGroups(table.classes).size() == 2);
  const Coverage coverage = CoverageOf(plan);
  REQUIRE(coverage.rules.size() == 2);
  CHECK(coverage.rules[0].won == 5);
  CHECK(coverage.rules[0].bytes == 4 * 64 + 128);
  CHECK(coverage.rules[0].source == "r.yaml:3");
  CHECK(coverage.Dead() == 1);
}

TEST_CASE("a rule that wins nothing is dead, or shadowed where it is found") {
  Coverage coverage;
  const auto rule = [](int64_t won, std::optional<int64_t> found) {
    RuleLine line;
    line.won = won;
    line.found = found;
    return line;
  };
  coverage.rules = {rule(2, 2), rule(0, 3), rule(0, 0), rule(0, {}),
                    rule(1, 4)};
  CHECK(coverage.Dead() == 2);
  CHECK(coverage.Shadowed() == 1);
}

TEST_CASE("parameters are of the kind that their module's name gives") {
  const std::vector<std::pair<std::string, Kind>> cases = {
      {"embed_tokens.weight", Kind::kEmbedding},
      {"lm_head.weight", Kind::kHead},
      {"layers.0.input_layernorm.weight", Kind::kNorms},
      {"layers.0.self_attn.q_proj.weight", Kind::kAttention},
      {"layers.0.mlp.up_proj.weight", Kind::kMlp},
      {"layers.0.mlp.experts.0.up_proj.weight", Kind::kExperts},
      {"something.else", Kind::kOther},
  };
  for (const auto& [name, kind] : cases) {
    const auto& given_name = name;
    CAPTURE(given_name);
    const PlanTable table = TableOf(kMesh, {{name, Entry(8, "[]")}});
    const FoldedPlan plan(table);
    REQUIRE(plan.groups().size() == 1);
    CHECK(plan.groups()[0].kind == kind);
  }
}

TEST_CASE("placed parameters fold over coordinates and count on one device") {
  std::vector<Param> params;
  for (int i = 0; i < 6; ++i) {
    // Two experts are at coordinate 0, two at 1, one at 2 and one at 3.
    const int at = i < 4 ? i / 2 : i - 2;
    params.push_back({"e." + std::to_string(i) + ".w",
                      Entry(8, "[]",
                            ", \"placement\": {\"axis\": \"ep\", "
                            "\"coordinate\": " +
                                std::to_string(at) + "}")});
  }
  const PlanTable table = TableOf(kMesh, params);
  const FoldedPlan plan(table);
  REQUIRE(plan.groups().size() == 1);
  const ParamGroup& group = plan.groups()[0];
  CHECK(group.count == 6);
  CHECK(plan.OnFullest(group, Mode::kTrain) == 128);
  CHECK(plan.Held(Mode::kTrain).Fullest() == 128);
  CHECK(plan.Held(Mode::kTrain).Emptiest(plan.mesh()) == 64);
  CHECK(plan.Copies(group, Mode::kTrain) == 2);
}

TEST_CASE("the bytes of random groups add up to those of the parameters") {
  Draws draws(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<Param> params;
    int64_t elements = 0;
    const char* specs[] = {"[]", "[\"tp\"]", "[\"ep\", \"tp\"]",
                           "[[\"tp\", \"ep\"]]"};
    const int64_t shards[] = {1, 2, 8, 8};
    int64_t held = 0;
    const int count = 1 + static_cast<int>(draws() % 60);
    for (int i = 0; i < count; ++i) {
      const auto rows = static_cast<int64_t>(8 * (1 + draws() % 3));
      const auto spec = draws() % 4;
      params.push_back(
          {"x." + std::to_string(i) + "." +
               std::string(1, static_cast<char>('a' + draws() % 3)),
           Entry(rows, specs[spec])});
      elements += rows * 4;
      held += rows * 4 * 2 / shards[spec];
    }
    const PlanTable table = TableOf(kMesh, params);
    const FoldedPlan plan(table);
    int64_t all = 0, filled = 0;
    for (const ParamGroup& group : plan.groups()) {
      all += group.count;
      filled += plan.OnFullest(group, Mode::kTrain).value_or(0);
    }
    CHECK(all == count);
    CHECK(filled == held);
    CHECK(plan.TotalElements() == elements);
    CHECK(plan.TotalBytes() == elements * 2);
    CHECK(plan.Held(Mode::kTrain).Fullest() == held);
    CHECK(CoverageOf(plan).bytes == elements * 2);
  }
}

}  // namespace
}  // namespace shardc::picture
