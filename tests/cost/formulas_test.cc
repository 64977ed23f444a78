// Small cost inputs whose bytes and operations can be computed by hand, one for
// each factor and boundary of the formulas.
#include <doctest/doctest.h>

#include <string>

#include "cost/communication.h"
#include "cost/fit.h"
#include "cost/memory.h"
#include "cost/models.h"
#include "cost/time.h"
#include "verify/step/random_models.h"

namespace shardc::cost {
namespace {

int64_t SentBy(const Communication& communication, std::string_view part,
               Collective kind, bool backward) {
  int64_t out = 0;
  for (const Transfer& one : communication.transfers) {
    if (one.part == part && one.kind == kind && one.backward == backward) {
      out += one.sent;
    }
  }
  return out;
}

TEST_CASE("gathered memory is that of the largest group") {
  CostInputs work = TrainingOn(MeshOf({{"fsdp", 2}, {"tp", 2}}), {"fsdp"});
  const auto gathered = [&] {
    return MemoryOf(work, {}).most.Of(Component::kGathered);
  };
  const ParamClass up = ClassOf("layers.*.mlp.up_proj.weight", {64, 16},
                                Dtype::kBF16, {{"tp"}, {"fsdp"}}, 4);
  const ParamClass down = ClassOf("layers.*.mlp.down_proj.weight", {16, 64},
                                  Dtype::kBF16, {{"fsdp"}, {"tp"}}, 4);
  work.params = {up};
  // The weight stays sharded over tp, which shards no tokens: 64 * 16 / 2
  // elements of one of four layers are gathered.
  CHECK(gathered() == 1024);
  // All weights of a layer are gathered at the same time.
  work.params = {up, down};
  CHECK(gathered() == 2048);
  // An embedding is gathered by itself, so that it counts only if it is larger
  // than a layer.
  work.params.push_back(ClassOf("embed_tokens.weight", {100, 16}, Dtype::kBF16,
                                {{"fsdp"}, {"tp"}}));
  CHECK(gathered() == 2048);
  work.params.back() = ClassOf("embed_tokens.weight", {200, 16}, Dtype::kBF16,
                               {{"fsdp"}, {"tp"}});
  CHECK(gathered() == 3200);
  // Norms are too small to count.
  work.params = {up, ClassOf("norm.weight", {4000}, Dtype::kBF16, {{"fsdp"}})};
  CHECK(gathered() == 1024);
  // A weight that is not gathered takes no memory for gathered weights.
  work.params = {ClassOf("layers.*.mlp.up_proj.weight", {64, 16}, Dtype::kBF16,
                         {{"tp"}, {}}, 4)};
  CHECK(gathered() == 0);
}

TEST_CASE("ZeRO 3 gathers a layer's weights over the axes of replicas") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 4}, {"tp", 2}}), {"dp"});
  work.params = {ClassOf("layers.*.mlp.up_proj.weight", {64, 16}, Dtype::kBF16,
                         {{"tp"}, {}}, 4)};
  Settings settings;
  for (const int zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    settings.zero = zero;
    CHECK(MemoryOf(work, settings).most.Of(Component::kGathered) ==
          (zero == 3 ? 64 * 16 / 2 * 2 : 0));
  }
  // Serving has no replicas that share a parameter.
  work.mode = Mode::kDecode;
  CHECK(MemoryOf(work, settings).most.Of(Component::kGathered) == 0);
}

TEST_CASE("weights are gathered in the narrower dtype that trains") {
  CostInputs work = TrainingOn(MeshOf({{"fsdp", 4}}), {"fsdp"});
  struct Row {
    Mode mode;
    Dtype stored, activations;
    int64_t bytes;  // of a gathered element
  };
  const Row rows[] = {
      {Mode::kTrain, Dtype::kF32, Dtype::kBF16, 2},
      {Mode::kTrain, Dtype::kF32, Dtype::kF32, 4},
      {Mode::kTrain, Dtype::kBF16, Dtype::kBF16, 2},
      {Mode::kTrain, Dtype::kBF16, Dtype::kF32, 2},
      {Mode::kPrefill, Dtype::kF32, Dtype::kBF16, 4},
      {Mode::kDecode, Dtype::kF32, Dtype::kBF16, 4},
  };
  for (const Row& row : rows) {
    CAPTURE(row.mode);
    CAPTURE(row.stored);
    CAPTURE(row.activations);
    work.mode = row.mode;
    work.params = {ClassOf("layers.*.mlp.up_proj.weight", {64, 16}, row.stored,
                           {{}, {"fsdp"}}, 2)};
    Settings settings;
    settings.activations = row.activations;
    const bool trains = row.mode == Mode::kTrain;
    const Communication sent = CommunicationOf(work, settings);
    // Each of two layers: a quarter of 64 x 16 elements to three devices.
    const int64_t gathered = 2 * 64 * 16 / 4 * 3 * row.bytes;
    CHECK(SentBy(sent, "parameters", Collective::kAllGather, false) ==
          gathered);
    CHECK(SentBy(sent, "parameters", Collective::kAllGather, true) ==
          (trains ? gathered : 0));
    // Gradients keep the stored dtype.
    CHECK(SentBy(sent, "gradients", Collective::kReduceScatter, true) ==
          (trains ? 2 * 64 * 16 / 4 * 3 * DtypeBits(row.stored) / 8 : 0));
    CHECK(MemoryOf(work, settings).most.Of(Component::kGathered) ==
          64 * 16 * row.bytes);
  }
}

TEST_CASE("a table that is only looked up is gathered in the forward pass") {
  CostInputs work = TrainingOn(MeshOf({{"fsdp", 4}}), {"fsdp"});
  const ParamClass table = ClassOf("model.embed_tokens.weight", {256, 64},
                                   Dtype::kBF16, {{}, {"fsdp"}});
  const ParamClass head =
      ClassOf("lm_head.weight", {256, 64}, Dtype::kBF16, {});
  const ParamClass positions =
      ClassOf("wpe.weight", {32, 64}, Dtype::kBF16, {{}, {"fsdp"}});
  // A quarter of the elements, in two bytes, to three devices.
  const int64_t of_table = 256 * 64 / 4 * 2 * 3;
  const int64_t of_positions = 32 * 64 / 4 * 2 * 3;
  struct Row {
    std::vector<ParamClass> params;
    int64_t forward, backward;
  };
  const Row rows[] = {
      {{table, head}, of_table, 0},
      {{table}, of_table, of_table},  // the table is the head
      {{table, positions}, of_table + of_positions, of_table},
  };
  for (Row row : rows) {
    // The step does not run a tower for images.
    row.params.push_back(ClassOf("vision_tower.up_proj.weight", {64, 64},
                                 Dtype::kBF16, {{"fsdp"}}));
    row.params.back().stream = Stream::kNone;
    row.params.push_back(
        ClassOf("vision_tower.up_proj.bias", {64}, Dtype::kBF16, {}));
    row.params.back().stream = Stream::kNone;
    work.params = row.params;
    const Communication sent = CommunicationOf(work, {});
    CHECK(SentBy(sent, "gradients", Collective::kReduceScatter, true) ==
          row.forward);
    CHECK(SentBy(sent, "parameters", Collective::kAllGather, false) ==
          row.forward);
    CHECK(SentBy(sent, "parameters", Collective::kAllGather, true) ==
          row.backward);
  }
}

// Returns a layer with one projection to 64 features of 16, followed by its
// activation function.
CostInputs OneLayer(int64_t layers) {
  CostInputs work = TrainingOn(MeshOf({{"dp", 2}}), {"dp"});
  work.params = {ClassOf("layers.*.mlp.up_proj.weight", {64, 16}, Dtype::kBF16,
                         {}, layers),
                 ClassOf("layers.*.mlp.down_proj.weight", {16, 64},
                         Dtype::kBF16, {}, layers)};
  ModelConfig model;
  model.hidden = 16;
  work.model = model;
  return work;
}

TEST_CASE("activations are kept for each layer and one micro-batch") {
  const auto kept = [](int64_t layers, int64_t batch, int64_t microbatches) {
    Settings settings;
    settings.batch = batch;
    settings.length = 8;
    settings.microbatches = microbatches;
    return MemoryOf(OneLayer(layers), settings).activations->kept;
  };
  // Each device has a row of 8 tokens: 16 inputs, 64 of up, 64 activations.
  const int64_t row = 8 * (16 + 64 + 64) * 2;
  CHECK(kept(1, 2, 1) == row);
  CHECK(kept(3, 2, 1) == 3 * row);
  CHECK(kept(1, 16, 1) == 8 * row);
  CHECK(kept(1, 16, 4) == 2 * row);
  CHECK(kept(3, 16, 8) == 3 * row);
  // If the rows do not divide, the device with the most rows counts.
  CHECK(kept(1, 6, 2) == 2 * row);
  CHECK(kept(1, 5, 1) == 3 * row);
}

TEST_CASE(
    "gradients of K and V are also reduced over the axes of the queries") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 2}, {"tp", 4}}), {"dp"});
  work.query[2] = {"tp"};
  const auto reduced = [&](const std::string& name) {
    work.params = {ClassOf(name, {64, 16}, Dtype::kBF16, {})};
    return SentBy(CommunicationOf(work, {}), "gradients",
                  Collective::kAllReduce, true);
  };
  const int64_t bytes = 64 * 16 * 2;
  CHECK(reduced("layers.*.self_attn.q_proj.weight") == bytes);
  CHECK(reduced("layers.*.self_attn.k_proj.weight") == 2 * bytes * 7 / 8);
  CHECK(reduced("layers.*.self_attn.v_proj.weight") == 2 * bytes * 7 / 8);
  CHECK(reduced("layers.*.self_attn.o_proj.weight") == bytes);
}

TEST_CASE("serving gathers the logits of the last token only") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 2}, {"tp", 4}}), {"dp"});
  work.params = {
      ClassOf("lm_head.weight", {1000, 16}, Dtype::kBF16, {{"tp"}, {}})};
  ModelConfig model;
  model.hidden = 16;
  work.model = model;
  Settings settings;
  settings.batch = 4;
  settings.length = 10;
  settings.kv_length = 10;
  for (const Mode mode : {Mode::kPrefill, Mode::kDecode}) {
    CAPTURE(mode);
    work.mode = mode;
    // A device sends two rows of 250 numbers of four bytes to three others.
    CHECK(SentBy(CommunicationOf(work, settings), "logits",
                 Collective::kAllGather, false) == 2 * 250 * 4 * 3);
    CHECK(MemoryOf(work, settings).most.Of(Component::kLogits) == 2 * 250 * 4);
  }
  work.mode = Mode::kTrain;
  // Three numbers for each of 20 tokens are all-reduced over four devices.
  CHECK(SentBy(CommunicationOf(work, settings), "logits",
               Collective::kAllReduce, false) == 3 * 20 * 4 * 2 * 3 / 4);
  // The loss holds three and a half copies.
  CHECK(MemoryOf(work, settings).most.Of(Component::kLogits) ==
        7 * 20 * 250 * 4 / 2);
}

int64_t OptimizerBytes(Optimizer optimizer, const std::string& name,
                       Shape shape, Spec spec = {}) {
  CostInputs work = TrainingOn(MeshOf({{"dp", 1}, {"tp", 2}}), {"dp"});
  work.params = {ClassOf(name, std::move(shape), Dtype::kF32, std::move(spec))};
  Settings settings;
  settings.optimizer = optimizer;
  return MemoryOf(work, settings).most.Of(Component::kOptimizer).value_or(-1);
}

TEST_CASE("adafactor factors matrices of 128 rows and columns or more") {
  const auto bytes = [](Shape shape, Spec spec = {}) {
    return OptimizerBytes(Optimizer::kAdafactor, "mlp.up_proj.weight",
                          std::move(shape), std::move(spec));
  };
  CHECK(bytes({128, 256}) == (128 + 256) * 4);
  CHECK(bytes({256, 128}) == (128 + 256) * 4);
  CHECK(bytes({127, 256}) == 127 * 256 * 4);
  CHECK(bytes({256, 127}) == 127 * 256 * 4);
  CHECK(bytes({3, 128, 256}) == 3 * (128 + 256) * 4);
  CHECK(bytes({1000}) == 1000 * 4);
  // Whether moments are factored depends on the unsharded sizes. Each of the
  // two vectors is sharded as its dimension is.
  CHECK(bytes({128, 256}, {{"tp"}, {}}) == (64 + 256) * 4);
}

TEST_CASE("muon has one moment for matrices, and adam's for the others") {
  const auto moments = [](const std::string& name, Shape shape) {
    int64_t elements = 1;
    for (int64_t size : shape) elements *= size;
    return OptimizerBytes(Optimizer::kMuon, name, std::move(shape)) / elements /
           4;
  };
  CHECK(moments("layers.*.mlp.up_proj.weight", {64, 32}) == 1);
  CHECK(moments("lm_head.weight", {64, 32}) == 2);
  CHECK(moments("embed_tokens.weight", {64, 32}) == 2);
  CHECK(moments("layers.*.norm.weight", {64}) == 2);
}

TEST_CASE(
    "rows, tokens, cache tokens and heads that do not divide are reasons") {
  const verify::Model model = ModelOf(verify::kFamilies[0]);
  const Mesh mesh = MeshOf({{"dp", 2}, {"tp", 2}});
  const auto compiled = verify::CompiledOn(mesh, verify::kFamilies[0], model);
  const auto reasons = [&](Mode mode, auto change) {
    CostInputs work = MakeCostInputs(*compiled, model.config, mode);
    work.query[1] = work.key[1] = {"tp"};
    work.query[2] = work.key[2] = {};
    Settings settings;
    settings.batch = settings.length = settings.kv_length = 8;
    change(work, settings);
    const std::optional<ModelConfig> config = model.config;
    StepTraffic traffic(*compiled, config, settings);
    return FitOf(*compiled, work, settings, traffic).reasons;
  };
  using Texts = std::vector<std::string>;
  const auto nothing = [](CostInputs&, Settings&) {};
  for (const Mode mode : {Mode::kTrain, Mode::kPrefill, Mode::kDecode}) {
    CAPTURE(mode);
    CHECK(reasons(mode, nothing) == Texts());
    CHECK(reasons(mode, [](CostInputs&, Settings& s) { s.batch = 7; }) ==
          Texts{"7 rows are not divisible by 2"});
    CHECK(reasons(mode, [](CostInputs&, Settings& s) {
            s.microbatches = 2;
            s.batch = 6;
          }) == Texts{"3 rows of a device are not divisible by 2"});
  }
  const auto length = [](CostInputs&, Settings& s) { s.length = 7; };
  const Texts tokens = {"7 tokens are not divisible by 2"};
  CHECK(reasons(Mode::kTrain, length) == tokens);
  CHECK(reasons(Mode::kPrefill, length) == tokens);
  CHECK(reasons(Mode::kDecode, length) == Texts());
  const auto cache = [](CostInputs&, Settings& s) { s.kv_length = 7; };
  const Texts cached = {"7 tokens of the cache are not divisible by 2"};
  CHECK(reasons(Mode::kTrain, cache) == Texts());
  CHECK(reasons(Mode::kPrefill, cache) == cached);
  CHECK(reasons(Mode::kDecode, cache) == cached);
  CHECK(reasons(Mode::kTrain,
                [](CostInputs& work, Settings&) {
                  work.query[1] = work.key[1] = {};
                  work.query[2] = work.key[2] = {"tp"};
                  work.model->heads = 5;
                  work.model->kv_heads = 3;
                }) == Texts{"5 heads are not divisible by 2",
                            "3 KV heads are not divisible by 2"});
  // Two reasons are listed, and then the number of further ones.
  const auto several = [&](int64_t rows, int64_t columns) {
    return reasons(Mode::kTrain, [&](CostInputs& work, Settings& s) {
      work.query[1] = {"dp"};
      work.query[2] = work.key[2] = {"tp"};
      work.model->heads = 5;
      work.model->kv_heads = 3;
      s.batch = rows;
      s.length = columns;
    });
  };
  CHECK(several(8, 7) == Texts{"5 heads are not divisible by 2",
                               "3 KV heads are not divisible by 2",
                               "and 1 more"});
  CHECK(several(7, 7) == Texts{"5 heads are not divisible by 2",
                               "3 KV heads are not divisible by 2",
                               "and 2 more"});
}

TEST_CASE("a matmul of experts reads each expert of its layer once") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 2}, {"ep", 4}}), {"dp"});
  ModelConfig model;
  model.hidden = 32;
  model.experts = 8;
  model.experts_per_token = 2;
  work.model = model;
  Settings settings;
  settings.batch = 4;
  settings.length = 16;
  const auto matmul = [&](const ParamClass& down) {
    work.params = {down};
    return MatmulsOf(work, *TokensOf(work, settings)).at(0);
  };
  // Three layers of eight experts, over four devices: in one tensor for each
  // layer, in one for all layers, and in one for each expert.
  ParamClass placed = ClassOf("layers.*.mlp.experts.*.down_proj.kernel",
                              {64, 32}, Dtype::kBF16, {}, 24);
  placed.placed_along = "ep";
  placed.placed = {{0, 6}, {1, 6}, {2, 6}, {3, 6}};
  const ParamClass classes[] = {
      ClassOf("layers.*.mlp.experts.down_proj.kernel", {8, 64, 32},
              Dtype::kBF16, {{"ep"}}, 3),
      ClassOf("layers.mlp.experts.down_proj.kernel", {3, 8, 64, 32},
              Dtype::kBF16, {{}, {"ep"}}),
      placed};
  for (const ParamClass& down : classes) {
    CAPTURE(down.name);
    const Matmul one = matmul(down);
    CHECK(one.layers == 3);
    CHECK(one.matrices == 2);
    // A device has 32 tokens, and its experts a quarter of twice as many.
    CHECK(one.rows == 16);
  }
}

TEST_CASE("windowed layers attend to their window only") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 2}, {"tp", 2}}), {"dp"});
  work.query[2] = {"tp"};
  ModelConfig model;
  model.heads = 8;
  model.head_dim = 4;
  model.layers = 4;
  model.sliding_window = 16;
  model.windowed_layers = 1;
  work.model = model;
  Settings settings;
  settings.batch = 12;
  settings.length = settings.kv_length = 64;
  const auto flops = [&](Mode mode) {
    work.mode = mode;
    return FlopsOf(work, settings, MemoryOf(work, settings));
  };
  // Six rows and four heads of size four: 4 operations for each visible key.
  CHECK(flops(Mode::kDecode) == 4.0 * 6 * 4 * 4 * (3 * 64 + 16));
  // With causal attention, half of the keys are visible on average.
  // The first 16 tokens see 8 keys of the window on average, the others 16.
  CHECK(flops(Mode::kPrefill) == 4.0 * 6 * 64 * 4 * 4 * (3 * 32 + 14));
  CHECK(flops(Mode::kTrain) == 3 * 4.0 * 6 * 64 * 4 * 4 * (3 * 32 + 14));
  work.model->sliding_window = 40;
  CHECK(flops(Mode::kPrefill) == 4.0 * 6 * 64 * 4 * 4 * (3 * 32 + 27.5));
  work.model->sliding_window = 64;
  CHECK(flops(Mode::kPrefill) == 4.0 * 6 * 64 * 4 * 4 * (3 * 32 + 32));
  work.model->sliding_window = std::nullopt;
  work.model->attention_chunk = 16;
  CHECK(flops(Mode::kDecode) == 4.0 * 6 * 4 * 4 * (3 * 64 + 16));
  CHECK(flops(Mode::kPrefill) == 4.0 * 6 * 64 * 4 * 4 * (3 * 32 + 8));
  work.model->attention_chunk = std::nullopt;
  work.model->causal = false;
  CHECK(flops(Mode::kTrain) == 3 * 4.0 * 6 * 64 * 4 * 4 * (4 * 64));
  work.model->causal = true;
  CHECK(flops(Mode::kDecode) == 4.0 * 6 * 4 * 4 * (4 * 64));
  // Without a causal mask all keys are visible.
  work.causal = false;
  CHECK(flops(Mode::kPrefill) == 4.0 * 6 * 64 * 4 * 4 * (4 * 64));
  CHECK(flops(Mode::kTrain) == 3 * 4.0 * 6 * 64 * 4 * 4 * (4 * 64));
  work.causal = true;
  // If the cache is sharded over its length, a device attends to its own shard.
  work.key[1] = {"tp"};
  CHECK(flops(Mode::kDecode) == 4.0 * 6 * 4 * 4 * (4 * 64) / 2);
  work.key[1] = {};
  // In MiMo-V2 values are narrower than keys, and heads of layers with a window
  // may differ again: 2 operations for each element of both.
  work.model->sliding_window = 16;
  work.model->value_dim = 3;
  CHECK(flops(Mode::kDecode) == 2.0 * 6 * 4 * (3 * 64 + 16) * (4 + 3));
  work.model->windowed_head_dim = 6;
  work.model->windowed_value_dim = 5;
  CHECK(flops(Mode::kDecode) ==
        doctest::Approx(2.0 * 6 * 4 * (3 * 64 * (4 + 3) + 16 * (6 + 5))));
  // These layers may have more heads, too.
  work.model->windowed_heads = 2 * *work.model->heads;
  CHECK(flops(Mode::kDecode) ==
        doctest::Approx(2.0 * 6 * 4 * (3 * 64 * (4 + 3) + 2 * 16 * (6 + 5))));
  work.model->windowed_heads = std::nullopt;
  // Values are as wide as keys unless the configuration has a size for them.
  work.model->value_dim = work.model->windowed_value_dim = std::nullopt;
  CHECK(flops(Mode::kDecode) ==
        doctest::Approx(2.0 * 6 * 4 * (3 * 64 * (4 + 4) + 16 * (6 + 6))));
  work.model->sliding_window = std::nullopt;
  work.model->windowed_head_dim = work.model->windowed_value_dim = std::nullopt;
  work.key[1] = {"tp"};
  // Values of latent attention may be narrower than keys: 2 times 4 and 2 times
  // 3 operations instead of 4 times 4.
  work.model->latent_value_dim = 3;
  CHECK(flops(Mode::kPrefill) == 2.0 * 6 * 64 * 4 * (4 + 3) * (4 * 32));
}

}  // namespace
}  // namespace shardc::cost
