#include "match/sketch.h"

#include <string>
#include <vector>

#include "doctest/doctest.h"

namespace shardc {
namespace {

// Returns the texts of a sketch, with `%` for any text and `?` for one
// character.
std::string Shown(const Sketch& sketch) {
  std::string out;
  for (const std::string& text : sketch.texts) {
    if (!out.empty()) out += ' ';
    for (char c : text) {
      out += c == Sketch::kWild ? '%' : c == Sketch::kAnyChar ? '?' : c;
    }
  }
  return out;
}

TEST_CASE("a sketch has the texts that the pattern stands for") {
  const std::pair<const char*, const char*> cases[] = {
      {"mlp/up/kernel", "mlp/up/kernel"},
      {"mlp/(gate|up)_proj/kernel$", "mlp/gate_proj/kernel mlp/up_proj/kernel"},
      {R"(experts/\d+/w[123]/kernel)", "experts/%%/w%/kernel"},
      {R"(model\.layers\.0)", "model.layers.0"},
      {"a.b", "a?b"},
      {"a.*b", "a%b"},
      {"(?:a|b)?c", "ac bc c"},
      {"a{2,3}b", "a%b"},
      {"a{2}b", "a%b"},
      {"a{2,}b", "a%b"},
      {"a{0,10}b", "a%b"},
      {"a{x}b", "a{x}b"},
      // RE2 reads these as literal text.
      {"a{,3}b", "a{,3}b"},
      {"a{,}b", "a{,}b"},
      {"a{}b", "a{}b"},
      {"a{02}b", "a{02}b"},
      {"a{1,2,3}b", "a{1,2,3}b"},
      {"a{2", "a{2"},
      {"x|y/z", "x y/z"},
      {"(?i)ab", "ab"},
      {"[^/]+/b", "%%/b"},
      {R"(\pL\p{Greek}z)", "%%z"},
      {"((", ""},
      {"[", "%"},
      {"\\", ""},
      {"a(b", "ab"},
  };
  for (const auto& one : cases) {
    const char* pattern = one.first;
    const char* want = one.second;
    CAPTURE(pattern);
    CHECK(Shown(SketchOf(pattern)) == want);
  }
}

TEST_CASE("catch-alls are patterns of wild marks that match every name") {
  for (const char* pattern :
       {".*",  "",          ".",       ".+",     "^.*$",   "(.*)", "^",
        ".*?", "[\\s\\S]*", "(a|.*)*", "()",     "[a-z]*", "^.+$", ".$",
        "^.",  "(^.*$)",    ".{0,5}$", "(?i).*", "$",      ".?.*$"}) {
    CAPTURE(pattern);
    CHECK(SketchOf(pattern).catch_all);
  }
  for (const char* pattern :
       {"a", ".*bias", "/", "(a|.*)", "\\.", "x*y", "^[^/]*$", "^\\w+$",
        "[0-9]+", "\\d", "^$", "^.{1,3}$", "\\b", "^.?$", "..", "^\\S*$"}) {
    CAPTURE(pattern);
    CHECK_FALSE(SketchOf(pattern).catch_all);
  }
  CHECK(SketchOf("^a$").begin_anchor);
  CHECK(SketchOf("^a$").end_anchor);
  CHECK_FALSE(SketchOf("a\\$").end_anchor);
}

TEST_CASE("alternatives are kept up to a limit") {
  const Sketch many = SketchOf("(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)");
  CHECK(many.texts.size() == Sketch::kLimit);
  CHECK_FALSE(many.complete);
  std::string deep(200000, '(');
  CHECK_FALSE(SketchOf(deep).complete);
}

// Returns whether the word fits, by the definition: at a wild mark, all texts
// are tried in its place.
bool FitsSlowly(std::string_view text, std::string_view word) {
  if (text.empty()) return word.empty();
  if (text[0] == Sketch::kWild) {
    for (size_t i = 0; i <= word.size(); ++i) {
      if (FitsSlowly(text.substr(1), word.substr(i))) return true;
    }
    return false;
  }
  if (word.empty()) return false;
  if (text[0] != Sketch::kAnyChar && text[0] != word[0]) return false;
  return FitsSlowly(text.substr(1), word.substr(1));
}

TEST_CASE("SketchFits equals its definition over all short texts and words") {
  const char letters[] = {'a', 'b', Sketch::kWild, Sketch::kAnyChar};
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == 4) break;
    for (char c : letters) texts.push_back(texts[i] + c);
  }
  std::vector<std::string> words = {""};
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].size() == 4) break;
    for (char c : {'a', 'b'}) words.push_back(words[i] + c);
  }
  int fitting = 0;
  for (const std::string& text : texts) {
    for (const std::string& word : words) {
      const bool fits = SketchFits(text, word);
      if (fits != FitsSlowly(text, word)) {
        CAPTURE(text);
        CAPTURE(word);
        CHECK(fits == FitsSlowly(text, word));
      }
      fitting += fits ? 1 : 0;
    }
  }
  CHECK(fitting > 500);
}

}  // namespace
}  // namespace shardc
