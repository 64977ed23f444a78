// Compares the texts of `export` with the texts that JAX, XLA and PyTorch
// print.
#include <utility>

#include "doctest/doctest.h"
#include "emit/exports/exporter.h"
#include "records.h"

namespace shardc {
namespace {

constexpr int64_t kShardings = 1000;

std::string Exported(const ShardingCase& asked, std::string_view format,
                     exports::Options options) {
  ReadPlan plan;
  plan.fingerprint = "sha256:0";
  plan.mesh = asked.mesh;
  plan.modes = {Mode::kTrain};
  ReadParam param;
  param.name = "w";
  param.type = {asked.shape, Dtype::kF32};
  param.spec = asked.spec;
  plan.params.push_back(std::move(param));
  options.json = true;
  Findings findings;
  const exports::Exporter* exporter = exports::FindExporter(format);
  REQUIRE(exporter != nullptr);
  const std::string text = TextOf([&](Sink& out) {
    exporter->write({plan, options}, out, findings);
  });
  CHECK(!findings.HasErrors());
  return text;
}

// Parses an exported text, which must be JSON.
std::unique_ptr<const JsonDocument> Parsed(const std::string& text) {
  Findings findings;
  auto document = JsonDocument::Parse(MakeSource("export", text), findings);
  REQUIRE(document != nullptr);
  return document;
}

std::string ParamText(const std::string& text) {
  const auto document = Parsed(text);
  return std::string(Member(Member(document->root(), "params"), "w").string());
}

TEST_CASE("XLA's and Shardy's texts are those that JAX hands on") {
  const auto record = LoadRecord("jax/shardings");
  int64_t cases = 0;
  for (JsonValue entry : Member(record->root(), "cases").items()) {
    const ShardingCase asked = RecordedCase(entry);
    const auto hlo = [&](std::string form) {
      return ParamText(Exported(asked, "hlo", {.form = std::move(form)}));
    };
    CHECK(hlo("") == Member(entry, "hlo").string());
    CHECK(hlo("iota") == Member(entry, "hlo").string());
    CHECK(hlo("list") == Member(entry, "hlo_listed").string());
    CHECK(hlo("mesh") == Member(entry, "hlo_named").string());
    const std::string shardy = Exported(asked, "shardy", {});
    if (Member(entry, "shardy").IsString()) {
      CHECK(ParamText(shardy) == Member(entry, "shardy").string());
      CHECK(Member(Parsed(shardy)->root(), "mesh").string() ==
            "sdy.mesh @mesh = " +
                std::string(Member(entry, "shardy_mesh").string()));
    }
    ++cases;
  }
  CHECK(cases == kShardings);
}

TEST_CASE("placements are those whose slices PyTorch gave") {
  const auto record = LoadRecord("dtensor/shardings");
  int64_t cases = 0;
  for (JsonValue entry : Member(record->root(), "cases").items()) {
    const ShardingCase asked = RecordedCase(entry);
    const auto document = Parsed(Exported(asked, "dtensor", {}));
    const JsonValue ours = Member(Member(document->root(), "params"), "w");
    std::string wanted, given;
    for (JsonValue text : Member(entry, "placements").items()) {
      wanted += std::string(text.string()) + " ";
    }
    for (JsonValue text : ours.items())
      given += std::string(text.string()) + " ";
    CHECK_MESSAGE(given == wanted, asked.text);
    ++cases;
  }
  CHECK(cases == kShardings);
}

}  // namespace
}  // namespace shardc
