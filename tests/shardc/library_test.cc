// Tests the public library as its users see it: only its installed headers are
// included.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardc/shardc.h"
#include "temporary_folder.h"

namespace {

using shardc::Findings;
using shardc::Mode;

const std::string kRules = R"(version: 1
rules:
  - match: 'up/kernel$'
    spec: ColumnWise
  - match: 'bias$'
    spec: [nowhere]
)";
const std::string kGoodRules = R"(version: 1
rules:
  - match: 'up/kernel$'
    spec: [fsdp, tp]
    modes:
      decode: [null, tp]
)";

const std::vector<shardc::Tensor> kTensors = {
    {"layers/0/up/kernel", shardc::Shape{8, 6}, "BF16"},
    {"layers/0/norm", shardc::Shape{8}, "F32"},
    {"step", shardc::Shape{}, "I32"},
};

struct Inputs {
  Findings findings;
  shardc::TemporaryFolder folder;
  std::string rules_file = folder.Write("rules.yaml", kGoodRules);
  std::optional<shardc::Mesh> mesh = shardc::ReadMesh("fsdp:4,tp:2", findings);
  std::optional<shardc::Rules> rules =
      shardc::ReadRules({rules_file}, findings);
  std::optional<shardc::Manifest> manifest =
      shardc::MakeManifest(kTensors, findings);

  std::optional<shardc::Plan> Compile(const shardc::PlanOptions& options = {}) {
    REQUIRE(mesh);
    REQUIRE(rules);
    REQUIRE(manifest);
    return shardc::Compile(*mesh, *rules, *manifest, options, findings);
  }
};

bool Has(const Findings& findings, std::string_view code) {
  for (size_t i = 0; i < findings.size(); ++i) {
    if (findings.at(i).code == code) return true;
  }
  return false;
}

TEST_CASE("a plan gives the shard of every device") {
  Inputs inputs;
  const auto plan = inputs.Compile();
  REQUIRE(plan);
  CHECK(inputs.findings.empty());
  REQUIRE(plan->size() == 3);
  CHECK(plan->name(0) == "layers/0/up/kernel");
  CHECK(plan->rule(0) == 0);
  CHECK_FALSE(plan->rule(1));
  CHECK(plan->Find("step") == 2);
  CHECK_FALSE(plan->Find("no such"));
  const auto train = plan->placement(0, Mode::kTrain);
  REQUIRE(train);
  CHECK(shardc::SpecText(train->spec) == R"(["fsdp", "tp"])");
  CHECK(train->shard_shape == shardc::Shape{2, 3});
  CHECK(train->bytes_per_device == 12);
  CHECK_FALSE(train->illegal);
  CHECK_FALSE(train->corrected);
  const auto decode = plan->placement(0, Mode::kDecode);
  REQUIRE(decode);
  CHECK(decode->spec == shardc::Spec{{}, {"tp"}});
  const shardc::Totals totals = plan->totals();
  CHECK(totals.params == 3);
  CHECK(totals.elements == 48 + 8 + 1);
  CHECK(totals.bytes == 96 + 32 + 4);
  CHECK(totals.bytes_per_device == 12 + 32 + 4);
  CHECK(totals.unmatched == 1);
  CHECK(plan->fingerprint().starts_with("sha256:"));
  CHECK(plan->Json().starts_with("{"));
  CHECK(plan->Json().find("shardc.plan/v1") != std::string::npos);
  CHECK(plan->Text().find("(8 devices)") != std::string::npos);
}

TEST_CASE("a project's target is opened as the program opens it") {
  Inputs inputs;
  Findings findings;
  inputs.folder.Write("names.json", R"({"params": {
    "layers/0/up/kernel": {"shape": [8, 6], "dtype": "BF16"},
    "layers/0/norm": {"shape": [8], "dtype": "F32"}}})");
  const auto project = inputs.folder.Write("shardc.yaml", R"(version: 1
targets:
  pod:
    mesh: {axes: {fsdp: -1, tp: 2}, devices: 8}
    rules: [rules.yaml]
    manifest: names.json
    modes: [decode]
    batch: 3
    weight_decay: {exclude: [norm]}
  other:
    mesh: 'fsdp:4,tp:2'
    rules: [rules.yaml]
    manifest: names.json
lint:
  ignore: [SHD103]
  severity: {SHD107: error}
)");
  const auto names = shardc::TargetNames(project, findings);
  REQUIRE(names);
  CHECK(*names == std::vector<std::string>{"pod", "other"});
  const auto target =
      shardc::OpenTarget({.project = project, .target = "pod"}, findings);
  REQUIRE(target);
  CHECK(target->name == "pod");
  CHECK(target->mesh.devices() == 8);
  CHECK(target->check.batch == 3);
  CHECK(target->check.ignore == std::vector<std::string>{"SHD103"});
  REQUIRE(target->check.severity.size() == 1);
  CHECK(target->check.severity[0].second == shardc::Level::kError);
  const auto plan = shardc::Compile(target->mesh, target->rules,
                                    target->manifest, target->plan, findings);
  REQUIRE(plan);
  CHECK_FALSE(plan->placement(0, Mode::kTrain));
  CHECK(plan->placement(0, Mode::kDecode)->spec == shardc::Spec{{}, {"tp"}});
  CHECK(plan->Json().find("\"weight_decay\": false") != std::string::npos);
  CHECK(shardc::Check(*plan, target->check, findings));
  CHECK(findings.empty());
  // Inputs of the request override those of the target. If there are two
  // targets, one must be named.
  const auto wider = shardc::OpenTarget(
      {.project = project, .target = "other", .mesh = "fsdp:4,tp:4"}, findings);
  REQUIRE(wider);
  CHECK(wider->mesh.devices() == 16);
  CHECK_FALSE(shardc::OpenTarget({.project = project}, findings));
  REQUIRE(findings.size() == 1);
  CHECK(findings.at(0).help.find("`pod`, `other`") != std::string::npos);
}

TEST_CASE("findings about a mesh in a project file point to its text") {
  Inputs inputs;
  Findings findings;
  inputs.folder.Write("names.json", R"({"params": {
    "layers/0/up/kernel": {"shape": [8, 6], "dtype": "BF16"}}})");
  const auto project = inputs.folder.Write("shardc.yaml", R"(version: 1
targets:
  pod:
    mesh: 'fsdp:4,tp:2,unused:2'
    rules: [rules.yaml]
    manifest: names.json
)");
  const auto target = shardc::OpenTarget({.project = project}, findings);
  REQUIRE(target);
  const auto plan = shardc::Compile(target->mesh, target->rules,
                                    target->manifest, target->plan, findings);
  REQUIRE(plan);
  const auto checked = shardc::Check(*plan, {.select = {"SHD206"}}, findings);
  REQUIRE(checked);
  REQUIRE(checked->findings.size() == 1);
  const shardc::Finding finding = checked->findings.at(0);
  CHECK(finding.place.file == project);
  CHECK(finding.place.line == 4);
  CHECK(finding.place.column == 11);
}

TEST_CASE("packs are rules, and `auto` is the pack that knows the names") {
  Findings findings;
  const std::vector<shardc::Tensor> tensors = {
      {"model.layers.0.self_attn.q_proj.weight", shardc::Shape{64, 64}, "BF16"},
      {"model.layers.0.self_attn.k_proj.weight", shardc::Shape{64, 64}, "BF16"},
      {"model.layers.0.self_attn.v_proj.weight", shardc::Shape{64, 64}, "BF16"},
      {"model.layers.0.self_attn.o_proj.weight", shardc::Shape{64, 64}, "BF16"},
      {"model.layers.0.mlp.gate_proj.weight", shardc::Shape{128, 64}, "BF16"},
      {"model.layers.0.mlp.up_proj.weight", shardc::Shape{128, 64}, "BF16"},
      {"model.layers.0.mlp.down_proj.weight", shardc::Shape{64, 128}, "BF16"},
      {"model.embed_tokens.weight", shardc::Shape{256, 64}, "BF16"}};
  const auto manifest = shardc::MakeManifest(tensors, findings);
  const auto mesh = shardc::ReadMesh("tp:8", findings);
  REQUIRE(manifest);
  REQUIRE(mesh);
  for (const char* name : {"auto", "builtin:llama", "builtin:llama/hf"}) {
    CAPTURE(name);
    const auto rules = shardc::ReadRules({name}, findings, &*manifest);
    REQUIRE(rules);
    const auto plan = shardc::Compile(*mesh, *rules, *manifest, {}, findings);
    REQUIRE(plan);
    CHECK(plan->totals().unmatched == 0);
    CHECK(plan->placement(0, Mode::kTrain)->spec.front() ==
          shardc::AxisGroup{"tp"});
  }
  CHECK(findings.empty());
  CHECK_FALSE(shardc::PackNames().empty());
  CHECK_FALSE(shardc::ReadRules({"auto"}, findings));
  CHECK_FALSE(shardc::ReadRules({"builtin:lama"}, findings, &*manifest));
  REQUIRE(findings.size() == 2);
  CHECK(findings.at(1).help.find("builtin:llama") != std::string::npos);
}

TEST_CASE("options win over the rules") {
  Inputs inputs;
  inputs.mesh = shardc::ReadMesh("fsdp:3,tp:2", inputs.findings);
  const auto strict = inputs.Compile({.modes = {Mode::kTrain}});
  REQUIRE(strict);
  CHECK(strict->placement(0, Mode::kTrain)->illegal);
  CHECK_FALSE(strict->placement(0, Mode::kDecode));
  const auto dropped = inputs.Compile({.illegal = shardc::IfIllegal::kDrop});
  REQUIRE(dropped);
  CHECK(dropped->placement(0, Mode::kTrain)->corrected);
  CHECK(dropped->placement(0, Mode::kTrain)->spec == shardc::Spec{{}, {"tp"}});
  const auto small = inputs.Compile({.min_size = 49});
  REQUIRE(small);
  CHECK(small->placement(0, Mode::kTrain)->spec.empty());
  const auto eformer = inputs.Compile({.compat = shardc::Compat::kEformer});
  REQUIRE(eformer);
  CHECK(eformer->totals().illegal == 0);
}

TEST_CASE("errors of an input have a place") {
  Inputs inputs;
  Findings findings;
  const auto file = inputs.folder.Write("bad.yaml", kRules);
  const auto rules = shardc::ReadRules({file}, findings);
  REQUIRE(rules);
  CHECK(rules->size() == 2);
  CHECK(rules->pattern(1) == "bias$");
  CHECK_FALSE(
      shardc::Compile(*inputs.mesh, *rules, *inputs.manifest, {}, findings));
  REQUIRE(findings.size() == 1);
  CHECK(findings.HasErrors());
  const shardc::Finding finding = findings.at(0);
  CHECK(finding.code == "SHD028");
  CHECK(finding.name == "unknown-name");
  CHECK(finding.level == shardc::Level::kError);
  CHECK(finding.place.file == file);
  CHECK(finding.place.line == 6);
  CHECK(finding.place.column == 12);
  CHECK(findings.Text("concise")->find(":6:12: error: ") != std::string::npos);
  CHECK(findings.Text("json")->find("SHD028") != std::string::npos);
  CHECK_FALSE(findings.Text("no such format"));
  // A copy of findings is independent, and a moved-from object is empty.
  Findings copy = findings;
  CHECK_FALSE(shardc::ReadMesh("fsdp:0", copy));
  CHECK(copy.size() == 2);
  CHECK(findings.size() == 1);
  const Findings moved = std::move(copy);
  CHECK(moved.size() == 2);
  copy = findings;
  CHECK(copy.size() == 1);
}

TEST_CASE("a manifest of the program's own is judged as one that is read") {
  using Tensors = std::vector<shardc::Tensor>;
  const std::string large = "the size of `a/b` does not fit in 64 bits";
  for (const auto& [tensors, message] :
       std::vector<std::pair<Tensors, std::string>>{
           {{{"a/b", shardc::Shape{-1}, "F32"}},
            "SHD023 `a/b` has a dimension of size -1"},
           {{{"a/b", shardc::Shape{1LL << 62, 4}, "F32"}}, "SHD024 " + large},
           {{{"a/b", shardc::Shape{1LL << 62}, "F32"}}, "SHD024 " + large},
           {{{"a/b", shardc::Shape{1}, "float"}},
            "SHD051 `a/b` has the dtype `float`, which is unknown"},
           {{{"a/b", {}, ""}, {"a/b", {}, ""}}, "SHD020 `a/b` occurs twice"},
           {{{"", {}, ""}}, "SHD025 a parameter has no name"},
           {{{"a\x7f", {}, ""}},
            "SHD025 the name `a\\x7f` holds a control character"}}) {
    Findings findings;
    CHECK_FALSE(shardc::MakeManifest(tensors, findings));
    REQUIRE(findings.size() == 1);
    CHECK(findings.at(0).code + " " + findings.at(0).message == message);
  }
  Findings findings;
  const auto manifest = shardc::MakeManifest(kTensors, findings);
  REQUIRE(manifest);
  CHECK(manifest->size() == 3);
  CHECK(manifest->separator() == '/');
  CHECK(manifest->at(1).name == "layers/0/norm");
  CHECK(manifest->at(1).shape == shardc::Shape{8});
  CHECK(manifest->at(1).dtype == "F32");
}

TEST_CASE("semantic axes are resolved in a mode") {
  Inputs inputs;
  Findings& findings = inputs.findings;
  const auto spec = shardc::Resolve("[BATCH, [FSDP, SP], _]", Mode::kTrain,
                                    *inputs.mesh, *inputs.rules, findings);
  REQUIRE(spec);
  CHECK(shardc::SpecText(*spec) == R"(["fsdp", "fsdp", null])");
  const auto attention = shardc::ResolveAttention(Mode::kDecode, *inputs.mesh,
                                                  *inputs.rules, findings);
  REQUIRE(attention);
  CHECK(attention->size() >= 9);
  CHECK(attention->at(1).tensor == "query");
  CHECK(attention->at(1).spec.at(2) == shardc::AxisGroup{"tp"});
  CHECK_FALSE(shardc::Resolve("[BATCHES]", Mode::kTrain, *inputs.mesh,
                              *inputs.rules, findings));
  CHECK(findings.HasErrors());
}

TEST_CASE("axes that are no list of names resolve to nothing") {
  Inputs inputs;
  for (const char* axes : {"[BATCH", "3", "[[BATCH, [FSDP]]]", ""}) {
    CAPTURE(axes);
    shardc::Findings findings;
    CHECK_FALSE(shardc::Resolve(axes, Mode::kTrain, *inputs.mesh, *inputs.rules,
                                findings));
    CHECK(findings.HasErrors());
  }
}

TEST_CASE("a plan is checked by the lints that its inputs allow") {
  Inputs inputs;
  const auto plan = inputs.Compile();
  REQUIRE(plan);
  const auto checked = shardc::Check(*plan, {}, inputs.findings);
  REQUIRE(checked);
  REQUIRE_FALSE(checked->findings.empty());
  CHECK(checked->findings.HasErrors());
  CHECK(Has(checked->findings, "SHD104"));  // `norm` is unmatched
  CHECK_FALSE(checked->skipped.empty());
  CHECK_FALSE(checked->skipped.at(0).missing.empty());
  const auto less =
      shardc::Check(*plan, {.ignore = {"SHD104"}}, inputs.findings);
  REQUIRE(less);
  CHECK_FALSE(Has(less->findings, "SHD104"));
  CHECK(less->findings.size() + 1 == checked->findings.size());
  CHECK_FALSE(shardc::Check(*plan, {.select = {"no-such"}}, inputs.findings));
  CHECK(shardc::Explain("SHD104") == shardc::Explain("unmatched-parameter"));
  CHECK_FALSE(shardc::Explain("SHD999"));
}

TEST_CASE("the attention is verified on a simulated mesh") {
  Inputs inputs;
  Findings& findings = inputs.findings;
  shardc::VerifyOptions options;
  options.sizes = {.batch = 4,
                   .query_length = 16,
                   .key_length = 16,
                   .heads = 4,
                   .key_heads = 2,
                   .head_dim = 16};
  options.operations = {"sdpa"};
  options.modes = {Mode::kTrain};
  options.layouts = {"bthd"};
  options.dtypes = {"float32"};
  const auto report =
      shardc::Verify(*inputs.mesh, *inputs.rules, options, findings);
  REQUIRE(report);
  REQUIRE_FALSE(report->cases.empty());
  CHECK(report->passed == static_cast<int64_t>(report->cases.size()));
  CHECK(report->failed == 0);
  CHECK(report->unsupported == 0);
  const shardc::VerifiedCase& first = report->cases.at(0);
  CHECK(first.operation == "sdpa");
  CHECK(first.layout == "bthd");
  CHECK(first.dtype == "F32");
  CHECK(first.verdict == shardc::Verdict::kPass);
  CHECK(first.error <= first.allowed);
  CHECK(report->text.find("sdpa") != std::string::npos);
  CHECK(report->json.find("shardc.verify/v1") != std::string::npos);

  options.operations = {"spda"};
  CHECK_FALSE(shardc::Verify(*inputs.mesh, *inputs.rules, options, findings));
  CHECK(findings.at(0).help == "did you mean `sdpa`?");
  options.operations = {};
  options.sizes.key_heads = 0;
  CHECK_FALSE(shardc::Verify(*inputs.mesh, *inputs.rules, options, findings));
  CHECK(findings.at(findings.size() - 1).message ==
        "a size of the attention is 0, the minimum is 1");
  options.sizes.key_heads = 3;
  CHECK_FALSE(shardc::Verify(*inputs.mesh, *inputs.rules, options, findings));
}

TEST_CASE("the library reports its version") {
  CHECK(shardc::Version() == SHARDC_VERSION);
}

}  // namespace
