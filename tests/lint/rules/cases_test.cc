// Small targets at the limits of each lint, with the exact messages or no
// finding. If a row fails, it names the lint.
#include <string>
#include <string_view>
#include <vector>

#include "doctest/doctest.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

struct Rule {
  std::string match, spec;
  std::string more = {};  // further keys: ", modes: {decode: [_]}"
};
struct Param {
  std::string name, shape;
};
struct Row {
  std::string_view lint, mesh;
  std::vector<Rule> rules;
  std::vector<Param> params;
  std::string expected;  // the messages, one a line
  std::string_view model = {};
  int64_t batch = 0, kv_len = 0;
  std::string axes = {};  // of the rules file
};

std::string Messages(const Row& row) {
  std::string rules =
      "version: 1\nseparator: '.'\npolicy: {unmatched: replicate}\n";
  if (!row.axes.empty()) rules += "axes: {" + row.axes + "}\n";
  rules += "rules:\n";
  for (const Rule& rule : row.rules) {
    rules += "  - {match: '" + rule.match + "', spec: " + rule.spec +
             rule.more + "}\n";
  }
  std::string manifest =
      R"({"schema": "shardc.manifest/v1", "separator": ".", "params": {)";
  for (const Param& param : row.params) {
    if (manifest.back() != '{') manifest += ", ";
    manifest += "\"" + param.name + "\": {\"shape\": " + param.shape +
                ", \"dtype\": \"BF16\"}";
  }
  manifest += "}}";
  const LintExample example{.mesh = row.mesh,
                            .rules = rules,
                            .manifest = manifest,
                            .model = row.model,
                            .batch = row.batch,
                            .kv_len = row.kv_len};
  std::string errors, out;
  const LintResult result = LintExampleText(example, &errors);
  if (!errors.empty()) return errors;
  for (const Finding& finding : result.findings) {
    if (finding.code->name != row.lint) continue;
    out += (out.empty() ? "" : "\n") + finding.message;
  }
  return out;
}

void CheckRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.lint);
    CAPTURE(row.mesh);
    CAPTURE(row.rules.front().spec);
    CHECK(Messages(row) == row.expected);
  }
}

TEST_CASE("conflicting-rules, duplicate-rule: every later rule is reported") {
  const Param q = {"layers.0.q.kernel", "[64, 64]"};
  const std::string conflict =
      "pattern `q.kernel` is that of an earlier rule with another spec: this "
      "rule is never used";
  const std::string duplicate =
      "pattern `q.kernel` is that of an earlier rule with the same spec: this "
      "rule is never used";
  const Rule column = {"q.kernel", "ColumnWise"}, row = {"q.kernel", "RowWise"},
             whole = {"q.kernel", "Replicated"};
  const Rule up = {"^up", "[tp, null]"}, down = {"^down", "[fsdp, null]"};
  CheckRows({
      {"conflicting-rules", "fsdp:2,tp:2", {column, row}, {q}, conflict},
      {"conflicting-rules",
       "fsdp:2,tp:2",
       {column, row, whole},
       {q},
       conflict + "\n" + conflict},
      {"conflicting-rules",
       "fsdp:2,tp:2",
       {column, row, column},
       {q},
       conflict},
      {"duplicate-rule", "fsdp:2,tp:2", {column, row, column}, {q}, duplicate},
      {"duplicate-rule",
       "fsdp:2,tp:2",
       {column, column, column},
       {q},
       duplicate + "\n" + duplicate},
      {"conflicting-rules",
       "fsdp:2,tp:2",
       {{"q.kernel", "{like: up}"}, {"q.kernel", "{like: down}"}, up, down},
       {q, {"up", "[8, 8]"}, {"down", "[8, 8]"}},
       conflict},
      {"duplicate-rule",
       "fsdp:2,tp:2",
       {{"q.kernel", "{like: up}"}, {"q.kernel", "{like: up}"}, up, down},
       {q, {"up", "[8, 8]"}, {"down", "[8, 8]"}},
       duplicate},
  });
}

TEST_CASE("shadowed-rule: the same spec is that of all modes and placements") {
  const Rule narrow = {"w.(\\d)", "[tp]"};
  const std::string same =
      "rule `w.(\\d)` never applies: the parameter it matches goes to earlier "
      "rules with the same spec";
  const std::string other = same.substr(0, same.find(" with the same"));
  const std::vector<Param> params = {
      {"w.1", "[8]"}, {"up", "[8]"}, {"out", "[8]"}};
  const Rule up = {"^up", "[tp]"}, out = {"^out", "[fsdp]"};
  const auto row = [&](const Rule& earlier, const Rule& later,
                       const std::string& expected) {
    return Row{"shadowed-rule",
               "fsdp:2,tp:2",
               {earlier, later, up, out},
               params,
               expected};
  };
  CheckRows({
      row({"w", "[tp]"}, narrow, same),
      row({"w", "[tp]"}, {"w.(\\d)", "[fsdp]"}, other),
      row({"w", "[tp]"}, {"w.(\\d)", "[tp]", ", modes: {decode: [fsdp]}"},
          other),
      row({"w", "[tp]"},
          {"w.(\\d)", "[tp]",
           ", place: {axis: fsdp, index: 'w.(\\d)', count: 4}"},
          other),
      row({"w", "{like: up}"}, {"w.(\\d)", "{like: out}"}, other),
      row({"w", "{like: up}"}, {"w.(\\d)", "{like: up}"}, same),
  });
}

const Param kLatent = {"layers.0.self_attn.kv_a_proj_with_mqa.weight",
                       "[576, 7168]"};
const Param kLatentKernel = {"layers.0.self_attn.kv_a_proj_with_mqa.kernel",
                             "[7168, 576]"};

TEST_CASE("latent-split: the latent is the shorter side") {
  CheckRows({
      {"latent-split",
       "fsdp:2,tp:4",
       {{".", "[tp, null]"}},
       {kLatent},
       R"(dimension 0 of `layers.0.self_attn.kv_a_proj_with_mqa.weight` is the latent, split over "tp": its norm reads all of it, so that it is gathered in every layer)"},
      {"latent-split", "fsdp:2,tp:4", {{".", "[null, tp]"}}, {kLatent}, ""},
      {"latent-split",
       "fsdp:2,tp:4",
       {{".", "[null, tp]"}},
       {kLatentKernel},
       R"(dimension 1 of `layers.0.self_attn.kv_a_proj_with_mqa.kernel` is the latent, split over "tp": its norm reads all of it, so that it is gathered in every layer)"},
      {"latent-split",
       "fsdp:2,tp:4",
       {{".", "[tp, null]"}},
       {kLatentKernel},
       ""},
      {"latent-split", "fsdp:2,tp:4", {{".", "[fsdp, null]"}}, {kLatent}, ""},
      {"latent-split", "fsdp:2,tp:1", {{".", "[tp, null]"}}, {kLatent}, ""},
      // The latent of a square projection cannot be identified.
      {"latent-split",
       "fsdp:2,tp:4",
       {{".", "[tp, null]"}},
       {{kLatent.name, "[576, 576]"}},
       ""},
      {"latent-split",
       "fsdp:2,tp:4",
       {{".", "[null, tp]"}},
       {{kLatent.name, "[576, 576]"}},
       ""},
      {"latent-split",
       "fsdp:2,tp:4",
       {{".", "[tp, null]"}},
       {{"layers.0.self_attn.kv_b_proj.weight", "[512, 1024]"}},
       ""},
  });
}

TEST_CASE("axis-of-size-one: specs that split nothing on this mesh") {
  const std::vector<Param> kParams = {{"a.weight", "[8, 8]"},
                                      {"b.weight", "[8, 8]"}};
  CheckRows({
      {"axis-of-size-one",
       "dp:4,tp:1",
       {{".", "[tp]"}},
       kParams,
       "the spec splits over `tp` only, which has size 1 on this mesh: the "
       "parameters are replicated"},
      {"axis-of-size-one", "dp:4,tp:2", {{".", "[tp]"}}, kParams, ""},
      {"axis-of-size-one", "dp:4,tp:1", {{".", "[tp, dp]"}}, kParams, ""},
      {"axis-of-size-one",
       "dp:1,tp:1",
       {{".", "[tp, dp]"}},
       kParams,
       "the spec splits over `tp` and `dp` only, which have size 1 on this "
       "mesh: the parameters are replicated"},
      {"axis-of-size-one", "dp:4,tp:1", {{".", "[null]"}}, kParams, ""},
      {"axis-of-size-one",
       "dp:4,tp:1",
       {{".", "[tp]", ", modes: {decode: [dp]}"}},
       kParams,
       ""},
      // Nothing is reported if another parameter of the rule is sharded.
      {"axis-of-size-one",
       "dp:4,tp:1",
       {{".", "[dp, tp]", ", illegal: drop"}},
       {{"a.weight", "[7, 8]"}, {"b.weight", "[8, 8]"}},
       ""},
      {"axis-of-size-one",
       "dp:4,tp:1",
       {{".", "[dp, tp]", ", illegal: drop"}},
       {{"a.weight", "[7, 8]"}, {"b.weight", "[9, 8]"}},
       "the spec splits over `tp` only, which has size 1 on this mesh: the "
       "parameters are replicated"},
      // The finding is reported once for each set of axes.
      {"axis-of-size-one",
       "dp:4,tp:1",
       {{"^a", "[tp]"}, {"^b", "[null, tp]"}},
       kParams,
       "the spec splits over `tp` only, which has size 1 on this mesh: the "
       "parameters are replicated"},
      {"axis-of-size-one",
       "dp:1,tp:1",
       {{"^a", "[tp]"}, {"^b", "[dp]"}},
       kParams,
       "the spec splits over `tp` only, which has size 1 on this mesh: the "
       "parameters are replicated\nthe spec splits over `dp` only, which has "
       "size 1 on this mesh: the parameters are replicated"},
  });
}

TEST_CASE("uneven-hosts: an axis of tensors and sequences counts once") {
  Row row = {"uneven-hosts",
             "axes: {dp: 6, tp: 2}\nprocesses: 2\n",
             {{".", "[tp]"}},
             {{"a.weight", "[8, 8]"}},
             ""};
  row.axes = "sequence_parallel: tp";
  CheckRows({row});
  row.mesh = "axes: {dp: 2, tp: 4}\nprocesses: 4\n";
  CheckRows({row});
  row.mesh = "axes: {dp: 3, tp: 4}\nprocesses: 2\n";
  row.expected =
      "a model replica takes 4 devices (tensor times sequence parallel) and a "
      "host has 6: replicas straddle hosts unevenly";
  CheckRows({row});
}

TEST_CASE("sibling-differs: the rarer of two specs for one name") {
  const std::vector<Param> kThree = {{"layers.0.up.weight", "[8, 8]"},
                                     {"layers.1.up.weight", "[8, 8]"},
                                     {"layers.2.up.weight", "[8, 8]"}};
  CheckRows({
      {"sibling-differs",
       "tp:2",
       {{"0.up", "[tp]"}, {".", "[null, tp]"}},
       kThree,
       R"(`layers.0.up.weight` is ["tp"], the other 2 of `layers.*.up.weight` are [null, "tp"])"},
      {"sibling-differs",
       "tp:2",
       {{"[01].up", "[tp]"}, {".", "[null, tp]"}},
       kThree,
       R"(`layers.2.up.weight` is [null, "tp"], the other 2 of `layers.*.up.weight` are ["tp"])"},
      // Both specs occur equally often, so the first one is taken as the usual
      // one.
      {"sibling-differs",
       "tp:2",
       {{"0.up", "[tp]"}, {".", "[null, tp]"}},
       {kThree[0], kThree[1]},
       R"(`layers.1.up.weight` is [null, "tp"], the other 1 of `layers.*.up.weight` are ["tp"])"},
      {"sibling-differs",
       "tp:2",
       {{"1.up", "[tp]"}, {".", "[null, tp]"}},
       {kThree[0], kThree[1]},
       R"(`layers.1.up.weight` is ["tp"], the other 1 of `layers.*.up.weight` are [null, "tp"])"},
      {"sibling-differs",
       "tp:2",
       {{"0.up", "[tp]"}, {".", "[tp]"}},
       kThree,
       ""},
      {"sibling-differs",
       "tp:2",
       {{"0.up", "[tp]"}, {".", "[null, tp]"}},
       {{"layers.0.up.weight", "[8, 4]"}, {"layers.1.up.weight", "[8, 8]"}},
       ""},
  });
}

TEST_CASE("case-mismatch: a rule that matches if case is ignored") {
  const auto row = [](const char* pattern, std::string expected) {
    return Row{"case-mismatch",
               "tp:2",
               {{pattern, "[tp]"}, {"^a", "[]"}, {"^b", "[]"}},
               {{"layers.0.Up.weight", "[8, 8]"},
                {"a.weight", "[8]"},
                {"b.weight", "[8]"}},
               std::move(expected)};
  };
  CheckRows({
      row("layers.*up",
          "rule `layers.*up` matches nothing; if case is ignored, it matches "
          "`layers.0.Up.weight`"),
      row("layers.*Up", ""),
      row("layers.*down", ""),
  });
}

TEST_CASE("parameter-reshard: a mode with another spec") {
  const std::vector<Param> kParams = {{"layers.0.up.weight", "[8, 8]"}};
  CheckRows({
      {"parameter-reshard",
       "dp:2,tp:2",
       {{".", "[tp]", ", modes: {decode: [null, tp]}"}},
       kParams,
       R"(`layers.0.up.weight` is ["tp"] in train and [null, "tp"] in decode: the reshard moves up to 128 B)"},
      {"parameter-reshard",
       "dp:2,tp:2",
       {{".", "[tp]", ", modes: {decode: [tp, null]}"}},
       kParams,
       ""},
      {"parameter-reshard",
       "dp:1,tp:2",
       {{".", "[tp]", ", modes: {decode: [tp, dp]}"}},
       kParams,
       ""},
      {"parameter-reshard",
       "dp:2,tp:2",
       {{".", "[tp]", ", modes: {prefill: [dp], decode: [null]}"}},
       kParams,
       R"(`layers.0.up.weight` is ["tp"] in train and ["dp"] in prefill: the reshard moves up to 128 B)"},
  });
}

constexpr std::string_view kModel =
    R"({"num_attention_heads": 4, "head_dim": 8, "hidden_size": 32,
        "num_key_value_heads": 2})";

TEST_CASE("attention-reshard: heads that are split on one side only") {
  const std::string q = "layers.0.self_attn.q_proj.weight",
                    o = "layers.0.self_attn.o_proj.weight";
  const std::vector<Param> kParams = {{q, "[32, 32]"}, {o, "[32, 32]"}};
  const auto row = [&](const char* query, const char* output,
                       std::string expected) {
    return Row{"attention-reshard",
               "dp:2,tp:2,tq:2",
               {{"q_proj", query}, {"o_proj", output}},
               kParams,
               std::move(expected),
               {},
               0,
               0,
               "tensor_parallel: [tp, tq]"};
  };
  CheckRows({
      row("[tp, null]", "[null, tp]", ""),
      row("[tp, null]", "[tp, null]",
          R"(the heads in the output of `layers.0.self_attn.q_proj.weight` are split over "tp" and the input of `layers.0.self_attn.o_proj.weight` split over null: the output of attention is resharded in between)"),
      row("[tp, null]", "[null, tq]",
          R"(the heads in the output of `layers.0.self_attn.q_proj.weight` are split over "tp" and the input of `layers.0.self_attn.o_proj.weight` split over "tq": the output of attention is resharded in between)"),
      row("[null, tp]", "[null, tp]",
          R"(`layers.0.self_attn.q_proj.weight` splits its input over "tp" and does not split the heads: the result is all-reduced over that axis before attention)"),
      row("[tp, tq]", "[tq, tp]", ""),
      row("[null, null]", "[null, tp]", ""),
      row("[dp, null]", "[null, null]", ""),
      // Kernels with a dimension of heads are not compared.
      {"attention-reshard",
       "dp:2,tp:2",
       {{"q_proj", "[null, tp, null]"}},
       {{"layers.0.self_attn.q_proj.kernel", "[32, 8, 4]"},
        {"layers.0.self_attn.o_proj.kernel", "[32, 32]"}},
       ""},
      {"attention-reshard",
       "dp:2,tp:2",
       {{"k_proj", "[tp, null]"}, {".", "[null]"}},
       {{"layers.0.self_attn.q_proj.kernel", "[32, 32]"},
        {"layers.0.self_attn.k_proj.kernel", "[32, 8]"}},
       R"(`layers.0.self_attn.k_proj.kernel` splits its input over "tp" and does not split the heads: the result is all-reduced over that axis before attention)"},
  });
}

TEST_CASE("kv-length-indivisible: the cache's length over its axes") {
  const auto row = [](int64_t kv_len, const std::string& axes,
                      std::string expected) {
    return Row{"kv-length-indivisible",
               "dp:2,sp:4",
               {{".", "[null]"}},
               {{"layers.0.self_attn.q_proj.weight", "[32, 32]"}},
               std::move(expected),
               kModel,
               8,
               kv_len,
               "key_sequence: [], " + axes};
  };
  CheckRows({
      row(64, "decode_key_sequence: sp", ""),
      row(66, "decode_key_sequence: sp",
          "the KV cache is 66 long, axis `sp` has 4 in decode and insert: 66 % "
          "4 = 2"),
      row(66, "decode_key_sequence: dp", ""),
      row(66, "decode_key_sequence: []", ""),
  });
}

TEST_CASE("chatty-axis-across-hosts: of two axes, those that fit a host") {
  const auto row = [](std::string_view mesh, std::string expected) {
    return Row{.lint = "chatty-axis-across-hosts",
               .mesh = mesh,
               .rules = {{".", "[[tp, tq]]"}},
               .params = {{"layers.0.self_attn.q_proj.weight", "[64, 32]"}},
               .expected = std::move(expected),
               .axes = "head: [tp, tq]"};
  };
  const auto spans = [](const std::string& axis, int numbers, int host) {
    return "a group along tensor parallel axis `" + axis + "` spans " +
           std::to_string(numbers) + " device numbers, and a host has " +
           std::to_string(host) +
           ": its collectives, several in each layer, cross hosts";
  };
  CheckRows({
      // Behind fsdp, tp and tq together are a host of 8.
      row("axes: {tp: 4, fsdp: 2, tq: 2}\nprocesses: 2\n", spans("tp", 16, 8)),
      row("axes: {tp: 2, tq: 4, fsdp: 4}\nprocesses: 4\n",
          spans("tp", 32, 8) + "\n" + spans("tq", 16, 8)),
      // Behind fsdp, tp would still span four hosts of 4.
      row("axes: {tp: 4, fsdp: 4, tq: 4}\nprocesses: 16\n", ""),
      row("axes: {tp: 4, tq: 4, fsdp: 4}\nprocesses: 16\n", spans("tq", 16, 4)),
  });
}

TEST_CASE("unanchored-pattern: a number that begins with another number") {
  const auto row = [](std::string pattern, std::string expected) {
    return Row{"unanchored-pattern",
               "tp:2",
               {{std::move(pattern), "[tp]"}},
               {{"layers.1.q.weight", "[64]"},
                {"layers.2.q.weight", "[64]"},
                {"layers.10.q.weight", "[64]"},
                {"layers.11.q.weight", "[64]"}},
               std::move(expected)};
  };
  CheckRows({
      row("layers.1",
          "pattern `layers.1` also matches `layers.10.q.weight` (2 of 3 "
          "parameters `layers.*.q.weight`), where the match ends inside a "
          "word"),
      row("layers.(1|2)",
          "pattern `layers.(1|2)` also matches `layers.10.q.weight` (2 of 4 "
          "parameters `layers.*.q.weight`), where the match ends inside a "
          "word"),
      row("layers.(1|2)\\b", ""),
      row("layers.[0-9]", ""),
      row("layers.\\d", ""),
      row("layers.\\d+", ""),
      row("layers.1.q", ""),
  });
}

TEST_CASE("fused-parts: an axis that divides the sum and not each part") {
  const auto row = [](std::string_view mesh, std::string shape,
                      std::string expected) {
    return Row{"fused-parts",
               mesh,
               {{".", "[tp, null]"}},
               {{"layers.0.self_attn.qkv_proj.weight", std::move(shape)}},
               std::move(expected),
               kModel};
  };
  CheckRows({
      row("tp:2", "[64, 32]", ""),
      row("tp:16", "[64, 32]", ""),
      row("tp:32", "[64, 32]",
          "dimension 0 of `layers.0.self_attn.qkv_proj.weight` is 64 wide and "
          "holds several parts, keys 16, axis `tp` has 32: 16 % 32 = 16"),
      row("tp:64", "[64, 32]",
          "dimension 0 of `layers.0.self_attn.qkv_proj.weight` is 64 wide and "
          "holds several parts, queries 32, axis `tp` has 64: 32 % 64 = 32"),
  });
}

}  // namespace
}  // namespace shardc
