#include "roles/layer_stacks.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

TEST_CASE("the layer of a name is its first number of a layer") {
  const struct {
    std::string_view name, chain, module;
    int64_t layer;
  } kNames[] = {
      {"model/layers/5/mlp/up", "model/layers", "model/layers/5", 5},
      {"decoder/layers_5/mlp/wi_0", "decoder/layers", "decoder/layers_5", 5},
      {"DecoderBlock_12/ln_1", "DecoderBlock", "DecoderBlock_12", 12},
      {"0/h_3/ln_1", "0/h", "0/h_3", 3},
      {"['layers'][7]['up']", "['layers']", "['layers'][7]", 7},
      {"['h_7']['up']", "['h", "['h_7']", 7},
  };
  for (const auto& [path, chain, module, number] : kNames) {
    const std::string_view name = path;
    CAPTURE(name);
    const auto layer = LayerOf(name, name[0] == '[' ? '\0' : '/');
    REQUIRE(layer);
    CHECK(layer->chain == chain);
    CHECK(layer->module == module);
    CHECK(layer->layer == number);
  }
  for (const std::string_view name :
       {"embedder/wi_0", "0/up", "experts/expert_3/up", "layers_x/up",
        "layers/99999999999999999999/up"}) {
    CAPTURE(name);
    CHECK_FALSE(LayerOf(name, '/'));
  }
}

}  // namespace
}  // namespace shardc
