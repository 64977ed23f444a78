#include <doctest/doctest.h>

#include <array>

#include <cmath>

#include "dense/array.h"
#include "dense/attention.h"
#include "exec/machine/mesh_fixture.h"
#include "exec/machine/random.h"
#include "exec/operations/operation.h"
#include "exec/pages/paged_program.h"
#include "floats/convert.h"
#include "verify/cases/problem_data.h"
#include "verify/faults/injection.h"

namespace shardc::exec {
namespace {

using dense::Array;
using verify::Fault;

size_t U(int64_t i) { return static_cast<size_t>(i); }

struct Sizes {
  int64_t batch, queries, keys, heads, key_heads, dim;
};

// Returns numbers whose mean differs between heads and between batch rows, so
// that an exchange changes results.
Buffer Data(const Shape& shape, Dtype dtype, uint64_t seed) {
  Buffer out = Buffer::Zeros(shape, dtype);
  for (int64_t i = 0; i < out.Elements(); ++i) {
    const Shape at = PositionOf(shape, i);
    const double shift =
        0.3 * static_cast<double>(at[2] % 5) - 0.2 * static_cast<double>(at[0]);
    out.real[U(i)] = RoundTo(
        dtype, Random(seed).Normal(static_cast<uint64_t>(i)) * 0.5 + shift);
  }
  return out;
}

AttentionProblem Problem(const Sizes& n, Dtype dtype = Dtype::kF32) {
  AttentionProblem p;
  p.query = Data({n.batch, n.queries, n.heads, n.dim}, dtype, 1);
  p.key = Data({n.batch, n.keys, n.key_heads, n.dim}, dtype, 2);
  p.value = Data({n.batch, n.keys, n.key_heads, n.dim}, dtype, 3);
  p.options.causal = true;
  return p;
}

Array Dense(const Buffer& x) {
  return {x.shape, std::vector<double>(x.real.begin(), x.real.end())};
}

dense::Inputs InputsOf(const AttentionProblem& p) {
  dense::Inputs in;
  in.query = Dense(p.query);
  in.key = Dense(p.key);
  in.value = Dense(p.value);
  if (p.key_lengths) {
    in.key_lengths.assign(p.key_lengths->integers.begin(),
                          p.key_lengths->integers.end());
  }
  if (p.softmax_aux) in.sinks = Dense(*p.softmax_aux);
  return in;
}

struct Ran {
  OperationOutcome outcome;
  Buffer output;
  Ledger ledger;
};

Ran Run(std::string_view name, const SimMesh& mesh, const AttentionProblem& p,
        const AttentionSpecs& specs, Fault fault = Fault::kNone) {
  Machine machine(mesh, 1, verify::InjectionOf(fault).seams);
  OperationSettings settings;
  settings.page_size = 4;
  settings.blocksize_k = 8;
  Ran ran;
  const Operation* operation = FindOperation(name);
  REQUIRE(operation != nullptr);
  ran.outcome = operation->run(machine, p, specs, settings);
  ran.ledger = machine.ledger();
  if (!ran.outcome.unsupported) {
    LayoutError why;
    auto whole = Gather(mesh, ran.outcome.output, why);
    REQUIRE_MESSAGE(whole, why.message);
    ran.output = *whole;
  }
  return ran;
}

double Error(const Buffer& got, const Array& want) {
  double worst = 0;
  for (size_t i = 0; i < got.real.size(); ++i) {
    const double error = std::abs(double{got.real[i]} - want.data[i]);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

constexpr std::string_view kNames[] = {
    "ragged_page_attention_v2", "ragged_page_attention_v3", "unified_attention",
    "paged_flash_attention"};

AttentionSpecs SpecsOf(const Spec& query, const Spec& key) {
  AttentionSpecs specs;
  specs.query = specs.output = query;
  specs.key = specs.value = key;
  return specs;
}

TEST_CASE("paged operations agree with the reference and with one device") {
  const SimMesh one = SimMeshOf({{"dp", 1}});
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"tp", 2}});
  for (std::string_view name : kNames) {
    for (const Sizes& n : {Sizes{2, 3, 11, 4, 2, 8}, Sizes{4, 1, 9, 8, 4, 64},
                           Sizes{2, 1, 17, 6, 2, 4}}) {
      for (Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
        AttentionProblem p = Problem(n, dtype);
        p.key_lengths = Buffer::Zeros({n.batch}, Dtype::kI32);
        for (int64_t b = 0; b < n.batch; ++b) {
          p.key_lengths->integers[U(b)] = static_cast<int32_t>(n.keys - 2 * b);
        }
        p.softmax_aux = Buffer::Zeros({n.heads}, Dtype::kF32);
        p.softmax_aux->real[0] = 1;
        p.options.window = LastKeys(7);
        p.options.soft_cap = 3;
        std::string why;
        const Array want =
            dense::Attention(InputsOf(p), verify::OptionsOf(p.options), why)
                ->output;
        const Ran alone = Run(name, one, p, {});
        const Ran ran = Run(
            name, mesh, p, SpecsOf({{"dp"}, {}, {"tp"}}, {{"dp"}, {}, {"tp"}}));
        CAPTURE(name);
        REQUIRE(!ran.outcome.unsupported);
        const double bound = dtype == Dtype::kF32    ? 2e-6
                             : dtype == Dtype::kBF16 ? 1e-2
                                                     : 1.5e-3;
        CHECK(Error(ran.output, want) < bound);
        CHECK(ran.outcome.exact);
        CHECK(BitEqual(ran.output, alone.output));
        // Queries are gathered over dp, and outputs are all-reduced over dp in
        // float32.
        const int64_t elements = n.batch * n.queries * n.heads / 2 * n.dim;
        CHECK(ran.ledger.MostSent(Collective::kAllReduce) == elements * 4);
        CHECK(ran.ledger.MostSent(Collective::kAllGather) ==
              elements / 2 * DtypeBits(dtype) / 8);
      }
    }
  }
}

TEST_CASE("heads that pages cannot split are replicated, with a remark") {
  const SimMesh mesh = SimMeshOf({{"tp", 4}});
  const Sizes n{2, 2, 6, 8, 2, 8};
  const AttentionProblem p = Problem(n);
  std::string why;
  const Array want =
      dense::Attention(InputsOf(p), verify::OptionsOf(p.options), why)->output;
  for (std::string_view name : kNames) {
    const Ran ran = Run(name, mesh, p, SpecsOf({{}, {}, {"tp"}}, {}));
    REQUIRE(!ran.outcome.unsupported);
    CHECK(Error(ran.output, want) < 2e-6);
    REQUIRE(ran.outcome.remarks.size() == 1);
    CHECK(ran.outcome.remarks[0].starts_with(
        "heads are replicated: 2 key heads do not divide into 4 "
        "parts"));
    // The queries had to be gathered. The outputs are only sliced, which sends
    // nothing.
    CHECK(ran.ledger.MostSent(Collective::kAllGather) ==
          3 * (2 * 2 * 2 * 8 * 4));
  }
}

TEST_CASE("each packed sequence is a request") {
  AttentionProblem p;
  p.layout = Layout::kThd;
  const Sizes n{1, 9, 14, 4, 2, 8};
  p = Problem(n);
  p.layout = Layout::kThd;
  for (Buffer* x : {&p.query, &p.key, &p.value}) {
    x->shape.erase(x->shape.begin());
  }
  p.query_segments = Buffer::Zeros({1, 9}, Dtype::kI32);
  p.query_segments->integers = {3, 3, 3, 3, 5, 8, 8, -1, -1};
  p.key_segments = Buffer::Zeros({1, 14}, Dtype::kI32);
  p.key_segments->integers = {3, 3, 3, 3, 3, 3, 5, 5, 8, 8, 8, 8, -1, -1};
  dense::Inputs in = InputsOf(p);
  for (Array* x : {&in.query, &in.key, &in.value}) {
    *x = dense::ToBthd(*x, Layout::kThd);
  }
  const auto numbers = [](const Buffer& x) {
    return std::vector<int64_t>(x.integers.begin(), x.integers.end());
  };
  in.query_segments = numbers(*p.query_segments);
  in.key_segments = numbers(*p.key_segments);
  // Expected by hand: segments of 6, 2 and 4 keys, with 4, 1 and 2 queries.
  in.query_positions = {2, 3, 4, 5, 1, 2, 3, -1, -1};
  in.key_positions = {0, 1, 2, 3, 4, 5, 0, 1, 0, 1, 2, 3, -1, -1};
  const dense::Packed packed =
      dense::PackedPositions(in.query_segments, in.key_segments);
  CHECK(packed.queries == in.query_positions);
  CHECK(packed.keys == in.key_positions);
  std::string why;
  const auto want = dense::Attention(in, verify::OptionsOf(p.options), why);
  REQUIRE_MESSAGE(want, why);
  // The problem may give the same positions explicitly; other positions are
  // refused.
  const auto positions = [](const std::vector<int64_t>& x) {
    Buffer out =
        Buffer::Zeros({1, static_cast<int64_t>(x.size())}, Dtype::kI32);
    out.integers.assign(x.begin(), x.end());
    return out;
  };
  p.query_positions = positions(packed.queries);
  p.key_positions = positions(packed.keys);
  const SimMesh mesh = SimMeshOf({{"tp", 2}});
  for (std::string_view name : kNames) {
    const Ran ran = Run(name, mesh, p, SpecsOf({{}, {"tp"}}, {{}, {"tp"}}));
    REQUIRE_MESSAGE(!ran.outcome.unsupported, ran.outcome.unsupported->message);
    CHECK(ran.output.shape == Shape{9, 4, 8});
    CHECK(Error(ran.output, want->output) < 2e-6);
    CHECK(ran.outcome.remarks.size() ==
          (name == "paged_flash_attention" ? 1 : 0));
  }
  p.query_positions->integers[2] = 0;
  CHECK(Run(kNames[0], mesh, p, SpecsOf({{}, {"tp"}}, {{}, {"tp"}}))
            .outcome.unsupported->message ==
        "ragged_page_attention_v2 takes no positions of its own");
}

TEST_CASE("what paged operations cannot run is refused with the axis") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"sp", 2}});
  const Sizes n{2, 2, 8, 4, 2, 8};
  struct Case {
    const char* message;
    const char* axis;
    void (*change)(AttentionProblem&, AttentionSpecs&);
  };
  const Case cases[] = {
      {"the query's length is split over `sp`", "sp",
       [](AttentionProblem&, AttentionSpecs& s) {
         s.query = {{}, {"sp"}};
       }},
      {"the length of key and value is split over `sp`", "sp",
       [](AttentionProblem&, AttentionSpecs& s) {
         s.key = {{}, {"sp"}};
       }},
      {"the head dimension is split over `sp`", "sp",
       [](AttentionProblem&, AttentionSpecs& s) {
         s.query = s.key = {{}, {}, {}, {"sp"}};
       }},
      {"ragged_page_attention_v2 takes no bias", "",
       [](AttentionProblem& p, AttentionSpecs&) {
         p.bias = Buffer::Zeros({1, 1, 2, 8}, Dtype::kF32);
       }},
      {"ragged_page_attention_v2 takes no dropout", "",
       [](AttentionProblem& p, AttentionSpecs&) { p.options.dropout = 0.5; }},
      {"ragged_page_attention_v2 is causal", "",
       [](AttentionProblem& p, AttentionSpecs&) { p.options.causal = false; }},
      {"ragged_page_attention_v2 takes no positions of its own", "",
       [](AttentionProblem& p, AttentionSpecs&) {
         p.key_positions = Buffer::Zeros({2, 8}, Dtype::kI32);
         for (size_t i = 0; i < 16; ++i) {
           p.key_positions->integers[i] = static_cast<int32_t>(i % 8);
         }
         p.key_positions->integers[8] = 7;  // the second row's first
       }},
      {"ragged_page_attention_v2 takes no positions of its own", "",
       [](AttentionProblem& p, AttentionSpecs&) {
         p.query_positions = Buffer::Zeros({2, 2}, Dtype::kI32);
         p.query_positions->integers = {6, 7, 5, 7};
       }},
      {"request 1 has 2 queries and 1 key", "",
       [](AttentionProblem& p, AttentionSpecs&) {
         p.key_lengths = Buffer::Zeros({2}, Dtype::kI32);
         p.key_lengths->integers = {4, 1};
       }},
  };
  for (const Case& c : cases) {
    AttentionProblem p = Problem(n);
    AttentionSpecs specs;
    c.change(p, specs);
    const Ran ran = Run(kNames[0], mesh, p, specs);
    REQUIRE(ran.outcome.unsupported);
    CHECK(ran.outcome.unsupported->message == c.message);
    CHECK(ran.outcome.unsupported->axis == c.axis);
  }
  // Without a causal mask, paged_flash_attention and operations with one query
  // in each row still run, and attend to all keys.
  AttentionProblem p = Problem(n);
  p.options.causal = false;
  std::string why;
  CHECK(Error(Run("paged_flash_attention", mesh, p, {}).output,
              dense::Attention(InputsOf(p), verify::OptionsOf(p.options), why)
                  ->output) < 2e-6);
}

RaggedBatch Batch() {
  RaggedBatch batch;
  batch.cumulative = {0, 2, 3, 3, 5};
  batch.lengths = {6, 1, 0, 4};
  batch.table = Buffer::Zeros({4, 2}, Dtype::kI32);
  batch.table.integers = {1, 3, 2, 0, 4, 4, 6, 4};
  batch.sequences = 4;
  return batch;
}

TEST_CASE("batches that real kernels would misread are errors") {
  PoolConfig pool;
  pool.pages = 8;
  pool.page_size = 4;
  CHECK_FALSE(CheckBatch(Batch(), pool, 2, 5));
  struct Case {
    const char* message;
    void (*change)(RaggedBatch&);
  };
  const Case cases[] = {
      {"request 0 names page 7, its shard has 0 to 3",
       [](RaggedBatch& b) { b.table.integers[1] = 7; }},
      {"request 1 names page 4, its shard has 0 to 3",
       [](RaggedBatch& b) { b.table.integers[2] = 4; }},
      {"request 3 names page 8, its shard has 4 to 7",
       [](RaggedBatch& b) { b.table.integers[6] = 8; }},
      {"request 3 names page 3, its shard has 4 to 7",
       [](RaggedBatch& b) { b.table.integers[6] = 3; }},
      {"request 0 names page -1, its shard has 0 to 3",
       [](RaggedBatch& b) { b.table.integers[0] = -1; }},
      {"request 1 has 1 query and 0 keys",
       [](RaggedBatch& b) { b.lengths[1] = 0; }},
      {"request 1 has -1 queries and 1 key",
       [](RaggedBatch& b) { b.cumulative[2] = 1; }},
      {"request 3 needs 3 pages, its table has 2",
       [](RaggedBatch& b) { b.lengths[3] = 9; }},
      {"a page table of [2, 4], 4 lengths and 5 cumulative lengths do not fit "
       "each other",
       [](RaggedBatch& b) {
         b.table.shape = {2, 4};
       }},
      {"5 of 4 requests are declared real",
       [](RaggedBatch& b) { b.sequences = 5; }},
      {"cumulative lengths from 0 to 6 for 5 tokens",
       [](RaggedBatch& b) { b.cumulative[4] = 6; }},
  };
  for (const Case& c : cases) {
    RaggedBatch batch = Batch();
    c.change(batch);
    const auto why = CheckBatch(batch, pool, 2, 5);
    REQUIRE(why);
    CHECK(why->message == c.message);
  }
  // Entries of the table after those of the active requests are not read, and
  // may be any number.
  RaggedBatch batch = Batch();
  batch.table.integers[3] = 99;
  batch.sequences = 3;
  batch.table.integers[6] = 0;
  CHECK_FALSE(CheckBatch(batch, pool, 2, 5));
}

TEST_CASE("a distribution that its requests do not have is refused") {
  PoolConfig pool;
  pool.pages = 8;
  pool.page_size = 4;
  // Two shards of two requests. In each shard one request has one query, which
  // is decoded; the other has only new keys, or old and new ones.
  RaggedBatch right = Batch();
  right.cumulative = {0, 1, 3, 4, 6};
  right.lengths = {6, 2, 3, 4};
  right.distribution = {{1, 2, 2}, {1, 1, 2}};
  CHECK_FALSE(CheckBatch(right, pool, 2, 6));
  struct Case {
    std::string_view message;
    std::vector<std::array<int64_t, 3>> distribution;
  };
  const Case cases[] = {
      {"1 distribution for 2 shards", {{1, 2, 2}}},
      {"a distribution [1, 2, 3] of 2 requests", {{1, 2, 3}, {1, 1, 2}}},
      {"a distribution [2, 1, 2] of 2 requests", {{2, 1, 2}, {1, 1, 2}}},
      {"request 1 is among the decoding ones with 2 queries and 2 keys",
       {{2, 2, 2}, {1, 1, 2}}},
      {"request 3 is among the prefilling ones with 2 queries and 4 keys",
       {{1, 2, 2}, {1, 2, 2}}},
  };
  for (const Case& c : cases) {
    RaggedBatch wrong = right;
    wrong.distribution = c.distribution;
    const auto why = CheckBatch(wrong, pool, 2, 6);
    REQUIRE(why);
    CHECK(why->message == c.message);
  }
}

TEST_CASE("every injected fault changes a paged operation") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"tp", 2}});
  const Sizes n{4, 2, 11, 4, 2, 8};
  const AttentionProblem p = Problem(n);
  const AttentionSpecs specs =
      SpecsOf({{"dp"}, {}, {"tp"}}, {{"dp"}, {}, {"tp"}});
  for (std::string_view name : kNames) {
    const Ran right = Run(name, mesh, p, specs);
    for (Fault fault :
         {Fault::kPagedCumulativeOff, Fault::kPagedTableTransposed,
          Fault::kPagedKeysAsValues, Fault::kPagedIdNotLocal,
          Fault::kPagedForeignClipped, Fault::kPagedRowsByModulo}) {
      CAPTURE(static_cast<int>(fault));
      const Ran wrong = Run(name, mesh, p, specs, fault);
      CHECK(
          (wrong.outcome.unsupported || !BitEqual(wrong.output, right.output)));
    }
  }
}

}  // namespace
}  // namespace shardc::exec
