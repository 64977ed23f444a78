// Injects faults into a pipeline's table, messages or results. A task is
// written as in PyTorch, for example `0I1`: its stage, its kind and its
// micro-batch. The kinds I and W are the halves of a backward pass, for the
// gradients of inputs and of weights. A fault finds its place by the kinds and
// micro-batches of tasks, or by the kinds of ops. For example, the function
// WeightFirst exchanges the tasks `0I0` and `0W0` of rank 0 in the schedule
// zb-h1.
#include "verify/step/staged_breaks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "source/size.h"

namespace shardc::verify {

using schedule::Cell;
using schedule::Operation;
using schedule::OperationKind;
using schedule::Programs;
using schedule::Table;
using schedule::TaskKind;

Programs LoweredInTurn(const Table& table) {
  return schedule::Lower(table, schedule::Receives::kInSendOrder);
}

namespace breaks {

// --- tables ---

static Cell* FindCell(Table& table, int32_t rank, TaskKind kind,
                      int32_t micro) {
  for (Cell& cell : table.rows[AsIndex(rank)]) {
    if (cell.task.kind == kind && cell.task.micro == micro) return &cell;
  }
  return nullptr;
}

// Exchanges the tasks of kinds `a` and `b` of a rank for one micro-batch.
static bool Exchange(Table& table, int32_t rank, TaskKind a, TaskKind b,
                     int32_t micro) {
  Cell* const first = FindCell(table, rank, a, micro);
  Cell* const second = FindCell(table, rank, b, micro);
  if (first == nullptr || second == nullptr) return false;
  std::swap(*first, *second);
  return true;
}

bool BackwardFirst(const StagedCase&, Broken& out) {
  return Exchange(out.table, 1, TaskKind::kForward, TaskKind::kBackward, 0);
}
bool WeightFirst(const StagedCase&, Broken& out) {
  return Exchange(out.table, 0, TaskKind::kInput, TaskKind::kWeight, 0);
}

bool ExchangeChunks(const StagedCase&, Broken& out) {
  for (Cell& cell : out.table.rows[0]) {
    cell.task.stage = cell.task.stage == 0 ? out.table.ranks() : 0;
  }
  return true;
}

static bool Drop(Table& table, int32_t rank, TaskKind kind, int32_t micro) {
  return std::erase_if(table.rows[AsIndex(rank)], [&](const Cell& cell) {
           return cell.task.kind == kind && cell.task.micro == micro;
         }) > 0;
}
bool DropWeight(const StagedCase&, Broken& out) {
  return Drop(out.table, 0, TaskKind::kWeight, out.table.microbatches - 1);
}
bool NeverBack(const StagedCase&, Broken& out) {
  return Drop(out.table, 0, TaskKind::kBackward, 1) &&
         Drop(out.table, 1, TaskKind::kBackward, 1);
}

static bool Twice(Table& table, TaskKind kind) {
  auto& row = table.rows[0];
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i].task.kind != kind) continue;
    const Cell again = row[i];
    row.insert(row.begin() + static_cast<std::ptrdiff_t>(i), again);
    return true;
  }
  return false;
}
bool ForwardTwice(const StagedCase&, Broken& out) {
  return Twice(out.table, TaskKind::kForward);
}
bool BackwardTwice(const StagedCase&, Broken& out) {
  return Twice(out.table, TaskKind::kBackward);
}

// Moves a task of rank 1, with its messages, to rank 0.
bool WrongRank(const StagedCase&, Broken& out) {
  auto& row = out.table.rows[1];
  const Cell moved = row.front();
  row.erase(row.begin());
  auto& other = out.table.rows[0];
  other.insert(other.begin() + 1, moved);
  out.table.owners[out.table.At(moved.task.stage, moved.task.micro)] = 0;
  return true;
}

// Makes two ranks wait for each other: rank 0 runs the backward pass of
// micro-batch 0 before the forward pass of micro-batch 1, and rank 1 waits for
// that forward pass before its backward pass of micro-batch 0.
bool Cycle(const StagedCase&, Broken& out) {
  auto& row = out.table.rows[0];
  const auto back = std::find_if(row.begin(), row.end(), [](const Cell& cell) {
    return cell.task.kind == TaskKind::kBackward && cell.task.micro == 0;
  });
  const auto forward =
      std::find_if(row.begin(), row.end(), [](const Cell& cell) {
        return cell.task.kind == TaskKind::kForward && cell.task.micro == 1;
      });
  // Rank 1 is made to run the forward pass of micro-batch 1 first.
  auto& peer = out.table.rows[1];
  const auto first =
      std::find_if(peer.begin(), peer.end(), [](const Cell& cell) {
        return cell.task.kind == TaskKind::kForward && cell.task.micro == 1;
      });
  if (back == row.end() || forward == row.end() || first == peer.end()) {
    return false;
  }
  const Cell moved = *back;
  row.erase(back);
  row.insert(
      std::find_if(row.begin(), row.end(),
                   [](const Cell& cell) { return cell.task.micro == 1; }),
      moved);
  std::rotate(peer.begin(), first, first + 1);
  return true;
}

// --- messages ---

// Returns the indices of a rank's operations that have this kind and whose
// message goes to the next stage.
static std::vector<size_t> Operations(const std::vector<Operation>& program,
                                      OperationKind kind) {
  std::vector<size_t> out;
  for (size_t i = 0; i < program.size(); ++i) {
    if (program[i].kind == kind && program[i].message.forward) {
      out.push_back(i);
    }
  }
  return out;
}

static bool SwapMessages(Programs& programs, size_t rank, OperationKind kind) {
  const auto at = Operations(programs[rank], kind);
  if (at.size() < 2) return false;
  std::swap(programs[rank][at[0]].message, programs[rank][at[1]].message);
  return true;
}
bool SwapReceives(const StagedCase&, Broken& out) {
  out.programs = LoweredInTurn(out.table);
  return SwapMessages(out.programs, 1, OperationKind::kReceive);
}

// Moves the first send of rank 0 behind its second send.
bool SwapSends(const StagedCase&, Broken& out) {
  out.programs = LoweredInTurn(out.table);
  auto& program = out.programs[0];
  const auto at = Operations(program, OperationKind::kSend);
  if (at.size() < 2) return false;
  const Operation first = program[at[0]];
  program.insert(program.begin() + static_cast<std::ptrdiff_t>(at[1]) + 1,
                 first);
  program.erase(program.begin() + static_cast<std::ptrdiff_t>(at[0]));
  return true;
}

static bool DropOperation(Broken& out, size_t rank, OperationKind kind) {
  out.programs = LoweredInTurn(out.table);
  auto& program = out.programs[rank];
  const auto at = Operations(program, kind);
  if (at.empty()) return false;
  program.erase(program.begin() + static_cast<std::ptrdiff_t>(at[0]));
  return true;
}
bool NoReceive(const StagedCase&, Broken& out) {
  return DropOperation(out, 1, OperationKind::kReceive);
}
bool NoSend(const StagedCase&, Broken& out) {
  return DropOperation(out, 0, OperationKind::kSend);
}

bool OtherRank(const StagedCase&, Broken& out) {
  out.programs = LoweredInTurn(out.table);
  const auto at = Operations(out.programs[0], OperationKind::kSend);
  if (at.empty()) return false;
  out.programs[0][at[0]].peer = out.table.ranks() - 1;
  return true;
}

bool OneByOne(const StagedCase&, Broken& out) {
  out.programs = schedule::Lower(out.table, schedule::Receives::kAtUse);
  out.capacity = 0;
  return true;
}
bool OneChannel(const StagedCase&, Broken& out) {
  out.programs = schedule::Lower(out.table, schedule::Receives::kAtUse);
  out.scope = schedule::ChannelScope::kPair;
  return true;
}

// --- what ranks compute ---

bool OwnAlone(const StagedCase&, Broken& out) {
  out.faults.adds_own_alone = true;
  return true;
}
bool FewSlots(const StagedCase&, Broken& out) {
  out.faults.most_held = 1;
  return true;
}

bool ChangeWeights(const StagedCase& of, Broken& out) {
  out.faults.after_weights = [&of](int32_t, std::vector<exec::PerDevice>& at) {
    for (const step::Parameter& parameter : of.graph.parameters) {
      const int32_t slot = of.program.result[AsIndex(parameter.value)];
      for (exec::Buffer& buffer : at[AsIndex(slot)]) {
        for (double& number : buffer.wide) number *= 1.01;
      }
    }
  };
  return true;
}

// Changes the results of all ops for which `matches` returns true. Returns
// false if there are no such ops.
template <class Matches, class Change>
static bool AfterOps(const StagedCase& of, Broken& out, Matches matches,
                     Change change) {
  if (std::none_of(of.graph.ops.begin(), of.graph.ops.end(), matches)) {
    return false;
  }
  out.seams.Set(exec::LocalOpSeam{[matches, change](const exec::LocalOp& op) {
    exec::RunLocalOp(op);
    if (matches(*op.op)) change(op);
  }});
  return true;
}

static void Multiply(exec::Buffer& buffer, double factor) {
  for (double& number : buffer.wide) number *= factor;
}

static bool IsReciprocal(const step::Op& op) {
  return op.kind == step::OpKind::kFn &&
         step::As<step::FnAttributes>(op).fn == "recip";
}

bool DividedTwice(const StagedCase& of, Broken& out) {
  const double m = of.step.table.microbatches;
  const auto matches = [](const step::Op& op) {
    return op.micro < 0 && IsReciprocal(op);
  };
  return AfterOps(of, out, matches,
                  [m](const exec::LocalOp& op) { Multiply(*op.out, 1 / m); });
}

// Divides the loss of each micro-batch by a wrong number: its own number of
// tokens times the number of micro-batches, instead of the number of all
// tokens.
bool MeanOfMeans(const StagedCase& of, Broken& out) {
  const step::Op* whole = nullptr;
  for (const step::Op& op : of.graph.ops) {
    if (op.micro < 0 && IsReciprocal(op)) whole = &op;
  }
  if (whole == nullptr) return false;
  const double all = of.reference.values[AsIndex(whole->in[0])].data[0];
  const step::Op* sum = nullptr;
  for (const step::Op& op : of.graph.ops) {
    if (op.out == whole->in[0]) sum = &op;
  }
  // The factor by which the loss of each micro-batch becomes wrong.
  std::map<int32_t, double> factors;
  for (size_t m = 0; m < sum->in.size(); ++m) {
    const double own = of.reference.values[AsIndex(sum->in[m])].data[0];
    factors[static_cast<int32_t>(m)] =
        all / own / static_cast<double>(sum->in.size());
  }
  const step::ValueId count = whole->out;
  const auto matches = [count](const step::Op& op) {
    return op.micro >= 0 && op.kind == step::OpKind::kEinsum &&
           std::find(op.in.begin(), op.in.end(), count) != op.in.end();
  };
  return AfterOps(of, out, matches, [factors](const exec::LocalOp& op) {
    Multiply(*op.out, factors.at(op.op->micro));
  });
}

bool NormTwice(const StagedCase& of, Broken& out) {
  // Counts the squared gradient of the tied embedding twice in the first rank's
  // sum of squares.
  const step::NormPart& part = of.step.norm.front();
  const step::ValueId sum = part.sum;
  const auto matches = [sum](const step::Op& op) {
    return op.out == sum && op.kind == step::OpKind::kAdd;
  };
  return AfterOps(of, out, matches, [](const exec::LocalOp& op) {
    op.out->wide[0] += op.in[0].buffer->wide[0];
  });
}

bool DataTwice(const StagedCase&, Broken& out) {
  out.seams.Set(exec::CollectiveSeam{[](exec::Machine& machine,
                                        const exec::CollectiveCall& call) {
    exec::PerDevice made = exec::RunCollective(machine, call);
    const bool gradient =
        call.kind == Collective::kAllReduce && call.what.starts_with("sum ");
    if (!gradient) return made;
    for (exec::Buffer& buffer : made) {
      Multiply(buffer, static_cast<double>(machine.mesh().Parts(call.axes)));
    }
    return made;
  }});
  return true;
}

bool InNoStage(const StagedCase&, Broken& out) {
  out.step.division.of_layer[0] = -1;
  return true;
}
bool InTwoStages(const StagedCase&, Broken& out) {
  out.step.twice = {{0, 1}};
  return true;
}

}  // namespace breaks
}  // namespace shardc::verify
