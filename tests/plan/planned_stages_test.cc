// Tests stages from the `stages:` section to the bytes of each rank.
#include "plan/planned_stages.h"

#include <doctest/doctest.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "parse/manifest.h"
#include "parse/mesh.h"
#include "parse/rules.h"
#include "source/json.h"

namespace shardc {
namespace {

struct Planned {
  std::unique_ptr<Compiled> compiled;
  std::optional<PlannedStages> stages;
  std::string findings;  // "SHD242 message" lines
};

// Returns the plan of a model with these parameters. `stages` is the value of
// the key `stages:`. By default the rules replicate everything.
Planned PlanOf(const std::string& mesh, const std::string& stages,
               const std::string& params,
               const std::string& rules = "[{match: '.*', spec: []}]") {
  Findings findings;
  Planned out;
  const auto read_mesh = ReadMesh(mesh, std::nullopt, findings);
  const std::vector<std::string> files = {"builtin:case"};
  const SourceRef source =
      MakeSource("rules.yaml",
                 "version: 1\nstages: " + stages + "\nrules: " + rules + "\n");
  auto read_rules = ReadRules(
      files, [&](std::string_view) { return source; }, findings);
  const auto document = JsonDocument::Parse(
      MakeSource(
          "m.json",
          "{\"schema\": \"shardc.manifest/v1\", \"params\": {" + params + "}}"),
      findings);
  REQUIRE(read_mesh);
  REQUIRE(document != nullptr);
  auto manifest = ParseManifest(*document, findings);
  REQUIRE(manifest);
  SettleSeparator(*manifest, findings);
  if (read_rules) {
    out.compiled = Compile(*read_mesh, std::move(*read_rules),
                           std::move(*manifest), {}, findings);
    REQUIRE(out.compiled != nullptr);
    const auto declared = DeclaredStages({}, out.compiled->rules, {}, findings);
    if (declared) {
      DivideByStages(*declared, nullptr, *out.compiled, findings);
      if (out.compiled->stages != nullptr) out.stages = *out.compiled->stages;
      for (const Finding& finding : out.compiled->stage_findings) {
        findings.Add(finding);
      }
    }
  }
  for (const Finding& finding : findings.all()) {
    out.findings += finding.code->Id() + " " + finding.message + "\n";
  }
  return out;
}

std::string Param(const std::string& name, const std::string& shape) {
  return "\"" + name + "\": {\"shape\": [" + shape + "], \"dtype\": \"BF16\"}";
}

// Returns a model with an embedding of `vocabulary` rows, layers of one 4 by 4
// matrix each and, if `head`, a head.
std::string Model(int layers, int vocabulary = 8, bool head = true) {
  std::string out =
      Param("embed_tokens.weight", std::to_string(vocabulary) + ", 4");
  for (int l = 0; l < layers; ++l) {
    out +=
        ", " + Param("layers." + std::to_string(l) + ".up_proj.weight", "4, 4");
  }
  if (head) {
    out += ", " + Param("lm_head.weight", std::to_string(vocabulary) + ", 4");
  }
  return out;
}

std::vector<int64_t> Layers(const PlannedStages& stages) {
  std::vector<int64_t> out;
  for (int32_t s = 0; s < stages.stages(); ++s) {
    out.push_back(stages.LayersOf(s).count());
  }
  return out;
}

std::vector<int64_t> Bytes(const Planned& planned) {
  std::vector<int64_t> out;
  for (const auto& bytes :
       ParameterBytesByRank(planned.compiled->plan, Mode::kTrain)) {
    out.push_back(bytes.value_or(-1));
  }
  return out;
}

using Counts = std::vector<int64_t>;

TEST_CASE("layers are divided evenly, by their weights, or as listed") {
  const auto even = PlanOf("pp:4", "{axis: pp, assign: even}", Model(8));
  REQUIRE(even.stages);
  CHECK(Layers(*even.stages) == Counts{2, 2, 2, 2});
  // The head counts as two layers, because its 8 rows of 4 are two matrices of
  // 4 by 4.
  const auto weighed = PlanOf("pp:2", "{axis: pp, assign: cost}", Model(8));
  REQUIRE(weighed.stages);
  CHECK(Layers(*weighed.stages) == Counts{5, 3});
  const auto listed =
      PlanOf("pp:4", "{axis: pp, assign: [0, 3, 4, 1]}", Model(8));
  REQUIRE(listed.stages);
  CHECK(Layers(*listed.stages) == Counts{0, 3, 4, 1});
}

TEST_CASE("each rank holds its stages, and all ranks together the model") {
  const auto planned = PlanOf("pp:4,tp:2", "{axis: pp, assign: [1, 3, 3, 1]}",
                              Model(8), "[{match: 'weight', spec: [tp]}]");
  REQUIRE(planned.stages);
  // 8 * 4 bfloat16 of an end and 4 * 4 of a layer, over two devices.
  CHECK(Bytes(planned) == Counts{32 + 16, 48, 48, 32 + 16});
  const auto loop = PlanOf(
      "pp:2", "{axis: pp, schedule: interleaved, assign: even}", Model(8));
  REQUIRE(loop.stages);
  CHECK(Bytes(loop) == Counts{64 + 4 * 32, 64 + 4 * 32});
  const auto both =
      PlanOf("pp:2", "{axis: pp, schedule: dualpipe, assign: even}", Model(8));
  REQUIRE(both.stages);
  CHECK(Bytes(both) == Counts{128 + 8 * 32, 128 + 8 * 32});
}

TEST_CASE("a head that is the embedding is copied to the last rank") {
  const auto copied =
      PlanOf("pp:2", "{axis: pp, assign: even}", Model(4, 8, false));
  REQUIRE(copied.stages);
  CHECK(Bytes(copied) == Counts{64 + 64, 64 + 64});
  // The schedule zbv places both ends on rank 0, which holds the embedding
  // once.
  const auto one =
      PlanOf("pp:2", "{axis: pp, assign: even, schedule: zbv, tied: error}",
             Model(4, 8, false));
  REQUIRE(one.stages);
  CHECK(Bytes(one) == Counts{64 + 64, 64});
  CHECK(
      PlanOf("pp:2", "{axis: pp, tied: error}", Model(4, 8, false)).findings ==
      "SHD245 the head is `embed_tokens.weight`, and stages 0 and 1 are on "
      "ranks 0 and 1\n");
}

TEST_CASE("patterns state the layers and the ends of a model") {
  const std::string params =
      Param("in/w", "4, 4") + ", " + Param("net/b0/w", "4, 4") + ", " +
      Param("net/b1/w", "4, 4") + ", " + Param("out/w", "4, 4");
  const auto planned = PlanOf(
      "pp:2",
      "{axis: pp, layers: 'net\\.b(\\d+)\\.', first: ['^in'], last: '^out'}",
      params);
  CHECK(planned.findings.empty());
  REQUIRE(planned.stages);
  CHECK(planned.stages->units.of == Counts{0, 1, 2, 3});
  // `first` has only the parameters that it lists.
  CHECK(PlanOf("pp:2", "{axis: pp, first: []}", Model(2)).findings ==
        "SHD243 `embed_tokens.weight` is of no layer, and nothing shows an "
        "embedding, which the first stage has, or a norm or a head, which the "
        "last one has\n");
}

TEST_CASE("tensors that hold all layers are divided along that dimension") {
  const std::string params =
      Param("embed", "8, 4") + ", " + Param("dense/w", "2, 4, 4") + ", " +
      Param("moe/w", "4, 6, 4") + ", " + Param("head", "8, 4");
  const auto planned =
      PlanOf("pp:4",
             "{axis: pp, stacked: [{match: ^dense}, {match: ^moe, dim: 1}], "
             "first: embed, last: head}",
             params);
  CHECK(planned.findings.empty());
  REQUIRE(planned.stages);
  CHECK(planned.stages->units.layers == 8);
  CHECK(Layers(*planned.stages) == Counts{2, 2, 2, 2});
  // A layer of `moe` has 4 * 4 numbers, as a layer of `dense` does.
  CHECK(Bytes(planned) == Counts{64 + 64, 64, 64, 64 + 64});
  const auto shares = planned.stages->SharesOf(2);
  REQUIRE(shares.size() == 3);
  CHECK(shares[1].stage == 2);
  CHECK(shares[1].begin == 2);
  CHECK(shares[1].end == 4);
}

TEST_CASE("several stages on a rank need layers in three dimensions") {
  const auto of = [](const std::string& shape, const std::string& more = "") {
    return PlanOf("pp:2",
                  "{axis: pp, schedule: interleaved, stacked: [{match: w}], "
                  "first: embed, last: head" +
                      more + "}",
                  Param("embed", "8, 4") + ", " + Param("w", shape) + ", " +
                      Param("head", "8, 4"));
  };
  CHECK(of("8, 4, 4").findings ==
        "SHD244 `w` holds 8 layers in dimension 0, and `interleaved` takes "
        "layers 0-1 and layers 4-5 to rank 0, which no spec over that "
        "dimension states\n");
  const auto three = of("2, 2, 2, 4, 4");
  CHECK(three.findings.empty());
  REQUIRE(three.stages);
  CHECK(three.stages->units.layers == 8);
  CHECK(Bytes(three) == Counts{64 + 128, 64 + 128});
  CHECK(of("2, 2, 2, 4, 4", ", assign: [1, 3, 2, 2]")
            .findings.starts_with("SHD244"));
}

TEST_CASE("axes that split the layers of a stack divide those of each stage") {
  const auto of = [](const std::string& shape, const std::string& more,
                     const std::string& spec) {
    return PlanOf("pp:2,fsdp:2",
                  "{axis: pp, stacked: [{match: w}], first: embed, last: "
                  "head" +
                      more + "}",
                  Param("embed", "8, 4") + ", " + Param("w", shape) + ", " +
                      Param("head", "8, 4"),
                  "[{match: w, spec: " + spec + "}, {match: '.*', spec: []}]")
        .findings;
  };
  CHECK(of("8, 4, 4", "", "[fsdp]") == "");
  CHECK(of("6, 4, 4", "", "[null, fsdp]") == "");
  CHECK(of("6, 4, 4", "", "[fsdp]") ==
        "SHD244 dimension 0 of `w` is 3 in stage 0, and \"fsdp\" has 2: 3 % 2 "
        "= 1\n");
  CHECK(of("8, 4, 4", ", assign: [2, 6]", "[fsdp]") == "");
  CHECK(of("8, 4, 4", ", assign: [5, 3]", "[fsdp]").starts_with("SHD244"));
  CHECK(of("2, 2, 2, 4", ", schedule: interleaved", "[null, fsdp]") ==
        "SHD244 dimension 1 of `w` is 1 in stage 0, and \"fsdp\" has 2: 1 % 2 "
        "= 1\n");
}

TEST_CASE("stages that cannot be are refused with one finding") {
  struct Refused {
    std::string mesh, stages, params, starts;
  };
  const std::vector<Refused> cases = {
      {"tp:2", "{axis: pp}", Model(4), "SHD001 the mesh has no axis `pp`"},
      {"pp:2", "{axis: pp, assign: [1, 2]}", Model(4),
       "SHD242 `assign` has 3 layers in 2 stages, and the model has 4 for 2 "
       "stages"},
      {"pp:2", "{axis: pp, assign: [4]}", Model(4),
       "SHD242 `assign` has 4 layers in 1 stage"},
      {"pp:8", "{axis: pp}", Model(4),
       "SHD248 8 stages are more than 4 layers, an embedding and a head"},
      {"pp:2", "{axis: pp, schedule: zbw}", Model(4),
       "SHD028 there is no schedule `zbw`"},
      {"pp:2", "{axis: pp, schedule: zbv, virtual: 3}", Model(4),
       "SHD248 zbv places exactly 2 stages on a rank, not 3"},
      {"pp:4", "{axis: pp, schedule: interleaved, microbatches: 13}", Model(8),
       "SHD248 interleaved"},
      {"pp:2", "{axis: pp, virtual: 1048576, schedule: looped-bfs}", Model(4),
       "SHD005 the schedule has 25,165,824 tasks"},
      {"pp:2", "{axis: pp, schedule: {file: none.csv}}", Model(4), "SHD002"},
      {"pp:2", "{axis: pp, virtual: 2, schedule: {file: none.csv}}", Model(4),
       "SHD001 `virtual` is for schedules by name: the rows of a file say "
       "which stages a rank has"},
      {"pp:2097152", "{axis: pp}", Model(4),
       "SHD005 a pipeline of 2,097,152 ranks is more than 1,048,576"},
      {"pp:4",
       "{axis: pp, assign: cost, stacked: [{match: w}], first: [], last: []}",
       Param("w", "100000, 4, 4"),
       "SHD005 the division of 100,000 layers into 4 stages takes too long to "
       "search for"},
      {"pp:2", "{axis: pp, layers: 'blocks\\.(\\d+)'}", Model(4),
       "SHD242 `layers` is found in no parameter's name, such as "},
      {"pp:2", "{axis: pp, layers: 'layers\\.\\d+'}", Model(4),
       "SHD032 `layers` has no group that captures the number of the layer"},
      {"pp:2", "{axis: pp, layers: '(layers)'}", Model(4),
       "SHD032 the first group of `layers` is `layers` in"},
      {"pp:2", "{axis: pp, layers: '('}", Model(4), "SHD030"},
      {"pp:2", "{axis: pp, stacked: [{match: none}]}", Model(4),
       "SHD242 `match` of `stacked` is found in no parameter's name"},
      {"pp:2", "{axis: pp, stacked: [{match: layers, dim: 2}]}", Model(4),
       "SHD242 `layers.0.up_proj.weight` has 2 dimensions"},
      {"pp:2", "{axis: pp, stacked: [{match: weight}]}", Model(4),
       "SHD242 `embed_tokens.weight` holds 8 layers"},
      {"pp:2", "{axis: pp}", Param("layers.1.up_proj.weight", "4, 4"),
       "SHD242 no parameter is of layer 0 of 2"},
      {"pp:2", "{axis: pp}", Param("up/w", "4, 4"),
       "SHD001 no parameter's name has the number of its layer"},
      {"pp:2", "{axis: pp}", Param("layers.9223372036854775807.up", "4, 4"),
       "SHD001 no parameter's name has the number of its layer"},
      {"pp:2", "{axis: pp}", Param("layers.9223372036854775804.up", "4, 4"),
       "SHD005 a name has layer 9,223,372,036,854,775,804, beyond 100,000 "
       "layers"},
  };
  for (const Refused& one : cases) {
    const auto planned = PlanOf(one.mesh, one.stages, one.params);
    CAPTURE(one.stages);
    CAPTURE(planned.findings);
    CHECK_FALSE(planned.stages);
    CHECK(planned.findings.starts_with(one.starts));
    CHECK(planned.findings.find('\n') == planned.findings.size() - 1);
  }
}

TEST_CASE("a spec over the axis of the stages is refused, once for all") {
  CHECK(PlanOf("pp:2", "{axis: pp}", Model(4), "[{match: '.*', spec: [pp]}]")
            .findings ==
        "SHD241 `pp` is the axis of the stages, and the spec of "
        "`embed_tokens.weight` splits over it, as those of 5 other parameters "
        "do\n");
}

TEST_CASE("every parameter is in the stages of its layer, for any cut") {
  for (int layers = 1; layers < 9; ++layers) {
    for (int ranks = 1; ranks <= layers; ++ranks) {
      for (const char* assign : {"even", "cost"}) {
        const auto planned = PlanOf(
            "pp:" + std::to_string(ranks),
            std::string("{axis: pp, assign: ") + assign + "}", Model(layers));
        REQUIRE(planned.stages);
        const Counts counts = Layers(*planned.stages);
        CHECK(std::accumulate(counts.begin(), counts.end(), int64_t{0}) ==
              layers);
        CHECK(planned.stages->SharesOf(0).front().stage == 0);
        for (size_t l = 0; l < static_cast<size_t>(layers); ++l) {
          const auto shares = planned.stages->SharesOf(1 + l);
          REQUIRE(shares.size() == 1);
          const int32_t stage = shares[0].stage;
          CHECK(planned.stages->LayersOf(stage).first <=
                static_cast<int64_t>(l));
          CHECK(planned.stages->LayersOf(stage).end > static_cast<int64_t>(l));
        }
        CHECK(planned.stages->SharesOf(1 + static_cast<size_t>(layers))
                  .front()
                  .stage == ranks - 1);
      }
    }
  }
}

}  // namespace
}  // namespace shardc
