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
