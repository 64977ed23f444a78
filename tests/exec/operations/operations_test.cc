// Compares the bytes that operations send with closed formulas, and checks
// settings and layouts that must not change a result.
#include "exec/operations/operation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "exec/attention/staging.h"
#include "exec/machine/mesh_fixture.h"
#include "exec/machine/random.h"
#include "floats/convert.h"

namespace shardc::exec {
namespace {

struct Sizes {
  int64_t batch, rows, keys, heads, key_heads, dim;
};

AttentionProblem Problem(const Sizes& n) {
  AttentionProblem out;
  out.query = Normal({n.batch, n.rows, n.heads, n.dim}, 1);
  out.key = Normal({n.batch, n.keys, n.key_heads, n.dim}, 2);
  out.value = Normal({n.batch, n.keys, n.key_heads, n.dim}, 3);
  out.options.causal = true;
  return out;
}

AttentionSpecs Specs(const Spec& query, const Spec& key) {
  AttentionSpecs out;
  out.query = out.output = query;
  out.key = out.value = key;
  return out;
}

OperationOutcome RunOn(Machine& machine, std::string_view name,
                       const AttentionProblem& problem,
                       const AttentionSpecs& specs,
                       const OperationSettings& settings = {}) {
  const Operation* operation = FindOperation(name);
  REQUIRE(operation != nullptr);
  OperationOutcome out = operation->run(machine, problem, specs, settings);
  REQUIRE_MESSAGE(!out.unsupported, out.unsupported->message);
  return out;
}

TEST_CASE("a ring sends (n-1)(b_k + b_v) from every device") {
  for (int64_t n : {2, 4, 8, 16}) {
    CAPTURE(n);
    const SimMesh mesh = SimMeshOf({{"dp", 2}, {"sp", n}});
    Machine machine(mesh);
    const Sizes size = {2, 2 * n, 2 * n, 4, 2, 8};
    RunOn(machine, "ring", Problem(size),
          Specs({{"dp"}, {"sp"}}, {{"dp"}, {"sp"}}));
    const int64_t block = size.keys / n * size.key_heads * size.dim * 4;
    CHECK(machine.ledger().MostSent(Collective::kPpermute) ==
          (n - 1) * 2 * block);
    CHECK(machine.ledger().TotalSent(Collective::kPpermute) ==
          mesh.devices() * (n - 1) * 2 * block);
    CHECK(machine.ledger().TotalSent(Collective::kAllGather) == 0);
  }
}

TEST_CASE("length-split decoding sends 2(n-1)/n * 4 B H (D + 2)") {
  for (int64_t n : {2, 4, 8, 16}) {
    CAPTURE(n);
    const SimMesh mesh = SimMeshOf({{"sp", n}});
    const Sizes size = {2, 1, 4 * n, 8, 2, 6};
    const auto specs = Specs({}, {{}, {"sp"}});
    {
      Machine machine(mesh);
      RunOn(machine, "flash_decoding", Problem(size), specs);
      CHECK(machine.ledger().MostSent(Collective::kAllReduce) ==
            2 * (n - 1) * 4 * size.batch * size.heads * (size.dim + 2) / n);
    }
    OperationSettings gathered;
    gathered.merge = DecodeMerge::kAllGather;
    Machine machine(mesh);
    RunOn(machine, "flash_decoding", Problem(size), specs, gathered);
    CHECK(machine.ledger().MostSent(Collective::kAllGather) ==
          (n - 1) * 4 * size.batch * size.heads * (size.dim + 1));
  }
}

// For one sink exp(sink - logit) would overflow, for the other exp(logit -
// sink). The length is sharded over an axis of its own, or over an axis that
// also shards the query's heads.
TEST_CASE("sinks far above and below the logits stay finite") {
  const SimMesh mesh = SimMeshOf({{"sp", 4}});
  for (const Spec& query : {Spec{}, Spec{{}, {}, {"sp"}}}) {
    for (const float sink : {500.0f, -500.0f}) {
      CAPTURE(query.size());
      AttentionProblem problem = Problem({2, 1, 16, 4, 2, 8});
      problem.softmax_aux = Buffer::Zeros({4}, Dtype::kF32);
      problem.softmax_aux->real.assign(4, sink);
      Machine machine(mesh);
      const OperationOutcome out =
          RunOn(machine, "flash_decoding", problem, Specs(query, {{}, {"sp"}}));
      float largest = 0;
      for (const Buffer& local : out.output.local) {
        for (const float x : local.real) {
          CHECK(std::isfinite(x));
          largest = std::max(largest, std::abs(x));
        }
      }
      CHECK((largest < 1e-6f) == (sink > 0));
    }
  }
}

TEST_CASE("decode context parallelism gathers lse and scatters the output") {
  for (int64_t n : {2, 4, 8, 16}) {
    CAPTURE(n);
    const SimMesh mesh = SimMeshOf({{"tp", n}});
    const Sizes size = {2, 1, 2 * n, 16, 1, 4};
    Machine machine(mesh);
    RunOn(machine, "flash_decoding", Problem(size),
          Specs({{}, {}, {"tp"}}, {{}, {"tp"}}));
    const int64_t rows = size.batch * size.heads;
    const int64_t query = rows / n * size.dim * 4;
    CHECK(machine.ledger().MostSent(Collective::kAllGather) ==
          (n - 1) * query + (n - 1) * 4 * rows);
    CHECK(machine.ledger().MostSent(Collective::kReduceScatter) ==
          (n - 1) * 4 * rows * size.dim / n);
  }
}

TEST_CASE("ulysses sends (n-1)/n (b_q + b_k + b_v + b_o)") {
  for (int64_t n : {2, 4, 8, 16}) {
    CAPTURE(n);
    const SimMesh mesh = SimMeshOf({{"sp", n}});
    const Sizes size = {1, 2 * n, 2 * n, 16, 16, 4};
    Machine machine(mesh);
    RunOn(machine, "ulysses", Problem(size), Specs({{}, {"sp"}}, {{}, {"sp"}}));
    const int64_t local = 2 * size.heads * size.dim * 4;
    CHECK(machine.ledger().MostSent(Collective::kAllToAll) ==
          4 * local * (n - 1) / n);
  }
}

TEST_CASE(
    "ulysses over a ring exchanges over one axis and passes keys over the "
    "other") {
  for (const bool major : {false, true}) {
    for (const auto& [u, r] : {std::pair{2, 4}, std::pair{4, 2}}) {
      CAPTURE(major);
      const SimMesh mesh = SimMeshOf({{"u", u}, {"r", r}});
      const Sizes size = {1, 16, 16, 8, 8, 4};
      OperationSettings settings;
      settings.ring_axes = {"r"};
      const AxisGroup axes = major ? AxisGroup{"u", "r"} : AxisGroup{"r", "u"};
      Machine machine(mesh);
      RunOn(machine, "ulysses", Problem(size), Specs({{}, axes}, {{}, axes}),
            settings);
      const int64_t local = 2 * size.heads * size.dim * 4;
      CHECK(machine.ledger().MostSent(Collective::kAllToAll) ==
            4 * local * (u - 1) / u);
      CHECK(machine.ledger().MostSent(Collective::kPpermute) ==
            (r - 1) * 2 * local);
      // There may be fewer heads than shards of the length: only the u shards
      // of the all_to_all have to divide the heads.
      const Sizes few = {1, 16, 16, u, u, 4};
      Machine again(mesh);
      RunOn(again, "ulysses", Problem(few), Specs({{}, axes}, {{}, axes}),
            settings);
    }
  }
}

// Computes o [T, H D] times w [H D, E] with the heads sharded: the partial sums
// of the devices must be added.
TEST_CASE("a head-split output projection is one all_reduce") {
  for (int64_t n : {2, 4, 8, 16}) {
    CAPTURE(n);
    const SimMesh mesh = SimMeshOf({{"tp", n}});
    const int64_t tokens = 3, width = 32, embed = 5;
    const ShardedTensor o =
        Scatter(mesh, Normal({tokens, width}, 4), {{}, {"tp"}});
    const ShardedTensor w =
        Scatter(mesh, Normal({width, embed}, 5), {{"tp"}, {}});
    PerDevice parts;
    for (size_t d = 0; d < o.local.size(); ++d) {
      Buffer y = Buffer::Zeros({tokens, embed}, Dtype::kF32);
      const int64_t inner = o.local[d].shape[1];
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t e = 0; e < embed; ++e) {
          for (int64_t i = 0; i < inner; ++i) {
            y.real[static_cast<size_t>(t * embed + e)] +=
                o.local[d].real[static_cast<size_t>(t * inner + i)] *
                w.local[d].real[static_cast<size_t>(i * embed + e)];
          }
        }
      }
      parts.push_back(std::move(y));
    }
    Machine machine(mesh);
    const PerDevice sum =
        AllReduce(machine, {"tp"}, parts, Reduce::kSum, "output");
    CHECK(machine.ledger().TotalSent(Collective::kAllReduce) ==
          2 * (n - 1) * tokens * embed * 4);
    const Buffer whole_o = Normal({tokens, width}, 4);
    const Buffer whole_w = Normal({width, embed}, 5);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t e = 0; e < embed; ++e) {
        double want = 0;
        for (int64_t i = 0; i < width; ++i) {
          want += double{whole_o.real[static_cast<size_t>(t * width + i)]} *
                  whole_w.real[static_cast<size_t>(i * embed + e)];
        }
        CHECK(sum[0].real[static_cast<size_t>(t * embed + e)] ==
              doctest::Approx(want).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("orders of a ring are permutations") {
  for (SequenceOrder order :
       {SequenceOrder::kContiguous, SequenceOrder::kZigZag,
        SequenceOrder::kStriped}) {
    for (int64_t n : {1, 2, 3, 4, 8}) {
      const auto out = RingOrder(order, 4 * n, n);
      const std::set<int64_t> seen(out.begin(), out.end());
      CHECK(static_cast<int64_t>(seen.size()) == 4 * n);
      CHECK(*seen.begin() == 0);
      CHECK(*seen.rbegin() == 4 * n - 1);
    }
  }
  CHECK(RingOrder(SequenceOrder::kZigZag, 8, 2) ==
        std::vector<int64_t>{0, 1, 6, 7, 2, 3, 4, 5});
  CHECK(RingOrder(SequenceOrder::kStriped, 6, 2) ==
        std::vector<int64_t>{0, 2, 4, 1, 3, 5});
}

TEST_CASE("zig-zag gives every rank the same number of causal pairs") {
  for (int64_t n : {2, 3, 4, 8}) {
    const int64_t length = 6 * n;
    const auto order = RingOrder(SequenceOrder::kZigZag, length, n);
    std::set<int64_t> pairs;
    for (int64_t rank = 0; rank < n; ++rank) {
      int64_t count = 0;
      for (int64_t i = 0; i < length / n; ++i) {
        count += order[static_cast<size_t>(rank * length / n + i)] + 1;
      }
      pairs.insert(count);
    }
    CHECK(pairs.size() == 1);
  }
}

TEST_CASE("results depend on neither threads nor the devices' numbering") {
  const Sizes size = {4, 16, 16, 8, 4, 8};
  const AttentionProblem problem = Problem(size);
  const Spec spec = {{"dp"}, {"sp"}, {"tp"}, {}};
  struct Row {
    const char* name;
    OperationSettings settings;
  };
  OperationSettings bits, softmax;
  bits.dot_bits = 8;
  softmax.softmax_dtype = Dtype::kBF16;
  const Row rows[] = {
      {"vanilla", {}},      {"flash_attn2", {}}, {"ring", {}},
      {"ulysses", {}},      {"vanilla", bits},   {"flash_attn2", bits},
      {"vanilla", softmax},
  };
  for (const auto& row : rows) {
    const auto& name = row.name;  // a binding could not be captured
    const auto& settings = row.settings;
    CAPTURE(name);
    std::optional<Buffer> first;
    for (const auto& axes :
         std::vector<std::vector<std::pair<std::string, int64_t>>>{
             {{"dp", 2}, {"sp", 2}, {"tp", 2}},
             {{"tp", 2}, {"sp", 2}, {"dp", 2}},
             {{"sp", 2}, {"rp", 3}, {"dp", 2}, {"tp", 2}}}) {
      for (int threads : {1, 5}) {
        const SimMesh mesh = SimMeshOf(axes);
        Machine machine(mesh, threads);
        const auto outcome =
            RunOn(machine, name, problem, Specs(spec, spec), settings);
        LayoutError why;
        const auto whole = Gather(mesh, outcome.output, why);
        REQUIRE_MESSAGE(whole, why.message);
        if (!first) first = *whole;
        CHECK(BitEqual(*whole, *first));
      }
    }
  }
}

TEST_CASE("each row uses its own table of blocks") {
  OperationSettings settings;
  settings.block_mask = BlockMask::kCustom;
  settings.blocksize_q = settings.blocksize_k = 4;
  AttentionProblem problem = Problem({2, 8, 8, 4, 2, 8});
  problem.options.causal = false;
  Buffer table = Buffer::Zeros({2, 1, 2, 2}, Dtype::kBool);
  table.integers = {1, 1, 1, 1, 1, 0, 0, 1};
  problem.blocks = table;
  const auto run = [&](const SimMesh& mesh) {
    Machine machine(mesh);
    const OperationOutcome out = RunOn(machine, "blocksparse", problem,
                                       Specs({{"dp"}}, {{"dp"}}), settings);
    LayoutError why;
    const auto whole = Gather(mesh, out.output, why);
    REQUIRE_MESSAGE(whole, why.message);
    return *whole;
  };
  CHECK(BitEqual(run(SimMeshOf({{"dp", 1}})), run(SimMeshOf({{"dp", 2}}))));
}

TEST_CASE("a program that cannot be formed names the axis at fault") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"sp", 4}, {"tp", 4}});
  struct Row {
    const char* operation;
    Sizes size;
    Spec query, key;
    const char* axis;
  };
  const std::vector<Row> rows = {
      {"ring", {2, 1, 16, 8, 4, 8}, {{"dp"}, {"sp"}}, {{"dp"}, {"sp"}}, "sp"},
      {"ring", {2, 16, 16, 8, 4, 8}, {{"dp"}, {"sp"}}, {{"dp"}}, "sp"},
      {"ring", {2, 16, 16, 8, 2, 8}, {{}, {}, {"tp"}}, {}, "tp"},
      {"ring",
       {2, 16, 16, 8, 4, 8},
       {{"dp"}, {}, {}, {"tp"}},
       {{"dp"}, {}, {}, {"tp"}},
       "tp"},
      {"ulysses",
       {2, 16, 16, 6, 6, 8},
       {{"dp"}, {"sp"}},
       {{"dp"}, {"sp"}},
       "sp"},
      {"flash_attn2", {3, 16, 16, 8, 4, 8}, {{"dp"}}, {{"dp"}}, "dp"},
      {"vanilla", {2, 16, 16, 8, 4, 8}, {{"ep"}}, {}, "ep"},
      {"blocksparse", {2, 16, 16, 8, 2, 8}, {{}, {}, {"tp"}}, {}, "tp"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.operation);
    CAPTURE(SpecText(row.query));
    Machine machine(mesh);
    const auto outcome =
        FindOperation(row.operation)
            ->run(machine, Problem(row.size), Specs(row.query, row.key), {});
    REQUIRE(outcome.unsupported);
    CHECK(outcome.unsupported->axis == row.axis);
    CHECK_FALSE(outcome.unsupported->message.empty());
  }
}

TEST_CASE("a refusal explains what the operation needs") {
  const SimMesh mesh = SimMeshOf({{"sp", 4}, {"tp", 4}});
  struct Row {
    const char* operation;
    Sizes size;
    Spec query, key;
    const char *message, *help;  // that it begins with
  };
  const Spec by_length = {{}, {"sp"}}, by_head = {{}, {}, {"tp"}};
  const Row rows[] = {
      {"ring",
       {2, 1, 16, 8, 4, 8},
       by_length,
       by_length,
       "one query cannot be split over `sp`",
       "set decode_query_sequence: []"},
      {"ring",
       {2, 2, 16, 8, 4, 8},
       by_length,
       by_length,
       "query: dimension 1 of [2, 2, 8, 8] does not divide into 4 parts",
       "split both lengths over axes"},
      {"ring",
       {2, 16, 16, 8, 2, 8},
       by_head,
       by_head,
       "2 key heads do not divide over `tp` (4 parts)",
       "this operation lays key and value out"},
      {"flash_attn2",
       {2, 16, 16, 8, 2, 8},
       by_head,
       by_head,
       "key: dimension 2 of [2, 16, 2, 8] does not divide into 4 parts",
       "split it over axes"},
      {"flash_decoding",
       {4, 1, 16, 8, 4, 8},
       {{"sp"}},
       {{}, {"sp"}},
       "the key's length shares axes with the query's batch",
       ""},
      {"flash_decoding",
       {4, 1, 16, 8, 4, 8},
       {{}, {}, {}, {"sp"}},
       {{}, {"sp"}},
       "query and key split the head dimension differently",
       "split both over the same axes"},
      {"ring",
       {2, 1, 16, 8, 4, 8},
       {},
       by_length,
       "the query's length is split over",
       "decode with flash_decoding"},
      {"ring",
       {2, 16, 16, 8, 4, 8},
       {},
       by_length,
       "the query's length is split over",
       "a ring needs the same axes"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.operation);
    Machine machine(mesh);
    const auto outcome =
        FindOperation(row.operation)
            ->run(machine, Problem(row.size), Specs(row.query, row.key), {});
    REQUIRE(outcome.unsupported);
    CAPTURE(outcome.unsupported->message);
    CAPTURE(outcome.unsupported->help);
    CHECK(outcome.unsupported->message.starts_with(row.message));
    CHECK(outcome.unsupported->help.starts_with(row.help));
  }
  // In bhtd heads come before tokens.
  AttentionProblem problem = Problem({2, 8, 2, 16, 16, 8});
  problem.layout = Layout::kBhtd;
  const Spec heads = {{}, {"tp"}};
  Machine machine(mesh);
  const auto outcome =
      FindOperation("ring")->run(machine, problem, Specs(heads, heads), {});
  REQUIRE(outcome.unsupported);
  CHECK(outcome.unsupported->message ==
        "2 key heads do not divide over `tp` (4 parts)");
}

TEST_CASE("outputs have the inputs' common dtype, or the runtime dtype") {
  struct Row {
    Dtype query, key;
    std::optional<Dtype> runtime;
    Dtype expected;
  };
  const Row rows[] = {
      {Dtype::kBF16, Dtype::kBF16, {}, Dtype::kBF16},
      {Dtype::kBF16, Dtype::kF32, {}, Dtype::kF32},
      {Dtype::kF16, Dtype::kBF16, {}, Dtype::kF32},
      {Dtype::kF32, Dtype::kF16, {}, Dtype::kF32},
      {Dtype::kF32, Dtype::kF32, Dtype::kF16, Dtype::kF16},
  };
  const auto rounded = [](Buffer x, Dtype dtype) {
    x.dtype = dtype;
    for (float& v : x.real) v = RoundTo(dtype, v);
    return x;
  };
  for (const Operation* operation : Operations()) {
    if (operation->latent) continue;
    for (const Row& row : rows) {
      CAPTURE(operation->name);
      AttentionProblem problem = Problem({2, 1, 8, 4, 2, 8});
      problem.query = rounded(problem.query, row.query);
      problem.key = rounded(problem.key, row.key);
      problem.value = rounded(problem.value, row.key);
      OperationSettings settings;
      settings.runtime_dtype = row.runtime;
      const SimMesh mesh = SimMeshOf({{"tp", 2}});
      Machine machine(mesh);
      const auto got =
          RunOn(machine, operation->name, problem,
                Specs({{}, {}, {"tp"}}, {{}, {}, {"tp"}}), settings);
      CHECK(got.output.dtype == row.expected);
      CHECK(got.output.local[1].dtype == row.expected);
      // Rounding inputs by hand changes nothing.
      problem.query = rounded(problem.query, row.expected);
      problem.key = rounded(problem.key, row.expected);
      problem.value = rounded(problem.value, row.expected);
      Machine again(mesh);
      const auto same = RunOn(again, operation->name, problem,
                              Specs({{}, {}, {"tp"}}, {{}, {}, {"tp"}}));
      CHECK(BitEqual(got.output.local[1], same.output.local[1]));
    }
  }
}

}  // namespace
}  // namespace shardc::exec
