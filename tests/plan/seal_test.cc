#include "plan/read.h"

#include <doctest/doctest.h>

#include <memory>

#include "plan/plan_table.h"
#include "source/digest.h"

namespace shardc {
namespace {

// The canonical JSON of kPlan below. It was written by hand.
constexpr std::string_view kMeaning =
    R"({"mesh":{"axes":[{"name":"tp","size":4,"type":"auto"}],"devices":4},)"
    R"("modes":["train"],"params":{"a":{"dtype":"F32","shape":[8],"spec":["tp"]},)"
    R"("b":{"dtype":"F32","shape":[8],"spec":["tp"]}}})";

constexpr std::string_view kEntry =
    R"({"shape": [8], "dtype": "F32", "spec": ["tp"], "rule": 0, )"
    R"("shard_shape": [2], "bytes_per_device": 8})";

std::string PlanText(const std::string& fingerprint) {
  return "{\n  \"schema\": \"shardc.plan/v1\",\n  \"fingerprint\": \"" +
         fingerprint +
         "\",\n  \"mesh\": {\"axes\": [{\"name\": \"tp\", \"size\": 4, "
         "\"type\": \"auto\"}], \"devices\": 4},\n  \"modes\": [\"train\"],\n"
         "  \"rules\": [{\"match\": \"x\", \"source\": \"r:1\", \"params\": "
         "2}],\n  \"params\": {\n    \"b\": " +
         std::string(kEntry) + ",\n    \"a\": " + std::string(kEntry) +
         "\n  },\n  \"attention\": {},\n  \"summary\": {\"params\": 2, "
         "\"elements\": 16, \"bytes\": 64, \"bytes_per_device\": 16, "
         "\"unmatched\": 0, \"corrected\": 0}\n}\n";
}

std::string Replaced(std::string text, std::string_view from,
                     std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Returns the message of the first finding, which both readers must report;
// empty if the plan is read.
std::string Refusal(const std::string& text, EditedPlan edited) {
  const SourceRef source = MakeSource("p", text);
  Findings one, other;
  const auto document = JsonDocument::Parse(source, one);
  REQUIRE(document != nullptr);
  const bool read = ParsePlan(*document, edited, one).has_value();
  CHECK(ReadPlanTable(source, edited, other).has_value() == read);
  CHECK(one.errors() == other.errors());
  if (read) return {};
  REQUIRE(!one.empty());
  CHECK(one.all()[0].place.HasPosition());
  return one.all()[0].message;
}

TEST_CASE("a plan is read if its content has its fingerprint") {
  const std::string good = PlanText("sha256:" + Sha256(kMeaning));
  CHECK(Refusal(good, EditedPlan::kRefused).empty());
  const std::string other = PlanText("sha256:" + Sha256("other"));
  CHECK(Refusal(other, EditedPlan::kRefused).find("the plan was edited") == 0);
  CHECK(Refusal(other, EditedPlan::kAllowed).empty());
}

TEST_CASE("members that the fingerprint does not cover are computed again") {
  const std::string good = PlanText("sha256:" + Sha256(kMeaning));
  const struct {
    std::string_view from, to, message;
  } cases[] = {
      {R"("shard_shape": [2])", R"("shard_shape": [4])",
       "`shard_shape` is [4]"},
      {R"("shard_shape": [2])", R"("shard_shape": null)", "`shard_shape`"},
      {R"("bytes_per_device": 8})", R"("bytes_per_device": 9})",
       "`bytes_per_device` is 9"},
      {R"("elements": 16)", R"("elements": 17)", "`elements` is 17"},
      {R"("params": 2})", R"("params": 1})", "`params` is 1"},
      {R"("params": 2})", R"("params": 2, "matched": 1})",
       "`matched` is 1, and the rest of the plan gives 2 to 2"},
      {R"("rule": 0)", R"("rule": 1)", "no such rule"},
      {R"("rule": 0)", R"("role": 0)", "`role` is not a member"},
      {R"("source": "r:1", )", "", "has no `source`"},
      {R"("corrected": 0)", R"("corrected": 3)", "`corrected` is 3"},
      {R"("unmatched": 0)", R"("unmatched": "0")", "not an integer"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.to);
    CHECK(Refusal(Replaced(good, one.from, one.to), EditedPlan::kRefused)
              .find(one.message) != std::string::npos);
  }
}

}  // namespace
}  // namespace shardc
