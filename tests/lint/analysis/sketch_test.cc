#include "lint/analysis/sketch.h"

#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "lint/analysis/dots.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/roles.h"

namespace shardc {
namespace {

// `%` stands for any text, `?` for one character.
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

TEST_CASE("a pattern is sketched as the texts it was written for") {
  const std::pair<const char*, const char*> cases[] = {
      {"mlp/up/kernel", "mlp/up/kernel"},
      {"mlp/(gate|up)_proj/kernel$", "mlp/gate_proj/kernel mlp/up_proj/kernel"},
      {R"(experts/\d+/w[123]/kernel)", "experts/%%/w%/kernel"},
      {R"(model\.layers\.0)", "model.layers.0"},
      {"a.b", "a?b"},
      {"a.*b", "a%b"},
      {"(?:a|b)?c", "ac bc c"},
      {"a{2,3}b", "a%b"},
      {"a{x}b", "a{x}b"},
      {"x|y/z", "x y/z"},
      {"(?i)ab", "ab"},
      {"[^/]+/b", "%%/b"},
      {R"(\pL\p{Greek}z)", "%%z"},
      {"((", ""},
      {"[", "%"},
      {"\\", ""},
      {"a(b", "ab"},
  };
  for (const auto& [pattern, want] : cases) {
    CAPTURE(pattern);
    CHECK(Shown(SketchOf(pattern)) == want);
  }
}

TEST_CASE("catch-alls are patterns of wild marks only") {
  for (const char* pattern : {".*", "", ".", ".+", "^.*$", "(.*)", "^", ".*?",
                              "[\\s\\S]*", "(a|.*)*", "()"}) {
    CAPTURE(pattern);
    CHECK(SketchOf(pattern).catch_all);
  }
  for (const char* pattern : {"a", ".*bias", "/", "(a|.*)", "\\.", "x*y"}) {
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

// Against the definition: try every split at a wild mark.
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

TEST_CASE("fitting is the definition, over all short texts and words") {
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

TEST_CASE("dots of paths are escaped, others are not") {
  const std::pair<const char*, const char*> cases[] = {
      {"mlp.up.weight", R"(mlp\.up\.weight)"},
      {R"(mlp\.up.weight$)", R"(mlp\.up\.weight$)"},
      {R"(layers.\d+.up)", R"(layers\.\d+\.up)"},
      {"(q|k).weight", R"((q|k)\.weight)"},
      {"a.(b|c)", R"(a\.(b|c))"},
  };
  for (const auto& [pattern, want] : cases) {
    CAPTURE(pattern);
    CHECK(EscapeDots(pattern) == std::string(want));
  }
  for (const char* pattern :
       {".*", "a.*b", "a.+", "[a.b]", R"(a\.b)", ".a", "a.", "a.?b", ""}) {
    CAPTURE(pattern);
    CHECK_FALSE(EscapeDots(pattern));
  }
}

std::string Template(std::string_view name, char separator) {
  std::string out;
  AppendTemplate(name, separator, out);
  return out;
}

TEST_CASE("whole digit parts are stars") {
  CHECK(Template("layers/10/w1/0", '/') == "layers/*/w1/*");
  CHECK(Template("0.a.12", '.') == "*.a.*");
  CHECK(Template("a//b", '/') == "a//b");
  CHECK(Template("12", 0) == "*");
  CHECK(Template("", '/') == "");
}

struct RoleCase {
  const char* name;
  char separator;
  Role role;
  int out;  // of rank 2
};

TEST_CASE("roles are read from names") {
  const RoleCase cases[] = {
      {"model/layers/*/self_attn/q_proj/kernel", '/', Role::kQuery, 1},
      {"model.layers.*.self_attn.q_proj.weight", '.', Role::kQuery, 0},
      {"h/*/attention/dense/kernel", '/', Role::kOutput, 1},
      {"h/*/mlp/dense_h_to_4h/kernel", '/', Role::kUp, 1},
      {"encoder/block/*/layer/*/SelfAttention/o/kernel", '/', Role::kOutput, 1},
      {"h.*.attn.c_attn.weight", '.', Role::kFusedQkv, 1},
      {"h.*.attn.c_proj.weight", '.', Role::kOutput, 1},
      {"h.*.mlp.c_proj.weight", '.', Role::kDown, 1},
      {"layers/*/mlp/experts/*/w1/kernel", '/', Role::kGate, 1},
      {"layers/*/mlp/gate/kernel", '/', Role::kRouter, 1},
      {"layers/*/self_attn/q_norm/kernel", '/', Role::kNorm, 1},
      {"embed_tokens/embedding", '/', Role::kEmbedding, -1},
      {"lm_head.weight", '.', Role::kHead, 0},
      {"score/kernel", '/', Role::kOther, 1},
  };
  for (const RoleCase& one : cases) {
    CAPTURE(one.name);
    const GroupRole role = RoleOf(one.name, one.separator);
    CHECK(role.role == one.role);
    CHECK(OutDim(role, 2) == one.out);
  }
  const GroupRole up = RoleOf("mlp/up_proj/kernel", '/');
  CHECK(up.siblings == "mlp/?/kernel");
  CHECK(up.module == "mlp/up_proj");
  CHECK(RoleOf("mlp/up_proj/bias", '/').module == up.module);
  CHECK(RoleOf("mlp/experts/up_proj/kernel", '/').expert);
}

TEST_CASE("quantisation blocks are read from the shapes") {
  CHECK(BlockOf(576, 5) == 128);  // 4.5 blocks
  CHECK(BlockOf(7168, 56) == 128);
  CHECK(BlockOf(4096, 32) == 128);
  CHECK(BlockOf(4096, 4096) == 1);
  CHECK(BlockOf(4096, 1) == 4096);
  CHECK(BlockOf(300, 3) == 128);
  CHECK(BlockOf(10, 0) == 1);
}

}  // namespace
}  // namespace shardc
