#include "facts/dimensions.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace shardc::facts {
namespace {

struct Row {
  std::string_view name;
  Shape shape;
  std::string counts;  // the words of the dimensions
  std::string_view split_with = {};
};

// A model of width 64, 4 heads of 32, 2 KV heads, an inner width of 256, and
// 3 layers.
const Row kRows[] = {
    {"model.embed_tokens.weight", {1000, 64}, "vocabulary stream"},
    {"lm_head.weight", {1000, 64}, "vocabulary stream"},
    {"model.norm.weight", {64}, "stream"},
    {"model.layers.0.self_attn.q_proj.weight", {128, 64}, "heads stream"},
    {"model.layers.0.self_attn.q_proj.bias",
     {128},
     "heads",
     "model.layers.*.self_attn.q_proj.weight"},
    {"model.layers.0.self_attn.q_proj.lora_A.default.weight",
     {8, 64},
     "rank stream",
     "model.layers.*.self_attn.q_proj.weight"},
    {"model.layers.0.self_attn.q_proj.lora_B.default.weight",
     {128, 8},
     "heads rank",
     "model.layers.*.self_attn.q_proj.weight"},
    {"model.layers.0.self_attn.k_proj.weight", {64, 64}, "kv_heads stream"},
    {"model.layers.0.self_attn.o_proj.weight", {64, 128}, "stream heads"},
    {"model.layers.0.mlp.up_proj.weight", {256, 64}, "inner stream"},
    {"model.layers.0.mlp.down_proj.weight", {64, 256}, "stream inner"},
    {"model.layers.0.thing.weight", {64, 48}, "unknown unknown"},
    {"model.layers.2.attn.query.kernel", {64, 4, 32}, "stream heads head_size"},
    {"model.layers.2.attn.value.kernel",
     {64, 2, 32},
     "stream kv_heads head_size"},
    {"model.layers.2.attn.out.kernel", {4, 32, 64}, "heads head_size stream"},
    {"model.layers.1.mlp.experts.gate_proj",
     {4, 64, 96},
     "experts stream inner"},
    {"model.layers.1.mlp.gate.weight", {4, 64}, "experts stream"},
};

TEST_CASE("each dimension counts what the role of its parameter shows") {
  std::vector<Tensor> tensors;
  std::vector<TensorType> types;
  for (const Row& row : kRows) {
    tensors.push_back({row.name, static_cast<uint32_t>(types.size())});
    types.push_back({row.shape, Dtype::kBF16});
  }
  const ParameterTable table =
      FindParameters({.tensors = tensors, .types = types, .separator = '.'});
  const std::vector<uint32_t> split_with = SplitWith(table);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Row& row = kRows[i];
    CAPTURE(row.name);
    const uint32_t group = table.group_of[i];
    std::string words;
    for (const Counts counts : CountsOf(table, group, row.shape)) {
      words += (words.empty() ? "" : " ") + std::string(CountsWord(counts));
    }
    CHECK(words == row.counts);
    if (row.split_with.empty()) {
      CHECK(split_with[group] == group);
    } else {
      CHECK(table.groups[split_with[group]].name == row.split_with);
    }
  }
}

}  // namespace
}  // namespace shardc::facts
