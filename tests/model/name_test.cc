#include "model/name.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

TEST_CASE("whole digit parts are stars") {
  CHECK(NameTemplate("layers/10/w1/0", '/') == "layers/*/w1/*");
  CHECK(NameTemplate("0.a.12", '.') == "*.a.*");
  CHECK(NameTemplate("a//b", '/') == "a//b");
  CHECK(NameTemplate("12", 0) == "*");
  // Megatron-Core numbers the leaves of grouped experts. `weight1` and
  // `weight2` of its older module are two parameters of all experts.
  CHECK(NameTemplate("l.3.mlp.experts.linear_fc1.weight12", '.') ==
        "l.*.mlp.experts.linear_fc1.weight*");
  CHECK(NameTemplate("experts/linear_fc2/bias0", '/') ==
        "experts/linear_fc2/bias*");
  CHECK(NameTemplate("mlp.experts.weight1", '.') == "mlp.experts.weight1");
  CHECK(NameTemplate("mlp.linear_fc1.weight1", '.') ==
        "mlp.linear_fc1.weight1");
  CHECK(NameTemplate("experts.weight1", 0) == "experts.weight1");
  CHECK(NameTemplate("", '/') == "");
  std::string out = "x ";
  AppendTemplate("a/1", '/', out);
  CHECK(out == "x a/*");
}

TEST_CASE("the number of a layer or an expert is a star after its word") {
  const struct {
    std::string_view name, folded;
  } kNames[] = {
      {"layers_5/mlp/wi_0/kernel", "layers_*/mlp/wi_0/kernel"},
      {"decoder/layers_11/mlp/wi_1", "decoder/layers_*/mlp/wi_1"},
      {"h_3/ln_1/scale", "h_*/ln_1/scale"},
      {"Block_0/Dense_1/kernel", "Block_*/Dense_1/kernel"},
      {"decoder_block_12/fc1", "decoder_block_*/fc1"},
      {"TransformerBlock_3/x", "TransformerBlock_*/x"},
      {"encoderblock_7/MlpBlock_3/Dense_0",
       "encoderblock_*/MlpBlock_3/Dense_0"},
      {"layers/layers_0/layers_10/q", "layers/layers_*/layers_*/q"},
      {"mlp/experts/expert_6/wi", "mlp/experts/expert_*/wi"},
      {"stages/2/h_11/ln_1", "stages/*/h_*/ln_1"},
      {"layer0/q", "layer*/q"},
      {"block-10/mlp/fc-1", "block-*/mlp/fc-1"},
      {"EncoderBlock11/Dense0", "EncoderBlock*/Dense0"},
      {"h-3/x2", "h-*/x2"},
      // Parts of one layer, and one module of scanned layers.
      {"layer_norm_1/scale", "layer_norm_1/scale"},
      {"attention_block_1/q", "attention_block_1/q"},
      {"MoeBlock_0/gate", "MoeBlock_0/gate"},
      {"ScanBlock_0/q", "ScanBlock_0/q"},
      {"conv2/dense_0/Conv_1", "conv2/dense_0/Conv_1"},
      {"layer1/0/conv1", "layer*/*/conv1"},
      {"mlp_layer1/h0/conv_block2", "mlp_layer1/h0/conv_block2"},
      {"my_h_2x/layers_x", "my_h_2x/layers_x"},
      // Paths as JAX prints them.
      {"['layers'][10]['wi_0']", "['layers'][*]['wi_0']"},
      {"params['Block_2']['kernel']", "params['Block_*']['kernel']"},
      {".layers[3].mlp[1]", ".layers[*].mlp[*]"},
      {"layers_*/up", "layers_*/up"},
  };
  for (const auto& [path, folded] : kNames) {
    const std::string_view name = path;
    CAPTURE(name);
    const char separator = name.find('/') != name.npos    ? '/'
                           : name.find(".l") != name.npos ? '.'
                                                          : '\0';
    CHECK(NameTemplate(name, separator) == folded);
    std::string again;
    ForTemplatePieces(
        name, separator, [&](std::string_view text) { again += text; },
        [&](std::string_view number) { again += number; });
    CHECK(again == name);
  }
  CHECK(NameTemplate("h_3.experts.expert_1.12", '.', TemplateNumbers::kParts) ==
        "h_3.experts.expert_1.*");
}

TEST_CASE("a name is split at its separators") {
  using Parts = std::vector<std::string_view>;
  CHECK(SplitName("a/b.c", '/') == Parts{"a", "b.c"});
  CHECK(SplitName("a/b.c", '.') == Parts{"a/b", "c"});
  CHECK(SplitName("a/b", 0) == Parts{"a/b"});
  CHECK(SplitName("/a//", '/') == Parts{"", "a", "", ""});
  CHECK(SplitName("", '/') == Parts{""});
}

}  // namespace
}  // namespace shardc
