// Times the sharded run of a training step twice in turn on the same mesh: as
// the named step of a model, and as the program to which it is translated.
// Prints for each kind of work the seconds of processor time of both.
//
//   program_worker CONFIG MESH BATCH LENGTH ROUNDS
//
//   program_worker llama.config.json fsdp:2,tp:4 16 64 5
//   -> matmul 0.52 0.47     the program's and the step's, medians of the rounds
//
// An op of the program belongs to the line of the description from which it
// follows, and has the kind of that line's ops in the step.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emit/step_programs/translate.h"
#include "exec/machine/collectives.h"
#include "exec/machine/machine.h"
#include "exec/machine/random.h"
#include "exec/program/run.h"
#include "exec/step/run.h"
#include "facts/axes.h"
#include "families/families.h"
#include "parse/mesh.h"
#include "parse/project.h"
#include "plan/compile.h"
#include "plan/lowered_step.h"
#include "program/sharding.h"
#include "target/open.h"
#include "verify/program/proof.h"
#include "verify/step/prove.h"

namespace shardc {
namespace {

using Times = std::map<std::string, double>;

double Processor() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Case {
  ModelConfig config;
  Manifest manifest;
  std::unique_ptr<const Compiled> compiled;
  LoweredStep step;
  program::Program program;
  program::Sharding sharding;
  std::map<int32_t, std::string> kinds;  // of the lines of the description
};

// Returns the kind of a line by the name of one of its ops; empty if the ops of
// the line have kinds of their own.
std::string KindOfLine(std::string_view name) {
  for (const std::string_view kind : {"attention", "norm", "rope"}) {
    if (name.find(kind) != std::string_view::npos) return std::string(kind);
  }
  return "";
}

std::string KindOf(const Case& of, int32_t line, bool multiplies,
                   bool optimizes) {
  if (optimizes) return "optimizer";
  const auto at = of.kinds.find(line);
  if (at != of.kinds.end() && !at->second.empty()) return at->second;
  return multiplies ? "matmul" : "elementwise";
}

// Returns the axes over which `verify step --program` shards the data.
AxisGroup Batch(const Compiled& compiled) {
  const AxisRules& rules = compiled.rules.axes;
  return CompletedAxes(rules,
                       FindAxisFacts({.mesh = &compiled.mesh, .rules = &rules}))
      .Value(AxisRule::kBatch)
      .axes;
}

bool Make(const std::string& path, const std::string& mesh, int64_t batch,
          int64_t length, Case& out) {
  Findings findings;
  auto config = ReadModelConfig(path, findings);
  auto manifest = families::BuildTree(path, "hf", findings);
  MeshInput input;
  input.text = mesh;
  auto opened = OpenMesh(input, {}, findings);
  if (!config || !manifest || !opened) return false;
  out.config = std::move(*config);
  out.manifest = std::move(*manifest);
  auto rules = OpenRules({"auto"}, "", &out.manifest, "", findings);
  if (!rules) return false;
  out.compiled = Compile(std::move(*opened), std::move(*rules), out.manifest,
                         {}, findings);
  if (out.compiled == nullptr) return false;
  auto step = BuildStep(
      UsualStepInputs(*out.compiled, &out.config, batch, length), {}, findings);
  if (!step) return false;
  out.step = std::move(*step);
  std::string why;
  out.step.program =
      LowerStep(UsualStepInputs(*out.compiled, &out.config, batch, length),
                out.step, out.compiled->step_mesh, why);
  if (!out.step.program) return false;
  const step::Graph& graph = out.step.model.graph;
  for (const step::Op& op : graph.ops) {
    if (op.line == 0) continue;
    std::string& kind = out.kinds[op.line];
    if (kind.empty()) kind = KindOfLine(op.name);
  }
  out.program = program::ProgramOfStep({.graph = graph,
                                        .sizes = out.step.sizes,
                                        .manifest = out.manifest,
                                        .function = "train",
                                        .file = "rules.yaml"})
                    .program;
  const Plan& plan = out.compiled->plan;
  std::map<std::string_view, const Spec*> of_name;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    of_name[plan.names[i]] =
        &plan.layouts[plan.params[i].layout].modes.front().spec;
  }
  std::vector<Spec> specs;
  for (const program::Input& one : out.program.inputs) {
    if (one.kind == program::InputKind::kParam) {
      specs.push_back(*of_name.at(one.name));
    }
  }
  std::vector<std::string> notes;
  specs = verify::InputSpecs(out.program, out.compiled->mesh, specs,
                             Batch(*out.compiled), notes);
  out.sharding = program::ShardProgram(out.program, out.compiled->mesh, specs);
  return true;
}

// Divides the time of a run by what ran: the time since the last call of Add()
// belongs to a kind, without that of the collectives in it.
class Clock {
 public:
  Clock() : last_(Processor()), begin_(last_) {}

  exec::Seams Seams() {
    exec::Seams out;
    out.Set(exec::CollectiveSeam{
        [this](exec::Machine& machine, const exec::CollectiveCall& call) {
          const double before = Processor();
          exec::PerDevice result = exec::RunCollective(machine, call);
          const double seconds = Processor() - before;
          times_["collectives"] += seconds;
          collectives_ += seconds;
          return result;
        }});
    return out;
  }
  void Add(const std::string& kind) {
    const double now = Processor();
    times_[kind] += now - last_ - collectives_;
    last_ = now;
    collectives_ = 0;
  }
  Times Take() {
    times_["whole run"] = last_ - begin_;
    return std::move(times_);
  }

 private:
  Times times_;
  double last_, begin_;
  double collectives_ = 0;
};

std::string KindOf(const Case& of, const step::Op& op) {
  return KindOf(of, op.line, op.kind == step::OpKind::kEinsum,
                op.phase == step::Phase::kOptimizer);
}

// Runs the instructions of the step one by one, and frees each slot after its
// last reader. An input, a slice or a collective has the kind of the first op
// that reads its result.
Times RunStep(const Case& of, const exec::StepInputs& inputs) {
  const step::Graph& graph = of.step.model.graph;
  const step::Program& program = *of.step.program;
  std::vector<std::string> kinds(program.code.size(), "elementwise");
  std::map<int32_t, std::string> of_slot;
  for (size_t i = program.code.size(); i > 0; --i) {
    const step::Instruction& one = program.code[i - 1];
    const auto reader = of_slot.find(one.out);
    if (one.kind == step::InstructionKind::kLocal) {
      kinds[i - 1] = KindOf(of, graph.ops[static_cast<size_t>(one.op)]);
    } else if (reader != of_slot.end()) {
      kinds[i - 1] = reader->second;
    }
    for (const int32_t slot : one.in) of_slot[slot] = kinds[i - 1];
  }
  const std::vector<int64_t> last = exec::LastReaders(graph, program);
  std::vector<exec::PerDevice> slots(program.slots.size());
  Clock clock;
  const exec::SimMesh mesh(of.compiled->mesh);
  exec::Machine machine(mesh, 1, clock.Seams());
  for (size_t i = 0; i < program.code.size(); ++i) {
    const step::Instruction& one = program.code[i];
    exec::RunInstruction(machine, graph, program, inputs, one, slots);
    for (const int32_t slot : one.in) {
      const auto at = static_cast<size_t>(slot);
      if (last[at] == static_cast<int64_t>(i)) slots[at] = {};
    }
    clock.Add(kinds[i]);
  }
  return clock.Take();
}

// Returns random numbers for the inputs of the program, and small integers for
// its data.
std::vector<exec::Buffer> InputsOf(const program::Program& program) {
  const exec::Random random(1);
  std::vector<exec::Buffer> out;
  for (const program::Input& one : program.inputs) {
    const exec::Random own = random.Split(out.size());
    exec::Buffer& to = out.emplace_back(
        exec::Buffer::Zeros(program.ShapeOf(one.value), Dtype::kF64));
    const bool integers = one.kind == program::InputKind::kData;
    for (size_t i = 0; i < to.wide.size(); ++i) {
      to.wide[i] = integers ? static_cast<double>(i % 7) : own.Uniform(i);
    }
  }
  return out;
}

Times RunProgram(const Case& of, const std::vector<exec::Buffer>& numbers) {
  exec::ProgramInputs inputs;
  inputs.program = &of.program;
  inputs.sharding = &of.sharding;
  inputs.input = [&](size_t i) { return numbers[i]; };
  Clock clock;
  const exec::SimMesh mesh(of.compiled->mesh);
  exec::Machine machine(mesh, 1, clock.Seams());
  exec::RunProgram(
      machine, inputs, [&](const program::Op& op, const exec::ProgramValues&) {
        clock.Add(KindOf(of, static_cast<int32_t>(op.at.line),
                         op.kind == program::OpKind::kDot, !op.at.known()));
        return true;
      });
  return clock.Take();
}

double Median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

int Run(const Case& of, int64_t rounds) {
  const verify::StepData data =
      verify::MakeStepData(of.step.model.graph, of.step.sizes, Dtype::kF64, 0);
  const std::vector<exec::Buffer> numbers = InputsOf(of.program);
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>>
      all;
  for (int64_t i = 0; i < rounds; ++i) {
    const Times program = RunProgram(of, numbers);
    const Times step = RunStep(of, data.inputs);
    for (const auto& [kind, seconds] : step) {
      const auto same = program.find(kind);
      all[kind].first.push_back(same == program.end() ? 0 : same->second);
      all[kind].second.push_back(seconds);
    }
  }
  for (const auto& [kind, times] : all) {
    std::printf("%s\t%.6f\t%.6f\n", kind.c_str(), Median(times.first),
                Median(times.second));
  }
  return 0;
}

}  // namespace
}  // namespace shardc

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  shardc::Case made;
  if (!shardc::Make(argv[1], argv[2], std::atoll(argv[3]), std::atoll(argv[4]),
                    made)) {
    return 2;
  }
  return shardc::Run(made, std::atoll(argv[5]));
}
