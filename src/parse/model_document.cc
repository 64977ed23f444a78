// Reads a config.json. Python writes values that JSON does not allow. They are
// replaced: NaN by 0.0, Infinity and -Infinity by null:
//
//   {"rope_theta": 1e4, "eos_token_id": NaN}  ->  "eos_token_id": 0.0
//
// Messages quote the file as it is written.
#include "parse/model_document.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "parse/manifest_leaf.h"
#include "source/file.h"
#include "source/json.h"

namespace shardc {
namespace {

// Replaces NaN, Infinity and -Infinity, which Python writes and JSON does not
// allow. Each replacement has the same length, so the places of all other
// values stay the same.
SourceRef ReplacePythonNumbers(const SourceRef& source) {
  struct Word {
    std::string_view word;
    std::string_view value;
  };
  constexpr std::array<Word, 3> kWords = {
      {{"-Infinity", "null     "}, {"Infinity", "null    "}, {"NaN", "0.0"}}};
  std::string text(source->text());
  bool changed = false;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (in_string && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      for (const Word& word : kWords) {
        if (text.compare(at, word.word.size(), word.word) != 0) continue;
        text.replace(at, word.value.size(), word.value);
        changed = true;
      }
    }
  }
  return changed ? MakeSource(source->name(), std::move(text)) : source;
}

}  // namespace

std::unique_ptr<const JsonDocument> ReadModelDocument(const std::string& path,
                                                      Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return nullptr;
  auto document = JsonDocument::Parse(ReplacePythonNumbers(source), findings,
                                      {.shown = source});
  if (document == nullptr || document->root().IsObject()) return document;
  findings.Add(code::kSchema, document->root().place(),
               "a model's configuration is " + DescribeJson(document->root()) +
                   ", not an object");
  return nullptr;
}

}  // namespace shardc
