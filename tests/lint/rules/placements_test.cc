// Tests lints about shardings that are legal but costly: each finding with its
// numbers, and a similar case without a finding.
#include <set>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

struct Case {
  const char* about;
  LintExample example;
  std::string_view code;
  std::vector<std::string> messages;  // of that code, in order
};

// Returns "level: message" of each finding of the code, one on each line.
std::string Messages(const LintExample& example, std::string_view code) {
  std::string out;
  for (const Finding& finding : FindingsOf(example)) {
    if (finding.code->Id() != code) continue;
    out +=
        std::string(LevelName(finding.level)) + ": " + finding.message + "\n";
  }
  return out;
}

void Check(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    const std::string about = one.about;
    CAPTURE(about);
    std::string wanted;
    for (const std::string& message : one.messages) wanted += message + "\n";
    CHECK(Messages(one.example, one.code) == wanted);
  }
}

constexpr std::string_view kMlp =
    R"({"schema": "shardc.manifest/v1", "params": {
  "l/0/mlp/gate_up_proj/kernel": {"shape": [1024, 2048], "dtype": "BF16"}}})";
constexpr std::string_view kBloom = R"({"schema": "shardc.manifest/v1",
  "separator": ".", "params": {
  "h.0.self_attention.query_key_value.weight": {"shape": [3072, 1024], "dtype": "BF16"},
  "h.0.self_attention.dense.weight": {"shape": [1024, 1024], "dtype": "BF16"}}})";
// Phi-3 with grouped queries: 1024 queries, 256 keys and 256 values.
constexpr std::string_view kPhi =
    R"({"schema": "shardc.manifest/v1", "params": {
  "model.layers.0.self_attn.qkv_proj.weight": {"shape": [1536, 1024],
                                               "dtype": "BF16"},
  "model.layers.0.self_attn.o_proj.weight": {"shape": [1024, 1024],
                                             "dtype": "BF16"}}})";
constexpr std::string_view kColumns = R"(version: 1
rules:
  - match: 'gate_up_proj'
    spec: [FSDP, TP]
  - match: 'query_key_value|qkv_proj'
    spec: [TP, FSDP]
  - match: '.'
    spec: Replicated
)";

TEST_CASE(
    "a split across the parts of a fused projection is reported unless the "
    "family interleaves them") {
  const std::vector<std::string> reported = {
      "note: dimension 1 of `l/0/mlp/gate_up_proj/kernel` stores several parts "
      "one after the other (gate and up each 1024) and is split as one over "
      "\"tp\": no shard has its share of each part, so that a compiler gathers "
      "the output, 3 KiB a "
      "token and layer, and in training the same backward"};
  Check({
      {"gate and up, over 4",
       {.mesh = "fsdp:2,tp:4", .rules = kColumns, .manifest = kMlp},
       "SHD230",
       reported},
      {"not split",
       {.mesh = "fsdp:8", .rules = kColumns, .manifest = kMlp},
       "SHD230",
       {}},
      {"keys and values are what the queries leave",
       {.mesh = "fsdp:2,tp:4",
        .rules = kColumns,
        .manifest = kPhi,
        .model = R"({"model_type": "phi3"})"},
       "SHD230",
       {"note: dimension 0 of `model.layers.0.self_attn.qkv_proj.weight` "
        "stores several parts one after the other (queries 1024, keys 256 and "
        "values 256) and is split as one over \"tp\": no shard has its share "
        "of each part, so that a compiler gathers the "
        "output, 2.25 KiB a token and layer, and in training the same "
        "backward"}},
      {"without a family, the order of the parts is not known",
       {.mesh = "fsdp:2,tp:4", .rules = kColumns, .manifest = kPhi},
       "SHD230",
       {"note: dimension 0 of `model.layers.0.self_attn.qkv_proj.weight` holds "
        "several parts (queries 1024, keys 256 and values 256) and is split as "
        "one over \"tp\": unless they are interleaved, no shard has its share "
        "of each part, so that a compiler gathers the output, 2.25 KiB a token "
        "and layer, and in training the same backward"}},
      {"MiniMax interleaves by head",
       {.mesh = "fsdp:2,tp:4",
        .rules = kColumns,
        .manifest = kPhi,
        .model = R"({"model_type": "minimax_m1"})"},
       "SHD230",
       {}},
      {"BLOOM interleaves by head",
       {.mesh = "fsdp:2,tp:4",
        .rules = kColumns,
        .manifest = kBloom,
        .model = R"({"model_type": "bloom"})"},
       "SHD230",
       {}},
      // ChatGLM, which does not, has the same name.
      {"without a family the name shows no order",
       {.mesh = "fsdp:2,tp:4", .rules = kColumns, .manifest = kBloom},
       "SHD230",
       {"note: dimension 0 of `h.0.self_attention.query_key_value.weight` "
        "holds several parts (queries, keys and values each 1024) and is split "
        "as one over \"tp\": unless they are interleaved, no shard has its "
        "share of each part, so that a compiler gathers the output, 4.5 KiB a "
        "token and layer, and in training the same backward"}},
  });
}

constexpr std::string_view kExperts =
    R"({"schema": "shardc.manifest/v1", "params": {
  "l/0/mlp/experts/up_proj/kernel": {"shape": [8, 1024, 4096], "dtype": "BF16"}}})";

TEST_CASE("tokens are split over the expert axis or repeated along it") {
  const auto rules = [](std::string_view axes) {
    return "version: 1\n" + std::string(axes) +
           "rules:\n  - match: 'up_proj'\n    spec: [EXPERT, null, TP]\n";
  };
  const std::string by_default = rules("");
  const std::string written = rules("axes: {batch: [dp, fsdp]}\n");
  const std::string inside = rules("axes: {batch: [dp, ep]}\n");
  const std::string sequence = rules("axes: {batch: dp, sequence: ep}\n");
  const std::string text =
      "experts are split over \"ep\", which splits no tokens: each of its 4 "
      "coordinates has the same tokens, attention is computed 4 times, and "
      "every token is all-reduced instead of exchanged by an all_to_all";
  const auto with = [](const std::string& text_of_rules,
                       std::string_view mesh) {
    return LintExample{
        .mesh = mesh, .rules = text_of_rules, .manifest = kExperts};
  };
  Check({
      {"by default",
       with(by_default, "dp:2,ep:4"),
       "SHD410",
       {"note: " + text}},
      {"written", with(written, "dp:2,ep:4"), "SHD410", {"warning: " + text}},
      {"inside the batch", with(inside, "dp:2,ep:4"), "SHD410", {}},
      {"inside the sequence", with(sequence, "dp:2,ep:4"), "SHD410", {}},
      {"no expert axis", with(by_default, "dp:2,tp:4"), "SHD410", {}},
  });
}

constexpr std::string_view kSinks =
    R"({"schema": "shardc.manifest/v1", "params": {
  "l/0/attn/q_proj/kernel": {"shape": [2880, 4096], "dtype": "BF16"},
  "l/0/attn/k_proj/kernel": {"shape": [2880, 512], "dtype": "BF16"},
  "l/0/attn/q_norm/scale": {"shape": [4096], "dtype": "BF16"},
  "l/0/attn/k_norm/scale": {"shape": [64], "dtype": "BF16"},
  "l/0/attn/sinks": {"shape": [64], "dtype": "BF16"}}})";

// There is one KV head, so its norm is as wide as the key.
constexpr std::string_view kOneKvHead =
    R"({"schema": "shardc.manifest/v1", "params": {
  "l/0/attn/q_proj/kernel": {"shape": [1152, 1024], "dtype": "BF16"},
  "l/0/attn/k_proj/kernel": {"shape": [1152, 256], "dtype": "BF16"},
  "l/0/attn/q_norm/scale": {"shape": [256], "dtype": "BF16"},
  "l/0/attn/k_norm/scale": {"shape": [256], "dtype": "BF16"}}})";

TEST_CASE("vectors over all heads are reported, those over one head are not") {
  const LintExample whole{.mesh = "fsdp:2,tp:4",
                          .rules = R"(version: 1
rules:
  - match: '[qk]_proj'
    spec: [FSDP, HEAD]
  - match: '.'
    spec: Replicated
)",
                          .manifest = kSinks};
  const LintExample split{.mesh = "fsdp:2,tp:4",
                          .rules = R"(version: 1
rules:
  - match: '[qk]_proj'
    spec: [FSDP, HEAD]
  - match: 'sinks|q_norm'
    spec: [HEAD]
  - match: '.'
    spec: Replicated
)",
                          .manifest = kSinks};
  const LintExample gathered{
      .mesh = "fsdp:8", .rules = whole.rules, .manifest = kSinks};
  Check({{"replicated with a split query",
          whole,
          "SHD231",
          {"warning: `l/0/attn/q_norm/scale` norms all 4096 columns of the "
           "query together and is replicated, while the query's projection is "
           "split over \"tp\": a device uses 1024 of them, and the mean needs "
           "an all_reduce over the axis",
           "warning: `l/0/attn/sinks` holds a number for each of 64 heads and "
           "is replicated, while the query's projection is split over \"tp\": "
           "a device uses 16 of them"}},
         {"split over the same axis", split, "SHD231", {}},
         {"one KV head",
          {.mesh = "fsdp:2,tp:4", .rules = whole.rules, .manifest = kOneKvHead},
          "SHD231",
          {}},
         {"nothing is tensor parallel", gathered, "SHD231", {}}});
}

constexpr std::string_view kMamba = R"({"schema": "shardc.manifest/v1",
  "separator": ".", "params": {
  "l.0.mixer.in_proj.weight": {"shape": [8512, 2048], "dtype": "BF16"},
  "l.0.mixer.conv1d.weight": {"shape": [4352, 1, 4], "dtype": "BF16"},
  "l.0.mixer.norm.weight": {"shape": [4096], "dtype": "BF16"},
  "l.0.mixer.A_log": {"shape": [64], "dtype": "F32"}}})";
// The mixer of Mamba-1 packs two halves, and its A_log is a matrix.
constexpr std::string_view kMamba1 = R"({"schema": "shardc.manifest/v1",
  "separator": ".", "params": {
  "l.0.mixer.in_proj.weight": {"shape": [8192, 2048], "dtype": "BF16"},
  "l.0.mixer.conv1d.weight": {"shape": [4096, 1, 4], "dtype": "BF16"},
  "l.0.mixer.A_log": {"shape": [4096, 16], "dtype": "F32"}}})";

TEST_CASE("the parts of a state space mixer's packed dimensions are found") {
  const std::string_view rules = R"(version: 1
rules:
  - match: 'in_proj'
    spec: [TP, FSDP]
  - match: 'conv1d'
    spec: [TP]
  - match: '.'
    spec: Replicated
)";
  const std::string cut =
      " one after the other and is split as one over \"tp\": no shard has its "
      "share of each";
  const std::string in_proj =
      "warning: dimension 0 of `l.0.mixer.in_proj.weight` holds gate 4096, "
      "input 4096, B 128, C 128 and time step 64" +
      cut;
  const std::string conv =
      "warning: dimension 0 of `l.0.mixer.conv1d.weight` holds input 4096, B "
      "128 and C 128" +
      cut;
  const std::string one_group =
      "; and heads share 1 group of B and C, which 4 devices do not divide";
  Check({{"Mamba-2",
          {.mesh = "fsdp:2,tp:4", .rules = rules, .manifest = kMamba},
          "SHD232",
          {in_proj, conv}},
         {"its configuration has one group",
          {.mesh = "fsdp:2,tp:4",
           .rules = rules,
           .manifest = kMamba,
           .model = R"({"model_type": "mamba2", "n_groups": 1})"},
          "SHD232",
          {in_proj + one_group, conv + one_group}},
         {"eight groups divide",
          {.mesh = "fsdp:2,tp:4",
           .rules = rules,
           .manifest = kMamba,
           .model = R"({"model_type": "mamba2", "n_groups": 8})"},
          "SHD232",
          {in_proj, conv}},
         {"Mamba-1",
          {.mesh = "fsdp:2,tp:4", .rules = rules, .manifest = kMamba1},
          "SHD232",
          {}}});
}

constexpr std::string_view kNorm = R"({"schema": "shardc.manifest/v1",
  "params": {"norm/scale": {"shape": [4096], "dtype": "BF16"}}})";
constexpr std::string_view kReplicated =
    "version: 1\nrules:\n  - match: 'norm'\n    spec: Replicated\n";

TEST_CASE("a zig-zag ring needs a multiple of twice the axis size") {
  const auto ring = [](std::string_view target, int64_t length) {
    return LintExample{.mesh = "sp:4",
                       .rules = kReplicated,
                       .manifest = kNorm,
                       .target = target,
                       .kv_len = length};
  };
  const std::string reported =
      "error: `ring` in zig-zag order splits 1100 tokens into 8 chunks, as "
      "axis "
      "`sp` "
      "has 4: 1100 % 8 = 4";
  Check({{"in its own record",
          ring("settings: {operations: {ring: {order: zig_zag}}}\n", 1100),
          "SHD412",
          {reported}},
         {"by default, for training",
          ring("operations: {train: [ring], decode: [flash_decoding]}\n"
               "settings: {defaults: {order: zig_zag}}\n",
               1100),
          "SHD412",
          {reported}},
         {"only in decode, where no order is",
          ring("operations: {decode: [ring]}\n"
               "settings: {defaults: {order: zig_zag}}\n",
               1100),
          "SHD412",
          {}},
         {"striped",
          ring("settings: {defaults: {order: striped}}\n", 1100),
          "SHD412",
          {}},
         {"another operation",
          ring("operations: [ulysses]\nsettings: {defaults: {order: "
               "zig_zag}}\n",
               1100),
          "SHD412",
          {}},
         {"a multiple",
          ring("settings: {defaults: {order: zig_zag}}\n", 1104),
          "SHD412",
          {}}});
}

TEST_CASE("lengths, batches and heads are judged in every mode") {
  const LintExample example{.mesh = "dp:2,sp:4,tp:3",
                            .rules = R"(version: 1
axes: {key_sequence: sp, decode_key_sequence: tp, batch: dp, decode_batch: tp}
rules:
  - match: 'norm'
    spec: Replicated
)",
                            .manifest = kNorm,
                            .batch = 5,
                            .kv_len = 4097};
  Check(
      {{"the cache",
        example,
        "SHD406",
        {"error: the KV cache is 4097 long, axis `sp` has 4 in train and "
         "prefill: "
         "4097 % 4 = 1",
         "error: the KV cache is 4097 long, axis `tp` has 3 in decode and "
         "insert: "
         "4097 % 3 = 2"}},
       {"the batch",
        example,
        "SHD408",
        {"error: the batch is 5, axis `dp` has 2 in train and prefill: 5 % 2 = "
         "1",
         "error: the batch is 5, axis `tp` has 3 in decode and insert: 5 % 3 = "
         "2"}}});
}

constexpr std::string_view kPlain = R"({"schema": "shardc.manifest/v1",
  "separator": "/", "params": {
  "l/0/attn/q_proj/kernel": {"shape": [1536, 1536], "dtype": "BF16"},
  "l/0/attn/o_proj/kernel": {"shape": [1536, 1536], "dtype": "BF16"},
  "l/0/mlp/down_proj/kernel": {"shape": [4800, 1536], "dtype": "BF16"}}})";

TEST_CASE("the configuration's group size is used if the tree has no scales") {
  const std::string_view rules = R"(version: 1
rules:
  - match: 'down_proj|o_proj'
    spec: [TP, FSDP]
  - match: 'q_proj'
    spec: [FSDP, TP]
)";
  const std::string_view grouped =
      R"({"quantization_config": {"group_size": 128}})";
  Check({{"4800 over 4 is 1200",
          {.mesh = "fsdp:2,tp:4",
           .rules = rules,
           .manifest = kPlain,
           .model = grouped},
          "SHD222",
          {"warning: dimension 0 of `l/0/mlp/down_proj/kernel` is 4800 in "
           "blocks of 128, axis `tp` has 4: a shard is 1200 and ends inside a "
           "block"}},
         {"a block of rows, 1536 over 8 is 192",
          {.mesh = "fsdp:1,tp:8",
           .rules = R"(version: 1
rules:
  - match: 'q_proj'
    spec: [null, TP]
  - match: '.*'
    spec: Replicated
)",
           .manifest = kPlain,
           .model =
               R"({"quantization_config": {"weight_block_size": [128, 64]}})"},
          "SHD222",
          {"warning: dimension 1 of `l/0/attn/q_proj/kernel` is 1536 in blocks "
           "of 128, axis `tp` has 8: a shard is 192 and ends inside a block"}},
         {"groups of compressed-tensors",
          {.mesh = "fsdp:2,tp:4",
           .rules = rules,
           .manifest = kPlain,
           .model = R"({"quantization_config": {"config_groups": {"group_0":
  {"weights": {"group_size": 128}}}}})"},
          "SHD222",
          {"warning: dimension 0 of `l/0/mlp/down_proj/kernel` is 4800 in "
           "blocks of 128, axis `tp` has 4: a shard is 1200 and ends inside a "
           "block"}},
         {"no group",
          {.mesh = "fsdp:2,tp:4",
           .rules = rules,
           .manifest = kPlain,
           .model = R"({"hidden_size": 1536})"},
          "SHD222",
          {}}});
}

TEST_CASE("a block is that of the modules for which the configuration has it") {
  const auto messages = [](const std::string& quantisation) {
    std::string out;
    const std::string config =
        R"({"model_type": "llama", "quantization_config": {)" + quantisation +
        "}}";
    for (const Finding& finding :
         FindingsOf({.mesh = "tp:32",
         .rules = R"(version: 1
separator: "."
rules:
  - {match: '(q|up)_proj', spec: [tp]}
  - {match: '(o|down)_proj', spec: [null, tp]}
)",
         .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": ".", "params": {
  "model.layers.0.attn.q_proj.weight": {"shape": [4096, 4096], "dtype": "BF16"},
  "model.layers.0.attn.o_proj.weight": {"shape": [4096, 4096], "dtype": "BF16"},
  "model.layers.0.mlp.up_proj.weight": {"shape": [14336, 4096], "dtype": "BF16"},
  "model.layers.0.mlp.down_proj.weight": {"shape": [4096, 14336], "dtype": "BF16"},
  "model.layers.1.mlp.up_proj.weight": {"shape": [14336, 4096], "dtype": "BF16"},
  "model.layers.1.mlp.down_proj.weight": {"shape": [4096, 14336], "dtype": "BF16"}}})",
         .model = config})) {
      if (finding.code->Id() != "SHD222") continue;
      out += (out.empty() ? "" : "; ") +
             finding.message.substr(0, finding.message.find(" is ")) +
             (finding.message.find("in blocks of 128, axis `tp` has 32: a "
                                   "shard is 448") == std::string::npos
                  ? " of another block"
                  : "");
    }
    return out;
  };
  const std::string down =
      "dimension 1 of `model.layers.*.mlp.down_proj.weight` (2 parameters)";
  const std::string up =
      "dimension 0 of `model.layers.*.mlp.up_proj.weight` (2 parameters)";
  const std::string second =
      "dimension 1 of `model.layers.1.mlp.down_proj.weight`";
  // 14336 / 32 = 448 is no multiple of 128, and 4096 / 32 = 128 is.
  const auto grouped = [](const std::string& targets,
                          const std::string& ignored) {
    return "\"ignore\": [" + ignored +
           R"(], "config_groups": {"a": {"targets": ["re:.*attn.*"], "weights":
 {"strategy": "channel"}}, "b": {"targets": [)" +
           targets + R"(], "weights": {"group_size": 128}}})";
  };
  const auto blocks = [](const std::string& excluded) {
    return R"("weight_block_size": [128, 128], "modules_to_not_convert": [)" +
           excluded + "]";
  };
  const struct {
    std::string quantisation, expected;
  } kRows[] = {
      {grouped(R"("re:.*mlp.*")", ""), down},
      {grouped(R"("Linear")", ""), down},
      {grouped(R"("Linear")", R"("re:.*down_proj")"), ""},
      {grouped(R"("Linear")", R"("re:down_proj")"), down},
      {grouped(R"("Linear")", R"x("re:.*(?=down_proj)")x"), ""},
      {grouped(R"("Linear")", R"("model.layers.0.mlp.down_proj")"), second},
      {grouped(R"("Linear")", R"("model.layers.0")"), second},
      {grouped(R"("Linear")", R"("model.layers.0.mlp.down", "lm_head")"), down},
      {grouped(R"("re:.*attn.*")", ""), ""},
      {blocks(""), up + "; " + down},
      {blocks(R"("up_proj")"), down},
      {blocks(R"("*.down_proj")"), up},
      {blocks(R"("up_proj", "down_proj")"), ""},
  };
  for (const auto& row : kRows) {
    CAPTURE(row.quantisation);
    CHECK(messages(row.quantisation) == row.expected);
  }
}

TEST_CASE("the sides of a feed-forward block are those around scanned layers") {
  const auto count = [](const std::string& down) {
    const std::string rules =
        "version: 1\nseparator: \"/\"\nrules:\n"
        "  - {match: 'up_proj', spec: [TP, null, FSDP]}\n"
        "  - {match: 'down_proj', spec: " +
        down + "}\n  - {match: 'norm', spec: Replicated}\n";
    return CodesOf({.mesh = "fsdp:2,tp:2", .rules = rules, .manifest = R"({
  "schema": "shardc.manifest/v1", "params": {
  "layers/mlp/up_proj/weight": {"shape": [1024, 128, 512], "dtype": "F32"},
  "layers/mlp/down_proj/weight": {"shape": [512, 128, 1024], "dtype": "F32"},
  "layers/norm/weight": {"shape": [128, 512], "dtype": "F32"}}})"})
        .count("SHD215");
  };
  CHECK(count("[FSDP, null, TP]") == 0);
  CHECK(count("[TP, null, FSDP]") == 1);
}

TEST_CASE("scanned layers may be split over a pipeline axis only") {
  const auto count = [](const char* mesh, const std::string& spec,
                        std::string_view manifest) {
    const std::string rules =
        "version: 1\nseparator: \"/\"\nrules:\n  - {match: 'kernel', spec: " +
        spec + "}\n  - {match: 'scale', spec: Replicated}\n";
    return CodesOf({.mesh = mesh, .rules = rules, .manifest = manifest})
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
  // Stacked experts below a numbered layer are not a layer stack.
  CHECK(count("fsdp:2,tp:2", "[FSDP, null, TP]",
              R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/experts/kernel": {"shape": [32, 64, 128], "dtype": "F32"},
  "layers/0/norm/scale": {"shape": [32], "dtype": "F32"}}})") == 0);
  // Parameters with different first dimensions are not a layer stack.
  CHECK(count("fsdp:2,tp:2", "[FSDP, null, TP]",
              R"({"schema": "shardc.manifest/v1", "params": {
  "layers/up/kernel": {"shape": [32, 64, 128], "dtype": "F32"},
  "layers/norm/scale": {"shape": [64], "dtype": "F32"}}})") == 0);
}

TEST_CASE("routers and norms may be split over axes that are gathered") {
  const auto codes = [](const std::string& spec, const std::string& name,
                        const std::string& shape) {
    const std::string rules =
        "version: 1\nrules:\n  - {match: '.', spec: " + spec + "}\n";
    const std::string manifest =
        R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {")" +
        name + R"(": {"dtype": "F32", "shape": )" + shape + "}}}";
    return CodesOf(
        {.mesh = "fsdp:2,ep:2,tp:2", .rules = rules, .manifest = manifest});
  };
  const std::string gate = "layers/0/moe/gate/kernel";
  CHECK(codes("[null, EXPERT]", gate, "[1024, 8]").count("SHD226") == 1);
  CHECK(codes("[null, TP]", gate, "[1024, 8]").count("SHD226") == 1);
  CHECK(codes("[null, FSDP]", gate, "[1024, 8]").count("SHD226") == 0);
  CHECK(codes("[TP, null]", gate, "[1024, 8]").count("SHD226") == 0);
  // In a transposed router the experts are the first dimension.
  CHECK(codes("[TP, null]", gate, "[8, 1024]").count("SHD226") == 1);

  CHECK(codes("[TP]", "a/input_norm/scale", "[1024]").count("SHD227") == 1);
  CHECK(codes("[FSDP]", "a/input_norm/scale", "[1024]").count("SHD227") == 0);
  CHECK(codes("[TP]", "a/attn/q_norm/scale", "[1024]").count("SHD227") == 0);
  CHECK(codes("[TP]", "a/mixer/norm/scale", "[1024]").count("SHD227") == 0);
}

TEST_CASE("heads inside a fused projection are counted") {
  const auto level = [](const char* mesh) -> std::string {
    const auto found =
        FindingsOf({.mesh = mesh,
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

TEST_CASE("adapters follow their base") {
  const auto count = [](const std::string& a, const std::string& b) {
    const std::string rules =
        "version: 1\nseparator: \".\"\nrules:\n"
        "  - {match: 'base_layer|down_proj.weight', spec: [FSDP, TP]}\n"
        "  - {match: 'lora_A', spec: " +
        a + "}\n  - {match: 'lora_B', spec: " + b + "}\n";
    return CodesOf({.mesh = "fsdp:2,tp:4",
                    .rules = rules,
                    .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": ".", "params": {
  "l.0.mlp.down_proj.base_layer.weight": {"shape": [512, 1024], "dtype": "F32"},
  "l.0.mlp.down_proj.lora_A.weight": {"shape": [16, 1024], "dtype": "F32"},
  "l.0.mlp.down_proj.lora_B.weight": {"shape": [512, 16], "dtype": "F32"}}})"})
        .count("SHD229");
  };
  // The base shards its input dimension over tp, and lora_A has the same input.
  CHECK(count("[null, TP]", "Replicated") == 0);
  CHECK(count("[null, TP]", "[FSDP, null]") == 0);
  CHECK(count("Replicated", "Replicated") == 0);
  CHECK(count("[null, TP]", "[TP, null]") == 1);
  CHECK(count("[null, TP]", "[null, TP]") == 1);
  CHECK(count("[TP, null]", "[null, TP]") == 2);
}

TEST_CASE("the rank of an adapter is not the dimension of its base's size") {
  const auto message = [](const std::string& spec) {
    std::string out;
    for (const Finding& finding :
         FindingsOf({.mesh = "tp:4",
         .rules = "version: 1\nseparator: '.'\nrules:\n"
                  "  - {match: 'base_layer', spec: [TP, null]}\n"
                  "  - {match: 'lora_', spec: " +
                     spec + "}\n",
         .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": ".", "params": {
  "l.0.attn.q_proj.base_layer.weight": {"shape": [1024, 1024], "dtype": "F32"},
  "l.0.attn.k_proj.base_layer.weight": {"shape": [256, 1024], "dtype": "F32"},
  "l.0.attn.k_proj.lora_B.weight": {"shape": [256, 512], "dtype": "F32"}}})"})) {
      if (finding.code->Id() == "SHD229") out += finding.message;
    }
    return out;
  };
  CHECK(message("[TP, null]").empty());
  CHECK(message("[null, TP]").find("is the adapter's rank, 512, split over") !=
        std::string::npos);
}

TEST_CASE("adapters are no siblings of their base's projections") {
  const auto codes = CodesOf({.mesh = "tp:4",
                              .rules = R"(version: 1
separator: "."
rules:
  - {match: '(up|embed).*base_layer', spec: [TP, null]}
  - {match: 'down_proj.base_layer', spec: [null, TP]}
  - {match: 'up_proj.lora_B', spec: [TP, null]}
  - {match: 'down_proj.lora_A|lora_embedding_A', spec: [null, TP]}
  - {match: 'lora_', spec: []}
)",
                              .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": ".", "params": {
  "embed_tokens.base_layer.weight": {"shape": [2048, 512], "dtype": "F32"},
  "embed_tokens.lora_embedding_A.default": {"shape": [16, 2048], "dtype": "F32"},
  "embed_tokens.lora_embedding_B.default": {"shape": [512, 16], "dtype": "F32"},
  "l.0.mlp.up_proj.base_layer.weight": {"shape": [1024, 512], "dtype": "F32"},
  "l.0.mlp.up_proj.lora_A.default.weight": {"shape": [16, 512], "dtype": "F32"},
  "l.0.mlp.up_proj.lora_B.default.weight": {"shape": [1024, 16], "dtype": "F32"},
  "l.0.mlp.down_proj.base_layer.weight": {"shape": [512, 1024], "dtype": "F32"},
  "l.0.mlp.down_proj.lora_A.default.weight": {"shape": [16, 1024], "dtype": "F32"},
  "l.0.mlp.down_proj.lora_B.default.weight": {"shape": [512, 16], "dtype": "F32"}}})"});
  for (const char* code : {"SHD214", "SHD215", "SHD229"}) {
    CAPTURE(code);
    CHECK(codes.count(code) == 0);
  }
}

TEST_CASE("GPTQ's group indices are split as the inputs of their weight") {
  const auto messages = [](const std::string& weight,
                           const std::string& indices) {
    std::string out;
    for (const Finding& finding :
         FindingsOf({.mesh = "tp:4",
         .rules = "version: 1\nseparator: '.'\nrules:\n"
                  "  - {match: 'g_idx', spec: " +
                     indices + "}\n  - {match: 'proj', spec: " + weight + "}\n",
         .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": ".", "params": {
  "l.0.mlp.up_proj.qweight": {"shape": [128, 2048], "dtype": "I32"},
  "l.0.mlp.up_proj.qzeros": {"shape": [8, 256], "dtype": "I32"},
  "l.0.mlp.up_proj.scales": {"shape": [8, 2048], "dtype": "F16"},
  "l.0.mlp.up_proj.g_idx": {"shape": [1024], "dtype": "I32"}}})"})) {
      if (finding.code->Id() == "SHD212") out += finding.message;
    }
    return out;
  };
  CHECK(messages("[null, TP]", "[]").empty());
  CHECK(messages("[TP, null]", "[TP]").empty());
  CHECK(messages("[TP, null]", "[]").empty());
  CHECK(
      messages("[null, TP]", "[TP]") ==
      "dimension 0 of `l.0.mlp.up_proj.g_idx` is split over \"tp\", where its "
      "weight has null");
}

TEST_CASE("the scales of each output are split as their quantised weight") {
  const auto messages = [](const std::string& dtype, const std::string& shape,
                           const std::string& weight,
                           const std::string& scale) {
    std::string out;
    for (const Finding& finding :
         FindingsOf({.mesh = "tp:4",
         .rules = "version: 1\nseparator: '.'\nrules:\n"
                  "  - {match: 'scale', spec: " +
                     scale +
                     "}\n  - {match: 'norm', spec: []}\n"
                     "  - {match: 'proj', spec: " +
                     weight + "}\n",
         .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": ".", "params": {
  "l.0.norm.weight": {"shape": [1024], "dtype": "BF16"},
  "l.0.attn.o_proj.weight": {"shape": [1024, 4096], "dtype": "BF16"},
  "l.0.attn.q_proj.weight": {"shape": [4096, 1024], "dtype": ")" +
                     dtype + R"("},
  "l.0.attn.q_proj.weight_scale": {"shape": )" +
                     shape + R"(, "dtype": "BF16"}}})"})) {
      if (finding.code->Id() == "SHD212") out += finding.message;
    }
    return out;
  };
  const std::string whole =
      "dimension 0 of `l.0.attn.q_proj.weight_scale` is replicated, where its "
      "weight has \"tp\"";
  for (const char* dtype : {"F8_E4M3", "F8_E5M2", "I8", "U8"}) {
    for (const char* shape : {"[4096, 1]", "[4096, 8]", "[32, 8]", "[4096]"}) {
      const std::string row = std::string(dtype) + " " + shape;
      CAPTURE(row);
      CHECK(messages(dtype, shape, "[TP]", "[]") == whole);
      CHECK(messages(dtype, shape, "[TP]", "[TP]").empty());
      // A scale for each input, or for a block of inputs, is split as well.
      const bool of_inputs = std::string(shape).ends_with(", 8]");
      CHECK(messages(dtype, shape, "[null, TP]", "[]").empty() == !of_inputs);
    }
  }
  // One scale of all outputs, scales that 4 does not divide, and a weight that
  // is not quantised.
  CHECK(messages("F8_E4M3", "[1, 1]", "[TP]", "[]").empty());
  CHECK(messages("F8_E4M3", "[31, 8]", "[TP]", "[]").empty());
  CHECK(messages("BF16", "[4096, 1]", "[TP]", "[]").empty());
}

}  // namespace
}  // namespace shardc
