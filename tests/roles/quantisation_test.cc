#include "roles/quantisation.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardc {
namespace {

TEST_CASE("a block is the elements that share a scale") {
  struct Row {
    int64_t size, scales, block;
  };
  for (const Row& row : {Row{4096, 32, 128},
                         {4000, 40, 100},
                         {4097, 33, 128},
                         {4096, 100, 1},
                         {4096, 4096, 1},
                         {4096, 1, 4096},
                         {4096, 0, 1},
                         {10, 4, 1},
                         {16, 32, 1},
                         {576, 5, 128},
                         {7168, 56, 128},
                         {300, 3, 128}}) {
    CAPTURE(row.size);
    CAPTURE(row.scales);
    CHECK(BlockOf(row.size, row.scales) == row.block);
  }
}

TEST_CASE("a configuration states the rows of a block") {
  const struct {
    std::string_view quantisation;
    int64_t rows;
  } kConfigs[] = {
      {R"({"weight_block_size": [128, 64]})", 128},
      {R"({"weight_block_size": [64]})", 1},
      {R"({"weight_block_size": null})", 1},
      {R"({"weight_block_size": ["a", 64]})", 1},
      {R"({"group_size": 128})", 1},
      {R"({"config_groups": {"a": {"weights": {"block_structure": [32, 64]}},
                             "b": {"weights": null}}})",
       32},
      {R"({"config_groups": {"a": {"weights": {"block_structure": [32, 64]}},
                             "b": {"weights": {"group_size": 16}}}})",
       1},
  };
  for (const auto& [quantisation, rows] : kConfigs) {
    CAPTURE(quantisation);
    ModelConfig model;
    model.source = MakeSource(
        "config.json",
        "{\"quantization_config\": " + std::string(quantisation) + "}");
    CHECK(QuantisedRows(model) == rows);
  }
  CHECK(QuantisedRows(ModelConfig()) == 1);
}

}  // namespace
}  // namespace shardc
