#include "plan/compile.h"

#include <doctest/doctest.h>

#include "emit/emit.h"
#include "parse/manifest.h"
#include "parse/mesh.h"
#include "parse/rules.h"
#include "plan/fingerprint.h"
#include "source/json.h"

namespace shardc {
namespace {

struct Inputs {
  std::string mesh;
  std::string rules;
  std::string manifest;  // the params object
  CompileOptions options = {};
};

std::unique_ptr<const Compiled> Run(const Inputs& in, Findings& findings) {
  const auto mesh = ReadMesh(in.mesh, std::nullopt, findings);
  const std::vector<std::string> files = {"builtin:case"};
  auto rules = ReadRules(
      files,
      [&](std::string_view) { return MakeSource("rules.yaml", in.rules); },
      findings);
  const auto document = JsonDocument::Parse(
      MakeSource("m.json", "{\"schema\": \"shardc.manifest/v1\", \"params\": " +
                               in.manifest + "}"),
      findings);
  if (!mesh || !rules || document == nullptr) return nullptr;
  auto manifest = ParseManifest(*document, findings);
  if (!manifest) return nullptr;
  SettleSeparator(*manifest, findings);
  return Compile(*mesh, std::move(*rules), std::move(*manifest), in.options,
                 findings);
}

std::unique_ptr<const Compiled> Good(const Inputs& in) {
  Findings findings;
  auto compiled = Run(in, findings);
  for (const Finding& finding : findings.all()) MESSAGE(finding.message);
  REQUIRE(compiled != nullptr);
  return compiled;
}

std::string JsonOf(const Plan& plan) {
  return TextOf([&](Sink& out) { WritePlanJson(plan, {}, out); });
}

// Returns the line of the plan's JSON for one parameter.
std::string Line(const Compiled& compiled, const std::string& name) {
  const std::string json = JsonOf(compiled.plan);
  const size_t at = json.find("\n    \"" + name + "\": ");
  REQUIRE(at != std::string::npos);
  std::string line = json.substr(at + 5, json.find('\n', at + 1) - at - 5);
  if (line.ends_with(',')) line.pop_back();
  return line;
}

struct PlanCase {
  const char* what;
  Inputs in;
  std::string param;
  std::string expected;  // the parameter's object
};

// The expected entries were computed by hand.
TEST_CASE("the entry of a parameter, by case") {
  const std::vector<PlanCase> cases = {
      {"a composite axis divides by the product",
       {"dp:2,fsdp:4,tp:4,sp:2", "rules: [{match: w, spec: ColumnWise}]",
        R"({"a/w": {"shape": [4096, 4096], "dtype": "BF16"}})"},
       "a/w",
       R"({"shape": [4096, 4096], "dtype": "BF16", "spec": [["fsdp", "sp"], "tp"], "rule": "w", "shard_shape": [512, 1024], "bytes_per_device": 1048576})"},
      {"an absent parallelism axis is left out",
       {"fsdp:4,tp:4", "rules: [{match: w, spec: ColumnWise}]",
        R"({"a/w": {"shape": [4096, 4096], "dtype": "BF16"}})"},
       "a/w",
       R"({"shape": [4096, 4096], "dtype": "BF16", "spec": ["fsdp", "tp"], "rule": "w", "shard_shape": [1024, 1024], "bytes_per_device": 2097152})"},
      {"a dropped dimension with its bytes",
       {"fsdp:8,tp:4", "rules: [{match: w, spec: [tp, fsdp], illegal: drop}]",
        R"({"a/w": {"shape": [50257, 768], "dtype": "F32"}})"},
       "a/w",
       R"({"shape": [50257, 768], "dtype": "F32", "spec": [null, "fsdp"], "rule": "w", "shard_shape": [50257, 96], "bytes_per_device": 19298688, "corrections": [{"dim": 0, "from": "tp", "to": null, "reason": "indivisible", "bytes_per_device_added": 14474016}]})"},
      {"shrink keeps the longest run that divides",
       {"fsdp:4,tp:4,sp:3",
        "rules: [{match: w, spec: [[fsdp, sp], tp], illegal: shrink}]",
        R"({"a/w": {"shape": [8, 8], "dtype": "F32"}})"},
       "a/w",
       R"({"shape": [8, 8], "dtype": "F32", "spec": ["fsdp", "tp"], "rule": "w", "shard_shape": [2, 2], "bytes_per_device": 16, "corrections": [{"dim": 0, "from": ["fsdp", "sp"], "to": "fsdp", "reason": "indivisible", "bytes_per_device_added": 11}]})"},
      {"pad rounds the largest shard up",
       {"fsdp:8,tp:4", "rules: [{match: w, spec: [tp, fsdp], illegal: pad}]",
        R"({"a/w": {"shape": [50257, 768], "dtype": "F32"}})"},
       "a/w",
       R"({"shape": [50257, 768], "dtype": "F32", "spec": ["tp", "fsdp"], "rule": "w", "shard_shape": [12565, 96], "bytes_per_device": 4824960, "uneven": true})"},
      {"a mode's own spec",
       {"fsdp:4,tp:4",
        "rules: [{match: w, spec: [fsdp, tp], modes: {decode: [null, tp]}}]",
        R"({"a/w": {"shape": [8, 8], "dtype": "F32"}})"},
       "a/w",
       R"({"shape": [8, 8], "dtype": "F32", "spec": ["fsdp", "tp"], "rule": "w", "shard_shape": [2, 2], "bytes_per_device": 16, "modes": {"decode": {"spec": [null, "tp"], "shard_shape": [8, 2], "bytes_per_device": 64}}})"},
      {"no rule is tried for a scalar",
       {"fsdp:4,tp:4", "rules: [{match: w, spec: [fsdp, tp]}]",
        R"({"a/w": {"shape": [], "dtype": "F32"}})"},
       "a/w",
       R"({"shape": [], "dtype": "F32", "spec": [], "rule": null, "shard_shape": [], "bytes_per_device": 4})"},
      {"names alone have no sizes",
       {"fsdp:4,tp:4", "rules: [{match: w, spec: [fsdp, tp]}]",
        R"({"a/w": {"shape": null, "dtype": null}})"},
       "a/w",
       R"({"shape": null, "dtype": null, "spec": ["fsdp", "tp"], "rule": "w", "shard_shape": null, "bytes_per_device": null})"},
      {"like takes the other's spec, fitted to this rank",
       {"fsdp:4,tp:4",
        "separator: '.'\n"
        "rules: [{match: '(.*)\\.w_scale$', spec: {like: '\\1.w'}},"
        " {match: '\\.w$', spec: [tp, fsdp]}]",
        R"({"a.w": {"shape": [8, 8], "dtype": "F32"}, "a.w_scale": {"shape": [8], "dtype": "F32"}})"},
       "a.w_scale",
       R"({"shape": [8], "dtype": "F32", "spec": ["tp"], "rule": "(.*)\\.w_scale$", "shard_shape": [2], "bytes_per_device": 8})"},
      {"a placed expert lives at one coordinate",
       {"ep:4,tp:4",
        "rules: [{match: 'e/(\\d+)/w', spec: [tp, null], place: {axis: ep,"
        " index: 'e/(\\d+)/', count: 8}}]",
        R"({"e/5/w": {"shape": [8, 8], "dtype": "F32"}})"},
       "e/5/w",
       R"({"shape": [8, 8], "dtype": "F32", "spec": ["tp", null], "rule": "e/(\\d+)/w", "shard_shape": [2, 8], "bytes_per_device": 64, "placement": {"axis": "ep", "coordinate": 2}})"},
      {"without a count there are as many as the names say",
       {"ep:2,tp:4",
        "rules: [{match: 'e/(\\d+)/w', spec: [tp, null], place: {axis: ep,"
        " index: 'e/(\\d+)/'}}]",
        R"({"e/0/w": {"shape": [8, 8], "dtype": "F32"}, "e/1/w": {"shape": [8, 8], "dtype": "F32"}, "e/2/w": {"shape": [8, 8], "dtype": "F32"}, "e/3/w": {"shape": [8, 8], "dtype": "F32"}})"},
       "e/2/w",
       R"({"shape": [8, 8], "dtype": "F32", "spec": ["tp", null], "rule": "e/(\\d+)/w", "shard_shape": [2, 8], "bytes_per_device": 64, "placement": {"axis": "ep", "coordinate": 1}})"},
      {"like takes the other's place too",
       {"ep:4,tp:4",
        "rules: [{match: '(.*)/scale$', spec: {like: '\\1/w'}},"
        " {match: 'e/(\\d+)/w', spec: [tp, null], place: {axis: ep,"
        " index: 'e/(\\d+)/', count: 8}}]",
        R"({"e/5/w": {"shape": [8, 8], "dtype": "F32"}, "e/5/scale": {"shape": [8], "dtype": "F32"}})"},
       "e/5/scale",
       R"({"shape": [8], "dtype": "F32", "spec": ["tp"], "rule": "(.*)/scale$", "shard_shape": [2], "bytes_per_device": 8, "placement": {"axis": "ep", "coordinate": 2}})"},
      {"min_size comes before legality",
       {"fsdp:4,tp:4",
        "policy: {min_size: 100}\nrules: [{match: w, spec: [fsdp, tp]}]",
        R"({"a/w": {"shape": [7, 7], "dtype": "F32"}})"},
       "a/w",
       R"({"shape": [7, 7], "dtype": "F32", "spec": [], "rule": "w", "shard_shape": [7, 7], "bytes_per_device": 196, "corrections": [{"dim": null, "from": ["fsdp", "tp"], "to": [], "reason": "min_size", "bytes_per_device_added": 184}]})"},
  };
  for (const PlanCase& c : cases) {
    CAPTURE(c.what);
    const auto compiled = Good(c.in);
    CHECK(Line(*compiled, c.param) == "\"" + c.param + "\": " + c.expected);
  }
}

// The rule of `a/b/w` takes the spec of `b/w`.
TEST_CASE("a rewrite of like holds what the pattern matched") {
  const std::string manifest =
      R"({"b/w": {"shape": [8], "dtype": "F32"}, "a/b/w": {"shape": [8], "dtype": "F32"}})";
  // The pattern of the rule, and the rule.
  const std::vector<std::pair<std::string, std::string>> rewrites = {
      {"b/w$", "{match: 'b/w$', spec: {like: '\\0'}}"},
      {"(b)/(w)$", "{match: '(b)/(w)$', spec: {like: '\\1/\\2'}}"},
      {"(b)/(w)$", "{match: '(b)/(w)$', spec: {like: '\\1\\/\\2'}}"},
      {"(?:a)/(.*)$", "{match: '(?:a)/(.*)$', spec: {like: '\\1'}}"},
      {".", "{match: '.', spec: {like: b/w}}"}};
  for (const auto& rewrite : rewrites) {
    const std::string& rule = rewrite.second;
    CAPTURE(rule);
    const auto compiled =
        Good({"fsdp:4,tp:4",
              "rules: [{match: '^b/w$', spec: [tp]}, " + rule + "]", manifest});
    CHECK(
        Line(*compiled, "a/b/w") ==
        R"("a/b/w": {"shape": [8], "dtype": "F32", "spec": ["tp"], "rule": ")" +
            rewrite.first + R"(", "shard_shape": [2], "bytes_per_device": 8})");
  }
}

TEST_CASE("input that cannot be compiled is a finding") {
  struct Case {
    std::string rules;
    std::string manifest;
    std::string_view code;
  };
  const std::vector<Case> cases = {
      {"rules: [{match: w, spec: [fsbp]}]",
       R"({"w": {"shape": [8], "dtype": "F32"}})", "unknown-name"},
      {"rules: [{match: 'w(?=x)', spec: [fsdp]}]",
       R"({"w": {"shape": [8], "dtype": "F32"}})", "regex-syntax"},
      {"rules: [{match: '(.*)s$', spec: {like: '\\1x'}}]",
       R"({"ws": {"shape": [8], "dtype": "F32"}})", "reference"},
      {"rules: [{match: 'w', spec: {like: '\\3'}}]",
       R"({"w": {"shape": [8], "dtype": "F32"}})", "reference"},
      {"rules: [{match: 'a', spec: {like: 'b'}}, {match: b, spec: {like: a}}]",
       R"({"a": {"shape": [8], "dtype": "F32"}, "b": {"shape": [8], "dtype": "F32"}})",
       "cycle"},
      // The complete name is matched, so the parameter refers to itself.
      {"rules: [{match: '.*', spec: {like: '\\0'}}]",
       R"({"w": {"shape": [8], "dtype": "F32"}})", "cycle"},
      // Only a part is matched, and no parameter has this part as its name.
      {"rules: [{match: 'w', spec: {like: '\\0'}}]",
       R"({"aw": {"shape": [8], "dtype": "F32"}})", "reference"},
      {"rules: [{match: 'e', spec: [tp], place: {axis: fsdp, index: 'e(\\d+)',"
       " count: 4}}]",
       R"({"e4": {"shape": [8], "dtype": "F32"}})", "reference"},
      {"rules: [{match: 'e', spec: [tp], place: {axis: fsdp, index: 'e(\\d+)',"
       " count: 4}}]",
       R"({"ex": {"shape": [8], "dtype": "F32"}})", "reference"},
      {"rules: [{match: 'e', spec: [tp], place: {axis: tp, index: 'e(\\d+)',"
       " count: 4}}]",
       R"({"e0": {"shape": [8], "dtype": "F32"}})", "spec"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.rules);
    Findings findings;
    CHECK(Run({"fsdp:4,tp:4", c.rules, c.manifest}, findings) == nullptr);
    REQUIRE(!findings.all().empty());
    CHECK(findings.all()[0].code->name == c.code);
    CHECK(findings.errors() == 1);
  }
}

TEST_CASE("an unknown name is reported once for all modes that share it") {
  struct Case {
    std::string rules;
    std::string names;  // in the order of the findings
  };
  const std::vector<Case> cases = {
      {"rules: [{match: w, spec: [aa]}]", "aa "},
      // Insert follows decode, and shares the spec of train.
      {"rules: [{match: w, spec: [aa], modes: {decode: [fsdp]}}]", "aa "},
      {"rules: [{match: w, spec: [aa], modes: {decode: [bb]}}]", "aa bb "},
      {"rules: [{match: w, spec: [aa], modes: {prefill: [bb], insert: [cc]}}]",
       "aa bb cc "},
      {"rules: [{match: w, spec: [aa, bb], modes: {decode: [fsdp]}},"
       " {match: v, spec: [aa]}]",
       "aa bb aa "},
      // The name is written once, in the bundle.
      {"bundles: {B: [aa]}\nrules: [{match: w, spec: B}, {match: v, spec: B}]",
       "aa "},
  };
  for (const Case& c : cases) {
    CAPTURE(c.rules);
    Findings findings;
    CHECK(Run({"fsdp:4,tp:4", c.rules,
               R"({"w": {"shape": [8], "dtype": "F32"}})"},
              findings) == nullptr);
    std::string names;
    for (const Finding& finding : findings.all()) {
      names += finding.message.substr(1, 2) + " ";
    }
    CHECK(names == c.names);
  }
}

TEST_CASE("unmatched and illegal parameters are part of the plan") {
  const auto compiled = Good(
      {"fsdp:4,tp:4", "rules: [{match: w, spec: [fsdp, tp]}]",
       R"({"w": {"shape": [6, 8], "dtype": "F32"}, "b": {"shape": [8], "dtype": "F32"}})"});
  CHECK(compiled->plan.summary.unmatched == 1);
  CHECK(compiled->plan.summary.illegal == 1);
  CHECK(compiled->plan.summary.bytes == 224);
  // The parameter with an illegal spec has no size on a device, so the sum over
  // all parameters is unknown too.
  CHECK_FALSE(compiled->plan.summary.bytes_per_device.has_value());
  CHECK(
      Line(*compiled, "w") ==
      R"("w": {"shape": [6, 8], "dtype": "F32", "spec": ["fsdp", "tp"], "rule": "w", "shard_shape": null, "bytes_per_device": null})");
}

TEST_CASE("the fullest device counts placed tensors by coordinate") {
  // Each coordinate has 2 experts. Those of coordinate 1 are larger.
  const auto compiled = Good(
      {"ep:2",
       "rules: [{match: 'e(\\d+)', spec: [null], place: {axis: ep, index:"
       " 'e(\\d+)', count: 4}}, {match: n, spec: [null]}]",
       R"({"e0": {"shape": [1], "dtype": "F32"}, "e1": {"shape": [1], "dtype": "F32"},
           "e2": {"shape": [8], "dtype": "F32"}, "e3": {"shape": [1], "dtype": "F32"},
           "n": {"shape": [2], "dtype": "F32"}})"});
  CHECK(compiled->plan.summary.bytes_per_device == 8 + 36);
}

TEST_CASE("the fingerprint is the hash of the meaning in canonical JSON") {
  const std::string rules =
      "rules: [{match: '^b', spec: [fsdp], modes: {decode: [null]}},"
      " {match: '', spec: [null]}]";
  const std::string manifest =
      R"({"z": {"shape": [2], "dtype": "F32"}, "b\"\u00e9/": {"shape": [8], "dtype": "BF16"}})";
  const auto compiled = Good({"fsdp:4", rules, manifest});
  // The four modes have the same attention specs here.
  const std::string specs =
      R"({"bias":["fsdp",null,null,null],"key":["fsdp",null,null,null],)"
      R"("kv_segment_ids":["fsdp",null],"mask":["fsdp",null,null,null],)"
      R"("output":["fsdp",null,null,null],"q_segment_ids":["fsdp",null],)"
      R"("query":["fsdp",null,null,null],"query3d":["fsdp",null,null],)"
      R"("value":["fsdp",null,null,null]})";
  const std::string attention = R"("attention":{"decode":)" + specs +
                                R"(,"insert":)" + specs + R"(,"prefill":)" +
                                specs + R"(,"train":)" + specs + "},";
  CHECK(
      TextOf([&](Sink& out) { WriteCanonicalPlan(compiled->plan, out); }) ==
      "{" + attention +
          "\"mesh\":{\"axes\":[{\"name\":\"fsdp\",\"size\":4,\"type\":\"auto\"}"
          "],\"devices\":4},\"modes\":[\"train\",\"prefill\",\"decode\","
          "\"insert\"],\"params\":{\"b\\\"\xc3\xa9/\":{\"dtype\":\"BF16\","
          "\"modes\":{\"decode\":[null]},\"shape\":[8],\"spec\":[\"fsdp\"]},"
          "\"z\":{\"dtype\":\"F32\",\"shape\":[2],\"spec\":[null]}}}");
  // The text of patterns and the order of parameters do not change the
  // fingerprint.
  const auto other = Good(
      {"fsdp:4",
       "rules: [{match: '^b.', spec: [fsdp], modes: {decode: [null]}},"
       " {match: 'z', spec: [null]}]",
       R"({"b\"\u00e9/": {"shape": [8], "dtype": "BF16"}, "z": {"shape": [2], "dtype": "F32"}})"});
  CHECK(Fingerprint(compiled->plan) == Fingerprint(other->plan));
  const auto third = Good({"fsdp:2", rules, manifest});
  CHECK(Fingerprint(compiled->plan) != Fingerprint(third->plan));
}

TEST_CASE("threads do not change a byte") {
  std::string manifest = "{";
  for (int i = 0; i < 20000; ++i) {
    if (i > 0) manifest += ",";
    manifest += "\"layers/" + std::to_string(i) + "/" + (i % 3 ? "w" : "b") +
                "\": {\"shape\": [8, 8], \"dtype\": \"F32\"}";
  }
  Inputs in = {"fsdp:4,tp:2",
               "rules: [{match: 'w$', spec: [fsdp, tp]}, {match: '.*', spec: "
               "Replicated}]",
               manifest + "}"};
  const std::string one = JsonOf(Good(in)->plan);
  in.options.threads = 8;
  CHECK(one == JsonOf(Good(in)->plan));
}

TEST_CASE("a matching pattern excludes a parameter from weight decay") {
  Inputs in = {
      "fsdp:4", "rules: [{match: '.*', spec: Replicated}]",
      R"({"a/bias": {"shape": [4], "dtype": "F32"}, "a/w": {"shape": [4], "dtype": "F32"}})"};
  in.options.weight_decay_exclude = {
      {NamePattern{"bias$", {}}, NamePattern{"norm", {}}}};
  const auto compiled = Good(in);
  CHECK(Line(*compiled, "a/bias").ends_with("\"weight_decay\": false}"));
  CHECK(Line(*compiled, "a/w").ends_with("\"weight_decay\": true}"));
  // A pattern that is written with the other separator finds the same names.
  for (const char* pattern : {"a/bias$", "a\\.bias$"}) {
    in.options.weight_decay_exclude = {{NamePattern{pattern, {}}}};
    for (const char* name : {"a/bias", "a.bias"}) {
      CAPTURE(pattern);
      CAPTURE(name);
      in.manifest =
          std::string("{\"") + name + R"(": {"shape": [4], "dtype": "F32"}})";
      CHECK(Line(*Good(in), name).ends_with("\"weight_decay\": false}"));
    }
  }
}

}  // namespace
}  // namespace shardc
