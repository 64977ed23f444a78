// Assigns each collective of a step's program to a part of the report, such as
// parameters, gradients, experts or layers. The part follows from the value
// that the collective moves:
//
// - A parameter, or a value computed from parameters only, belongs to
//   "parameters".
// - A gradient of a parameter belongs to "gradients".
// - A value with a dimension of experts belongs to "experts".
// - For any other value, the part follows from the op for which the collective
//   runs.
//
// Collectives of the optimizer are reported with the backward pass. In these
// two examples, `d:linear down` is an op of the backward pass, which computes
// the gradient of the weight of `linear down`:
//
//   backward  d:linear down  [d,f] partial dp  all_reduce dp  ->  gradients
//   forward   add            [b,t,d] partial tp               ->  layers
#include "cost/program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/operations/operation.h"
#include "exec/step/run.h"
#include "plan/axis_facts.h"
#include "plan/lowered_step.h"
#include "source/finding.h"
#include "source/list.h"
#include "source/size.h"
#include "step/layer_fold.h"
#include "step/lines.h"
#include "step/program.h"
#include "step/roles.h"
#include "step/validate.h"

namespace shardc::cost {
namespace {

// The largest number of pairs of tokens in attention. A larger number, times
// heads and bytes, might not fit in 64 bits.
constexpr int64_t kMostPairs = int64_t{1} << 50;
constexpr auto kGlobalView = step::AttentionView::kGlobal;

// The parts of a step, in the order in which the report lists them.
constexpr std::array<std::string_view, 9> kParts = {
    "parameters", "gradients", "embedding", "layers",   "attention",
    "norms",      "experts",   "logits",    "optimizer"};
size_t RankOf(std::string_view part) {
  return AsIndex(std::find(kParts.begin(), kParts.end(), part) -
                 kParts.begin());
}

// Returns the name of the forward op to which a backward op belongs: `linear
// down` for the gradient `d:linear down` and for the recomputation `r:linear
// down`. Returns other names unchanged.
std::string_view ForwardName(std::string_view name) {
  const bool of_another = name.starts_with("d:") || name.starts_with("r:");
  return of_another ? name.substr(2) : name;
}

class MoveClassifier {
 public:
  MoveClassifier(const step::Graph& graph, const step::Program& program)
      : graph_(graph),
        program_(program),
        weight_(step::FindWeights(graph)),
        gradient_(step::FindGradientValues(graph)) {
    for (const step::ValueId value : graph.updated) {
      if (value >= 0) updated_.insert(value);
    }
    FindBegin();
  }

  std::string_view PartOf(const step::Instruction& step) const {
    if (step.op < 0) return "logits";
    const step::Op& op = graph_.ops[AsIndex(step.op)];
    const step::ValueId value = program_.slots[AsIndex(step.in[0])].value;
    // In ZeRO, updated parameters are gathered. These all-gathers are assigned
    // to the part "parameters", not to "optimizer".
    if (updated_.contains(value)) return "parameters";
    if (op.phase == step::Phase::kOptimizer) return "optimizer";
    if (gradient_[AsIndex(value)] != 0) return "gradients";
    if (weight_[AsIndex(value)] != 0) return "parameters";
    const std::string_view name = ForwardName(op.name);
    if (op.layer < 0) {
      const bool begins = IsAmong(name, begin_);
      return begins ? "embedding" : "logits";
    }
    if (HasExperts(value)) return "experts";
    // A norm's statistic, such as the mean square, lacks the hidden dimension.
    // The norm's result has that dimension, and belongs to the part "layers".
    const bool sums = graph_.values[AsIndex(value)].labels.size() <= 2;
    if (sums && name.find("norm") != std::string_view::npos) return "norms";
    const bool attends =
        name == "attention" || name.starts_with("attention_near");
    return attends ? "attention" : "layers";
  }

  // Returns the fraction of a collective's bytes that a runtime sends. The
  // program has a queue for each expert and each row of the batch, with places
  // for a whole number of tokens. In decoding, a row has one token and thus a
  // place in each of E queues, but the token fills only k of them. A queue with
  // more places than t * k / E, rounded up, has them by its capacity, and is
  // sent whole.
  double SentShare(const step::Instruction& step,
                   const step::Sizes& sizes) const {
    const step::CommonLabels& common = graph_.common;
    const step::Slot& from = program_.slots[AsIndex(step.in[0])];
    const auto& labels = graph_.values[AsIndex(from.value)].labels;
    const auto has = [&](step::LabelId label) {
      return label != step::kNoLabel && IsAmong(label, labels);
    };
    const auto size = [&](step::LabelId label) {
      return Real(sizes[AsIndex(label)]);
    };
    if (has(common.query) || !has(common.experts) || !has(common.slot)) {
      return 1;
    }
    const double each =
        size(common.query) * size(common.top_k) / size(common.experts);
    return size(common.slot) > std::ceil(each) ? 1 : each / size(common.slot);
  }

 private:
  // Finds the names of the ops before the layers of the decoder and of the
  // encoder. The collectives of these ops belong to the part "embedding".
  void FindBegin() {
    std::vector<std::string_view> names;
    int stack = -1;
    for (const step::Op& op : graph_.ops) {
      if (op.phase != step::Phase::kForward) return;
      if (op.in.empty()) continue;
      if (op.layer < 0) {
        names.push_back(op.name);
        continue;
      }
      const int now = IsEncoderLayer(op.layer, graph_.encoder_layer) ? 1 : 0;
      if (now != stack) {
        begin_.insert(begin_.end(), names.begin(), names.end());
      }
      stack = now;
      names.clear();
    }
  }

  bool HasExperts(step::ValueId value) const {
    const auto& labels = graph_.values[AsIndex(value)].labels;
    return std::any_of(labels.begin(), labels.end(), [&](step::LabelId label) {
      return label == graph_.common.experts || label == graph_.common.slot;
    });
  }

  const step::Graph& graph_;
  const step::Program& program_;
  // weight_[id] is 1 if the value is a parameter or is computed from parameters
  // only.
  const std::vector<char> weight_;
  // gradient_[id] is 1 if the value is a parameter's gradient.
  const std::vector<char> gradient_;
  std::set<step::ValueId> updated_;
  std::vector<std::string_view> begin_;
};

}  // namespace

std::string AgainstProgram(const CostInputs& work, const Settings& settings) {
  if (!settings.batch) return "it needs --batch";
  const bool generates = IsGeneration(work.mode);
  const auto& length = generates ? settings.kv_length : settings.length;
  if (!length) return generates ? "it needs --kv-len" : "it needs --seq";
  const int64_t queries = generates ? 1 : *length;
  if (Times(*settings.batch, queries, *length) > kMostPairs) {
    return "its sizes do not fit in 64 bits";
  }
  if (work.mode == Mode::kInsert) return "mode insert has no step program";
  // Software routes the tokens of each device on their own. The program's
  // queues of experts have the tokens of complete rows, and would be reduced
  // over the axes that shard the tokens of a row.
  if (!generates && work.Find(Role::kDown, true) != nullptr &&
      !DropTrivial(work.mesh, work.Length()).empty()) {
    return "its experts have a queue for each row, of which a device has a "
           "part";
  }
  if (work.mode == Mode::kTrain &&
      *settings.batch % settings.microbatches != 0) {
    return "the batch is no multiple of the number of micro-batches";
  }
  for (const ParamClass& param : work.params) {
    if (param.frozen) return "only LoRA adapters are trained";
    if (!param.type.shape || !param.type.dtype) {
      return "some parameters have no shape or no dtype";
    }
    if (DtypeBits(*param.type.dtype) < 8) {
      return "parameters take less than a byte per element";
    }
  }
  return "";
}

Communication CommunicationOf(const step::Graph& graph,
                              const step::Program& program,
                              const step::Sizes& sizes, int64_t element_bytes,
                              std::span<const int64_t> times) {
  const MoveClassifier reader(graph, program);
  Communication out;
  for (size_t i = 0; i < program.code.size(); ++i) {
    const step::Instruction& step = program.code[i];
    if (step.kind != step::InstructionKind::kCollective) continue;
    Transfer one;
    one.part = reader.PartOf(step);
    one.backward = step.op >= 0 &&
                   graph.ops[AsIndex(step.op)].phase != step::Phase::kForward;
    one.kind = step.collective;
    one.axes = program.axes.Group(step.axes);
    one.count = times.empty() ? 1 : times[i];
    const int64_t all =
        step::SentBytes(graph, program, step, sizes, element_bytes);
    const double share = reader.SentShare(step, sizes);
    one.sent =
        Times(share < 1 ? std::llround(share * Real(all)) : all, one.count);
    const auto same = std::find_if(
        out.transfers.begin(), out.transfers.end(), [&](const Transfer& other) {
          return other.part == one.part && other.backward == one.backward &&
                 other.kind == one.kind && other.axes == one.axes;
        });
    if (same == out.transfers.end()) {
      out.transfers.push_back(std::move(one));
    } else {
      same->count += one.count;
      same->sent = CheckedAdd(same->sent, one.sent).value_or(INT64_MAX);
    }
  }
  std::stable_sort(out.transfers.begin(), out.transfers.end(),
                   [](const Transfer& a, const Transfer& b) {
                     return std::pair(RankOf(a.part), a.backward) <
                            std::pair(RankOf(b.part), b.backward);
                   });
  out.from_program = true;
  return out;
}

namespace {

// All micro-batches are equal, so the program has only one of them. Multiplies
// the counts of its instructions by the number of micro-batches.
void RepeatMicrobatch(const step::Graph& graph, const step::Program& program,
                      const StepInputs& inputs, std::vector<int64_t>& times) {
  if (!inputs.builds_one_microbatch || inputs.microbatches == 1) return;
  if (times.empty()) times.assign(program.code.size(), 1);
  for (size_t i = 0; i < program.code.size(); ++i) {
    const int32_t op = program.code[i].op;
    if (op < 0 || graph.ops[AsIndex(op)].micro < 0) continue;
    times[i] = Times(times[i], inputs.microbatches);
  }
}

int64_t RowsOf(const StepInputs& inputs) {
  return inputs.batch / (inputs.mode == Mode::kTrain ? inputs.microbatches : 1);
}

}  // namespace

std::optional<step::AttentionForm> StepTraffic::FormFor(
    const CostInputs& work, std::string& why) const {
  // By default, attention is computed by ops on global tensors, which the
  // compiler partitions and for which it inserts collectives
  // (AttentionView::kGlobal). This default is used in three cases: the settings
  // name no operation, the operation that they name is also written for global
  // tensors, or the mode uses the operation by default.
  const exec::Operation* const operation = settings_->operation;
  if (operation == nullptr || operation->global_view ||
      operation == UsualOperation(work, Settings{})) {
    return step::AttentionForm{};
  }
  const auto refuse = [&](const std::string& reason) {
    why = std::string(operation->name) + ": " + reason;
    return std::nullopt;
  };
  if (operation->IsPaged()) {
    return refuse("a step keeps keys in caches, not in pages");
  }
  if (operation->decode_only && !IsGeneration(work.mode)) {
    return refuse("is for decoding alone");
  }
  if (all_.rules.model->HasEncoder()) {
    return refuse("a model with an encoder runs as described");
  }
  const auto sizes = AttentionSizesOf(work, *settings_);
  if (!sizes) return refuse("the model's heads are not known");
  const exec::AttentionSpecs specs = SpecsFor(*operation, work);
  const AttentionBytes bytes =
      BytesOfAttention(*operation, work.mesh, specs, *sizes, {});
  if (!bytes.unknown.empty()) return refuse(bytes.unknown);
  return exec::StepForm(*operation, work.Parts(specs.query[1]),
                        sizes->key_heads / work.Parts(specs.key[2]));
}

StepInputs StepTraffic::InputsFor(const Compiled& compiled, Mode mode,
                                  const step::AttentionForm& form) const {
  StepInputs out;
  out.compiled = &compiled;
  out.config = model_ ? &*model_ : nullptr;
  out.mode = mode;
  out.batch = *settings_->batch;
  out.length = IsGeneration(mode) ? *settings_->kv_length : *settings_->length;
  out.records_conflicts = false;
  out.element_bytes = DtypeBits(settings_->activations) / 8;
  out.cache_bytes = DtypeBits(settings_->cache) / 8;
  if (settings_->gradients) {
    out.gradient_bytes = DtypeBits(*settings_->gradients) / 8;
  }
  out.remat = settings_->remat;
  if (settings_->operation != nullptr && form.view != kGlobalView) {
    step::ShardingConstraints constraints =
        step::ShardingConstraintsOf(FigureResolver(compiled), mode);
    const auto own = static_cast<int64_t>(constraints.overrides.size());
    exec::AddStepOverrides(*settings_->operation, constraints);
    out.constraints = {constraints.overrides.begin() + own,
                       constraints.overrides.end()};
  }
  if (mode != Mode::kTrain) return out;
  out.zero = settings_->zero;
  out.microbatches = settings_->microbatches;
  out.builds_one_microbatch = true;
  out.reduction = settings_->reduction;
  return out;
}

const step::LayerFold& StepTraffic::FoldFor(Mode mode) {
  const auto [at, fresh] = folds_.try_emplace(mode);
  step::LayerFold& out = at->second;
  if (!fresh) return out;
  const ModelConfig* const config = model_ ? &*model_ : nullptr;
  const step::Roles* const roles = graphs_->RolesOf(all_, config);
  if (roles == nullptr) return out;
  std::vector<uint32_t> layouts;
  layouts.reserve(all_.plan.params.size());
  for (const PlannedParam& param : all_.plan.params) {
    layouts.push_back(param.layout);
  }
  const auto kinds =
      step::LayerKinds(*all_.rules.model, config, *roles, mode, layouts);
  if (kinds) out = step::FoldLayers(*kinds);
  if (out.runs.empty()) out = {};
  return out;
}

std::optional<Communication> StepTraffic::On(
    const Compiled& compiled, const CostInputs& work, std::string& why,
    const Representatives* representatives) {
  if (compiled.rules.model == nullptr) {
    why = "no rules file has a `model:` section";
    return std::nullopt;
  }
  why = AgainstProgram(work, *settings_);
  if (!why.empty()) return std::nullopt;
  const auto form = FormFor(work, why);
  if (!form) return std::nullopt;
  auto out = Lowered(FoldFor(work.mode), *form, compiled, work.mode,
                     representatives, why);
  if (out || !why.empty()) return out;
  return Lowered({}, *form, compiled, work.mode, representatives, why);
}

// Returns the communication of the lowered step. Its graph has only the layers
// that `fold` lists, and these represent all layers of the model. Returns
// nullopt with an empty `why` if they cannot represent all layers; the program
// of all layers must then be lowered.
std::optional<Communication> StepTraffic::Lowered(
    const step::LayerFold& fold, const step::AttentionForm& form,
    const Compiled& compiled, Mode mode, const Representatives* representatives,
    std::string& why) {
  StepInputs inputs = InputsFor(compiled, mode, form);
  inputs.compiled = &all_;
  const StepGraph& of = graphs_->GraphOf(inputs, fold, form);
  inputs.compiled = &compiled;
  why = of.why_not;
  if (!why.empty()) return std::nullopt;
  const StepSizes& sized = graphs_->SizesOf(of, RowsOf(inputs), inputs.length);
  why = sized.why_not;
  if (!why.empty()) return std::nullopt;
  const step::Graph& graph = of.model.graph;
  std::vector<Spec> specs =
      StepSpecs(compiled.plan, graph, sized.sizes, mode,
                representatives == nullptr ? std::span<const uint32_t>{}
                                           : std::span(representatives->of),
                &why);
  if (!why.empty()) return std::nullopt;
  lowered_ops_ += static_cast<int64_t>(graph.ops.size());
  const auto program = LowerStep(inputs, graph, sized.sizes, std::move(specs),
                                 compiled.step_mesh, why);
  if (!program) return std::nullopt;
  std::vector<int64_t> times;
  if (!fold.runs.empty()) {
    auto known = step::InstructionTimes(graph, *program, fold);
    if (!known) return std::nullopt;
    times = std::move(*known);
  }
  RepeatMicrobatch(graph, *program, inputs, times);
  return CommunicationOf(graph, *program, sized.sizes, inputs.element_bytes,
                         times);
}

// Builds each graph of a step at most once. For example, a search evaluates 24
// rules files with 7 rematerialisation policies in two threads. If the same
// layers are identical under all rules files, the search needs only 14 graphs.
// For each policy these are one graph with a single micro-batch, and one with
// several.

const step::Roles* StepGraphs::RolesOf(const Compiled& compiled,
                                       const ModelConfig* config) {
  const std::lock_guard lock(mutex_);
  if (!has_roles_) {
    has_roles_ = true;
    // Building a graph reports errors in the model's description, so they are
    // not reported here.
    Findings unreported;
    const auto formulas =
        step::Formulas::Make(*compiled.rules.model, config, unreported);
    if (formulas != nullptr) {
      roles_ = step::AssignRoles(*compiled.rules.model, *formulas,
                                 compiled.manifest, unreported);
    }
  }
  return roles_ ? &*roles_ : nullptr;
}

const StepGraph& StepGraphs::GraphOf(const StepInputs& inputs,
                                     const step::LayerFold& fold,
                                     const step::AttentionForm& form) {
  Key key = {.mode = inputs.mode,
             .has_microbatches = inputs.microbatches > 1,
             .reduction = inputs.reduction,
             .remat = inputs.remat,
             .form = form,
             .element_bytes = inputs.element_bytes,
             .cache_bytes = inputs.cache_bytes,
             .gradient_bytes = inputs.gradient_bytes,
             .layer_times = fold.times};
  const step::Roles* const roles = RolesOf(*inputs.compiled, inputs.config);
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(
      entries_.begin(), entries_.end(),
      [&](const std::unique_ptr<Entry>& entry) { return entry->key == key; });
  if (at != entries_.end()) return (*at)->graph;
  auto fresh = std::make_unique<Entry>();
  fresh->key = std::move(key);
  StepInputs own = inputs;
  own.roles = roles;
  Findings findings;
  auto model = BuildStepModel(own, fold.layers, findings, form);
  if (model) {
    fresh->graph.model = std::move(*model);
  } else {
    fresh->graph.why_not = findings.all().empty()
                               ? "the model has no step program"
                               : findings.all().front().message;
  }
  entries_.push_back(std::move(fresh));
  return entries_.back()->graph;
}

const StepSizes& StepGraphs::SizesOf(const StepGraph& graph, int64_t rows,
                                     int64_t length) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [&](const std::unique_ptr<Entry>& entry) {
                                 return &entry->graph == &graph;
                               });
  Entry& entry = **at;
  const auto [known, fresh] = entry.sizes.try_emplace({rows, length});
  StepSizes& out = known->second;
  if (!fresh) return out;
  out.sizes = step::RealSizes(graph.model, rows, length);
  Findings findings;
  if (!step::CheckBytes(graph.model.graph, out.sizes, {}, findings,
                        entry.key.layer_times)) {
    out.why_not = findings.all().front().message;
  }
  return out;
}

}  // namespace shardc::cost
