// The graph is lowered twice at real sizes: whole, for the bytes, and with a
// layer of each kind, for the proof at small sizes. Rows are an op's
// collectives; layers whose rows are the same, one after the other, are one.
//
//   layer 0-31  linear o  [b,t,d]  b:fsdp+dp  all_reduce tp  192.0 MiB
#include "verify/step/step_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "exec/machine/mesh_sim.h"
#include "source/digest.h"
#include "source/index.h"
#include "source/wording.h"
#include "step/sizes.h"
#include "step/validate.h"
#include "verify/step/reduced_case.h"
#include "verify/step/step_operation.h"

namespace shardc::verify {
namespace {

using step::Graph;
using step::Instruction;
using step::InstructionKind;
using step::Op;
using step::Phase;
using step::Program;

constexpr int64_t kMostDevices = 64;
constexpr std::string_view kEncoder = "encoder ";

// Which op of its layer and phase an op is: the same in every graph of the
// model.
using Place = std::tuple<int32_t, Phase, int32_t>;

std::vector<Place> PlacesOf(const Graph& graph) {
  std::vector<Place> out;
  std::map<std::pair<int32_t, Phase>, int32_t> next;
  for (const Op& op : graph.ops) {
    out.emplace_back(op.layer, op.phase, next[{op.layer, op.phase}]++);
  }
  return out;
}

class Reporter {
 public:
  Reporter(const StepRequest& request, Findings& findings)
      : request_(request), compiled_(*request.compiled), findings_(findings) {}

  std::optional<StepReport> Run() {
    Start();
    const auto form = FormOf(request_, compiled_.mesh, out_.reason);
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
    if (!LowerAt(*full, compiled_.mesh)) return std::move(out_);
    Describe(*full);
    for (const step::ProgramFault& fault :
         step::Validate(full->model.graph, *full->program, full->sizes)) {
      Problem("static", full->model.graph, fault.op, fault.message);
    }
    if (request_.numbers) {
      const bool known = Prove(full->model.graph);
      if (!known) return std::nullopt;
    }
    Fold();
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
    out_.policy = StepPolicyOf(request_);
    out_.part = request_.part;
    out_.seed = request_.seed;
    if (request_.mode != Mode::kTrain) return;
    out_.remat = request_.remat.text;
    out_.microbatches = request_.microbatches;
    out_.reduction = request_.reduction;
  }

  bool InPart(const std::string& part) const {
    return request_.part.empty() || request_.part == part;
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

  // Rows, clashes and totals of the whole program.
  void Describe(const LoweredStep& full) {
    const Graph& graph = full.model.graph;
    const Program& program = *full.program;
    std::string text;
    for (const Instruction& step : program.code) {
      if (step.kind != InstructionKind::kCollective) continue;
      AddRow(graph, program, step, full.sizes, text);
    }
    std::map<std::tuple<std::string, std::string, std::string>, size_t> known;
    for (const step::ShardingConflict& conflict : program.conflicts) {
      AddConflict(graph, program, conflict, known);
    }
    DescribePeak(full);
    out_.notes = program.notes;
    out_.program = Sha256(text);
    places_ = PlacesOf(graph);
  }

  void DescribePeak(const LoweredStep& full) {
    const step::PeakMemory peak =
        step::PeakOf(full.model.graph, *full.program, full.sizes,
                     {.values = request_.element_bytes});
    out_.peak.bytes = peak.bytes;
    out_.peak.instruction = peak.instruction;
    out_.peak.instructions = static_cast<int64_t>(full.program->code.size());
    const int32_t index =
        peak.instruction < 0 ? -1
                             : full.program->code[AsIndex(peak.instruction)].op;
    out_.peak.part = "model";
    out_.peak.op = "results";
    if (index < 0) return;
    const Op& op = full.model.graph.ops[AsIndex(index)];
    out_.peak.phase = op.phase;
    out_.peak.part = StepPartName(full.model.graph, op);
    out_.peak.op = StepOpName(op);
  }

  void AddRow(const Graph& graph, const Program& program,
              const Instruction& step, const step::Sizes& sizes,
              std::string& text) {
    const int64_t bytes =
        step::SentBytes(graph, program, step, sizes, request_.element_bytes);
    const step::Slot& from = program.slots[AsIndex(step.in[0])];
    const step::Slot& to = program.slots[AsIndex(step.out)];
    StepRow row;
    if (step.op >= 0) {
      const Op& op = graph.ops[AsIndex(step.op)];
      row.part = StepPartName(graph, op);
      row.phase = op.phase;
      row.micro = op.micro;
      row.op = StepOpName(op);
    } else {
      row.part = "model";
      row.op = "results";
    }
    row.result = StepLabelsText(graph, from.value);
    row.specs =
        step::ShardingText(graph, program.axes, from.value, from.sharding) +
        " -> " + step::ShardingText(graph, program.axes, to.value, to.sharding);
    row.collective = step.collective;
    row.axes = program.axes.Group(step.axes);
    row.bytes = bytes;
    text += row.part + "|" + row.op + "|" + row.result + "|" + row.specs + "|" +
            std::string(CollectiveName(step.collective)) + "|" +
            GroupText(row.axes) + "\n";
    if (!InPart(row.part)) return;
    AddTraffic(row);
    row_ops_.push_back(step.op);
    out_.rows.push_back(std::move(row));
  }

  void AddTraffic(const StepRow& row) {
    for (StepTraffic& one : out_.traffic) {
      if (one.phase == row.phase && one.collective == *row.collective &&
          one.axes == row.axes) {
        ++one.count;
        one.bytes += row.bytes;
        return;
      }
    }
    out_.traffic.push_back(
        {row.phase, *row.collective, row.axes, 1, row.bytes});
  }

  void AddConflict(const Graph& graph, const Program& program,
                   const step::ShardingConflict& conflict,
                   std::map<std::tuple<std::string, std::string, std::string>,
                            size_t>& known) {
    const Op& op = graph.ops[AsIndex(conflict.op)];
    if (!InPart(StepPartName(graph, op))) return;
    const auto name = [&](step::LabelId label) {
      return label < 0 ? std::string("gathered")
                       : graph.labels[AsIndex(label)].name;
    };
    StepConflict out;
    out.part = PhaseName(op.phase);
    out.op = StepOpName(op);
    out.axis = program.axes.names[conflict.axis];
    for (step::LabelId label : conflict.labels)
      out.labels.push_back(name(label));
    out.chosen = name(conflict.chosen);
    out.cheapest = name(conflict.cheapest);
    out.bytes = conflict.bytes;
    out.least = conflict.least;
    const auto key =
        std::make_tuple(out.part, out.op, out.axis + out.chosen + out.cheapest);
    const auto [found, fresh] = known.emplace(key, out_.conflicts.size());
    if (fresh) {
      out_.conflicts.push_back(std::move(out));
    } else {
      StepConflict& same = out_.conflicts[found->second];
      ++same.count;
      same.bytes += out.bytes;
      same.least += out.least;
    }
  }

  std::vector<int32_t> ProvedLayers(const Graph& full) const {
    if (IsLayer(request_.part)) {
      const int32_t layer = NumberOf(request_.part);
      if (!request_.part.starts_with(kEncoder)) return {layer};
      // By one of the model's own its gradients come back.
      return {0, out_.encoder_layer + layer};
    }
    if (!request_.full) return ReducedLayers(full);
    std::vector<int32_t> out(AsIndex(out_.layers));
    std::iota(out.begin(), out.end(), 0);
    return out;
  }

  // The real sizes, with room in an expert's queue for whoever comes.
  step::Sizes FullSizes(const LoweredStep& of) const {
    step::Sizes sizes = of.sizes;
    const step::CommonLabels& common = of.model.graph.common;
    if (of.model.graph.dropless && common.slot >= 0) {
      sizes[AsIndex(common.slot)] = sizes[AsIndex(common.query)];
      step::FinishSizes(of.model.graph, sizes);
    }
    return sizes;
  }

  // The mesh and the sizes of the proof; nothing where it has none.
  std::optional<step::Sizes> ChooseSizes(LoweredStep& small, std::string& why) {
    out_.full = request_.full;
    if (request_.full) {
      out_.reduced_mesh = compiled_.mesh;
      return FullSizes(small);
    }
    out_.reduced_mesh = ReducedMesh(compiled_.mesh, kMostDevices);
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
    if (compiled_.mesh.devices > kMostDevices) {
      findings_.Add(code::kLimit, {},
                    "a run in full is for " + std::to_string(kMostDevices) +
                        " devices at most, not " +
                        std::to_string(compiled_.mesh.devices),
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

  // False after findings.
  bool Prove(const Graph& full) {
    out_.reduced_layers = ProvedLayers(full);
    // A ring has as many turns as it has devices.
    const bool as_it_is = request_.full || full.ring.turns < 0;
    const Mesh mesh =
        as_it_is ? compiled_.mesh : ReducedMesh(compiled_.mesh, kMostDevices);
    const auto form = FormOf(request_, mesh, out_.reason);
    if (!form) return Unsupported(out_.reason);
    auto small = BuildStep(request_, out_.reduced_layers, findings_, *form);
    if (!small) return false;
    if (!LowerAt(*small, mesh)) return true;
    std::string why;
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
    // At real sizes there is room for one.
    if (request_.full) test.more_sets = 0;
    if (request_.keep_tensors) {
      test.compared = [&](int32_t op, const exec::Buffer& made,
                          const std::vector<double>& reference) {
        Keep(graph, op, made, reference);
      };
    }
    if (!HasDevices(test) || !Fits(test)) return false;
    const StepProof proof = ProveStep(test);
    if (proof.overflow >= 0) {
      const Op& op = graph.ops[AsIndex(proof.overflow)];
      return Unsupported(StepOpName(op) + ": " +
                         std::string(DtypeName(request_.dtype)) +
                         " does not hold its numbers on one device either");
    }
    Take(proof, graph);
    return true;
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
    const std::vector<Place> places = PlacesOf(small);
    std::map<Place, ValueError> errors;
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

  // Rows of one layer, without what the proof says of them.
  using Rows = std::vector<StepRow>;
  static bool Alike(const Rows& a, const Rows& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      const StepRow &x = a[i], &y = b[i];
      if (x.op != y.op || x.result != y.result || x.specs != y.specs ||
          x.collective != y.collective || x.axes != y.axes ||
          x.bytes != y.bytes) {
        return false;
      }
    }
    return true;
  }

  // Runs of layers whose rows are alike become one; a fold takes the worst
  // error of its layers.
  void Fold() {
    Rows folded;
    size_t at = 0;
    while (at < out_.rows.size()) {
      size_t end = Block(at);
      Rows block(out_.rows.begin() + static_cast<int64_t>(at),
                 out_.rows.begin() + static_cast<int64_t>(end));
      const std::string first = block.front().part;
      std::string last = first;
      int64_t layers = 1;
      while (IsLayer(first) && end < out_.rows.size()) {
        const size_t next = Block(end);
        const Rows more(out_.rows.begin() + static_cast<int64_t>(end),
                        out_.rows.begin() + static_cast<int64_t>(next));
        if (StackOf(first) != StackOf(more.front().part) ||
            !Alike(block, more)) {
          break;
        }
        for (size_t i = 0; i < block.size(); ++i) {
          if (!more[i].error) continue;
          if (!block[i].error || *more[i].error > *block[i].error) {
            block[i].error = more[i].error;
            block[i].allowed = more[i].allowed;
          }
        }
        last = more.front().part;
        ++layers;
        end = next;
      }
      for (StepRow& row : block) {
        row.layers = layers;
        if (layers > 1) row.part = Range(first, last);
        folded.push_back(std::move(row));
      }
      at = end;
    }
    out_.rows = std::move(folded);
  }

  // Of "layer 3" the word, all of "model", and the number.
  static std::string StackOf(const std::string& part) {
    return part.substr(0, part.find(' '));
  }
  static int NumberOf(const std::string& part) {
    return std::stoi(part.substr(part.find(' ') + 1));
  }
  static bool IsLayer(std::string_view part) {
    return part.starts_with("layer ") || part.starts_with(kEncoder);
  }
  static std::string Range(const std::string& first, const std::string& last) {
    const int a = NumberOf(first), b = NumberOf(last);
    return StackOf(first) + " " + std::to_string(std::min(a, b)) + "-" +
           std::to_string(std::max(a, b));
  }

  // The end of the rows of one part and phase.
  size_t Block(size_t at) const {
    size_t end = at;
    while (end < out_.rows.size() &&
           out_.rows[end].part == out_.rows[at].part &&
           out_.rows[end].phase == out_.rows[at].phase &&
           out_.rows[end].micro == out_.rows[at].micro) {
      ++end;
    }
    return end;
  }

  const StepRequest& request_;
  const Compiled& compiled_;
  Findings& findings_;
  StepReport out_;
  std::vector<int32_t> row_ops_;
  std::vector<int32_t> kept_ops_;  // by tensor
  std::vector<Place> places_;
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

}  // namespace shardc::verify
