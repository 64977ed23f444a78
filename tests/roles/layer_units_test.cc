#include "roles/layer_units.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

TEST_CASE("the number of a layer is a star in its template") {
  CHECK(LayerTemplate("decoder/layers_5/mlp/wi/kernel", '/') ==
        "decoder/layers_*/mlp/wi/kernel");
  CHECK(LayerTemplate("model.layers.5.mlp.experts.7.w1", '.') ==
        "model.layers.*.mlp.experts.*.w1");
  CHECK(LayerTemplate("layers_5/experts/3/wi_0", '/') ==
        "layers_*/experts/*/wi_0");
  CHECK(LayerTemplate("stages/2/h_11/ln_1", '/') == "stages/*/h_11/ln_1");
  CHECK(LayerTemplate("embedder/wi_0", '/') == "embedder/wi_0");
}

}  // namespace
}  // namespace shardc
