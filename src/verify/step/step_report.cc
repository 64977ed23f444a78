// Reports a model's step: its collectives, their bytes, and whether the step is
// correct. Two graphs are lowered at real sizes. The graph of all layers is
// used to compute bytes. The graph of one layer of each kind, but at least two
// layers, is used for the proof, which then runs at reduced sizes. For example:
//
//   32 layers on dp=2 tp=8: bytes of 32 layers; proof of layers 0 and 1
//
// A full proof has all layers and the real sizes. If one layer is requested,
// the proof has only that layer. A layer of the encoder is proved together with
// the decoder's first layer.
#include "verify/step/step_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "exec/machine/machine.h"
#include "exec/step/run.h"
#include "plan/axis_facts.h"
#include "plan/compile.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/build.h"
#include "step/program.h"
#include "step/validate.h"
#include "verify/cases/matrix.h"
#include "verify/judge/explain.h"
#include "verify/step/staged_step.h"

namespace shardc::verify {
namespace {

using step::Graph;
using step::Op;
using step::Phase;

class Reporter {
 public:
  Reporter(const StepRequest& request, Findings& findings)
      : request_(request), compiled_(*request.compiled), findings_(findings) {}

  std::optional<StepReport> Run() {
    Start();
    const auto form = FormOf(request_, compiled_.step_mesh, out_.reason);
    if (!form) {
      out_.status = StepStatus::kUnsupported;
      return std::move(out_);
    }
    auto full = BuildStep(request_, {}, findings_, *form);
    if (!full) return std::nullopt;
    for (const Op& op : full->model.graph.ops) {
      out_.layers = std::max<int64_t>(out_.layers, op.layer + 1);
    }
    out_.encoder_layer = full->model.graph.encoder_layer;
    if (!IsAPart(full->model.graph)) return std::nullopt;
    if (!LowerAt(*full, OwnMesh())) return std::move(out_);
    row_ops_ = DescribeProgram(request_, *full, out_);
    places_ = PlacesOf(full->model.graph);
    for (const step::ProgramFault& fault :
         step::Validate(full->model.graph, *full->program, full->sizes)) {
      Problem("static", full->model.graph, fault.op, fault.message);
    }
    if (request_.stages != nullptr) {
      out_.stages = ProveTable(*request_.stages, out_.problems);
      if (out_.encoder_layer >= 0) {
        Unsupported("an encoder and a decoder are no chain of stages");
        return std::move(out_);
      }
    }
    if (request_.numbers) {
      const bool known = Prove(full->model.graph);
      if (!known) return std::nullopt;
    }
    FoldLayers(out_.rows);
    if (!out_.problems.empty() && out_.status == StepStatus::kPass) {
      out_.status = StepStatus::kFail;
    }
    return std::move(out_);
  }

 private:
  void Start() {
    out_.mode = request_.mode;
    if (request_.operation != nullptr) {
      out_.operation = request_.operation->name;
    }
    out_.mesh = compiled_.mesh;
    out_.batch = request_.batch;
    out_.length = request_.length;
    out_.dtype = request_.dtype;
    out_.element_bytes = request_.element_bytes;
    out_.keep_gathered = request_.keep_gathered;
    out_.policy = request_.policy;
    out_.part = request_.part;
    out_.seed = request_.seed;
    if (request_.mode != Mode::kTrain) return;
    out_.remat = request_.remat.text;
    out_.microbatches = request_.microbatches;
    out_.reduction = request_.reduction;
    out_.zero = request_.zero;
  }

  static std::string LayersText(const std::string& what, int64_t layers) {
    return "`" + what + "0` to `" + what + std::to_string(layers - 1) + "`";
  }

  bool IsAPart(const Graph& graph) {
    if (request_.part.empty()) return true;
    std::set<std::string> parts;
    for (const Op& op : graph.ops) parts.insert(StepPartName(graph, op));
    if (parts.contains(request_.part)) return true;
    const int64_t own =
        out_.encoder_layer < 0 ? out_.layers : out_.encoder_layer;
    std::string layers = " and " + LayersText("layer ", own);
    if (own < out_.layers) {
      layers = ", " + LayersText("layer ", own) + " and " +
               LayersText("encoder ", out_.layers - own);
    }
    findings_.Add(
        code::kUsage, {}, ShortQuote(request_.part) + " is no part of the step",
        "its parts are `model`" +
            std::string(parts.contains("optimizer") ? ", `optimizer`" : "") +
            layers);
    return false;
  }

  // Returns the mesh of the step: the mesh of one pipeline stage if there are
  // stages, else the mesh of all devices.
  const Mesh& OwnMesh() const {
    return request_.stages != nullptr ? request_.stages->mesh
                                      : compiled_.step_mesh;
  }

  bool LowerAt(LoweredStep& of, const Mesh& mesh) {
    of.program = LowerStep(request_, of, mesh, out_.reason);
    if (of.program) return true;
    out_.status = StepStatus::kUnsupported;
    return false;
  }

  void Problem(std::string_view check, const Graph& graph, int32_t op,
               const std::string& message) {
    std::string text(check);
    text += ": ";
    if (op >= 0) {
      const Op& of = graph.ops[AsIndex(op)];
      text += StepPartName(graph, of) + ", " + StepOpName(of) + ": ";
    }
    out_.problems.push_back(text + message);
  }

  std::vector<int32_t> ProvedLayers(const Graph& full) const {
    if (IsLayerPart(request_.part)) {
      const int32_t layer = LayerNumber(request_.part);
      if (!request_.part.starts_with(kEncoderPrefix)) return {layer};
      // The gradients of an encoder layer come from a decoder layer, so the
      // decoder's first layer is proved with it.
      return {0, out_.encoder_layer + layer};
    }
    if (!request_.full) return ReducedLayers(full);
    std::vector<int32_t> out(AsIndex(out_.layers));
    std::iota(out.begin(), out.end(), 0);
    return out;
  }

  // Returns the real sizes. If the tokens of an expert are not limited, the
  // queue of each expert has a slot for every token.
  step::Sizes FullSizes(const LoweredStep& of) const {
    step::Sizes sizes = of.sizes;
    const step::CommonLabels& common = of.model.graph.common;
    if (of.model.graph.dropless && common.slot >= 0) {
      sizes[AsIndex(common.slot)] = sizes[AsIndex(common.query)];
      step::FinishSizes(of.model.graph, sizes);
    }
    return sizes;
  }

  // Chooses the mesh and the sizes of the proof. Returns nullopt if the step
  // cannot be proved.
  std::optional<step::Sizes> ChooseSizes(LoweredStep& small, std::string& why) {
    out_.full = request_.full;
    if (request_.full) {
      out_.reduced_mesh = OwnMesh();
      return FullSizes(small);
    }
    out_.reduced_mesh = ReducedMesh(OwnMesh(), request_.most_devices);
    const step::Axes axes = step::AxesOf(out_.reduced_mesh);
    if (axes.names != small.program->axes.names) {
      why = "the mesh has no small one";
      return std::nullopt;
    }
    small.program->axes = axes;
    return ReducedSizes(small.model.graph, small.sizes, *small.program, why);
  }

  bool HasDevices(const StepCase& test) {
    if (request_.transport == nullptr) return true;
    const int ranks = request_.transport->ranks();
    const int devices = exec::SimMesh(test.mesh).devices();
    if (ranks <= devices) return true;
    findings_.Add(code::kUsage, {},
                  std::to_string(ranks) + " processes for " +
                      Counted(devices, "device") + ", which the proof needs",
                  "start at most one for each device of the mesh");
    return false;
  }

  bool Fits(const StepCase& test) {
    if (!request_.full) return true;
    if (compiled_.mesh.devices > kMostProofDevices) {
      findings_.Add(
          code::kLimit, {},
          "a run in full is for " + std::to_string(kMostProofDevices) +
              " devices at most, not " + std::to_string(compiled_.mesh.devices),
          "give a smaller mesh, or leave out `--full`");
      return false;
    }
    const int64_t need = ProofBytes(test);
    if (need <= request_.memory_bytes) return true;
    findings_.Add(
        code::kLimit, {},
        "the run in full needs " + BytesText(need) + " of memory, and " +
            BytesText(request_.memory_bytes) + " are free",
        "give a smaller `--batch` and `--seq`, one layer by `--part 'layer 0'`,"
        " or leave out `--full`");
    return false;
  }

  void ShowSizes(const Graph& graph, const step::Sizes& sizes) {
    for (size_t label = 0; label < sizes.size(); ++label) {
      if (!graph.labels[label].factors.empty()) continue;
      out_.reduced_sizes.emplace_back(graph.labels[label].name, sizes[label]);
    }
  }

  void Keep(const Graph& graph, int32_t index, const exec::Buffer& made,
            const std::vector<double>& reference) {
    const Op& op = graph.ops[AsIndex(index)];
    out_.tensors.push_back({.part = StepPartName(graph, op),
                            .op = StepOpName(op),
                            .value = StepLabelsText(graph, op.out),
                            .phase = op.phase,
                            .input = op.kind == step::OpKind::kInput,
                            .made = made,
                            .reference = reference});
    kept_ops_.push_back(index);
  }

  // Proves the step. Returns false after an error was added to `findings_`.
  bool Prove(const Graph& full) {
    out_.reduced_layers = ProvedLayers(full);
    // The number of steps of a ring in the graph depends on the mesh. The mesh
    // must therefore be reduced before the graph is built.
    const bool as_it_is = request_.full || full.ring.turns < 0;
    const Mesh mesh =
        as_it_is ? OwnMesh() : ReducedMesh(OwnMesh(), request_.most_devices);
    const auto form = FormOf(request_, mesh, out_.reason);
    if (!form) return Unsupported(out_.reason);
    StepRequest own = request_;
    StagedStep staged;
    std::string why;
    if (request_.stages != nullptr && !Divide(own, staged, why)) {
      return Unsupported(why);
    }
    auto small = BuildStep(own, out_.reduced_layers, findings_, *form);
    if (!small) return false;
    if (!LowerAt(*small, mesh)) return true;
    const auto sizes = ChooseSizes(*small, why);
    if (!sizes) return Unsupported(why);
    const Graph& graph = small->model.graph;
    ShowSizes(graph, *sizes);
    Mesh single;
    single.axes = {{"one", 1, AxisType::kAuto}};
    const auto alone = LowerStep(request_, *small, single, why);
    StepCase test{.graph = &graph,
                  .program = &*small->program,
                  .alone = alone ? &*alone : nullptr,
                  .mesh = out_.reduced_mesh,
                  .sizes = *sizes,
                  .dtype = request_.dtype,
                  .seed = request_.seed,
                  .threads = request_.threads,
                  .transport = request_.transport,
                  .seams = {},
                  .run = nullptr};
    // At real sizes, the memory suffices for only one set of inputs.
    if (request_.full) test.more_sets = 0;
    if (request_.keep_tensors) {
      test.compared = [&](int32_t op, const exec::Buffer& made,
                          const std::vector<double>& reference) {
        Keep(graph, op, made, reference);
      };
    }
    if (!HasDevices(test) || !Fits(test)) return false;
    const StepProof proof = request_.stages != nullptr
                                ? ProveStaged(test, staged)
                                : ProveStep(test);
    if (proof.overflow >= 0) {
      const Op& op = graph.ops[AsIndex(proof.overflow)];
      return Unsupported(StepOpName(op) + ": " +
                         std::string(DtypeName(request_.dtype)) +
                         " does not hold its numbers on one device either");
    }
    Take(proof, graph);
    return true;
  }

  // Chooses a reduced table and the layers of its stages, and changes the
  // request `own` so that these layers and stages are written into the graph.
  bool Divide(StepRequest& own, StagedStep& staged, std::string& why) {
    const auto table = ReducedTable(request_.stages->table, why);
    if (!table) return false;
    ReducedDivision of =
        DivideLayers(*request_.stages, table->stages, out_.reduced_layers,
                     static_cast<int32_t>(out_.layers));
    out_.reduced_layers = std::move(of.layers);
    const auto reduction = request_.reduction;
    own.accumulate = [&staged, table = *table, division = of.division,
                      reduction](Graph& graph) {
      return WriteStagedStep(graph, table, division, reduction, staged);
    };
    return true;
  }

  StepProof ProveStaged(StepCase& test, const StagedStep& step) {
    const StagedProgram staged(*test.graph, *test.program, step);
    const schedule::Programs programs =
        schedule::Lower(step.table, schedule::Receives::kInSendOrder);
    const StagedRunRequest run{.graph = test.graph,
                               .program = test.program,
                               .staged = &staged,
                               .table = &step.table,
                               .programs = &programs,
                               .threads = request_.threads};
    StagedTraffic traffic;
    test.execute = [&](const exec::SimMesh& mesh, const exec::Seams& seams,
                       const exec::StepInputs& inputs,
                       std::vector<StepProblem>& problems) {
      return RunStaged(run, mesh, seams, inputs, problems, &traffic);
    };
    StepProof proof = ProveStep(test);
    out_.stages->proved_ranks = step.table.ranks();
    out_.stages->proved_stages = step.table.stages;
    out_.stages->proved_virtual = StagesOfEachRank(step.table);
    out_.stages->proved_microbatches = step.table.microbatches;
    out_.stages->messages = traffic.messages;
    return proof;
  }

  bool Unsupported(const std::string& why) {
    out_.status = StepStatus::kUnsupported;
    out_.reason = why;
    return true;
  }

  void Take(const StepProof& proof, const Graph& small) {
    out_.proved = true;
    out_.sent_bytes = proof.ledger.TotalSent();
    out_.moved_bytes = proof.ledger.moved().Total();
    out_.crossed_bytes = proof.ledger.crossed();
    out_.gradients = proof.gradients;
    out_.updates = proof.updates;
    out_.caches = proof.caches;
    for (const StepProblem& problem : proof.problems) {
      Problem(StepCheckName(problem.check), small, problem.op, problem.message);
    }
    const std::vector<OpPlace> places = PlacesOf(small);
    std::map<OpPlace, ValueError> errors;
    for (size_t i = 0; i < small.ops.size(); ++i) {
      const ValueError& error = proof.values[AsIndex(small.ops[i].out)];
      if (!error.judged) continue;
      errors[places[i]] = error;
      if (!small.values[AsIndex(small.ops[i].out)].integral &&
          error.error >= out_.worst) {
        out_.worst = error.error;
        out_.worst_allowed = error.allowed;
      }
    }
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      const ValueError& error =
          proof.values[AsIndex(small.ops[AsIndex(kept_ops_[i])].out)];
      if (!error.judged) continue;
      out_.tensors[i].error = error.error;
      out_.tensors[i].allowed = error.allowed;
    }
    for (size_t i = 0; i < out_.rows.size(); ++i) {
      if (row_ops_[i] < 0) continue;
      const auto found = errors.find(places_[AsIndex(row_ops_[i])]);
      if (found == errors.end()) continue;
      out_.rows[i].error = found->second.error;
      out_.rows[i].allowed = found->second.allowed;
    }
  }

  const StepRequest& request_;
  const Compiled& compiled_;
  Findings& findings_;
  StepReport out_;
  std::vector<int32_t> row_ops_;
  // Indexed as StepReport::tensors: the index of the op that computes the
  // tensor.
  std::vector<int32_t> kept_ops_;
  std::vector<OpPlace> places_;
};

}  // namespace

std::string_view PhaseName(Phase phase) {
  constexpr std::array<std::string_view, 3> kNames = {"forward", "backward",
                                                      "optimizer"};
  return kNames[static_cast<size_t>(phase)];
}

std::string_view StepStatusName(StepStatus status) {
  return status == StepStatus::kPass   ? "pass"
         : status == StepStatus::kFail ? "fail"
                                       : "unsupported";
}

int64_t StepReport::Sent(Phase phase) const {
  int64_t out = 0;
  for (const StepTraffic& one : traffic) {
    if (one.phase == phase) out += one.bytes;
  }
  return out;
}

std::optional<StepReport> VerifyStep(const StepRequest& request,
                                     Findings& findings) {
  StepRequest own = request;
  own.constraints = OverridesOf(request);
  return Reporter(own, findings).Run();
}

// Decides whether an attention operation can run in a step. The decision uses
// the plan's specs and shapes without elements, as the verification of
// attention does. How the operation runs in a step (as a global view, a kernel
// on slices or a ring) is decided by exec/step/run.h.

namespace {

// Returns the sizes of attention, from the graph of one layer, or nullopt if
// the model's description cannot be built.
std::optional<Sizes> SizesOf(const StepRequest& request) {
  // The errors of this graph are dropped, because building all layers reports
  // them again.
  Findings unreported;
  const auto model = step::BuildForward(
      *request.compiled->rules.model, request.config,
      request.compiled->manifest, request.mode, unreported, {0});
  if (!model) return std::nullopt;
  const step::Graph& graph = model->graph;
  const step::Sizes sizes =
      step::RealSizes(*model, request.batch, request.length);
  const auto size = [&](step::LabelId label) { return sizes[AsIndex(label)]; };
  Sizes out;
  out.batch = request.batch;
  out.query_length = out.key_length = request.length;
  for (const step::Op& op : graph.ops) {
    const auto& labels = graph.values[AsIndex(op.out)].labels;
    if (op.constraint == "q" && labels.size() > 3) {
      // The dimensions are [batch, tokens, heads, head dim]. If query heads are
      // divided into groups, several dimensions take the place of `heads`.
      out.heads = 1;
      for (size_t i = 2; i + 1 < labels.size(); ++i) {
        out.heads *= size(labels[i]);
      }
      out.head_dim = size(labels.back());
    } else if (op.kind == step::OpKind::kRename && labels.size() == 4 &&
               step::As<step::RenameAttributes>(op).to == graph.common.key) {
      out.key_heads = size(labels[2]);
    } else if (op.kind == step::OpKind::kCacheWrite && labels.size() == 4) {
      out.key_heads = size(labels[2]);
    }
  }
  return SizesOfMode(out, request.mode);
}

std::optional<Case> CaseOf(const StepRequest& request, const Mesh& mesh) {
  const auto sizes = SizesOf(request);
  if (!sizes) return std::nullopt;
  Case out;
  out.operation = request.operation;
  out.mode = request.mode;
  out.mesh = mesh;
  out.sizes = *sizes;
  out.dtype = request.element_bytes == 2 ? Dtype::kBF16 : Dtype::kF32;
  out.features.causal = true;
  out.specs = ResolveSpecs(FigureResolver(*request.compiled), out,
                           request.compiled->IllegalFor(-1));
  return out;
}

}  // namespace

std::optional<step::AttentionForm> FormOf(const StepRequest& request,
                                          const Mesh& mesh, std::string& why) {
  step::AttentionForm out;
  if (request.operation == nullptr) return out;
  const exec::Operation& operation = *request.operation;
  const auto refuse = [&](const std::string& reason) {
    why = std::string(operation.name) + ": " + reason;
    return std::nullopt;
  };
  if (operation.IsPaged()) {
    return refuse("a step keeps keys in caches, not in pages");
  }
  if (!Applies(operation, request.mode, Layout::kBthd)) {
    return refuse("is for decoding alone");
  }
  const auto test = CaseOf(request, mesh);
  if (!test) return out;
  if (const auto refusal = RefusalAt(*test)) return refuse(refusal->reason);
  if (operation.global_view) return out;
  if (request.compiled->rules.model->HasEncoder()) {
    return refuse("a model with an encoder runs as described");
  }
  const exec::SimMesh sim(mesh);
  return exec::StepForm(operation, sim.Parts(test->specs.query[1]),
                        test->sizes.key_heads / sim.Parts(test->specs.key[2]));
}

std::vector<step::ShardingConstraintOverride> OverridesOf(
    const StepRequest& request) {
  if (request.operation == nullptr) return {};
  step::ShardingConstraints constraints = step::ShardingConstraintsOf(
      FigureResolver(*request.compiled), request.mode);
  const auto own = static_cast<int64_t>(constraints.overrides.size());
  exec::AddStepOverrides(*request.operation, constraints);
  return {constraints.overrides.begin() + own, constraints.overrides.end()};
}

std::optional<exec::SentBytes> FormulaOf(const StepRequest& request,
                                         const Mesh& mesh) {
  const auto test = CaseOf(request, mesh);
  if (!test) return std::nullopt;
  return SentAt(*test);
}

}  // namespace shardc::verify
