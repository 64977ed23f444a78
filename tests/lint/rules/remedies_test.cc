// Places and remedies of findings whose cause is one of several lines.
#include <string>
#include <string_view>

#include "doctest/doctest.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

// Returns the lines and the helps of the findings with this code. `rules` is a
// rules file without its version, and `params` has the entries of a manifest.
// `step` may have a model and the sizes of a step.
std::string RemediesOf(std::string_view code, std::string_view mesh,
                       const std::string& rules, const std::string& params,
                       LintExample step = {}) {
  const std::string file = "version: 1\n" + rules;
  const std::string manifest =
      R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {)" +
      params + "}}";
  step.mesh = mesh;
  step.rules = file;
  step.manifest = manifest;
  std::string out;
  for (const Finding& finding : FindingsOf(step)) {
    if (finding.code->Id() != code) continue;
    const Place& at = finding.place;
    out += at.HasPosition() ? std::to_string(at.source->At(at.begin).line)
                            : std::string("no line");
    out += ": " + finding.help + "\n";
  }
  return out;
}

TEST_CASE("a cache that is resharded is reported where its axes differ") {
  const auto remedies = [](const std::string& definitions) {
    return RemediesOf(
        "SHD401", "fsdp:2,sp:2,tp:4",
        definitions + "rules:\n  - {match: 'q_proj', spec: [FSDP, HEAD]}\n", R"(
  "q_proj/kernel": {"shape": [1024, 4096], "dtype": "BF16"})");
  };
  CHECK(remedies("axes:\n  decode_batch: [fsdp, dp]\n  decode_kv_head: []\n") ==
        "4: give the decode axis rules the axes of the standard ones, or run "
        "prefill with decode's\n");
  const std::string registered = "register:\n  KV_HEAD: {rule: kv_head, ";
  CHECK(remedies(registered + "generation: [], override: true}\n") ==
        "3: give `generation` of this registration the axes of its `rule`\n");
  CHECK(
      remedies(registered + "generation: kv_head, override: true}\n").empty());
}

TEST_CASE("a reshard between modes has the remedy of its cause") {
  const auto remedies = [](const std::string& text) {
    return RemediesOf("SHD407", "fsdp:2,tp:4", text, R"(
  "up": {"shape": [1024, 4096], "dtype": "BF16"},
  "down": {"shape": [1024, 4096], "dtype": "BF16"})");
  };
  const std::string down = "  - {match: 'down', spec: [TP]}\n";
  CHECK(remedies("rules:\n" + down +
                 "  - {match: 'up', spec: [TP], modes: {decode: [FSDP]}}\n") ==
        "4: remove the mode's spec if one spec serves both\n");
  CHECK(remedies("rules:\n" + down +
                 "  - {match: 'up', spec: [TP], modes: {train: [FSDP]}}\n") ==
        "4: remove the mode's spec if one spec serves both\n");
  CHECK(remedies("axes: {decode_head: fsdp}\nrules:\n" + down +
                 "  - {match: 'up', spec: [HEAD]}\n") ==
        "5: give the decode axis rules (or `generation` of the registrations) "
        "that the spec names the axes of the standard ones, if one spec serves "
        "both\n");
  CHECK(
      remedies("rules:\n  - {match: 'up', spec: {like: down}}\n"
               "  - {match: 'down', spec: [TP], modes: {decode: [FSDP]}}\n") ==
      "3: give the parameter that `like` names one spec in both modes\n"
      "4: remove the mode's spec if one spec serves both\n");
}

TEST_CASE("a separator that other rules of the file need stays") {
  const auto remedies = [](const std::string& separator,
                           const std::string& patterns) {
    return RemediesOf("SHD113", "tp:4",
                      "separator: '" + separator + "'\nrules:\n" + patterns +
                          "  - {match: 'norm', spec: [_]}\n",
                      R"(
  "norm": {"shape": [64], "dtype": "BF16"},
  "embed/table": {"shape": [1024, 64], "dtype": "BF16"},
  "attn/q/kernel": {"shape": [64, 64], "dtype": "BF16"})");
  };
  const std::string embed = "  - {match: 'embed/table$', spec: [TP]}\n";
  const std::string q = "  - {match: 'attn\\.q\\.kernel$', spec: [TP]}\n";
  CHECK(remedies("/", embed + q) == "5: write `/` for `\\.` in the pattern\n");
  CHECK(remedies("/", q) == "4: set `separator: \".\"` in the rules file\n");
  CHECK(remedies(".", embed + q) == "4: write `\\.` for `/` in the pattern\n");
  CHECK(remedies(".", embed) ==
        "4: set `separator: \"/\"` in the rules file\n");
}

TEST_CASE("without its catch-all a policy that replicates reports nothing") {
  const auto remedies = [](const std::string& policy) {
    return RemediesOf("SHD101", "tp:4",
                      "policy: {unmatched: " + policy +
                          "}\nrules:\n  - {match: 'up', spec: [TP]}\n"
                          "  - {match: '.*', spec: Replicated}\n",
                      R"(
  "up": {"shape": [1024, 4096], "dtype": "BF16"},
  "other": {"shape": [1024, 4096], "dtype": "BF16"})");
  };
  const std::string first = "5: write rules for them above the catch-all, or ";
  const std::string last = ", so that an unmatched parameter is an error\n";
  CHECK(remedies("error") == first + "remove the catch-all" + last);
  CHECK(remedies("replicate") ==
        first + "set `policy: {unmatched: error}` and remove the catch-all" +
            last);
}

TEST_CASE("findings of a decode axis rule name it and are at its line") {
  const auto remedies = [](const std::string& definitions, const char* code) {
    return RemediesOf(
        code, "dp:3,fsdp:2,tp:4",
        definitions + "rules:\n  - {match: 'q_proj', spec: [FSDP, TP]}\n", R"(
  "self_attn/q_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"})",
        {.model = R"({"num_attention_heads": 16, "num_key_value_heads": 4,
                     "head_dim": 64, "hidden_size": 1024})",
         .batch = 8});
  };
  const std::string kv = "axes:\n  batch: fsdp\n  decode_kv_head: dp\n";
  CHECK(remedies(kv, "SHD404") ==
        "4: give `decode_kv_head` an axis whose size divides 4, or leave it "
        "unsharded and split the length instead\n");
  CHECK(remedies(kv, "SHD405") ==
        "4: split KV heads over the axes of the query heads, or over the first "
        "of these axes\n");
  CHECK(remedies("axes:\n  batch: fsdp\n  decode_head: dp\n", "SHD409") ==
        "4: give `decode_head` an axis whose size divides the heads\n");
  CHECK(remedies("axes:\n  batch: fsdp\n  decode_batch: dp\n", "SHD408") ==
        "4: use a batch of 9, or name fewer axes in the axis rule "
        "`decode_batch`\n");
  CHECK(remedies("axes:\n  batch: [fsdp, dp]\n", "SHD408") ==
        "3: use a batch of 12, or name fewer axes in the axis rule `batch`\n");
  CHECK(
      remedies("register:\n  BATCH: {rule: dp, override: true}\n", "SHD408") ==
      "3: use a batch of 9, or name fewer axes in this registration\n");
}

TEST_CASE("a down projection over the axis of no up projection keeps it") {
  const auto remedies = [](const char* up, const char* down) {
    return RemediesOf("SHD215", "fsdp:2,tp:4",
                      "rules:\n  - {match: 'up', spec: " + std::string(up) +
                          "}\n  - {match: 'down', spec: " + down + "}\n",
                      R"(
  "mlp/up_proj/kernel": {"shape": [1024, 4096], "dtype": "BF16"},
  "mlp/down_proj/kernel": {"shape": [4096, 1024], "dtype": "BF16"})");
  };
  CHECK(remedies("[FSDP, null]", "[TP, FSDP]") ==
        "4: split the output dimension of the up projection over \"tp\"\n");
  CHECK(remedies("[FSDP, TP]", "[FSDP, null]") ==
        "4: split the input dimension of the down projection over \"tp\"\n");
  CHECK(remedies("[FSDP, TP]", "[TP, FSDP]").empty());
}

TEST_CASE("a sibling without a rule has no place for an ignore comment") {
  CHECK(RemediesOf("SHD115", "fsdp:2,tp:4", R"(policy: {unmatched: replicate}
rules:
  - {match: '[01]/up', spec: [FSDP]}
)",
                   R"(
  "layers/0/up": {"shape": [1024, 4096], "dtype": "BF16"},
  "layers/1/up": {"shape": [1024, 4096], "dtype": "BF16"},
  "layers/2/up": {"shape": [1024, 4096], "dtype": "BF16"})") ==
        "no line: write one rule for all of them\n");
}

}  // namespace
}  // namespace shardc
