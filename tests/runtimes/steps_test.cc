// Compares the results of transformers' models with those of shardc's
// descriptions of these models.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dense/step.h"
#include "doctest/doctest.h"
#include "runtimes/drawn.h"
#include "runtimes/records.h"
#include "step/build.h"
#include "step/derivatives.h"
#include "step/described.h"
#include "step/graph_writer.h"
#include "step/program.h"

namespace shardc {
namespace {

struct Pack {
  std::string_view model_type, name;
};
constexpr std::array<Pack, 52> kPacks = {{
    {"granite", "llama"},
    {"granitemoe", "granitemoe"},
    {"nemotron", "nemotron"},
    {"gpt_bigcode", "gpt_bigcode"},
    {"gpt_neo", "gpt_neo"},
    {"falcon", "falcon"},
    {"bloom", "bloom"},
    {"mpt", "mpt"},
    {"llama", "llama"},
    {"mistral", "llama"},
    {"ministral", "llama"},
    {"ernie4_5", "llama"},
    {"helium", "llama"},
    {"smollm3", "llama"},
    {"qwen2", "llama"},
    {"qwen3", "llama"},
    {"mixtral", "mixtral"},
    {"gpt2", "gpt2"},
    {"gemma", "gemma"},
    {"gemma2", "gemma"},
    {"gemma3_text", "gemma"},
    {"qwen2_moe", "qwen_moe"},
    {"qwen3_moe", "qwen_moe"},
    {"deepseek_v2", "deepseek"},
    {"deepseek_v3", "deepseek"},
    {"glm4_moe", "deepseek"},
    {"gpt_oss", "gpt_oss"},
    {"gptj", "gptj"},
    {"gpt_neox", "gpt_neox"},
    {"opt", "opt"},
    {"phi", "phi"},
    {"phi3", "phi3"},
    {"stablelm", "stablelm"},
    {"starcoder2", "starcoder2"},
    {"cohere", "cohere"},
    {"cohere2", "cohere"},
    {"olmo", "olmo"},
    {"olmo2", "olmo"},
    {"olmo3", "olmo"},
    {"olmoe", "olmoe"},
    {"phimoe", "phimoe"},
    {"dbrx", "dbrx"},
    {"llama4_text", "llama4"},
    {"bert", "bert"},
    {"roberta", "bert"},
    {"distilbert", "distilbert"},
    {"qwen2_vl", "llama"},
    {"vit", "vit"},
    {"t5", "t5"},
    {"mt5", "t5"},
    {"umt5", "t5"},
    {"whisper", "whisper"},
}};

std::string_view PackOf(std::string_view model_type) {
  const auto* const found =
      std::find_if(kPacks.begin(), kPacks.end(),
                   [&](const Pack& p) { return p.model_type == model_type; });
  return found == kPacks.end() ? "" : found->name;
}

std::string TextAt(const Place& place) {
  return std::string(
      place.source->text().substr(place.begin, place.end - place.begin));
}

void AddBuffer(Manifest& manifest, JsonValue buffer) {
  if (manifest.texts == nullptr) manifest.texts = std::make_shared<TextStore>();
  const std::string_view name =
      manifest.texts->Keep(Member(buffer, "name").string());
  manifest.tensors.push_back(
      {name, static_cast<uint32_t>(manifest.types.size())});
  manifest.types.push_back({Integers(Member(buffer, "shape")), Dtype::kF32});
  manifest.by_name.clear();
}

class Recomputed {
 public:
  Recomputed(JsonValue entry, const step::AttentionForm& form) : entry_(entry) {
    const JsonValue config = Member(entry, "config");
    model_ = step::FromConfig(TextAt(config.place()), "hf",
                              PackOf(Member(config, "model_type").string()));
    REQUIRE(model_.description != nullptr);
    // The recorded weights have gate and up one after the other. A step with
    // `fused: by_part` reads them as a loader stores them for its devices.
    auto contiguous = std::make_shared<ModelDescription>(*model_.description);
    contiguous->settings.erase("fused");
    model_.description = std::move(contiguous);
    for (const JsonValue buffer : Member(entry, "buffers").items()) {
      AddBuffer(model_.manifest, buffer);
    }
    Findings findings;
    auto built =
        step::BuildForward(*model_.description, &model_.config, model_.manifest,
                           Mode::kTrain, findings, {}, form);
    CAPTURE(step::TextOf(findings));
    REQUIRE(built);
    step_ = std::move(*built);
    Run();
  }

  // Returns the largest error of a logit, relative to the largest logit.
  double LogitsError() const {
    const auto& logits = values_[static_cast<size_t>(step_.graph.logits)].data;
    double worst = 0, largest = 0;
    size_t at = 0;
    for (const JsonValue rows : Member(entry_, "logits").items()) {
      for (const JsonValue row : rows.items()) {
        for (const JsonValue x : row.items()) {
          REQUIRE(at < logits.size());
          worst = std::max(worst, std::abs(x.real() - logits[at++]));
          largest = std::max(largest, std::abs(x.real()));
        }
      }
    }
    CHECK(at == logits.size());
    return worst / largest;
  }
  // Returns the error of the backward graph's gradients at the same parameters.
  double GradientError() {
    step::Differentiate(step_.graph);
    values_.resize(step_.graph.values.size());
    return dense::ComplexStepError(step_.graph, sizes_, values_, 11);
  }
  double LossError() const {
    const double loss = Member(entry_, "loss").real();
    return std::abs(values_[static_cast<size_t>(step_.graph.loss)].data[0] -
                    loss);
  }

 private:
  dense::StepTensor<double>& At(step::ValueId value) {
    return values_[static_cast<size_t>(value)];
  }

  void Run() {
    const step::Graph& graph = step_.graph;
    const JsonValue ids = Member(entry_, "ids");
    const auto batch = static_cast<int64_t>(ids.size());
    const auto length = static_cast<int64_t>((*ids.items().begin()).size());
    step::Sizes& sizes = sizes_;
    sizes = step::RealSizes(step_, batch, length);
    if (graph.common.slot != step::kNoLabel) {
      sizes[static_cast<size_t>(graph.common.slot)] = length;
    }
    if (const auto encoded = entry_.Find("encoder_ids")) {
      const auto tokens =
          static_cast<int64_t>((*encoded->items().begin()).size());
      sizes[static_cast<size_t>(graph.common.encoder_query)] = tokens;
      sizes[static_cast<size_t>(graph.common.encoder_key)] = tokens;
    }
    values_ = step::RandomInputs(graph, sizes, 1);
    for (const step::Parameter& parameter : graph.parameters) {
      auto& data = At(parameter.value).data;
      data.clear();
      for (const int64_t row : parameter.manifest_rows) Draw(row, data);
    }
    for (const step::Data& data : graph.data) {
      if (data.kind == step::DataKind::kIds) {
        const auto& labels =
            graph.values[static_cast<size_t>(data.value)].labels;
        const bool encoders = labels.back() == graph.common.encoder_query;
        // An encoder of sound reads no token ids.
        const std::string_view key = encoders ? "encoder_ids" : "ids";
        if (entry_.Find(key)) Fill(data.value, key);
      }
      if (data.kind == step::DataKind::kPatches) Fill(data.value, "patches");
      if (data.kind == step::DataKind::kLabels) Fill(data.value, "labels");
      if (data.kind == step::DataKind::kWeights) {
        for (double& x : At(data.value).data) x = 1;
      }
    }
    dense::RunStep(graph, sizes, step::Phase::kForward, values_);
  }

  void Draw(int64_t row, std::vector<double>& data) const {
    const Tensor& tensor = model_.manifest.tensors[static_cast<size_t>(row)];
    const Shape& shape = *model_.manifest.TypeOf(tensor).shape;
    int64_t size = 1;
    for (const int64_t side : shape) size *= side;
    const Drawn drawn(tensor.name);
    for (int64_t i = 0; i < size; ++i) {
      data.push_back(drawn.Weight(static_cast<uint64_t>(i), shape.size() == 1));
    }
  }

  void Fill(step::ValueId value, std::string_view key) {
    size_t at = 0;
    for (const JsonValue row : Member(entry_, key).items()) {
      for (const JsonValue id : row.items()) At(value).data[at++] = id.real();
    }
  }

  JsonValue entry_;
  step::Described model_;
  step::StepModel step_;
  step::Sizes sizes_;
  dense::StepValues<double> values_;
};

TEST_CASE("described models compute what transformers' do") {
  const auto record = LoadRecord("transformers/steps");
  int cases = 0;
  for (const JsonValue entry : Member(record->root(), "cases").items()) {
    const std::string name(Member(entry, "name").string());
    CAPTURE(name);
    Recomputed ours(entry, {});
    // transformers computes some norms and softmaxes in float32.
    CHECK(ours.LogitsError() < 3e-6);
    CHECK(ours.LossError() < 3e-6);
    CHECK(ours.GradientError() < 1e-11);
    ++cases;
  }
  CHECK(cases >= 25);
}

// Returns the smallest number of blocks, at least 2, into which the tokens can
// be divided.
int64_t TurnsOf(JsonValue entry) {
  const JsonValue ids = Member(entry, "ids");
  const auto length = static_cast<int64_t>((*ids.items().begin()).size());
  int64_t turns = 2;
  while (length % turns != 0) ++turns;
  return turns;
}

bool HasEncoder(JsonValue entry) {
  const auto both = Member(entry, "config").Find("is_encoder_decoder");
  return both && both->kind() == JsonKind::kBool && both->boolean();
}

TEST_CASE("they do so where keys pass round a ring") {
  const auto record = LoadRecord("transformers/steps");
  for (const JsonValue entry : Member(record->root(), "cases").items()) {
    // In a model with an encoder, attention runs as described.
    if (HasEncoder(entry)) continue;
    const std::string name(Member(entry, "name").string());
    CAPTURE(name);
    Recomputed ours(
        entry, {.view = step::AttentionView::kRing, .turns = TurnsOf(entry)});
    CHECK(ours.LogitsError() < 3e-6);
    CHECK(ours.GradientError() < 1e-11);
  }
}

}  // namespace
}  // namespace shardc
