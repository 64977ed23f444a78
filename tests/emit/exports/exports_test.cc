// Tests the text of each export format for one small plan, and the plans that
// it refuses. The plan has weights sharded over their output, their input and
// both, a vector, a scalar, a group of axes, and names that need escapes.
#include "emit/exports/exporter.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace shardc::exports {
namespace {

ReadParam Param(std::string name, Shape shape, Spec spec) {
  ReadParam out;
  out.name = std::move(name);
  out.type = {std::move(shape), Dtype::kBF16};
  out.spec = std::move(spec);
  return out;
}

ReadPlan Plan(std::vector<ReadParam> params) {
  ReadPlan out;
  out.fingerprint = "sha256:0";
  out.mesh.axes = {{"dp", 2}, {"tp", 4}};
  out.mesh.devices = 8;
  out.modes = {Mode::kTrain};
  out.params = std::move(params);
  return out;
}

ReadPlan Small() {
  return Plan({
      Param("layers.0.up.weight", {16, 8}, {{"tp"}, {}}),
      Param("layers.1.up.weight", {16, 8}, {{"tp"}, {}}),
      Param("layers.0.down.weight", {8, 16}, {{}, {"tp"}}),
      Param("layers.0.up.bias", {16}, {{"tp"}}),
      Param("embed.weight", {32, 8}, {{"dp", "tp"}, {}}),
      Param("norm.weight", {8}, {{}}),
      Param("odd\\name\"", {8, 4}, {{"dp"}, {"tp"}}),
      Param("step", {}, {}),
  });
}

// Returns the exported text, or "SHD062 message" of the first finding.
std::string Exported(const ReadPlan& plan, std::string_view format,
                     Options options = {}) {
  const Exporter* exporter = FindExporter(format);
  REQUIRE(exporter != nullptr);
  Findings findings;
  const std::string text = TextOf([&](Sink& out) {
    exporter->write({plan, std::move(options)}, out, findings);
  });
  if (findings.HasErrors()) {
    return findings.all()[0].code->Id() + " " + findings.all()[0].message;
  }
  return text;
}

// Returns the lines that begin with four spaces and a quote.
std::string Entries(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    const std::string line = text.substr(at, end - at);
    if (line.starts_with("    \"") && !line.starts_with("    \"\""))
      out += line;
    at = end;
  }
  return out;
}

TEST_CASE("jax-json writes specs as JAX has them") {
  CHECK(Exported(Small(), "jax-json") ==
        R"text({
  "fingerprint": "sha256:0",
  "mesh": {"axis_names": ["dp", "tp"], "shape": {"dp": 2, "tp": 4}, "axis_types": ["auto", "auto"]},
  "params": {
    "layers.0.up.weight": {"shape": [16, 8], "dtype": "BF16", "partition_spec": ["tp", null]},
    "layers.1.up.weight": {"shape": [16, 8], "dtype": "BF16", "partition_spec": ["tp", null]},
    "layers.0.down.weight": {"shape": [8, 16], "dtype": "BF16", "partition_spec": [null, "tp"]},
    "layers.0.up.bias": {"shape": [16], "dtype": "BF16", "partition_spec": ["tp"]},
    "embed.weight": {"shape": [32, 8], "dtype": "BF16", "partition_spec": [["dp", "tp"], null]},
    "norm.weight": {"shape": [8], "dtype": "BF16", "partition_spec": [null]},
    "odd\\name\"": {"shape": [8, 4], "dtype": "BF16", "partition_spec": ["dp", "tp"]},
    "step": {"shape": [], "dtype": "BF16", "partition_spec": []}
  }
}
)text");
}

TEST_CASE("shardy writes MLIR with escaped names") {
  CHECK(Exported(Small(), "shardy") ==
        R"text(// sha256:0, train
module {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]>
  func.func public @main(
      %arg0: tensor<16x8xbf16> {jax.arg_info = "layers.0.up.weight", sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>},
      %arg1: tensor<16x8xbf16> {jax.arg_info = "layers.1.up.weight", sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>},
      %arg2: tensor<8x16xbf16> {jax.arg_info = "layers.0.down.weight", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>},
      %arg3: tensor<16xbf16> {jax.arg_info = "layers.0.up.bias", sdy.sharding = #sdy.sharding<@mesh, [{"tp"}]>},
      %arg4: tensor<32x8xbf16> {jax.arg_info = "embed.weight", sdy.sharding = #sdy.sharding<@mesh, [{"dp", "tp"}, {}]>},
      %arg5: tensor<8xbf16> {jax.arg_info = "norm.weight", sdy.sharding = #sdy.sharding<@mesh, [{}]>},
      %arg6: tensor<8x4xbf16> {jax.arg_info = "odd\5Cname\22", sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {"tp"}]>},
      %arg7: tensor<bf16> {jax.arg_info = "step", sdy.sharding = #sdy.sharding<@mesh, []>}) {
    return
  }
}
)text");
}

TEST_CASE("hlo writes tiles over a device order") {
  CHECK(
      Exported(Small(), "hlo") ==
      R"text("layers.0.up.weight": {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
"layers.1.up.weight": {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
"layers.0.down.weight": {devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
"layers.0.up.bias": {devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
"embed.weight": {devices=[8,1]<=[8]}
"norm.weight": {replicated}
"odd\\name\"": {devices=[2,4]<=[8]}
"step": {replicated}
)text");
}

TEST_CASE("a mesh of slices whose devices are too many to list is refused") {
  ReadPlan plan = Small();
  plan.mesh.axes = {{"dp", 2}, {"tp", 1 << 16}};
  plan.mesh.devices = 1 << 17;
  plan.mesh.slices = 2;
  plan.mesh.dcn = {1, 2};
  for (const char* format : {"jax-json", "orbax", "shardy", "dtensor"}) {
    CHECK(Exported(plan, format) ==
          "SHD005 `" + std::string(format) +
              "` would list 131,072 devices, because they are in several "
              "slices");
  }
  CHECK(
      Exported(plan, "hlo")
          .starts_with(
              R"text("layers.0.up.weight": {devices=[65536,1,2]<=[2,2,32768]T(0,2,1))text"));
  plan.mesh.slices = 1;
  plan.mesh.dcn.clear();
  CHECK(Exported(plan, "orbax").find("device_mesh") == std::string::npos);
}

TEST_CASE("orbax writes names in base64") {
  CHECK(Exported(Small(), "orbax") ==
        R"text({
  "bGF5ZXJzLjAudXAud2VpZ2h0": "{\"sharding_type\": \"NamedSharding\", \"shape\": [2, 4], \"axis_names\": [\"dp\", \"tp\"], \"axis_types\": [\"AxisType.Auto\", \"AxisType.Auto\"], \"partition_spec\": [\"tp\", null], \"device_mesh\": {\"mesh\": [[{\"id\": 0}, {\"id\": 1}, {\"id\": 2}, {\"id\": 3}], [{\"id\": 4}, {\"id\": 5}, {\"id\": 6}, {\"id\": 7}]]}}",
  "bGF5ZXJzLjEudXAud2VpZ2h0": "{\"sharding_type\": \"NamedSharding\", \"shape\": [2, 4], \"axis_names\": [\"dp\", \"tp\"], \"axis_types\": [\"AxisType.Auto\", \"AxisType.Auto\"], \"partition_spec\": [\"tp\", null], \"device_mesh\": {\"mesh\": [[{\"id\": 0}, {\"id\": 1}, {\"id\": 2}, {\"id\": 3}], [{\"id\": 4}, {\"id\": 5}, {\"id\": 6}, {\"id\": 7}]]}}",
  "bGF5ZXJzLjAuZG93bi53ZWlnaHQ=": "{\"sharding_type\": \"NamedSharding\", \"shape\": [2, 4], \"axis_names\": [\"dp\", \"tp\"], \"axis_types\": [\"AxisType.Auto\", \"AxisType.Auto\"], \"partition_spec\": [null, \"tp\"], \"device_mesh\": {\"mesh\": [[{\"id\": 0}, {\"id\": 1}, {\"id\": 2}, {\"id\": 3}], [{\"id\": 4}, {\"id\": 5}, {\"id\": 6}, {\"id\": 7}]]}}",
  "bGF5ZXJzLjAudXAuYmlhcw==": "{\"sharding_type\": \"NamedSharding\", \"shape\": [2, 4], \"axis_names\": [\"dp\", \"tp\"], \"axis_types\": [\"AxisType.Auto\", \"AxisType.Auto\"], \"partition_spec\": [\"tp\"], \"device_mesh\": {\"mesh\": [[{\"id\": 0}, {\"id\": 1}, {\"id\": 2}, {\"id\": 3}], [{\"id\": 4}, {\"id\": 5}, {\"id\": 6}, {\"id\": 7}]]}}",
  "ZW1iZWQud2VpZ2h0": "{\"sharding_type\": \"NamedSharding\", \"shape\": [2, 4], \"axis_names\": [\"dp\", \"tp\"], \"axis_types\": [\"AxisType.Auto\", \"AxisType.Auto\"], \"partition_spec\": [[\"dp\", \"tp\"], null], \"device_mesh\": {\"mesh\": [[{\"id\": 0}, {\"id\": 1}, {\"id\": 2}, {\"id\": 3}], [{\"id\": 4}, {\"id\": 5}, {\"id\": 6}, {\"id\": 7}]]}}",
  "bm9ybS53ZWlnaHQ=": "{\"sharding_type\": \"NamedSharding\", \"shape\": [2, 4], \"axis_names\": [\"dp\", \"tp\"], \"axis_types\": [\"AxisType.Auto\", \"AxisType.Auto\"], \"partition_spec\": [null], \"device_mesh\": {\"mesh\": [[{\"id\": 0}, {\"id\": 1}, {\"id\": 2}, {\"id\": 3}], [{\"id\": 4}, {\"id\": 5}, {\"id\": 6}, {\"id\": 7}]]}}",
  "b2RkXG5hbWUi": "{\"sharding_type\": \"NamedSharding\", \"shape\": [2, 4], \"axis_names\": [\"dp\", \"tp\"], \"axis_types\": [\"AxisType.Auto\", \"AxisType.Auto\"], \"partition_spec\": [\"dp\", \"tp\"], \"device_mesh\": {\"mesh\": [[{\"id\": 0}, {\"id\": 1}, {\"id\": 2}, {\"id\": 3}], [{\"id\": 4}, {\"id\": 5}, {\"id\": 6}, {\"id\": 7}]]}}",
  "c3RlcA==": "{\"sharding_type\": \"NamedSharding\", \"shape\": [2, 4], \"axis_names\": [\"dp\", \"tp\"], \"axis_types\": [\"AxisType.Auto\", \"AxisType.Auto\"], \"partition_spec\": [], \"device_mesh\": {\"mesh\": [[{\"id\": 0}, {\"id\": 1}, {\"id\": 2}, {\"id\": 3}], [{\"id\": 4}, {\"id\": 5}, {\"id\": 6}, {\"id\": 7}]]}}"
}
)text");
}

TEST_CASE("hf-tp-plan writes a style for each module") {
  CHECK(Exported(Small(), "hf-tp-plan") ==
        R"text({
  "layers.*.up": "colwise",
  "layers.*.down": "rowwise",
  "embed": "replicate",
  "norm": "replicate",
  "odd\\name\"": "replicate",
  "step": "replicate"
}
)text");
}

TEST_CASE("megatron writes the split dimension and its stride") {
  CHECK(Exported(Small(), "megatron", {.json = true}) ==
        R"text({
  "tensor_model_parallel_size": 4,
  "params": {
    "layers.0.up.weight": {"tensor_model_parallel": true, "partition_dim": 0, "partition_stride": 1},
    "layers.1.up.weight": {"tensor_model_parallel": true, "partition_dim": 0, "partition_stride": 1},
    "layers.0.down.weight": {"tensor_model_parallel": true, "partition_dim": 1, "partition_stride": 1},
    "layers.0.up.bias": {"tensor_model_parallel": true, "partition_dim": 0, "partition_stride": 1},
    "embed.weight": {"tensor_model_parallel": true, "partition_dim": 0, "partition_stride": 2},
    "norm.weight": {"tensor_model_parallel": false, "partition_dim": -1, "partition_stride": 1},
    "odd\\name\"": {"tensor_model_parallel": true, "partition_dim": 1, "partition_stride": 1},
    "step": {"tensor_model_parallel": false, "partition_dim": -1, "partition_stride": 1}
  }
}
)text");
}

TEST_CASE("csv writes quoted fields and bytes of a device") {
  std::string text = Exported(Small(), "csv");
  CHECK(text.find("place\r\n") != std::string::npos);
  std::erase(text, '\r');
  CHECK(text ==
        R"text(name,shape,dtype,spec,shard_shape,bytes_per_device,place
layers.0.up.weight,"[16, 8]",BF16,"[""tp"", null]","[4, 8]",64,
layers.1.up.weight,"[16, 8]",BF16,"[""tp"", null]","[4, 8]",64,
layers.0.down.weight,"[8, 16]",BF16,"[null, ""tp""]","[8, 4]",64,
layers.0.up.bias,[16],BF16,"[""tp""]",[4],8,
embed.weight,"[32, 8]",BF16,"[[""dp"", ""tp""], null]","[4, 8]",64,
norm.weight,[8],BF16,[null],[8],16,
"odd\name""","[8, 4]",BF16,"[""dp"", ""tp""]","[4, 1]",8,
step,[],BF16,[],[],2,
)text");
}

TEST_CASE("markdown writes a table of groups and the bytes of a device") {
  CHECK(Exported(Small(), "markdown") ==
        R"text(<details>
<summary>Sharding of 8 parameters over dp=2 tp=4: 290 B per device</summary>

| parameters | | shape | sharded over | per device |
|---|--:|---|---|--:|
| `layers.*.up.weight` | 2 | [16, 8] BF16 | `tp, -` | 64 B |
| `layers.0.down.weight` |  | [8, 16] BF16 | `-, tp` | 64 B |
| `layers.0.up.bias` |  | [16] BF16 | `tp` | 8 B |
| `embed.weight` |  | [32, 8] BF16 | `dp+tp, -` | 64 B |
| `norm.weight` |  | [8] BF16 | `replicated` | 16 B |
| `odd\name"` |  | [8, 4] BF16 | `dp, tp` | 8 B |
| `step` |  | [] BF16 | `replicated` | 2 B |

</details>
)text");
}

TEST_CASE("tree writes nested names") {
  CHECK(Exported(Small(), "tree") ==
        R"text(dp=2 tp=4
├── layers
│   ├── *
│   │   └── up
│   │       └── weight  [16, 8]  tp, -  x2
│   └── 0
│       ├── down
│       │   └── weight  [8, 16]  -, tp
│       └── up
│           └── bias  [16]  tp
├── embed
│   └── weight  [32, 8]  dp+tp, -
├── norm
│   └── weight  [8]  replicated
├── odd\name"  [8, 4]  dp, tp
└── step  []  replicated
)text");
}

TEST_CASE("tree and dot have the specs of modes and the placement") {
  ReadPlan plan = Plan({Param("experts.0.up", {16, 8}, {{"tp"}, {}})});
  plan.modes = {Mode::kTrain, Mode::kDecode};
  plan.params[0].modes = {{Mode::kDecode, {{}, {"tp"}}}};
  plan.params[0].placement = ReadPlacement{"dp", 1};
  CHECK(Exported(plan, "tree") ==
        R"text(dp=2 tp=4
└── experts
    └── 0
        └── up  [16, 8]  tp, -  decode -, tp  by dp
)text");
  const std::string text = Exported(plan, "dot");
  CHECK(text.substr(text.find("  p0")) ==
        R"text(  p0 [label="experts.0.up [16, 8]"];
  "axis tp" -> p0 [label="0"];
  "axis tp" -> p0 [label="decode 1"];
  "axis dp" -> p0 [label="place"];
}
)text");
}

TEST_CASE("dot writes escaped labels and an edge for each axis") {
  CHECK(Exported(Small(), "dot") ==
        R"text(digraph plan {
  rankdir=LR;
  node [shape=box];
  "axis dp" [shape=ellipse, label="dp=2"];
  "axis tp" [shape=ellipse, label="tp=4"];
  p0 [label="layers.*.up.weight x2 [16, 8]"];
  "axis tp" -> p0 [label="0"];
  p1 [label="layers.0.down.weight [8, 16]"];
  "axis tp" -> p1 [label="1"];
  p2 [label="layers.0.up.bias [16]"];
  "axis tp" -> p2 [label="0"];
  p3 [label="embed.weight [32, 8]"];
  "axis dp" -> p3 [label="0"];
  "axis tp" -> p3 [label="0"];
  p4 [label="norm.weight [8]"];
  p5 [label="odd\\name\" [8, 4]"];
  "axis dp" -> p5 [label="0"];
  "axis tp" -> p5 [label="1"];
  p6 [label="step []"];
}
)text");
}

TEST_CASE("jax writes a spec and a shape for each name") {
  CHECK(Entries(Exported(Small(), "jax")) ==
        R"text(    "layers.0.up.weight": P("tp", None),
    "layers.1.up.weight": P("tp", None),
    "layers.0.down.weight": P(None, "tp"),
    "layers.0.up.bias": P("tp"),
    "embed.weight": P(("dp", "tp"), None),
    "norm.weight": P(None),
    "odd\\name\"": P("dp", "tp"),
    "step": P(),
    "layers.0.up.weight": (16, 8),
    "layers.1.up.weight": (16, 8),
    "layers.0.down.weight": (8, 16),
    "layers.0.up.bias": (16,),
    "embed.weight": (32, 8),
    "norm.weight": (8,),
    "odd\\name\"": (8, 4),
    "step": (),
)text");
}

TEST_CASE("dtensor writes a placement for each axis of the mesh") {
  const std::string text = Exported(Small(), "dtensor");
  const size_t begin = text.find("PLACEMENTS = {");
  REQUIRE(begin != std::string::npos);
  CHECK(Entries(text.substr(begin, text.find("\n}", begin) + 1 - begin)) ==
        R"text(    "layers.0.up.weight": [Replicate(), Shard(0)],
    "layers.1.up.weight": [Replicate(), Shard(0)],
    "layers.0.down.weight": [Replicate(), Shard(1)],
    "layers.0.up.bias": [Replicate(), Shard(0)],
    "embed.weight": [Shard(0), Shard(0)],
    "norm.weight": [Replicate(), Replicate()],
    "odd\\name\"": [Shard(0), Shard(1)],
    "step": [Replicate(), Replicate()],
)text");
}

// A vector belongs to the output of its layer, a matrix is [out, in], and a
// kernel of Flax [in, out].
TEST_CASE("vllm writes column and row parallel layers") {
  ReadPlan plan = Small();
  plan.params.erase(plan.params.begin() + 4);  // split over two axes
  plan.params.push_back(Param("up\\x", {4, 16}, {{}, {"tp"}}));
  plan.params.push_back(Param("conv", {8, 4, 16}, {{}, {"tp"}, {}}));
  plan.params.push_back(Param("up.kernel", {8, 16}, {{}, {"tp"}}));
  plan.params.push_back(Param("down.kernel", {16, 8}, {{"tp"}, {}}));
  CHECK(Exported(plan, "vllm", {.json = true}) ==
        R"text({
  "tensor_parallel_size": 4,
  "params": {
    "layers.0.up.weight": {"parallel": "column", "shard_dim": 0, "shard_shape": [4, 8]},
    "layers.1.up.weight": {"parallel": "column", "shard_dim": 0, "shard_shape": [4, 8]},
    "layers.0.down.weight": {"parallel": "row", "shard_dim": 1, "shard_shape": [8, 4]},
    "layers.0.up.bias": {"parallel": "column", "shard_dim": 0, "shard_shape": [4]},
    "norm.weight": {"parallel": "replicated", "shard_dim": null, "shard_shape": [8]},
    "odd\\name\"": {"parallel": "row", "shard_dim": 1, "shard_shape": [8, 1]},
    "step": {"parallel": "replicated", "shard_dim": null, "shard_shape": []},
    "up\\x": {"parallel": "row", "shard_dim": 1, "shard_shape": [4, 4]},
    "conv": {"parallel": "column", "shard_dim": 1, "shard_shape": [8, 1, 16]},
    "up.kernel": {"parallel": "column", "shard_dim": 1, "shard_shape": [8, 4]},
    "down.kernel": {"parallel": "row", "shard_dim": 0, "shard_shape": [4, 8]}
  }
}
)text");
}

TEST_CASE("a plan that a format cannot express is refused") {
  struct Case {
    std::string format, expected;
    Options options = {};
  };
  const Case kCases[] = {
      {"vllm",
       "SHD062 `vllm` loads one contiguous shard per rank, and other axes "
       "split `[[\"dp\", \"tp\"], null]` of `embed.weight` before `tp`",
       {.json = true}},
      {"eformer", "SHD001 a plan file does not contain the axis rules"},
      {"maxtext",
       "SHD001 logical axis rules need the logical names of dimensions, which "
       "a plan does not contain"},
      {"megatron",
       "SHD028 the mesh has no axis `nope`",
       {.json = true, .axis = "nope"}},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.format);
    CHECK(Exported(Small(), test.format, test.options) == test.expected);
  }
}

}  // namespace
}  // namespace shardc::exports
