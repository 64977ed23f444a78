#include "cost/communication.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "cost/memory.h"
#include "cost/models.h"
#include "cost/rates.h"
#include "exec/operations/operation.h"

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

// GPT-3 175B on tp:8. It has 96 layers of width 12288 with 96 heads.
CostInputs Gpt3(int64_t stages) {
  CostInputs out = TrainingOn(MeshOf({{"pp", stages}, {"tp", 8}}), {});
  const int64_t h = 12288;
  const auto add = [&](const std::string& name, Shape shape, Spec spec) {
    out.params.push_back(
        ClassOf(name, std::move(shape), Dtype::kBF16, std::move(spec), 96));
  };
  add("h.*.ln_1.weight", {h}, {});
  add("h.*.attn.c_attn.weight", {h, 3 * h}, {{}, {"tp"}});
  add("h.*.attn.c_proj.weight", {h, h}, {{"tp"}, {}});
  add("h.*.ln_2.weight", {h}, {});
  add("h.*.mlp.c_fc.weight", {h, 4 * h}, {{}, {"tp"}});
  add("h.*.mlp.c_proj.weight", {4 * h, h}, {{"tp"}, {}});
  for (Spec* spec : {&out.query, &out.key, &out.value, &out.output}) {
    (*spec)[2] = {"tp"};
  }
  ModelConfig model;
  model.hidden = h;
  model.heads = model.kv_heads = 96;
  model.head_dim = 128;
  model.layers = 96;
  model.attention_dropout = model.hidden_dropout = 0.1;
  out.model = model;
  return out;
}

Settings OneRow() {
  Settings out;
  out.batch = 1;
  out.length = 2048;
  out.operation = &exec::kVanilla;
  return out;
}

// Megatron-LM has two all_reduces of 2sbh bytes forward and two backward in
// each layer. Each sends 88,080,384 B.
TEST_CASE("tensor parallelism reduces twice forward and twice backward") {
  const Communication said = CommunicationOf(Gpt3(1), OneRow());
  for (const bool backward : {false, true}) {
    for (const std::string_view part : {"attention", "mlp"}) {
      CAPTURE(part);
      CHECK(SentBy(said, part, Collective::kAllReduce, backward) ==
            96LL * 88080384);
    }
  }
  CHECK(said.Sent() == 96LL * 352321536);
}

TEST_CASE("sequence parallelism sends the same in halves") {
  CostInputs work = Gpt3(1);
  work.hidden = {"tp"};
  const Communication said = CommunicationOf(work, OneRow());
  CHECK(said.Sent() == 96LL * 352321536);
  CHECK(SentBy(said, "mlp", Collective::kAllGather, false) ==
        96LL * 88080384 / 2);
  CHECK(SentBy(said, "mlp", Collective::kReduceScatter, true) ==
        96LL * 88080384 / 2);
}

// An all-reduce over 8 devices sends 7/4 of its bytes.
TEST_CASE("matrices of unknown names are reduced over the axes of both sides") {
  CostInputs work = TrainingOn(MeshOf({{"tp", 8}}), {});
  const auto named = [](const char* name, Shape shape, Spec spec) {
    ParamClass out = ClassOf(name, std::move(shape), Dtype::kBF16, spec, 3);
    out.out_dim = 0;
    out.in_dim = 1;
    return out;
  };
  work.params = {named("layers.*.gathering.weight", {512, 64}, {{"tp"}, {}}),
                 named("layers.*.mixing.weight", {64, 512}, {{}, {"tp"}})};
  ModelConfig model;
  model.hidden = 64;
  work.model = model;
  Settings settings = OneRow();
  const int64_t each = 3 * 2048LL * 64 * 2 * 7 / 4;
  const Communication train = CommunicationOf(work, settings);
  for (const bool backward : {false, true}) {
    CHECK(SentBy(train, "projections", Collective::kAllReduce, backward) ==
          each);
  }
  work.mode = Mode::kPrefill;
  CHECK(CommunicationOf(work, settings).Sent() == each);
}

// The activation bytes of a layer by Korthikanti et al. (arXiv 2205.05198) are
//
//   sbh(10 + 24/t + 5as/ht)
//
// Sequence parallelism divides all of them by t. A fused attention kernel does
// not keep 5as/ht, and full recomputation keeps only 2sbh.
TEST_CASE("a layer's activations under Megatron") {
  const auto kept = [](const CostInputs& work, const Settings& settings) {
    return MemoryOf(work, settings).activations->kept / 96;
  };
  CostInputs work = Gpt3(1);
  Settings settings = OneRow();
  CHECK(kept(work, settings) == 578813952);
  std::string why;
  Settings full = settings;
  full.remat = *step::ParseRemat("nothing_saveable", why);
  CHECK(kept(work, full) == 50331648);
  work.hidden = {"tp"};
  CHECK(kept(work, settings) == 358612992);
  // Instead of 5as/ht a fused kernel keeps the logarithm of each row's sum, 4
  // bytes for each head.
  settings.operation = &exec::kFlashAttention;
  CHECK(kept(work, settings) == 106954752 + 2048 * 96 / 8 * 4);
}

// In ZeRO, all_gather forward, all_gather backward and reduce_scatter together
// send 1.5 times the bytes of an all_reduce: 3S 63/64 for Llama-3-70B over 64.
TEST_CASE("fully sharded is 1.5 times data parallel") {
  const auto sent = [](Spec spec, int zero) {
    CostInputs work = TrainingOn(MeshOf({{"fsdp", 64}}), {"fsdp"});
    work.params = {
        ClassOf("w.weight", {70553706496 / 64, 64}, Dtype::kBF16, spec)};
    Settings settings;
    settings.zero = zero;
    return CommunicationOf(work, settings).Sent();
  };
  const int64_t replicated = sent({}, 0);
  CHECK(sent({{"fsdp"}}, 0) == 416707828992);
  CHECK(sent({{"fsdp"}}, 0) * 2 == replicated * 3);
  CHECK(sent({}, 1) == replicated);
  CHECK(sent({}, 2) == replicated);
  CHECK(sent({}, 3) * 2 == replicated * 3);
}

TEST_CASE("states of a device where 70B parameters are split over 64") {
  CostInputs work = TrainingOn(MeshOf({{"fsdp", 64}}), {"fsdp"});
  work.params = {
      ClassOf("w.weight", {70553706496 / 64, 64}, Dtype::kBF16, {{"fsdp"}})};
  const Memory memory = MemoryOf(work, {});
  CHECK(*memory.most.Of(Component::kParameters) +
            *memory.most.Of(Component::kGradients) +
            *memory.most.Of(Component::kOptimizer) ==
        17638426624);
}

// Ring attention (arXiv 2310.01889) passes K and V around the ring, a block of
// 64 MiB in each of seven steps. DeepSpeed-Ulysses exchanges Q, K, V and O.
TEST_CASE("a layer of Llama-3-8B over a context of 131072 on eight") {
  const Mesh mesh = MeshOf({{"sp", 8}});
  exec::AttentionSpecs specs;
  specs.query = specs.key = specs.value = specs.output = {{}, {"sp"}, {}, {}};
  const AttentionSizes sizes{.query_length = 131072,
                             .key_length = 131072,
                             .heads = 32,
                             .key_heads = 8,
                             .head_dim = 128};
  const auto ring = BytesOfAttention(exec::kRing, mesh, specs, sizes, {});
  REQUIRE(ring.transfers.size() == 1);
  CHECK(ring.transfers[0].sent == 469762048);
  CHECK(ring.transfers[0].sent / 7 == 67108864);
  CHECK(ring.transfers[0].axes == AxisGroup{"sp"});
  const auto ulysses = BytesOfAttention(exec::kUlysses, mesh, specs, sizes, {});
  int64_t sent = 0;
  for (const Transfer& one : ulysses.transfers) sent += one.sent;
  CHECK(sent == 293601280);
}

// In DeepEP, 128 tokens of 7168 are sent to 8 experts each. Combined in
// bfloat16 they are 14,680,064 B, of which one part in 64 stays on its device.
TEST_CASE("tokens go to their experts and back") {
  CostInputs work = TrainingOn(MeshOf({{"ep", 64}}), {"ep"});
  work.params = {ClassOf("layers.*.mlp.experts.down_proj.kernel",
                         {256, 2048, 7168}, Dtype::kBF16, {{"ep"}, {}, {}})};
  ModelConfig model;
  model.hidden = 7168;
  model.experts_per_token = 8;
  work.model = model;
  Settings settings;
  settings.batch = 64;
  settings.length = 128;
  const Communication said = CommunicationOf(work, settings);
  CHECK(SentBy(said, "experts", Collective::kAllToAll, false) ==
        2LL * 14680064 / 64 * 63);
  CHECK(SentBy(said, "experts", Collective::kAllToAll, true) ==
        2LL * 14680064 / 64 * 63);
}

TEST_CASE(
    "experts are not gathered over their axis, also if it shards tokens") {
  struct Case {
    const char* title;
    AxisGroup experts;  // the axis rule
    AxisGroup axes;     // of the dimension that counts the experts
    AxisGroup gathered, exchanged;
  };
  const Case cases[] = {
      {"the experts' axis", {"ep"}, {"ep"}, {}, {"ep"}},
      {"another axis inside it", {"ep"}, {"ep", "fsdp"}, {"fsdp"}, {"ep"}},
      {"another axis around it",
       {"ep"},
       {"fsdp", "ep"},
       {"fsdp", "ep"},
       {"ep"}},
      {"both are the experts'",
       {"fsdp", "ep"},
       {"fsdp", "ep"},
       {},
       {"fsdp", "ep"}},
      {"another axis only", {"ep"}, {"fsdp"}, {"fsdp"}, {}}};
  for (const Case& one : cases) {
    CAPTURE(one.title);
    CostInputs work =
        TrainingOn(MeshOf({{"fsdp", 2}, {"ep", 4}}), {"fsdp", "ep"});
    work.expert_axes = one.experts;
    work.params = {ClassOf("layers.*.mlp.experts.down_proj.kernel", {8, 64, 32},
                           Dtype::kBF16, {one.axes, {}, {}})};
    ModelConfig model;
    model.hidden = 32;
    model.experts_per_token = 2;
    work.model = model;
    Settings settings;
    settings.batch = 8;
    settings.length = 16;
    const Communication said = CommunicationOf(work, settings);
    const auto over = [&](std::string_view part, Collective kind) {
      for (const Transfer& sent : said.transfers) {
        if (sent.part == part && sent.kind == kind) return sent.axes;
      }
      return AxisGroup();
    };
    CHECK(over("parameters", Collective::kAllGather) == one.gathered);
    CHECK(over("gradients", Collective::kReduceScatter) == one.gathered);
    CHECK(over("experts", Collective::kAllToAll) == one.exchanged);
    work.mode = Mode::kPrefill;
    const auto held = MemoryOf(work, settings).most.Of(Component::kGathered);
    // Eight matrices of 64 x 32 in bfloat16, on a device without the axes over
    // which they are gathered.
    const int64_t kept = work.Parts(one.axes) / work.Parts(one.gathered);
    CHECK(held == (one.gathered.empty() ? 0 : 8 * 64 * 32 * 2 / kept));
  }
}

// If the experts' axis does not shard tokens, outputs are summed over it.
TEST_CASE("experts that see the same tokens add their outputs") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 2}, {"ep", 4}}), {"dp"});
  work.params = {ClassOf("layers.*.mlp.experts.down_proj.kernel", {8, 64, 32},
                         Dtype::kBF16, {{"ep"}, {}, {}})};
  ModelConfig model;
  model.hidden = 32;
  model.experts_per_token = 2;
  work.model = model;
  Settings settings;
  settings.batch = 2;
  settings.length = 16;
  const Communication said = CommunicationOf(work, settings);
  CHECK(SentBy(said, "experts", Collective::kAllReduce, false) ==
        2 * 16 * 32 * 2 * 3 / 4);
}

// Bytes per token and layer that MaxText's policies keep for Llama-3-8B.
// MaxText's own sums include mlpwo, which the backward pass does not read. JAX
// does not keep it, which saves 8192 bytes.
TEST_CASE("policies of names keep what MaxText's keep") {
  const CostInputs work =
      BundledWork("llama-3-8b.hf.manifest.json", "llama-3-8b", "dp:1",
                  Mode::kTrain, "whole hidden");
  const auto kept = [&](const std::string& policy) {
    Settings settings;
    settings.batch = 1;
    settings.length = 1024;
    settings.stack = FindStack("xla");
    std::string why;
    settings.remat = *step::ParseRemat(policy, why);
    return MemoryOf(work, settings).activations->kept / 32 / 1024;
  };
  const auto names = [&](const std::string& list) {
    return kept("save_only_these_names(" + list + ")");
  };
  const std::string qkv = "query_proj,key_proj,value_proj";
  CHECK(kept("nothing_saveable") == 8192);
  CHECK(names("out_proj") == 16384);
  CHECK(names(qkv) == 20480);
  CHECK(names(qkv + ",out_proj") == 28672);
  CHECK(names(qkv + ",out_proj,mlpwo") == 36864 - 8192);
  CHECK(names(qkv + ",out_proj,mlpwo,mlpwi") == 94208 - 8192);
  CHECK(names(qkv + ",out_proj,mlpwo,mlpwi,context") == 102400 - 8192);
  CHECK(kept("dots_with_no_batch_dims_saveable") == 94208 - 8192);
}

// torchtitan's selective checkpointing keeps every matmul that it saves,
// whether or not the backward pass reads it: 15.5 GiB in 32 layers of 8192
// tokens.
TEST_CASE("PyTorch keeps what a policy saves") {
  const CostInputs work =
      BundledWork("llama-3-8b.hf.manifest.json", "llama-3-8b", "dp:1",
                  Mode::kTrain, "whole hidden");
  Settings settings;
  settings.batch = 1;
  settings.length = 8192;
  settings.stack = FindStack("compiled");
  std::string why;
  settings.remat = *step::ParseRemat(
      "save_only_these_names(q_proj,v_proj,context,gate_proj,down_proj)", why);
  CHECK(MemoryOf(work, settings).activations->kept ==
        32LL * 8192 * 2 * (4096 + 4096 + 1024 + 4096 + 14336 + 4096));
}

TEST_CASE("microbatches repeat gathers and not the reduction of gradients") {
  CostInputs work =
      TrainingOn(MeshOf({{"dp", 4}, {"fsdp", 2}}), {"dp", "fsdp"});
  work.params = {ClassOf("w.weight", {64, 64}, Dtype::kBF16, {{"fsdp"}})};
  Settings settings;
  const Communication one = CommunicationOf(work, settings);
  settings.microbatches = 3;
  const Communication three = CommunicationOf(work, settings);
  CHECK(SentBy(three, "parameters", Collective::kAllGather, false) ==
        3 * SentBy(one, "parameters", Collective::kAllGather, false));
  CHECK(SentBy(three, "gradients", Collective::kAllReduce, true) ==
        SentBy(one, "gradients", Collective::kAllReduce, true));
}

// Block scales of DeepSeek-V3 have two dimensions, neither of which counts
// experts if each expert has a tensor of its own.
TEST_CASE("scales of one expert are gathered over the axes of tokens") {
  CostInputs work = TrainingOn(MeshOf({{"fsdp", 4}}), {"fsdp"});
  const auto gathered = [&](const std::string& name, Shape shape) {
    ParamClass param = ClassOf(name, std::move(shape), Dtype::kF32, {{"fsdp"}});
    param.out_dim = param.in_dim = -1;
    return work.IsGathered(param);
  };
  CHECK(gathered("layers.*.mlp.experts.*.up_proj.weight_scale_inv", {16, 56}));
  CHECK(!gathered("layers.*.mlp.experts.up_proj_scales", {16, 56}));
}

}  // namespace
}  // namespace shardc::cost
