#include "cost/inputs.h"

#include <doctest/doctest.h>

#include <string>

#include "cost/models.h"

namespace shardc::cost {
namespace {

ModelConfig Model() {
  ModelConfig model;
  model.hidden = 64;
  model.heads = 8;
  model.kv_heads = 2;
  model.head_dim = 16;
  model.experts = 4;
  model.moe_intermediate = 48;
  return model;
}

struct Stored {
  std::string name;
  Shape shape;
  Spec spec;
  int layers = 0;  // number of leading dimensions that count layers
  Shape matrices;  // the shape that is expected
  Spec split;
  bool expert = false;
};

ParamClass Found(const Stored& one, std::optional<ModelConfig> model,
                 int64_t hidden = 64) {
  CostInputs work = TrainingOn(MeshOf({{"fsdp", 2}, {"ep", 4}, {"tp", 2}}), {});
  work.hidden_size = hidden;
  work.model = std::move(model);
  ParamClass param = ClassOf(one.name, one.shape, Dtype::kBF16, one.spec);
  param.role = Classify(one.name, '.', Confidence::kLikely,
                        static_cast<int>(one.shape.size()));
  param.role.expert |= one.expert;
  param.layer_dims = one.layers;
  work.params.push_back(std::move(param));
  FindMatrixDims(work);
  return work.params.front();
}

TEST_CASE("weights of other dimensions are written as matrices") {
  const AxisGroup f = {"fsdp"}, t = {"tp"}, e = {"ep"}, no;
  const Stored rows[] = {
      // Attention by heads, as DenseGeneral of Flax stores it.
      {"l.attention.query.kernel",
       {3, 64, 8, 16},
       {no, f, t, no},
       1,
       {3, 64, 128},
       {no, f, t}},
      {"l.attention.query.kernel",
       {64, 8, 16},
       {f, t, no},
       0,
       {64, 128},
       {f, t}},
      {"l.attention.key.kernel", {64, 2, 16}, {f, no, t}, 0, {64, 32}, {f, t}},
      {"l.attention.out.kernel",
       {3, 8, 16, 64},
       {no, t, no, f},
       1,
       {3, 128, 64},
       {no, t, f}},
      // A tower of another width.
      {"img.attention.query.kernel",
       {27, 48, 4, 12},
       {no, f, t, no},
       1,
       {27, 48, 48},
       {no, f, t}},
      {"img.attention.out.kernel",
       {27, 4, 12, 48},
       {no, t, no, f},
       1,
       {27, 48, 48},
       {no, t, f}},
      // The einsum of Gemma has the heads first.
      {"l.attn.q_einsum.w", {8, 64, 16}, {t, f, no}, 0, {64, 128}, {f, t}},
      {"l.attn.kv_einsum.w",
       {2, 2, 64, 16},
       {no, t, f, no},
       0,
       {64, 64},
       {f, t}},
      {"l.mlp.gating_einsum", {2, 64, 96}, {no, f, t}, 0, {64, 192}, {f, t}},
      // Gemma 2 and later: the hidden size is last.
      {"l.mlp.gating_einsum", {2, 96, 64}, {no, t, f}, 0, {64, 192}, {f, t}},
      {"l.mlp.wi.kernel", {64, 2, 96}, {f, no, t}, 0, {64, 192}, {f, t}},
      // Two layers of which nothing shows that they are layers.
      {"l.mlp.up_proj", {2, 64, 96}, {no, f, t}, 0, {2, 64, 96}, {no, f, t}},
      // All matrices of experts one under the other, as in DBRX.
      {"l.experts.mlp.w1",
       {4 * 48, 64},
       {{"ep", "tp"}, f},
       0,
       {4, 48, 64},
       {e, t, f},
       true},
      {"l.experts.mlp.w1",
       {4 * 48, 64},
       {f, no},
       0,
       {4, 48, 64},
       {f, no, no},
       true},
      // The size of the first dimension shows that it counts experts.
      {"l.MoeBlock_0.wi_0",
       {3, 4, 64, 48},
       {no, e, f, t},
       1,
       {3, 4, 64, 48},
       {no, e, f, t},
       true},
      // Already matrices, of which the first two are in layers that no stack
      // was found for.
      {"l.attention.query.kernel",
       {3, 64, 128},
       {no, f, t},
       0,
       {3, 64, 128},
       {no, f, t}},
      {"l.attention.out.kernel",
       {3, 128, 64},
       {no, t, f},
       0,
       {3, 128, 64},
       {no, t, f}},
      {"l.experts.w1", {4, 48, 64}, {e, t, f}, 0, {4, 48, 64}, {e, t, f}, true},
      {"l.shared_experts.mlp.w1", {192, 64}, {t, f}, 0, {192, 64}, {t, f}},
      {"l.mlp.wi_0.kernel",
       {3, 64, 192},
       {no, f, t},
       1,
       {3, 64, 192},
       {no, f, t}},
  };
  for (const Stored& one : rows) {
    CAPTURE(one.name);
    const ParamClass param = Found(one, Model());
    CAPTURE(ShapeText(*param.type.shape));
    CHECK(*param.type.shape == one.matrices);
    CHECK(param.spec == one.split);
    CHECK(param.role.expert == one.expert);
  }
}

TEST_CASE("without a configuration the query's shape shows the heads") {
  const Stored query = {"l.attention.query.kernel",
                        {64, 8, 16},
                        {{"fsdp"}, {"tp"}, {}},
                        0,
                        {},
                        {}};
  CHECK(*Found(query, std::nullopt).type.shape == Shape{64, 128});
  const Stored einsum = {"l.attn.q_einsum.w", {8, 64, 16}, {}, 0, {}, {}};
  CHECK(*Found(einsum, std::nullopt).type.shape == Shape{8, 64, 16});
}

TEST_CASE("a hidden size of 0 changes no weight") {
  const Stored query = {"l.attention.query.kernel", {8, 0, 16}, {}, 0, {}, {}};
  CHECK(*Found(query, std::nullopt, 0).type.shape == Shape{8, 0, 16});
}

}  // namespace
}  // namespace shardc::cost
