// Small configs, and what is built from them, for the tests of this folder.
#ifndef SHARDC_TESTS_FAMILIES_CONFIGS_H_
#define SHARDC_TESTS_FAMILIES_CONFIGS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "doctest/doctest.h"
#include "families/families.h"

namespace shardc::families {

inline const std::string kSmall =
    R"("model_type": "llama", "vocab_size": 10, "hidden_size": 8,)"
    R"( "intermediate_size": 12, "num_hidden_layers": 2,)"
    R"( "num_attention_heads": 2)";

inline std::unique_ptr<const JsonDocument> Config(const std::string& text) {
  Findings findings;
  auto document =
      JsonDocument::Parse(MakeSource("config.json", text), findings);
  REQUIRE(document != nullptr);
  return document;
}

// Returns the message, place and help of the only finding.
inline std::string Refused(const std::string& text,
                           std::string_view naming = "hf") {
  const auto document = Config(text);
  Findings findings;
  CHECK_FALSE(BuildTree(*document, naming, findings));
  REQUIRE(findings.all().size() == 1);
  const Finding& finding = findings.all()[0];
  CHECK(finding.place.source->name() == "config.json");
  const std::string at(finding.place.source->text().substr(
      finding.place.begin, finding.place.end - finding.place.begin));
  return finding.message + " @ " + at + " -> " + finding.help;
}

// Returns the small config with a member added or replaced.
inline std::string With(const std::string& key, const std::string& value) {
  std::string text = kSmall;
  const size_t at = text.find("\"" + key + "\": ");
  if (at == text.npos) return "{" + text + ", \"" + key + "\": " + value + "}";
  const size_t begin = at + key.size() + 4;
  const size_t end = std::min(text.find(',', begin), text.size());
  return "{" + text.replace(begin, end - begin, value) + "}";
}

// Returns the rows of a tensor of the tree; 0 if there is no such tensor.
inline int64_t RowsOf(const std::string& config, std::string_view name) {
  const auto document = Config(config);
  Findings findings;
  const auto tree = BuildTree(*document, "hf", findings);
  REQUIRE(tree);
  for (const Tensor& tensor : tree->tensors) {
    if (tensor.name == name) return (*tree->TypeOf(tensor).shape)[0];
  }
  return 0;
}

}  // namespace shardc::families

#endif  // SHARDC_TESTS_FAMILIES_CONFIGS_H_
