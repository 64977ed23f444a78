#include "step/build.h"
#include "source/index.h"
#include "step/sizes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "parse/model_text.h"
#include "step/check_sizes.h"
#include "step/described.h"
#include "step/optimizer.h"
#include "step/vjp.h"

namespace shardc::step {
namespace {

// A model of a family with every size small and different.
struct Family {
  std::string_view pack;
  std::string_view naming;
  std::string_view config;
};

const std::vector<Family> kFamilies = {
    {"llama", "hf",
     R"({"model_type": "llama", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "attention_bias": true, "mlp_bias": true})"},
    {"llama", "flax",
     R"({"model_type": "llama", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2})"},
    {"llama", "hf",
     R"({"model_type": "qwen2", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "tie_word_embeddings": true, "use_sliding_window": false})"},
    {"llama", "hf",
     R"({"model_type": "qwen3", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6})"},
    {"llama", "hf",
     R"({"model_type": "mistral", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "sliding_window": 3})"},
    {"mixtral", "hf",
     R"({"model_type": "mixtral", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "num_experts_per_tok": 2})"},
    {"mixtral", "hf-files",
     R"({"model_type": "mixtral", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "num_experts_per_tok": 2})"},
    {"gpt2", "hf",
     R"({"model_type": "gpt2", "vocab_size": 11, "n_embd": 8, "n_layer": 2,
        "n_head": 2, "n_positions": 16, "layer_norm_epsilon": 1e-5})"},
    {"gemma", "hf",
     R"({"model_type": "gemma", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 6})"},
    {"gemma", "hf",
     R"({"model_type": "gemma2", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
        "sliding_window": 3, "query_pre_attn_scalar": 8,
        "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0})"},
    {"gemma", "hf",
     R"({"model_type": "gemma3_text", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
        "sliding_window": 3, "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 8, "rope_local_base_freq": 100.0})"},
    {"phimoe", "hf",
     R"({"model_type": "phimoe", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "attention_bias": true, "lm_head_bias": true, "num_local_experts": 5,
        "num_experts_per_tok": 2, "router_jitter_noise": 0.25,
        "output_router_logits": true, "router_aux_loss_coef": 0.5})"},
    {"phimoe", "hf-files",
     R"({"model_type": "phimoe", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 5, "num_experts_per_tok": 2})"},
    {"dbrx", "hf",
     R"({"model_type": "dbrx", "vocab_size": 11, "d_model": 8, "n_heads": 4,
        "n_layers": 2, "max_seq_len": 16,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 0.5,
                        "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 12, "moe_num_experts": 4,
                       "moe_top_k": 2, "moe_normalize_expert_weights": 2,
                       "moe_loss_weight": 0.5},
        "output_router_logits": true})"},
    {"llama4", "hf",
     R"({"model_type": "llama4_text", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "intermediate_size_mlp": 10,
        "num_hidden_layers": 4, "rms_norm_eps": 1e-5, "head_dim": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "interleave_moe_layer_step": 2,
        "attention_chunk_size": 3, "floor_scale": 2})"},
    {"falcon", "hf",
     R"({"model_type": "RefinedWebModel", "vocab_size": 11, "hidden_size": 8,
        "n_layer": 2, "n_head": 4, "multi_query": true, "parallel_attn": true,
        "bias": false, "alibi": false, "layer_norm_epsilon": 1e-5})"},
    {"qwen", "hf",
     R"({"model_type": "qwen", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 24, "num_hidden_layers": 2,
        "layer_norm_epsilon": 1e-6, "num_attention_heads": 4,
        "kv_channels": 2, "rotary_emb_base": 10000})"},
    {"bert", "hf",
     R"({"model_type": "bert", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "pad_token_id": 0,
        "num_attention_heads": 4, "max_position_embeddings": 16})"},
    {"bert", "flax",
     R"({"model_type": "bert", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "pad_token_id": 0,
        "num_attention_heads": 4, "max_position_embeddings": 16})"},
    {"bert", "hf",
     R"({"model_type": "roberta", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "pad_token_id": 1,
        "num_attention_heads": 4, "max_position_embeddings": 16})"},
    {"vit", "hf",
     R"({"model_type": "vit", "hidden_size": 8, "intermediate_size": 12,
        "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 6,
        "patch_size": 2, "num_labels": 5})"},
    {"vit", "flax",
     R"({"model_type": "vit", "hidden_size": 8, "intermediate_size": 12,
        "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 6,
        "patch_size": 2, "num_labels": 5})"},
    {"t5", "hf",
     R"({"model_type": "t5", "vocab_size": 11, "d_model": 8, "d_kv": 3,
        "d_ff": 12, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4,
        "relative_attention_num_buckets": 6, "feed_forward_proj": "relu",
        "relative_attention_max_distance": 4, "layer_norm_epsilon": 1e-6})"},
    {"t5", "hf",
     R"({"model_type": "umt5", "vocab_size": 11, "d_model": 8, "d_kv": 3,
        "d_ff": 12, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4,
        "relative_attention_num_buckets": 6, "tie_word_embeddings": false,
        "relative_attention_max_distance": 4, "layer_norm_epsilon": 1e-6})"},
    {"whisper", "hf",
     R"({"model_type": "whisper", "vocab_size": 11, "num_mel_bins": 3,
        "d_model": 8, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 2, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 10, "decoder_ffn_dim": 12,
        "max_source_positions": 6, "max_target_positions": 16})"},
    {"whisper", "flax",
     R"({"model_type": "whisper", "vocab_size": 11, "num_mel_bins": 3,
        "d_model": 8, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 2, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 10, "decoder_ffn_dim": 12,
        "max_source_positions": 6, "max_target_positions": 16})"},
    {"distilbert", "hf",
     R"({"model_type": "distilbert", "vocab_size": 11, "dim": 8,
        "hidden_dim": 12, "n_layers": 2, "n_heads": 4,
        "max_position_embeddings": 16})"},
};

// Returns the first family that the pack describes.
const Family& FirstOf(std::string_view pack) {
  const auto found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const Family& f) { return f.pack == pack; });
  REQUIRE(found != kFamilies.end());
  return *found;
}

Described ModelOf(const Family& family) {
  Described model =
      FromConfig(std::string(family.config), family.naming, family.pack);
  REQUIRE(model.description != nullptr);
  return model;
}

StepModel Built(const Family& family, Mode mode,
                const AttentionForm& form = {}) {
  const Described model = ModelOf(family);
  Findings findings;
  auto step = BuildForward(*model.description, &model.config, model.manifest,
                           mode, findings, {}, form);
  CAPTURE(family.config);
  CAPTURE(TextOf(findings));
  REQUIRE(step);
  return std::move(*step);
}

// Checks that operands come before results, that labels are known, and that
// every value is made once.
void CheckForm(const Graph& graph) {
  std::vector<bool> made(graph.values.size(), false);
  for (const Op& op : graph.ops) {
    CAPTURE(op.name);
    for (const ValueId in : op.in) {
      REQUIRE(in >= 0);
      CHECK(made[AsIndex(in)]);
    }
    CHECK_FALSE(made[AsIndex(op.out)]);
    made[AsIndex(op.out)] = true;
    for (const LabelId label : graph.values[AsIndex(op.out)].labels) {
      CHECK(label >= 0);
      CHECK(AsIndex(label) < graph.labels.size());
    }
  }
  CHECK(std::all_of(made.begin(), made.end(), [](bool is) { return is; }));
}

// Sets the number of an encoder's tokens, which otherwise is that of the
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

// Whichever form attention has, it is the same function.
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
      // Query heads that each have a KV head of their own have no copies.
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

// Of a role in a layer.
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

// transformers has no code for the first Qwen; it has for the second.
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

// Copies the keys and values that prefill keeps of an encoder's tokens to the
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
  // A training graph has labels and weights besides.
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

// One token at a time over caches that hold large stale rows.
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

TEST_CASE("what sees behind itself has no caches and does not decode") {
  const Family& encoder = FirstOf("bert");
  const Described model = ModelOf(encoder);
  CHECK_FALSE(HasMode(*model.description, &model.config, Mode::kDecode));
  CHECK_FALSE(HasMode(*model.description, &model.config, Mode::kInsert));
  CHECK(HasMode(*model.description, &model.config, Mode::kPrefill));
  const StepModel step = Built(encoder, Mode::kPrefill);
  CHECK(step.graph.caches.empty());
  Findings findings;
  CHECK_FALSE(BuildForward(*model.description, &model.config, model.manifest,
                           Mode::kDecode, findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].message ==
        "a model whose queries see what is behind them does not decode");
}

// The graph has the layers of both stacks, each with its caches.
TEST_CASE("an encoder is run in prefill, before the model decodes") {
  const Family& family = FirstOf("t5");
  const Described model = ModelOf(family);
  CHECK(HasMode(*model.description, &model.config, Mode::kDecode));
  const StepModel step = Built(family, Mode::kPrefill);
  const Graph& graph = step.graph;
  // Keys and values of the tokens so far, and of the encoder's.
  CHECK(graph.caches.size() == 3 * 4);
  CHECK(graph.encoder_layer == 3);
  int32_t last = -1;
  for (const Op& op : graph.ops) last = std::max(last, op.layer);
  CHECK(last == 4);
  // The first layer of each stack has a table of distances, which the other
  // layers share.
  const auto tables = std::count_if(
      graph.parameters.begin(), graph.parameters.end(),
      [](const Parameter& p) { return p.role.ends_with("near"); });
  CHECK(tables == 2);
  const auto rows =
      std::count_if(graph.ops.begin(), graph.ops.end(),
                    [](const Op& op) { return op.kind == OpKind::kDistance; });
  CHECK(rows == 2);
  // Decoding has the encoder's parameters, and runs none of it.
  const Graph one = Built(family, Mode::kDecode).graph;
  CHECK(one.parameters.size() == graph.parameters.size());
  CHECK(one.caches.size() == graph.caches.size());
  CHECK(std::all_of(one.ops.begin(), one.ops.end(), [](const Op& op) {
    return op.layer < 3 || op.kind == OpKind::kInput;
  }));
  CheckForm(one);
  Findings local;
  CHECK_FALSE(BuildForward(*model.description, &model.config, model.manifest,
                           Mode::kTrain, local, {},
                           {.view = AttentionView::kLocal}));
  REQUIRE(local.all().size() == 1);
  CHECK(local.all()[0].message ==
        "a model with an encoder runs attention as described");
}

// A graph without the first layer has that layer's table of distances too.
TEST_CASE("a layer without the first one takes what that one holds") {
  const Family& family = FirstOf("t5");
  const Described model = ModelOf(family);
  Findings findings;
  const auto step =
      BuildForward(*model.description, &model.config, model.manifest,
                   Mode::kTrain, findings, {2, 4});
  REQUIRE(step);
  int64_t tables = 0;
  for (const Parameter& parameter : step->graph.parameters) {
    if (!parameter.role.ends_with("near")) continue;
    ++tables;
    CHECK((parameter.layer == 0 || parameter.layer == 3));
  }
  CHECK(tables == 2);
}

TEST_CASE("lines that mean nothing are refused where they stand") {
  const Described model =
      FromConfig(std::string(kFamilies[0].config), "hf", "llama");
  const auto refused = [&](const std::string& line) {
    ModelDescription changed = *model.description;
    DescribedLine& first = changed.stacks[0].layer[0];
    const Place place = first.place;
    auto parsed = ParseDescribedLine(line);
    REQUIRE(parsed);
    first = *parsed;
    first.place = place;
    Findings findings;
    CHECK_FALSE(BuildForward(changed, &model.config, model.manifest,
                             Mode::kTrain, findings));
    REQUIRE(findings.all().size() >= 1);
    CHECK(findings.all()[0].place.begin == place.begin);
    return findings.all()[0].message;
  };
  CHECK(refused("y = rmsnrm(x, norm1)") == "there is no op `rmsnrm`");
  CHECK(refused("y = convolve(x, q, d)") ==
        "`convolve q` needs tokens, an odd kernel, and as many frames a token"
        " as it passes over");
  CHECK(refused("y = frames(d, 0)") ==
        "a model has one input of frames, of one or more a token");
  CHECK(refused("y = attention_near(x, x, x, norm1)") ==
        "`attention_near norm1` needs `distance` and a table of rows by heads");
  CHECK(refused("y = rmsnorm(z, norm1)") == "`z` is no value so far");
  CHECK(refused("y = rmsnorm(x, norm9)") == "`norm9` is no role");
  CHECK(refused("y = root(x, q)") == "`q` is no dimension");
  CHECK(refused("y = linear(x)") == "`linear` has too few arguments");
  CHECK(refused("y = rename(x, d, f)") ==
        "`rename` needs a dimension and one of its size");
  CHECK(refused("y = rope(x, x)") == "`rope` has too many arguments");
  CHECK(refused("y, z = rope(x)") == "`rope` gives 1, not 2");
  CHECK(refused("y = linear(x, q.bias)") ==
        "`linear q.bias` has nothing to contract");
  CHECK(refused("y = fn(x, wave)") == "there is no function `wave`");
}

// Sizes that a configuration cannot have may come from a description.
TEST_CASE("a step whose sizes do not fit each other is refused") {
  const auto refused = [](size_t family,
                          const std::function<void(ModelDescription&)>& change,
                          Mode mode) {
    const Family& of = kFamilies[family];
    const Described model =
        FromConfig(std::string(of.config), of.naming, of.pack);
    ModelDescription changed = *model.description;
    change(changed);
    Findings findings;
    CHECK_FALSE(
        BuildForward(changed, &model.config, model.manifest, mode, findings));
    REQUIRE(findings.all().size() == 1);
    CHECK(findings.all()[0].place.HasPosition());
    return findings.all()[0].message;
  };
  const auto set = [](std::string key, std::string value) {
    return [key, value](ModelDescription& description) {
      description.settings[key].text = value;
    };
  };
  constexpr size_t kLlama = 0, kMixtral = 5;
  CHECK(refused(kMixtral, set("top_k", "6"), Mode::kTrain) ==
        "each token goes to 6 experts, and the model has 4 experts");
  CHECK(refused(kMixtral, set("top_k", "0"), Mode::kPrefill) ==
        "each token goes to 0 experts, and the model has 4 experts");
  CHECK(refused(kLlama, set("rope.turned", "'1000'"), Mode::kTrain) ==
        "the rotary dimension is 1000, and a head has 2 elements");
  CHECK(refused(kLlama, set("rope.turned", "'0.5'"), Mode::kDecode) ==
        "the rotary dimension is 1, which is not even and above 0");
}

TEST_CASE("sizes of a built step are checked against each other") {
  const Described model =
      FromConfig(std::string(kFamilies[0].config), "hf", "llama");
  Findings findings;
  const auto step = BuildForward(*model.description, &model.config,
                                 model.manifest, Mode::kTrain, findings);
  REQUIRE(step);
  const Place place = model.description->stacks[0].repeat.place;
  Sizes sizes = RealSizes(*step, 2, 8);
  CHECK(CheckSizes(step->graph, sizes, place, findings));
  CHECK(CheckBytes(step->graph, sizes, place, findings));
  CHECK(findings.empty());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (step->graph.labels[i].name == "k") sizes[i] = 3;
  }
  CHECK_FALSE(CheckSizes(step->graph, sizes, place, findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].message ==
        "3 KV heads cannot serve 4 attention heads: 3 does not divide 4");
  const int64_t large = int64_t{1} << 32;
  CHECK_FALSE(
      CheckBytes(step->graph, RealSizes(*step, large, large), place, findings));
  REQUIRE(findings.all().size() == 2);
  CHECK(findings.all()[1].message.starts_with(
      "the bytes of the step's values do not fit in 64 bits"));
}

}  // namespace
}  // namespace shardc::step
