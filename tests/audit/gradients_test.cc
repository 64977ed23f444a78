#include "audit/gradients.h"

#include <doctest/doctest.h>

#include <string>

#include "audit/audit.h"
#include "meshes.h"

namespace shardc::audit {
namespace {

constexpr const char* kAdd =
    "%add (a: f32[], b: f32[]) -> f32[] {\n"
    "  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
    "  ROOT %r = f32[] add(%a, %b)\n}\n\n";

std::string Argument(const std::string& name, int number,
                     const std::string& path,
                     const std::string& type = "f32[8,8]{1,0}") {
  return "  %" + name + " = " + type + " parameter(" + std::to_string(number) +
         "), metadata={op_name=\"" + path + "\"}\n";
}

// Returns an instruction of the forward or of the backward pass. The source
// line is that of another operation: compilers merge and move operations.
std::string Made(const std::string& name, const std::string& value,
                 bool backward, int line = 7,
                 const std::string& type = "f32[8,8]{1,0}") {
  return "  %" + name + " = " + type + " " + value +
         ", metadata={op_name=\"jit(step)/" +
         (backward ? "transpose(jvp())" : "jvp()") +
         "/dot_general\" source_file=\"m.py\" source_line=" +
         std::to_string(line) + "}\n";
}

std::string Sum(const std::string& name, const std::string& of, int line = 7) {
  return Made(
      name,
      "all-reduce(%" + of + "), replica_groups={{0,1},{2,3}}, to_apply=%add",
      true, line);
}

// Returns what the collectives of a program move, joined by commas.
std::string Moves(const std::string& entry, const std::string& before = "") {
  Findings findings;
  const auto program = hlo::ReadProgram(
      MakeSource("p.txt", "HloModule jit_step, num_partitions=4\n\n" +
                              std::string(kAdd) + before + "ENTRY %main {\n" +
                              entry + "}\n"),
      findings);
  REQUIRE(program);
  const Mesh mesh = MeshOf({{"dp", 2}, {"tp", 2}});
  const auto report = Audit(*program, {&mesh, nullptr}, findings);
  REQUIRE(report);
  std::string out;
  for (const Traffic& one : report->traffic) {
    out += (out.empty() ? "" : ", ") + MovedText(one.moved);
  }
  return out;
}

const std::string kWeights =
    Argument("x", 0, "x") + Argument("up", 1, "s.params['up']") +
    Argument("down", 2, "s.params['down']") + Argument("mu", 3, "s.mu['up']") +
    Argument("md", 4, "s.mu['down']");

TEST_CASE("a sum is the gradient of the parameter that it updates") {
  const std::string model =
      Made("h", "dot(%x, %up)", false) + Made("y", "dot(%h, %down)", false) +
      Made("a", "add(%y, %y)", true) + Made("b", "add(%h, %h)", true);
  // The sums have each the line of the other parameter.
  const std::string sums = Made("ga", "dot(%b, %a)", true, 9) +
                           Made("gb", "dot(%a, %a)", true, 3) +
                           Sum("sa", "ga", 9) + Sum("sb", "gb", 3);
  const std::string momentum =
      "  %new.mu = f32[8,8]{1,0} add(%mu, %sb)\n"
      "  %new.md = f32[8,8]{1,0} add(%md, %sa)\n"
      "  %new.up = f32[8,8]{1,0} subtract(%up, %new.mu)\n"
      "  %new.down = f32[8,8]{1,0} subtract(%down, %new.md)\n"
      "  ROOT %all = (f32[8,8]{1,0}, f32[8,8]{1,0}, f32[8,8]{1,0}, "
      "f32[8,8]{1,0}) tuple(%new.up, %new.down, %new.mu, %new.md)\n";
  CHECK(Moves(kWeights + model + sums + momentum) ==
        "gradient of params/down, gradient of params/up");
  // Without the updates, the shapes show a gradient, but not of what.
  CHECK(Moves(kWeights + model + sums +
              "  ROOT %all = (f32[8,8]{1,0}, f32[8,8]{1,0}) "
              "tuple(%sa, %sb)\n") == "gradient, gradient");
}

TEST_CASE("a sum that updates two parameters has no name") {
  const std::string model = Made("h", "dot(%x, %up)", false) +
                            Made("y", "dot(%h, %down)", false) +
                            Made("g", "dot(%y, %y)", true) + Sum("s", "g");
  CHECK(Moves(kWeights + model +
              "  %new.up = f32[8,8]{1,0} subtract(%up, %s)\n"
              "  %new.down = f32[8,8]{1,0} subtract(%down, %s)\n"
              "  ROOT %all = (f32[8,8]{1,0}, f32[8,8]{1,0}) "
              "tuple(%new.up, %new.down)\n") == "gradient");
}

TEST_CASE("updates are found through loops, fusions and shared functions") {
  // A loop stacks the gradients of layers, and one function makes the updates
  // of both parameters.
  const std::string before =
      "%fused (a.0: f32[8,8], b.0: f32[8,8]) -> f32[8,8] {\n"
      "  %a.0 = f32[8,8]{1,0} parameter(0)\n"
      "  %b.0 = f32[8,8]{1,0} parameter(1)\n"
      "  ROOT %n.0 = f32[8,8]{1,0} subtract(%a.0, %b.0)\n}\n\n"
      "%body (s.1: (s32[], f32[8,8], f32[8,8])) -> (s32[], f32[8,8], "
      "f32[8,8]) {\n"
      "  %s.1 = (s32[], f32[8,8]{1,0}, f32[8,8]{1,0}) parameter(0)\n"
      "  %i.1 = s32[] get-tuple-element(%s.1), index=0\n"
      "  %stack.1 = f32[8,8]{1,0} get-tuple-element(%s.1), index=1\n"
      "  %other.1 = f32[8,8]{1,0} get-tuple-element(%s.1), index=2\n" +
      Made("d.1", "dot(%other.1, %other.1)", true) + Sum("r.1", "d.1") +
      "  %z.1 = s32[] constant(0)\n"
      "  %new.1 = f32[8,8]{1,0} dynamic-update-slice(%stack.1, %r.1, %i.1, "
      "%z.1)\n"
      "  ROOT %t.1 = (s32[], f32[8,8]{1,0}, f32[8,8]{1,0}) tuple(%i.1, %new.1, "
      "%other.1)\n}\n\n"
      "%cond (s.2: (s32[], f32[8,8], f32[8,8])) -> pred[] {\n"
      "  %s.2 = (s32[], f32[8,8]{1,0}, f32[8,8]{1,0}) parameter(0)\n"
      "  ROOT %c.2 = pred[] constant(true)\n}\n\n";
  const std::string entry =
      Made("h", "dot(%x, %up)", false) + Made("y", "dot(%h, %down)", false) +
      "  %zero = f32[] constant(0)\n  %i = s32[] constant(0)\n"
      "  %zeros = f32[8,8]{1,0} broadcast(%zero), dimensions={}\n"
      "  %start = (s32[], f32[8,8]{1,0}, f32[8,8]{1,0}) tuple(%i, %zeros, %y)\n"
      "  %loop = (s32[], f32[8,8]{1,0}, f32[8,8]{1,0}) while(%start), "
      "condition=%cond, body=%body\n"
      "  %g = f32[8,8]{1,0} get-tuple-element(%loop), index=1\n" +
      Made("q", "dot(%y, %h)", true) + Sum("s", "q") +
      "  %new.up = f32[8,8]{1,0} call(%up, %g), to_apply=%fused\n"
      "  %new.down = f32[8,8]{1,0} call(%down, %s), to_apply=%fused\n"
      "  ROOT %all = (f32[8,8]{1,0}, f32[8,8]{1,0}) tuple(%new.up, "
      "%new.down)\n";
  CHECK(Moves(kWeights + entry, before) ==
        "gradient of params/up, gradient of params/down");
}

// `q` and `k` have the same input, and their results are added, so that their
// gradients have the same other factor.
const std::string kQueries =
    Argument("x", 0, "batch['x']") + Argument("q", 1, "p['q']") +
    Argument("k", 2, "p['k']") + Argument("o", 3, "p['o']") +
    "  %n = f32[8,8]{1,0} negate(%x)\n" + Made("a", "dot(%n, %q)", false) +
    Made("b", "dot(%n, %k)", false) +
    "  %m = f32[8,8]{1,0} multiply(%a, %b)\n" +
    Made("y", "dot(%m, %o)", false) + "  %dy = f32[8,8]{1,0} sine(%y)\n" +
    Made("dm", "dot(%dy, %o)", true) +
    "  %da = f32[8,8]{1,0} multiply(%dm, %b)\n"
    "  %db = f32[8,8]{1,0} multiply(%dm, %a)\n";

std::string Returned(const std::string& name) {
  return "  ROOT %out = (f32[8,8]{1,0}) tuple(%" + name + ")\n";
}

TEST_CASE("a gradient that is returned has the factors of its parameter") {
  const std::string inputs =
      Made("dx", "dot(%da, %q)", true) + Made("dz", "dot(%db, %k)", true);
  const auto moves = [&](const std::string& product) {
    return Moves(kQueries + inputs + Made("g", product, true) + Sum("s", "g") +
                 Returned("s"));
  };
  CHECK(moves("dot(%n, %da)") == "gradient of q");
  CHECK(moves("dot(%db, %n)") == "gradient of k");
  CHECK(moves("dot(%m, %dy)") == "gradient of o");
  // Only the second factor is that of a parameter, and it is one.
  CHECK(moves("dot(%dx, %dy)") == "gradient of o");
  // The factors are those of different parameters, or of none.
  CHECK(moves("dot(%n, %dy)") == "gradient");
  CHECK(moves("dot(%dx, %dz)") == "gradient");
  // The product of a parameter is the gradient of an activation.
  CHECK(moves("dot(%dy, %o)") == "gradient");
}

TEST_CASE("the forward product alone does not show the parameter") {
  CHECK(Moves(kQueries + Made("g", "dot(%n, %da)", true) + Sum("s", "g") +
              Returned("s")) == "gradient");
}

TEST_CASE("a weight that a loop stacks is the weight") {
  const std::string before =
      "%body (s.1: (s32[], f32[4,8,8], f32[4,8,8])) -> (s32[], f32[4,8,8], "
      "f32[4,8,8]) {\n"
      "  %s.1 = (s32[], f32[4,8,8]{2,1,0}, f32[4,8,8]{2,1,0}) parameter(0)\n"
      "  %i.1 = s32[] get-tuple-element(%s.1), index=0\n"
      "  %stack.1 = f32[4,8,8]{2,1,0} get-tuple-element(%s.1), index=1\n"
      "  %w.1 = f32[4,8,8]{2,1,0} get-tuple-element(%s.1), index=2\n"
      "  %z.1 = s32[] constant(0)\n"
      "  %d.1 = f32[1,8,8]{2,1,0} dynamic-slice(%w.1, %i.1, %z.1, %z.1), "
      "dynamic_slice_sizes={1,8,8}\n"
      "  %new.1 = f32[4,8,8]{2,1,0} dynamic-update-slice(%stack.1, %d.1, "
      "%i.1, %z.1, %z.1)\n"
      "  ROOT %t.1 = (s32[], f32[4,8,8]{2,1,0}, f32[4,8,8]{2,1,0}) "
      "tuple(%i.1, %new.1, %w.1)\n}\n\n"
      "%cond (s.2: (s32[], f32[4,8,8], f32[4,8,8])) -> pred[] {\n"
      "  %s.2 = (s32[], f32[4,8,8]{2,1,0}, f32[4,8,8]{2,1,0}) parameter(0)\n"
      "  ROOT %c.2 = pred[] constant(true)\n}\n\n";
  const auto entry = [](const std::string& first) {
    return Argument("w", 0, "p['w']", "f32[4,8,8]{2,1,0}") +
           Argument("v", 1, "p['v']", "f32[4,8,8]{2,1,0}") +
           "  %zero = f32[] constant(0)\n  %i = s32[] constant(0)\n"
           "  %zeros = f32[4,8,8]{2,1,0} broadcast(%zero), dimensions={}\n"
           "  %start = (s32[], f32[4,8,8]{2,1,0}, f32[4,8,8]{2,1,0}) "
           "tuple(%i, %" +
           first +
           ", %w)\n"
           "  %loop = (s32[], f32[4,8,8]{2,1,0}, f32[4,8,8]{2,1,0}) "
           "while(%start), condition=%cond, body=%body\n"
           "  %g = f32[4,8,8]{2,1,0} get-tuple-element(%loop), index=1\n"
           "  ROOT %r = f32[4,16,8]{2,1,0} all-gather(%g), "
           "replica_groups={{0,1},{2,3}}, dimensions={1}\n";
  };
  CHECK(Moves(entry("zeros"), before) == "w");
  // Another weight may remain in parts that the loop does not write.
  CHECK(Moves(entry("v"), before) == "parameter");
}

}  // namespace
}  // namespace shardc::audit
