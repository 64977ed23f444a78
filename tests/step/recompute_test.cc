#include "step/recompute.h"
#include "source/size.h"
#include "step/program.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dense/step.h"
#include "doctest/doctest.h"
#include "step/build.h"
#include "step/described.h"
#include "step/graph_writer.h"
#include "step/lower.h"
#include "step/mlp_graph.h"

namespace shardc::step {
namespace {

// The ten policies, with arguments where they take some.
const std::vector<std::string> kPolicies = {
    "everything_saveable",
    "nothing_saveable",
    "dots_saveable",
    "checkpoint_dots",
    "dots_with_no_batch_dims_saveable",
    "checkpoint_dots_with_no_batch_dims",
    "save_anything_except_these_names(q_proj,context)",
    "save_any_names_but_these(gate_proj)",
    "save_only_these_names(k_proj,router,qkv_proj)",
    "save_from_both_policies(dots_with_no_batch_dims_saveable,"
    "save_only_these_names(context))"};

struct Family {
  std::string_view pack, config;
};
const std::vector<Family> kFamilies = {
    {"llama",
     R"({"model_type": "llama", "vocab_size": 16, "hidden_size": 16,
        "intermediate_size": 32, "num_hidden_layers": 6, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "attention_bias": true})"},
    {"mixtral",
     R"({"model_type": "mixtral", "vocab_size": 16, "hidden_size": 16,
        "intermediate_size": 32, "num_hidden_layers": 4, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "num_experts_per_tok": 2})"},
    {"gpt2",
     R"({"model_type": "gpt2", "vocab_size": 16, "n_embd": 16, "n_layer": 4,
        "n_head": 4, "n_positions": 16, "layer_norm_epsilon": 1e-5})"},
    {"gemma",
     R"({"model_type": "gemma2", "vocab_size": 16, "hidden_size": 16,
        "intermediate_size": 32, "num_hidden_layers": 4, "rms_norm_eps": 1e-6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "sliding_window": 3, "query_pre_attn_scalar": 8,
        "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0})"}};

Remat PolicyNamed(const std::string& text) {
  std::string why;
  const auto policy = ParseRemat(text, why);
  REQUIRE_MESSAGE(policy.has_value(), why);
  return *policy;
}

StepModel Trained(const Family& family, const std::string& policy) {
  const Described model =
      FromConfig(std::string(family.config), "hf", family.pack);
  Findings findings;
  auto step = BuildForward(*model.description, &model.config, model.manifest,
                           Mode::kTrain, findings);
  CAPTURE(TextOf(findings));
  REQUIRE(step);
  Differentiate(step->graph);
  Recompute(step->graph, PolicyNamed(policy));
  AppendOptimizer(step->graph);
  return std::move(*step);
}

// Returns the names of the recomputed products, without ops that reshape their
// operands.
std::set<std::string> NamesOfAgain(const Graph& graph, int32_t layer) {
  std::set<std::string> out;
  for (const Op& op : graph.ops) {
    if (op.recompute_of < 0 || op.layer != layer) continue;
    if (op.kind == OpKind::kEinsum) out.insert(op.name);
  }
  return out;
}

TEST_CASE("ten names") {
  std::set<std::string> heads;
  for (const std::string& policy : kPolicies) {
    heads.insert(policy.substr(0, policy.find('(')));
  }
  for (std::string_view name : RematNames()) {
    CHECK(heads.count(std::string(name)) == 1);
  }
  CHECK(RematNames().size() == kPolicies.size());
}

TEST_CASE("gradients do not depend on the policy") {
  for (const Family& family : kFamilies) {
    const StepModel plain = Trained(family, kPolicies[0]);
    const Sizes sizes = RealSizes(plain, 2, 8);
    auto want = RandomInputs(plain.graph, sizes, 5);
    const auto inputs = want;
    dense::RunStep(plain.graph, sizes, Phase::kBackward, want);
    for (const std::string& policy : kPolicies) {
      CAPTURE(family.config);
      CAPTURE(policy);
      const StepModel step = Trained(family, policy);
      const Graph& graph = step.graph;
      auto got = RandomInputs(graph, sizes, 5);
      dense::RunStep(graph, sizes, Phase::kBackward, got);
      REQUIRE(graph.gradients.size() == plain.graph.gradients.size());
      for (size_t i = 0; i < graph.gradients.size(); ++i) {
        const ValueId mine = graph.gradients[i];
        const ValueId other = plain.graph.gradients[i];
        REQUIRE((mine < 0) == (other < 0));
        if (mine >= 0)
          CHECK(got[AsIndex(mine)].data == want[AsIndex(other)].data);
      }
      for (const Op& op : graph.ops) {
        if (op.recompute_of < 0) continue;
        const Op& first = graph.ops[AsIndex(op.recompute_of)];
        CHECK(first.phase == Phase::kForward);
        CHECK(first.layer == op.layer);
        CHECK(op.name == "r:" + first.name);
        CHECK(got[AsIndex(op.out)].data == got[AsIndex(first.out)].data);
      }
    }
  }
}

TEST_CASE("what is run again") {
  const auto recomputed = [](const std::string& policy, size_t family = 0) {
    return NamesOfAgain(Trained(kFamilies[family], policy).graph, 1);
  };
  CHECK(recomputed("everything_saveable").empty());
  // Everything is recomputed except values that only the next layer reads.
  CHECK(recomputed("nothing_saveable") ==
        std::set<std::string>{"r:rmsnorm norm1", "r:linear q", "r:linear k",
                              "r:linear v", "r:attention", "r:linear o",
                              "r:rmsnorm norm2", "r:gated gate"});
  const auto dots = recomputed("dots_saveable");
  CHECK(dots == recomputed("checkpoint_dots"));
  CHECK(dots.count("r:linear o") == 0);
  CHECK(dots.count("r:rmsnorm norm2") == 1);
  CHECK(dots.count("r:attention") == 1);
  const auto named = recomputed("save_only_these_names(q_proj,out_proj)");
  // Of a projection that is kept, neither the product nor the bias is
  // recomputed.
  CHECK(named.count("r:linear q") == 0);
  CHECK(named.count("r:linear k") == 1);
  CHECK(named.count("r:linear o") == 0);
  CHECK(recomputed("save_only_these_names(router)", 1).size() > named.size());
  CHECK(recomputed("save_anything_except_these_names(q_proj)") ==
        std::set<std::string>{});
  CHECK(recomputed("save_anything_except_these_names(context)") ==
        std::set<std::string>{"r:attention"});
}

// The forward collectives of a program, and the largest number of bytes that a
// device holds at the same time.
struct Summary {
  std::string forward;
  int64_t peak = 0, backward = 0;
  size_t faults = 0;
};
Summary SummaryOf(const Family& family, const std::string& policy,
                  const AxisSizes& axes) {
  const StepModel step = Trained(family, policy);
  const Sizes sizes = RealSizes(step, 16, 64);
  const LowerRequest request{.graph = &step.graph,
                             .mesh = MeshNamed(axes),
                             .sizes = sizes,
                             .constraints = UsualConstraints()};
  Unsupported why;
  const auto program = Lower(request, why);
  REQUIRE_MESSAGE(program.has_value(), why.message);
  Summary out;
  for (const Instruction& one : program->code) {
    if (one.kind != InstructionKind::kCollective) continue;
    const Op& op = step.graph.ops[AsIndex(one.op)];
    const int64_t bytes = SentBytes(step.graph, *program, one, sizes, 2);
    if (op.phase == Phase::kBackward) out.backward += bytes;
    if (op.phase != Phase::kForward) continue;
    out.forward += op.name + " " + std::string(CollectiveName(one.collective)) +
                   " " + std::to_string(bytes) + "\n";
  }
  out.peak = PeakOf(step.graph, *program, sizes, {}).Total();
  return out;
}

TEST_CASE("forward is the same; less is held and more is sent") {
  for (const Family& family : kFamilies) {
    for (const AxisSizes& axes :
         {AxisSizes{{"fsdp", 2}, {"tp", 2}}, AxisSizes{{"dp", 2}, {"sp", 2}},
          AxisSizes{{"tp", 1}}}) {
      const Summary all = SummaryOf(family, "everything_saveable", axes);
      const Summary none = SummaryOf(family, "nothing_saveable", axes);
      CHECK(none.peak < all.peak);
      CHECK(none.backward >= all.backward);
      for (const std::string& policy : kPolicies) {
        CAPTURE(family.config);
        CAPTURE(policy);
        const Summary one = SummaryOf(family, policy, axes);
        CHECK(one.forward == all.forward);
        CHECK(one.peak <= all.peak);
        CHECK(one.peak >= none.peak);
        CHECK(one.backward >= all.backward);
        CHECK(one.backward <= none.backward);
      }
    }
  }
}

}  // namespace
}  // namespace shardc::step
