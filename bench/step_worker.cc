// Times the parts of a model's training step, in seconds of processor time.
//
// step_worker program CONFIG MESH: makes the graph, the program under the
// pack's plan and the report at the model's real sizes, without computing
// values.
// step_worker layer CONFIG MESH BATCH LENGTH: runs the model's first layer at
// full width with a small vocabulary, forward and backward in float32 on the
// simulated mesh. Prints the memory that this takes as well.
//
//   step_worker program llama-3-70b.config.json dp:2,fsdp:8,tp:4
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "exec/machine/machine.h"
#include "exec/machine/random.h"
#include "exec/step/run.h"
#include "families/families.h"
#include "parse/mesh.h"
#include "parse/project.h"
#include "plan/compile.h"
#include "plan/lowered_step.h"
#include "step/build.h"
#include "step/graph_writer.h"
#include "step/lower.h"
#include "step/program.h"
#include "target/open.h"
#include "verify/step/step_report.h"

namespace shardc {
namespace {

constexpr int kTimes = 9;
constexpr int64_t kBatch = 64, kLength = 4096;
constexpr int64_t kSmallVocabulary = 256;

double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Model {
  ModelConfig config;
  Manifest manifest;
  std::unique_ptr<const Compiled> compiled;
};

std::optional<Model> Open(const std::string& path, const std::string& mesh) {
  Findings findings;
  Model out;
  auto config = ReadModelConfig(path, findings);
  auto manifest = families::BuildTree(path, "hf", findings);
  MeshInput input;
  input.text = mesh;
  auto opened = OpenMesh(input, {}, findings);
  if (!config || !manifest || !opened) return std::nullopt;
  out.config = std::move(*config);
  out.manifest = std::move(*manifest);
  auto rules = OpenRules({"auto"}, "", &out.manifest, "", findings);
  if (!rules) return std::nullopt;
  out.compiled = Compile(std::move(*opened), std::move(*rules), out.manifest,
                         {}, findings);
  if (out.compiled == nullptr) return std::nullopt;
  return out;
}

std::optional<step::StepModel> Graph(const Model& model,
                                     const std::vector<int32_t>& layers) {
  Findings findings;
  auto out = step::BuildForward(*model.compiled->rules.model, &model.config,
                                model.compiled->manifest, Mode::kTrain,
                                findings, layers);
  if (out) step::Differentiate(out->graph);
  return out;
}

std::optional<step::Program> Lowered(const Model& model,
                                     const step::StepModel& of,
                                     const step::Sizes& sizes) {
  step::Unsupported why;
  return step::Lower({.graph = &of.graph,
                      .mesh = model.compiled->mesh,
                      .sizes = sizes,
                      .parameters = StepSpecs(model.compiled->plan, of.graph,
                                              sizes, Mode::kTrain),
                      .constraints = step::ShardingConstraintsOf(
                          *model.compiled->resolver, Mode::kTrain)},
                     why);
}

template <class F>
void Time(const char* what, const F& run) {
  std::vector<double> times;
  for (int i = 0; i < kTimes; ++i) {
    const double before = Seconds(CLOCK_PROCESS_CPUTIME_ID);
    run();
    times.push_back(Seconds(CLOCK_PROCESS_CPUTIME_ID) - before);
  }
  std::sort(times.begin(), times.end());
  std::printf("%-8s %7.1f ms, at least %.1f\n", what, times[kTimes / 2] * 1e3,
              times[0] * 1e3);
}

int TimeProgram(const Model& model) {
  auto graph = Graph(model, {});
  if (!graph) return 2;
  step::AppendOptimizer(graph->graph);
  const step::Sizes sizes = step::RealSizes(*graph, kBatch, kLength);
  const auto program = Lowered(model, *graph, sizes);
  if (!program) return 2;
  std::printf("ops %zu, instructions %zu\n", graph->graph.ops.size(),
              program->code.size());
  Time("graph", [&] {
    auto twice = Graph(model, {});
    step::AppendOptimizer(twice->graph);
  });
  Time("lower", [&] { Lowered(model, *graph, sizes); });
  Time("report", [&] {
    Findings findings;
    verify::StepRequest request;
    request.compiled = model.compiled.get();
    request.config = &model.config;
    request.batch = kBatch;
    request.length = kLength;
    request.numbers = false;
    verify::VerifyStep(request, findings);
  });
  return 0;
}

// Fills floating point inputs with small numbers, and integer inputs with
// numbers below the vocabulary's size.
void Fill(const step::StepModel& of, exec::StepInputs& inputs) {
  const exec::Random random(1);
  inputs.values.resize(of.graph.values.size());
  for (const step::Op& op : of.graph.ops) {
    if (op.kind != step::OpKind::kInput) continue;
    const step::Value& value = of.graph.values[static_cast<size_t>(op.out)];
    exec::Buffer& to = inputs.values[static_cast<size_t>(op.out)];
    to = exec::Buffer::Zeros(step::ShapeOf(of.graph, op.out, inputs.sizes),
                             value.integral ? Dtype::kI32 : Dtype::kF32);
    const exec::Random own = random.Split(static_cast<uint64_t>(op.out));
    for (size_t i = 0; i < to.real.size(); ++i) {
      to.real[i] = 0.02F * static_cast<float>(own.Normal(i));
    }
    for (size_t i = 0; i < to.integers.size(); ++i) {
      to.integers[i] = static_cast<int32_t>(i % kSmallVocabulary);
    }
  }
  const auto length = static_cast<size_t>(
      inputs.sizes[static_cast<size_t>(of.graph.common.query)]);
  for (const step::Data& data : of.graph.data) {
    exec::Buffer& to = inputs.values[static_cast<size_t>(data.value)];
    if (data.kind == step::DataKind::kWeights) {
      std::fill(to.real.begin(), to.real.end(), 1.0F);
    }
    for (size_t i = 0;
         data.kind == step::DataKind::kPositions && i < to.integers.size();
         ++i) {
      to.integers[i] = static_cast<int32_t>(i % length);
    }
  }
}

void UseSmallVocabulary(const step::StepModel& of, step::Sizes& sizes) {
  const auto& logits = of.graph.values[static_cast<size_t>(of.graph.logits)];
  sizes[static_cast<size_t>(logits.labels.back())] = kSmallVocabulary;
  step::FinishSizes(of.graph, sizes);
}

int RunLayer(const Model& model, int64_t batch, int64_t length) {
  const auto graph = Graph(model, {0});
  if (!graph) return 2;
  exec::StepInputs inputs;
  inputs.sizes = step::RealSizes(*graph, batch, length);
  UseSmallVocabulary(*graph, inputs.sizes);
  inputs.dtype = Dtype::kF32;
  const auto program = Lowered(model, *graph, inputs.sizes);
  if (!program) return 2;
  Fill(*graph, inputs);
  const exec::SimMesh mesh(model.compiled->mesh);
  const int threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  exec::Machine machine(mesh, threads);
  const double processor = Seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double clock = Seconds(CLOCK_MONOTONIC);
  exec::RunStep(machine, graph->graph, *program, inputs,
                exec::KeepSlots::kResults);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf(
      "%.1f s of %d threads, %.1f s of processors; %.2f GiB at most, of which "
      "weights %.2f\n",
      Seconds(CLOCK_MONOTONIC) - clock, threads,
      Seconds(CLOCK_PROCESS_CPUTIME_ID) - processor,
      static_cast<double>(used.ru_maxrss) / (1 << 20), [&] {
        double bytes = 0;
        for (const step::Parameter& one : graph->graph.parameters) {
          bytes += static_cast<double>(
              inputs.values[static_cast<size_t>(one.value)].Bytes());
        }
        return bytes / (1 << 30);
      }());
  return 0;
}

}  // namespace
}  // namespace shardc

int main(int argc, char** argv) {
  const std::string_view what = argc > 3 ? argv[1] : "";
  if (!(what == "program" && argc == 4) && !(what == "layer" && argc == 6)) {
    return 2;
  }
  const auto model = shardc::Open(argv[2], argv[3]);
  if (!model) return 2;
  return what == "program" ? shardc::TimeProgram(*model)
                           : shardc::RunLayer(*model, std::atoll(argv[4]),
                                              std::atoll(argv[5]));
}
