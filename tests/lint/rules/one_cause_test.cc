// Checks that one cause gives one finding, and that its consequences give none.
#include <set>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

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
  const auto found = FindingsOf(example);
  REQUIRE(found.size() == 1);
  CHECK(found[0].code->Id() == "SHD220");
  CHECK(found[0].params.size() == 4);
  CHECK(found[0].labels.size() == 1);
}

TEST_CASE("the surplus entries of a spec are one finding") {
  const auto message = [](const char* spec) {
    const std::string rules =
        "version: 1\nrules:\n  - {match: 'bias', spec: " + std::string(spec) +
        "}\n";
    std::string out;
    for (const Finding& finding :
         FindingsOf({.mesh = "fsdp:2,tp:4",
         .rules = rules,
         .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "up/bias": {"shape": [4096], "dtype": "BF16"}}})"})) {
      if (finding.code->Id() == "SHD204") out += finding.message + "\n";
    }
    return out;
  };
  CHECK(message("[FSDP, null, [TP, dp], null]") ==
        "the spec of `up/bias` has 4 entries, the parameter 1 dimension; the "
        "last 3 entries, [null, \"tp\", null], have no dimension\n");
  CHECK(message("[FSDP, null, null]") ==
        "the spec of `up/bias` has 3 entries, the parameter 1 dimension; the "
        "last 2 entries, [null, null], have no dimension\n");
  CHECK(message("[FSDP]") == "");
}

TEST_CASE("an idle tensor parallel axis is reported once") {
  LintExample example{.mesh = "fsdp:2,tp:4",
                      .rules = R"(version: 1
rules:
  - {match: 'kernel', spec: [FSDP, null]}
)",
                      .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "layers/0/up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}})"};
  CHECK(CodesOf(example).count("SHD206") == 1);
  CHECK(CodesOf(example).count("SHD225") == 0);
  example.rules = R"(version: 1
axes: {head: tp}
rules:
  - {match: 'kernel', spec: [FSDP, null]}
)";
  CHECK(CodesOf(example).count("SHD206") == 0);
  CHECK(CodesOf(example).count("SHD225") == 1);
}

TEST_CASE("an axis that the mesh lacks is one finding, however many name it") {
  const auto found = FindingsOf({.mesh = "fsdp:2,tp:4",
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

TEST_CASE(
    "a parameter that the policy replicates is reported once, with the "
    "reason") {
  const auto codes = CodesOf({.mesh = "tp:8",
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

TEST_CASE("projections that split their input are one finding") {
  const auto found = FindingsOf({.mesh = "fsdp:2,tp:4",
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
  CHECK(
      found[0].message ==
      "`l/0/attn/q_proj/kernel`, `l/0/attn/k_proj/kernel` and "
      "`l/0/attn/v_proj/kernel` split their input over \"tp\" and do not split "
      "the heads: the result is all-reduced over that axis before attention");
}

TEST_CASE(
    "experts that are not split over their axis are one finding, and the axis "
    "is not reported as well") {
  const auto codes = CodesOf({.mesh = "fsdp:2,ep:4",
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

TEST_CASE("rules over axes that the mesh lacks are one finding") {
  const LintExample example{.mesh = "tp:8",
                            .rules = R"(version: 1
rules:
  - {match: 'up', spec: [FSDP, null]}
  - {match: 'down', spec: [null, [FSDP, SP]]}
  - {match: 'embedding', spec: Replicated}
  - {match: 'gate', spec: [null, TP]}
)",
                            .manifest = R"({"schema": "shardc.manifest/v1",
 "separator": "/", "params": {
  "l/0/gate/kernel": {"shape": [256, 512], "dtype": "F32"},
  "embed_tokens/embedding": {"shape": [512, 256], "dtype": "F32"},
  "l/0/up/kernel": {"shape": [256, 512], "dtype": "F32"},
  "l/0/down/kernel": {"shape": [512, 256], "dtype": "F32"}}})"};
  std::vector<std::string> whole;
  for (const Finding& finding : FindingsOf(example)) {
    if (finding.code->Id() == "SHD207") whole.push_back(finding.message);
  }
  REQUIRE(whole.size() == 2);
  CHECK(whole[0] ==
        "the rules split over `fsdp` and `sp` only, which the mesh (tp=8) "
        "lacks or has with size 1: `l/0/up/kernel` and `l/0/down/kernel`, 1 "
        "MiB (50.0 % of the model), are replicated on 8 devices");
  CHECK(whole[1].starts_with("`embed_tokens/embedding`, 512 KiB (25.0 %"));
}
}  // namespace
}  // namespace shardc
