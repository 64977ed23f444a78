#include "source/json_writer.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "source/json.h"

namespace shardc {
namespace {

TEST_CASE("json writer: the same values in each style") {
  const auto write = [](JsonWriter& json) {
    json.BeginObject(JsonLayout::kLines);
    json.Member("a", 1);
    json.Key("none");
    json.BeginArray(JsonLayout::kLines);
    json.EndArray();
    json.Key("list");
    json.BeginArray(JsonLayout::kLines);
    json.Array(std::vector<std::string>{"x", "y"});
    json.BeginObject();
    json.Key("deep");
    json.BeginObject(JsonLayout::kLines);
    json.Member("b", true);
    json.Member("c", std::optional<int>());
    json.EndObject();
    json.EndObject();
    json.EndArray();
    json.Member("shape", std::vector<int64_t>{4, 8});
    json.EndObject();
  };
  const auto text = [&](JsonStyle style) {
    return TextOf([&](Sink& out) {
      JsonWriter json(out, style);
      write(json);
    });
  };
  CHECK(text(JsonStyle::kSpaced) ==
        "{\n"
        "  \"a\": 1,\n"
        "  \"none\": [],\n"
        "  \"list\": [\n"
        "    [\"x\", \"y\"],\n"
        "    {\"deep\": {\n"
        "      \"b\": true,\n"
        "      \"c\": null\n"
        "    }}\n"
        "  ],\n"
        "  \"shape\": [4, 8]\n"
        "}");
  const std::string compact =
      "{\"a\":1,\"none\":[],\"list\":[[\"x\",\"y\"],"
      "{\"deep\":{\"b\":true,\"c\":null}}],\"shape\":[4,8]}";
  CHECK(text(JsonStyle::kCompact) == compact);
  CHECK(text(JsonStyle::kCanonical) == compact);
}

TEST_CASE("json writer: records list their members once") {
  const auto text = [](const auto& write) { return JsonText(write); };
  const std::optional<int> none;
  const std::vector<std::string> names = {"x", "y"};
  const auto put = [](JsonWriter& json, int a, int b) {
    json.Array(std::array{a, b});
  };
  CHECK(text([&](JsonWriter& json) {
          json.Block("a", 1, "names", names, "none", none, "null", nullptr,
                     "record", Record("b", true, "c", TextOrNull("")), "range",
                     WrittenBy(put, 2, 3), "block", Block("d", "e"));
        }) ==
        "{\n"
        "  \"a\": 1,\n"
        "  \"names\": [\"x\", \"y\"],\n"
        "  \"none\": null,\n"
        "  \"null\": null,\n"
        "  \"record\": {\"b\": true, \"c\": null},\n"
        "  \"range\": [2, 3],\n"
        "  \"block\": {\n"
        "    \"d\": \"e\"\n"
        "  }\n"
        "}");
  // An empty value leaves out its member.
  CHECK(text([&](JsonWriter& json) {
          json.Object("a", Given(0), "b", Given(none), "c", Given(names), "d",
                      Given(std::string()), "e", Given(false), "f",
                      Given(std::optional(0)), "g", Given(2));
        }) == "{\"c\": [\"x\", \"y\"], \"f\": 0, \"g\": 2}");
}

TEST_CASE("json writer: lists of values and of records") {
  const std::vector<int> numbers = {1, 2};
  const auto members = [](JsonWriter& json) {
    return [&json](int number) { json.Members("n", number, "half", 0.5); };
  };
  const auto text = [&](const auto& write) {
    return JsonText([&](JsonWriter& json) {
      json.BeginObject();
      write(json);
      json.EndObject();
    });
  };
  CHECK(text([&](JsonWriter& json) {
          json.Array("a", numbers, [](int number) { return number * 2; });
          json.Array("b", numbers,
                     [&](int number) { json.Object("c", number); });
        }) == "{\"a\": [2, 4], \"b\": [{\"c\": 1}, {\"c\": 2}]}");
  CHECK(text([&](JsonWriter& json) { json.Lines("a", numbers); }) ==
        "{\"a\": [\n  1,\n  2\n]}");
  CHECK(text([&](JsonWriter& json) {
          json.Records("a", numbers, members(json));
        }) ==
        "{\"a\": [{\"n\": 1, \"half\": 0.5}, {\"n\": 2, \"half\": 0.5}]}");
  CHECK(
      text([&](JsonWriter& json) { json.Rows("a", numbers, members(json)); }) ==
      "{\"a\": [\n"
      "  {\"n\": 1, \"half\": 0.5},\n"
      "  {\"n\": 2, \"half\": 0.5}\n"
      "]}");
  CHECK(text([&](JsonWriter& json) {
          json.Blocks("a", std::array{1}, members(json));
        }) ==
        "{\"a\": [\n"
        "  {\n"
        "    \"n\": 1,\n"
        "    \"half\": 0.5\n"
        "  }\n"
        "]}");
}

TEST_CASE("json writer: a document begins with its schema") {
  CHECK(TextOf([](Sink& out) {
          WriteDocument(out, "shardc.test/v1",
                        [](JsonWriter& json) { json.Member("a", 1); });
        }) == "{\n  \"schema\": \"shardc.test/v1\",\n  \"a\": 1\n}\n");
}

TEST_CASE("json writer: breaks where they are requested") {
  CHECK(JsonText([](JsonWriter& json) {
          json.BeginObject();
          json.Member("a", 1);
          json.Break(1);
          json.Member("b", 2);
          json.Member("c", 3);
          json.Key("d");
          json.BeginArray();
          json.Break(2);
          json.EndArray();
          json.EndObject();
        }) == "{\"a\": 1,\n \"b\": 2, \"c\": 3, \"d\": [\n  ]}");
}

TEST_CASE("json writer: members made once and used again") {
  const std::string members = TextOf([](Sink& out) {
    JsonWriter json = JsonWriter::OfMembers(out);
    json.Member("x", 1);
    json.Member("y", "z");
  });
  CHECK(members == "\"x\": 1, \"y\": \"z\"");
  CHECK(JsonText([&](JsonWriter& json) {
          json.BeginArray();
          for (int i = 0; i < 2; ++i) {
            json.BeginObject();
            if (i == 1) json.Member("first", i);
            json.Members(members);
            json.Members("");
            json.Member("last", i);
            json.EndObject();
          }
          json.EndArray();
        }) ==
        "[{\"x\": 1, \"y\": \"z\", \"last\": 0}, "
        "{\"first\": 1, \"x\": 1, \"y\": \"z\", \"last\": 1}]");
}

TEST_CASE("json writer: a key that is known to be plain is copied") {
  const auto written = [](std::string_view key, bool plain, JsonStyle style) {
    return TextOf([&](Sink& out) {
      JsonWriter json(out, style);
      json.BeginObject();
      json.Key(key, plain);
      json.Null();
      json.EndObject();
    });
  };
  for (const JsonStyle style : {JsonStyle::kSpaced, JsonStyle::kCanonical}) {
    for (const std::string_view key : {"", "a", "layers/0/~attn kernel"}) {
      CHECK(written(key, true, style) == written(key, false, style));
    }
  }
}

TEST_CASE("json writer: a member whose value is written before equals Key") {
  const auto written = [](JsonStyle style, JsonLayout layout, bool plain,
                          bool at_once) {
    const std::string value = std::string(JsonWriter::EndOfKey(style)) + "[8]";
    return TextOf([&](Sink& out) {
      JsonWriter json(out, style);
      json.BeginObject(layout);
      for (const std::string_view key : {"a", "layers/0/~attn kernel", ""}) {
        if (at_once) {
          json.WrittenMember(key, plain, value);
        } else {
          json.Key(key, plain);
          json.Written("[8]");
        }
      }
      json.Member("last", 1);
      json.EndObject();
    });
  };
  CHECK(JsonWriter::EndOfKey(JsonStyle::kSpaced) == "\": ");
  CHECK(JsonWriter::EndOfKey(JsonStyle::kCanonical) == "\":");
  for (const JsonStyle style : {JsonStyle::kSpaced, JsonStyle::kCanonical}) {
    for (const JsonLayout layout : {JsonLayout::kInline, JsonLayout::kLines}) {
      for (const bool plain : {true, false}) {
        CHECK(written(style, layout, plain, true) ==
              written(style, layout, plain, false));
      }
    }
  }
}

TEST_CASE("json writer: strings") {
  CHECK(JsonString("a\"b\\\n\x01\x7f") == "\"a\\\"b\\\\\\n\\u0001\\u007f\"");
  // Invisible characters are escaped, except in the canonical style, in which
  // RFC 8785 fixes the escapes.
  const std::string_view hidden = "\xE2\x80\xAE\x7F\xC2\x85";
  CHECK(JsonString(hidden) == "\"\\u202e\\u007f\\u0085\"");
  const std::string canonical = TextOf([&](Sink& out) {
    JsonWriter(out, JsonStyle::kCanonical).String(hidden);
  });
  CHECK(canonical == "\"" + std::string(hidden) + "\"");
  CHECK(JsonString("\xC3\xA9\xFF") == "\"\xC3\xA9\xEF\xBF\xBD\"");
  CHECK(JsonString("") == "\"\"");
  // The writer compares several bytes at a time, so write and read each byte at
  // each position among them.
  for (int byte = 0; byte < 256; ++byte) {
    for (size_t at = 0; at < 20; ++at) {
      std::string text(20, 'x');
      text[at] = static_cast<char>(byte);
      const std::string written = JsonString(text);
      Findings findings;
      const auto document =
          JsonDocument::Parse(MakeSource("text", written), findings);
      REQUIRE(document != nullptr);
      std::string expected = text;
      if (byte >= 0x80) expected.replace(at, 1, "\xEF\xBF\xBD");
      REQUIRE(document->root().string() == expected);
    }
  }
}

TEST_CASE("json writer: numbers") {
  const auto text = [](auto value) {
    return JsonText([&](JsonWriter& json) { json.Value(value); });
  };
  CHECK(text(std::numeric_limits<int64_t>::min()) == "-9223372036854775808");
  CHECK(text(std::numeric_limits<uint64_t>::max()) == "18446744073709551615");
  CHECK(text(-0.0) == "-0");
  CHECK(text(0.1) == "0.1");
  CHECK(text(1e300) == "1e+300");
  CHECK(text(3.4028234663852886e38) == "3.4028234663852886e+38");
  CHECK(text(INFINITY) == "null");
  CHECK(text(std::nan("")) == "null");
  CHECK(text(true) == "true");
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const std::string written = text(value);
    REQUIRE(std::strtod(written.c_str(), nullptr) == value);
  }
}

TEST_CASE("json writer: no locale changes a number") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"}) {
    if (std::setlocale(LC_ALL, name) == nullptr) continue;
    CHECK(JsonText([](JsonWriter& json) {
            json.Array(std::vector<double>{1234567.5, 0.25});
          }) == "[1234567.5, 0.25]");
  }
  std::setlocale(LC_ALL, before.c_str());
}

TEST_CASE("json writer: canonical integers are those of ECMAScript") {
  const auto text = [](auto value) {
    return TextOf([&](Sink& out) {
      JsonWriter json(out, JsonStyle::kCanonical);
      json.Value(value);
    });
  };
  CHECK(text(int64_t{9007199254740992}) == "9007199254740992");
  CHECK(text(int64_t{-9007199254740992}) == "-9007199254740992");
  CHECK(text(int64_t{9007199254740993}) == "9007199254740992");
  CHECK(text(std::numeric_limits<int64_t>::max()) == "9223372036854776000");
  CHECK(text(std::numeric_limits<int64_t>::min()) == "-9223372036854776000");
  CHECK(text(int64_t{1} << 62) == "4611686018427388000");
  CHECK(text(uint64_t{1} << 63) == "9223372036854776000");
}

}  // namespace
}  // namespace shardc
