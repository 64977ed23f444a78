#include "checkpoint/shard_plan.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/shards_index.h"

namespace shardc {
namespace {

// A matrix that is sharded over tp, a vector that is replicated, and a tensor
// that exists at one coordinate of tp only.
struct Inputs {
  Stored stored;
  ReadPlan plan;
  ShardOptions options;

  Inputs() {
    stored.path = "in.safetensors";
    stored.files.push_back({"in.safetensors", 1000, 1, 1, 100, 1});
    plan.fingerprint = "sha256:0";
    plan.mesh.axes = {{"dp", 2}, {"tp", 2}};
    plan.mesh.devices = 4;
    plan.mesh.processes = 2;
    plan.modes = {Mode::kTrain};
    Add("w", {4, 2}, {{"tp"}, {}});
    Add("b", {3}, {{}});
    Add("e", {2}, {{}});
    plan.params[2].placement = {"tp", 1};
    options.out = "out";
  }

  void Add(const std::string& name, const Shape& shape, const Spec& spec) {
    StoredTensor tensor;
    tensor.name = name;
    tensor.shape = shape;
    tensor.pieces = {{0, 100, FullBox(shape), {}}};
    stored.tensors.push_back(std::move(tensor));
    ReadParam param;
    param.name = name;
    param.type = {shape, Dtype::kF32};
    param.spec = spec;
    plan.params.push_back(std::move(param));
  }
};

// Returns each file with its pieces and devices, and the notes. If planning
// fails, returns the findings.
std::string Planned(const Inputs& in) {
  Findings findings;
  const auto job = PlanShards(in.stored, in.plan, in.options, findings);
  std::string out;
  for (const Finding& one : findings.all()) out += "! " + one.message + "\n";
  if (!job) return out;
  for (size_t i = 0; i < job->index.files.size(); ++i) {
    const IndexedFile& file = job->index.files[i];
    const OutputFile& output = job->transfer.outputs[i];
    CHECK(file.name == output.name);
    CHECK(file.bytes == output.size);
    out += file.name + " for";
    for (const int64_t device : file.devices) {
      out += " " + std::to_string(device);
    }
    out += ":";
    const auto data = static_cast<int64_t>(output.header.size());
    for (size_t k = 0; k < file.pieces.size(); ++k) {
      const IndexedPiece& piece = file.pieces[k];
      out += " " + piece.key + ShapeText(piece.box.offset) +
             ShapeText(piece.box.shape) + "@" +
             std::to_string(output.pieces[k].offset - data) + "+" +
             std::to_string(output.pieces[k].bytes);
    }
    out += "\n";
  }
  for (const std::string& note : job->notes) out += "note: " + note + "\n";
  return out;
}

TEST_CASE("each device's file has its part of every parameter") {
  CHECK(Planned(Inputs()) ==
        "device-00000.safetensors for 0: w[0, 0][2, 2]@0+16 b[0][3]@16+12\n"
        "device-00001.safetensors for 1: w[2, 0][2, 2]@0+16 b[0][3]@16+12 "
        "e[0][2]@28+8\n"
        "device-00002.safetensors for 2: w[0, 0][2, 2]@0+16 b[0][3]@16+12\n"
        "device-00003.safetensors for 3: w[2, 0][2, 2]@0+16 b[0][3]@16+12 "
        "e[0][2]@28+8\n");
}

TEST_CASE("a process has what its devices hold, a shard is written once") {
  Inputs in;
  in.options.per = Per::kProcess;
  CHECK(Planned(in) ==
        "process-00000.safetensors for 0 1 2 3: w[0:2,0:2][0, 0][2, 2]@0+16 "
        "w[2:4,0:2][2, 0][2, 2]@16+16 e[0][2]@32+8\n"
        "process-00001.safetensors for 0 1 2 3: b[0][3]@0+12\n");
  in.options.per = Per::kShard;
  CHECK(Planned(in) ==
        "shard-00000.safetensors for 0 1 2 3: b[0][3]@0+12\n"
        "shard-00001.safetensors for 0 2: w[0, 0][2, 2]@0+16\n"
        "shard-00002.safetensors for 1 3: w[2, 0][2, 2]@0+16 e[0][2]@16+8\n");
  in.options.select = [](const std::string& name) { return name == "b"; };
  CHECK(Planned(in) == "shard-00000.safetensors for 0 1 2 3: b[0][3]@0+12\n");
  in.options.select = [](const std::string&) { return false; };
  CHECK(Planned(in) == "! --params matches none of the 3 parameters\n");
}

TEST_CASE("the processes of several slices have what their devices hold") {
  Inputs in;
  in.options.per = Per::kProcess;
  // A slice is a coordinate of tp, so process 0 has the devices 0 and 2.
  in.plan.mesh.slices = 2;
  in.plan.mesh.dcn = {1, 2};
  CHECK(Planned(in) ==
        "process-00000.safetensors for 0 2: w[0:2,0:2][0, 0][2, 2]@0+16\n"
        "process-00001.safetensors for 0 1 2 3: w[2:4,0:2][2, 0][2, 2]@0+16 "
        "b[0][3]@16+12 e[0][2]@28+8\n");
}

TEST_CASE("an integer is cast by no request for all tensors, or by its name") {
  Inputs in;
  in.stored.tensors[1].dtype = Dtype::kI32;
  in.options.select = [](const std::string& name) { return name != "e"; };
  bool by_name = false;
  in.options.dtype = [&](const std::string& name) {
    return std::optional(WantedDtype{Dtype::kBF16, by_name && name == "b"});
  };
  CHECK(Planned(in).find("+12") != std::string::npos);
  by_name = true;
  CHECK(Planned(in).find("! tensor `b` is I32, and is not cast to BF16\n") !=
        std::string::npos);
}

TEST_CASE("another dtype than the plan's is a note, unless it is cast") {
  Inputs in;
  in.options.per = Per::kShard;
  in.options.select = [](const std::string& name) { return name != "e"; };
  in.plan.params[0].type.dtype = Dtype::kBF16;
  const std::string files =
      "shard-00000.safetensors for 0 1 2 3: b[0][3]@0+12\n"
      "shard-00001.safetensors for 0 2: w[0, 0][2, 2]@0+16\n"
      "shard-00002.safetensors for 1 3: w[2, 0][2, 2]@0+16\n";
  CHECK(Planned(in) ==
        files +
            "note: 1 tensor has another dtype than the plan, such as `w` (F32 "
            "for BF16); --cast casts them\n");
  in.plan.params[1].type.dtype = Dtype::kBF16;
  CHECK(Planned(in) == files +
                           "note: 2 tensors have another dtype than the plan, "
                           "such as `w` (F32 for BF16); --cast casts them\n");
  in.options.dtype = [](const std::string&) {
    return std::optional(WantedDtype{Dtype::kBF16});
  };
  CHECK(Planned(in) ==
        "shard-00000.safetensors for 0 1 2 3: b[0][3]@0+6\n"
        "shard-00001.safetensors for 0 2: w[0, 0][2, 2]@0+8\n"
        "shard-00002.safetensors for 1 3: w[2, 0][2, 2]@0+8\n");
  in.plan.params[0].type.dtype.reset();
  in.plan.params[1].type.dtype.reset();
  in.options.dtype = nullptr;
  CHECK(Planned(in) == files);
}

TEST_CASE("a plan of another checkpoint is refused with all differences") {
  Inputs in;
  in.plan.params[0].type.shape = Shape{2, 4};
  in.plan.params[1].name = "c";
  CHECK(Planned(in) ==
        "! `w` is [2, 4] in the plan and [4, 2] in the checkpoint\n"
        "! the plan has `c`, and the checkpoint does not\n"
        "! the checkpoint has `b`, and the plan does not\n");
  Inputs three;
  three.options.processes = 3;
  CHECK(Planned(three) ==
        "! 4 devices cannot be divided evenly among 3 processes\n");
  Inputs odd;
  odd.plan.params[1].spec = {{"tp"}};
  CHECK(Planned(odd) ==
        "! the spec [\"tp\"] of `b` does not divide [3] over dp=2 tp=2\n");
}

TEST_CASE("a tensor of a tree is found by its path and gets the plan's name") {
  Inputs in;
  in.options.per = Per::kShard;
  // DCP joins the keys by dots.
  in.plan.params[0].name = "h/0/w";
  in.stored.tensors[0].name = "h.0.w";
  in.stored.tensors[0].in_tree.keys = {"h", "0", "w"};
  // Orbax joins them by `/`.
  in.plan.params[1].name = "h.0.b";
  in.stored.tensors[1].name = "h/0.b";
  in.stored.tensors[1].in_tree.keys = {"h", "0.b"};
  CHECK(Planned(in) ==
        "shard-00000.safetensors for 0 1 2 3: h.0.b[0][3]@0+12\n"
        "shard-00001.safetensors for 0 2: h/0/w[0, 0][2, 2]@0+16\n"
        "shard-00002.safetensors for 1 3: h/0/w[2, 0][2, 2]@0+16 "
        "e[0][2]@16+8\n");
  // The record of the tree has the plan's names.
  Findings findings;
  in.stored.metadata = {{"format", "pt"}};
  const auto job = PlanShards(in.stored, in.plan, in.options, findings);
  REQUIRE(job);
  Stored pieces;
  pieces.metadata = job->index.metadata;
  for (const IndexedParam& param : job->index.params) {
    pieces.tensors.emplace_back().name = param.name;
  }
  CHECK(ReadTreeRecord(pieces, findings));
  using Keys = std::vector<std::string>;
  CHECK(pieces.tensors[0].in_tree.keys == Keys{"h", "0", "w"});
  CHECK(pieces.tensors[1].in_tree.keys == Keys{"h", "0.b"});
  CHECK(pieces.metadata[0] ==
        std::pair<std::string, std::string>{"format", "pt"});
  // A name counts before a path.
  in.Add("h.0.w", {2}, {{}});
  in.stored.tensors[3].name = "h/0/w";
  in.plan.params[0].type.shape = Shape{2};
  in.plan.params[0].spec = {{"tp"}};
  in.plan.params[3].type.shape = Shape{4, 2};
  CHECK(Planned(in).find("!") == std::string::npos);
  // Files without a tree have names only.
  in.stored.tensors[0].in_tree.keys.clear();
  in.stored.tensors[3].name = "other";
  CHECK(
      Planned(in).find("! the checkpoint has `other`, and the plan does not") !=
      std::string::npos);
}

}  // namespace
}  // namespace shardc
