#include "audit/difference.h"

#include <doctest/doctest.h>

#include <string>

#include "source/json.h"

namespace shardc::audit {
namespace {

const Mesh& TwoByTwo() {
  static const Mesh mesh = [] {
    Mesh out;
    out.axes = {{"dp", 2}, {"tp", 2}};
    out.devices = 4;
    return out;
  }();
  return mesh;
}

// The devices 0 1 2 3 are on dp:2,tp:2, so groups over tp are {0,1} {2,3}.
constexpr const char* kSum =
    "%add (a: f32[], b: f32[]) -> f32[] {\n"
    "  %a = f32[] parameter(0)\n"
    "  %b = f32[] parameter(1)\n"
    "  ROOT %s = f32[] add(%a, %b)\n"
    "}\n\n";
constexpr const char* kTp =
    ", replica_groups={{0,1},{2,3}}, to_apply=%add, "
    "metadata={op_name=\"jit(f)/transpose(jvp(layer))/dot\"}\n";
constexpr const char* kDp = ", replica_groups={{0,2},{1,3}}, to_apply=%add\n";

// The rewritten collectives of an entry with two matrices, %x and %y.
struct Rewritten {
  hlo::Program program;
  std::optional<Report> report;
  std::vector<Sending> sends;
};

Rewritten Run(const std::string& body, const std::string& before = "") {
  Rewritten out;
  Findings findings;
  auto program = hlo::ReadProgram(
      MakeSource("p.txt",
                 "HloModule jit_f, num_partitions=4\n\n" + (kSum + before) +
                     "ENTRY %main (x: f32[8,64], y: f32[8,64]) -> f32[8,64] "
                     "{\n  %x = f32[8,64] parameter(0)\n"
                     "  %y = f32[8,64] parameter(1)\n" +
                     body + "}\n"),
      findings);
  REQUIRE(program);
  out.program = std::move(*program);
  out.report = Audit(out.program, {&TwoByTwo(), nullptr}, findings);
  REQUIRE(out.report);
  auto sends = EquivalentOf(out.program, *out.report, findings);
  REQUIRE(sends);
  out.sends = std::move(*sends);
  return out;
}

// Returns the collectives as "reduce_scatter tp 512", joined by commas: kind,
// axes, and the elements that a device holds.
std::string TextOf(const Rewritten& all) {
  std::string out;
  for (const Sending& one : all.sends) {
    if (!out.empty()) out += ", ";
    out += std::string(CollectiveName(one.kind)) + " ";
    for (const std::string& axis : one.axes) out += axis + " ";
    out += std::to_string(one.elements);
  }
  return out;
}

// Computes %i, the place of a device's shard of 32 columns over tp.
const std::string kPlace =
    "  %t = s32[4] constant({0, 32, 0, 32})\n"
    "  %d = u32[] partition-id()\n"
    "  %e = s32[1] dynamic-slice(%t, %d), dynamic_slice_sizes={1}\n"
    "  %i = s32[] reshape(%e)\n  %z = s32[] constant(0)\n";

TEST_CASE("a sum of which each device uses its slice is reduce-scattered") {
  const std::string sum = "  %r = f32[8,64] all-reduce(%x)" + std::string(kTp);
  CHECK(TextOf(Run(sum + "  ROOT %n = f32[8,64] negate(%r)\n")) ==
        "all_reduce tp 512");
  const auto sliced =
      Run(sum + kPlace + "  ROOT %s = f32[8,32] dynamic-slice(%r, %z, %i)\n");
  CHECK(TextOf(sliced) == "reduce_scatter tp 512");
  CHECK(sliced.sends[0].Has(Rewrite::kSliced));
  CHECK(sliced.sends[0].Sent(32) == 1024);
  CHECK(sliced.sends[0].Sent(16) == 512);
}

TEST_CASE("a slice at the same place on every device is no scatter") {
  CHECK(TextOf(Run("  %r = f32[8,64] all-reduce(%x)" + std::string(kTp) +
                   "  %z = s32[] constant(0)\n"
                   "  ROOT %s = f32[8,32] dynamic-slice(%r, %z, %z)\n")) ==
        "all_reduce tp 512");
}

TEST_CASE("a slice over another axis than the sum's is no scatter") {
  CHECK(
      TextOf(Run("  %r = f32[8,64] all-reduce(%x)" + std::string(kDp) + kPlace +
                 "  ROOT %s = f32[8,32] dynamic-slice(%r, %z, %i)\n")) ==
      "all_reduce dp 512");
}

TEST_CASE("a slice whose table is not printed is over the axes that fit") {
  std::string place = kPlace;
  place.replace(place.find("{0, 32, 0, 32}"), 14, "{...}");
  CHECK(
      TextOf(Run("  %r = f32[8,64] all-reduce(%x)" + std::string(kTp) + place +
                 "  ROOT %s = f32[8,32] dynamic-slice(%r, %z, %i)\n")) ==
      "reduce_scatter tp 512");
}

TEST_CASE("a sum over two axes of which one is sliced becomes two") {
  CHECK(TextOf(Run("  %r = f32[8,64] all-reduce(%x), replica_groups={}, "
                   "to_apply=%add\n" +
                   kPlace +
                   "  ROOT %s = f32[8,32] dynamic-slice(%r, %z, %i)\n")) ==
        "reduce_scatter tp 512, all_reduce dp 256");
}

TEST_CASE("partial values are reduced after they are added") {
  const std::string sums = "  %r = f32[8,64] all-reduce(%x)" +
                           std::string(kTp) +
                           "  %q = f32[8,64] all-reduce(%y)" + kTp;
  const auto added = Run(sums +
                         "  %a = f32[8,64] add(%r, %q)\n"
                         "  ROOT %n = f32[8,64] negate(%a)\n");
  CHECK(TextOf(added) == "all_reduce tp 512");
  CHECK(added.sends[0].Has(Rewrite::kDeferred));
  // The sums are not deferred if a value that is not a sum is added, or if one
  // of the sums has another use.
  CHECK(TextOf(Run("  %r = f32[8,64] all-reduce(%x)" + std::string(kTp) +
                   "  ROOT %a = f32[8,64] add(%r, %y)\n")) ==
        "all_reduce tp 512");
  CHECK(TextOf(Run(sums + "  %a = f32[8,64] add(%r, %q)\n"
                          "  ROOT %n = f32[8,64] multiply(%a, %r)\n")) ==
        "all_reduce tp 512, all_reduce tp 512");
}

TEST_CASE("a sum that two fusions compute again is one") {
  const std::string fused =
      "%both.NAME (a: f32[8,64], b: f32[8,64]) -> f32[8,64] {\n"
      "  %a = f32[8,64] parameter(0)\n  %b = f32[8,64] parameter(1)\n"
      "  %s = f32[8,64] add(%a, %b)\n"
      "  ROOT %n = f32[8,64] negate(%s)\n}\n\n";
  std::string one = fused, two = fused;
  one.replace(one.find("NAME"), 4, "1");
  two.replace(two.find("NAME"), 4, "2");
  CHECK(TextOf(Run("  %r = (f32[8,64], f32[8,64]) all-reduce(%x, %y)" +
                       std::string(kTp) +
                       "  %g = f32[8,64] get-tuple-element(%r), index=0\n"
                       "  %h = f32[8,64] get-tuple-element(%r), index=1\n"
                       "  %f = f32[8,64] fusion(%g, %h), kind=kLoop, "
                       "calls=%both.1\n"
                       "  %e = f32[8,64] fusion(%g, %h), kind=kLoop, "
                       "calls=%both.2\n"
                       "  ROOT %m = f32[8,64] multiply(%e, %f)\n",
                   one + two)) == "all_reduce tp 512");
}

TEST_CASE("sums of one value over two axes are joined") {
  const auto joined = Run("  %r = f32[8,64] all-reduce(%x)" + std::string(kTp) +
                          "  %q = f32[8,64] all-reduce(%r)" + kDp +
                          "  ROOT %n = f32[8,64] negate(%q)\n");
  CHECK(TextOf(joined) == "all_reduce dp tp 512");
  CHECK(joined.sends[0].Has(Rewrite::kJoined));
}

TEST_CASE("a reduction adds up before it is sent, a maximum does not") {
  const std::string sum = "  %r = f32[8,64] all-reduce(%x)" + std::string(kTp);
  CHECK(TextOf(Run(sum + "  %z = f32[] constant(0)\n"
                         "  %m = f32[8] reduce(%r, %z), dimensions={1}, "
                         "to_apply=%add\n  ROOT %n = f32[8] negate(%m)\n")) ==
        "all_reduce tp 8");
  CHECK(TextOf(Run("  %r = f32[8,64] all-reduce(%x), "
                   "replica_groups={{0,1},{2,3}}, to_apply=%most\n"
                   "  ROOT %a = f32[8,64] add(%r, %r)\n",
                   "%most (a: f32[], b: f32[]) -> f32[] {\n"
                   "  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
                   "  ROOT %s = f32[] maximum(%a, %b)\n}\n\n")) ==
        "all_reduce tp 512");
}

TEST_CASE("a value is gathered once, and not for sorting") {
  const std::string groups = ", replica_groups={{0,1},{2,3}}, dimensions={1}\n";
  const auto twice =
      Run("  %c = f32[8,64] copy(%x)\n"
          "  %g = f32[8,128] all-gather(%x)" +
          groups + "  %h = f32[8,128] all-gather(%c)" + groups +
          "  ROOT %m = f32[8,128] multiply(%g, %h)\n");
  CHECK(TextOf(twice) == "all_gather tp 512");
  CHECK(twice.sends[0].Has(Rewrite::kAgain));
  CHECK(TextOf(Run("  %g = f32[8,128] all-gather(%x)" + groups +
                   "  ROOT %s = f32[8,128] sort(%g), dimensions={1}\n"))
            .empty());
}

PlannedStep StepOf(std::vector<PlannedSend> sends) {
  PlannedStep out;
  out.mode = "train";
  out.mesh = TwoByTwo();
  out.sends = std::move(sends);
  return out;
}

TEST_CASE("layers are added up on both sides") {
  // The plan has four layers, and the program a loop that runs four times.
  const auto loop =
      Run("  %z = s32[] constant(0)\n  %i = (s32[], f32[8,64]) tuple(%z, %x)\n"
          "  ROOT %w = (s32[], f32[8,64]) while(%i), condition=%c, body=%b, "
          "backend_config={\"known_trip_count\":{\"n\":\"4\"}}\n",
          "%c (s: (s32[], f32[8,64])) -> pred[] {\n"
          "  %s = (s32[], f32[8,64]) parameter(0)\n"
          "  ROOT %p = pred[] constant(true)\n}\n\n"
          "%b (s: (s32[], f32[8,64])) -> (s32[], f32[8,64]) {\n"
          "  %s = (s32[], f32[8,64]) parameter(0)\n"
          "  %n = s32[] get-tuple-element(%s), index=0\n"
          "  %v = f32[8,64] get-tuple-element(%s), index=1\n"
          "  %r = f32[8,64] all-reduce(%v)" +
              std::string(kTp) +
              "  ROOT %o = (s32[], f32[8,64]) tuple(%n, %r)\n}\n\n");
  const auto same = DifferenceOf(StepOf({{Collective::kAllReduce,
                                          {"tp"},
                                          Phase::kBackward,
                                          "layer 0-3",
                                          "linear o",
                                          false,
                                          4,
                                          2048}}),
                                 loop.sends, *loop.report, {});
  CHECK(same.empty());
  REQUIRE(same.routes.size() == 1);
  CHECK(same.routes[0].same);
  CHECK(same.routes[0].count == 4);
  CHECK(same.routes[0].bytes == 8192);
  const auto fewer = DifferenceOf(StepOf({{Collective::kAllReduce,
                                           {"tp"},
                                           Phase::kBackward,
                                           "layer 0-2",
                                           "linear o",
                                           false,
                                           3,
                                           2048}}),
                                  loop.sends, *loop.report, {});
  REQUIRE(fewer.extra.size() == 1);
  CHECK(fewer.extra[0].count == 1);
  CHECK(fewer.extra[0].bytes == 2048);
  CHECK(fewer.missing.empty());
}

TEST_CASE("what differs has a reason") {
  const auto program =
      Run("  %r = f32[8,64] all-reduce(%x)" + std::string(kTp) +
          "  ROOT %n = f32[8,64] negate(%r)\n");
  const auto scatter = DifferenceOf(StepOf({{Collective::kReduceScatter,
                                             {"tp"},
                                             Phase::kBackward,
                                             "layer 0",
                                             "d:linear o",
                                             false,
                                             1,
                                             1024}}),
                                    program.sends, *program.report, {});
  REQUIRE(scatter.missing.size() == 1);
  REQUIRE(scatter.extra.size() == 1);
  CHECK(scatter.missing[0].what == "d:linear o of layer 0");
  CHECK(scatter.missing[0].reason.find("all-reduces") != std::string::npos);
  CHECK(scatter.extra[0].reason.find("reduce_scatter") != std::string::npos);
  const auto other = DifferenceOf(StepOf({{Collective::kAllReduce,
                                           {"dp"},
                                           Phase::kBackward,
                                           "layer 0",
                                           "d:linear o",
                                           false,
                                           1,
                                           2048}}),
                                  program.sends, *program.report, {});
  REQUIRE(other.extra.size() == 1);
  CHECK(other.extra[0].reason == "planned over dp");
  CHECK(other.missing[0].reason == "the program does it over tp");
}

TEST_CASE("bytes are compared in the step's dtype, numbers not at all") {
  const auto program =
      Run("  %r = f32[8,64] all-reduce(%x)" + std::string(kTp) +
          "  ROOT %n = f32[8,64] negate(%r)\n");
  PlannedStep step = StepOf({{Collective::kAllReduce,
                              {"tp"},
                              Phase::kBackward,
                              "layer 0",
                              "linear o",
                              false,
                              1,
                              1024},
                             {Collective::kAllReduce,
                              {"dp", "tp"},
                              Phase::kForward,
                              "loss",
                              "sum",
                              true,
                              1,
                              6}});
  step.element_bytes = 2;
  const auto difference =
      DifferenceOf(step, program.sends, *program.report, {});
  CHECK(difference.empty());
  CHECK(difference.other_bits == 32);
  CHECK(difference.numbers == 1);
}

std::string StepText(const std::string& ops) {
  return R"({"schema": "shardc.step/v1", "steps": [{"mode": "train",
    "status": "pass", "mesh": {"axes": [{"name": "dp", "size": 2},
    {"name": "tp", "size": 2}]}, "batch": 8, "length": 16, "element_bytes": 4,
    "keep_gathered": false, "ops": [)" +
         ops + "]}]}";
}

std::optional<PlannedStep> Read(const std::string& text, Findings& findings,
                                std::string_view mode = "train") {
  const auto document =
      JsonDocument::Parse(MakeSource("s.json", text), findings);
  REQUIRE(document);
  return ReadPlannedStep(*document, mode, findings);
}

const std::string kOp =
    R"({"part": "layer 0-3", "layers": 4, "phase": "backward",
     "op": "linear o", "result": "[b,t,d]", "collective": "all_reduce",
     "axes": ["tp", "dp"], "bytes_per_device": 12})";

TEST_CASE("a step is read from its report") {
  Findings findings;
  const auto step = Read(
      StepText(kOp + R"(, {"op": "local", "collective": null})"), findings);
  REQUIRE(step);
  CHECK(step->mesh.devices == 4);
  REQUIRE(step->sends.size() == 1);
  CHECK(step->sends[0].axes == AxisGroup{"dp", "tp"});
  CHECK(step->sends[0].layers == 4);
  CHECK(step->sends[0].phase == Phase::kBackward);
}

TEST_CASE("a step that cannot be read is one finding") {
  const auto edited = [](std::string_view from, std::string_view to) {
    std::string text = StepText(kOp);
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  const std::string texts[] = {"{}",
                               "[]",
                               edited("shardc.step/v1", "shardc.plan/v1"),
                               edited("all_reduce", "all_of_it"),
                               edited("\"tp\", \"dp\"", "\"tp\", \"ep\""),
                               edited("12", "-12"),
                               edited("12", "9223372036854775807"),
                               edited("\"size\": 2", "\"size\": 0"),
                               edited("\"pass\"", "\"unsupported\""),
                               edited("\"batch\": 8, ", ""),
                               edited("\"keep_gathered\": false, ", ""),
                               edited("\"layer 0-3\"", "3")};
  for (const std::string& text : texts) {
    CAPTURE(text);
    Findings findings;
    CHECK(!Read(text, findings));
    CHECK(findings.all().size() == 1);
  }
  Findings findings;
  CHECK(!Read(StepText(kOp), findings, "decode"));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].message.find("decode") != std::string::npos);
}

}  // namespace
}  // namespace shardc::audit
