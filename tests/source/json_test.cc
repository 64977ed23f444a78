#include "source/json.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

struct Parsed {
  Findings findings;
  std::unique_ptr<const JsonDocument> document;
  explicit Parsed(std::string text, JsonLimits limits = {}) {
    document = JsonDocument::Parse(MakeSource("t.json", std::move(text)),
                                   findings, limits);
  }
};

std::string TextAt(const Place& place) {
  return std::string(
      place.source->text().substr(place.begin, place.end - place.begin));
}

// Writes a value that was read. Numbers keep their text.
void Dump(const JsonValue& value, JsonWriter& json) {
  if (value.IsObject()) {
    json.BeginObject();
    for (const JsonMember member : value.members()) {
      json.Key(member.name());
      Dump(member.value, json);
    }
    json.EndObject();
  } else if (value.IsArray()) {
    json.BeginArray();
    for (const JsonValue item : value.items()) Dump(item, json);
    json.EndArray();
  } else if (value.IsString()) {
    json.String(value.string());
  } else {
    json.Members(TextAt(value.place()));
  }
}

std::string Dumped(const JsonValue& value) {
  return TextOf([&](Sink& out) {
    JsonWriter json(out, JsonStyle::kCompact);
    Dump(value, json);
  });
}

TEST_CASE("json: every value and key knows its place") {
  const Parsed parsed(
      "\xEF\xBB\xBF{ \"a\" : [1, -2.5e3,\n true,{}],"
      " \"k\\\"\\u00e9\":null , \"s\": \"x\\\\\" }");
  REQUIRE(parsed.document);
  const JsonValue root = parsed.document->root();
  CHECK(root.size() == 3);
  std::vector<std::string> texts;
  for (const JsonMember member : root.members()) {
    texts.push_back(TextAt(member.key.place()));
    texts.push_back(TextAt(member.value.place()));
    for (const JsonValue item : member.value.items()) {
      texts.push_back(TextAt(item.place()));
    }
  }
  const std::vector<std::string> want = {
      "\"a\"", "[1, -2.5e3,\n true,{}]", "1",    "-2.5e3", "true",
      "{}",    "\"k\\\"\\u00e9\"",       "null", "\"s\"",  "\"x\\\\\""};
  CHECK(texts == want);
  CHECK(root.Find("k\"\xC3\xA9"));
  CHECK(root.Find("s")->string() == "x\\");
  CHECK_FALSE(root.Find("b"));
  CHECK(root.place().begin == 3);
  CHECK(TextAt(root.place()).back() == '}');
}

TEST_CASE("json: kinds of numbers") {
  const struct {
    const char* text;
    JsonKind kind;
  } cases[] = {
      {"0", JsonKind::kInteger},
      {"-1", JsonKind::kInteger},
      {"9223372036854775807", JsonKind::kInteger},
      {"-9223372036854775808", JsonKind::kInteger},
      {"9223372036854775808", JsonKind::kUnsigned},
      {"18446744073709551615", JsonKind::kUnsigned},
      {"18446744073709551616", JsonKind::kReal},
      {"-9223372036854775809", JsonKind::kReal},
      {"-0", JsonKind::kReal},
      {"4.0", JsonKind::kReal},
      {"1e1", JsonKind::kReal},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    const Parsed parsed(std::string("[") + c.text + " ]");
    REQUIRE(parsed.document);
    const JsonValue value = *parsed.document->root().items().begin();
    CHECK(value.kind() == c.kind);
    CHECK(TextAt(value.place()) == c.text);
    if (c.kind == JsonKind::kInteger) {
      CHECK(std::to_string(value.integer()) == c.text);
    }
    if (c.kind == JsonKind::kUnsigned) {
      CHECK(std::to_string(value.unsigned_()) == c.text);
    }
  }
}

TEST_CASE("json: refusals, each with its code and place") {
  using namespace std::string_literals;
  const struct {
    std::string text;
    std::string_view name;
    size_t at;
  } cases[] = {
      {"", "json-syntax", 0},
      {" \n", "json-syntax", 2},
      {"{}\0garbage"s, "json-syntax", 2},
      {"{}\0"s, "json-syntax", 2},
      {"{} x", "json-syntax", 3},
      {"{\"a\":1}{}", "json-syntax", 7},
      {"[1,]", "json-syntax", 3},
      {"[01]", "json-syntax", 2},
      {"[+1]", "json-syntax", 1},
      {"[NaN]", "json-syntax", 1},
      {"{\"a\":1,}", "json-syntax", 7},
      {"// x\n{}", "json-syntax", 0},
      {"[\"a\nb\"]", "json-syntax", 3},
      {"[\"\\ud800\"]", "json-syntax", 8},
      {"[\"\\udc00\\ud800\"]", "json-syntax", 7},
      {"[\"\xED\xA0\x80\"]", "encoding", 2},
      {"[\"\xC0\x80\"]", "encoding", 2},
      {"{\"a\":1,\"b\":2,\"a\":3}", "duplicate-key", 13},
      {"{\"a\":1,\"\\u0061\":3}", "duplicate-key", 7},
      {"[{\"x\":{\"y\":1,\"y\":1}}]", "duplicate-key", 13},
      {"[1e400]", "number", 1},
      {"null", "schema", 0},
  };
  for (const auto& c : cases) {
    CAPTURE(Printable(c.text));
    const Parsed parsed(c.text);
    CHECK(parsed.document == nullptr);
    REQUIRE(parsed.findings.errors() == 1);
    const Finding& finding = parsed.findings.all()[0];
    CAPTURE(finding.message);
    CHECK(finding.code->name == c.name);
    CHECK(finding.place.begin == c.at);
    CHECK(finding.message.size() < 200);
  }
}

TEST_CASE("json: depth is bounded and the bound is exact") {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  CHECK(Parsed(nested(200)).document);
  const Parsed deep(nested(201));
  CHECK(deep.document == nullptr);
  REQUIRE(deep.findings.errors() == 1);
  CHECK(deep.findings.all()[0].code->name == "json-depth");
  CHECK(deep.findings.all()[0].place.begin == 200);
  CHECK(Parsed(nested(5000000)).document == nullptr);
}

TEST_CASE("json: a null root where it is allowed") {
  CHECK(Parsed("null", {.allow_null_root = true}).document);
}

TEST_CASE("json: a part of a text, with places in the whole") {
  const SourceRef source = MakeSource("h", "xx{\"a\": 7} yy");
  Findings findings;
  const auto document = JsonDocument::Parse(source, findings, {}, 2, 11);
  REQUIRE(document);
  CHECK(document->root().Find("a")->place().begin == 8);
  CHECK(JsonDocument::Parse(source, findings, {}, 2, 12) == nullptr);
  CHECK(findings.all()[0].place.begin == 11);
}

TEST_CASE("json: many keys, one of them twice") {
  std::string text = "{";
  for (int i = 0; i < 20000; ++i) {
    text += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  }
  CHECK(Parsed(text + "\"z\":1}").document);
  const Parsed twice(text + "\"k777\":1}");
  REQUIRE(twice.findings.errors() == 1);
  CHECK(TextAt(twice.findings.all()[0].place) == "\"k777\"");
  CHECK(twice.findings.all()[0].labels.size() == 1);
}

// Writes random trees with random white space and checks that reading them
// gives the same trees.
TEST_CASE("json: what is written is read back, place by place") {
  std::mt19937 random(7);
  const auto pick = [&](uint32_t n) { return random() % n; };
  const std::vector<std::string> scalars = {"0",
                                            "-0",
                                            "17",
                                            "-3.25E-2",
                                            "true",
                                            "false",
                                            "null",
                                            "\"\"",
                                            "\"a,b:c]}\"",
                                            "\"q\\\"\\\\\"",
                                            "\"\\uD83D\\uDE00\"",
                                            "\"\xC3\xA9\""};
  const auto space = [&](std::string& out) {
    for (uint32_t i = pick(3); i > 0; --i) out += " \n\t\r"[pick(4)];
  };
  int keys = 0;
  const std::function<void(std::string&, int)> grow = [&](std::string& out,
                                                          int depth) {
    space(out);
    const uint32_t kind = depth > 4 ? 0 : pick(3);
    if (kind == 0) {
      out += scalars[pick(static_cast<uint32_t>(scalars.size()))];
    } else {
      out += kind == 1 ? '[' : '{';
      for (uint32_t i = 0, n = pick(5); i < n; ++i) {
        if (i > 0) out += ',';
        space(out);
        if (kind == 2) {
          out += "\"k" + std::to_string(keys++) + "\"";
          space(out);
          out += ':';
        }
        grow(out, depth + 1);
      }
      space(out);
      out += kind == 1 ? ']' : '}';
    }
    space(out);
  };
  for (int round = 0; round < 300; ++round) {
    std::string text;
    grow(text, 0);
    const JsonLimits limits{.depth = 200, .allow_null_root = true};
    const Parsed first(text, limits);
    REQUIRE(first.document);
    const std::string once = Dumped(first.document->root());
    const Parsed second(once, limits);
    REQUIRE(second.document);
    CHECK(once == Dumped(second.document->root()));
    // Each value's text is itself a document with the same value.
    std::function<void(const JsonValue&)> visit = [&](const JsonValue& value) {
      const Parsed alone(TextAt(value.place()), limits);
      REQUIRE(alone.document);
      CHECK(Dumped(value) == Dumped(alone.document->root()));
      for (const JsonValue item : value.items()) visit(item);
    };
    visit(first.document->root());
  }
}

}  // namespace
}  // namespace shardc
