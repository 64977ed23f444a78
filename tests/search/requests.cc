#include "search/requests.h"

#include <doctest/doctest.h>

#include <span>
#include <utility>

#include "devices/profiles.h"
#include "emit/plans/rules_file.h"
#include "families/families.h"
#include "parse/project.h"
#include "parse/rules.h"
#include "source/json.h"
#include "target/choose.h"
#include "target/open.h"

namespace shardc::search {
namespace {

std::string ConfigText(const Decoder& of) {
  const auto member = [](const char* name, int64_t value) {
    return ", \"" + std::string(name) + "\": " + std::to_string(value);
  };
  std::string out = of.experts > 0 ? R"({"model_type": "mixtral")"
                                   : R"({"model_type": "llama")";
  out += member("hidden_size", of.hidden) +
         member("num_hidden_layers", of.layers) +
         member("num_attention_heads", of.heads) +
         member("num_key_value_heads", of.kv_heads) +
         member("intermediate_size", of.mlp) + member("vocab_size", of.vocab);
  if (of.experts > 0) {
    out += member("num_local_experts", of.experts) +
           member("num_experts_per_tok", 2);
  }
  return out + R"(, "hidden_act": "silu", "rms_norm_eps": 1e-05,)"
               R"( "rope_theta": 10000.0, "tie_word_embeddings": false,)"
               R"( "torch_dtype": "bfloat16"})";
}

std::optional<RuleSet> Read(const RulesFile& file, const Manifest& manifest) {
  Findings findings;
  std::string text = ImportedFileYaml(file.own);
  std::string extends;
  for (const std::string& one : file.extends) {
    extends += (extends.empty() ? "" : ", ") + ('"' + one + '"');
  }
  const std::string version = "version: 1\n";
  text.insert(text.find(version) + version.size(),
              "extends: [" + extends + "]\n");
  const SourceRef source = MakeSource("rules.yaml", text);
  const std::string word = "builtin:drawn";
  return ReadRules(
      std::span(&word, 1),
      [&](std::string_view name) {
        return name == word ? source : FindPack(name, NamingOf(manifest));
      },
      findings);
}

}  // namespace

std::unique_ptr<Request> RequestFor(const Decoder& decoder, int64_t devices,
                                    const std::string& profile, int64_t batch,
                                    int64_t length, int64_t memory) {
  Findings findings;
  const auto document = JsonDocument::Parse(
      MakeSource("config.json", ConfigText(decoder)), findings);
  REQUIRE(document != nullptr);
  auto out = std::make_unique<Request>();
  auto manifest = families::BuildTree(*document, "hf", findings);
  REQUIRE(manifest.has_value());
  out->manifest = std::move(*manifest);
  out->model = ReadModelConfig(*document, findings);
  REQUIRE(out->model.has_value());
  out->options.modes = {Mode::kTrain};
  out->devices = devices;
  out->settings.batch = batch;
  out->settings.length = length;
  out->settings.memory = memory;
  out->settings.profile = FindDeviceProfile(profile);
  REQUIRE(out->settings.profile != nullptr);
  out->rules = {decoder.experts > 0 ? "builtin:mixtral/hf"
                                    : "builtin:llama/hf"};
  out->description = out->rules;
  out->read = [request = out.get()](const RulesFile& file) {
    return Read(file, request->manifest);
  };
  return out;
}

std::unique_ptr<Request> DrawRequest(Draws& draws) {
  const auto one_of = [&](auto... values) {
    const int64_t all[] = {static_cast<int64_t>(values)...};
    return all[draws() % sizeof...(values)];
  };
  Decoder decoder;
  decoder.layers = one_of(1, 2, 3, 5);
  decoder.heads = one_of(4, 6, 8, 12);
  decoder.kv_heads = one_of(1, 2, 4);
  if (decoder.heads % decoder.kv_heads != 0) decoder.kv_heads = 2;
  decoder.hidden = decoder.heads * one_of(64, 128);
  decoder.mlp = one_of(1024, 2816, 4096);
  decoder.vocab = one_of(32000, 50257, 32768);
  decoder.experts = one_of(0, 0, 0, 4, 8);
  const char* const profiles[] = {"h100-sxm", "a100-80-sxm", "tpu-v5e",
                                  "tpu-v5p", "b200-hgx"};
  const int64_t devices = one_of(1, 2, 4, 6, 8, 16, 32);
  auto out = RequestFor(
      decoder, devices, profiles[draws() % 5], devices * one_of(1, 2, 4, 3),
      one_of(512, 2048, 8192, 32768), one_of(2, 3, 4, 6, 10, 30) << 30);
  out->unmeasured = draws() % 4 == 0;
  out->remat_fixed = draws() % 4 == 0;
  return out;
}

}  // namespace shardc::search
