// Runs a step on simulated pipeline ranks. A rank's memory has a frame for each
// micro-batch of each of its stages. The frame holds the results of the
// micro-batch's tasks and the contents of messages. It is dropped after the
// last backward task (W or B) of the micro-batch. Inputs, sums of gradients and
// losses are kept until the step ends. For example, 0F1 is the forward task of
// stage 0 for micro-batch 1, and 1B0 a backward task:
//
//   rank 0: 0F0 fills frame (0, 0), sends its output; 0F1 fills frame (0, 1)
//   rank 1: receives into frame (1, 0); runs 1F0 and 1B0; drops the frame
//
// A receive puts the oldest message of its channel into the frame that expects
// a message. Only the shapes of the message are checked, so a wrong order leads
// to wrong numbers.
//
// After the tasks, each rank computes the updates of its parameters. If it
// lacks a value, such as the sum of a tied gradient, the value is copied from
// the rank that has it. These copies replace the all_reduces at the end of the
// step.
#include "verify/step/staged_step.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "exec/machine/buffer.h"
#include "source/size.h"

namespace shardc::verify {
namespace {

using exec::PerDevice;
using schedule::Message;
using schedule::Operation;
using schedule::OperationKind;
using schedule::Task;
using schedule::TaskKind;
using step::Instruction;
using step::StageWork;

using FrameKey = std::pair<int32_t, int32_t>;  // stage and micro-batch
using Frame = std::map<int32_t, PerDevice>;    // values, keyed by slot
using MessageKey = std::tuple<bool, int32_t, int32_t>;

MessageKey KeyOf(const Message& message) {
  return {message.forward, message.stage, message.micro};
}

// Returns true if all bits are equal. Bits are compared because NaN is not
// equal to itself.
bool SameBits(const PerDevice& a, const PerDevice& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), exec::BitEqual);
}

struct Rank {
  std::unique_ptr<exec::Machine> machine;
  size_t next = 0;  // index of the rank's next operation
  std::map<FrameKey, Frame> frames = {};
  // Frames (one micro-batch of one stage) whose forward task has run, oldest
  // first.
  std::deque<FrameKey> held = {};
  // The values that the rank keeps outside the frames until the step ends, such
  // as inputs and sums of gradients. Indexed by the slot of the program that
  // has the value. A slot whose value the rank does not keep is empty.
  std::vector<PerDevice> lasting = {};
  std::map<MessageKey, Frame> outbox = {};
};

class StagedRunner {
 public:
  StagedRunner(const StagedRunRequest& request, const exec::SimMesh& mesh,
               const exec::Seams& seams, const exec::StepInputs& inputs,
               std::vector<StepProblem>& problems)
      : request_(request),
        graph_(*request.graph),
        program_(*request.program),
        staged_(*request.staged),
        table_(*request.table),
        mesh_(mesh),
        inputs_(inputs),
        problems_(problems),
        workspace_(program_.slots.size()) {
    out_.slots.resize(program_.slots.size());
    ran_on_.assign(program_.slots.size(), -1);
    for (int32_t rank = 0; rank < table_.ranks(); ++rank) {
      ranks_.emplace_back();
      ranks_.back().machine =
          std::make_unique<exec::Machine>(mesh, request.threads, seams);
      ranks_.back().lasting.resize(program_.slots.size());
    }
  }

  std::optional<exec::StepRun> Run(StagedTraffic* traffic) {
    const bool done = RunTasks() && RunAfter() && RunRest();
    if (traffic != nullptr) *traffic = traffic_;
    return done ? std::optional(std::move(out_)) : std::nullopt;
  }

 private:
  bool Fail(StepCheck check, int32_t op, std::string message) {
    problems_.push_back({check, op, std::move(message)});
    return false;
  }
  bool Missing(int32_t rank, int32_t slot, const std::string& reader) {
    const Instruction& made = program_.code[AsIndex(staged_.MakerOf(slot))];
    return Fail(StepCheck::kStages, made.op,
                reader + " reads a value that rank " + std::to_string(rank) +
                    " does not hold");
  }
  const step::Op* OpOf(const Instruction& code) const {
    return code.op < 0 ? nullptr : &graph_.ops[AsIndex(code.op)];
  }

  bool RunTasks() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        bool failed = false;
        while (Advance(static_cast<int32_t>(rank), failed)) moved = true;
        if (failed) return false;
      }
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& program = (*request_.programs)[rank];
      if (ranks_[rank].next == program.size()) continue;
      const Operation& operation = program[ranks_[rank].next];
      return Fail(StepCheck::kStages, -1,
                  "rank " + std::to_string(rank) + " waits for ever at " +
                      schedule::OperationText(
                          table_, static_cast<int32_t>(rank), operation));
    }
    for (const auto& [key, channel] : channels_) {
      if (channel.empty()) continue;
      return Fail(StepCheck::kStages, -1,
                  "a message from rank " + std::to_string(std::get<0>(key)) +
                      " to rank " + std::to_string(std::get<1>(key)) +
                      " is never received");
    }
    return true;
  }

  // Runs the next operation of a rank. Returns false if the rank must wait for
  // a message, has no operation left, or failed.
  bool Advance(int32_t rank, bool& failed) {
    Rank& of = ranks_[AsIndex(rank)];
    const auto& program = (*request_.programs)[AsIndex(rank)];
    if (of.next == program.size()) return false;
    const Operation& operation = program[of.next];
    if (operation.kind == OperationKind::kReceive) {
      auto& channel =
          ChannelOf(operation.peer, rank, operation.message.forward);
      if (channel.empty()) return false;
      failed = !Deliver(rank, operation, std::move(channel.front()));
      channel.pop_front();
    } else if (operation.kind == OperationKind::kSend) {
      failed = !Send(rank, operation);
    } else {
      const schedule::Cell& cell =
          table_.rows[AsIndex(rank)][AsIndex(operation.position)];
      schedule::ForEachTask(cell, [&](const Task& task) {
        if (!failed) failed = !RunTask(rank, task);
      });
    }
    ++of.next;
    return !failed;
  }

  std::deque<Frame>& ChannelOf(int32_t from, int32_t to, bool forward) {
    const bool kind =
        request_.scope == schedule::ChannelScope::kPairAndKind && forward;
    return channels_[{from, to, kind}];
  }

  bool Send(int32_t rank, const Operation& operation) {
    auto& outbox = ranks_[AsIndex(rank)].outbox;
    const auto found = outbox.find(KeyOf(operation.message));
    if (found == outbox.end()) {
      return Fail(StepCheck::kStages, -1,
                  "rank " + std::to_string(rank) +
                      " sends a message before it has computed it");
    }
    ++traffic_.messages;
    ChannelOf(rank, operation.peer, operation.message.forward)
        .push_back(std::move(found->second));
    outbox.erase(found);
    return true;
  }

  // Stores the values of a message in the slots that the rank expects. The
  // values are in the order of the message.
  bool Deliver(int32_t rank, const Operation& operation, Frame message) {
    const Message& expected = operation.message;
    const std::vector<int32_t>& slots = staged_.SlotsOf(expected);
    const FrameKey key = {expected.stage + (expected.forward ? 1 : -1),
                          expected.micro};
    Frame& frame = ranks_[AsIndex(rank)].frames[key];
    auto arrived = message.begin();
    for (const int32_t slot : slots) {
      if (arrived == message.end() ||
          arrived->second[0].shape !=
              step::LocalShapeOf(graph_, program_, slot, inputs_.sizes)) {
        return Fail(StepCheck::kStages, -1,
                    "rank " + std::to_string(rank) +
                        " receives values of other shapes than it expects");
      }
      frame[slot] = std::move(arrived->second);
      ++arrived;
    }
    return true;
  }

  bool RunTask(int32_t rank, const Task& task) {
    const FrameKey key = {task.stage, task.micro};
    if (task.kind == TaskKind::kForward) Hold(rank, key);
    for (const int32_t index : staged_.InstructionsOf(task)) {
      const Instruction& code = program_.code[AsIndex(index)];
      if (ran_on_[AsIndex(code.out)] >= 0) {
        return Fail(StepCheck::kStages, code.op,
                    "runs twice, the second time in " + TextOf(task));
      }
      for (const int32_t slot : code.in) {
        const bool there = ranks_[AsIndex(rank)].frames[key].contains(slot) ||
                           Demand(rank, slot, false);
        if (!there) return Missing(rank, slot, TextOf(task));
      }
      if (!RunCode(rank, key, code)) return false;
    }
    Post(rank, task);
    const bool ends =
        task.kind == TaskKind::kBackward || task.kind == TaskKind::kWeight;
    if (!ends) return true;
    Rank& of = ranks_[AsIndex(rank)];
    of.frames.erase(key);
    std::erase(of.held, key);
    if (request_.faults.after_weights) {
      request_.faults.after_weights(rank, of.lasting);
    }
    return true;
  }

  static std::string TextOf(const Task& task) {
    return "`" + schedule::TaskText(task) + "`";
  }

  void Hold(int32_t rank, FrameKey key) {
    Rank& of = ranks_[AsIndex(rank)];
    of.held.push_back(key);
    if (static_cast<int64_t>(of.held.size()) > request_.faults.most_held) {
      of.frames.erase(of.held.front());
      of.held.pop_front();
    }
    traffic_.most_held =
        std::max(traffic_.most_held, static_cast<int64_t>(of.held.size()));
  }

  // Runs an instruction on a rank, which must hold the operands.
  bool RunCode(int32_t rank, std::optional<FrameKey> key,
               const Instruction& code) {
    Rank& of = ranks_[AsIndex(rank)];
    const auto place = [&](int32_t slot) -> PerDevice& {
      if (key) {
        Frame& frame = of.frames[*key];
        const auto found = frame.find(slot);
        if (found != frame.end()) return found->second;
      }
      return of.lasting[AsIndex(slot)];
    };
    for (const int32_t slot : code.in) {
      if (workspace_[AsIndex(slot)].empty()) {
        workspace_[AsIndex(slot)] = place(slot);
      }
    }
    const size_t entries = of.machine->ledger().entries().size();
    exec::RunInstruction(*of.machine, graph_, program_, inputs_, code,
                         workspace_);
    for (const int32_t slot : code.in) workspace_[AsIndex(slot)].clear();
    if (!CheckLedger(of, entries, code)) return false;
    return Keep(rank, key, code);
  }

  bool CheckLedger(const Rank& of, size_t before, const Instruction& code) {
    const auto& entries = of.machine->ledger().entries();
    const bool collective = code.kind == step::InstructionKind::kCollective;
    if (entries.size() != before + (collective ? 1 : 0)) {
      return Fail(StepCheck::kLedger, code.op,
                  "the run has other collectives than the program");
    }
    if (collective && entries.back().sent !=
                          exec::PredictedSent(mesh_, graph_, program_, code,
                                              inputs_.sizes, inputs_.dtype)) {
      return Fail(StepCheck::kLedger, code.op,
                  "the bytes sent are not those of the formula");
    }
    return true;
  }

  // Stores the result of an instruction. If another rank has computed it
  // before, both results must be equal in bits.
  bool Keep(int32_t rank, std::optional<FrameKey> key,
            const Instruction& code) {
    const auto slot = AsIndex(code.out);
    PerDevice made = std::move(workspace_[slot]);
    workspace_[slot].clear();
    Rank& of = ranks_[AsIndex(rank)];
    if (ran_on_[slot] < 0) {
      ran_on_[slot] = rank;
      out_.slots[slot] = made;
    } else if (!SameBits(made, out_.slots[slot])) {
      return Fail(StepCheck::kReplicas, code.op,
                  "ranks " + std::to_string(ran_on_[slot]) + " and " +
                      std::to_string(rank) + " compute different values");
    }
    if (!key || staged_.Lasts(code.out)) of.lasting[slot] = made;
    if (key) of.frames[*key][code.out] = std::move(made);
    return true;
  }

  // A forward task sends values to the next stage, a backward task to the
  // previous stage. Puts these values into the rank's outbox. If the rank has
  // the receiving stage too, puts them into that stage's frame instead.
  void Post(int32_t rank, const Task& task) {
    const bool forward = task.kind == TaskKind::kForward;
    if (!forward && !task.SendsBack()) return;
    const int32_t to = task.stage + (forward ? 1 : -1);
    if (to < 0 || to >= table_.stages) return;
    const Message message{forward, task.stage, task.micro};
    const Frame& frame = ranks_[AsIndex(rank)].frames[{task.stage, task.micro}];
    Frame payload;
    for (const int32_t slot : staged_.SlotsOf(message)) {
      const auto found = frame.find(slot);
      if (found != frame.end()) payload[slot] = found->second;
    }
    if (table_.RankOf(to, task.micro) != rank) {
      ranks_[AsIndex(rank)].outbox[KeyOf(message)] = std::move(payload);
      return;
    }
    Frame& own = ranks_[AsIndex(rank)].frames[{to, task.micro}];
    for (auto& [slot, value] : payload) own[slot] = std::move(value);
  }

  // Adds the value of a slot to the rank's `lasting`, the values that the rank
  // keeps until the step ends, unless it is already there. While the tasks run
  // (`after` is false), the value must be an input of the rank, or depend only
  // on inputs of the rank. With `after`, it may also depend on results of
  // tasks. A result that another rank has computed is copied from that rank.
  // Returns false if the rank cannot get the value.
  bool Demand(int32_t rank, int32_t slot, bool after) {
    Rank& of = ranks_[AsIndex(rank)];
    if (!of.lasting[AsIndex(slot)].empty()) return true;
    const int32_t maker = staged_.MakerOf(slot);
    const Instruction& code = program_.code[AsIndex(maker)];
    const StageWork work = staged_.PlaceOf(maker).work;
    if (work == StageWork::kTask || work == StageWork::kAfter) {
      if (!after) return false;
      const int32_t home = work == StageWork::kTask ? ran_on_[AsIndex(slot)]
                                                    : staged_.RankFor(slot);
      if (work == StageWork::kTask && home < 0) return false;
      if (home >= 0 && home != rank) return Copy(rank, home, slot);
      if (work == StageWork::kTask) return false;
    } else if (code.kind == step::InstructionKind::kInput &&
               !staged_.HoldsInput(rank, program_.slots[AsIndex(slot)].value)) {
      return false;
    }
    for (const int32_t operand : code.in) {
      if (!Demand(rank, operand, after)) return false;
    }
    if (!request_.faults.adds_own_alone || !AddsRanks(code)) {
      return RunCode(rank, std::nullopt, code);
    }
    return AddOwn(rank, code);
  }

  bool Copy(int32_t rank, int32_t home, int32_t slot) {
    if (!Demand(home, slot, true)) return false;
    ranks_[AsIndex(rank)].lasting[AsIndex(slot)] =
        ranks_[AsIndex(home)].lasting[AsIndex(slot)];
    return !ranks_[AsIndex(rank)].lasting[AsIndex(slot)].empty();
  }

  bool AddsRanks(const Instruction& code) const {
    const step::Op* const op = OpOf(code);
    return op != nullptr && code.kind == step::InstructionKind::kLocal &&
           op->kind == step::OpKind::kAdd &&
           op->phase == step::Phase::kBackward && op->micro < 0;
  }

  // Runs an addition of gradients over ranks with an injected fault: the terms
  // that other ranks have computed are replaced by zeros.
  bool AddOwn(int32_t rank, const Instruction& code) {
    Rank& of = ranks_[AsIndex(rank)];
    for (const int32_t slot : code.in) {
      if (ran_on_[AsIndex(slot)] == rank) continue;
      for (exec::Buffer& buffer : of.lasting[AsIndex(slot)]) {
        buffer = exec::Buffer::Zeros(buffer.shape, buffer.dtype);
      }
    }
    return RunCode(rank, std::nullopt, code);
  }

  bool DemandResult(int32_t rank, step::ValueId value) {
    if (value < 0) return true;
    const int32_t slot = program_.result[AsIndex(value)];
    return slot < 0 || Demand(rank, slot, true) ||
           (problems_.empty() && Missing(rank, slot, "the end of the step"));
  }

  // Runs the instructions that come after the tasks: every rank computes the
  // loss, the norm of all gradients, and the results of its own parameters.
  bool RunAfter() {
    for (int32_t rank = 0; rank < table_.ranks(); ++rank) {
      if (!DemandResult(rank, graph_.loss) ||
          !DemandResult(rank, graph_.gradient_norm)) {
        return false;
      }
      for (size_t i = 0; i < graph_.updated.size(); ++i) {
        if (!staged_.HoldsInput(rank, graph_.parameters[i].value)) continue;
        const step::Moments& moments = graph_.updated_moments[i];
        if (!DemandResult(rank, graph_.gradients[i]) ||
            !DemandResult(rank, graph_.updated[i]) ||
            !DemandResult(rank, moments.first) ||
            !DemandResult(rank, moments.second)) {
          return false;
        }
      }
    }
    return true;
  }

  // Runs the instructions whose results no rank has needed, so that every slot
  // can be compared. Reports a problem if an instruction of a task has not run.
  bool RunRest() {
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& code = program_.code[i];
      if (ran_on_[AsIndex(code.out)] >= 0) continue;
      const InstructionPlace& at = staged_.PlaceOf(static_cast<int32_t>(i));
      if (at.work == StageWork::kTask) {
        return Fail(StepCheck::kStages, code.op, "is run by no task");
      }
      if (!DemandFromAnyRank(code.out)) {
        return Fail(StepCheck::kStages, code.op, "no rank can compute it");
      }
    }
    return true;
  }

  bool DemandFromAnyRank(int32_t slot) {
    for (int32_t rank = 0; rank < table_.ranks(); ++rank) {
      if (Demand(rank, slot, true)) return true;
    }
    return false;
  }

  const StagedRunRequest& request_;
  const step::Graph& graph_;
  const step::Program& program_;
  const StagedProgram& staged_;
  const schedule::Table& table_;
  const exec::SimMesh& mesh_;
  const exec::StepInputs& inputs_;
  std::vector<StepProblem>& problems_;
  // The operands and the result of the instruction that runs now. Indexed by
  // slot; all other slots are empty.
  std::vector<PerDevice> workspace_;
  exec::StepRun out_;
  // Indexed by slot: the first rank that computed it; -1: no rank.
  std::vector<int32_t> ran_on_;
  std::vector<Rank> ranks_;
  std::map<std::tuple<int32_t, int32_t, bool>, std::deque<Frame>> channels_;
  StagedTraffic traffic_;
};

}  // namespace

std::optional<exec::StepRun> RunStaged(const StagedRunRequest& request,
                                       const exec::SimMesh& mesh,
                                       const exec::Seams& seams,
                                       const exec::StepInputs& inputs,
                                       std::vector<StepProblem>& problems,
                                       StagedTraffic* traffic) {
  return StagedRunner(request, mesh, seams, inputs, problems).Run(traffic);
}

}  // namespace shardc::verify
