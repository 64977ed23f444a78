// Inputs that are right, or wrong in one place, and the codes they give.
#include <set>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

std::vector<Finding> Found(const LintExample& example) {
  std::string errors;
  auto found = LintExampleText(example, &errors).findings;
  CAPTURE(errors);
  REQUIRE(errors.empty());
  return found;
}

std::multiset<std::string> Codes(const LintExample& example) {
  std::multiset<std::string> out;
  for (const Finding& finding : Found(example)) {
    out.insert(finding.code->Id());
  }
  return out;
}

Level LevelOf(const LintExample& example, std::string_view code,
              std::string_view words) {
  for (const Finding& finding : Found(example)) {
    if (finding.code->Id() == code &&
        finding.message.find(words) != std::string::npos) {
      return finding.level;
    }
  }
  FAIL(words << " is not told");
  return Level::kError;
}

constexpr std::string_view kNorm =
    R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "norm/scale": {"shape": [4096], "dtype": "BF16"}}})";
constexpr std::string_view kGrouped =
    R"({"num_attention_heads": 32, "num_key_value_heads": 8,
        "hidden_size": 4096})";

// Rules that replicate norms, with `axes`.
std::string NormRules(const std::string& axes) {
  return "version: 1\n" + axes +
         "\nrules:\n  - {match: 'norm', spec: Replicated}\n";
}

TEST_CASE("a live path word in a pattern does not make its rule optional") {
  const LintExample example{.mesh = "tp:2",
                            .rules = R"(version: 1
separator: "/"
rules:
  - {match: 'norm/scale', spec: Replicated}
  - {match: 'unbiased/kernel', spec: [TP]}
  - {match: 'multi_head_attention/q/kernel', spec: [TP]}
  - {match: 'rescale/kernel', spec: [TP]}
  - {match: 'q_proj/bias', spec: [TP]}
  - {match: 'lm_head/kernel', spec: [TP]}
  - {match: '(ln_1|post_norm2)/(scale|bias)$', spec: [TP]}
  - {match: 'experts(/(weight|bias))?$', spec: [TP]}
)",
                            .manifest = kNorm};
  for (const char* live : {"unbiased", "multi_head", "rescale", "experts("}) {
    CAPTURE(live);
    CHECK(LevelOf(example, "SHD105", live) == Level::kWarning);
  }
  for (const char* optional : {"q_proj/bias", "lm_head", "ln_1"}) {
    CAPTURE(optional);
    CHECK(LevelOf(example, "SHD105", optional) == Level::kNote);
  }
}

TEST_CASE("an optional rule that a fallen parameter was meant for is told") {
  const LintExample example{
      .mesh = "fsdp:2,tp:2",
      .rules = R"(version: 1
separator: "/"
rules:
  - {match: 'up/kernel', spec: [FSDP, TP]}
  - {match: 'decoder/out/lm_head/kernel', spec: [FSDP, TP]}
  - {match: '.*', spec: [FSDP]}
)",
      .manifest =
          R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "layers/0/up/kernel": {"shape": [4096, 8192], "dtype": "BF16"},
  "decoder/out/output_head/kernel": {"shape": [4096, 512], "dtype": "BF16"}}})"};
  CHECK(LevelOf(example, "SHD105", "lm_head") == Level::kWarning);
}

TEST_CASE("a default axis rule is no use of an axis") {
  const LintExample example{.mesh = "dp:2,fsdp:4,sp:2,tp:8",
                            .rules = R"(version: 1
rules:
  - {match: 'up/kernel', spec: [FSDP, null]}
)",
                            .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "layers/0/up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}})"};
  // The batch is on dp and sequences are on sp, whatever the rules say.
  std::vector<std::string> unused;
  for (const Finding& finding : Found(example)) {
    if (finding.code->Id() == "SHD206") unused.push_back(finding.message);
  }
  REQUIRE(unused.size() == 1);
  CHECK(unused[0].starts_with("nothing uses mesh axis `tp` of size 8"));
  LintExample written = example;
  const std::string rules =
      "version: 1\naxes: {head: tp}\nrules:\n"
      "  - {match: 'up/kernel', spec: [FSDP, null]}\n";
  written.rules = rules;
  CHECK(Codes(written).count("SHD206") == 0);
}

TEST_CASE("heads are judged by rules that are written") {
  const std::string defaults = NormRules("");
  const std::string written = NormRules("axes: {head: tp, kv_head: tp}");
  const std::string named = NormRules("axes: {tensor_parallel: tp}");
  LintExample example{
      .mesh = "tp:12", .rules = defaults, .manifest = kNorm, .model = kGrouped};
  CHECK(Codes(example).count("SHD404") == 0);
  CHECK(Codes(example).count("SHD409") == 0);
  example.rules = named;
  CHECK(Codes(example).count("SHD404") == 0);
  CHECK(Codes(example).count("SHD409") == 0);
  example.rules = written;
  CHECK(Codes(example).count("SHD404") == 1);
  CHECK(Codes(example).count("SHD409") == 1);
  // As many KV heads as heads: one fact.
  example.model = R"({"num_attention_heads": 32, "hidden_size": 4096})";
  CHECK(Codes(example).count("SHD404") == 0);
  CHECK(Codes(example).count("SHD409") == 1);
}

TEST_CASE("heads that do not divide are one finding") {
  const LintExample example{.mesh = "tp:8",
                            .rules = R"(version: 1
axes: {head: tp, kv_head: tp}
rules:
  - {match: '(q|k|v)_proj/kernel', spec: [null, HEAD]}
  - {match: 'o_proj/kernel', spec: [HEAD, null]}
)",
                            .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "layers/0/attn/q_proj/kernel": {"shape": [768, 768], "dtype": "BF16"},
  "layers/0/attn/k_proj/kernel": {"shape": [768, 768], "dtype": "BF16"},
  "layers/0/attn/v_proj/kernel": {"shape": [768, 768], "dtype": "BF16"},
  "layers/0/attn/o_proj/kernel": {"shape": [768, 768], "dtype": "BF16"}}})",
                            .model = R"({"num_attention_heads": 12,
 "hidden_size": 768})"};
  const auto found = Found(example);
  REQUIRE(found.size() == 1);
  CHECK(found[0].code->Id() == "SHD220");
  CHECK(found[0].params.size() == 4);
  CHECK(found[0].labels.size() == 1);
}

TEST_CASE("KV heads over the first of the query's axes are where they belong") {
  LintExample example{
      .mesh = "dp:2,sp:2,tp:4", .manifest = kNorm, .model = kGrouped};
  const std::pair<const char*, size_t> cases[] = {
      {"axes: {head: [tp, dp], kv_head: tp, batch: []}", 0},
      {"axes: {head: [tp, dp], kv_head: [], batch: []}", 0},
      {"axes: {head: [tp, dp], kv_head: dp, batch: []}", 1},
      {"axes: {head: tp, kv_head: dp, batch: []}", 1},
  };
  for (const auto& each : cases) {
    const char* const axes = each.first;  // a binding could not be captured
    CAPTURE(axes);
    const std::string rules = NormRules(axes);
    example.rules = rules;
    CHECK(Codes(example).count("SHD405") == each.second);
  }
  // Whole KV heads are on every device, however the groups lie.
  const std::string whole = NormRules("axes: {head: tp, kv_head: []}");
  example.mesh = "tp:6";
  example.rules = whole;
  example.model = R"({"num_attention_heads": 12, "num_key_value_heads": 4,
 "hidden_size": 768})";
  CHECK(Codes(example).count("SHD405") == 0);
}

TEST_CASE("a default decode rule is not held against anyone") {
  const std::string nobody = NormRules("");
  const std::string null = NormRules("axes: {decode_query_sequence: null}");
  const std::string standard = NormRules("axes: {query_sequence: sp}");
  LintExample example{.mesh = "sp:2", .rules = nobody, .manifest = kNorm};
  CHECK(Codes(example).count("SHD402") == 0);
  example.rules = standard;
  CHECK(Codes(example).count("SHD402") == 1);
  example.rules = null;
  // And once, not by decode-null too.
  CHECK(Codes(example).count("SHD402") == 1);
  CHECK(Codes(example).count("SHD403") == 0);
}

TEST_CASE(
    "axes that are gathered before use do not part a bias from its weight") {
  LintExample example{.mesh = "fsdp:2,tp:4",
                      .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "a/up_proj/kernel": {"shape": [512, 1024], "dtype": "BF16"},
  "a/up_proj/bias": {"shape": [1024], "dtype": "BF16"},
  "b/w/kernel": {"shape": [512, 1024], "dtype": "BF16"},
  "b/w/scale": {"shape": [512, 8], "dtype": "F32"}}})"};
  const auto rules = [](const std::string& bias, const std::string& scale) {
    return "version: 1\nrules:\n"
           "  - {match: 'kernel', spec: [FSDP, TP]}\n  - {match: 'bias', "
           "spec: " +
           bias + "}\n  - {match: 'scale', spec: " + scale + "}\n";
  };
  const std::string fine = rules("[FSDP]", "[null, FSDP]");
  example.rules = fine;
  CHECK(Codes(example).count("SHD212") == 0);
  const std::string apart = rules("[TP]", "[TP, null]");
  example.rules = apart;
  CHECK(Codes(example).count("SHD212") == 1);
}

// A tree whose matrices are [out, in] though its leaves are called kernels.
constexpr std::string_view kTurned =
    R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "embed_tokens/embedding": {"shape": [1024, 32000], "dtype": "BF16"},
  "layers/0/attn/q_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"},
  "layers/0/attn/q_proj/bias": {"shape": [1024], "dtype": "BF16"},
  "layers/0/attn/k_proj/kernel": {"shape": [256, 1024], "dtype": "BF16"},
  "layers/0/attn/k_proj/bias": {"shape": [256], "dtype": "BF16"},
  "layers/0/attn/o_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"},
  "layers/0/mlp/up_proj/kernel": {"shape": [4096, 1024], "dtype": "BF16"},
  "layers/0/mlp/down_proj/kernel": {"shape": [1024, 4096], "dtype": "BF16"},
  "lm_head/kernel": {"shape": [32000, 1024], "dtype": "BF16"}}})";

TEST_CASE("a tree that is turned round is judged as it lies") {
  LintExample example{.mesh = "fsdp:2,tp:4",
                      .rules = R"(version: 1
rules:
  - {match: 'embedding', spec: [FSDP, VOCAB]}
  - {match: '(q|k|up)_proj/kernel', spec: [TP, FSDP]}
  - {match: 'bias', spec: [TP]}
  - {match: '(o|down)_proj/kernel', spec: [FSDP, TP]}
  - {match: 'lm_head/kernel', spec: [VOCAB, FSDP]}
)",
                      .manifest = kTurned,
                      .model = R"({"num_attention_heads": 16,
 "num_key_value_heads": 4, "hidden_size": 1024,
 "tie_word_embeddings": true})"};
  const auto right = Codes(example);
  for (const char* code :
       {"SHD211", "SHD212", "SHD214", "SHD215", "SHD217", "SHD220"}) {
    CAPTURE(code);
    CHECK(right.count(code) == 0);
  }
  // The rules of a tree that is not turned are wrong for it.
  example.rules = R"(version: 1
rules:
  - {match: 'embedding', spec: [VOCAB, FSDP]}
  - {match: '(q|k|up)_proj/kernel', spec: [FSDP, TP]}
  - {match: 'bias', spec: [TP]}
  - {match: '(o|down)_proj/kernel', spec: [TP, FSDP]}
  - {match: 'lm_head/kernel', spec: [VOCAB, FSDP]}
)";
  const auto wrong = Codes(example);
  for (const char* code : {"SHD211", "SHD212", "SHD214"}) {
    CAPTURE(code);
    CHECK(wrong.count(code) >= 1);
  }
}

TEST_CASE("layers of a stack may be split over a pipeline, and counted not") {
  const auto count = [](const char* mesh, const std::string& spec,
                        std::string_view manifest) {
    const std::string rules =
        "version: 1\nseparator: \"/\"\nrules:\n  - {match: 'kernel', spec: " +
        spec + "}\n  - {match: 'scale', spec: Replicated}\n";
    return Codes({.mesh = mesh, .rules = rules, .manifest = manifest})
        .count("SHD224");
  };
  constexpr std::string_view kStacked =
      R"({"schema": "shardc.manifest/v1", "params": {
  "layers/up/kernel": {"shape": [32, 64, 128], "dtype": "F32"},
  "layers/norm/scale": {"shape": [32, 64], "dtype": "F32"}}})";
  CHECK(count("fsdp:2,tp:2", "[FSDP, null, TP]", kStacked) == 1);
  CHECK(count("fsdp:2,tp:2", "[null, FSDP, TP]", kStacked) == 0);
  CHECK(count("pp:2,tp:2", "[pp, null, TP]", kStacked) == 0);
  CHECK(count("fsdp:2,pp:2", "[[pp, fsdp], null, null]", kStacked) == 1);
  // Experts that are stacked below a counted layer are none.
  CHECK(count("fsdp:2,tp:2", "[FSDP, null, TP]",
              R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/experts/kernel": {"shape": [32, 64, 128], "dtype": "F32"},
  "layers/0/norm/scale": {"shape": [32], "dtype": "F32"}}})") == 0);
  // Nor is what differs in its first dimension.
  CHECK(count("fsdp:2,tp:2", "[FSDP, null, TP]",
              R"({"schema": "shardc.manifest/v1", "params": {
  "layers/up/kernel": {"shape": [32, 64, 128], "dtype": "F32"},
  "layers/norm/scale": {"shape": [64], "dtype": "F32"}}})") == 0);
}

TEST_CASE("routers and norms may be split where that costs nothing") {
  const auto codes = [](const std::string& spec, const std::string& name,
                        const std::string& shape) {
    const std::string rules =
        "version: 1\nrules:\n  - {match: '.', spec: " + spec + "}\n";
    const std::string manifest =
        R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {")" +
        name + R"(": {"dtype": "F32", "shape": )" + shape + "}}}";
    return Codes(
        {.mesh = "fsdp:2,ep:2,tp:2", .rules = rules, .manifest = manifest});
  };
  const std::string gate = "layers/0/moe/gate/kernel";
  CHECK(codes("[null, EXPERT]", gate, "[1024, 8]").count("SHD226") == 1);
  CHECK(codes("[null, TP]", gate, "[1024, 8]").count("SHD226") == 1);
  CHECK(codes("[null, FSDP]", gate, "[1024, 8]").count("SHD226") == 0);
  CHECK(codes("[TP, null]", gate, "[1024, 8]").count("SHD226") == 0);
  // Turned round, the experts come first.
  CHECK(codes("[TP, null]", gate, "[8, 1024]").count("SHD226") == 1);

  CHECK(codes("[TP]", "a/input_norm/scale", "[1024]").count("SHD227") == 1);
  CHECK(codes("[FSDP]", "a/input_norm/scale", "[1024]").count("SHD227") == 0);
  CHECK(codes("[TP]", "a/attn/q_norm/scale", "[1024]").count("SHD227") == 0);
  CHECK(codes("[TP]", "a/mixer/norm/scale", "[1024]").count("SHD227") == 0);
}

TEST_CASE("an idle tensor axis is told once") {
  LintExample example{.mesh = "fsdp:2,tp:4",
                      .rules = R"(version: 1
rules:
  - {match: 'kernel', spec: [FSDP, null]}
)",
                      .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "layers/0/up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}})"};
  CHECK(Codes(example).count("SHD206") == 1);
  CHECK(Codes(example).count("SHD225") == 0);
  example.rules = R"(version: 1
axes: {head: tp}
rules:
  - {match: 'kernel', spec: [FSDP, null]}
)";
  CHECK(Codes(example).count("SHD206") == 0);
  CHECK(Codes(example).count("SHD225") == 1);
}

TEST_CASE("an axis that the mesh lacks is one finding, however many name it") {
  const auto found = Found({.mesh = "fsdp:2,tp:4",
                            .rules = R"(version: 1
axes: {mlp_intermediate: model, vocab: other}
rules:
  - {match: 'up/kernel', spec: [FSDP, MLP_INTERMEDIATE]}
  - {match: 'down/kernel', spec: [MLP_INTERMEDIATE, FSDP]}
  - {match: 'gate/kernel', spec: [FSDP, MLP_INTERMEDIATE]}
  - {match: 'embed/kernel', spec: [VOCAB, FSDP]}
)",
                            .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "l/0/up/kernel": {"shape": [64, 64], "dtype": "F32"},
  "l/0/down/kernel": {"shape": [64, 64], "dtype": "F32"},
  "l/0/gate/kernel": {"shape": [64, 64], "dtype": "F32"},
  "embed/kernel": {"shape": [64, 64], "dtype": "F32"}}})"});
  std::vector<Finding> missing;
  for (const Finding& finding : found) {
    if (finding.code->Id() == "SHD201") missing.push_back(finding);
  }
  REQUIRE(missing.size() == 2);
  CHECK(missing[0].params.size() == 3);
  CHECK(missing[0].labels.size() == 2);
  CHECK(missing[0].message ==
        "the specs of `l/0/up/kernel`, `l/0/down/kernel` and `l/0/gate/kernel`"
        " name axis `model`, which the mesh (fsdp=2 tp=4) lacks");
  CHECK(missing[1].params == std::vector<std::string>{"embed/kernel"});
}

TEST_CASE("heads inside a fused projection are counted") {
  const auto level = [](const char* mesh) -> std::string {
    const auto found = Found({.mesh = mesh,
                              .rules = R"(version: 1
rules:
  - {match: 'qkv', spec: [TP, null]}
)",
                              .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": ".", "params": {
  "h.0.attn.qkv.weight": {"shape": [1152, 768], "dtype": "BF16"}}})",
                              .model = R"({"num_attention_heads": 12,
 "num_key_value_heads": 3, "hidden_size": 768})"});
    std::string out;
    for (const Finding& finding : found) {
      if (finding.code->Id() == "SHD220") out += LevelName(finding.level);
    }
    return out;
  };
  CHECK(level("tp:8") == "error");    // 12 % 8
  CHECK(level("tp:6") == "warning");  // 3 % 6
  CHECK(level("tp:3").empty());
}

TEST_CASE("what a policy left whole is told once, with its reason") {
  const auto codes = Codes({.mesh = "tp:8",
                            .rules = R"(version: 1
rules:
  - {match: 'embedding', spec: [VOCAB, FSDP], illegal: shrink}
)",
                            .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "embed_tokens/embedding": {"shape": [50257, 768], "dtype": "BF16"}}})"});
  CHECK(codes.count("SHD202") == 1);
  CHECK(codes.count("SHD207") == 0);
}

TEST_CASE("projections that split what enters them are one finding") {
  const auto found = Found({.mesh = "fsdp:2,tp:4",
                            .rules = R"(version: 1
rules:
  - {match: 'q_proj', spec: [TP, FSDP]}
  - {match: 'k_proj', spec: [TP, FSDP]}
  - {match: 'v_proj', spec: [TP, FSDP]}
)",
                            .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "l/0/attn/q_proj/kernel": {"shape": [512, 1024], "dtype": "BF16"},
  "l/0/attn/k_proj/kernel": {"shape": [512, 256], "dtype": "BF16"},
  "l/0/attn/v_proj/kernel": {"shape": [512, 256], "dtype": "BF16"}}})"});
  REQUIRE(found.size() == 1);
  CHECK(found[0].code->Id() == "SHD214");
  CHECK(found[0].params.size() == 3);
  CHECK(found[0].labels.size() == 2);
  CHECK(found[0].message ==
        "`l/0/attn/q_proj/kernel`, `l/0/attn/k_proj/kernel` and "
        "`l/0/attn/v_proj/kernel` split what enters them over \"tp\" and "
        "leave the heads whole, so the result is summed over that axis before "
        "attention");
}

TEST_CASE("experts off their axis are one finding, and the axis no other") {
  const auto codes = Codes({.mesh = "fsdp:2,ep:4",
                            .rules = R"(version: 1
rules:
  - {match: 'up', spec: [null, FSDP]}
  - {match: 'down', spec: [null, null, FSDP]}
)",
                            .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "l/0/experts/up/kernel": {"shape": [8, 512, 128], "dtype": "F32"},
  "l/0/experts/down/kernel": {"shape": [8, 128, 512], "dtype": "F32"}}})"});
  CHECK(codes.count("SHD216") == 1);
  CHECK(codes.count("SHD206") == 0);
}

TEST_CASE("rules over axes that the mesh has not are one finding") {
  const LintExample example{.mesh = "tp:8",
                            .rules = R"(version: 1
rules:
  - {match: 'up', spec: [FSDP, null]}
  - {match: 'down', spec: [null, [FSDP, SP]]}
  - {match: 'embedding', spec: Replicated}
)",
                            .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "embed_tokens/embedding": {"shape": [512, 256], "dtype": "F32"},
  "l/0/up/kernel": {"shape": [256, 512], "dtype": "F32"},
  "l/0/down/kernel": {"shape": [512, 256], "dtype": "F32"}}})"};
  std::vector<std::string> whole;
  for (const Finding& finding : Found(example)) {
    if (finding.code->Id() == "SHD207") whole.push_back(finding.message);
  }
  REQUIRE(whole.size() == 2);
  CHECK(whole[0] ==
        "the rules split over `fsdp` and `sp` only, which the mesh (tp=8) "
        "lacks or has once: `l/0/up/kernel` and `l/0/down/kernel`, 1 MiB "
        "(66.7 % of the model), lie whole on every one of 8 devices");
  CHECK(whole[1].starts_with("`embed_tokens/embedding`, 512 KiB (33.3 %"));
}

TEST_CASE("adapters follow their base") {
  const auto count = [](const std::string& a, const std::string& b) {
    const std::string rules =
        "version: 1\nseparator: \".\"\nrules:\n"
        "  - {match: 'base_layer|down_proj.weight', spec: [FSDP, TP]}\n"
        "  - {match: 'lora_A', spec: " +
        a + "}\n  - {match: 'lora_B', spec: " + b + "}\n";
    return Codes({.mesh = "fsdp:2,tp:4",
                  .rules = rules,
                  .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": ".", "params": {
  "l.0.mlp.down_proj.base_layer.weight": {"shape": [512, 1024], "dtype": "F32"},
  "l.0.mlp.down_proj.lora_A.weight": {"shape": [16, 1024], "dtype": "F32"},
  "l.0.mlp.down_proj.lora_B.weight": {"shape": [512, 16], "dtype": "F32"}}})"})
        .count("SHD229");
  };
  // The base splits what enters it.
  CHECK(count("[null, TP]", "Replicated") == 0);
  CHECK(count("[null, TP]", "[FSDP, null]") == 0);
  CHECK(count("Replicated", "Replicated") == 0);
  CHECK(count("[null, TP]", "[TP, null]") == 1);
  CHECK(count("[null, TP]", "[null, TP]") == 1);
  CHECK(count("[TP, null]", "[null, TP]") == 2);
}

}  // namespace
}  // namespace shardc
