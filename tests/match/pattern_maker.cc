#include "match/pattern_maker.h"

#include <array>

namespace shardc {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kModules = {
    "self_attn"sv, "mlp"sv,       "experts"sv, "block_sparse_moe"sv,
    "attention"sv, "norm"sv,      "lm_head"sv, "embed_tokens"sv,
    "K"sv,         "h"sv,         "wte"sv,     "Dense_0"sv,
    "moe-gate"sv,  "exp_avg_sq"sv};
constexpr std::array kLeaves = {"q_proj"sv, "k_proj"sv, "up_proj"sv,
                                "w1"sv,     "kernel"sv, "weight"sv,
                                "bias"sv,   "scale"sv,  "c_attn"sv,
                                "0"sv,      "1"sv,      "weight_scale_inv"sv};
constexpr std::array kTops = {"model"sv, "params/model"sv, "transformer"sv,
                              "opt_state/0/mu"sv, ""sv};
constexpr std::array kNumbers = {"\\d+"sv,       "[0-9]+"sv, "(\\d+)"sv,
                                 "[0-3]"sv,      "1[0-9]"sv, "\\d"sv,
                                 "\\d{1,2}"sv,   ".*"sv,     "[^S]+"sv,
                                 "(?:0|1|17)"sv, "\\w+"sv,   "(?P<n>\\d+)"sv};
constexpr std::array kEnds = {
    "$"sv,    ""sv, ""sv, "\\z"sv, "\\b"sv, ".*"sv, "(kernel|weight)$"sv,
    "(S|$)"sv};
constexpr std::array kStarts = {""sv,   ""sv,      ""sv,     "^"sv,
                                ".*"sv, "(^|S)"sv, "(?i)"sv, "\\b"sv};

// The parts of strange patterns, outside and inside of classes.
constexpr std::array kAtoms = {
    "a"sv,        "b"sv,           "k"sv,           "S"sv,
    "/"sv,        "."sv,           "0"sv,           "_"sv,
    "\\."sv,      "\\d"sv,         "\\D"sv,         "\\w"sv,
    "\\W"sv,      "\\s"sv,         "\\S"sv,         "\\b"sv,
    "\\B"sv,      "^"sv,           "$"sv,           "\\A"sv,
    "\\z"sv,      "\\n"sv,         "\n"sv,          "\xC3\xA9"sv,
    "-"sv,        "]"sv,           "}"sv,           "{"sv,
    "{,2}"sv,     "a{x"sv,         "\\x61"sv,       "\\x{212A}"sv,
    "\\pL"sv,     "\\PN"sv,        "\\C"sv,         "\\Qa.b\\E"sv,
    "\\141"sv,    "\\_"sv,         "\\/"sv,         "\xE2\x84\xAA"sv,
    "\xC5\xBF"sv, "[[:alpha:]]"sv, "[[:^word:]]"sv, "\\t"sv,
    "(?i)"sv,     "(?s)"sv,        "(?m)"sv,        "(?-i)"sv,
    "(?U)"sv,     "(?i-s)"sv,      ":"sv,           ","sv};
constexpr std::array kRepeats = {"*"sv,     "+"sv,    "?"sv,     "*?"sv,
                                 "+?"sv,    "??"sv,   "{2}"sv,   "{0}"sv,
                                 "{1,3}"sv, "{2,}"sv, "{0,2}"sv, "{2}?"sv,
                                 "{02}"sv,  "{,3}"sv, "{1,2"sv,  "{0,}"sv};
constexpr std::array kGroups = {"("sv,    "(?:"sv,    "(?i:"sv,  "(?s:"sv,
                                "(?m:"sv, "(?P<x>"sv, "(?-s:"sv, "(?im-s:"sv};
constexpr std::array kItems = {"a"sv,
                               "b-k"sv,
                               "0-9"sv,
                               "/"sv,
                               "."sv,
                               "\\d"sv,
                               "\\W"sv,
                               "-"sv,
                               "^"sv,
                               "]"sv,
                               "[:digit:]"sv,
                               "[:^space:]"sv,
                               "\\n"sv,
                               "\\]"sv,
                               "\\x00-\\x20"sv,
                               "S"sv,
                               "A-z"sv,
                               "\xC3\xA0-\xC3\xBF"sv,
                               "\\pL"sv,
                               "["sv,
                               "[:"sv,
                               "\\-"sv,
                               "a-\\x{10FFFF}"sv,
                               "K-k"sv,
                               "\\s"sv,
                               "_"sv};
constexpr std::array kTexts = {"a"sv,
                               "b"sv,
                               "k"sv,
                               "K"sv,
                               "s"sv,
                               "S"sv,
                               "/"sv,
                               "."sv,
                               "0"sv,
                               "1"sv,
                               "_"sv,
                               "-"sv,
                               "\n"sv,
                               " "sv,
                               "ab"sv,
                               "\xC3\xA9"sv,
                               "\xE2\x84\xAA"sv,
                               "\xC5\xBF"sv,
                               "\xF0\x9F\x98\x80"sv,
                               "\t"sv,
                               "]"sv,
                               "{"sv,
                               "}"sv,
                               "a.b"sv};
constexpr std::array kNotUtf8 = {"\xC3"sv,
                                 "\x80"sv,
                                 "\xFF"sv,
                                 "\xE2\x84"sv,
                                 "\xED\xA0\x80"sv,
                                 "\xE0\x80\x80"sv,
                                 "\xF4\x90\x80\x80"sv,
                                 "\0"sv};

// Returns the text with `S` and `/`, which stand for a separator in the tables,
// replaced by `separator`.
std::string With(std::string_view text, char separator, bool escaped) {
  std::string out;
  for (char c : text) {
    if (c != 'S' && c != '/') {
      out += c;
    } else {
      if (escaped && separator == '.') out += '\\';
      out += separator;
    }
  }
  return out;
}

}  // namespace

std::string PatternMaker::ModelName(char separator) {
  std::string out(Pick(kTops));
  if (!out.empty()) out += '/';
  if (Below(5) > 0) {
    out += "layers/" + std::to_string(Below(Below(4) == 0 ? 120 : 12)) + "/";
  }
  for (uint32_t i = Below(3); i > 0; --i)
    out += std::string(Pick(kModules)) + "/";
  if (Below(4) == 0) out += std::to_string(Below(300)) + "/";
  out += Pick(kLeaves);
  if (Below(2) == 0) out += "/" + std::string(Pick(kLeaves));
  return With(out, separator, false);
}

std::string PatternMaker::ModelPattern(char separator) {
  if (Below(40) == 0) return ".*";
  std::string out(With(Pick(kStarts), separator, true));
  const auto part = [&](std::string_view text) {
    out += With(text, separator, true);
  };
  if (Below(3) == 0) {
    part("layers/");
    part(Pick(kNumbers));
    part("/");
  }
  if (Below(3) > 0) {
    part(Pick(kModules));
    part(Below(3) == 0 ? "S.*" : "/");
  }
  if (Below(4) == 0) {
    part("(q|k|v|up)_proj");
  } else {
    part(Pick(kLeaves));
  }
  if (Below(4) == 0) {
    part("/");
    part(Pick(kLeaves));
  }
  part(Pick(kEnds));
  return out;
}

std::string PatternMaker::StrangeClass() {
  std::string out = Below(3) == 0 ? "[^" : "[";
  for (uint32_t i = 1 + Below(3); i > 0; --i) out += Pick(kItems);
  return out + "]";
}

std::string PatternMaker::StrangeAtom(int depth) {
  const uint32_t choice = Below(10);
  if (choice < 2 && depth > 0) {
    return std::string(Pick(kGroups)) + StrangePattern(depth - 1) + ")";
  }
  if (choice == 2) return StrangeClass();
  if (choice < 7) return std::string(Pick(std::span(kAtoms).first(8)));
  return std::string(Pick(kAtoms));
}

std::string PatternMaker::StrangePattern(int depth) {
  std::string out;
  for (uint32_t i = Below(4) + (depth > 1 ? 1 : 0); i > 0; --i) {
    out += StrangeAtom(depth);
    if (Below(3) == 0) out += Pick(kRepeats);
    if (Below(8) == 0) out += '|';
  }
  return out;
}

std::string PatternMaker::SmallPattern(int depth) {
  constexpr std::array kSmall = {"a"sv,   "b"sv,   "a"sv,    "b"sv,
                                 "/"sv,   "."sv,   "[ab]"sv, "[^a]"sv,
                                 "\\b"sv, "\\w"sv, ".*"sv,   "(a|b/)"sv};
  constexpr std::array kAgain = {"*"sv, "+"sv, "?"sv, "{2}"sv};
  std::string out = Below(4) == 0 ? "^" : "";
  for (uint32_t i = 1 + Below(3); i > 0; --i) {
    const bool group = depth > 0 && Below(5) == 0;
    out += group ? "(?:" + SmallPattern(depth - 1) + ")"
                 : std::string(Pick(kSmall));
    if (Below(4) == 0 && out.back() != '*') out += Pick(kAgain);
    if (Below(8) == 0) out += '|';
  }
  return Below(4) == 0 ? out + "$" : out;
}

std::string PatternMaker::StrangeName() {
  std::string out;
  for (uint32_t i = Below(9); i > 0; --i) {
    out += Below(4) > 0 ? Pick(std::span(kTexts).first(11)) : Pick(kTexts);
    if (Below(60) == 0) out += Pick(kNotUtf8);
  }
  return out;
}

}  // namespace shardc
