// Inputs that are correct, or wrong in one place, and the codes that they give.
#include <set>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

Level LevelOf(const LintExample& example, std::string_view code,
              std::string_view words) {
  for (const Finding& finding : FindingsOf(example)) {
    if (finding.code->Id() == code &&
        finding.message.find(words) != std::string::npos) {
      return finding.level;
    }
  }
  FAIL(words << " is not reported");
  return Level::kError;
}

constexpr std::string_view kNorm =
    R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "norm/scale": {"shape": [4096], "dtype": "BF16"}}})";
constexpr std::string_view kGrouped =
    R"({"num_attention_heads": 32, "num_key_value_heads": 8,
        "hidden_size": 4096})";

// Returns the messages and helps of the findings with this code.
std::string TextsOf(const LintExample& example, std::string_view code) {
  std::string out;
  for (const Finding& finding : FindingsOf(example)) {
    if (finding.code->Id() != code) continue;
    out += finding.message + "; help: " + finding.help + "\n";
  }
  return out;
}

bool Has(const std::string& text, std::string_view words) {
  return text.find(words) != std::string::npos;
}

// Returns rules that replicate norms, with the given `axes` section.
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

TEST_CASE(
    "an optional rule that was intended for a large parameter is reported") {
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

TEST_CASE("a default axis rule does not count as a use of an axis") {
  const LintExample example{.mesh = "dp:2,fsdp:4,sp:2,tp:8",
                            .rules = R"(version: 1
rules:
  - {match: 'up/kernel', spec: [FSDP, null]}
)",
                            .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "layers/0/up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}})"};
  // dp is in use for the batch and sp for sequences, even if no rule names
  // them.
  std::vector<std::string> unused;
  for (const Finding& finding : FindingsOf(example)) {
    if (finding.code->Id() == "SHD206") unused.push_back(finding.message);
  }
  REQUIRE(unused.size() == 1);
  CHECK(unused[0].starts_with("nothing uses mesh axis `tp` of size 8"));
  LintExample written = example;
  const std::string rules =
      "version: 1\naxes: {head: tp}\nrules:\n"
      "  - {match: 'up/kernel', spec: [FSDP, null]}\n";
  written.rules = rules;
  CHECK(CodesOf(written).count("SHD206") == 0);
}

TEST_CASE("heads are judged by rules that are written") {
  const std::string defaults = NormRules("");
  const std::string written = NormRules("axes: {head: tp, kv_head: tp}");
  const std::string named = NormRules("axes: {tensor_parallel: tp}");
  LintExample example{
      .mesh = "tp:12", .rules = defaults, .manifest = kNorm, .model = kGrouped};
  CHECK(CodesOf(example).count("SHD404") == 0);
  CHECK(CodesOf(example).count("SHD409") == 0);
  example.rules = named;
  CHECK(CodesOf(example).count("SHD404") == 0);
  CHECK(CodesOf(example).count("SHD409") == 0);
  example.rules = written;
  CHECK(CodesOf(example).count("SHD404") == 1);
  CHECK(CodesOf(example).count("SHD409") == 1);
  // With as many KV heads as heads, only one of the two findings is reported.
  example.model = R"({"num_attention_heads": 32, "hidden_size": 4096})";
  CHECK(CodesOf(example).count("SHD404") == 0);
  CHECK(CodesOf(example).count("SHD409") == 1);
}

TEST_CASE("KV heads over the first of the query's axes are not reported") {
  LintExample example{
      .mesh = "dp:2,sp:2,tp:4", .manifest = kNorm, .model = kGrouped};
  const std::pair<const char*, size_t> cases[] = {
      {"axes: {head: [tp, dp], kv_head: tp, batch: []}", 0},
      {"axes: {head: [tp, dp], kv_head: [], batch: []}", 0},
      {"axes: {head: [tp, dp], kv_head: dp, batch: []}", 1},
      {"axes: {head: tp, kv_head: dp, batch: []}", 1},
      {"axes: {head: [], kv_head: tp}", 1},
      {"axes: {head: []}", 1},
      {"axes: {head: null, kv_head: []}", 0},
      {"axes: {head: [], kv_head: []}", 0},
  };
  for (const auto& each : cases) {
    const char* const axes = each.first;  // a binding could not be captured
    CAPTURE(axes);
    const std::string rules = NormRules(axes);
    example.rules = rules;
    CHECK(CodesOf(example).count("SHD405") == each.second);
  }
  // Replicated KV heads are on every device, and so with every group.
  const std::string whole = NormRules("axes: {head: tp, kv_head: []}");
  example.mesh = "tp:6";
  example.rules = whole;
  example.model = R"({"num_attention_heads": 12, "num_key_value_heads": 4,
 "hidden_size": 768})";
  CHECK(CodesOf(example).count("SHD405") == 0);
}

TEST_CASE("a default decode rule is not reported") {
  const std::string nobody = NormRules("");
  const std::string null = NormRules("axes: {decode_query_sequence: null}");
  const std::string standard = NormRules("axes: {query_sequence: sp}");
  LintExample example{.mesh = "sp:2", .rules = nobody, .manifest = kNorm};
  CHECK(CodesOf(example).count("SHD402") == 0);
  example.rules = standard;
  CHECK(CodesOf(example).count("SHD402") == 1);
  example.rules = null;
  // The null rule is reported once: not by decode-null as well.
  CHECK(CodesOf(example).count("SHD402") == 1);
  CHECK(CodesOf(example).count("SHD403") == 0);
}

TEST_CASE(
    "axes that are gathered before use are not compared between a bias and its "
    "weight") {
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
  CHECK(CodesOf(example).count("SHD212") == 0);
  const std::string apart = rules("[TP]", "[TP, null]");
  example.rules = apart;
  CHECK(CodesOf(example).count("SHD212") == 1);
}

// A tree whose matrices are [out, in], although its leaves are called kernels.
constexpr std::string_view kTransposed =
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

TEST_CASE("a transposed tree is judged by its sizes") {
  LintExample example{.mesh = "fsdp:2,tp:4",
                      .rules = R"(version: 1
rules:
  - {match: 'embedding', spec: [FSDP, VOCAB]}
  - {match: '(q|k|up)_proj/kernel', spec: [TP, FSDP]}
  - {match: 'bias', spec: [TP]}
  - {match: '(o|down)_proj/kernel', spec: [FSDP, TP]}
  - {match: 'lm_head/kernel', spec: [VOCAB, FSDP]}
)",
                      .manifest = kTransposed,
                      .model = R"({"num_attention_heads": 16,
 "num_key_value_heads": 4, "hidden_size": 1024,
 "tie_word_embeddings": true})"};
  const auto right = CodesOf(example);
  for (const char* code :
       {"SHD211", "SHD212", "SHD214", "SHD215", "SHD217", "SHD220"}) {
    CAPTURE(code);
    CHECK(right.count(code) == 0);
  }
  // These rules are for a tree that is not transposed, and are wrong here.
  example.rules = R"(version: 1
rules:
  - {match: 'embedding', spec: [VOCAB, FSDP]}
  - {match: '(q|k|up)_proj/kernel', spec: [FSDP, TP]}
  - {match: 'bias', spec: [TP]}
  - {match: '(o|down)_proj/kernel', spec: [TP, FSDP]}
  - {match: 'lm_head/kernel', spec: [VOCAB, FSDP]}
)";
  const auto wrong = CodesOf(example);
  for (const char* code : {"SHD211", "SHD212", "SHD214"}) {
    CAPTURE(code);
    CHECK(wrong.count(code) >= 1);
  }
}

TEST_CASE("a pattern that also matches all of a longer name needs no `$`") {
  LintExample example{.mesh = "tp:2",
                      .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": ".", "params": {
  "q.kernel": {"shape": [8], "dtype": "BF16"},
  "q.kernel_scale": {"shape": [8], "dtype": "BF16"}}})"};
  const auto reported = [&](const std::string& pattern) {
    const std::string rules =
        "version: 1\nrules:\n  - {match: '" + pattern + "', spec: [TP]}\n";
    example.rules = rules;
    return CodesOf(example).count("SHD110") == 1;
  };
  for (const char* pattern : {"(kernel|kernel_scale)", "kernel(_scale)??",
                              "q/kernel|q/kernel_scale"}) {
    CAPTURE(pattern);
    CHECK_FALSE(reported(pattern));
  }
  for (const char* pattern : {"kernel", "q/(kernel|kernel_zero)"}) {
    CAPTURE(pattern);
    CHECK(reported(pattern));
  }
}

TEST_CASE(
    "a leading wildcard that decides what a group matches has an effect") {
  LintExample example{.mesh = "tp:2,fsdp:2",
                      .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": ".", "params": {
  "w.1": {"shape": [8], "dtype": "BF16"},
  "w.2": {"shape": [8], "dtype": "BF16"},
  "a.1.scale.a.2.scale": {"shape": [8], "dtype": "BF16"}}})"};
  const std::string others =
      "  - {match: 'w\\.1$', spec: [tp]}\n"
      "  - {match: 'w\\.2$', spec: [fsdp]}\n";
  const auto reported = [&](const std::string& spec) {
    const std::string rules =
        "version: 1\nrules:\n  - {match: '.*a\\.(\\d)\\.scale', spec: " + spec +
        "}\n" + others;
    example.rules = rules;
    return CodesOf(example).count("SHD117") == 1;
  };
  CHECK(reported("[tp]"));
  CHECK_FALSE(reported("{like: 'w.\\1'}"));
}

TEST_CASE("a registration that another one or attention uses is used") {
  LintExample example{.mesh = "fsdp:2,tp:2", .manifest = kNorm};
  const auto unused = [&](const std::string& registered) {
    const std::string rules = "version: 1\nregister:\n" + registered +
                              "rules:\n  - {match: norm, spec: [B]}\n";
    example.rules = rules;
    return CodesOf(example).count("SHD116");
  };
  const std::string used = "  B: {rule: tp}\n";
  CHECK(unused("  A: {rule: tp}\n  B: {rule: [A]}\n") == 0);
  CHECK(unused("  A: {rule: tp}\n  B: {rule: tp, generation: [A]}\n") == 0);
  CHECK(unused(used + "  HEAD: {rule: tp, override: true}\n") == 0);
  CHECK(unused(used + "  A: {rule: tp}\n") == 1);
  CHECK(unused(used + "  VOCAB: {rule: tp, override: true}\n") == 1);
}

TEST_CASE("overrides of logical axes decide what lints expect") {
  LintExample example{.mesh = "fsdp:4,ep:2,sp:2,tp:2",
                      .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "layers/0/experts/up_proj/kernel":
      {"shape": [8, 1024, 1024], "dtype": "BF16"}}})"};
  const auto helps = [&](const std::string& more, std::string_view code) {
    const std::string rules = "version: 1\n" + more +
                              "\nrules:\n  - {match: experts, spec: [EXPERT, "
                              "null, TP]}\n";
    example.rules = rules;
    std::string out;
    for (const Finding& finding : FindingsOf(example)) {
      if (finding.code->Id() == code) out += finding.help;
    }
    return out;
  };
  CHECK(helps("register: {EXPERT: {rule: fsdp, override: true}}", "SHD216")
            .empty());
  const std::string batch = "register: {BATCH: {rule: [fsdp";
  CHECK(helps(batch + ", ep], override: true}}", "SHD410").empty());
  CHECK(helps(batch + "], override: true}}", "SHD410")
            .starts_with("add \"ep\" to the rule of this registration"));
  CHECK(helps("", "SHD410").starts_with("write `axes: {batch: [fsdp, "));
  const std::string query =
      "register: {QUERY_LENGTH: {rule: sp, override: true";
  CHECK(helps(query + "}}\naxes: {decode_query_sequence: []}", "SHD402") ==
        "write `generation: null` in this registration to unshard it in "
        "decode");
  CHECK(helps(query + ", generation: null}}", "SHD402").empty());
}

TEST_CASE("an illegal spec of one mode is quoted as that mode has it") {
  const LintExample example{.mesh = "fsdp:2,tp:4",
                            .rules = R"(version: 1
rules:
  - match: 'up/kernel$'
    spec: [FSDP, TP]
    modes: {decode: [HEAD, MLP_INTERMEDIATE]}
  - match: 'up/bias$'
    spec: [TP]
    modes: {decode: [TP, null]}
)",
                            .manifest =
                                R"({"schema": "shardc.manifest/v1", "params": {
  "up/kernel": {"shape": [1024, 4096], "dtype": "BF16"},
  "up/bias": {"shape": [4096], "dtype": "BF16"}}})"};
  CHECK(Has(TextsOf(example, "SHD203"),
            R"(the spec of `up/kernel`, ["tp", "tp"] (in decode))"));
  CHECK(Has(TextsOf(example, "SHD204"),
            "`up/bias` has 2 entries, the parameter 1 dimension (in decode)"));
}

TEST_CASE("a policy that corrects a spec is not advised again") {
  const auto texts = [](const char* policy) {
    const std::string rules =
        "version: 1\npolicy: {illegal: " + std::string(policy) +
        "}\nrules:\n  - {match: 'up', spec: [null, TP]}\n";
    const LintExample example{
        .mesh = "tp:4",
        .rules = rules,
        .manifest =
            R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "up": {"shape": [1024, 4098], "dtype": "BF16"}}})"};
    return TextsOf(example, "SHD202");
  };
  CHECK(Has(texts("error"), "`illegal: pad` holds shards of different sizes"));
  for (const char* policy : {"drop", "shrink"}) {
    CAPTURE(policy);
    CHECK(Has(texts(policy), "or leave the dimension unsharded in the spec"));
  }
}

TEST_CASE("the ignore comments that helps name remove their findings") {
  constexpr std::string_view kTree =
      R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "layers/0/up": {"shape": [1024, 4096], "dtype": "BF16"},
  "layers/1/up": {"shape": [1024, 4096], "dtype": "BF16"},
  "layers/2/up": {"shape": [1024, 4096], "dtype": "BF16"}}})";
  const auto texts = [&](std::string_view rules, std::string_view code) {
    const LintExample example{
        .mesh = "fsdp:2,tp:4", .rules = rules, .manifest = kTree};
    return TextsOf(example, code);
  };
  CHECK(
      Has(texts("version: 1\nrules:\n  - {match: 'up', spec: [_]}\n", "SHD207"),
          "write `# shardc: ignore[SHD207]` and the reason above the rule"));
  CHECK(texts("version: 1\nrules:\n  # shardc: ignore[SHD207] small\n"
              "  - {match: 'up', spec: [_]}\n",
              "SHD207")
            .empty());
  CHECK(Has(texts("version: 1\nrules:\n  - {match: '2/up', spec: [TP]}\n"
                  "policy: {unmatched: replicate}\n",
                  "SHD207"),
            "help: write a rule that splits a dimension\n"));
  CHECK(Has(texts("version: 1\nrules: []\npolicy: {unmatched: replicate}\n",
                  "SHD207"),
            "help: shard the largest parameters over an axis of the mesh; "
            "`shardc suggest` writes such rules\n"));
  const std::string siblings =
      "  - {match: '2/up', spec: [TP]}\n  - {match: 'up', spec: [FSDP]}\n";
  CHECK(Has(texts("version: 1\nrules:\n" + siblings, "SHD115"),
            "or `# shardc: ignore[SHD115]` and the reason above this rule"));
  CHECK(
      texts("version: 1\nrules:\n  # shardc: ignore[SHD115] last\n" + siblings,
            "SHD115")
          .empty());
}

TEST_CASE("help names the dimension that counts experts, not that of layers") {
  const auto texts = [](const std::string& shape, const std::string& spec) {
    const std::string rules =
        "version: 1\nrules:\n  - {match: 'experts/up', spec: " + spec +
        "}\n  - {match: 'norm', spec: [_]}\n";
    const std::string manifest =
        R"({"schema": "shardc.manifest/v1", "params": {
  "layers/mlp/experts/up_proj/kernel": {"shape": )" +
        shape + R"(, "dtype": "BF16"},
  "layers/norm/scale": {"shape": [24, 1024], "dtype": "BF16"}}})";
    const LintExample example{.mesh = "fsdp:2,ep:2,tp:4",
                              .rules = rules,
                              .manifest = manifest,
                              .model = R"({"num_hidden_layers": 24,
                                           "hidden_size": 1024})"};
    return TextsOf(example, "SHD216") + TextsOf(example, "SHD224");
  };
  CHECK(Has(texts("[24, 8, 1024, 4096]", "[null, null, FSDP, TP]"),
            "help: split dimension 1 over EXPERT\n"));
  CHECK(texts("[24, 8, 1024, 4096]", "[null, EXPERT, FSDP, TP]").empty());
  CHECK(Has(texts("[8, 24, 1024, 4096]", "[null, null, FSDP, TP]"),
            "help: split the first dimension over EXPERT\n"));
}

TEST_CASE("the end that help names keeps the names that end with a word") {
  const auto help = [](const std::string& pattern) {
    const std::string rules = "version: 1\nrules:\n  - {match: '" + pattern +
                              "', spec: [TP]}\n  - {match: '.', spec: [_]}\n";
    const LintExample example{.mesh = "tp:2",
                              .rules = rules,
                              .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "attn/q/kernel": {"shape": [8], "dtype": "BF16"},
  "attn/q_norm/scale": {"shape": [8], "dtype": "BF16"},
  "up/kernel": {"shape": [8], "dtype": "BF16"},
  "up/kernel_scale": {"shape": [8], "dtype": "BF16"}}})"};
    return TextsOf(example, "SHD110");
  };
  CHECK(Has(help("up/kernel"), "help: end it with `$`: `up/kernel$`\n"));
  CHECK(Has(help("attn/q"), R"(help: end it with `\b`: `attn/q\b`)"));
  CHECK(Has(help("attn/q|up/kernel"),
            R"(help: end it with `\b`: `(?:attn/q|up/kernel)\b`)"));
  CHECK(help(R"(attn/q\b)").empty());
}

TEST_CASE(
    "a norm that is split as the written hidden dimension is no finding") {
  const auto norms = [](const char* axes) {
    const std::string rules =
        "version: 1\naxes: {hidden_state: " + std::string(axes) +
        "}\nrules:\n  - {match: 'norm', spec: [TP]}\n";
    const LintExample example{
        .mesh = "fsdp:2,tp:4", .rules = rules, .manifest = kNorm};
    return TextsOf(example, "SHD227");
  };
  CHECK(norms("tp").empty());
  CHECK_FALSE(norms("[]").empty());
  CHECK_FALSE(norms("fsdp").empty());
}

TEST_CASE("a vector of heads is not called replicated if fsdp splits it") {
  const auto texts = [](const char* spec) {
    const std::string rules =
        "version: 1\nseparator: '.'\nrules:\n  - {match: 'sinks', spec: " +
        std::string(spec) + "}\n  - {match: 'q_proj', spec: [TP, FSDP]}\n";
    const LintExample example{.mesh = "fsdp:2,tp:4",
                              .rules = rules,
                              .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": ".", "params": {
  "layers.0.self_attn.sinks": {"shape": [64], "dtype": "BF16"},
  "layers.0.self_attn.q_proj.weight":
      {"shape": [4096, 2880], "dtype": "BF16"}}})"};
    return TextsOf(example, "SHD231");
  };
  CHECK(Has(texts("[_]"), "for each of 64 heads and is replicated, while"));
  CHECK(Has(texts("[FSDP]"),
            R"(for each of 64 heads and is split over "fsdp", while)"));
}

}  // namespace
}  // namespace shardc
