#include "source/json_form.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "source/wording.h"

namespace shardc {
namespace {

// Returns the findings about the form of a definition of the schema of plans,
// each with its code, the text at its place, and its message.
std::string Misfits(std::string_view definition, const std::string& text,
                    FormMembers members = FormMembers::kAll) {
  Findings findings;
  const auto document = JsonDocument::Parse(MakeSource("p", text), findings);
  REQUIRE(document != nullptr);
  const bool fits =
      HasForm(document->root(), "plan", definition, members, findings);
  CHECK(fits == findings.empty());
  std::string out;
  for (const Finding& finding : findings.all()) {
    const Place& at = finding.place;
    out += std::string(finding.code->name) + " at " +
           text.substr(at.begin, at.end - at.begin) + ": " + finding.message +
           "\n";
  }
  return out;
}

constexpr std::string_view kParam =
    R"("shape": [8], "dtype": "F32", "spec": ["tp"], "rule": null,
       "shard_shape": [2], "bytes_per_device": 8)";

std::string Param(std::string_view more) {
  return "{" + std::string(kParam) + std::string(more) + "}";
}

TEST_CASE("a value is compared with a schema, at its innermost value") {
  CHECK(Misfits("param", Param("")) == "");
  CHECK(Misfits("spec", R"([null, "tp", ["dp", "tp"]])") == "");
  CHECK(Misfits("param", "[]") ==
        "schema at []: a parameter is not an object\n");
  const std::string spec =
      " is not a list with null, an axis or a list of axes for each "
      "dimension\n";
  CHECK(Misfits("modeLayout",
                R"({"spec": [["tp", 1]], "shard_shape": null,
                    "bytes_per_device": null})") ==
        "schema at 1: `spec` of a mode of a parameter" + spec);
  CHECK(Misfits("modeLayout",
                R"({"spec": [[]], "shard_shape": null,
                    "bytes_per_device": null})") ==
        "schema at []: `spec` of a mode of a parameter" + spec);
  CHECK(Misfits("mode", R"("dream")") ==
        "schema at \"dream\": this value is not one of `train`, `prefill`, "
        "`decode` and "
        "`insert`\n");
  CHECK(Misfits("param", Param(R"(, "weight_decay": 1)")) ==
        "schema at 1: `weight_decay` of a parameter is not true or false\n");
  CHECK(Misfits("param", Param(R"(, "uneven": false)")) ==
        "schema at false: `uneven` of a parameter is not true\n");
  CHECK(Misfits("param", Param(R"(, "corrections": [])")) ==
        "schema at []: `corrections` of a parameter is not a list of one or "
        "more corrections\n");
  CHECK(Misfits("param", Param(R"(, "corrections": [1])")) ==
        "schema at 1: a correction is not an object\n");
  CHECK(Misfits("param", Param(R"(, "modes": {"dream": {}})")) ==
        "schema at \"dream\": `dream` is not one of `train`, `prefill`, "
        "`decode` and `insert`\n");
  CHECK(Misfits("activations", R"({"train": {"query": 1}})") ==
        "schema at 1: `query` of a mode of activations" + spec);
}

TEST_CASE("numbers that are out of range have the code number") {
  CHECK(Misfits("range", "[0, -1]") ==
        "number at -1: this value is not [first, end], two integers of 0 or "
        "more\n");
  const auto placement = [](std::string_view coordinate) {
    return Misfits("placement", R"({"axis": "tp", "coordinate": )" +
                                    std::string(coordinate) + "}");
  };
  const std::string message =
      ": `coordinate` of a placement is not an integer of 0 or more\n";
  CHECK(placement("-1") == "number at -1" + message);
  CHECK(placement("1.0") == "number at 1.0" + message);
  CHECK(placement("9223372036854775808") ==
        "number at 9223372036854775808" + message);
  CHECK(placement("\"1\"") == "schema at \"1\"" + message);
  CHECK(Misfits("param", Param(R"(, "parts": [2, 1])")) ==
        "schema at 1: `parts` of a parameter is not a list with a number of 2 "
        "or more, a list of sizes or null for each dimension\n");
}

TEST_CASE("a pattern is a text and a number of characters of a set") {
  const std::string digits(64, 'a');
  CHECK(Misfits("digest", "\"sha256:" + digits + "\"") == "");
  for (const std::string& wrong :
       {"sha256:" + digits + "a", "sha256:" + digits.substr(1),
        "sha257:" + digits, "sha256:" + digits.substr(1) + "g"}) {
    CHECK(Misfits("digest", "\"" + wrong + "\"")
              .ends_with(" is not `sha256:` and 64 hexadecimal digits\n"));
  }
}

TEST_CASE("all misfits of an object are reported") {
  CHECK(Misfits("placement", R"({"axes": 1, "coordinate": "x"})") ==
        "unknown-key at \"axes\": `axes` is not a member of a placement\n"
        "schema at \"x\": `coordinate` of a placement is not an integer of 0 "
        "or more\n"
        "schema at {\"axes\": 1, \"coordinate\": \"x\"}: a placement has no "
        "`axis`\n");
}

TEST_CASE("of an edited plan, members that are not read may have any form") {
  const auto read = [](const std::string& text) {
    return Misfits("param", text, FormMembers::kRead);
  };
  CHECK(read(R"({"spec": []})") == "");
  CHECK(read(R"({"spec": [], "shard_shape": 1, "other": 2})") == "");
  CHECK(read(R"({"spec": [], "shape": 1})") ==
        "schema at 1: `shape` of a parameter is not a list of integers of 0 or "
        "more, or null\n");
  CHECK(read("{}") == "schema at {}: a parameter has no `spec`\n");
}

}  // namespace
}  // namespace shardc
