// The factors that each op class gives its results. Expected texts follow from
// the definition of the op, written by hand.
#include "program/ties.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "program/programs.h"

namespace shardc::program {
namespace {

struct OpCase {
  const char* op;
  std::vector<Shape> in;
  std::vector<Shape> out;
  const char* rest;
  // The operands, and then the results.
  const char* dims;
};

TEST_CASE("an op ties dimensions of its operands and results") {
  const OpCase cases[] = {
      {"map",
       {{4, 6}, {4, 6}},
       {{4, 6}},
       R"("fn":"add")",
       "[a4] [b6]; [a4] [b6]; [a4] [b6]"},
      {"map",
       {{4, 6}, {1, 6}, {}},
       {{4, 6}},
       R"("fn":"select")",
       "[a4] [b6]; [] [b6]; ; [a4] [b6]"},
      {"broadcast",
       {{6, 1}},
       {{4, 6, 5}},
       R"("dims":[1,2])",
       "[a6] []; [b4] [a6] [c5]"},
      {"reduce",
       {{4, 6, 5}},
       {{4, 5}},
       R"("fn":"sum","axes":[1])",
       "[a4] [b6] [c5]; [a4] [c5]"},
      {"reshape",
       {{4, 512}},
       {{4, 8, 64}},
       "",
       "[a4] [b8 c64]; [a4] [b8] [c64]"},
      {"reshape", {{4, 1, 6}}, {{24, 1}}, "", "[a4] [] [b6]; [a4 b6] []"},
      // Neither 2 x 3 nor 3 x 2 can be refined to factors that both shapes
      // have, so that no dimension of the operand is tied to one of the result.
      {"reshape", {{2, 3}}, {{3, 2}}, "", "[a2] [b3]; [c3] [d2]"},
      {"reshape", {{0, 3}}, {{3, 0}}, "", "[] [a3]; [b3] []"},
      {"transpose",
       {{2, 3}},
       {{3, 2}},
       R"("perm":[1,0])",
       "[a2] [b3]; [b3] [a2]"},
      {"slice",
       {{4, 9}},
       {{4, 3}},
       R"("start":[0,6],"limit":[4,9])",
       "[a4] [(b6|c3)]; [a4] [c3]"},
      {"slice",
       {{8}},
       {{4}},
       R"("start":[1],"limit":[8],"stride":[2])",
       "[a4 b2]; [a4]"},
      {"slice",
       {{8}},
       {{3}},
       R"("start":[1],"limit":[8],"stride":[3])",
       "[a8]; [b3]"},
      {"concat",
       {{4, 2}, {4, 3}},
       {{4, 5}},
       R"("dim":1)",
       "[a4] [b2]; [a4] [c3]; [a4] [(b2|c3)]"},
      {"concat",
       {{4, 1}, {4, 0}, {4, 1}},
       {{4, 2}},
       R"("dim":1)",
       "[a4] []; [b4] []; [a4] []; [a4] [(1|1)]"},
      {"pad",
       {{4, 5}, {}},
       {{4, 8}},
       R"("low":[0,1],"high":[0,2],"interior":[0,0])",
       "[a4] [b5]; ; [a4] [(1|b5|c2)]"},
      {"pad",
       {{5}, {}},
       {{3}},
       R"("low":[-1],"high":[-1],"interior":[0])",
       "[a5]; ; [b3]"},
      {"rev", {{4, 5}}, {{4, 5}}, R"("dims":[1])", "[a4] [b5]; [a4] [c5]"},
      {"dot",
       {{2, 4, 6}, {2, 6, 5}},
       {{2, 4, 5}},
       R"("lhs_contract":[2],"rhs_contract":[1],"lhs_batch":[0],)"
       R"("rhs_batch":[0])",
       "[a2] [b4] [c6]; [a2] [c6] [d5]; [a2] [b4] [d5]"},
      {"ragged_dot",
       {{7, 6}, {3, 6, 5}, {3}},
       {{7, 5}},
       R"("lhs_contract":[1],"rhs_contract":[1],"lhs_batch":[],)"
       R"("rhs_batch":[],"lhs_ragged":[0],"rhs_group":[0])",
       "[a7] [b6]; [c3] [b6] [d5]; [c3]; [a7] [d5]"},
      // The ragged dimension is contracted, as for the gradient of a weight.
      {"ragged_dot",
       {{7, 6}, {7, 5}, {3}},
       {{3, 6, 5}},
       R"("lhs_contract":[0],"rhs_contract":[0],"lhs_batch":[],)"
       R"("rhs_batch":[],"lhs_ragged":[0],"rhs_group":[])",
       "[a7] [b6]; [a7] [c5]; [d3]; [d3] [b6] [c5]"},
      // Patches: windows that do not overlap.
      {"conv",
       {{2, 3, 8}, {5, 3, 4}},
       {{2, 5, 2}},
       R"("lhs":[0,1,2],"rhs":[0,1,2],"result":[0,1,2],"strides":[4],)"
       R"("padding":[[0,0]],"groups":1)",
       "[a2] [b3] [c2 d4]; [e5] [b3] [d4]; [a2] [e5] [c2]"},
      // Depthwise, with two outputs for each feature.
      {"conv",
       {{2, 3, 8}, {6, 1, 4}},
       {{2, 6, 5}},
       R"("lhs":[0,1,2],"rhs":[0,1,2],"result":[0,1,2],"strides":[1],)"
       R"("padding":[[0,0]],"groups":3)",
       "[a2] [b3] [c8]; [b3 d2] [] [e4]; [a2] [b3 d2] [f5]"},
      {"cumulative",
       {{4, 5}},
       {{4, 5}},
       R"("fn":"sum","dim":1)",
       "[a4] [b5]; [a4] [b5]"},
      {"sort",
       {{4, 5}, {4, 5}},
       {{4, 5}, {4, 5}},
       R"("dim":1,"keys":1)",
       "[a4] [b5]; [a4] [b5]; [a4] [b5]; [a4] [b5]"},
      {"top_k",
       {{4, 5}},
       {{4, 2}, {4, 2}},
       R"("dim":1,"k":2)",
       "[a4] [b5]; [a4] [c2]; [a4] [c2]"},
      // Rows of a table.
      {"gather",
       {{9, 6}, {4, 3, 1}},
       {{4, 3, 6}},
       R"("offset_dims":[2],"collapsed_dims":[0],"operand_batch_dims":[],)"
       R"("indices_batch_dims":[],"start_index_map":[0],"slice_sizes":[1,6],)"
       R"("mode":"clip")",
       "[a9] [b6]; [c4] [d3] []; [c4] [d3] [b6]"},
      // Of each row one element.
      {"gather",
       {{4, 9}, {4, 3, 1}},
       {{4, 3}},
       R"("offset_dims":[],"collapsed_dims":[1],"operand_batch_dims":[0],)"
       R"("indices_batch_dims":[0],"start_index_map":[1],)"
       R"("slice_sizes":[1,1],"mode":"clip")",
       "[a4] [b9]; [a4] [c3] []; [a4] [c3]"},
      {"scatter",
       {{9, 6}, {4, 1}, {4, 6}},
       {{9, 6}},
       R"("fn":"add","update_window_dims":[1],"inserted_window_dims":[0],)"
       R"("operand_batch_dims":[],"indices_batch_dims":[],"operand_dims":[0],)"
       R"("mode":"clip")",
       "[a9] [b6]; [c4] []; [c4] [b6]; [a9] [b6]"},
      {"dynamic_slice",
       {{4, 9}, {}, {}},
       {{4, 1}},
       R"("sizes":[4,1])",
       "[a4] [b9]; ; ; [a4] []"},
      {"dynamic_update_slice",
       {{4, 9}, {4, 2}, {}, {}},
       {{4, 9}},
       "",
       "[a4] [b9]; [a4] [c2]; ; ; [a4] [b9]"},
      {"solve",
       {{2, 5, 5}, {2, 5, 3}},
       {{2, 5, 3}},
       R"("left_side":true,"lower":true,"transpose":false,)"
       R"("unit_diagonal":false)",
       "[a2] [b5] [b5]; [a2] [b5] [c3]; [a2] [b5] [c3]"},
      {"constraint",
       {{4, 5}},
       {{4, 5}},
       R"("spec":null)",
       "[a4] [b5]; [a4] [b5]"},
      {"collective",
       {{4, 5}},
       {{8, 5}},
       R"("kind":"all_gather","axes":["tp"],"dim":0,"tiled":true)",
       "[a4] [b5]; [c8] [b5]"},
      {"opaque",
       {{4, 5}},
       {{4, 5}},
       R"("primitive":"fft","reason":"")",
       "[a4] [b5]; [c4] [d5]"},
  };
  for (const OpCase& one : cases) {
    CAPTURE(one.op);
    CAPTURE(one.rest);
    ProgramText text;
    std::vector<ValueId> values;
    for (const Shape& shape : one.in) {
      values.push_back(text.Input("data", "x", shape));
    }
    const ValueId first = text.Ops(one.op, values, one.out, one.rest);
    for (size_t i = 0; i < one.out.size(); ++i) {
      values.push_back(first + static_cast<ValueId>(i));
    }
    const Program program = text.Read();
    CHECK(DimsText(TieDimensions(program), values) == one.dims);
  }
}

ValueId SliceOf(ProgramText& text, ValueId from, int64_t start, int64_t limit) {
  return text.Op("slice", {from}, {limit - start},
                 R"("start":[)" + std::to_string(start) + R"(],"limit":[)" +
                     std::to_string(limit) + "]");
}

TEST_CASE("all slices of a value divide its dimension together") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {12});
  const ValueId q = SliceOf(text, x, 0, 4);
  const ValueId kv = SliceOf(text, x, 4, 12);
  const ValueId v = SliceOf(text, x, 8, 12);
  const Program program = text.Read();
  CHECK(DimsText(TieDimensions(program), {x, q, kv, v}) ==
        "[(a4|b4|c4)]; [a4]; [(b4|c4)]; [c4]");
}

TEST_CASE("equal parts are no product until a reshape separates them") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {12});
  const ValueId k = SliceOf(text, x, 0, 6);
  const ValueId v = SliceOf(text, x, 6, 12);
  {
    const Program program = text.Read();
    CHECK(DimsText(TieDimensions(program), {x, k, v}) ==
          "[(a6|b6)]; [a6]; [b6]");
  }
  const ValueId both = text.Op("reshape", {x}, {2, 6});
  const Program program = text.Read();
  CHECK(DimsText(TieDimensions(program), {x, k, v, both}) ==
        "[(1|1) a6]; [a6]; [a6]; [(1|1)] [a6]");
}

TEST_CASE("parts of several heads each are a sum of heads") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {24});
  const ValueId q = SliceOf(text, x, 0, 16);
  const ValueId k = SliceOf(text, x, 16, 24);
  const ValueId heads = text.Op("reshape", {x}, {6, 4});
  const Program program = text.Read();
  CHECK(DimsText(TieDimensions(program), {x, q, k, heads}) ==
        "[(a4|b2) c4]; [a4 c4]; [b2 c4]; [(a4|b2)] [c4]");
}

TEST_CASE("slices that overlap move elements and divide nothing") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {9});
  const ValueId a = SliceOf(text, x, 0, 8);
  const ValueId b = SliceOf(text, x, 1, 9);
  const Program program = text.Read();
  const Ties ties = TieDimensions(program);
  CHECK(DimsText(ties, {x, a, b}) == "[a9]; [b8]; [c8]");
  REQUIRE(ties.events.size() == 2);
  CHECK(ties.events[0].use == Use::kShifted);
}

TEST_CASE("the halves of a rotary embedding are one factor") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {8});
  const ValueId first = SliceOf(text, x, 0, 4);
  const ValueId second = SliceOf(text, x, 4, 8);
  const ValueId turned = text.Op("concat", {second, first}, {8}, R"("dim":0)");
  const ValueId sum = text.Op("map", {x, turned}, {8}, R"("fn":"add")");
  const Program program = text.Read();
  CHECK(DimsText(TieDimensions(program), {x, sum}) == "[(a4|a4)]; [(a4|a4)]");
}

TEST_CASE("a comparison with an iota ties what both count") {
  ProgramText text;
  const ValueId scores = text.Input("data", "x", {7, 5});
  const ValueId top =
      text.Ops("top_k", {scores}, {{7, 2}, {7, 2}}, R"("dim":1,"k":2)") + 1;
  const ValueId wide = text.Op("reshape", {top}, {7, 2, 1});
  const ValueId counts = text.Op("iota", {}, {1, 1, 5}, R"("dim":2)");
  const ValueId hot = text.Op("map", {wide, counts}, {7, 2, 5}, R"("fn":"eq")");
  const Program program = text.Read();
  CHECK(DimsText(TieDimensions(program), {scores, hot}) ==
        "[a7] [b5]; [a7] [c2] [b5]");
}

TEST_CASE(
    "a scan ties its carry, and the leading dimensions that it runs over") {
  ProgramText text;
  const ValueId weights = text.Input("param", "w", {3, 4, 4});
  const ValueId x = text.Input("data", "x", {2, 4});
  const auto in = text.Begin({{2, 4}, {4, 4}});
  const ValueId y = text.MatMul(in[0], in[1]);
  const std::string body = text.End({y, y});
  const ValueId out =
      text.Ops("scan", {x, weights}, {{2, 4}, {3, 2, 4}},
               R"("consts":0,"carry":1,"length":3,"body":)" + body);
  const Program program = text.Read();
  const Ties ties = TieDimensions(program);
  CHECK(DimsText(ties, {weights, x, out, out + 1}) ==
        "[a3] [b4] [b4]; [c2] [b4]; [c2] [b4]; [a3] [c2] [b4]");
  CHECK(ties.depends[out] == (kOnParams | kOnData));
}

TEST_CASE("the constants of a while loop do not depend on what it carries") {
  ProgramText text;
  const ValueId weight = text.Input("param", "w", {4, 4});
  const ValueId x = text.Input("data", "x", {2, 4});
  const auto tested = text.Begin({{2, 4}});
  const ValueId flag =
      text.Op("reduce", {tested[0]}, {}, R"("fn":"or","axes":[0,1])");
  const std::string condition = text.End({flag});
  const auto in = text.Begin({{4, 4}, {2, 4}});
  const ValueId y = text.MatMul(in[1], in[0]);
  const std::string body = text.End({y});
  const ValueId out = text.Op("while", {weight, x}, {2, 4},
                              R"("condition_consts":0,"body_consts":1,)"
                              R"("condition":)" +
                                  condition + R"(,"body":)" + body);
  const Program program = text.Read();
  const Ties ties = TieDimensions(program);
  CHECK(DimsText(ties, {weight, x, out}) == "[a4] [a4]; [b2] [a4]; [b2] [a4]");
  CHECK(ties.depends[in[0]] == kOnParams);
  CHECK(ties.depends[out] == (kOnParams | kOnData));
}

TEST_CASE("branches have the dimensions of the operands and of the results") {
  ProgramText text;
  const ValueId index = text.Input("data", "i", {});
  const ValueId x = text.Input("data", "x", {2, 4});
  const auto first = text.Begin({{2, 4}});
  const std::string same = text.End({first[0]});
  const auto second = text.Begin({{2, 4}});
  const ValueId y = text.Op("map", {second[0]}, {2, 4}, R"("fn":"neg")");
  const std::string negated = text.End({y});
  const ValueId out = text.Op("cond", {index, x}, {2, 4},
                              R"("branches":[)" + same + "," + negated + "]");
  const Program program = text.Read();
  CHECK(DimsText(TieDimensions(program), {x, out}) == "[a2] [b4]; [a2] [b4]");
}

TEST_CASE("a manual body has a device's share of each dimension") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {8, 4});
  const auto in = text.Begin({{2, 4}});
  const std::string body = text.End({in[0]});
  const ValueId out = text.Op("manual", {x}, {8, 4},
                              R"("mesh":{"tp":4},"in_specs":[[["tp"]]],)"
                              R"("out_specs":[[["tp"]]],"body":)" +
                                  body);
  const Program program = text.Read();
  CHECK(DimsText(TieDimensions(program), {x, in[0], out}) ==
        "[a4 b2] [c4]; [b2] [c4]; [d4 b2] [c4]");
}

TEST_CASE(
    "only the forward pass gives events, and a body is in its op's pass") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {3, 4});
  text.SetPhase("backward");
  const auto in = text.Begin({{4}});
  text.SetPhase("");
  const ValueId y = text.Op("reduce", {in[0]}, {}, R"("fn":"sum","axes":[0])");
  const std::string body = text.End({y});
  text.SetPhase("backward");
  text.Op("scan", {x}, {3},
          R"("consts":0,"carry":0,"length":3,"body":)" + body);
  const Program program = text.Read();
  CHECK(TieDimensions(program).events.empty());
}

TEST_CASE("rows that a slice and a pad move are of one dimension") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {3, 8});
  const ValueId zero = text.Op("const", {}, {});
  const ValueId last =
      text.Op("slice", {x}, {3, 7}, R"("start":[0,0],"limit":[3,7])");
  const ValueId on = text.Op("pad", {last, zero}, {3, 8},
                             R"("low":[0,1],"high":[0,0],"interior":[0,0])");
  const ValueId first =
      text.Op("slice", {x}, {3, 7}, R"("start":[0,1],"limit":[3,8])");
  const ValueId back = text.Op("pad", {first, zero}, {3, 8},
                               R"("low":[0,0],"high":[0,1],"interior":[0,0])");
  // One row more is another dimension.
  const ValueId longer =
      text.Op("pad", {last, zero}, {3, 9},
              R"("low":[0,2],"high":[0,0],"interior":[0,0])");
  const Ties ties = TieDimensions(text.Read());
  CHECK(DimsText(ties, {x, on, back}) == "[a3] [b8]; [a3] [b8]; [a3] [b8]");
  CHECK(DimsText(ties, {x, longer}) != DimsText(ties, {x, on}));
}

}  // namespace
}  // namespace shardc::program
