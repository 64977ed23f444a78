#include "step/lower.h"
#include "source/size.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "step/mlp_graph.h"

namespace shardc::step {
namespace {

struct Count {
  std::array<int64_t, kCollectiveCount> number{}, bytes{};
};

// Counts the collectives of a phase whose axes are `axes`; if `axes` is empty,
// all collectives.
Count Counted(const Graph& graph, const Program& program, const Sizes& sizes,
              Phase phase, const AxisGroup& axes = {}) {
  Count out;
  for (const Instruction& step : program.code) {
    if (step.kind != InstructionKind::kCollective) continue;
    if (graph.ops[AsIndex(step.op)].phase != phase) continue;
    if (!axes.empty() && program.axes.Group(step.axes) != axes) continue;
    const auto kind = static_cast<size_t>(step.collective);
    ++out.number[kind];
    out.bytes[kind] += SentBytes(graph, program, step, sizes, 2);
  }
  return out;
}

std::string Text(const Count& count) {
  std::string out;
  for (size_t kind = 0; kind < kCollectiveCount; ++kind) {
    if (count.number[kind] == 0) continue;
    if (!out.empty()) out += ' ';
    out += std::string(CollectiveName(static_cast<Collective>(kind))) + ' ' +
           std::to_string(count.number[kind]) + ' ' +
           std::to_string(count.bytes[kind]);
  }
  return out;
}

Program Lowered(const GraphMaker& make, const AxisSizes& axes,
                std::vector<Spec> parameters,
                ShardingConstraints constraints = UsualConstraints(),
                bool keep_gathered = false) {
  LowerRequest request{.graph = &make.graph,
                       .mesh = MeshNamed(axes),
                       .sizes = make.sizes,
                       .element_bytes = 2,
                       .keep_gathered = keep_gathered,
                       .parameters = std::move(parameters),
                       .constraints = std::move(constraints)};
  Unsupported why;
  std::optional<Program> program = Lower(request, why);
  REQUIRE_MESSAGE(program.has_value(), why.message);
  return *program;
}

const Spec kUp = {{"tp"}, {"fsdp"}}, kDown = {{"fsdp"}, {"tp"}};

TEST_CASE("tensor parallel: an all_reduce each way") {
  const Mlp mlp;
  const Program program = Lowered(mlp.make, {{"tp", 4}}, {kUp, kDown});
  const auto text = [&](Phase phase) {
    return Text(Counted(mlp.make.graph, program, mlp.make.sizes, phase));
  };
  // The result has V = 8 * 16 * 32 * 2 bytes, and a device sends 2 * 3/4 of
  // that.
  CHECK(text(Phase::kForward) == "all_reduce 1 12288");
  CHECK(text(Phase::kBackward) == "all_reduce 1 12288");
  CHECK(program.conflicts.empty());
}

TEST_CASE("sequence parallel: pairs of the same volume, and once more") {
  const Mlp mlp;
  ShardingConstraints constraints = UsualConstraints();
  for (const char* role : {"resid", "normed"}) {
    constraints.overrides.push_back({role, "QUERY_LENGTH", {"tp"}});
  }
  Program program = Lowered(mlp.make, {{"tp", 4}}, {kUp, kDown}, constraints);
  const auto text = [&](Phase phase) {
    return Text(Counted(mlp.make.graph, program, mlp.make.sizes, phase));
  };
  CHECK(text(Phase::kForward) == "all_gather 1 6144 reduce_scatter 1 6144");
  // The input is gathered once more for the gradient of its weight.
  CHECK(text(Phase::kBackward) == "all_gather 2 12288 reduce_scatter 1 6144");
  program = Lowered(mlp.make, {{"tp", 4}}, {kUp, kDown}, constraints, true);
  CHECK(text(Phase::kBackward) == "all_gather 1 6144 reduce_scatter 1 6144");
}

TEST_CASE("fully sharded weights cost half as much again") {
  const Mlp mlp;
  const auto total = [&](const Program& program) {
    int64_t out = 0;
    for (const Instruction& step : program.code) {
      out += SentBytes(mlp.make.graph, program, step, mlp.make.sizes, 2);
    }
    return out;
  };
  const Program plain = Lowered(mlp.make, {{"dp", 4}}, {{{}, {}}, {{}, {}}});
  const Program sharded = Lowered(mlp.make, {{"fsdp", 4}}, {kUp, kDown});
  CHECK(Text(Counted(mlp.make.graph, sharded, mlp.make.sizes,
                     Phase::kForward)) == "all_gather 2 6144");
  // The backward pass gathers both weights again, and reduce-scatters both
  // gradients.
  CHECK(Text(Counted(mlp.make.graph, sharded, mlp.make.sizes,
                     Phase::kBackward)) ==
        "all_gather 2 6144 reduce_scatter 2 6144");
  CHECK(2 * total(sharded) == 3 * total(plain));
}

TEST_CASE("hybrid: the shard of a gradient is summed over replicas") {
  const Mlp mlp;
  const Program program =
      Lowered(mlp.make, {{"dp", 2}, {"fsdp", 2}}, {kUp, kDown});
  CHECK(Text(Counted(mlp.make.graph, program, mlp.make.sizes, Phase::kBackward,
                     {"fsdp"})) == "all_gather 2 4096 reduce_scatter 2 4096");
  CHECK(Text(Counted(mlp.make.graph, program, mlp.make.sizes, Phase::kBackward,
                     {"dp"})) == "all_reduce 2 4096");
  for (ValueId gradient : mlp.make.graph.gradients) {
    const Sharding& sharding =
        program.slots[static_cast<size_t>(program.result[AsIndex(gradient)])]
            .sharding;
    CHECK(sharding.partial == 0);
  }
  // Each use of a weight is a conflict, because the batch's axis also shards
  // the weight's hidden size.
  CHECK(program.conflicts.size() == 6);
}

TEST_CASE("a small part of the weights moves only where that is cheaper") {
  // With one token and large weights it is cheaper to reshard the activation
  // than to gather the weights.
  Mlp mlp;
  mlp.make.sizes = {8, 1, 512, 2048};
  LowerRequest request{.graph = &mlp.make.graph,
                       .mesh = MeshNamed({{"fsdp", 4}}),
                       .sizes = mlp.make.sizes,
                       .element_bytes = 2,
                       .policy = Policy::kCost,
                       .parameters = {kUp, kDown},
                       .constraints = UsualConstraints()};
  Unsupported why;
  const std::optional<Program> by_cost = Lower(request, why);
  request.policy = Policy::kPublished;
  const std::optional<Program> published = Lower(request, why);
  REQUIRE(by_cost.has_value());
  REQUIRE(published.has_value());
  const auto total = [&](const Program& program) {
    int64_t out = 0;
    for (const Instruction& step : program.code) {
      if (mlp.make.graph.ops[AsIndex(step.op)].phase == Phase::kForward) {
        out += SentBytes(mlp.make.graph, program, step, mlp.make.sizes, 2);
      }
    }
    return out;
  };
  CHECK(total(*by_cost) * 10 < total(*published));
  bool cheaper = false;
  for (const ShardingConflict& conflict : published->conflicts) {
    cheaper = cheaper || conflict.least < conflict.bytes;
  }
  CHECK(cheaper);
}

TEST_CASE(
    "the KV gradient is partial over axes that shard query heads further") {
  GraphMaker make;
  const LabelId b = make.Label("b", 4, "BATCH");
  const LabelId n = make.Label("n", 8, "HEAD");
  const LabelId k = make.Label("k", 2, "KV_HEAD");
  const LabelId h = make.Label("h", 4, "HEAD_DIM");
  const LabelId nh = make.Label("n h", 32, "", {n, h});
  const ValueId x = make.Data({b, nh}, "resid", false);
  const ValueId heads = make.Add({.kind = OpKind::kSplit,
                                  .in = {x},
                                  .constraint = "q",
                                  .attributes = LabelAttributes{nh}},
                                 {b, n, h});
  const ValueId summed = make.Add({.kind = OpKind::kGroupSum,
                                   .in = {heads},
                                   .attributes = HeadGroupAttributes{k, n}},
                                  {b, k, h});
  const ValueId split = make.Add({.kind = OpKind::kRepeat,
                                  .in = {summed},
                                  .constraint = "q",
                                  .attributes = HeadGroupAttributes{k, n}},
                                 {b, n, h});
  const Program program = Lowered(make, {{"tp1", 2}, {"tp2", 2}}, {}, [] {
    ShardingConstraints constraints = UsualConstraints();
    constraints.by_axis[3] = {"tp1", "tp2"};
    return constraints;
  }());
  const auto text = [&](ValueId value, bool first) {
    std::string out;
    for (const Slot& slot : program.slots) {
      if (slot.value != value) continue;
      out = ShardingText(make.graph, program.axes, value, slot.sharding);
      if (first) break;
    }
    return out;
  };
  CHECK(text(heads, false) == "n:tp1+tp2");
  CHECK(text(summed, true) == "k:tp1 pending tp2");
  // The value is reduced before it is repeated. Sharding the result over one
  // more axis along n sends nothing.
  CHECK(text(summed, false) == "k:tp1");
  CHECK(text(split, true) == "n:tp1+tp2");
  CHECK(Text(Counted(make.graph, program, make.sizes, Phase::kForward)) ==
        "all_reduce 1 32");
}

// A layer of four experts. Each row of the batch has 4 tokens and a queue of
// two places for each expert.
struct ExpertLayer {
  ExpertLayer() {
    const LabelId b = make.Label("b", 8, "BATCH");
    const LabelId t = make.Label("t", 4, "QUERY_LENGTH");
    const LabelId d = make.Label("d", 16, "EMBED");
    const LabelId e = make.Label("e", 4, "EXPERT");
    const LabelId c = make.Label("c", 2);
    const LabelId f = make.Label("f", 8, "MLP_INTERMEDIATE");
    const ValueId y = make.Data({b, t, d}, "normed", false);
    const ValueId slots = make.Data({b, t, e, c}, "sel", false);
    const ValueId up = make.Parameter("up", {e, f, d});
    const ValueId down = make.Parameter("down", {e, d, f});
    const std::vector<LabelId> rows = {b, e, c, d};
    const ValueId sent = make.Einsum(slots, y, rows, "moe_tok");
    const ValueId there = make.Add(
        {.kind = OpKind::kIdentity, .in = {sent}, .constraint = "moe_exp"},
        rows);
    const ValueId inner = make.Einsum(there, up, {b, e, c, f}, "moe_mlp");
    const ValueId out = make.Einsum(inner, down, rows, "moe_exp_out");
    const ValueId back = make.Add(
        {.kind = OpKind::kIdentity, .in = {out}, .constraint = "moe_tok_out"},
        rows);
    make.Einsum(back, slots, {b, t, d}, "resid");
  }
  GraphMaker make;
};

TEST_CASE("the rows of a token are added before they are reduced over tp") {
  // The result has 8 * 4 * 16 elements of 2 bytes, the queues twice as many.
  constexpr int64_t kTokens = 1024, kQueues = 2048;
  struct Case {
    const char* title;
    AxisSizes mesh;
    bool sends;  // whether ep shards the batch too
    std::string sent;
  };
  const Case cases[] = {
      {"each device has a part of every expert",
       {{"tp", 4}},
       false,
       "all_reduce 1 " + std::to_string(2 * kTokens * 3 / 4)},
      {"each device has some of the experts",
       {{"ep", 4}},
       false,
       "all_reduce 1 " + std::to_string(2 * kTokens * 3 / 4)},
      {"one collective reduces over both axes",
       {{"ep", 2}, {"tp", 2}},
       false,
       "all_reduce 1 " + std::to_string(2 * kTokens * 3 / 4)},
      {"tokens reach their experts by all_to_all",
       {{"ep", 4}},
       true,
       "all_to_all 2 " + std::to_string(2 * kQueues / 4 * 3 / 4)},
      {"the rows are reduced before they are sent back",
       {{"ep", 2}, {"tp", 2}},
       true,
       "all_reduce 1 " + std::to_string(2 * kQueues / 2 / 2) +
           " all_to_all 2 " + std::to_string(2 * kQueues / 2 / 2)}};
  for (const Case& one : cases) {
    CAPTURE(one.title);
    const ExpertLayer layer;
    ShardingConstraints constraints = UsualConstraints();
    if (one.sends) constraints.by_axis[0] = {"fsdp", "dp", "ep"};
    const Program program =
        Lowered(layer.make, one.mesh,
                {{{"ep"}, {"tp"}, {}}, {{"ep"}, {}, {"tp"}}}, constraints);
    CHECK(Text(Counted(layer.make.graph, program, layer.make.sizes,
                       Phase::kForward)) == one.sent);
  }
}

// The cotangent of the weights of a token's experts is a product of the rows in
// the queues, which are partial over tp, and of the cotangent of the hidden
// state, which is sharded over tp. The rows are twice as many.
TEST_CASE("a hidden state is gathered for rows that stay partial") {
  GraphMaker make;
  const LabelId b = make.Label("b", 8, "BATCH");
  const LabelId t = make.Label("t", 4, "QUERY_LENGTH");
  const LabelId e = make.Label("e", 8, "EXPERT");
  const LabelId slot = make.Label("slot", 1, "");
  const LabelId d = make.Label("d", 16, "EMBED");
  const LabelId f = make.Label("f", 32, "MLP_INTERMEDIATE");
  make.graph.common = {.batch = b, .query = t, .slot = slot, .experts = e};
  const ValueId inner = make.Data({b, e, slot, f}, "moe_mlp", false);
  const ValueId g = make.Data({b, t, d}, "resid", false);
  const ValueId down = make.Parameter("down", {e, d, f});
  const ValueId rows = make.Einsum(inner, down, {b, e, slot, d});
  make.phase = Phase::kBackward;
  make.Einsum(g, rows, {b, t, e, slot});
  ShardingConstraints constraints = UsualConstraints();
  constraints.by_axis[7] = {"tp"};  // EMBED
  const Program program =
      Lowered(make, {{"tp", 4}}, {{{}, {}, {"tp"}}}, constraints);
  CHECK(Text(Counted(make.graph, program, make.sizes, Phase::kBackward)) ==
        "all_gather 1 " + std::to_string(8 * 4 * 16 * 2 * 3 / 4));
}

TEST_CASE("gradients that are partial over the same axes are reduced once") {
  GraphMaker make;
  const LabelId b = make.Label("b", 8, "BATCH");
  const LabelId d = make.Label("d", 16, "EMBED");
  const LabelId f = make.Label("f", 8, "MLP_INTERMEDIATE");
  const ValueId y = make.Data({b, d}, "normed", false);
  const ValueId inner = make.Data({b, f}, "mlp", false);
  const ValueId first = make.Parameter("first", {f, d});
  const ValueId second = make.Parameter("second", {f, d});
  make.phase = Phase::kBackward;
  const ValueId one = make.Einsum(inner, first, {b, d});
  const ValueId two = make.Einsum(inner, second, {b, d});
  make.Sum({y, one, two}, {b, d}, "resid");
  const Program program =
      Lowered(make, {{"tp", 4}}, {{{"tp"}, {}}, {{"tp"}, {}}});
  // The sum of both has 8 * 16 elements of 2 bytes.
  CHECK(Text(Counted(make.graph, program, make.sizes, Phase::kBackward)) ==
        "all_reduce 1 " + std::to_string(2 * 8 * 16 * 2 * 3 / 4));
}

}  // namespace
}  // namespace shardc::step
