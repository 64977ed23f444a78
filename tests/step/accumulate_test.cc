#include "step/accumulate.h"
#include "source/size.h"
#include "step/program.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "dense/step.h"
#include "doctest/doctest.h"
#include "step/build.h"
#include "step/described.h"
#include "step/graph_writer.h"
#include "step/lower.h"
#include "step/mlp_graph.h"
#include "step/recompute.h"
#include "step/validate.h"

namespace shardc::step {
namespace {

constexpr std::string_view kLlama =
    R"({"model_type": "llama", "vocab_size": 16, "hidden_size": 16,
        "intermediate_size": 32, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "tie_word_embeddings": true})";
constexpr std::string_view kMixtral =
    R"({"model_type": "mixtral", "vocab_size": 16, "hidden_size": 16,
        "intermediate_size": 32, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "num_experts_per_tok": 2})";

// The micro-batches whose ops a graph contains.
enum class Written : uint8_t { kAll, kOne };

StepModel Trained(std::string_view config, int64_t parts, Reduction reduction,
                  Keep keep = Keep::kEverything,
                  Written written = Written::kAll) {
  const Described model = FromConfig(std::string(config), "hf",
                                     config == kLlama ? "llama" : "mixtral");
  Findings findings;
  auto step = BuildForward(*model.description, &model.config, model.manifest,
                           Mode::kTrain, findings);
  CAPTURE(TextOf(findings));
  REQUIRE(step);
  Differentiate(step->graph);
  Remat policy;
  policy.keep = keep;
  Recompute(step->graph, policy);
  const bool accumulated = written == Written::kOne
                               ? AccumulateOne(step->graph, parts, reduction)
                               : Accumulate(step->graph, parts, reduction);
  REQUIRE(accumulated);
  AppendOptimizer(step->graph);
  return std::move(*step);
}

// Copies the inputs of the whole batch to a graph of micro-batches. Each
// micro-batch gets its rows.
void GiveParts(const Graph& whole, const dense::StepValues<double>& from,
               const Graph& parts, dense::StepValues<double>& to) {
  for (size_t i = 0; i < whole.parameters.size(); ++i) {
    to[AsIndex(parts.parameters[i].value)] =
        from[AsIndex(whole.parameters[i].value)];
  }
  for (size_t i = 0; i < whole.moments.size(); ++i) {
    to[AsIndex(parts.moments[i].first)] = from[AsIndex(whole.moments[i].first)];
    to[AsIndex(parts.moments[i].second)] =
        from[AsIndex(whole.moments[i].second)];
  }
  std::vector<size_t> taken(whole.data.size(), 0);
  for (const Data& data : parts.data) {
    for (size_t i = 0; i < whole.data.size(); ++i) {
      if (whole.data[i].kind != data.kind) continue;
      auto& part = to[AsIndex(data.value)].data;
      const auto& rows = from[AsIndex(whole.data[i].value)].data;
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(taken[i]),
                  part.size(), part.begin());
      taken[i] += part.size();
    }
  }
}

double Off(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double off = 0, most = 1e-9;
  for (size_t i = 0; i < a.size(); ++i) {
    off = std::max(off, std::abs(a[i] - b[i]));
    most = std::max(most, std::abs(b[i]));
  }
  return off / most;
}

TEST_CASE("gradients of parts are the batch's") {
  for (std::string_view config : {kLlama, kMixtral}) {
    const StepModel whole = Trained(config, 1, Reduction::kOnce);
    auto want = RandomInputs(whole.graph, RealSizes(whole, 8, 8), 3);
    const auto inputs = want;
    dense::RunStep(whole.graph, RealSizes(whole, 8, 8), Phase::kOptimizer,
                   want);
    for (int64_t parts : {2, 4}) {
      for (Reduction reduction :
           {Reduction::kSharded, Reduction::kOnce, Reduction::kEach}) {
        for (Keep keep : {Keep::kEverything, Keep::kNothing}) {
          const StepModel step = Trained(config, parts, reduction, keep);
          const Graph& graph = step.graph;
          const Sizes sizes = RealSizes(step, 8 / parts, 8);
          auto got = RandomInputs(graph, sizes, 1);
          GiveParts(whole.graph, inputs, graph, got);
          dense::RunStep(graph, sizes, Phase::kOptimizer, got);
          CAPTURE(parts);
          CHECK(Off(got[AsIndex(graph.loss)].data,
                    want[AsIndex(whole.graph.loss)].data) < 1e-13);
          for (size_t i = 0; i < graph.gradients.size(); ++i) {
            CAPTURE(graph.parameters[i].role);
            CHECK(Off(got[AsIndex(graph.gradients[i])].data,
                      want[AsIndex(whole.graph.gradients[i])].data) < 1e-12);
            CHECK(Off(got[AsIndex(graph.updated[i])].data,
                      want[AsIndex(whole.graph.updated[i])].data) < 1e-12);
          }
        }
      }
    }
  }
}

TEST_CASE("each after those whose results it takes") {
  const Graph graph = Trained(kMixtral, 3, Reduction::kOnce, Keep::kDots).graph;
  std::vector<char> made(graph.values.size(), 0);
  std::vector<int32_t> micros;
  for (const Op& op : graph.ops) {
    CAPTURE(op.name);
    for (ValueId value : op.in) CHECK(made[AsIndex(value)] != 0);
    CHECK(made[AsIndex(op.out)] == 0);
    made[AsIndex(op.out)] = 1;
    if (op.recompute_of >= 0) {
      CHECK(graph.ops[AsIndex(op.recompute_of)].micro == op.micro);
      CHECK("r:" + graph.ops[AsIndex(op.recompute_of)].name == op.name);
    }
    if (op.phase == Phase::kBackward) micros.push_back(op.micro);
  }
  CHECK(std::all_of(made.begin(), made.end(), [](char is) { return is != 0; }));
  CHECK(std::is_sorted(micros.begin(), micros.end()));
  CHECK(graph.data.size() % 3 == 0);
}

Program Lowered(const StepModel& step, Mesh mesh, const Sizes& sizes,
                std::vector<Spec> parameters) {
  const LowerRequest request{.graph = &step.graph,
                             .mesh = std::move(mesh),
                             .sizes = sizes,
                             .parameters = std::move(parameters),
                             .states = {},
                             .sums = {},
                             .constraints = UsualConstraints()};
  Unsupported why;
  auto program = Lower(request, why);
  REQUIRE_MESSAGE(program.has_value(), why.message);
  return std::move(*program);
}

// Returns the number of collectives on gradients in the backward phase, and the
// bytes that they send.
std::pair<int64_t, int64_t> GradientsSent(const StepModel& step,
                                          int64_t batch) {
  const Sizes sizes = RealSizes(step, batch, 16);
  const Program program = Lowered(step, MeshNamed({{"dp", 4}}), sizes, {});
  std::pair<int64_t, int64_t> out;
  for (const Instruction& one : program.code) {
    if (one.kind != InstructionKind::kCollective || one.op < 0) continue;
    if (step.graph.ops[AsIndex(one.op)].phase != Phase::kBackward) continue;
    const ValueId value = program.slots[AsIndex(one.in[0])].value;
    if (step.graph.values[AsIndex(value)].labels.empty()) continue;
    ++out.first;
    out.second += SentBytes(step.graph, program, one, sizes, 2);
  }
  return out;
}

TEST_CASE("reduced once, or each") {
  const auto [count, sent] =
      GradientsSent(Trained(kLlama, 1, Reduction::kOnce), 16);
  CHECK(count > 10);
  const auto once = GradientsSent(Trained(kLlama, 4, Reduction::kOnce), 4);
  CHECK(once.first == count);
  CHECK(once.second == sent);
  const auto each = GradientsSent(Trained(kLlama, 4, Reduction::kEach), 4);
  CHECK(each.first == 4 * count);
  CHECK(each.second == 4 * sent);
  // Here no axis shards a gradient.
  CHECK(GradientsSent(Trained(kLlama, 4, Reduction::kSharded), 4) == once);
}

// Returns specs that shard the first dimension of each matrix over fsdp.
std::vector<Spec> MatricesOverFsdp(const Graph& graph) {
  std::vector<Spec> out;
  for (const Parameter& parameter : graph.parameters) {
    const size_t rank = graph.values[AsIndex(parameter.value)].labels.size();
    Spec spec(rank);
    if (rank == 2) spec[0] = {"fsdp"};
    out.push_back(std::move(spec));
  }
  return out;
}

// Returns the number of collectives on gradients in the backward phase, by
// their axes.
std::map<std::string, int64_t> ReducedOver(int64_t parts, Reduction reduction) {
  const StepModel step = Trained(kLlama, parts, reduction);
  const Sizes sizes = RealSizes(step, 16 / parts, 16);
  const Program program = Lowered(step, MeshNamed({{"dp", 2}, {"fsdp", 2}}),
                                  sizes, MatricesOverFsdp(step.graph));
  CHECK(Validate(step.graph, program, sizes).empty());
  std::map<std::string, int64_t> out;
  for (const Instruction& one : program.code) {
    if (one.kind != InstructionKind::kCollective || one.op < 0 ||
        (one.collective != Collective::kAllReduce &&
         one.collective != Collective::kReduceScatter)) {
      continue;
    }
    const Value& value =
        step.graph.values[AsIndex(program.slots[AsIndex(one.in[0])].value)];
    if (step.graph.ops[AsIndex(one.op)].phase != Phase::kBackward ||
        value.labels.size() != 2) {
      continue;
    }
    ++out[GroupText(program.axes.Group(one.axes))];
  }
  return out;
}

TEST_CASE("gradients are reduced over axes that shard them in each part") {
  const auto whole = ReducedOver(1, Reduction::kSharded);
  REQUIRE(whole.size() == 2);
  const int64_t matrices = whole.at("\"fsdp\"");
  CHECK(whole.at("\"dp\"") == matrices);
  const auto sharded = ReducedOver(4, Reduction::kSharded);
  CHECK(sharded.at("\"fsdp\"") == 4 * matrices);
  CHECK(sharded.at("\"dp\"") == matrices);
  const auto once = ReducedOver(4, Reduction::kOnce);
  CHECK(once.at("\"fsdp\"") == matrices);
  CHECK(once.at("\"dp\"") == matrices);
  const auto each = ReducedOver(4, Reduction::kEach);
  CHECK(each.at("\"fsdp\"") == 4 * matrices);
  CHECK(each.at("\"dp\"") == 4 * matrices);
}

// The number of collectives and the bytes that they send, by phase, collective
// and axes. Collectives of the results have no op and count as forward.
using Sent = std::map<std::tuple<Phase, Collective, std::string>,
                      std::pair<int64_t, int64_t>>;

// Counts the collectives of micro-batches `times` times, and all others once.
Sent SentBy(const StepModel& step, int64_t rows, int64_t times) {
  const Graph& graph = step.graph;
  const Sizes sizes = RealSizes(step, rows, 16);
  const Program program = Lowered(step, MeshNamed({{"dp", 2}, {"fsdp", 2}}),
                                  sizes, MatricesOverFsdp(graph));
  Sent out;
  for (const Instruction& one : program.code) {
    if (one.kind != InstructionKind::kCollective) continue;
    const Op* const op = one.op < 0 ? nullptr : &graph.ops[AsIndex(one.op)];
    const int64_t counted = op != nullptr && op->micro >= 0 ? times : 1;
    auto& [count, sent] =
        out[{op == nullptr ? Phase::kForward : op->phase, one.collective,
             GroupText(program.axes.Group(one.axes))}];
    count += counted;
    sent += counted * SentBytes(graph, program, one, sizes, 2);
  }
  return out;
}

TEST_CASE("one written micro-batch sends the bytes of each of them") {
  for (const int64_t parts : {2, 4}) {
    for (const Reduction reduction :
         {Reduction::kSharded, Reduction::kOnce, Reduction::kEach}) {
      for (const Keep keep : {Keep::kEverything, Keep::kNothing}) {
        CAPTURE(parts);
        CAPTURE(static_cast<int>(reduction));
        CAPTURE(static_cast<int>(keep));
        const StepModel all = Trained(kLlama, parts, reduction, keep);
        const StepModel one =
            Trained(kLlama, parts, reduction, keep, Written::kOne);
        const int64_t rows = 16 / parts;
        const Sent want = SentBy(all, rows, 1);
        CHECK(want.size() > 3);
        CHECK(SentBy(one, rows, parts) == want);
      }
    }
  }
}

TEST_CASE("ops of one written micro-batch have the number 0, and others -1") {
  const Graph single = Trained(kMixtral, 1, Reduction::kOnce).graph;
  const Graph graph =
      Trained(kMixtral, 4, Reduction::kOnce, Keep::kEverything, Written::kOne)
          .graph;
  CHECK(graph.data.size() == single.data.size());
  CHECK(graph.parameters.size() == single.parameters.size());
  std::vector<const Op*> op_of(graph.values.size(), nullptr);
  for (const Op& op : graph.ops) {
    CAPTURE(op.name);
    for (ValueId value : op.in) CHECK(op_of[AsIndex(value)] != nullptr);
    CHECK(op_of[AsIndex(op.out)] == nullptr);
    op_of[AsIndex(op.out)] = &op;
    CHECK((op.micro == 0 || op.micro == -1));
    if (op.phase == Phase::kOptimizer) CHECK(op.micro == -1);
  }
  for (const Parameter& parameter : graph.parameters) {
    CHECK(op_of[AsIndex(parameter.value)]->micro == -1);
  }
  int64_t sums = 0;
  for (const ValueId gradient : graph.gradients) {
    if (gradient < 0) continue;
    const Op& sum = *op_of[AsIndex(gradient)];
    CHECK(sum.kind == OpKind::kAdd);
    CHECK(sum.micro == -1);
    REQUIRE(sum.in.size() == 1);
    CHECK(op_of[AsIndex(sum.in[0])]->micro == 0);
    ++sums;
  }
  CHECK(sums > 10);
  const Op& loss = *op_of[AsIndex(graph.loss)];
  CHECK(loss.micro == -1);
  CHECK(loss.in.size() == 1);
}

TEST_CASE("a single micro-batch is not written again") {
  const Graph all = Trained(kLlama, 1, Reduction::kOnce).graph;
  const Graph one =
      Trained(kLlama, 1, Reduction::kOnce, Keep::kEverything, Written::kOne)
          .graph;
  CHECK(one.ops.size() == all.ops.size());
  CHECK(one.values.size() == all.values.size());
  CHECK(one.gradients == all.gradients);
}

}  // namespace
}  // namespace shardc::step
