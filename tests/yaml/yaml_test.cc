// Checks the YAML tree: its values, the places of its nodes, and that no bytes
// make the parser crash or hang.
#include "yaml/yaml.h"

#include <doctest/doctest.h>

#include <clocale>
#include <locale>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "yaml/read.h"

namespace shardc {
namespace {

std::optional<YamlDocument> Parse(std::string text, Findings& findings) {
  return YamlDocument::Parse(MakeSource("t.yaml", std::move(text)), findings);
}

// Returns the tree in one line, such as `{a: [1, 'b', ~]}`.
std::string Show(const YamlNode& node) {
  if (node.IsNull()) return "~";
  if (node.IsScalar()) {
    return node.style == YamlStyle::kPlain ? node.text : "'" + node.text + "'";
  }
  std::string out = node.IsSequence() ? "[" : "{";
  for (const YamlNode& item : node.items) {
    if (out.size() > 1) out += ", ";
    out += Show(item);
  }
  for (const YamlMember& member : node.members) {
    if (out.size() > 1) out += ", ";
    out += Show(member.key) + ": " + Show(member.value);
  }
  return out + (node.IsSequence() ? "]" : "}");
}

// Appends the text at each node's place, depth first.
void Places(const YamlDocument& document, const YamlNode& node,
            std::vector<std::string>& out) {
  out.emplace_back(
      document.source()->text().substr(node.begin, node.end - node.begin));
  for (const YamlNode& item : node.items) Places(document, item, out);
  for (const YamlMember& member : node.members) {
    Places(document, member.key, out);
    Places(document, member.value, out);
  }
}

TEST_CASE("keys that are given more than fifty times have fifty findings") {
  std::string text;
  for (int i = 0; i < 70; ++i) text += "a: " + std::to_string(i) + "\n";
  Findings findings;
  const auto document = Parse(text, findings);
  REQUIRE(document.has_value());
  CHECK(document->root().members.size() == 70);
  CHECK(findings.errors() == Findings::kErrorLimit);
}

TEST_CASE("a surrogate pair in double quotes is one character") {
  const auto shown = [](std::string text) {
    Findings findings;
    const auto document = Parse(std::move(text), findings);
    CHECK(findings.empty());
    return document ? Show(document->root()) : "";
  };
  CHECK(shown(R"({"a\ud83d\ude00b": "\uD83D\uDE00\ud83d\ude01", "c": 1})") ==
        "{'a\xf0\x9f\x98\x80"
        "b': '\xf0\x9f\x98\x80\xf0\x9f\x98\x81', "
        "'c': 1}");
  // A pair in a value of two lines, and in an alias of it.
  CHECK(shown("- &x \"\\ud83d\\ude00 1\n  2\"\n- *x\n") ==
        "['\xf0\x9f\x98\x80 1 2', '\xf0\x9f\x98\x80 1 2']");
  // In single quotes and plain text, a pair is twelve ordinary characters,
  // which a pattern may contain.
  CHECK(shown("['\\ud83d\\ude00', \\ud83d\\ude00, \"\\\\ud83d\"]") ==
        "['\\ud83d\\ude00', \\ud83d\\ude00, '\\ud83d']");
}

TEST_CASE("half of a surrogate pair is refused at its place") {
  for (const std::string text :
       {R"(a: "\ud83d")", R"(a: "\ude00")", R"(a: "\ud83dx")",
        R"(a: "\ud83d\u0041")", R"(a: "\ude00\ud83d")",
        R"(a: "\ud83d\ude00\ud83d")"}) {
    CAPTURE(text);
    Findings findings;
    CHECK_FALSE(Parse(text, findings));
    REQUIRE(findings.all().size() == 1);
    CHECK(findings.all()[0].message ==
          "an escape that is no Unicode character");
    CHECK(findings.all()[0].place.HasPosition());
  }
}

TEST_CASE("trees are read as YAML 1.2 core has them") {
  struct Case {
    std::string_view text, tree;
  };
  constexpr Case kCases[] = {
      {"a: no\nb: on\nc: y\n", "{a: no, b: on, c: y}"},
      {"a:\nnull: 3\n", "{a: ~, ~: 3}"},
      {"a:\n  null\nb: ~\n", "{a: ~, b: ~}"},
      {"a: 'null'\n", "{a: 'null'}"},
      {"- \n- a\n-\n", "[~, a, ~]"},
      {"[a, [b, ], {c: d}]", "[a, [b], {c: d}]"},
      {"{a: , b: }", "{a: ~, b: ~}"},
      {"a: &x [1, 2]\nb: *x\n", "{a: [1, 2], b: [1, 2]}"},
      {"a: |\n  x\n  y\nb: >-\n  x\n  y\n", "{a: 'x\ny\n', b: 'x y'}"},
      {"a: x # y\nb: 'it''s'\n", "{a: x, b: 'it's'}"},
      {"\xef\xbb\xbf"
       "a: 1\n",
       "{a: 1}"},
      {"---\na: 1\n...\n", "{a: 1}"},
      {"a: 1\r\nb: 2\r\n", "{a: 1, b: 2}"},
      {"'<<': 1\n", "{'<<': 1}"},
      {"%YAML 1.2\n---\n[]\n", "[]"},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.text);
    Findings findings;
    const auto document = Parse(std::string(test.text), findings);
    CHECK(findings.empty());
    REQUIRE(document);
    CHECK(Show(document->root()) == test.tree);
  }
}

TEST_CASE("each node knows its bytes") {
  Findings findings;
  const auto document = Parse(
      "\xef\xbb\xbf"
      "caf\xc3\xa9: 'a b' # c\r\n"
      "list:\r\n"
      "  - {x: \"q\\\"r\", y: }\r\n"
      "  -\r\n"
      "  - two\r\n"
      "    lines\r\n"
      "text: |\r\n"
      "  one\r\n"
      "\r\n"
      "  two\r\n"
      "last: &n 7\r\n"
      "again: *n\r\n",
      findings);
  REQUIRE(document);
  std::vector<std::string> places;
  Places(*document, document->root(), places);
  places.erase(places.begin());  // the whole
  CHECK(places == std::vector<std::string>{
                      "caf\xc3\xa9", "'a b'", "list",
                      "- {x: \"q\\\"r\", y: }\r\n  -\r\n  - two\r\n"
                      "    lines",
                      "{x: \"q\\\"r\", y: }", "x", "\"q\\\"r\"", "y", "y", "-",
                      "two\r\n    lines", "text", "|\r\n  one\r\n\r\n  two",
                      "last", "7", "again", "*n"});
}

// Makes random trees, and prints them in block style and in flow style.
class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  YamlNode Tree(int depth) {
    YamlNode node;
    const uint32_t kind = Below(depth > 0 ? 6 : 4);
    if (kind == 0) return node;
    if (kind < 4) return Scalar();
    node.kind = kind == 4 ? YamlKind::kSequence : YamlKind::kMapping;
    const uint32_t count = Below(4);
    for (uint32_t i = 0; i < count; ++i) {
      YamlNode child = Tree(depth - 1);
      if (kind == 4) {
        node.items.push_back(std::move(child));
      } else {
        YamlNode key = Scalar();
        key.text += "k" + std::to_string(i);  // distinct
        node.members.push_back({std::move(key), std::move(child)});
      }
    }
    return node;
  }

  std::string Flow(const YamlNode& node) {
    if (node.IsNull()) return Below(2) == 0 ? "~" : "null";
    if (node.IsScalar()) return Print(node);
    std::string out = node.IsSequence() ? "[" : "{";
    bool first = true;
    const auto separate = [&] {
      if (!first) out += Below(2) == 0 ? ", " : " ,\n ";
      first = false;
    };
    for (const YamlNode& item : node.items) {
      separate();
      out += Flow(item);
    }
    for (const YamlMember& member : node.members) {
      separate();
      out += Flow(member.key) + ": " + Flow(member.value);
    }
    return out + (node.IsSequence() ? "]" : "}");
  }

  std::string Block(const YamlNode& node, size_t indent) {
    if (node.items.empty() && node.members.empty()) return " " + Flow(node);
    std::string out = "\n";
    const std::string head(indent, ' ');
    for (const YamlNode& item : node.items) {
      out += head + "-" + Value(item, indent) + Comment();
    }
    for (const YamlMember& member : node.members) {
      out += head + Flow(member.key) + ":" + Value(member.value, indent) +
             Comment();
    }
    return out;
  }

  uint32_t Below(uint32_t bound) { return random_() % bound; }

 private:
  std::string Value(const YamlNode& node, size_t indent) {
    return Below(3) == 0 ? " " + Flow(node) : Block(node, indent + 2);
  }
  std::string Comment() { return Below(4) == 0 ? " # [it's\n" : "\n"; }

  YamlNode Scalar() {
    static const std::vector<std::string> kPlain = {
        "a",   "tp",   "no",  "8",        "-1", "x:y", "a#b",
        "a b", "it's", "1e3", "\xc3\xa9", "<",  "a\\d"};
    static const std::vector<std::string> kQuoted = {
        "",       "null",         "~",  " a ", "'",  "''x", "a: b", "[x", "# c",
        "\\d+\\", "\xe4\xb8\xad", "<<", "{",   ", ", "*a",  "&a",   "!x", "%",
        "@"};
    YamlNode node;
    node.kind = YamlKind::kScalar;
    if (Below(2) == 0) {
      node.text = kPlain[Below(static_cast<uint32_t>(kPlain.size()))];
    } else {
      node.style = YamlStyle::kQuoted;
      node.text = kQuoted[Below(static_cast<uint32_t>(kQuoted.size()))];
    }
    return node;
  }

  std::string Print(const YamlNode& node) {
    if (node.style == YamlStyle::kPlain) return node.text;
    const bool single = Below(2) == 0;
    std::string out = single ? "'" : "\"";
    for (char c : node.text) {
      if (single && c == '\'') out += '\'';
      if (!single && (c == '"' || c == '\\')) out += '\\';
      out += c;
    }
    return out + (single ? "'" : "\"");
  }

  std::mt19937 random_;
};

TEST_CASE("random trees come back equal") {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Generator generator(seed);
    YamlNode tree = generator.Tree(5);
    if (tree.IsNull()) continue;
    const std::string text =
        seed % 2 == 0 ? generator.Flow(tree) + "\n" : generator.Block(tree, 0);
    CAPTURE(seed);
    CAPTURE(text);
    Findings findings;
    const auto document = Parse(text, findings);
    CHECK(findings.empty());
    REQUIRE(document);
    CHECK(Show(document->root()) == Show(tree));
  }
}

// A tag without a value at the end of the text: its node is open, and begins at
// the end of the text.
TEST_CASE("a list that ends in a tag is never closed") {
  for (const char* text : {"[!!B-sPl@!", "{!t", "[a, !t", "[[!t", "{a: !t"}) {
    CAPTURE(text);
    Findings findings;
    CHECK_FALSE(Parse(text, findings));
    CHECK(findings.HasErrors());
    for (const Finding& finding : findings.all()) {
      CHECK(finding.place.end <= std::string_view(text).size());
    }
  }
}

TEST_CASE("random bytes neither crash nor hang") {
  constexpr std::string_view kAlphabet =
      "abc: -?,[]{}#&*!|>'\"%@`~\n\n\n  \t\\<.0x\r";
  size_t accepted = 0;
  for (uint32_t seed = 0; seed < 20000; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    const size_t length = random() % 64;
    for (size_t i = 0; i < length; ++i) {
      text += random() % 16 == 0 ? static_cast<char>(random() % 256)
                                 : kAlphabet[random() % kAlphabet.size()];
    }
    CAPTURE(seed);
    Findings findings;
    const auto document = Parse(text, findings);
    CHECK(document.has_value() != findings.HasErrors());
    for (const Finding& finding : findings.all()) {
      if (!finding.place.HasPosition()) continue;
      CHECK(finding.place.begin <= text.size());
      CHECK(finding.place.end <= text.size());
    }
    if (!document) continue;
    ++accepted;
    std::vector<std::string> places;  // substr throws past the end
    Places(*document, document->root(), places);
  }
  CHECK(accepted > 100);
}

TEST_CASE("aliases are bounded, deep and wide") {
  std::string wide = "a0: &a0 [x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    wide += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 8; ++j) wide += (j > 0 ? ", " : "") + before;
    wide += "]\n";
  }
  Findings findings;
  CHECK_FALSE(Parse(wide, findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].code->name == code::kYamlAlias.name);

  // Each alias adds a level of depth to the tree, although no line of the text
  // is nested deeply.
  std::string deep = "- &a0 []\n";
  for (int i = 1; i < 100; ++i) {
    deep += "- &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  }
  Findings found;
  CHECK_FALSE(Parse(deep, found));
  REQUIRE(found.errors() == 1);
  CHECK(found.all()[0].code->name == code::kYamlDepth.name);
}

// A locale with a decimal comma and dots between thousands, as in German.
class Comma : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST_CASE("the locale changes nothing") {
  const std::locale before =
      std::locale::global(std::locale(std::locale::classic(), new Comma));
  Findings findings;
  const auto document = Parse("a: 4096\nb: 1.000\nc: 1.5GiB\n", findings);
  REQUIRE(document);
  const YamlContext context{*document, findings};
  const auto& members = document->root().members;
  CHECK(ReadInteger(context, members[0].value, "a", {}) == 4096);
  CHECK_FALSE(ReadInteger(context, members[1].value, "b", {}));
  CHECK(ReadBytes(context, members[2].value, "c") == 1610612736);
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].message ==
        "b is `1.000`, which is not a decimal integer");
  std::locale::global(before);
}

TEST_CASE("a file over the limit is refused unread") {
  Findings findings;
  CHECK_FALSE(Parse(std::string(YamlDocument::kByteLimit + 1, ' '), findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].code->name == code::kLimit.name);
  CHECK(findings.all()[0].message == "`t.yaml` holds 16,777,217 bytes of YAML");
}

TEST_CASE("scalars have the types of the core schema") {
  struct Case {
    std::string_view text;
    CoreType type;
  };
  constexpr Case kCases[] = {
      {"no", CoreType::kString},    {"yes", CoreType::kString},
      {"true", CoreType::kBool},    {"False", CoreType::kBool},
      {"tRue", CoreType::kString},  {"12", CoreType::kInteger},
      {"-12", CoreType::kInteger},  {"+12", CoreType::kInteger},
      {"0x1F", CoreType::kInteger}, {"0o17", CoreType::kInteger},
      {"0x", CoreType::kString},    {"1_000", CoreType::kString},
      {"12:30", CoreType::kString}, {"1.5", CoreType::kReal},
      {".5", CoreType::kReal},      {"1e3", CoreType::kReal},
      {"-.inf", CoreType::kReal},   {".nan", CoreType::kReal},
      {".", CoreType::kString},     {"1e", CoreType::kString},
      {"-", CoreType::kString},     {"1.2.3", CoreType::kString},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.text);
    YamlNode node;
    node.kind = YamlKind::kScalar;
    node.text = test.text;
    CHECK(CoreTypeOf(node) == test.type);
    node.style = YamlStyle::kQuoted;
    CHECK(CoreTypeOf(node) == CoreType::kString);
  }
}

}  // namespace
}  // namespace shardc
