// Places and remedies of findings whose cause is one of several lines.
#include <string>
#include <string_view>

#include "doctest/doctest.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

// Returns the lines and the helps of the findings with this code.
std::string RemediesOf(const LintExample& example, std::string_view code) {
  std::string out;
  for (const Finding& finding : FindingsOf(example)) {
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
    const std::string rules =
        "version: 1\n" + definitions +
        "rules:\n  - {match: 'q_proj', spec: [FSDP, HEAD]}\n";
    const LintExample example{
        .mesh = "fsdp:2,sp:2,tp:4",
        .rules = rules,
        .manifest =
            R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "q_proj/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}})"};
    return RemediesOf(example, "SHD401");
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
    const std::string rules = "version: 1\n" + text;
    const LintExample example{
        .mesh = "fsdp:2,tp:4",
        .rules = rules,
        .manifest =
            R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "up": {"shape": [1024, 4096], "dtype": "BF16"},
  "down": {"shape": [1024, 4096], "dtype": "BF16"}}})"};
    return RemediesOf(example, "SHD407");
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
    const std::string rules = "version: 1\nseparator: '" + separator +
                              "'\nrules:\n" + patterns +
                              "  - {match: 'norm', spec: [_]}\n";
    const LintExample example{
        .mesh = "tp:4",
        .rules = rules,
        .manifest =
            R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "norm": {"shape": [64], "dtype": "BF16"},
  "embed/table": {"shape": [1024, 64], "dtype": "BF16"},
  "attn/q/kernel": {"shape": [64, 64], "dtype": "BF16"}}})"};
    return RemediesOf(example, "SHD113");
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
    const std::string rules = "version: 1\npolicy: {unmatched: " + policy +
                              "}\nrules:\n  - {match: 'up', spec: [TP]}\n"
                              "  - {match: '.*', spec: Replicated}\n";
    const LintExample example{
        .mesh = "tp:4",
        .rules = rules,
        .manifest =
            R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "up": {"shape": [1024, 4096], "dtype": "BF16"},
  "other": {"shape": [1024, 4096], "dtype": "BF16"}}})"};
    return RemediesOf(example, "SHD101");
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
    const std::string rules =
        "version: 1\n" + definitions +
        "rules:\n  - {match: 'q_proj', spec: [FSDP, TP]}\n";
    const LintExample example{
        .mesh = "dp:3,fsdp:2,tp:4",
        .rules = rules,
        .manifest =
            R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "self_attn/q_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"}}})",
        .model = R"({"num_attention_heads": 16, "num_key_value_heads": 4,
                     "head_dim": 64, "hidden_size": 1024})",
        .batch = 8};
    return RemediesOf(example, code);
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
    const std::string rules =
        "version: 1\nrules:\n  - {match: 'up', spec: " + std::string(up) +
        "}\n  - {match: 'down', spec: " + down + "}\n";
    const LintExample example{
        .mesh = "fsdp:2,tp:4",
        .rules = rules,
        .manifest =
            R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "mlp/up_proj/kernel": {"shape": [1024, 4096], "dtype": "BF16"},
  "mlp/down_proj/kernel": {"shape": [4096, 1024], "dtype": "BF16"}}})"};
    return RemediesOf(example, "SHD215");
  };
  CHECK(remedies("[FSDP, null]", "[TP, FSDP]") ==
        "4: split the output dimension of the up projection over \"tp\"\n");
  CHECK(remedies("[FSDP, TP]", "[FSDP, null]") ==
        "4: split the input dimension of the down projection over \"tp\"\n");
  CHECK(remedies("[FSDP, TP]", "[TP, FSDP]").empty());
}

TEST_CASE("a sibling without a rule has no place for an ignore comment") {
  const LintExample example{
      .mesh = "fsdp:2,tp:4",
      .rules = R"(version: 1
policy: {unmatched: replicate}
rules:
  - {match: '[01]/up', spec: [FSDP]}
)",
      .manifest =
          R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "layers/0/up": {"shape": [1024, 4096], "dtype": "BF16"},
  "layers/1/up": {"shape": [1024, 4096], "dtype": "BF16"},
  "layers/2/up": {"shape": [1024, 4096], "dtype": "BF16"}}})"};
  CHECK(RemediesOf(example, "SHD115") ==
        "no line: write one rule for all of them\n");
}

}  // namespace
}  // namespace shardc
