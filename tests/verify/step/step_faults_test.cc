// Injects faults into programs. Each faulty program must be distinguished from
// the correct one.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/step/run.h"
#include "families/families.h"
#include "parse/project.h"
#include "plan/lowered_step.h"
#include "step/build.h"
#include "step/graph_writer.h"
#include "step/lower.h"
#include "step/program.h"
#include "target/open.h"
#include "temporary_folder.h"
#include "verify/step/prove.h"
#include "verify/step/step_report.h"

namespace shardc::verify {
namespace {

using step::InstructionKind;
using step::OpKind;

// A Llama model with 4 KV heads, trained on dp=2 fsdp=2 tp=2 sp=2.
struct Sound {
  step::StepModel model;
  step::Program program;
  step::Sizes sizes;
  Mesh mesh;

  Sound() {
    TemporaryFolder folder;
    const std::string path = folder.Write(
        "config.json",
        R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 64,
            "intermediate_size": 128, "num_hidden_layers": 2,
            "rms_norm_eps": 1e-5, "num_attention_heads": 8,
            "num_key_value_heads": 4})");
    Findings findings;
    const auto config = ReadModelConfig(path, findings);
    auto manifest = families::BuildTree(path, "hf", findings);
    REQUIRE(config.has_value());
    REQUIRE(manifest.has_value());
    for (const char* name : {"dp", "fsdp", "tp", "sp"}) {
      mesh.axes.push_back({name, 2, AxisType::kAuto});
    }
    mesh.devices = 16;
    auto rules =
        OpenRules({"builtin:llama"}, "", &*manifest, "llama", findings);
    REQUIRE(rules.has_value());
    const auto compiled =
        Compile(mesh, std::move(*rules), *manifest, {}, findings);
    REQUIRE(compiled != nullptr);
    auto built = step::BuildForward(*compiled->rules.model, &*config, *manifest,
                                    Mode::kTrain, findings);
    REQUIRE(built.has_value());
    model = std::move(*built);
    step::Differentiate(model.graph);
    step::AppendOptimizer(model.graph);
    const step::LowerRequest request{
        .graph = &model.graph,
        .mesh = mesh,
        .sizes = step::RealSizes(model, 64, 64),
        .parameters = StepSpecs(compiled->plan, model.graph,
                                step::RealSizes(model, 64, 64), Mode::kTrain),
        .constraints =
            step::ShardingConstraintsOf(*compiled->resolver, Mode::kTrain)};
    step::Unsupported none;
    auto lowered = step::Lower(request, none);
    REQUIRE(lowered.has_value());
    program = std::move(*lowered);
    std::string why;
    const auto small = ReducedSizes(model.graph, request.sizes, program, why);
    REQUIRE(small.has_value());
    sizes = *small;
  }

  StepCase Case() const {
    return {.graph = &model.graph,
            .program = &program,
            .alone = nullptr,
            .mesh = mesh,
            .sizes = sizes};
  }
};

const Sound& TheSound() {
  static const Sound kSound;
  return kSound;
}

TEST_CASE("the sound step holds") {
  const StepProof proof = ProveStep(TheSound().Case());
  CHECK(proof.Holds());
}

TEST_CASE("no sum over devices can be left out") {
  const Sound& sound = TheSound();
  int64_t left_out = 0, call = 0;
  std::vector<std::string> missed;
  for (const step::Instruction& step : sound.program.code) {
    if (step.kind != InstructionKind::kCollective) continue;
    const int64_t wanted = call++;
    if (step.collective != Collective::kAllReduce &&
        step.collective != Collective::kReduceScatter) {
      continue;
    }
    // The fault: the collective is skipped, and each device continues with its
    // own part.
    StepCase test = sound.Case();
    exec::CollectiveSeam seam;
    int64_t now = 0;
    seam.run = [&](exec::Machine& machine, const exec::CollectiveCall& asked) {
      if (now++ != wanted) return exec::RunCollective(machine, asked);
      exec::PerDevice out = *asked.in;
      if (asked.kind == Collective::kAllReduce) return out;
      const int64_t n = machine.mesh().Parts(asked.axes);
      for (int device = 0; device < machine.devices(); ++device) {
        exec::Buffer& buffer = out[static_cast<size_t>(device)];
        const int64_t length = buffer.shape[asked.dim] / n;
        buffer = exec::SliceDim(
            buffer, asked.dim,
            machine.mesh().Index(device, asked.axes) * length, length);
      }
      return out;
    };
    test.seams.Set(seam);
    const StepProof proof = ProveStep(test);
    ++left_out;
    // A missing collective always changes the ledger; one of the other checks
    // must detect it too.
    CHECK(proof.Failed(StepCheck::kLedger));
    if (!proof.Failed(StepCheck::kConstraints) &&
        !proof.Failed(StepCheck::kResults) &&
        !proof.Failed(StepCheck::kReplicas)) {
      missed.push_back(sound.model.graph.ops[size_t(step.op)].name);
    }
  }
  CHECK(left_out > 40);
  std::string text;
  for (const std::string& name : missed) text += name + ", ";
  CHECK(text == "");
}

struct Fault {
  const char* name;
  OpKind kind;
  std::function<void(exec::LocalOp&)> spoil;
};

TEST_CASE("faults of one op are seen") {
  const Sound& sound = TheSound();
  const step::Sizes& sizes = sound.sizes;
  step::Sizes local_sizes = sizes;
  for (const step::Slot& slot : sound.program.slots) {
    const auto& labels = sound.model.graph.values[size_t(slot.value)].labels;
    for (size_t d = 0; d < labels.size(); ++d) {
      int64_t& size = local_sizes[size_t(labels[d])];
      const int64_t mine = sizes[size_t(labels[d])] /
                           sound.program.axes.Parts(slot.sharding.dims[d]);
      size = std::min(size, mine);
    }
  }
  const auto begins_at_zero = [](size_t operand) {
    return [operand](exec::LocalOp& local) {
      for (int64_t& start : local.in[operand].start) start = 0;
    };
  };
  const auto result_begins_at_zero = [](exec::LocalOp& local) {
    for (int64_t& start : local.start) start = 0;
  };
  const Fault faults[] = {
      {"vocab-offset", OpKind::kLookup, begins_at_zero(0)},
      {"pick-offset", OpKind::kPick,
       [](exec::LocalOp& local) { ++local.in[0].start.back(); }},
      {"place-offset", OpKind::kPlace, result_begins_at_zero},
      {"scatter-offset", OpKind::kScatter, result_begins_at_zero},
      {"norm-local-d", OpKind::kScale,
       [&](exec::LocalOp& local) { local.sizes = &local_sizes; }},
  };
  for (const Fault& fault : faults) {
    CAPTURE(fault.name);
    StepCase test = sound.Case();
    exec::LocalOpSeam seam;
    seam.run = [&](const exec::LocalOp& right) {
      exec::LocalOp local = right;
      if (local.op->kind == fault.kind) fault.spoil(local);
      exec::RunLocalOp(local);
    };
    test.seams.Set(seam);
    const StepProof proof = ProveStep(test);
    CHECK_FALSE(proof.Holds());
    CHECK_FALSE(proof.Failed(StepCheck::kLedger));
  }
}

TEST_CASE("faults of collectives are seen") {
  struct Wrong {
    const char* name;
    Collective kind;
    std::function<void(const exec::SimMesh&, const exec::CollectiveCall&,
                       exec::PerDevice&)>
        spoil;
  };
  const auto turned = [](const exec::SimMesh& mesh,
                         const exec::CollectiveCall& call,
                         exec::PerDevice& out) {
    for (const std::vector<int>& group : mesh.Groups(call.axes)) {
      exec::Buffer first = out[size_t(group[0])];
      for (size_t i = 0; i + 1 < group.size(); ++i) {
        out[size_t(group[i])] = out[size_t(group[i + 1])];
      }
      out[size_t(group.back())] = std::move(first);
    }
  };
  const auto halved = [](const exec::SimMesh&, const exec::CollectiveCall&,
                         exec::PerDevice& out) {
    for (exec::Buffer& buffer : out) {
      for (double& x : buffer.wide) x /= 2;
    }
  };
  const auto reversed = [](const exec::SimMesh&,
                           const exec::CollectiveCall& call,
                           exec::PerDevice& out) {
    for (exec::Buffer& buffer : out) {
      const int64_t half = buffer.shape[call.dim] / 2;
      const exec::Buffer a = exec::SliceDim(buffer, call.dim, 0, half);
      const exec::Buffer b = exec::SliceDim(buffer, call.dim, half, half);
      buffer = exec::ConcatDim({&b, &a}, call.dim);
    }
  };
  const Wrong wrongs[] = {
      {"rs-rotated", Collective::kReduceScatter, turned},
      {"mean-for-sum", Collective::kAllReduce, halved},
      {"mean-for-sum, scattered", Collective::kReduceScatter, halved},
      {"ag-reversed", Collective::kAllGather, reversed},
  };
  const Sound& sound = TheSound();
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.name);
    StepCase test = sound.Case();
    exec::CollectiveSeam seam;
    seam.run = [&](exec::Machine& machine, const exec::CollectiveCall& call) {
      exec::PerDevice out = exec::RunCollective(machine, call);
      if (call.kind == wrong.kind) wrong.spoil(machine.mesh(), call, out);
      return out;
    };
    test.seams.Set(seam);
    CHECK_FALSE(ProveStep(test).Holds());
  }
}

}  // namespace
}  // namespace shardc::verify
