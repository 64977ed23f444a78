// Values of configurations: layouts of pipelines, lists as Python writes them,
// and numbers.
#include "systems/values.h"

#include "doctest/doctest.h"

#include <string>
#include <vector>

namespace shardc::systems {
namespace {

TEST_CASE("a layout states the layers of each stage") {
  struct Row {
    const char* text;
    std::vector<int64_t> layers;  // empty if the text is no layout
  };
  const Row rows[] = {{"Ett|t|tt|L", {2, 1, 2, 0}},
                      {"Et*3|(tt|)*2m|L", {3, 2, 2, 0, 0}},
                      {"E|t|L", {0, 1, 0}},
                      {"Ettx|L", {}},
                      {"(tt", {}},
                      {"tt)", {}},
                      {"t*0", {}},
                      {"", {}}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto layout = ParseLayout(row.text);
    CHECK(layout.has_value() == !row.layers.empty());
    if (layout) CHECK(layout->layers == row.layers);
  }
  CHECK(ParseLayout("Et|tL")->begins_with_embedding);
  CHECK(ParseLayout("Et|tL")->ends_with_loss);
  CHECK_FALSE(ParseLayout("t|t")->begins_with_embedding);
  // A repetition that would not end is refused before it is written out.
  CHECK_FALSE(ParseLayout("((((t*9999)*9999)*9999)*9999)").has_value());
}

TEST_CASE("a value has the type that its text shows") {
  const auto json = [](const char* text, bool quoted = false) {
    return JsonOf({text, quoted, {}, {}}).value_or("absent");
  };
  CHECK(json("4") == "4");
  CHECK(json("8_192") == "8192");
  CHECK(json("True") == "true");
  CHECK(json("None") == "absent");
  CHECK(json("0.9") == "0.9");
  CHECK(json("1e-4") == "1e-4");
  CHECK(json("[0]+[1]*4") == "[0, 1, 1, 1, 1]");
  CHECK(json("([0]*2+[1])*2") == "[0, 0, 1, 0, 0, 1]");
  CHECK(json("[0]*99999999") == "\"[0]*99999999\"");
  CHECK(json("Ett|t") == "\"Ett|t\"");
  CHECK(json("4", true) == "\"4\"");
  CHECK(json("007") == "\"007\"");
  CHECK(json("1e999") == "\"1e999\"");
  CHECK(json("00.5") == "\"00.5\"");
  CHECK(json("99999999999999999999") == "\"99999999999999999999\"");
}

TEST_CASE("numbers are separated by commas") {
  CHECK(ParseNumbers("31,30") == std::vector<int64_t>{31, 30});
  CHECK_FALSE(ParseNumbers("31,-1").has_value());
  CHECK_FALSE(ParseNumbers("").has_value());
}

}  // namespace
}  // namespace shardc::systems
