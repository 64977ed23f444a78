// Why parameters of PyTorch's modules are not sharded, in programs of a few
// ops.
#include "program/facts.h"

#include <doctest/doctest.h>

#include <string>

#include "program/programs.h"

namespace shardc::program {
namespace {

// A table and a matmul with a weight, where module `around` runs the matmul of
// `layer.inner.weight`, and `head` a matmul with the table.
Program Modules(bool with_bias) {
  ProgramText text;
  const ValueId table = text.Input("param", "embed.weight", {8, 6});
  const ValueId weight = text.Input("param", "layer.2.inner.weight", {6, 6});
  const ValueId bias = text.Input("param", "other.bias", {8});
  const ValueId x = text.Input("data", "x", {3, 6});
  text.Input("param", "unread", {6, 6});
  const ValueId y = text.MatMul(x, weight);
  const ValueId z = text.Op("dot", {y, table}, {3, 8},
                            R"("lhs_contract":[1],)"
                            R"("rhs_contract":[1],"lhs_batch":[],)"
                            R"("rhs_batch":[])");
  const ValueId wide = text.Op("broadcast", {bias}, {3, 8}, R"("dims":[1])");
  text.Op("map", {z, wide}, {3, 8}, R"("fn":"add")");
  Program out = text.Read();
  out.modules = {"layer.2", "head", "other"};
  out.ops[0].module = 0;
  out.ops[1].module = 1;
  out.ops[2].module = with_bias ? 1 : 2;
  return out;
}

TEST_CASE("a weight that the code around its module reads") {
  const auto reads = ReadsElsewhere(Modules(false));
  CHECK(reads.replicated.size() == 2);
  CHECK(reads.replicated.at("unread") == "the program does not read it");
  CHECK(reads.replicated.at("layer.2.inner.weight") ==
        "the code of `layer.*` reads `layer.2.inner.weight` at m.py:1, "
        "where no style of the module acts");
  CHECK(reads.heads.size() == 1);
  CHECK(reads.heads.at("embed.weight") == "head");
}

TEST_CASE("a head that also reads another module's bias shares no weight") {
  const auto reads = ReadsElsewhere(Modules(true));
  CHECK(reads.heads.empty());
  CHECK(reads.replicated.at("other.bias") ==
        "the code of `head` reads `other.bias` at m.py:3, where no style of "
        "the module acts");
  CHECK(reads.replicated.at("embed.weight") ==
        reads.replicated.at("other.bias"));
}

TEST_CASE("each dimension of a matrix has its reason") {
  ProgramText text;
  const ValueId up = text.Input("param", "up", {16, 15});
  const ValueId down = text.Input("param", "down", {15, 16});
  const ValueId parts = text.Input("param", "parts", {16, 10});
  const ValueId x = text.Input("data", "x", {3, 7, 16});
  const ValueId y = text.MatMul(text.MatMul(x, up), down);
  const ValueId sum = text.Op("map", {x, y}, {3, 7, 16}, R"("fn":"add")");
  const ValueId z = text.MatMul(sum, parts);
  text.Op("slice", {z}, {3, 7, 4}, R"("start":[0,0,0],"limit":[3,7,4])");
  text.Op("slice", {z}, {3, 7, 6}, R"("start":[0,0,4],"limit":[3,7,10])");
  const Program program = text.Read();
  const Facts facts = FindFacts(program);
  const auto why = [&](size_t param) {
    return WhyUnsharded(program, facts, facts.params[param], 2);
  };
  CHECK(why(0) ==
        "dimension 0, stream 16, is that of the values between blocks; "
        "dimension 1, inner 15, is not divisible by 2 devices");
  CHECK(why(2) ==
        "dimension 0, stream 16, is that of the values between blocks; "
        "dimension 1, (out 4 | out 6), holds 2 parts of different sizes at "
        "m.py:5");
}

TEST_CASE("the type of transformers is that of most ops") {
  Program program = Modules(false);
  CHECK(TransformersType(program).empty());
  program.files = {"transformers/models/stablelm/modeling_stablelm.py"};
  CHECK(TransformersType(program) == "stablelm");
}

}  // namespace
}  // namespace shardc::program
