#include "audit/audit.h"

#include <doctest/doctest.h>

#include <string>

#include "audit/runs.h"
#include "meshes.h"

namespace shardc::audit {
namespace {

// Returns an HLO module: `body` holds the instructions of its entry
// computation, and `before` other computations.
std::string Module(const std::string& body, const std::string& before = "",
                   int devices = 4) {
  return "HloModule jit_f, num_partitions=" + std::to_string(devices) + "\n\n" +
         before + "ENTRY %main (p: f32[8,4]) -> f32[8,4] {\n" + body + "}\n";
}

constexpr const char* kParameter =
    "  %p = f32[8,4]{1,0} parameter(0), metadata={op_name=\"p[\\'w\\']\"}\n";

// An audit's report, and the text that it points into.
struct Audited {
  hlo::Program program;
  std::optional<Report> report;
  Findings findings;
};

Audited Run(std::string text,
            std::vector<MeshAxis> axes = {{"dp", 2}, {"tp", 2}}) {
  Audited out;
  auto program =
      hlo::ReadProgram(MakeSource("p.txt", std::move(text)), out.findings);
  REQUIRE(program);
  out.program = std::move(*program);
  const Mesh mesh = MeshOf(std::move(axes));
  out.report = Audit(out.program, {&mesh, nullptr}, out.findings);
  return out;
}

TEST_CASE("one device of a group sends the formulas' bytes") {
  struct Case {
    const char* text;
    int64_t sent;
  };
  // The parameter p has 128 bytes.
  const Case cases[] = {
      {"f32[16,4] all-gather(%p), replica_groups={{0,1},{2,3}}", 128},
      {"f32[32,4] all-gather(%p), replica_groups=[1,4]<=[4]", 384},
      {"f32[8,4] all-reduce(%p), replica_groups={{0,1},{2,3}}", 128},
      {"f32[8,4] all-reduce(%p), replica_groups={}", 192},
      {"f32[4,4] reduce-scatter(%p), replica_groups={{0,1},{2,3}}", 64},
      {"f32[8,4] all-to-all(%p), replica_groups={}, dimensions={0}", 96},
      {"(f32[8,4], f32[8,4]) all-to-all(%p, %p), "
       "replica_groups={{0,1},{2,3}}",
       128},
      {"f32[8,4] collective-permute(%p), source_target_pairs={{0,1},{1,1}}",
       128},
      {"f32[8,4] collective-permute(%p), source_target_pairs={{0,0}}", 0},
      {"f32[8,4] collective-broadcast(%p), replica_groups={{0,1}}", 64},
      // Only operand 0 is sent. The others are the buffer of the result, the
      // offsets and the sizes.
      {"f32[8,4] ragged-all-to-all(%p, %p, %p, %p, %p, %p), "
       "replica_groups={{0,1},{2,3}}",
       64},
      {"(f32[8,4], f32[16,4]) all-gather-start(%p), "
       "replica_groups={{0,1},{2,3}}",
       128},
      {"(f32[8,4], f32[8,4]) all-reduce-start(%p, %p), "
       "replica_groups={{0,1},{2,3}}",
       256},
      {"(f32[8,4], f32[8,4], u32[], u32[]) collective-permute-start(%p), "
       "source_target_pairs={{0,1}}",
       128},
      {"f32[8,4] all-reduce-done(%p)", 0},
      {"f32[8,4] unheard-of(%p), replica_groups=?", 0},
  };
  for (const Case& one : cases) {
    CAPTURE(one.text);
    const Audited audited = Run(
        Module(kParameter + ("  ROOT %r = " + std::string(one.text)) + "\n"));
    REQUIRE(audited.report);
    CHECK(audited.report->sent == one.sent);
  }
}

TEST_CASE("the bytes of a ragged all-to-all are an upper bound") {
  const auto at_most = [](const std::string& opcode) {
    const Audited audited =
        Run(Module(kParameter + ("  ROOT %r = f32[8,4] " + opcode) +
                   "(%p), replica_groups={{0,1},{2,3}}\n"));
    REQUIRE(audited.report);
    REQUIRE(audited.report->traffic.size() == 1);
    return audited.report->traffic[0].at_most;
  };
  CHECK(at_most("ragged-all-to-all"));
  CHECK(at_most("ragged-all-to-all-start"));
  CHECK_FALSE(at_most("all-to-all"));
}

TEST_CASE("groups and pairs of the same text are read each in its own way") {
  const std::string reduce =
      " = f32[8,4] all-reduce(%p), replica_groups={{0,1},{2,3}}\n";
  const std::string permute =
      " = f32[8,4] collective-permute(%p), "
      "source_target_pairs={{0,1},{2,3}}\n";
  for (const bool reduce_first : {true, false}) {
    CAPTURE(reduce_first);
    const Audited audited =
        Run(Module(kParameter + ("  %a" + (reduce_first ? reduce : permute)) +
                   "  ROOT %b" + (reduce_first ? permute : reduce)));
    REQUIRE(audited.report);
    CHECK(audited.report->sent == 128 + 128);
  }
}

TEST_CASE("groups are named by axes, whatever their form") {
  struct Case {
    const char* groups;
    const char* axes;
  };
  const Case cases[] = {
      {"{{0,1},{2,3}}", "tp"},
      {"{{3,1},{0,2}}", "dp"},
      {"[2,2]<=[2,2]T(1,0)", "dp"},
      {"{}", "dp+tp"},
      {"{{0,3},{1,2}}", "devices 0 3"},
      {"{{0,1}}", "tp"},
      {"mesh['axis_0'=2,'axis_1'=2] {'axis_1'}, use_global_device_ids=true",
       "tp"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.groups);
    const Audited audited =
        Run(Module(kParameter +
                   ("  ROOT %r = f32[8,4] all-reduce(%p), replica_groups=" +
                    std::string(one.groups)) +
                   "\n"));
    REQUIRE(audited.report);
    CHECK(audited.report->traffic[0].members->text == one.axes);
  }
}

constexpr const char* kLoop =
    R"(%body (t: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %t = (s32[], f32[8,4]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %w = f32[8,4] get-tuple-element(%t), index=1
  %g = f32[16,4] all-gather(%w), replica_groups={{0,1},{2,3}}
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  ROOT %out = (s32[], f32[8,4]) tuple(%next, %w)
}

%condition (t: (s32[], f32[8,4])) -> pred[] {
  %t = (s32[], f32[8,4]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %limit = s32[] constant(5)
  ROOT %less = pred[] compare(%i, %limit), direction=LT
}

)";
constexpr const char* kCallsLoop =
    "  %zero = s32[] constant(0)\n"
    "  %init = (s32[], f32[8,4]) tuple(%zero, %p)\n"
    "  %loop = (s32[], f32[8,4]) while(%init), condition=%condition, "
    "body=%body";

TEST_CASE("a loop's collectives count as often as it runs") {
  for (const std::string note :
       {"", ", backend_config={\"known_trip_count\":{\"n\":\"5\"}}",
        ", backend_config=\"{\\\"known_trip_count\\\":{\\\"n\\\":\\\"5\\\"}}"
        "\""}) {
    CAPTURE(note);
    const Audited audited =
        Run(Module(kParameter + std::string(kCallsLoop) + note + "\n", kLoop));
    REQUIRE(audited.report);
    CHECK(audited.report->sent == 5 * 128);
    CHECK(audited.report->calls == 5);
    CHECK(audited.report->unknown_loops.empty());
    const Traffic& one = audited.report->traffic[0];
    CHECK(one.moved.what == What::kParameter);
    CHECK(one.moved.name == "w");
  }
}

TEST_CASE("a loop of an unknown length counts once and is named") {
  std::string loop = kLoop;
  loop.replace(loop.find("constant(5)"), 11, "partition-id()");
  const Audited audited =
      Run(Module(kParameter + std::string(kCallsLoop) + "\n", loop));
  REQUIRE(audited.report);
  CHECK(audited.report->sent == 128);
  REQUIRE(audited.report->unknown_loops.size() == 1);
  CHECK(audited.report->unknown_loops[0].name == "loop");
}

TEST_CASE("how often a loop runs follows from its start, step and limit") {
  const struct {
    std::string from, to;
    int64_t calls;
    bool known = true;
  } cases[] = {
      {"add(%i, %one)", "add(%one, %i)", 5},
      {"constant(1)", "constant(2)", 3},
      {"constant(1)", "constant(4)", 2},
      {"constant(1)", "constant(5)", 1},
      {"constant(5)", "constant(2)", 2},
      {"constant(5)", "constant(0)", 0},
      {"constant(5)", "constant(-3)", 0},
      {"=LT", "=LE", 6},
      {"constant(0)", "constant(3)", 2},
      {"constant(1)", "constant(0)", 1, false},
      {"constant(1)", "constant(-1)", 1, false},
      {"add(%i", "subtract(%i", 1, false},
      {"=LT", "=NE", 1, false},
      {"tuple(%next, %w)", "tuple(%i, %w)", 1, false},
  };
  for (const auto& one : cases) {
    CAPTURE(one.from);
    CAPTURE(one.to);
    std::string text =
        Module(kParameter + std::string(kCallsLoop) + "\n", kLoop);
    text.replace(text.find(one.from), one.from.size(), one.to);
    const Audited audited = Run(text);
    REQUIRE(audited.report);
    CHECK(audited.report->calls == one.calls);
    CHECK(audited.report->unknown_loops.empty() == one.known);
  }
}

TEST_CASE("a computation with several calls has no single operand") {
  // The loop of `inner` starts at a parameter, which two calls give.
  std::string before = kLoop;
  before +=
      "%inner (p: f32[8,4], start: s32[]) -> f32[8,4] {\n"
      "  %p = f32[8,4] parameter(0)\n  %start = s32[] parameter(1)\n";
  before += kCallsLoop;
  before.replace(before.find("constant(0)"), 11, "copy(%start)");
  before += "\n  ROOT %out = f32[8,4] get-tuple-element(%loop), index=1\n}\n\n";
  const std::string once =
      "  %a = s32[] constant(2)\n"
      "  %first = f32[8,4] call(%p, %a), to_apply=%inner\n";
  const std::string twice =
      once +
      "  %b = s32[] constant(4)\n"
      "  %second = f32[8,4] call(%first, %b), to_apply=%inner\n";
  const Audited single = Run(Module(kParameter + once, before));
  REQUIRE(single.report);
  CHECK(single.report->calls == 3);
  CHECK(single.report->unknown_loops.empty());
  const Audited both = Run(Module(kParameter + twice, before));
  REQUIRE(both.report);
  CHECK(both.report->calls == 2);
  CHECK(both.report->unknown_loops.size() == 1);
}

TEST_CASE("a condition that communicates runs once more than the body") {
  std::string loop = kLoop;
  loop.replace(loop.find("  %limit"), 0,
               "  %s = s32[] all-reduce(%i), replica_groups={{0,1},{2,3}}\n");
  const Audited audited =
      Run(Module(kParameter + std::string(kCallsLoop) +
                     ", backend_config={\"known_trip_count\":{\"n\":\"5\"}}\n",
                 loop));
  REQUIRE(audited.report);
  CHECK(audited.report->calls == 5 + 6);
}

TEST_CASE("of a conditional the branch that sends most counts") {
  const std::string branches =
      "%small (q: f32[8,4]) -> f32[8,4] {\n"
      "  ROOT %q = f32[8,4] parameter(0)\n}\n\n"
      "%large (q.1: f32[8,4]) -> f32[8,4] {\n"
      "  %q.1 = f32[8,4] parameter(0)\n"
      "  ROOT %a = f32[8,4] all-reduce(%q.1), replica_groups={{0,1},{2,3}}\n"
      "}\n\n";
  for (const std::string form :
       {"branch_computations={%small, %large}",
        "true_computation=%large, false_computation=%small"}) {
    CAPTURE(form);
    const Audited audited = Run(
        Module(kParameter +
                   ("  %c = f32[8,4] conditional(%i, %p, %p), " + form) + "\n",
               branches));
    REQUIRE(audited.report);
    CHECK(audited.report->sent == 128);
    REQUIRE(audited.report->conditionals.size() == 1);
    CHECK(audited.report->traffic[0].moved.name == "w");
  }
}

TEST_CASE("an asynchronous collective counts once, at its start") {
  const std::string wrapped =
      "%wrapped (q: f32[8,4]) -> f32[4,4] {\n"
      "  %q = f32[8,4] parameter(0)\n"
      "  ROOT %rs = f32[4,4] reduce-scatter(%q), "
      "replica_groups={{0,1},{2,3}}\n}\n\n";
  const Audited audited = Run(Module(
      kParameter +
          std::string(
              "  %s = ((f32[8,4]), f32[4,4]) async-start(%p), calls=%wrapped, "
              "metadata={op_name=\"jit(f)/transpose(jvp(M))/mlp/dot\" "
              "source_file=\"m.py\" source_line=7}\n"
              "  %u = ((f32[8,4]), f32[4,4]) async-update(%s), calls=%wrapped\n"
              "  ROOT %d = f32[4,4] async-done(%u), calls=%wrapped\n"),
      wrapped));
  REQUIRE(audited.report);
  REQUIRE(audited.report->traffic.size() == 1);
  const Traffic& one = audited.report->traffic[0];
  CHECK(one.sent.value() == 64);
  CHECK(one.line.line == 7);
  CHECK(one.phase == Phase::kBackward);
  CHECK(one.scope == "M/mlp");
}

TEST_CASE("a chain of fusions around one gather counts once") {
  const std::string gather =
      "f32[16,4] all-gather(%q), replica_groups={{0,1},{2,3}}, "
      "frontend_attributes={chain_id=\"0\"}\n";
  const std::string fusions =
      "%first (q: f32[8,4]) -> f32[16,4] {\n"
      "  %q = f32[8,4] parameter(0)\n  %g = " +
      gather +
      "  ROOT %c = f32[16,4] custom-call(%g), "
      "custom_call_target=\"AsyncCollectiveStart\"\n}\n\n"
      "%second (q: f32[8,4]) -> f32[16,4] {\n"
      "  %q = f32[8,4] parameter(0)\n  ROOT %g = " +
      gather + "}\n\n";
  const Audited audited =
      Run(Module(kParameter + std::string("  %a = f32[16,4] fusion(%p), "
                                          "kind=kCustom, calls=%first\n"
                                          "  ROOT %b = f32[16,4] fusion(%p), "
                                          "kind=kCustom, calls=%second\n"),
                 fusions));
  REQUIRE(audited.report);
  CHECK(audited.report->sent == 128);
}

TEST_CASE("a fused all-reduce and slice is a reduce_scatter") {
  const std::string fused =
      "%all-reduce-scatter.3 (q: f32[8,4]) -> f32[2,4] {\n"
      "  %q = f32[8,4] parameter(0)\n"
      "  %ar = f32[8,4] all-reduce(%q), replica_groups={{0,1,2,3}}\n"
      "  ROOT %ds = f32[2,4] dynamic-slice(%ar, %o, %z), "
      "dynamic_slice_sizes={2,4}\n}\n\n";
  const Audited audited =
      Run(Module(kParameter + std::string("  ROOT %f = f32[2,4] fusion(%p), "
                                          "kind=kCustom, "
                                          "calls=%all-reduce-scatter.3\n"),
                 fused));
  REQUIRE(audited.report);
  CHECK(audited.report->traffic[0].kind == Collective::kReduceScatter);
  CHECK(audited.report->sent == 96);
}

TEST_CASE("a gradient with the shape of a parameter has no name") {
  const std::string reduce =
      "  %m = f32[8,4] dot(%p, %p)\n"
      "  ROOT %r = f32[8,4] all-reduce(%m), replica_groups={{0,1},{2,3}}, "
      "metadata={op_name=\"jit(f)/transpose(jvp())/dot_general\"}\n";
  const Audited audited = Run(Module(kParameter + reduce));
  REQUIRE(audited.report);
  CHECK(MovedText(audited.report->traffic[0].moved) == "gradient");
}

TEST_CASE("phases and scopes come from the operation's name") {
  CHECK(PhaseOf("jit(f)/jvp()/while/body/mul") == Phase::kForward);
  CHECK(PhaseOf("jit(f)/transpose(jvp())/mul") == Phase::kBackward);
  CHECK(PhaseOf("jit(f)/transpose(jvp())/rematted_computation/mul") ==
        Phase::kRecomputed);
  CHECK(PhaseOf("jit(f)/mul") == Phase::kNone);
  CHECK(ScopeOf("jit(f)/transpose(jvp(layer/x))/while/body/closed_call/attn/"
                "dot_general") == "layer/x/attn");
  CHECK(ScopeOf("dot") == "");
  CHECK(ScopeOf("((((") == "");
}

TEST_CASE("rows add up by one property, the most bytes first") {
  const std::string body =
      "  %a = f32[8,4] all-reduce(%p), replica_groups={{0,1},{2,3}}\n"
      "  %b = f32[8,4] all-reduce(%a), replica_groups={}\n"
      "  ROOT %c = f32[16,4] all-gather(%b), replica_groups={{0,2},{1,3}}\n";
  const Audited audited = Run(Module(kParameter + body));
  REQUIRE(audited.report);
  const auto kinds = Tabulate(*audited.report, By::kKind);
  REQUIRE(kinds.size() == 2);
  CHECK(kinds[0].key == "all_reduce");
  CHECK(kinds[0].sent == 128 + 192);
  CHECK(kinds[0].times == 2);
  CHECK(Tabulate(*audited.report, By::kAxes).size() == 3);
  CHECK(Tabulate(*audited.report, By::kAll).size() == 3);
  CHECK(ParseBy("line") == By::kLine);
  CHECK_FALSE(ParseBy("colour"));
}

TEST_CASE("a partitioned program may keep the sharding of a parameter's copy") {
  const Audited audited =
      Run(Module(kParameter + std::string("  ROOT %r = f32[8,4] copy(%p), "
                                          "sharding={devices=[2,2]<=[4]}\n")));
  REQUIRE(audited.report);
  CHECK(audited.report->sent == 0);
}

TEST_CASE("a program that cannot be counted has one finding with a place") {
  const std::string cycle =
      "%f (q: f32[8,4]) -> f32[8,4] {\n"
      "  ROOT %q = f32[8,4] fusion(%q), calls=%f\n}\n\n";
  std::string nested;  // 2^63 runs
  for (int i = 0; i < 70; ++i) {
    const std::string inner = "%n" + std::to_string(i);
    nested += inner + " (q: f32[8,4]) -> f32[8,4] {\n" +
              "  %q = f32[8,4] parameter(0)\n" +
              (i == 0 ? "  %r = f32[8,4] all-reduce(%q), replica_groups={}\n"
                      : "  %r = f32[8,4] call(%q), to_apply=%n" +
                            std::to_string(i - 1) +
                            "\n  %s = f32[8,4] call(%q), to_apply=%n" +
                            std::to_string(i - 1) + "\n") +
              "}\n\n";
  }
  const std::string texts[] = {
      Module("  ROOT %f = f32[8,4] fusion(%p), calls=%f\n", cycle),
      Module("  ROOT %f = f32[8,4] fusion(%p), calls=%gone\n"),
      Module("  ROOT %r = f32[8,4] all-reduce(%gone), replica_groups={}\n"),
      Module(kParameter + std::string("  ROOT %r = f32[8,4] all-reduce(%p), "
                                      "replica_groups={{0,9}}\n")),
      Module(kParameter + std::string("  ROOT %r = f32[8,4] call(%p), "
                                      "to_apply=%n69\n"),
             nested),
      Module(kParameter, "", 8),  // the mesh has 4 devices
      // Programs that are not partitioned yet.
      Module(kParameter + std::string("  ROOT %r = f32[8,4] negate(%p), "
                                      "sharding={devices=[2,2]<=[4]}\n")),
      Module(kParameter + std::string("  ROOT %r = f32[8,4] custom-call(%p), "
                                      "custom_call_target=\"Sharding\", "
                                      "sharding={replicated}\n")),
  };
  for (const std::string& text : texts) {
    CAPTURE(text);
    const Audited audited = Run(text);
    CHECK_FALSE(audited.report);
    REQUIRE(audited.findings.all().size() == 1);
    CHECK(audited.findings.all()[0].place.source != nullptr);
    CHECK_FALSE(audited.findings.all()[0].help.empty());
    if (text.find("sharding=") != std::string::npos) {
      CHECK(audited.findings.all()[0].message ==
            "`r` has a sharding: no compiler has partitioned this program "
            "yet");
    }
  }
}

}  // namespace
}  // namespace shardc::audit
