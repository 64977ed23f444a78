// What factors count, by models of a few ops; and that nothing depends on names
// or on the order of independent ops.
#include "program/facts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "program/programs.h"

namespace shardc::program {
namespace {

// Attention with 2 KV heads for 4 query heads of 8 elements, then an MLP.
Program Model(const std::vector<std::string>& names, bool values_first) {
  ProgramText text;
  const ValueId wq = text.Input("param", names[0], {16, 32});
  const ValueId wk = text.Input("param", names[1], {16, 16});
  const ValueId wv = text.Input("param", names[2], {16, 16});
  const ValueId wo = text.Input("param", names[3], {32, 16});
  const ValueId up = text.Input("param", names[4], {16, 48});
  const ValueId down = text.Input("param", names[5], {48, 16});
  const ValueId x = text.Input("data", "x", {3, 5, 16});
  ValueId k = 0;
  ValueId v = 0;
  if (values_first) {
    v = text.Op("reshape", {text.MatMul(x, wv)}, {3, 5, 2, 8});
    k = text.Op("reshape", {text.MatMul(x, wk)}, {3, 5, 2, 8});
  } else {
    k = text.Op("reshape", {text.MatMul(x, wk)}, {3, 5, 2, 8});
    v = text.Op("reshape", {text.MatMul(x, wv)}, {3, 5, 2, 8});
  }
  const ValueId q = text.Op("reshape", {text.MatMul(x, wq)}, {3, 5, 2, 2, 8});
  const ValueId scores =
      text.Op("dot", {q, k}, {3, 2, 5, 2, 5},
              R"("lhs_contract":[4],"rhs_contract":[3],"lhs_batch":[0,2],)"
              R"("rhs_batch":[0,2])");
  const ValueId mixed =
      text.Op("dot", {scores, v}, {3, 2, 5, 2, 8},
              R"("lhs_contract":[4],"rhs_contract":[1],"lhs_batch":[0,1],)"
              R"("rhs_batch":[0,2])");
  const ValueId ordered =
      text.Op("transpose", {mixed}, {3, 5, 2, 2, 8}, R"("perm":[0,2,1,3,4])");
  const ValueId flat = text.Op("reshape", {ordered}, {3, 5, 32});
  const ValueId y = text.MatMul(flat, wo);
  const ValueId sum = text.Op("map", {x, y}, {3, 5, 16}, R"("fn":"add")");
  const ValueId h = text.MatMul(sum, up);
  const ValueId z = text.MatMul(h, down);
  text.Op("map", {sum, z}, {3, 5, 16}, R"("fn":"add")");
  return text.Read();
}

const std::vector<std::string> kNames = {"q", "k", "v", "o", "up", "down"};

TEST_CASE("roles follow from how factors are used") {
  CHECK(FactsText(Model(kNames, false)) ==
        "q [stream 16] [kv_heads 2 x group 2 x head_dim 8]\n"
        "k [stream 16] [kv_heads 2 x head_dim 8]\n"
        "v [stream 16] [kv_heads 2 x head_dim 8]\n"
        "o [kv_heads 2 x group 2 x head_dim 8] [stream 16]\n"
        "up [stream 16] [inner 48]\n"
        "down [inner 48] [stream 16]\n");
}

TEST_CASE("the order of independent ops changes nothing") {
  CHECK(FactsText(Model(kNames, false)) == FactsText(Model(kNames, true)));
}

TEST_CASE("names change nothing") {
  const std::string own = FactsText(Model(kNames, false));
  std::vector<std::string> names = {"a", "b", "c", "d", "e", "f"};
  std::string renamed = FactsText(Model(names, false));
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string from = names[i] + " [";
    const size_t at = i == 0 ? 0 : renamed.find("\n" + from) + 1;
    renamed.replace(at, names[i].size(), kNames[i]);
  }
  CHECK(renamed == own);
  // A name that means something else elsewhere.
  const Program other = Model({"down", "up", "o", "q", "k", "v"}, false);
  CHECK(FactsText(other).starts_with(
      "down [stream 16] [kv_heads 2 x group 2 x head_dim 8]\n"));
}

TEST_CASE("a dimension is shardable in ranges that split no inner factor") {
  const Facts facts = FindFacts(Model(kNames, false));
  const FactorList& heads = facts.params[0].dims[1];  // 2 x 2 x 8
  for (const int64_t good : {2, 4, 8, 16, 32})
    CHECK(facts.CanShard(heads, good));
  for (const int64_t bad : {3, 5, 6, 12, 64})
    CHECK_FALSE(facts.CanShard(heads, bad));
  CHECK(facts.Sharded(heads, 2).size() == 1);
  CHECK(facts.Sharded(heads, 4).size() == 2);
  CHECK(facts.CanShard(facts.params[4].dims[1], 3));
}

TEST_CASE("a dimension of several parts is not shardable in ranges") {
  ProgramText text;
  const ValueId w = text.Input("param", "w", {4, 12});
  const ValueId x = text.Input("data", "x", {2, 4});
  const ValueId y = text.MatMul(x, w);
  const ValueId gate =
      text.Op("slice", {y}, {2, 6}, R"("start":[0,0],"limit":[2,6])");
  const ValueId up =
      text.Op("slice", {y}, {2, 6}, R"("start":[0,6],"limit":[2,12])");
  text.Op("map", {gate, up}, {2, 6}, R"("fn":"mul")");
  const Facts facts = FindFacts(text.Read());
  const FactorList& dim = facts.params[0].dims[1];
  CHECK(facts.Text(dim) == "(out 6 | out 6)");
  CHECK_FALSE(facts.CanShard(dim, 2));
  const Factor& fused = facts.factors[dim[0]];
  REQUIRE(fused.parts.size() == 2);
  CHECK(fused.parts[0] == fused.parts[1]);
  // Lines of the ops: the product is on line 1, the slices are on 2 and 3.
  std::vector<std::pair<Use, int>> lines;
  for (const Evidence& one : fused.evidence) {
    lines.emplace_back(one.use, one.at.line);
  }
  const std::vector<std::pair<Use, int>> expected = {
      {Use::kProduced, 1}, {Use::kDivided, 2}, {Use::kDivided, 3}};
  CHECK(lines == expected);
}

TEST_CASE("a scale that is written as a dot has neither heads nor experts") {
  // h = x up; y = (h gate) down, where h gate contracts nothing
  ProgramText text;
  const ValueId up = text.Input("param", "up", {16, 48});
  const ValueId scale = text.Input("param", "scale", {48});
  const ValueId down = text.Input("param", "down", {48, 16});
  const ValueId x = text.Input("data", "x", {3, 5, 16});
  const ValueId h = text.MatMul(x, up);
  constexpr std::string_view kOfWeight =
      R"("lhs_contract":[],"rhs_contract":[],"lhs_batch":[2],"rhs_batch":[0])";
  const ValueId scaled =
      text.Op("transpose",
              {text.Op("dot", {h, scale}, {48, 3, 5}, std::string(kOfWeight))},
              {3, 5, 48}, R"("perm":[1,2,0])");
  // A gate of activations is one too.
  const ValueId gated =
      text.Op("dot", {scaled, h}, {3, 5, 48},
              R"("lhs_contract":[],"rhs_contract":[],"lhs_batch":[0,1,2],)"
              R"("rhs_batch":[0,1,2])");
  text.Op("map", {x, text.MatMul(gated, down)}, {3, 5, 16}, R"("fn":"add")");
  CHECK(FactsText(text.Read()) ==
        "up [stream 16] [inner 48]\n"
        "scale [inner 48]\n"
        "down [inner 48] [stream 16]\n");
}

TEST_CASE("a layer alone has the features of data and of the result") {
  ProgramText text;
  const ValueId up = text.Input("param", "up", {16, 48});
  const ValueId down = text.Input("param", "down", {48, 20});
  const ValueId x = text.Input("data", "x", {3, 5, 16});
  text.MatMul(text.MatMul(x, up), down);
  CHECK(FactsText(text.Read()) ==
        "up [in 16] [inner 48]\n"
        "down [inner 48] [out 20]\n");
}

// Tokens are given to experts by products with masks, as values are mixed.
TEST_CASE("what is given to experts has no heads") {
  ProgramText text;
  const ValueId up = text.Input("param", "up", {4, 16, 48});
  const ValueId down = text.Input("param", "down", {4, 48, 20});
  const ValueId x = text.Input("data", "x", {6, 16});
  const ValueId mask = text.Input("data", "mask", {6, 4, 3});
  constexpr std::string_view kEach =
      R"("lhs_contract":[2],"rhs_contract":[1],"lhs_batch":[0],"rhs_batch":[0])";
  const ValueId given = text.Op("dot", {mask, x}, {4, 3, 16},
                                R"("lhs_contract":[0],"rhs_contract":[0],)"
                                R"("lhs_batch":[],"rhs_batch":[])");
  const ValueId h = text.Op("dot", {given, up}, {4, 3, 48}, kEach);
  const ValueId y = text.Op("dot", {h, down}, {4, 3, 20}, kEach);
  text.Op("dot", {mask, y}, {6, 20},
          R"("lhs_contract":[1,2],"rhs_contract":[0,1],)"
          R"("lhs_batch":[],"rhs_batch":[])");
  CHECK(FactsText(text.Read()) ==
        "up [4] [in 16] [inner 48]\n"
        "down [4] [inner 48] [out 20]\n");
}

TEST_CASE("experts, layers and a vocabulary") {
  ProgramText text;
  const ValueId table = text.Input("param", "table", {9, 4});
  const ValueId router = text.Input("param", "router", {4, 6});
  const ValueId stack = text.Input("param", "stack", {3, 4, 4});
  const ValueId ids = text.Input("data", "ids", {2, 5, 1});
  const ValueId x = text.Op(
      "gather", {table, ids}, {2, 5, 4},
      R"("offset_dims":[2],"collapsed_dims":[0],"operand_batch_dims":[],)"
      R"("indices_batch_dims":[],"start_index_map":[0],"slice_sizes":[1,4],)"
      R"("mode":"clip")");
  const auto in = text.Begin({{2, 5, 4}, {4, 4}});
  const ValueId y = text.MatMul(in[0], in[1]);
  const std::string body = text.End({y});
  const ValueId last =
      text.Op("scan", {x, stack}, {2, 5, 4},
              R"("consts":0,"carry":1,"length":3,"body":)" + body);
  const ValueId scores = text.MatMul(last, router);
  text.Ops("top_k", {scores}, {{2, 5, 2}, {2, 5, 2}}, R"("dim":2,"k":2)");
  CHECK(FactsText(text.Read()) ==
        "table [vocab 9] [stream 4]\n"
        "router [stream 4] [experts 6]\n"
        "stack [layers 3] [stream 4] [stream 4]\n");
}

// The halves of a head are scaled by the angles of their token and change
// places, as in a rotary embedding.
ValueId Rotated(ProgramText& text, ValueId x, ValueId angles, Shape shape) {
  const bool heads = shape.size() == 4;
  const std::string tail = heads ? "0,0,0," : "0,0,";
  Shape part = shape;
  part.back() = 4;
  if (heads) angles = text.Op("reshape", {angles}, {3, 1, 1, 4});
  const auto half = [&](int64_t begin) {
    std::string limit;
    for (size_t d = 0; d + 1 < shape.size(); ++d) {
      limit += std::to_string(shape[d]) + ",";
    }
    const ValueId cut =
        text.Op("slice", {x}, part,
                "\"start\":[" + tail + std::to_string(begin) + "],\"limit\":[" +
                    limit + std::to_string(begin + 4) + "]");
    return text.Op("map", {cut, angles}, part, R"("fn":"mul")");
  };
  const ValueId second = half(4);
  const ValueId first = half(0);
  return text.Op("concat", {second, first}, shape,
                 "\"dim\":" + std::to_string(shape.size() - 1));
}

// Returns the facts of attention with one KV head, of one token after a cache.
// `kind` is that of the input with the token's position.
std::string OfRotated(std::string_view kind) {
  ProgramText text;
  const ValueId wq = text.Input("param", "q", {16, 48});
  const ValueId wk = text.Input("param", "k", {16, 8});
  const ValueId wo = text.Input("param", "o", {48, 16});
  const ValueId up = text.Input("param", "up", {16, 40});
  const ValueId down = text.Input("param", "down", {40, 16});
  const ValueId x = text.Input("data", "x", {3, 1, 16});
  const ValueId cache = text.Input("state", "keys", {3, 24, 8});
  const ValueId values = text.Input("state", "values", {3, 24, 8});
  const ValueId at = text.Input("state", "length", {});
  const ValueId position = text.Input(kind, "position", {3, 1, 1});
  const ValueId zero = text.Op("const", {}, {});
  const ValueId speeds = text.Op("const", {}, {1, 1, 4});
  const ValueId angles =
      text.Op("map", {position, speeds}, {3, 1, 4}, R"("fn":"mul")");
  const ValueId q =
      Rotated(text, text.Op("reshape", {text.MatMul(x, wq)}, {3, 1, 6, 8}),
              angles, {3, 1, 6, 8});
  const auto write = [&](ValueId to) {
    return text.Op("dynamic_update_slice",
                   {to, Rotated(text, text.MatMul(x, wk), angles, {3, 1, 8}),
                    zero, at, zero},
                   {3, 24, 8});
  };
  const ValueId scores =
      text.Op("dot", {q, write(cache)}, {3, 1, 6, 24},
              R"("lhs_contract":[3],"rhs_contract":[2],"lhs_batch":[0],)"
              R"("rhs_batch":[0])");
  const ValueId mixed =
      text.Op("dot", {scores, write(values)}, {3, 1, 6, 8},
              R"("lhs_contract":[3],"rhs_contract":[1],"lhs_batch":[0],)"
              R"("rhs_batch":[0])");
  const ValueId y = text.MatMul(text.Op("reshape", {mixed}, {3, 1, 48}), wo);
  const ValueId sum = text.Op("map", {x, y}, {3, 1, 16}, R"("fn":"add")");
  const ValueId z = text.MatMul(text.MatMul(sum, up), down);
  text.Op("map", {sum, z}, {3, 1, 16}, R"("fn":"add")");
  return FactsText(text.Read());
}

TEST_CASE("rotated keys of one KV head do not hide the heads") {
  for (const char* const kind : {"state", "data"}) {
    CAPTURE(kind);
    CHECK(OfRotated(kind) ==
          "q [stream 16] [heads 6 x (head_dim 4 | head_dim 4)]\n"
          "k [stream 16] [(head_dim 4 | head_dim 4)]\n"
          "o [heads 6 x (head_dim 4 | head_dim 4)] [stream 16]\n"
          "up [stream 16] [inner 40]\n"
          "down [inner 40] [stream 16]\n");
  }
}

// The blocks of a weight that is block diagonal: x in, blocks of it, out.
TEST_CASE("the blocks of a block-diagonal weight are no experts") {
  ProgramText text;
  const ValueId in = text.Input("param", "in", {16, 24});
  const ValueId gate = text.Input("param", "gate", {4, 6, 6});
  const ValueId out = text.Input("param", "out", {24, 16});
  const ValueId x = text.Input("data", "x", {3, 5, 16});
  const ValueId h = text.Op("reshape", {text.MatMul(x, in)}, {3, 5, 4, 6});
  const ValueId gated =
      text.Op("dot", {h, gate}, {4, 3, 5, 6},
              R"("lhs_contract":[3],"rhs_contract":[1],"lhs_batch":[2],)"
              R"("rhs_batch":[0])");
  const ValueId back =
      text.Op("transpose", {gated}, {3, 5, 4, 6}, R"("perm":[1,2,0,3])");
  const ValueId y = text.MatMul(text.Op("reshape", {back}, {3, 5, 24}), out);
  text.Op("map", {x, y}, {3, 5, 16}, R"("fn":"add")");
  CHECK(FactsText(text.Read()) ==
        "in [stream 16] [4 x inner 6]\n"
        "gate [4] [inner 6] [inner 6]\n"
        "out [4 x inner 6] [stream 16]\n");
}

// One token of attention. Its keys are written to zeros, or its queries are
// multiplied by a part of the keys' weights: `absorbed`.
std::string OfOneToken(bool absorbed) {
  ProgramText text;
  const ValueId wq = text.Input("param", "q", {16, 32});
  const ValueId wk = text.Input("param", "k", {16, absorbed ? 8 : 16});
  const ValueId up =
      absorbed ? text.Input("param", "up", {8, 4, 8}) : ValueId{};
  const ValueId wo = text.Input("param", "o", {32, 16});
  const ValueId x = text.Input("data", "x", {3, 16});
  const ValueId at = text.Input("data", "at", {});
  const ValueId zero = text.Op("const", {}, {});
  const Shape one = absorbed ? Shape{3, 1, 8} : Shape{3, 1, 2, 8};
  const Shape all = absorbed ? Shape{3, 24, 8} : Shape{3, 24, 2, 8};
  const ValueId zeros = text.Op("broadcast", {zero}, all, R"("dims":[])");
  const ValueId key = text.Op("reshape", {text.MatMul(x, wk)}, one);
  const ValueId keys =
      absorbed
          ? text.Op("dynamic_update_slice", {zeros, key, zero, at, zero}, all)
          : text.Op("dynamic_update_slice", {zeros, key, zero, at, zero, zero},
                    all);
  ValueId q = text.MatMul(x, wq);
  ValueId scores = 0;
  ValueId y = 0;
  if (absorbed) {
    q = text.Op(
        "transpose",
        {text.Op("dot", {text.Op("reshape", {q}, {3, 4, 8}), up}, {4, 3, 8},
                 R"("lhs_contract":[2],"rhs_contract":[2],)"
                 R"("lhs_batch":[1],"rhs_batch":[1])")},
        {3, 4, 8}, R"("perm":[1,0,2])");
    scores = text.Op("dot", {q, keys}, {3, 4, 24},
                     R"("lhs_contract":[2],"rhs_contract":[2],"lhs_batch":[0],)"
                     R"("rhs_batch":[0])");
    y = text.Op("dot", {scores, keys}, {3, 4, 8},
                R"("lhs_contract":[2],"rhs_contract":[1],"lhs_batch":[0],)"
                R"("rhs_batch":[0])");
  } else {
    q = text.Op("reshape", {q}, {3, 2, 2, 8});
    scores =
        text.Op("dot", {q, keys}, {3, 2, 2, 24},
                R"("lhs_contract":[3],"rhs_contract":[3],"lhs_batch":[0,1],)"
                R"("rhs_batch":[0,2])");
    y = text.Op("dot", {scores, keys}, {3, 2, 2, 8},
                R"("lhs_contract":[3],"rhs_contract":[1],"lhs_batch":[0,1],)"
                R"("rhs_batch":[0,2])");
  }
  const ValueId out = text.MatMul(text.Op("reshape", {y}, {3, 32}), wo);
  text.Op("map", {x, out}, {3, 16}, R"("fn":"add")");
  return FactsText(text.Read());
}

TEST_CASE("one token has the heads of its keys, which zeros begin") {
  CHECK(OfOneToken(false) ==
        "q [stream 16] [kv_heads 2 x group 2 x head_dim 8]\n"
        "k [stream 16] [kv_heads 2 x head_dim 8]\n"
        "o [kv_heads 2 x group 2 x head_dim 8] [stream 16]\n");
}

TEST_CASE("heads whose keys are multiplied into the queries are no experts") {
  CHECK(OfOneToken(true) ==
        "q [stream 16] [heads 4 x inner 8]\n"
        "k [stream 16] [head_dim 8]\n"
        "up [head_dim 8] [heads 4] [inner 8]\n"
        "o [heads 4 x head_dim 8] [stream 16]\n");
}

TEST_CASE("the values that a state of linear attention passes are no group") {
  ProgramText text;
  const ValueId wq = text.Input("param", "q", {16, 24});
  const ValueId wk = text.Input("param", "k", {16, 24});
  const ValueId wv = text.Input("param", "v", {16, 40});
  const ValueId wo = text.Input("param", "o", {40, 16});
  const ValueId x = text.Input("data", "x", {3, 5, 16});
  const ValueId q = text.Op("reshape", {text.MatMul(x, wq)}, {3, 5, 4, 6});
  const ValueId k = text.Op("reshape", {text.MatMul(x, wk)}, {3, 5, 4, 6});
  const ValueId v = text.Op("reshape", {text.MatMul(x, wv)}, {3, 5, 4, 10});
  const ValueId state =
      text.Op("dot", {k, v}, {3, 4, 6, 10},
              R"("lhs_contract":[1],"rhs_contract":[1],"lhs_batch":[0,2],)"
              R"("rhs_batch":[0,2])");
  const ValueId read =
      text.Op("dot", {q, state}, {3, 4, 5, 10},
              R"("lhs_contract":[3],"rhs_contract":[2],"lhs_batch":[0,2],)"
              R"("rhs_batch":[0,1])");
  const ValueId back =
      text.Op("transpose", {read}, {3, 5, 4, 10}, R"("perm":[0,2,1,3])");
  const ValueId y = text.MatMul(text.Op("reshape", {back}, {3, 5, 40}), wo);
  text.Op("map", {x, y}, {3, 5, 16}, R"("fn":"add")");
  CHECK(FactsText(text.Read()) ==
        "q [stream 16] [heads 4 x head_dim 6]\n"
        "k [stream 16] [heads 4 x head_dim 6]\n"
        "v [stream 16] [heads 4 x head_dim 10]\n"
        "o [heads 4 x head_dim 10] [stream 16]\n");
}

// Two blocks, of which each has projections of an inner width: from the stream,
// among its own elements, and back.
TEST_CASE("an inner width of several projections is not the stream") {
  ProgramText text;
  const ValueId x = text.Input("data", "x", {3, 5, 16});
  ValueId y = x;
  for (const char* const block : {"a", "b"}) {
    const std::string name(block);
    const ValueId up = text.Input("param", name + "/up", {16, 32});
    const ValueId down = text.Input("param", name + "/down", {8, 16});
    const ValueId h = text.MatMul(y, up);
    ValueId all = 0;
    for (const char* const gate : {"1", "2", "3", "4", "5"}) {
      const ValueId w = text.Input("param", name + "/" + gate, {32, 8});
      const ValueId z = text.MatMul(h, w);
      all = all == 0 ? z : text.Op("map", {all, z}, {3, 5, 8}, R"("fn":"mul")");
    }
    y = text.Op("map", {y, text.MatMul(all, down)}, {3, 5, 16},
                R"("fn":"add")");
  }
  const std::string facts = FactsText(text.Read());
  CAPTURE(facts);
  CHECK(facts.find("a/up [stream 16] [inner 32]\n") != std::string::npos);
  CHECK(facts.find("b/up [stream 16] [inner 32]\n") != std::string::npos);
}

// A feed-forward block of an inner width, with a gate.
std::string FeedForward(int64_t inner) {
  ProgramText text;
  const ValueId up = text.Input("param", "up", {64, inner});
  const ValueId gate = text.Input("param", "gate", {64, inner});
  const ValueId down = text.Input("param", "down", {inner, 64});
  const ValueId out = text.Input("param", "out", {64, 512});
  const ValueId x = text.Input("data", "x", {8, 64});
  const ValueId activated =
      text.Op("map", {text.MatMul(x, gate)}, {8, inner}, R"("fn":"tanh")");
  const ValueId h = text.Op("map", {activated, text.MatMul(x, up)}, {8, inner},
                            R"("fn":"mul")");
  const ValueId y = text.MatMul(h, down);
  const ValueId sum = text.Op("map", {x, y}, {8, 64}, R"("fn":"add")");
  text.MatMul(sum, out);
  return FactsText(text.Read());
}

TEST_CASE("the inner width of a narrow feed-forward block is no latent") {
  for (const int64_t inner : {8, 32, 128, 256}) {
    CAPTURE(inner);
    const std::string facts = FeedForward(inner);
    const std::string size = std::to_string(inner);
    CHECK(facts.find("up [stream 64] [inner " + size + "]") != facts.npos);
    CHECK(facts.find("down [inner " + size + "] [stream 64]") != facts.npos);
  }
}

TEST_CASE("what leads from the stream to heads is a latent") {
  ProgramText text;
  const ValueId down = text.Input("param", "down", {64, 8});
  const ValueId up = text.Input("param", "up", {8, 256});
  const ValueId out = text.Input("param", "out", {256, 64});
  const ValueId x = text.Input("data", "x", {8, 64});
  const ValueId latent = text.MatMul(x, down);
  const ValueId h = text.MatMul(latent, up);
  const ValueId y = text.MatMul(h, out);
  text.Op("map", {x, y}, {8, 64}, R"("fn":"add")");
  const std::string facts = FactsText(text.Read());
  CHECK(facts.find("down [stream 64] [latent 8]") != facts.npos);
}

TEST_CASE("that a token is a certain one is no lookup of the head") {
  ProgramText text;
  const ValueId head = text.Input("param", "head", {16, 24});
  const ValueId x = text.Input("data", "x", {3, 16});
  const ValueId next = text.Op("reduce", {text.MatMul(x, head)}, {3},
                               R"("axes":[1],)"
                               R"("fn":"argmax")");
  const ValueId end = text.Op("const", {}, {});
  text.Op("map", {next, end}, {3}, R"("fn":"eq")");
  CHECK(FactsText(text.Read()) == "head [in 16] [out 24]\n");
}

}  // namespace
}  // namespace shardc::program
