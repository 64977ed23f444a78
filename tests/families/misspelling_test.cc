#include "families/families.h"

#include <string_view>
#include <vector>

#include "doctest/doctest.h"

namespace shardc::families {
namespace {

TEST_CASE("a model type is misspelled, and not that of another model") {
  struct Case {
    std::string_view word, type;
  };
  const std::vector<Case> cases = {
      {"lama", "llama"},
      {"Llamma", "llama"},
      {"mistrl", "mistral"},
      {"whispr", "whisper"},
      {"bret", "bert"},
      {"Qwen-2", "qwen2"},
      {"qwen2vl", "qwen2_vl"},
      {"gptneox", "gpt_neox"},
      {"deepsek-v3", "deepseek_v3"},
      {"xlm_roberta", "xlm-roberta"},
      // Other models of transformers, which have no description.
      {"bart", ""},
      {"beit", ""},
      {"blip_vision_model", ""},
      {"deepseek_v4", ""},
      {"exaone", ""},
      {"falcon_h2", ""},
      {"gemma3n", ""},
      {"hubert", ""},
      {"mistral4", ""},
      {"nemotron_h2", ""},
      {"qwen3_5", ""},
      {"internvl_chat", ""},
      {"voxtral", ""},
      {"---", ""},
      {"", ""},
  };
  const auto types = ModelTypes();
  for (const Case& test : cases) {
    CAPTURE(test.word);
    CHECK(FindMisspelled(test.word, types).value_or("") == test.type);
  }
}

}  // namespace
}  // namespace shardc::families
