#include "cost/activations.h"

#include <doctest/doctest.h>

#include <string>

#include "cost/models.h"
#include "cost/unknown_roles.h"

namespace shardc::cost {
namespace {

ParamClass Matrix(const std::string& name, int64_t out, int64_t in,
                  int64_t count) {
  ParamClass param = ClassOf(name, {out, in}, Dtype::kBF16, {}, count);
  param.role = Classify(name, '.', Confidence::kLikely, 2);
  param.out_dim = 0;
  param.in_dim = 1;
  return param;
}

// Returns the activations of a row of 8 tokens.
Activations ActivationsOfRow(const CostInputs& work) {
  Settings settings;
  settings.batch = 1;
  settings.length = 8;
  NotKnown why;
  const auto out = ActivationsOf(work, settings, why);
  REQUIRE(out);
  return *out;
}

TEST_CASE("keys and values of one projection are kept as those of two are") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 1}}), {"dp"});
  work.model = ModelConfig{};
  work.model->hidden = 16;
  const std::string block = "layers.*.self_attn.";
  const ParamClass query = Matrix(block + "q_proj.weight", 16, 16, 3);
  const ParamClass output = Matrix(block + "o_proj.weight", 16, 16, 3);
  work.params = {query, Matrix(block + "k_proj.weight", 4, 16, 3),
                 Matrix(block + "v_proj.weight", 4, 16, 3), output};
  const Activations apart = ActivationsOfRow(work);
  work.params = {query, Matrix(block + "kv_proj.weight", 8, 16, 3), output};
  const Activations fused = ActivationsOfRow(work);
  CHECK(fused.kept == apart.kept);
  CHECK(fused.tensors.size() + 1 == apart.tensors.size());
}

TEST_CASE("each tower of an encoder has hidden states of its own width") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 1}}), {"dp"});
  work.model = ModelConfig{};
  work.model->hidden = 16;
  work.model->has_encoder = true;
  const std::string text = "text_model.encoder.layers.*.mlp.";
  const std::string vision = "vision_model.encoder.layers.*.mlp.";
  work.params = {Matrix(text + "fc1.weight", 64, 16, 2),
                 Matrix(text + "fc2.weight", 16, 64, 2),
                 Matrix(vision + "fc1.weight", 128, 32, 3),
                 Matrix(vision + "fc2.weight", 32, 128, 3)};
  SetStreams(work, '.');
  // Inputs, results of fc1, activations; in bytes of 8 tokens.
  CHECK(ActivationsOfRow(work).kept ==
        2 * 8 * (16 + 64 + 64) * 2 + 3 * 8 * (32 + 128 + 128) * 2);
  // The inner width of the text tower is the hidden size of the other.
  work.params[0] = Matrix(text + "fc1.weight", 32, 16, 2);
  work.params[1] = Matrix(text + "fc2.weight", 16, 32, 2);
  SetStreams(work, '.');
  CHECK(ActivationsOfRow(work).kept ==
        2 * 8 * (16 + 32 + 32) * 2 + 3 * 8 * (32 + 128 + 128) * 2);
}

}  // namespace
}  // namespace shardc::cost
