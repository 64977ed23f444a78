#include "step/op_def.h"

#include <doctest/doctest.h>

#include "step/build.h"
#include "step/described.h"
#include "step/graph_writer.h"

namespace shardc::step {

TEST_CASE("each kind of op has a record of its own") {
  for (size_t i = 0; i < kOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    CHECK(DefOf(kind).kind == kind);
    CHECK(!DefOf(kind).text.empty());
  }
}

TEST_CASE("the ops of a step have the attributes that their records declare") {
  const Described model = FromConfig(
      R"({"model_type": "mixtral", "vocab_size": 16, "hidden_size": 16,
        "intermediate_size": 32, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "num_experts_per_tok": 2})",
      "hf", "mixtral");
  for (const Mode mode : {Mode::kTrain, Mode::kDecode}) {
    Findings findings;
    auto step = BuildForward(*model.description, &model.config, model.manifest,
                             mode, findings);
    REQUIRE(step.has_value());
    if (mode == Mode::kTrain) {
      Differentiate(step->graph);
      AppendOptimizer(step->graph);
    }
    for (const Op& op : step->graph.ops) {
      CAPTURE(op.name);
      CHECK(op.attributes.index() == DefOf(op.kind).attributes);
    }
  }
}

TEST_CASE("an op that passes no gradient has no derivative rule") {
  Op op;
  op.attributes = FnAttributes{.fn = "step"};
  for (size_t i = 0; i < kOpKinds; ++i) {
    const OpDef& def = DefOf(static_cast<OpKind>(i));
    if (def.stops_gradient == nullptr || def.kind == OpKind::kFn) continue;
    CHECK(def.stops_gradient(op));
    CHECK((def.vjp == nullptr));
  }
  CHECK(DefOf(OpKind::kFn).stops_gradient(op));
  op.attributes = FnAttributes{.fn = "silu"};
  CHECK(!DefOf(OpKind::kFn).stops_gradient(op));
}

TEST_CASE("a maximum is linear in nothing, a sum in all its terms together") {
  CHECK(!IsLinearIn(OpKind::kMax, 0));
  CHECK(IsLinearIn(OpKind::kAdd, 1));
  CHECK(!IsLinearIn(OpKind::kLookup, 1));
  CHECK(IsLinearIn(OpKind::kScatter, 1));
}

}  // namespace shardc::step
