// Which shardings a program's ops have, and which collectives reduce their
// partial sums.
#include "program/sharding.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "meshes.h"
#include "program/programs.h"

namespace shardc::program {
namespace {

Mesh TwoByFour() { return MeshOf({{"fsdp", 2}, {"tp", 4}}); }

std::string Text(const Spec& spec) {
  std::string out;
  for (const AxisGroup& axes : spec) {
    std::string dim;
    for (const std::string& axis : axes) dim += (dim.empty() ? "" : "+") + axis;
    out += (out.empty() ? "" : " ") + (dim.empty() ? "-" : dim);
  }
  return "[" + out + "]";
}

// The sharding of a value, and the reductions of the op that computes it:
// "[fsdp -] scatter 0 fsdp, reduce tp".
std::string ShardingOf(const Program& program, const std::vector<Spec>& inputs,
                       ValueId value) {
  const Sharding made = ShardProgram(program, TwoByFour(), inputs);
  std::string out = Text(made.specs[value]);
  const auto partial = made.partial.find(value);
  if (partial != made.partial.end()) {
    out += " partial " + Text({partial->second});
  }
  for (const Op& op : program.ops) {
    if (op.out[0] != value) continue;
    const OpSharding& chosen = made.ops.at(&op);
    for (const auto& [dim, axes] : chosen.scattered) {
      out += " scatter " + std::to_string(dim) + " " + Text({axes});
    }
    for (const auto& [axes, use] : chosen.reductions) {
      out += " reduce " + Text({axes});
    }
  }
  return out;
}

constexpr std::string_view kGradient =
    R"("lhs_contract":[0],"rhs_contract":[0],"lhs_batch":[],"rhs_batch":[])";
constexpr std::string_view kSquare =
    R"("lhs_contract":[1],"rhs_contract":[0],"lhs_batch":[],"rhs_batch":[])";

// A gradient of a parameter, [8, 16] = x^T [8, 4] e [4, 16], and a step of
// descent. x and e are sharded over fsdp in the batch.
struct Descent {
  ProgramText text;
  ValueId w = text.Input("param", "w", {8, 16});
  ValueId x = text.Input("data", "x", {4, 8});
  ValueId e = text.Input("data", "e", {4, 16});
  ValueId g = text.Op("dot", {x, e}, {8, 16}, kGradient);
  ValueId scaled = text.Op("map", {g}, {8, 16}, R"("fn":"neg")");
  ValueId next = text.Op("map", {w, scaled}, {8, 16}, R"("fn":"add")");

  std::string Of(ValueId value, const Spec& of_w, std::vector<ValueId> out) {
    Program program = text.Read();
    program.outputs = std::move(out);
    return ShardingOf(program, {of_w, {{"fsdp"}, {}}, {{"fsdp"}, {}}}, value);
  }
};

TEST_CASE("a gradient is reduce-scattered to its parameter's sharding") {
  Descent descent;
  CHECK(descent.Of(descent.g, {{"fsdp"}, {}}, {descent.next}) ==
        "[fsdp -] scatter 0 [fsdp]");
  CHECK(descent.Of(descent.scaled, {{"fsdp"}, {}}, {descent.next}) ==
        "[fsdp -]");
  CHECK(descent.Of(descent.g, {{}, {"tp", "fsdp"}}, {descent.next}) ==
        "[- tp+fsdp] scatter 1 [fsdp]");
}

TEST_CASE("a partial sum that an op needs entirely is all-reduced") {
  Descent descent;
  CHECK(descent.Of(descent.g, {{}, {}}, {descent.next}) ==
        "[- -] reduce [fsdp]");
  // A result of the program, too, is needed entirely.
  CHECK(descent.Of(descent.g, {{"fsdp"}, {}}, {descent.next, descent.g}) ==
        "[- -] reduce [fsdp]");
}

TEST_CASE("the norm of a gradient does not keep it from being scattered") {
  Descent descent;
  const ValueId square =
      descent.text.Op("map", {descent.g}, {8, 16}, R"("fn":"square")");
  const ValueId norm =
      descent.text.Op("reduce", {square}, {}, R"("fn":"sum","axes":[0,1])");
  const std::vector<ValueId> out = {descent.next, norm};
  CHECK(descent.Of(descent.g, {{"fsdp"}, {}}, out) ==
        "[fsdp -] scatter 0 [fsdp]");
  CHECK(descent.Of(norm, {{"fsdp"}, {}}, out) == "[] reduce [fsdp]");
}

TEST_CASE("partial sums that are only added are reduced once") {
  ProgramText text;
  const ValueId w = text.Input("param", "w", {16, 8});
  const ValueId a = text.Input("data", "a", {4, 16});
  const ValueId b = text.Input("data", "b", {4, 16});
  const ValueId p = text.Op("dot", {a, w}, {4, 8}, kSquare);
  const ValueId q = text.Op("dot", {b, w}, {4, 8}, kSquare);
  const ValueId sum = text.Op("map", {p, q}, {4, 8}, R"("fn":"add")");
  const std::vector<Spec> specs = {
      {{"tp"}, {}}, {{"fsdp"}, {"tp"}}, {{"fsdp"}, {"tp"}}};
  Program program = text.Read();
  program.outputs = {sum};
  CHECK(ShardingOf(program, specs, p) == "[fsdp -] partial [tp]");
  CHECK(ShardingOf(program, specs, sum) == "[fsdp -] reduce [tp]");
  // One of them is a result of its own.
  program.outputs = {sum, q};
  CHECK(ShardingOf(program, specs, p) == "[fsdp -] reduce [tp]");
  CHECK(ShardingOf(program, specs, sum) == "[fsdp -]");
}

TEST_CASE("a weight keeps its axis if all activations are smaller") {
  // Both x and w are sharded over fsdp. A weight of 8 x 64 elements is larger
  // than 2 x 8 and 2 x 64 elements, and smaller than 16 x 8 and 16 x 64.
  for (const int64_t tokens : {2, 16}) {
    for (const bool trains : {false, true}) {
      ProgramText text;
      const ValueId w = text.Input("param", "w", {8, 64});
      const ValueId x = text.Input("data", "x", {tokens, 8});
      const ValueId y = text.Op("dot", {x, w}, {tokens, 64}, kSquare);
      if (trains) {
        text.SetPhase("backward");
        text.Op("dot", {x, y}, {8, 64}, kGradient);
      }
      const bool keeps = tokens == 2 && !trains;
      CHECK(ShardingOf(text.Read(), {{{"fsdp"}, {}}, {{"fsdp"}, {}}}, y) ==
            (keeps ? "[- -] reduce [fsdp]" : "[fsdp -]"));
    }
  }
}

TEST_CASE("a constraint gives its operand the spec that the user wrote") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {4, 16});
  const auto constrained = [&](std::string_view spec) {
    return text.Op("constraint", {x}, {4, 16}, "\"spec\":" + std::string(spec));
  };
  const ValueId all = constrained(R"([["tp"],["fsdp"]])");
  const ValueId short_one = constrained(R"([["tp"]])");
  const ValueId open = constrained(R"([["tp"],null])");
  const ValueId taken = constrained(R"([null,["fsdp"]])");
  const ValueId uneven = constrained(R"([["fsdp","tp"],[]])");
  const ValueId other = constrained(R"([["rows"],[]])");
  const ValueId unknown = constrained("null");
  const Program program = text.Read();
  const auto of = [&](ValueId value) {
    return ShardingOf(program, {{{"fsdp"}, {"tp"}}}, value);
  };
  CHECK(of(all) == "[tp fsdp]");
  CHECK(of(short_one) == "[tp -]");
  CHECK(of(open) == "[tp -]");
  CHECK(of(taken) == "[- fsdp]");
  CHECK(of(uneven) == "[fsdp -]");
  CHECK(of(other) == "[fsdp tp]");
  CHECK(of(unknown) == "[fsdp tp]");
  for (const Op& op : program.ops) {
    CHECK(FollowsConstraint(op, TwoByFour()) == (op.out[0] != other));
  }
}

TEST_CASE("where operands disagree, the sharding that readers need is kept") {
  // x [4, 16:tp, 8] w [8, 32:tp]: tp can shard the length or the columns.
  ProgramText text;
  const ValueId w = text.Input("param", "w", {8, 32});
  const ValueId x = text.Input("data", "x", {4, 16, 8});
  const ValueId y = text.MatMul(x, w);
  const ValueId z =
      text.Op("constraint", {y}, {4, 16, 32}, R"("spec":[[],[],["tp"]])");
  Program program = text.Read();
  const std::vector<Spec> specs = {{{}, {"tp"}}, {{}, {"tp"}, {}}};
  program.outputs = {z};
  CHECK(ShardingOf(program, specs, y) == "[- - tp]");
  program.outputs = {y};
  program.ops.pop_back();
  CHECK(ShardingOf(program, specs, y) == "[- tp -]");
}

TEST_CASE("PyTorch reshards a value for each op that needs it") {
  Program program;
  program.traced_by = "jax 0.10.2";
  CHECK(SharesReshards(program));
  program.traced_by = "torch 2.15.0";
  CHECK(!SharesReshards(program));
}

}  // namespace
}  // namespace shardc::program
