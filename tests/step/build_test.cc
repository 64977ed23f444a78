#include "step/build.h"
#include "source/size.h"
#include "step/program.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "step/derivatives.h"
#include "step/described.h"
#include "step/graph_writer.h"
#include "step/small_models.h"

namespace shardc::step {
namespace {

// Sets the number of an encoder's tokens, which by default is that of the
// model's own tokens.
void TakeLength(const Graph& graph, int64_t tokens, Sizes& sizes) {
  for (const LabelId label :
       {graph.common.encoder_query, graph.common.encoder_key}) {
    if (label != kNoLabel) sizes[AsIndex(label)] = tokens;
  }
  FinishSizes(graph, sizes);
}

TEST_CASE("gradients are the loss's derivatives") {
  for (const Family& family : kFamilies) {
    CAPTURE(family.config);
    StepModel step = Built(family, Mode::kTrain);
    Differentiate(step.graph);
    AppendOptimizer(step.graph);
    CheckForm(step.graph);
    Sizes sizes = RealSizes(step, 2, 5);
    if (step.graph.common.slot != kNoLabel) {
      sizes[AsIndex(step.graph.common.slot)] = 5;
    }
    TakeLength(step.graph, 4, sizes);
    const auto inputs = RandomInputs(step.graph, sizes, 7);
    CHECK(dense::ComplexStepError(step.graph, sizes, inputs, 3) < 1e-12);
    for (size_t i = 0; i < step.graph.parameters.size(); ++i) {
      CAPTURE(step.graph.parameters[i].role);
      const ValueId g = step.graph.gradients[i];
      REQUIRE(g != kNoValue);
      const auto of = [&](ValueId value) {
        return step.graph.values[AsIndex(value)].labels;
      };
      CHECK(of(g) == of(step.graph.parameters[i].value));
    }
  }
}

TEST_CASE("no expert of another group is chosen, however low the scores are") {
  const Described model = FromConfig(
      R"({"model_type": "deepseek_v3", "vocab_size": 11, "hidden_size": 8,)"
      R"( "intermediate_size": 12, "moe_intermediate_size": 6,)"
      R"( "num_hidden_layers": 2, "num_attention_heads": 2,)"
      R"( "num_key_value_heads": 2, "q_lora_rank": 6, "kv_lora_rank": 6,)"
      R"( "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4,)"
      R"( "n_routed_experts": 8, "num_experts_per_tok": 3, "n_group": 4,)"
      R"( "topk_group": 2, "n_shared_experts": 1, "rms_norm_eps": 1e-6,)"
      R"( "first_k_dense_replace": 1, "num_nextn_predict_layers": 0})",
      "hf-files", "deepseek");
  Findings findings;
  const auto step = BuildForward(*model.description, &model.config,
                                 model.manifest, Mode::kTrain, findings);
  CAPTURE(TextOf(findings));
  REQUIRE(step);
  const Graph& graph = step->graph;
  Sizes sizes = RealSizes(*step, 2, 5);
  sizes[AsIndex(graph.common.slot)] = 5;
  auto values = RandomInputs(graph, sizes, 7);
  int corrections = 0;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.role != "correction") continue;
    for (double& x : values[AsIndex(parameter.value)].data) x = -2;
    ++corrections;
  }
  CHECK(corrections == 1);
  dense::RunStep(graph, sizes, Phase::kForward, values);
  const dense::StepTensor<double>*kept = nullptr, *chosen = nullptr;
  for (const Op& op : graph.ops) {
    if (op.kind == OpKind::kTopGroups) kept = &values[AsIndex(op.out)];
    if (op.kind == OpKind::kTopK) chosen = &values[AsIndex(op.out)];
  }
  REQUIRE(kept != nullptr);
  REQUIRE(chosen != nullptr);
  REQUIRE(kept->data.size() == chosen->data.size());
  double sum = 0;
  for (size_t i = 0; i < kept->data.size(); ++i) {
    CHECK(chosen->data[i] <= kept->data[i]);
    sum += chosen->data[i];
  }
  CHECK(sum == 3 * 2 * 5);
}

// Returns the number of ops of a training step's forward pass.
size_t OpsOf(const std::string& config, std::string_view naming) {
  const Described model = FromConfig(config, naming, "t5");
  Findings findings;
  const auto step = BuildForward(*model.description, &model.config,
                                 model.manifest, Mode::kTrain, findings);
  CAPTURE(TextOf(findings));
  REQUIRE(step);
  return step->graph.ops.size();
}

TEST_CASE("T5 has the same ops under both names of its parameters") {
  const std::string small =
      R"("vocab_size": 11, "d_model": 8, "d_kv": 4, "d_ff": 12,)"
      R"( "num_layers": 2, "num_heads": 4, "feed_forward_proj": "relu",)"
      R"( "relative_attention_num_buckets": 6, "layer_norm_epsilon": 1e-6)";
  for (const std::string_view tied :
       {"", R"(, "tie_word_embeddings": true)",
        R"(, "tie_word_embeddings": true, "scale_decoder_outputs": false)"}) {
    CAPTURE(tied);
    const std::string config =
        R"({"model_type": "t5", )" + small + std::string(tied) + "}";
    CHECK(OpsOf(config, "hf") == OpsOf(config, "flax"));
  }
}

// All forms of attention compute the same function.
TEST_CASE("attention has the same gradients in every form") {
  constexpr int64_t kLength = 8;
  const std::vector<AttentionForm> forms = {{AttentionView::kLocal, 1, 1},
                                            {AttentionView::kLocal, 1, 2},
                                            {AttentionView::kRing, 2, 1},
                                            {AttentionView::kRing, 4, 1}};
  for (const Family& family : kFamilies) {
    CAPTURE(family.config);
    if (ModelOf(family).description->HasEncoder()) continue;
    const auto run = [&](const AttentionForm& form,
                         const dense::StepValues<double>* of,
                         const Graph* graph_of) {
      StepModel step = Built(family, Mode::kTrain, form);
      Differentiate(step.graph);
      CheckForm(step.graph);
      Sizes sizes = RealSizes(step, 2, kLength);
      if (step.graph.common.slot != kNoLabel) {
        sizes[AsIndex(step.graph.common.slot)] = kLength;
      }
      auto values = RandomInputs(step.graph, sizes, 9);
      const auto take = [&](ValueId to, ValueId from) {
        values[AsIndex(to)] = (*of)[AsIndex(from)];
      };
      if (of != nullptr) {
        for (size_t i = 0; i < graph_of->parameters.size(); ++i) {
          take(step.graph.parameters[i].value, graph_of->parameters[i].value);
        }
        for (size_t i = 0; i < graph_of->data.size(); ++i) {
          take(step.graph.data[i].value, graph_of->data[i].value);
        }
      }
      dense::RunStep(step.graph, sizes, Phase::kBackward, values);
      return std::pair(std::move(step.graph), std::move(values));
    };
    const auto first = run({}, nullptr, nullptr);
    const Graph& plain = first.first;
    const dense::StepValues<double>& want = first.second;
    for (const AttentionForm& form : forms) {
      // If each query head has its own KV head, there are no copies.
      if (form.copies > 1 && family.config.find("num_key_value_heads\": 2") ==
                                 family.config.npos) {
        continue;
      }
      CAPTURE(form.turns);
      CAPTURE(form.copies);
      const auto made = run(form, &want, &plain);
      for (size_t i = 0; i < plain.parameters.size(); ++i) {
        CAPTURE(plain.parameters[i].role);
        const auto& a = want[AsIndex(plain.gradients[i])].data;
        const auto& b = made.second[AsIndex(made.first.gradients[i])].data;
        REQUIRE(a.size() == b.size());
        double worst = 0, scale = 1e-2;
        for (size_t at = 0; at < a.size(); ++at) {
          worst = std::max(worst, std::abs(a[at] - b[at]));
          scale = std::max(scale, std::abs(a[at]));
        }
        CHECK(worst <= 1e-12 * scale);
      }
    }
  }
}

// Returns the values of the parameter that has a role in a layer.
std::vector<double>& Of(const StepModel& step,
                        dense::StepValues<double>& values,
                        std::string_view role, int32_t layer) {
  const auto& all = step.graph.parameters;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& p) {
    return p.role == role && p.layer == layer;
  });
  CAPTURE(role);
  REQUIRE(found != all.end());
  return values[AsIndex(found->value)].data;
}

// transformers has no code for the first Qwen, but has code for the second.
TEST_CASE("the first Qwen is the second under other names") {
  const StepModel first =
      Built({"qwen", "hf",
             R"({"model_type": "qwen", "vocab_size": 11, "hidden_size": 8,
                 "intermediate_size": 24, "num_hidden_layers": 2,
                 "layer_norm_epsilon": 1e-6, "num_attention_heads": 4,
                 "kv_channels": 2, "rotary_emb_base": 1000.0})"},
            Mode::kTrain);
  const StepModel second =
      Built({"llama", "hf",
             R"({"model_type": "qwen2", "vocab_size": 11, "hidden_size": 8,
                 "intermediate_size": 12, "num_hidden_layers": 2,
                 "rms_norm_eps": 1e-6, "num_attention_heads": 4,
                 "num_key_value_heads": 4, "rope_theta": 1000.0})"},
            Mode::kTrain);
  auto a = RandomInputs(first.graph, RealSizes(first, 2, 5), 3);
  auto b = RandomInputs(second.graph, RealSizes(second, 2, 5), 4);
  for (const std::string_view role : {"embed", "norm", "head"}) {
    Of(second, b, role, -1) = Of(first, a, role, -1);
  }
  for (int32_t layer = 0; layer < 2; ++layer) {
    for (const std::string_view role :
         {"norm1", "o", "norm2", "gate", "up", "down"}) {
      Of(second, b, role, layer) = Of(first, a, role, layer);
    }
    for (const std::string suffix : {"", ".bias"}) {
      const auto& all = Of(first, a, "qkv" + suffix, layer);
      size_t at = 0;
      for (const std::string name : {"q", "k", "v"}) {
        for (double& x : Of(second, b, name + suffix, layer)) x = all[at++];
      }
    }
  }
  for (size_t i = 0; i < first.graph.data.size(); ++i) {
    b[AsIndex(second.graph.data[i].value)] =
        a[AsIndex(first.graph.data[i].value)];
  }
  dense::RunStep(first.graph, RealSizes(first, 2, 5), Phase::kForward, a);
  dense::RunStep(second.graph, RealSizes(second, 2, 5), Phase::kForward, b);
  const auto& x = a[AsIndex(first.graph.logits)].data;
  const auto& y = b[AsIndex(second.graph.logits)].data;
  REQUIRE(x.size() == y.size());
  for (size_t i = 0; i < x.size(); ++i) CHECK(std::abs(x[i] - y[i]) < 1e-13);
}

// Copies the keys and values that prefill caches for an encoder's tokens to the
// caches of decoding.
void KeepEncodersTokens(const Family& family, const StepModel& whole,
                        const Sizes& sizes,
                        const dense::StepValues<double>& values,
                        const StepModel& one,
                        dense::StepValues<double>& steps) {
  if (one.graph.encoder_layer < 0) return;
  const StepModel prefill = Built(family, Mode::kPrefill);
  auto made = RandomInputs(prefill.graph, sizes, 7);
  for (size_t i = 0; i < prefill.graph.parameters.size(); ++i) {
    made[AsIndex(prefill.graph.parameters[i].value)] =
        values[AsIndex(whole.graph.parameters[i].value)];
  }
  // A training graph also has labels and weights.
  size_t next = 0;
  for (const Data& data : whole.graph.data) {
    if (data.kind == DataKind::kLabels || data.kind == DataKind::kWeights) {
      continue;
    }
    REQUIRE(next < prefill.graph.data.size());
    REQUIRE(prefill.graph.data[next].kind == data.kind);
    made[AsIndex(prefill.graph.data[next++].value)] =
        values[AsIndex(data.value)];
  }
  dense::RunStep(prefill.graph, sizes, Phase::kForward, made);
  const auto& caches = one.graph.caches;
  REQUIRE(caches.size() == prefill.graph.caches.size());
  size_t kept = 0;
  for (size_t i = 0; i < caches.size(); ++i) {
    if (caches[i].before != caches[i].after) continue;
    steps[AsIndex(caches[i].before)] =
        made[AsIndex(prefill.graph.caches[i].after)];
    ++kept;
  }
  CHECK(2 * kept == caches.size());
}

TEST_CASE("prefill gives the logits of the last token alone") {
  constexpr int64_t kBatch = 2, kLength = 5;
  for (const Family& family : kFamilies) {
    CAPTURE(family.config);
    const Described model = ModelOf(family);
    if (!HasMode(*model.description, &model.config, Mode::kDecode)) continue;
    const StepModel whole = Built(family, Mode::kTrain);
    const StepModel last = Built(family, Mode::kPrefill);
    const Sizes sizes = RealSizes(whole, kBatch, kLength);
    const Sizes few = RealSizes(last, kBatch, kLength);
    auto values = RandomInputs(whole.graph, sizes, 5);
    auto prompt = RandomInputs(last.graph, few, 6);
    for (size_t i = 0; i < last.graph.parameters.size(); ++i) {
      prompt[AsIndex(last.graph.parameters[i].value)] =
          values[AsIndex(whole.graph.parameters[i].value)];
    }
    // Both have the same inputs in the same order, and training also labels
    // and weights.
    auto same = whole.graph.data.begin();
    for (const Data& data : last.graph.data) {
      while (same->kind != data.kind) ++same;
      prompt[AsIndex(data.value)] = values[AsIndex(same->value)];
      ++same;
    }
    dense::RunStep(whole.graph, sizes, Phase::kForward, values);
    dense::RunStep(last.graph, few, Phase::kForward, prompt);
    const auto& wide = values[AsIndex(whole.graph.logits)].data;
    const auto& logits = prompt[AsIndex(last.graph.logits)].data;
    REQUIRE(wide.size() == logits.size() * kLength);
    const size_t vocabulary = logits.size() / kBatch;
    double worst = 0;
    for (size_t b = 0; b < kBatch; ++b) {
      for (size_t v = 0; v < vocabulary; ++v) {
        const size_t row = b * kLength + kLength - 1;
        worst = std::max(worst, std::abs(logits[b * vocabulary + v] -
                                         wide[row * vocabulary + v]));
      }
    }
    CHECK(worst < 1e-11);
  }
}

TEST_CASE("branches are added before they are added to the residual stream") {
  constexpr Family kCohere = {
      "cohere", "hf",
      R"({"model_type": "cohere", "vocab_size": 13, "hidden_size": 8,
          "num_hidden_layers": 2, "num_attention_heads": 2,
          "intermediate_size": 12, "layer_norm_eps": 1e-5})"};
  const StepModel model = Built(kCohere, Mode::kTrain);
  for (const Op& op : model.graph.ops) {
    if (op.kind == OpKind::kAdd && op.constraint == "resid") {
      CHECK(op.in.size() == 2);
    }
  }
}

// Decodes one token at a time, with caches whose unused rows have large
// numbers.
TEST_CASE("decoding gives the logits of the whole sequence") {
  constexpr int64_t kBatch = 2, kLength = 5;
  for (const Family& family : kFamilies) {
    CAPTURE(family.config);
    const Described model = ModelOf(family);
    if (!HasMode(*model.description, &model.config, Mode::kDecode)) continue;
    const StepModel whole = Built(family, Mode::kTrain);
    const StepModel one = Built(family, Mode::kDecode);
    Sizes sizes = RealSizes(whole, kBatch, kLength);
    Sizes small = RealSizes(one, kBatch, kLength);
    if (whole.graph.common.slot != kNoLabel) {
      sizes[AsIndex(whole.graph.common.slot)] = kLength;
    }
    auto values = RandomInputs(whole.graph, sizes, 5);
    auto steps = RandomInputs(one.graph, small, 6);
    REQUIRE(one.graph.parameters.size() == whole.graph.parameters.size());
    for (size_t i = 0; i < one.graph.parameters.size(); ++i) {
      steps[AsIndex(one.graph.parameters[i].value)] =
          values[AsIndex(whole.graph.parameters[i].value)];
    }
    for (const Cache& cache : one.graph.caches) {
      for (double& x : steps[AsIndex(cache.before)].data) x *= 1e6;
    }
    KeepEncodersTokens(family, whole, sizes, values, one, steps);
    dense::RunStep(whole.graph, sizes, Phase::kForward, values);
    const auto& wide = values[AsIndex(whole.graph.logits)].data;
    const size_t vocabulary = wide.size() / (kBatch * kLength);
    double worst = 0;
    for (int64_t t = 0; t < kLength; ++t) {
      for (const Data& data : one.graph.data) {
        auto& value = steps[AsIndex(data.value)].data;
        if (data.kind == DataKind::kPositions) {
          std::fill(value.begin(), value.end(), static_cast<double>(t));
        } else if (data.kind == DataKind::kIds) {
          for (size_t b = 0; b < kBatch; ++b) {
            value[b] = values[AsIndex(whole.graph.data[0].value)]
                           .data[b * kLength + AsIndex(t)];
          }
        }
      }
      dense::RunStep(one.graph, small, Phase::kForward, steps);
      const auto& logits = steps[AsIndex(one.graph.logits)].data;
      for (size_t b = 0; b < kBatch; ++b) {
        for (size_t v = 0; v < vocabulary; ++v) {
          const size_t row = b * kLength + AsIndex(t);
          worst = std::max(worst, std::abs(logits[b * vocabulary + v] -
                                           wide[row * vocabulary + v]));
        }
      }
      for (const Cache& cache : one.graph.caches) {
        steps[AsIndex(cache.before)] = steps[AsIndex(cache.after)];
      }
    }
    CHECK(worst < 1e-11);
  }
}

}  // namespace
}  // namespace shardc::step
