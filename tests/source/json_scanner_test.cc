#include <doctest/doctest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "draws.h"
#include "same_json.h"
#include "source/json.h"

namespace shardc {
namespace {

struct Parsed {
  Findings findings;
  std::unique_ptr<const JsonDocument> document;
  Parsed(std::string_view text, bool scan) {
    JsonLimits limits;
    limits.depth = 5;
    limits.scan = scan;
    document = JsonDocument::Parse(MakeSource("t.json", std::string(text)),
                                   findings, limits);
  }
};

// Checks that the scanner, and the parser that reports errors, read the same
// document from a text.
void CheckSame(std::string_view text) {
  CAPTURE(text);
  const Parsed scanned(text, true);
  const Parsed worded(text, false);
  REQUIRE((scanned.document == nullptr) == (worded.document == nullptr));
  REQUIRE(scanned.findings.all().size() == worded.findings.all().size());
  for (size_t i = 0; i < worded.findings.all().size(); ++i) {
    CHECK(scanned.findings.all()[i].message ==
          worded.findings.all()[i].message);
    CHECK(scanned.findings.all()[i].place.begin ==
          worded.findings.all()[i].place.begin);
  }
  if (worded.document != nullptr) {
    CHECK(SameJson(scanned.document->root(), worded.document->root()));
  }
}

constexpr std::string_view kTexts[] = {
    R"({"a": [1, -2, 3.5e2, null, true, false], "b": {"c": "x", "d": {}}})",
    R"(["\u00e9\n\"\\\/\b\f\r\t", "\ud83d\ude00", "plain", "", "é😀"])",
    R"([0, -0, 0.0, -0.0, 1e5, 1E+5, 1e-5, 1e-400, 123456789012345678])",
    R"([9223372036854775807, 9223372036854775808, 18446744073709551615,
        18446744073709551616, -9223372036854775808, -9223372036854775809])",
    R"({"k1":1,"k2":2,"k3":3,"k4":4,"k5":5,"k6":6,"k7":7,"k8":8,"k9":9})",
    R"({"schema": "shardc.manifest/v1", "params": [
        {"name": "b/w", "shape": [4, 8], "dtype": "BF16"}]})",
    "\xEF\xBB\xBF [1] ",
    "7",
    R"("x")",
    "[[[[[1]]]]]",
    "{\"a\\u0000\":1,\"a\":2}",
};

TEST_CASE("the scanner reads what the other reader reads") {
  for (const std::string_view text : kTexts) CheckSame(text);
  for (const std::string_view text :
       {"",
        " ",
        "nul",
        "[1,]",
        "[,1]",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{a:1}",
        "[01]",
        "[-]",
        "[1.]",
        "[.5]",
        "[1e]",
        "[+1]",
        "[1 2]",
        "[1]x",
        "\"\x01\"",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\n\"",
        "\"\\u12\"",
        "\"\\u+123\"",
        "\"",
        "[1e400]",
        "[-1e400]",
        "[[[[[[1]]]]]]",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":2}",
        "null",
        "[\"a\nb\"]",
        "\xEF\xBB\xBF",
        "\xEF\xBB",
        "[1]\xEF\xBB\xBF",
        "tru",
        "truex",
        "[\x7f]",
        "{\"k1\":1,\"k2\":2,\"k3\":3,\"k4\":4,\"k5\":5,\"k6\":6,\"k7\":7,"
        "\"k8\":8,\"k1\":9}"}) {
    CheckSame(text);
  }
  CheckSame(std::string_view("[1]\0", 4));
  CheckSame(std::string_view("[\"\0\"]", 5));
}

TEST_CASE("the scanner reads what the other reader reads of changed texts") {
  std::mt19937_64 random(7);
  constexpr std::string_view kBytes =
      "{}[]\",:\\u0129aben-+.eE \n\x7f\x01\xc3\xa9";
  for (int i = 0; i < 20000; ++i) {
    std::string text(kTexts[random() % std::size(kTexts)]);
    text = Changed(std::move(text), random() % 4, kBytes, 8, random);
    CheckSame(text);
  }
}

}  // namespace
}  // namespace shardc
