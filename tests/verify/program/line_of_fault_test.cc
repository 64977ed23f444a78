// Faults in the sharded run of recorded programs: the proof names the line of
// the op whose result is wrong.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "complete.h"
#include "exec/machine/sharded.h"
#include "exec/program/run.h"
#include "meshes.h"
#include "program/programs.h"
#include "program/read.h"
#include "source/file.h"
#include "verify/program/proof.h"

namespace shardc::verify {
namespace {

using program::Op;
using program::OpKind;
using program::Program;

Program Recorded(const std::string& name) {
  const char* const root = std::getenv("SHARDC_SOURCE_ROOT");
  REQUIRE(root != nullptr);
  Findings findings;
  const SourceRef source = ReadSource(
      std::string(root) + "/testdata/" + name + ".program.json.gz", findings);
  REQUIRE(source);
  auto made = program::ReadProgram(source, findings);
  REQUIRE(made);
  return *std::move(made);
}

// Parameters and their states are sharded over both axes where they divide
// dimensions, and data over the first.
std::vector<Spec> SpecsOf(const Program& program, const Mesh& mesh) {
  std::vector<Spec> params;
  for (const program::Input& input : program.inputs) {
    if (input.kind != program::InputKind::kParam) continue;
    const Shape& shape = program.ShapeOf(input.value);
    Spec& spec = params.emplace_back(shape.size());
    for (size_t i = 0; i < shape.size() && i < mesh.axes.size(); ++i) {
      const MeshAxis& axis = mesh.axes[i];
      if (shape[i] % axis.size == 0) spec[i] = {axis.name};
    }
  }
  std::vector<std::string> notes;
  return InputSpecs(program, mesh, params, {mesh.axes[0].name}, notes);
}

// Adds the ops with floating-point results, also those in the body of a
// shard_map.
void AddPlaces(const Program& program, const std::vector<Op>& ops,
               std::vector<const Op*>& out) {
  for (const Op& op : ops) {
    if (op.kind == OpKind::kManual) AddPlaces(program, op.bodies[0].ops, out);
    if (!op.bodies.empty() || op.kind == OpKind::kCollective ||
        op.kind == OpKind::kConst || op.kind == OpKind::kIota) {
      continue;
    }
    const auto& value = program.values[op.out[0]];
    if (value.dtype && *value.dtype != Dtype::kBool &&
        program::IntegerBits(*value.dtype) == 0) {
      out.push_back(&op);
    }
  }
}

// The line at which a proof differs if an op changes an element of its result
// by more than the largest one.
std::string LineIfWrong(const Program& program, const Mesh& mesh,
                        const Op* wrong) {
  ProgramRequest request;
  request.program = &program;
  request.mesh = mesh;
  request.specs = SpecsOf(program, mesh);
  exec::ProgramOpSeam seam;
  seam.run = [wrong](const exec::ProgramOp& local) {
    exec::RunProgramOp(local);
    if (local.op != wrong) return;
    for (exec::Buffer& one : *local.out) {
      double largest = 0;
      for (const double x : one.wide) {
        if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
      }
      if (!one.wide.empty()) one.wide[0] += 1 + largest;
    }
  };
  request.seams.Set(seam);
  Findings findings;
  const auto proof = ProveProgram(request, findings);
  REQUIRE(proof);
  return proof->failure ? proof->failure->line : "equal";
}

// Some faults change no result: a softmax does not depend on the maximum that
// is subtracted, a ring multiplies the numbers with which its sums begin by 0,
// and -inf stays -inf. Each proof of a training step takes as long as those of
// all other programs together, so an ordinary run has two of each.
TEST_CASE("faults of the sharded run are found at the line of their op") {
  const Mesh mesh = MeshOf({{"fsdp", 2}, {"tp", 4}});
  int found = 0;
  int without_effect = 0;
  for (const std::string name :
       {"programs/decode", "programs/llama", "programs/llama.step",
        "programs/moe_ragged", "programs/mamba2", "regions/mlp",
        "regions/ulysses", "regions/ring", "steps/vit",
        "torch_programs/own.step", "torch_programs/gemma3_text.decode"}) {
    CAPTURE(name);
    const Program program = Recorded(name);
    std::vector<const Op*> places;
    AddPlaces(program, program.ops, places);
    const bool is_step = name.ends_with(".step") || name.starts_with("steps/");
    const bool is_part = is_step && !RunsAllCases();
    const size_t step = std::max<size_t>(1, places.size() / (is_part ? 2 : 6));
    for (size_t i = is_part ? step / 2 : 0; i < places.size(); i += step) {
      CAPTURE(program::NameOf(*places[i]));
      const std::string line = LineIfWrong(program, mesh, places[i]);
      if (line == "equal") {
        ++without_effect;
        continue;
      }
      CHECK(line == program.LineText(places[i]->at));
      ++found;
    }
  }
  CHECK(found >= (RunsAllCases() ? 70 : 55));
  CHECK(without_effect <= 6);
}

// Both products have numbers of up to 1e9, and the second one adds in the
// reverse order, so that their difference is all rounding.
TEST_CASE("rounding is no difference where large numbers cancel") {
  program::ProgramText text;
  const program::ValueId w = text.Input("param", "w", {2, 16});
  const program::ValueId x = text.Input("data", "x", {4, 16});
  const program::ValueId power =
      text.Op("map", {text.Op("iota", {}, {4, 16}, R"("dim":1)")}, {4, 16},
              R"("fn":"integer_pow","exponent":8)");
  const program::ValueId large =
      text.Op("map", {x, power}, {4, 16}, R"("fn":"mul")");
  const auto product = [&](program::ValueId left, program::ValueId right) {
    return text.Op("dot", {left, right}, {4, 2},
                   R"("lhs_contract":[1],"rhs_contract":[1],"lhs_batch":[],)"
                   R"("rhs_batch":[])");
  };
  const auto reversed = [&](program::ValueId value, int64_t rows) {
    return text.Op("rev", {value}, {rows, 16}, R"("dims":[1])");
  };
  text.Op("map",
          {product(large, w), product(reversed(large, 4), reversed(w, 2))},
          {4, 2}, R"("fn":"sub")");
  const Program program = text.Read();
  const Mesh mesh = MeshOf({{"fsdp", 2}, {"tp", 4}});
  CHECK(LineIfWrong(program, mesh, nullptr) == "equal");
  for (const Op& op : program.ops) {
    CHECK(LineIfWrong(program, mesh, &op) == program.LineText(op.at));
  }
}

}  // namespace
}  // namespace shardc::verify
