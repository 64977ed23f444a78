// Compares the reports of steps with testdata/tables/emit_steps.txt. Each field
// of a report has a different number, so that swapped fields are detected.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "emit/inputs.h"
#include "emit/verify/dump.h"
#include "emit/verify/step_json.h"
#include "meshes.h"
#include "tables.h"

namespace shardc {
namespace {

using step::Phase;
using verify::StepReport;

verify::StepRow RowOf(Phase phase, int32_t number) {
  verify::StepRow out;
  const std::string text = std::to_string(number);
  out.part = "layer " + text;
  out.phase = phase;
  out.op = "linear " + text;
  out.result = "[r" + text + "]";
  out.specs = "s" + text + ":tp";
  out.collective = static_cast<Collective>(number % 4);
  out.axes = {"dp", "tp"};
  out.bytes = 1000 * number;
  out.layers = 10 + number;
  out.micro = number;
  out.error = 0.001 * number;
  out.allowed = 0.002 * number;
  return out;
}

StepReport Base() {
  StepReport out;
  out.mode = Mode::kTrain;
  out.mesh = MeshOf({{"dp", 2}, {"tp", 8}});
  out.batch = 31;
  out.length = 32;
  out.layers = 33;
  out.element_bytes = 4;
  out.program = "0123abcd";
  out.rows = {RowOf(Phase::kForward, 1), RowOf(Phase::kForward, 2),
              RowOf(Phase::kBackward, 3), RowOf(Phase::kOptimizer, 5)};
  out.rows[1].collective.reset();
  out.rows[1].axes.clear();
  out.rows[1].bytes = 0;
  out.rows[1].micro = -1;
  out.rows[1].error.reset();
  out.rows[1].allowed.reset();
  out.conflicts = {
      {"forward", "einsum", "tp", {"a", "b"}, "a", "b", 4096, 2048, 6},
      {"backward", "add", "dp", {"c"}, "gathered", "gathered", 512, 512, 1}};
  out.traffic = {
      {Phase::kForward, Collective::kAllGather, {"dp"}, 7, 7168},
      {Phase::kForward, Collective::kAllReduce, {"tp", "dp"}, 8, 9216},
      {Phase::kBackward, Collective::kReduceScatter, {"tp"}, 9, 11264},
      {Phase::kOptimizer, Collective::kAllToAll, {"dp"}, 10, 13312}};
  out.notes = {"a note", "another"};
  verify::StepMemory memory;
  memory.components = {
      {"parameters", 20480}, {"logits", 0}, {"gathered", 40960}};
  memory.total = 61440;
  memory.moment = "loss";
  out.memory = memory;
  out.peak.bytes = {1024, 2048, 3072, 4096, 5120, 6144, 7168};
  out.peak.instruction = 17;
  out.peak.instructions = 18;
  out.peak.phase = Phase::kBackward;
  out.peak.part = "layer 19";
  out.peak.op = "linear q";
  out.flops = {.by_phase = {1.5e12, 3e12, 7e9}, .matmuls = 4.4e12};
  out.proved = true;
  out.dtype = Dtype::kF32;
  out.reduced_mesh = MeshOf({{"dp", 2}, {"tp", 4}});
  out.reduced_sizes = {{"b", 3}, {"t", 5}};
  out.reduced_layers = {0, 6, 20, 21};
  out.encoder_layer = 20;
  out.gradients = 22;
  out.updates = 23;
  out.caches = 24;
  out.worst = 0.00025;
  out.worst_allowed = 0.0005;
  out.seed = 25;
  return out;
}

StepReport Failed() {
  StepReport out = Base();
  out.status = verify::StepStatus::kFail;
  out.operation = "ring";
  out.keep_gathered = true;
  out.remat = "dots_saveable";
  out.microbatches = 26;
  out.reduction = step::Reduction::kEach;
  out.zero = 2;
  out.part = "layer 1";
  out.full = true;
  out.memory->moment = "backward";
  out.problems = {"`q` differs", "`k` differs"};
  return out;
}

StepReport Serving() {
  StepReport out = Base();
  out.mode = Mode::kDecode;
  out.rows.resize(1);
  out.conflicts.clear();
  out.traffic.resize(2);
  out.memory.reset();
  out.encoder_layer = -1;
  out.microbatches = 2;
  out.reduction = step::Reduction::kOnce;
  return out;
}

StepReport Staged() {
  StepReport out = Base();
  out.microbatches = 27;
  verify::StageProof stages;
  stages.axis = "pp";
  stages.all_mesh = MeshOf({{"pp", 41}, {"dp", 2}, {"tp", 8}});
  stages.schedule = "interleaved";
  stages.ranks = 41;
  stages.virtual_stages = 42;
  stages.microbatches = 43;
  stages.layers = {44, 45, 46};
  stages.tasks = 47;
  stages.capacity = 48;
  stages.held = {49, 50};
  stages.proved_ranks = 2;
  stages.proved_virtual = 3;
  stages.proved_microbatches = 4;
  stages.messages = 51;
  out.stages = stages;
  return out;
}

StepReport Unsupported() {
  StepReport out;
  out.mode = Mode::kPrefill;
  out.mesh = MeshOf({{"dp", 2}});
  out.status = verify::StepStatus::kUnsupported;
  out.reason = "no formula";
  return out;
}

verify::ParameterStep ParameterOf(Mode mode) {
  verify::ParameterStep out;
  out.mode = mode;
  out.mesh = MeshOf({{"dp", 2}, {"tp", 8}});
  out.batch = 61;
  out.length = 62;
  out.takes_part = true;
  out.role = "q of layer 3";
  out.labels = "[(n h),d]";
  out.sharding = "(n h):tp d:fsdp";
  out.uses = {{Phase::kForward, "layer 3", "linear q", "n:tp", "[b,t]"},
              {Phase::kBackward, "layer 4", "linear k", "n:dp", "[b,s]"}};
  out.moves = {{Phase::kForward,
                "layer 5",
                "gather q",
                false,
                "d:fsdp -> d",
                Collective::kAllGather,
                {"fsdp"},
                2048},
               {Phase::kBackward,
                "layer 6",
                "sum q",
                true,
                "d -> d:fsdp",
                Collective::kReduceScatter,
                {"fsdp", "tp"},
                5120}};
  return out;
}

std::string Parameters() {
  verify::ParameterStep trained = ParameterOf(Mode::kTrain);
  trained.stacked = true;
  trained.gradient = "partial over tp";
  verify::ParameterStep served = ParameterOf(Mode::kDecode);
  served.moves.clear();
  verify::ParameterStep unused = ParameterOf(Mode::kPrefill);
  unused.takes_part = false;
  verify::ParameterStep refused = ParameterOf(Mode::kInsert);
  refused.unsupported = "no formula";
  std::string out;
  for (const auto& step : {trained, served, unused, refused}) {
    out += Titled("text", ParameterStepText(step));
  }
  return out + Titled("JSON", [&](Sink& sink) {
           WriteParameterStepJson("q", {trained, refused}, sink);
         });
}

// Returns the dump of a step's tensors, a safetensors file, as text.
std::string Dump() {
  StepReport report = Serving();
  verify::StepTensor one;
  one.part = "layer 71";
  one.op = "linear 72";
  one.value = "[b]";
  one.phase = Phase::kBackward;
  one.made = exec::Buffer::Zeros({2}, Dtype::kBF16);
  one.reference = {73, 74};
  one.error = 0.75;
  one.allowed = 0.76;
  report.tensors = {one, one};
  report.tensors[1].input = true;
  report.tensors[1].error.reset();
  report.tensors[1].allowed.reset();
  const std::string file = StepDumpTensors(report);
  return Titled("header", file.substr(8, file.rfind('}') - 7)) +
         Titled("JSON", [&](Sink& sink) { WriteStepDumpJson(report, sink); });
}

TEST_CASE("what is written of steps") {
  CheckTable("emit_steps.txt", [](const TableCase& given) {
    const std::string of = given.Text("of");
    if (of == "a parameter") return Parameters();
    if (of == "a dump") return Dump();
    const StepReport report = of == "passed"    ? Base()
                              : of == "failed"  ? Failed()
                              : of == "serving" ? Serving()
                              : of == "stages"  ? Staged()
                                                : Unsupported();
    return Titled("text", StepText(report)) +
           Titled("JSON", [&](Sink& sink) { WriteStepJson({report}, sink); });
  });
}

}  // namespace
}  // namespace shardc
