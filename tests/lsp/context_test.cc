#include "lsp/position.h"

#include <doctest/doctest.h>

#include <string>

namespace shardc::lsp {
namespace {

// `|` is the cursor.
std::string Show(std::string text) {
  const size_t cursor = text.find('|');
  text.erase(cursor, 1);
  const Context context = ContextAt(text, cursor);
  std::string out;
  for (const std::string& key : context.keys) out += key + ".";
  constexpr const char* kNames[] = {"key", "value", "comment", "ignore"};
  out += std::string(" ") + kNames[static_cast<size_t>(context.at)] + " " +
         text.substr(context.begin, cursor - context.begin);
  return out;
}

TEST_CASE("context: where a cursor stands, also in what is no YAML yet") {
  const struct {
    std::string text, shown;
  } cases[] = {
      {"|", " key "},
      {"ru|", " key ru"},
      {"extends: [builtin:ll|", "extends. value builtin:ll"},
      {"rules:\n- match: 'x'\n  spec: [FS|", "rules.spec. value FS"},
      {"rules:\n  - match: 'x'\n    sp|", "rules. key sp"},
      {"rules:\n  - match: 'a: b' # '\n    modes: {decode: [T|",
       "rules.modes.decode. value T"},
      {"rules:\n  - match: a\n    modes:\n      decode: [[x, T|",
       "rules.modes.decode. value T"},
      {"rules:\n  - {match: 'a, b', spec: [TP], modes: {train: X|",
       "rules.modes.train. value X"},
      {"rules:\n  - match: a\n    spec:\n      - FS|", "rules.spec. key FS"},
      {"rules:\n  - match: a\n    spec:\n    - FS|", "rules.spec. key FS"},
      {"rules:\n  - match: a\n    spec: [\n      FS|", "rules.spec. key FS"},
      {"a: 1\n# shardc: ignore[SHD1|", " ignore SHD1"},
      {"a: 1  # shardc: ignore[x, un|", "a. ignore un"},
      {"a: 1  # shardc: ignore[x] un|", "a. comment un"},
      {"a: '#' \nb: x|", "b. value x"},
      {"targets:\n  one:\n    rules: [|", "targets.one.rules. value "},
      {"targets:\n  one:\n    mesh: x\n  two:\n    ru|", "targets.two. key ru"},
      {"lint:\n  severity: {SHD1|", "lint.severity. key SHD1"},
      {"bundles:\r\n  QKV: [[FS|", "bundles.QKV. value FS"},
  };
  for (const auto& one : cases) CHECK(Show(one.text) == one.shown);
}

TEST_CASE("context: any cursor in any text is somewhere") {
  const std::string text =
      "rules:\n- match: '[a\n  spec: {like: \"x\n]]}} : - # shardc: ignore[\n"
      "\t- - -\n:\n\"\n'\n";
  for (size_t at = 0; at <= text.size() + 2; ++at) {
    const Context context = ContextAt(text, at);
    CHECK(context.begin <= text.size());
  }
}

TEST_CASE("context: kinds of files") {
  CHECK(KindOf("/a/shardc.yaml", "") == FileKind::kProject);
  CHECK(KindOf("/a/x.yaml", "rules:\n- match: x\n") == FileKind::kRules);
  CHECK(KindOf("/a/x.yaml", "extends: [builtin:llama]") == FileKind::kRules);
  CHECK(KindOf("/a/x.yaml", "bundles: {X: [TP]}") == FileKind::kRules);
  CHECK(KindOf("/a/x.yaml", "axes: {dp: 2}\ndevices: 4") == FileKind::kMesh);
  CHECK(KindOf("/a/x.yaml", "axes: {dp: 2}\npolicy: {}") == FileKind::kRules);
  CHECK(KindOf("/a/.eslintrc.yaml", "extends: x\nrules:\n  semi: error\n") ==
        FileKind::kOther);
  CHECK(KindOf("/a/x.yaml", "services: {}") == FileKind::kOther);
  CHECK(KindOf("x", "# yaml-language-server: $schema=rules.schema.json") ==
        FileKind::kRules);
}

TEST_CASE("context: the word around an offset") {
  const std::string text = "spec: [KV_HEAD, tp]";
  const Word word = WordAt(text, text.find("HEAD"));
  CHECK(text.substr(word.begin, word.end - word.begin) == "KV_HEAD");
  CHECK(WordAt(text, 6).begin == WordAt(text, 6).end);
  const std::string axis = "spec: [tp-x.1, tp]";
  const Word dashed = WordAt(axis, axis.find("-x"));
  CHECK(axis.substr(dashed.begin, dashed.end - dashed.begin) == "tp-x.1");
}

}  // namespace
}  // namespace shardc::lsp
