// Divides a step into the tasks and messages of a pipeline. In the examples,
// 1F0 is the forward task of stage 1 for micro-batch 0.
//
// A value that another stage reads is sent from stage to stage, in the messages
// of its micro-batch. For example, a value of stage 0 that stages 1 and 3 read
// is sent through stage 2:
//
//   0F0 -> message of stage 0 -> 1F0 -> message of stage 1 -> 2F0 -> ... 3F0
//
// A backward task has two halves, I and W. The half I, for gradients of inputs,
// has the recomputed instructions and all instructions on which a message to
// the previous stage depends. The half W, for gradients of weights, has all
// other instructions. The first stage sends no gradient back. Its half I
// computes the gradient of its first layer's input, which the backward pass of
// the ops before the layers (such as the embedding) reads.
#include "verify/step/staged_step.h"

#include <algorithm>
#include <set>
#include <utility>

#include "schedule/channels.h"
#include "schedule/order.h"
#include "schedule/schedules.h"
#include "source/size.h"

namespace shardc::verify {
namespace {

using schedule::Task;
using schedule::TaskKind;
using step::Instruction;
using step::InstructionKind;
using step::Op;
using step::OpStage;
using step::StageWork;
using step::ValueId;

struct Term {
  int32_t stage = 0;
  ValueId value = step::kNoValue;
};

// Finds the terms that the tasks of each stage add to a parameter's gradient.
// The gradient has several terms if several stages read the parameter.
class Terms {
 public:
  Terms(step::Graph& graph, const std::vector<OpStage>& ops)
      : graph_(graph), ops_(ops), producer_(graph.values.size(), -1) {
    for (size_t i = 0; i < graph.ops.size(); ++i) {
      producer_[AsIndex(graph.ops[i].out)] = static_cast<int32_t>(i);
    }
  }

  std::vector<Term> Of(size_t parameter, std::vector<ValueId>& replaced) {
    const ValueId gradient = graph_.gradients[parameter];
    if (gradient == step::kNoValue) return {};
    const Op& op = OpOf(gradient);
    std::set<int32_t> stages;
    if (op.kind == step::OpKind::kAdd) {
      for (const ValueId value : op.in) stages.insert(StageOf(value));
    }
    if (stages.size() < 2 || stages.contains(-1)) {
      return {{StageOf(gradient), gradient}};
    }
    replaced.push_back(gradient);
    std::vector<Term> out;
    for (const ValueId value : std::vector<ValueId>(op.in)) {
      Op& term = graph_.ops[AsIndex(producer_[AsIndex(value)])];
      if (term.constraint.empty()) {
        term.constraint = "grad:" + graph_.parameters[parameter].role;
      }
      out.push_back({StageOf(value), value});
    }
    return out;
  }

 private:
  const Op& OpOf(ValueId value) const {
    return graph_.ops[AsIndex(producer_[AsIndex(value)])];
  }
  int32_t StageOf(ValueId value) const {
    const OpStage& of = ops_[AsIndex(producer_[AsIndex(value)])];
    return of.work == StageWork::kTask ? of.stage : -1;
  }

  step::Graph& graph_;
  const std::vector<OpStage>& ops_;
  // Indexed by value: the op that computes it; -1: none.
  std::vector<int32_t> producer_;
};

// Returns the terms in the order in which the tasks of a rank add them.
std::vector<step::GradientTerm> InRowOrder(
    const std::vector<schedule::Cell>& row, const std::vector<Term>& terms) {
  std::vector<step::GradientTerm> out;
  for (const schedule::Cell& cell : row) {
    schedule::ForEachTask(cell, [&](const Task& task) {
      if (task.kind != TaskKind::kBackward && task.kind != TaskKind::kWeight) {
        return;
      }
      for (const Term& term : terms) {
        if (term.stage == task.stage) out.push_back({task.micro, term.value});
      }
    });
  }
  return out;
}

// Returns true if an instruction only changes the sharding of a value.
bool Moves(const Instruction& code) {
  return code.kind == InstructionKind::kSlice ||
         code.kind == InstructionKind::kCollective;
}

bool IsBackward(TaskKind kind) { return kind != TaskKind::kForward; }

}  // namespace

bool WriteStagedStep(step::Graph& graph, const schedule::Table& table,
                     const step::StageDivision& division,
                     step::Reduction reduction, StagedStep& out) {
  if (table.microbatches < 2) return false;
  out.table = table;
  out.division = division;
  const std::vector<OpStage> ops =
      step::StagesOfOps(graph, division, {}, false);
  const auto parameter_stages = step::StagesOfParameters(graph, ops);
  Terms terms_of(graph, ops);
  step::GradientSums sums;
  std::map<ValueId, int32_t> stage_of_term;
  out.norm.assign(AsIndex(table.ranks()), {});
  for (int32_t rank = 0; rank < table.ranks(); ++rank) {
    out.norm[AsIndex(rank)].rank = rank;
  }
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const std::vector<Term> terms = terms_of.Of(i, sums.replaced);
    for (const Term& term : terms) stage_of_term[term.value] = term.stage;
    sums.of.emplace_back();
    for (const auto& row : table.rows) {
      sums.of.back().push_back(InRowOrder(row, terms));
    }
    if (parameter_stages[i].empty() || parameter_stages[i][0] < 0) continue;
    const int32_t first = table.RankOf(parameter_stages[i][0], 0);
    out.norm[AsIndex(first)].parameters.push_back(i);
  }
  if (!step::Accumulate(graph, table.microbatches, reduction, &sums)) {
    return false;
  }
  for (const auto& [value, term] : sums.adds) {
    out.sums[value] = stage_of_term[term.value];
  }
  step::AppendOptimizer(graph, out.norm);
  return true;
}

StagedProgram::StagedProgram(const step::Graph& graph,
                             const step::Program& program,
                             const StagedStep& step)
    : graph_(graph),
      program_(program),
      step_(step),
      ops_(step::StagesOfOps(graph, step.division, step.sums, true)),
      parameter_stages_(step::StagesOfParameters(graph, ops_)) {
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    parameter_of_[graph.parameters[i].value] = i;
    if (graph.moments.empty()) continue;
    parameter_of_[graph.moments[i].first] = i;
    parameter_of_[graph.moments[i].second] = i;
  }
  PlaceInstructions();
  PlaceMoves();
  FindMessages();
  FindHalves();
  for (size_t i = 0; i < places_.size(); ++i) {
    const InstructionPlace& at = places_[i];
    if (at.work != StageWork::kTask) continue;
    tasks_[{static_cast<int32_t>(at.half), at.stage, at.micro}].push_back(
        static_cast<int32_t>(i));
    for (const auto& [layer, stage] : step.twice) {
      if (graph.ops[AsIndex(program.code[i].op)].layer != layer) continue;
      tasks_[{static_cast<int32_t>(at.half), stage, at.micro}].push_back(
          static_cast<int32_t>(i));
    }
  }
}

void StagedProgram::PlaceInstructions() {
  const size_t slots = program_.slots.size();
  maker_.assign(slots, -1);
  readers_.assign(slots, {});
  for (size_t i = 0; i < program_.code.size(); ++i) {
    const Instruction& code = program_.code[i];
    InstructionPlace at;
    if (code.op < 0) {
      at.work = StageWork::kAfter;
    } else {
      const Op& op = graph_.ops[AsIndex(code.op)];
      const OpStage& of = ops_[AsIndex(code.op)];
      at = {of.work, of.stage, op.micro, TaskHalf::kForward};
      if (op.phase == step::Phase::kBackward) at.half = TaskHalf::kWeight;
    }
    if (Moves(code)) {
      // Inputs are resharded once, before the tasks.
      const StageWork from = places_[AsIndex(maker_[AsIndex(code.in[0])])].work;
      if (from == StageWork::kParameters || from == StageWork::kData) {
        at.work = from;
      }
    }
    for (const int32_t slot : code.in) {
      readers_[AsIndex(slot)].push_back(static_cast<int32_t>(i));
    }
    maker_[AsIndex(code.out)] = static_cast<int32_t>(i);
    places_.push_back(at);
  }
}

// A task may read a value through a reshard that is placed at the end of the
// step. The task that computes the value must then also run the reshard.
void StagedProgram::PlaceMoves() {
  for (size_t i = places_.size(); i > 0;) {
    --i;
    const Instruction& code = program_.code[i];
    if (places_[i].work != StageWork::kAfter || !Moves(code)) continue;
    const auto& readers = readers_[AsIndex(code.out)];
    const bool in_task =
        std::any_of(readers.begin(), readers.end(), [&](int32_t reader) {
          return places_[AsIndex(reader)].work == StageWork::kTask;
        });
    if (!in_task) continue;
    int32_t from = static_cast<int32_t>(i);
    while (places_[AsIndex(from)].work == StageWork::kAfter &&
           Moves(program_.code[AsIndex(from)])) {
      from = maker_[AsIndex(program_.code[AsIndex(from)].in[0])];
    }
    places_[i] = places_[AsIndex(from)];
  }
}

void StagedProgram::FindMessages() {
  lasts_.assign(program_.slots.size(), false);
  goes_back_.assign(program_.slots.size(), false);
  for (size_t slot = 0; slot < program_.slots.size(); ++slot) {
    if (maker_[slot] < 0) continue;
    const InstructionPlace& from = places_[AsIndex(maker_[slot])];
    if (from.work != StageWork::kTask) continue;
    int32_t lowest = from.stage, highest = from.stage;
    for (const int32_t reader : readers_[slot]) {
      const InstructionPlace& to = places_[AsIndex(reader)];
      // A rank may add up gradients of several of its stages. These gradients
      // are sent in no message.
      const bool adds = to.stage != from.stage && AddsToSum(reader);
      const bool same =
          to.work == StageWork::kTask && to.micro == from.micro && !adds;
      if (!same) {
        lasts_[slot] = true;
        if (to.work == StageWork::kTask && to.stage != from.stage &&
            why_not_.empty() && to.stage >= 0 && from.stage >= 0 &&
            step_.table.RankOf(to.stage, to.micro) !=
                step_.table.RankOf(from.stage, from.micro)) {
          why_not_ = "a stage reads another micro-batch of another stage";
        }
        continue;
      }
      lowest = std::min(lowest, to.stage);
      highest = std::max(highest, to.stage);
    }
    if (from.stage < 0) continue;
    for (int32_t stage = from.stage; stage < highest; ++stage) {
      messages_[{1, stage, from.micro}].push_back(static_cast<int32_t>(slot));
    }
    for (int32_t stage = from.stage; stage > std::max(lowest, 0); --stage) {
      messages_[{0, stage, from.micro}].push_back(static_cast<int32_t>(slot));
    }
    goes_back_[slot] = lowest < from.stage;
  }
}

bool StagedProgram::AddsToSum(int32_t instruction) const {
  const int32_t op = program_.code[AsIndex(instruction)].op;
  return op >= 0 && step_.sums.contains(graph_.ops[AsIndex(op)].out);
}

bool StagedProgram::FeedsInput(int32_t instruction) const {
  const Instruction& code = program_.code[AsIndex(instruction)];
  const InstructionPlace& at = places_[AsIndex(instruction)];
  const Op& op = graph_.ops[AsIndex(code.op)];
  if (op.recompute_of >= 0 || goes_back_[AsIndex(code.out)]) return true;
  for (const int32_t reader : readers_[AsIndex(code.out)]) {
    const InstructionPlace& to = places_[AsIndex(reader)];
    const bool same = to.work == StageWork::kTask && to.stage == at.stage &&
                      to.micro == at.micro;
    if (!same) continue;
    if (to.half == TaskHalf::kInput) return true;
    const Op& read = graph_.ops[AsIndex(program_.code[AsIndex(reader)].op)];
    if (at.stage == 0 && op.layer >= 0 && read.layer < 0) return true;
  }
  return false;
}

void StagedProgram::FindHalves() {
  for (size_t i = places_.size(); i > 0;) {
    --i;
    InstructionPlace& at = places_[i];
    if (at.work == StageWork::kTask && at.half == TaskHalf::kWeight &&
        FeedsInput(static_cast<int32_t>(i))) {
      at.half = TaskHalf::kInput;
    }
  }
}

int32_t StagedProgram::RankFor(int32_t slot) const {
  const Instruction& code = program_.code[AsIndex(MakerOf(slot))];
  if (code.op < 0) return -1;
  const ValueId value = graph_.ops[AsIndex(code.op)].out;
  for (const step::NormPart& part : step_.norm) {
    if (part.sum == value) return part.rank;
  }
  return -1;
}

std::vector<int32_t> StagedProgram::InstructionsOf(const Task& task) const {
  std::vector<int32_t> out;
  const auto add = [&](TaskHalf half) {
    const auto found =
        tasks_.find({static_cast<int32_t>(half), task.stage, task.micro});
    if (found == tasks_.end()) return;
    out.insert(out.end(), found->second.begin(), found->second.end());
  };
  if (task.kind == TaskKind::kForward) add(TaskHalf::kForward);
  if (task.SendsBack()) add(TaskHalf::kInput);
  if (IsBackward(task.kind) && task.kind != TaskKind::kInput) {
    add(TaskHalf::kWeight);
  }
  std::sort(out.begin(), out.end());
  return out;
}

const std::vector<int32_t>& StagedProgram::SlotsOf(
    const schedule::Message& message) const {
  static const std::vector<int32_t> kNone;
  const auto found =
      messages_.find({message.forward ? 1 : 0, message.stage, message.micro});
  return found == messages_.end() ? kNone : found->second;
}

bool StagedProgram::HoldsInput(int32_t rank, ValueId value) const {
  const auto found = parameter_of_.find(value);
  if (found == parameter_of_.end()) return true;
  const std::vector<int32_t>& stages = parameter_stages_[found->second];
  return std::any_of(stages.begin(), stages.end(), [&](int32_t stage) {
    return stage >= 0 && step_.table.Holds(rank, stage);
  });
}

// Proves a step that is divided into pipeline stages. The order, the channels
// and the memory of the schedule's table are proven at its real size, which
// needs no tensors. The step then runs with a smaller table of the same
// schedule, unless the table is from a file. For example:
//
//   interleaved on 8 ranks with 4 stages each and 64 micro-batches: proven; the
//   step runs on 2 ranks with 2 stages each and 2 micro-batches

namespace {

using schedule::Table;

// The largest number of forward tasks (stages times micro-batches) with which a
// step runs under a table from a file. Tables of known schedules are made
// smaller instead.
constexpr int64_t kMostTasks = 512;

int64_t TasksOf(const Table& table) {
  int64_t out = 0;
  for (const auto& row : table.rows) {
    for (const schedule::Cell& cell : row) out += cell.overlapped ? 2 : 1;
  }
  return out;
}

std::string PlaceText(const Table& table, const schedule::Fault& fault) {
  const auto& row = table.rows[AsIndex(fault.rank)];
  const std::string rank = "rank " + std::to_string(fault.rank);
  if (AsIndex(fault.position) >= row.size()) return rank + ", at its end";
  return rank + ", `" + schedule::CellText(row[AsIndex(fault.position)]) + "`";
}

}  // namespace

std::optional<int32_t> StagesOfEachRank(const Table& table) {
  const int32_t each = table.stages / table.ranks();
  if (table.placement == schedule::Placement::kBoth) return each;
  std::vector<int32_t> held(AsIndex(table.ranks()), 0);
  for (int32_t stage = 0; stage < table.stages; ++stage) {
    ++held[AsIndex(table.RankOf(stage, 0))];
  }
  const bool equal = std::all_of(held.begin(), held.end(),
                                 [&](int32_t own) { return own == each; });
  return equal ? std::optional(each) : std::nullopt;
}

StageProof ProveTable(const StageSettings& stages,
                      std::vector<std::string>& problems) {
  const Table& table = stages.table;
  StageProof out;
  out.axis = stages.axis;
  out.all_mesh = stages.all_mesh;
  out.schedule = table.name;
  out.ranks = table.ranks();
  out.stages = table.stages;
  out.virtual_stages = StagesOfEachRank(table);
  out.microbatches = table.microbatches;
  out.layers = stages.layers;
  out.tasks = TasksOf(table);
  const auto faults = schedule::CheckOrder(table);
  for (const schedule::Fault& fault : faults) {
    problems.push_back("order: " + PlaceText(table, fault) + ": " + fault.text);
  }
  if (!faults.empty()) return out;
  const schedule::ChannelRun run = schedule::RunChannels(
      schedule::Lower(table, schedule::Receives::kInSendOrder), 0,
      schedule::ChannelScope::kPair);
  if (!run.passes) problems.push_back("channels: " + run.text);
  out.capacity = schedule::LeastCapacity(
      schedule::Lower(table, schedule::Receives::kAtUse),
      schedule::ChannelScope::kPairAndKind);
  out.held = schedule::HeldByRank(table);
  return out;
}

std::optional<Table> ReducedTable(const Table& table, std::string& why) {
  const schedule::Schedule* const schedule = schedule::FindSchedule(table.name);
  if (schedule == nullptr) {
    if (table.microbatches >= 2 && table.ranks() >= 2 &&
        int64_t{table.stages} * table.microbatches <= kMostTasks) {
      return table;
    }
    why =
        "a step runs under a schedule of a file with two micro-batches or "
        "more, on two ranks or more, and " +
        std::to_string(kMostTasks) + " forward tasks at most";
    return std::nullopt;
  }
  const int32_t virtual_stages =
      schedule->fixed_virtual
          ? schedule->virtual_stages
          : std::min<int32_t>(2, table.stages / table.ranks());
  for (int32_t ranks = 2; ranks <= 4; ranks += 2) {
    // With at least as many micro-batches as ranks, every rank alternates
    // between forward and backward.
    for (int32_t micro = ranks; micro <= 4 * ranks; ++micro) {
      const schedule::Extent extent{ranks, virtual_stages, micro};
      const bool small = schedule->name.starts_with("dualpipe") && ranks < 4;
      if (small || schedule::Refusal(*schedule, extent)) continue;
      return schedule::MakeTable(*schedule, extent);
    }
  }
  why = "the schedule has no small table";
  return std::nullopt;
}

ReducedDivision DivideLayers(const StageSettings& stages, int32_t reduced,
                             std::vector<int32_t> kinds, int32_t all) {
  const int32_t begin = stages.layers.front() == 0 ? 1 : 0;
  const int32_t end = stages.layers.back() == 0 ? reduced - 1 : reduced;
  const int32_t wanted = std::max(1, end - begin);
  std::set<int32_t> layers(kinds.begin(), kinds.end());
  for (int32_t layer = 0; layer < all; ++layer) {
    if (static_cast<int32_t>(layers.size()) >= wanted) break;
    layers.insert(layer);
  }
  ReducedDivision out;
  out.layers.assign(layers.begin(), layers.end());
  out.division.stages = reduced;
  out.division.of_layer.assign(AsIndex(all), -1);
  const auto count = static_cast<int64_t>(out.layers.size());
  for (int64_t i = 0; i < count; ++i) {
    out.division.of_layer[AsIndex(out.layers[AsIndex(i)])] =
        begin + static_cast<int32_t>(i * wanted / count);
  }
  return out;
}

}  // namespace shardc::verify
