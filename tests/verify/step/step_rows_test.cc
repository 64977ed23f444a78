#include "verify/step/step_report.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardc::verify {
namespace {

StepRow RowOf(std::string part, std::string op,
              std::optional<double> error = std::nullopt) {
  StepRow out;
  out.part = std::move(part);
  out.op = std::move(op);
  out.error = error;
  if (error) out.allowed = 2 * *error;
  return out;
}

// Such as "layer 0-1 q 2": part, op and the number of layers.
std::vector<std::string> Folded(std::vector<StepRow> rows) {
  FoldLayers(rows);
  std::vector<std::string> out;
  for (const StepRow& row : rows) {
    out.push_back(row.part + " " + row.op + " " + std::to_string(row.layers));
  }
  return out;
}

using Texts = std::vector<std::string>;

TEST_CASE("rows of equal layers one after the other become one") {
  CHECK(Folded({RowOf("embed", "e"), RowOf("layer 0", "q"),
                RowOf("layer 0", "k"), RowOf("layer 1", "q"),
                RowOf("layer 1", "k"), RowOf("head", "h")}) ==
        Texts{"embed e 1", "layer 0-1 q 2", "layer 0-1 k 2", "head h 1"});
  // Backward the last layer comes first.
  CHECK(Folded({RowOf("layer 2", "q"), RowOf("layer 1", "q"),
                RowOf("layer 0", "q")}) == Texts{"layer 0-2 q 3"});
  CHECK(Folded({}).empty());
}

TEST_CASE("layers with other rows and other parts stay apart") {
  CHECK(Folded({RowOf("layer 0", "q"), RowOf("layer 1", "k"),
                RowOf("layer 2", "k")}) ==
        Texts{"layer 0 q 1", "layer 1-2 k 2"});
  CHECK(Folded({RowOf("layer 0", "q"), RowOf("layer 0", "k"),
                RowOf("layer 1", "q")}) ==
        Texts{"layer 0 q 1", "layer 0 k 1", "layer 1 q 1"});
  CHECK(Folded({RowOf("embed", "e"), RowOf("head", "e")}) ==
        Texts{"embed e 1", "head e 1"});
}

TEST_CASE("layers fold only if all that their rows print is equal") {
  const StepRow row = RowOf("layer 0", "q");
  const auto fold_with = [&](const auto& change) {
    StepRow other = row;
    other.part = "layer 1";
    change(other);
    std::vector<StepRow> rows = {row, other};
    FoldLayers(rows);
    return rows.size();
  };
  CHECK(fold_with([](StepRow&) {}) == 1);
  CHECK(fold_with([](StepRow& x) { x.phase = step::Phase::kBackward; }) == 2);
  CHECK(fold_with([](StepRow& x) { x.micro = 3; }) == 2);
  CHECK(fold_with([](StepRow& x) { x.op = "k"; }) == 2);
  CHECK(fold_with([](StepRow& x) { x.result = "[b]"; }) == 2);
  CHECK(fold_with([](StepRow& x) { x.specs = "b:dp"; }) == 2);
  CHECK(fold_with([](StepRow& x) { x.collective = Collective::kAllGather; }) ==
        2);
  CHECK(fold_with([](StepRow& x) { x.axes = {"tp"}; }) == 2);
  CHECK(fold_with([](StepRow& x) { x.bytes = 8; }) == 2);
  CHECK(fold_with([](StepRow& x) { x.part = "encoder 1"; }) == 2);
}

TEST_CASE("rows of two micro-batches of a layer are not one block") {
  StepRow other = RowOf("layer 0", "q");
  other.micro = 1;
  StepRow next = RowOf("layer 1", "q");
  next.micro = 1;
  CHECK(Folded({RowOf("layer 0", "q"), other, next}) ==
        Texts{"layer 0 q 1", "layer 0-1 q 2"});
}

TEST_CASE("a folded row has the largest error of its layers") {
  std::vector<StepRow> rows = {RowOf("layer 0", "q", 1), RowOf("layer 1", "q"),
                               RowOf("layer 2", "q", 3),
                               RowOf("layer 3", "q", 2)};
  FoldLayers(rows);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].error == 3);
  CHECK(rows[0].allowed == 6);
  rows = {RowOf("layer 0", "q"), RowOf("layer 1", "q", 5)};
  FoldLayers(rows);
  CHECK(rows[0].error == 5);
}

TEST_CASE("parts of layers have their number in the name") {
  CHECK(IsLayerPart("layer 12"));
  CHECK_FALSE(IsLayerPart("embed"));
  CHECK(LayerNumber("layer 12") == 12);
}

}  // namespace
}  // namespace shardc::verify
