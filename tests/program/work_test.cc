// What products compute, which of them a causal mask halves, and which values
// are stored.
#include "program/program.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "program/programs.h"

namespace shardc::program {
namespace {

constexpr std::string_view kScores =
    R"("lhs_contract":[2],"rhs_contract":[2],"lhs_batch":[0],"rhs_batch":[0])";
constexpr std::string_view kMix =
    R"("lhs_contract":[2],"rhs_contract":[1],"lhs_batch":[0],"rhs_batch":[0])";

// Attention over 6 tokens. `compared` compares the numbers of queries and keys.
Program Attention(std::string_view compared, std::string_view joined) {
  ProgramText text;
  const ValueId q = text.Input("data", "q", {2, 6, 4});
  const ValueId k = text.Input("data", "k", {2, 6, 4});
  const ValueId v = text.Input("data", "v", {2, 6, 4});
  const ValueId rows = text.Op("iota", {}, {6, 6}, R"("dim":0)");
  const ValueId line = text.Op("iota", {}, {6}, R"("dim":0)");
  const ValueId columns = text.Op("broadcast", {line}, {6, 6}, R"("dims":[1])");
  const ValueId mask = text.Op("map", {rows, columns}, {6, 6},
                               R"("fn":")" + std::string(compared) + "\"");
  const ValueId wide =
      text.Op("broadcast", {mask}, {2, 6, 6}, R"("dims":[1,2])");
  const ValueId scores = text.Op("dot", {q, k}, {2, 6, 6}, kScores);
  const ValueId low = text.Op("iota", {}, {2, 6, 6}, R"("dim":0)");
  const ValueId lowest = text.Op("const", {}, {});
  const ValueId zero = text.Op("const", {}, {});
  const ValueId numbers =
      text.Op("map", {wide, lowest, zero}, {2, 6, 6}, R"("fn":"select")");
  const ValueId hidden = text.Op(
      "map",
      joined == "select" ? std::vector{wide, scores, low}
      : joined == "add"  ? std::vector{wide, scores}
                         : std::vector{scores, numbers},
      {2, 6, 6},
      R"("fn":")" + std::string(joined == "select" ? "select" : "add") + "\"");
  const ValueId power = text.Op("map", {hidden}, {2, 6, 6}, R"("fn":"exp")");
  const ValueId y = text.Op("dot", {power, v}, {2, 6, 4}, kMix);
  Program out = text.Read();
  if (joined != "add" && joined != "select") {
    out.values[lowest].floats = {joined == "numbers" ? -3.4e38 : -1};
    out.values[zero].floats = {0};
  }
  out.outputs = {y};
  return out;
}

size_t Masked(const Program& program) { return MaskedMatmuls(program).size(); }

TEST_CASE("a causal mask halves the products of attention") {
  for (const char* const compared : {"ge", "gt", "le", "lt"}) {
    CHECK(Masked(Attention(compared, "select")) == 2);
  }
  CHECK(Masked(Attention("eq", "select")) == 0);
  // An added boolean is 0 or 1, which hides no score.
  CHECK(Masked(Attention("ge", "add")) == 0);
  // Added numbers do, if those of hidden keys are low.
  CHECK(Masked(Attention("ge", "numbers")) == 2);
  CHECK(Masked(Attention("eq", "numbers")) == 0);
  CHECK(Masked(Attention("ge", "small numbers")) == 0);
}

TEST_CASE("scores that are read without the mask as well are not halved") {
  Program program = Attention("ge", "select");
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::kDot) {
      program.outputs.push_back(op.out[0]);
      break;
    }
  }
  CHECK(Masked(program) == 1);
}

TEST_CASE("a product whose result is repeated behind the mask is not halved") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {2, 6, 4});
  const ValueId w = text.Input("param", "w", {4});
  const ValueId gate = text.Op("dot", {x, w}, {2, 6},
                               R"("lhs_contract":[2],"rhs_contract":[0],)"
                               R"("lhs_batch":[],"rhs_batch":[])");
  const ValueId wide =
      text.Op("broadcast", {gate}, {2, 6, 6}, R"("dims":[0,2])");
  const ValueId rows = text.Op("iota", {}, {2, 6, 6}, R"("dim":1)");
  const ValueId columns = text.Op("iota", {}, {2, 6, 6}, R"("dim":2)");
  const ValueId mask =
      text.Op("map", {rows, columns}, {2, 6, 6}, R"("fn":"ge")");
  const ValueId zero = text.Op("iota", {}, {2, 6, 6}, R"("dim":0)");
  const ValueId hidden =
      text.Op("map", {mask, zero, wide}, {2, 6, 6}, R"("fn":"select")");
  text.Op("dot", {hidden, x}, {2, 6, 4}, kMix);
  CHECK(Masked(text.Read()) == 1);
}

// A block of 4 x 4 scores whose rows begin at `row`, and the columns at 8.
size_t MaskedInBlock(int64_t row) {
  ProgramText text;
  const ValueId q = text.Input("data", "q", {2, 4, 4});
  const ValueId k = text.Input("data", "k", {2, 4, 4});
  ValueId counts[2] = {};
  ValueId starts[2] = {};
  for (const size_t dim : {0, 1}) {
    const ValueId iota =
        text.Op("iota", {}, {4, 4}, R"("dim":)" + std::to_string(dim));
    starts[dim] = text.Op("const", {}, {});
    counts[dim] = text.Op("map", {iota, starts[dim]}, {4, 4}, R"("fn":"add")");
  }
  const ValueId mask =
      text.Op("map", {counts[0], counts[1]}, {4, 4}, R"("fn":"ge")");
  const ValueId wide =
      text.Op("broadcast", {mask}, {2, 4, 4}, R"("dims":[1,2])");
  const ValueId scores = text.Op("dot", {q, k}, {2, 4, 4}, kScores);
  const ValueId low = text.Op("iota", {}, {2, 4, 4}, R"("dim":0)");
  text.Op("map", {wide, low, scores}, {2, 4, 4}, R"("fn":"select")");
  Program program = text.Read();
  if (row >= 0) program.values[starts[0]].integers = {row};
  program.values[starts[1]].integers = {8};
  return Masked(program);
}

TEST_CASE("a block of scores is halved on the diagonal only") {
  CHECK(MaskedInBlock(8) == 1);
  CHECK(MaskedInBlock(7) == 1);
  // All of its scores are shown.
  CHECK(MaskedInBlock(12) == 0);
  CHECK(MaskedInBlock(INT64_MAX) == 0);
  // A loop computes where it begins.
  CHECK(MaskedInBlock(-1) == 0);
}

TEST_CASE("a product has two operations for each multiply-add") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {3, 5, 16});
  const ValueId w = text.Input("param", "w", {16, 48});
  text.MatMul(x, w);
  const Program program = text.Read();
  const Shape in[] = {{3, 5, 16}, {16, 48}};
  CHECK(IsMatmul(program.ops[0]));
  CHECK(ProductFlops(program.ops[0], in, {3, 5, 48}) == 2.0 * 3 * 5 * 16 * 48);
  // A device with half of the contracted dimension.
  const Shape local[] = {{3, 5, 8}, {8, 48}};
  CHECK(ProductFlops(program.ops[0], local, {3, 5, 48}) ==
        2.0 * 3 * 5 * 8 * 48);
}

TEST_CASE("a transposed convolution does not multiply the zeros in between") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {4, 8, 8, 8});
  const ValueId w = text.Input("param", "w", {6, 8, 4, 4});
  text.Op("conv", {x, w}, {4, 6, 16, 16},
          R"("lhs":[0,1,2,3],"rhs":[0,1,2,3],"result":[0,1,2,3],)"
          R"("strides":[1,1],"padding":[[2,2],[2,2]],"lhs_dilation":[2,2],)"
          R"("groups":1)");
  const Program program = text.Read();
  const Shape in[] = {{4, 8, 8, 8}, {6, 8, 4, 4}};
  // Each of the 8 x 8 elements is multiplied with 4 x 4 taps.
  CHECK(ProductFlops(program.ops[0], in, {4, 6, 16, 16}) ==
        2.0 * 4 * 8 * 8 * 8 * 6 * 4 * 4);
}

TEST_CASE("views and maps that loops compute again are not stored") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {4, 8});
  const ValueId w = text.Input("param", "w", {8, 8});
  const ValueId h = text.MatMul(x, w);
  const ValueId cheap = text.Op("map", {h, h}, {4, 8}, R"("fn":"add")");
  const ValueId dear = text.Op("map", {cheap}, {4, 8}, R"("fn":"exp")");
  const ValueId flat = text.Op("reshape", {dear}, {32});
  const ValueId a = text.Op("reduce", {flat}, {}, R"("fn":"sum","axes":[0])");
  const ValueId b = text.Op("reduce", {dear}, {4}, R"("fn":"max","axes":[1])");
  const ValueId read = text.Op("map", {cheap, cheap}, {4, 8}, R"("fn":"mul")");
  const ValueId y = text.MatMul(read, w);
  Program program = text.Read();
  program.outputs = {a, b, y};
  const auto sources = StoredSources(program);
  using Values = std::vector<ValueId>;
  CHECK(sources[h] == Values{h});
  CHECK(sources[cheap] == Values{h});
  // It has two readers, and is not computed twice.
  CHECK(sources[dear] == Values{dear});
  CHECK(sources[flat] == Values{dear});
  // A product reads its operands from memory.
  CHECK(sources[read] == Values{read});
  CHECK(sources[a] == Values{a});
}

}  // namespace
}  // namespace shardc::program
