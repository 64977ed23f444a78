// Finds the places of faults in a step and injects them. A collective is found
// by its index in the program: the run counts its collective calls, and the
// fault is injected at the call with that index. An op is found by its address
// in the graph. If a program is changed, existing slots (values of the program)
// keep their numbers. Example: ReduceAfter moves an all_reduce from before the
// addition of a bias to after it. The numbers are slots, and slot 20 is new:
//
//   before:  einsum -> 7, partial over tp; all_reduce 7 -> 8; add 8, bias -> 9
//   after:   einsum -> 7, partial over tp; add 7, bias -> 20, partial over tp;
//            all_reduce 20 -> 9
#include "verify/step/fault_kit.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "source/size.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using exec::CollectiveCall;
using exec::Machine;
using exec::PerDevice;
using step::Instruction;
using step::InstructionKind;
using step::LabelId;
using step::Program;

bool Matches(const SoundCase& of, const Instruction& step, const CallAt& at) {
  if (step.kind != InstructionKind::kCollective || step.op < 0) return false;
  return of.graph.ops[AsIndex(step.op)].name == at.op &&
         step.collective == at.kind && step.max == at.max &&
         (at.axes.empty() || of.program.axes.Group(step.axes) == at.axes);
}

// Returns the index of the first collective that matches `at`, counted over all
// collectives of the program. If `at.all` is set, returns the indices of all
// collectives that match.
std::vector<int64_t> CallsAt(const SoundCase& of, const CallAt& at) {
  std::vector<int64_t> out;
  int64_t call = 0;
  for (const Instruction& step : of.program.code) {
    if (Matches(of, step, at) && (at.all || out.empty())) out.push_back(call);
    if (step.kind == InstructionKind::kCollective) ++call;
  }
  return out;
}

std::vector<int32_t> OpsAt(const step::Graph& graph, const OpAt& at) {
  std::vector<int32_t> out;
  int seen = 0;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const step::Op& op = graph.ops[i];
    if (op.name != at.op || op.kind != at.kind) continue;
    if (at.which < 0 || seen == at.which) out.push_back(int32_t(i));
    ++seen;
  }
  return out;
}

LabelId LabelNamed(const step::Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.labels.size(); ++i) {
    if (graph.labels[i].name == name) return static_cast<LabelId>(i);
  }
  return step::kNoLabel;
}

size_t DimOf(const std::vector<LabelId>& labels, LabelId label) {
  return AsIndex(std::find(labels.begin(), labels.end(), label) -
                 labels.begin());
}

}  // namespace

// --- collectives ---

FaultAction AtCall(CallAt at, SpoilCall spoil) {
  return [at = std::move(at), spoil = std::move(spoil)](const SoundCase& of,
                                                        Wrong& wrong) {
    const std::vector<int64_t> calls = CallsAt(of, at);
    if (calls.empty()) return false;
    const auto now = std::make_shared<int64_t>(0);
    exec::CollectiveSeam seam;
    seam.run = [=](Machine& machine, const CollectiveCall& call) {
      const bool here =
          std::find(calls.begin(), calls.end(), (*now)++) != calls.end();
      return here ? spoil(machine, call) : exec::RunCollective(machine, call);
    };
    wrong.seams.Set(std::move(seam));
    return true;
  };
}

PerDevice Skipped(Machine& machine, const CollectiveCall& call) {
  PerDevice out = *call.in;
  if (call.kind != Collective::kReduceScatter) return out;
  const int64_t n = machine.mesh().Parts(call.axes);
  for (int device = 0; device < machine.devices(); ++device) {
    Buffer& buffer = out[AsIndex(device)];
    const int64_t length = buffer.shape[call.dim] / n;
    buffer = exec::SliceDim(buffer, call.dim,
                            machine.mesh().Index(device, call.axes) * length,
                            length);
  }
  return out;
}

FaultAction Skip(CallAt at) { return AtCall(std::move(at), Skipped); }

FaultAction ReduceWithout(CallAt at, std::string_view axis) {
  return AtCall(std::move(at),
                [axis](Machine& machine, const CollectiveCall& call) {
                  CollectiveCall less = call;
                  std::erase(less.axes, std::string(axis));
                  return exec::RunCollective(machine, less);
                });
}

FaultAction AfterCall(
    CallAt at,
    std::function<void(const exec::SimMesh&, const CollectiveCall&, PerDevice&)>
        spoil) {
  return AtCall(
      std::move(at),
      [spoil = std::move(spoil)](Machine& machine, const CollectiveCall& call) {
        PerDevice out = exec::RunCollective(machine, call);
        spoil(machine.mesh(), call, out);
        return out;
      });
}

FaultAction StaleCall(CallAt earlier, CallAt at) {
  return [=](const SoundCase& of, Wrong& wrong) {
    CallAt each = at;
    each.all = true;
    const std::vector<int64_t> kept = CallsAt(of, earlier);
    std::vector<int64_t> calls = CallsAt(of, each);
    if (kept.empty()) return false;
    std::erase_if(calls, [&](int64_t call) { return call <= kept[0]; });
    if (calls.empty()) return false;
    const auto now = std::make_shared<int64_t>(0);
    const auto stale = std::make_shared<PerDevice>();
    exec::CollectiveSeam seam;
    seam.run = [=](Machine& machine, const CollectiveCall& call) {
      const int64_t count = (*now)++;
      PerDevice out = exec::RunCollective(machine, call);
      if (count == kept[0]) *stale = out;
      return count == calls[0] ? *stale : out;
    };
    wrong.seams.Set(std::move(seam));
    return true;
  };
}

// --- ops ---

Buffer& WrongOp::Own(size_t operand) {
  buffers.push_back(*local.in[operand].buffer);
  local.in[operand].buffer = &buffers.back();
  return buffers.back();
}

void WrongOp::Run() {
  exec::RunLocalOp(local);
  done = true;
}

FaultAction AtOp(OpAt at, SpoilOp spoil) {
  return [at, spoil = std::move(spoil)](const SoundCase& of, Wrong& wrong) {
    const std::vector<int32_t> ops = OpsAt(of.graph, at);
    if (ops.empty()) return false;
    exec::LocalOpSeam seam;
    seam.run = [=, &of](const exec::LocalOp& right) {
      const auto index = static_cast<int32_t>(right.op - of.graph.ops.data());
      if (std::find(ops.begin(), ops.end(), index) == ops.end()) {
        return exec::RunLocalOp(right);
      }
      WrongOp one{
          .of = &of, .local = right, .op = *right.op, .sizes = *right.sizes};
      one.local.op = &one.op;
      one.local.sizes = &one.sizes;
      spoil(one);
      if (!one.done) exec::RunLocalOp(one.local);
    };
    wrong.seams.Set(std::move(seam));
    return true;
  };
}

FaultAction WrongSize(OpAt at, std::string_view label, double part) {
  return AtOp(at, [=](WrongOp& one) {
    int64_t& size = one.sizes[AsIndex(LabelNamed(*one.local.graph, label))];
    size = std::llround(static_cast<double>(size) * part);
  });
}

FaultAction WrongStart(OpAt at, size_t operand, std::string_view label,
                       int64_t off) {
  return AtOp(at, [=](WrongOp& one) {
    exec::Part& part = one.local.in[operand];
    for (size_t d = 0; d < part.start.size(); ++d) {
      const LabelId of = (*part.labels)[d];
      if (!label.empty() && of != LabelNamed(*one.local.graph, label)) continue;
      part.start[d] = off == 0 ? 0 : part.start[d] + off;
    }
  });
}

FaultAction WrongResultStart(OpAt at, std::string_view label) {
  return AtOp(at, [=](WrongOp& one) {
    const size_t dim =
        DimOf(*one.local.labels, LabelNamed(*one.local.graph, label));
    one.local.start[dim] = 0;
  });
}

FaultAction LocalPositions(OpAt at, size_t operand) {
  return AtOp(at, [=](WrongOp& one) {
    const exec::Part& part = one.local.in[operand];
    const size_t dim = DimOf(*part.labels, one.local.graph->common.query);
    for (int32_t& x : one.Own(operand).integers) {
      x -= static_cast<int32_t>(part.start[dim]);
    }
  });
}

FaultAction ByHalves(OpAt at, std::string_view label,
                     std::function<void(WrongOp&)> prepare) {
  return AtOp(at, [=](WrongOp& one) {
    if (prepare) prepare(one);
    const LabelId of = LabelNamed(*one.local.graph, label);
    const size_t in_dim = DimOf(*one.local.in[0].labels, of);
    const size_t out_dim = DimOf(*one.local.labels, of);
    const Buffer& whole = *one.local.in[0].buffer;
    Buffer& out = *one.local.out;
    const int64_t half = whole.shape[in_dim] / 2;
    std::vector<Buffer> made;
    for (int64_t begin : {int64_t{0}, half}) {
      exec::LocalOp local = one.local;
      const Buffer in = exec::SliceDim(whole, in_dim, begin, half);
      Shape shape = out.shape;
      shape[out_dim] = half;
      made.push_back(Buffer::Zeros(std::move(shape), out.dtype));
      local.in[0].buffer = &in;
      local.out = &made.back();
      exec::RunLocalOp(local);
    }
    out = exec::ConcatDim({&made[0], &made[1]}, out_dim);
    one.done = true;
  });
}

FaultAction OperandOfFirst(OpAt at, size_t operand) {
  // Device 0 runs the op first, because the devices run one after the other.
  // Its operand is kept and then replaces the operand of all other devices.
  return [=](const SoundCase& of, Wrong& wrong) {
    const auto kept = std::make_shared<Buffer>();
    return AtOp(at, [=](WrongOp& one) {
      if (one.local.device == 0) *kept = *one.local.in[operand].buffer;
      one.Own(operand) = *kept;
    })(of, wrong);
  };
}

// --- the program ---

namespace {

int32_t NewSlot(Program& program, int32_t like, step::AxisSet partial) {
  step::Slot slot = program.slots[AsIndex(like)];
  slot.sharding.partial = partial;
  program.slots.push_back(slot);
  return static_cast<int32_t>(program.slots.size() - 1);
}

step::AxisList ListOf(const Program& program, const AxisGroup& axes) {
  return program.axes.Of(axes);
}

Instruction Reduce(int32_t op, int32_t from, int32_t to,
                   const step::AxisList& axes) {
  return {.kind = InstructionKind::kCollective,
          .op = op,
          .in = {from},
          .out = to,
          .axes = axes,
          .dim = 0,
          .other = 0,
          .collective = Collective::kAllReduce,
          .max = false};
}

// Returns the index of the instruction that computes a slot, or the number of
// instructions if no instruction computes it.
size_t MakerOf(const Program& program, int32_t slot) {
  return AsIndex(
      std::find_if(program.code.begin(), program.code.end(),
                   [&](const Instruction& step) { return step.out == slot; }) -
      program.code.begin());
}

std::optional<size_t> LocalOf(const Program& program, int32_t op) {
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& step = program.code[i];
    if (step.op == op && step.kind == InstructionKind::kLocal) return i;
  }
  return std::nullopt;
}

// Inserts one more reduction of a slot's value. All instructions that read the
// slot then read the reduced value.
bool ReduceSlot(Program& program, int32_t slot, const AxisGroup& axes) {
  const size_t maker = MakerOf(program, slot);
  if (maker >= program.code.size()) return false;
  const int32_t before =
      NewSlot(program, slot, program.slots[AsIndex(slot)].sharding.partial);
  program.code[maker].out = before;
  const Instruction more =
      Reduce(program.code[maker].op, before, slot, ListOf(program, axes));
  program.code.insert(program.code.begin() + int64_t(maker) + 1, more);
  return true;
}

}  // namespace

FaultAction ReduceAfter(OpAt at, bool declared) {
  return [=](const SoundCase& of, Wrong& wrong) {
    const std::vector<int32_t> ops = OpsAt(of.graph, at);
    if (ops.empty()) return false;
    Program program = of.program;
    const std::optional<size_t> local = LocalOf(program, ops[0]);
    if (!local) return false;
    step::AxisList axes;
    for (int32_t& slot : program.code[*local].in) {
      const size_t maker = MakerOf(program, slot);
      if (maker >= program.code.size()) continue;
      const Instruction& made = program.code[maker];
      if (made.kind != InstructionKind::kCollective ||
          made.collective != Collective::kAllReduce || made.max) {
        continue;
      }
      axes = made.axes;
      slot = made.in[0];
    }
    if (axes.empty()) return false;
    const int32_t out = program.code[*local].out;
    const int32_t partial = NewSlot(program, out, axes.set());
    program.code[*local].out = partial;
    program.code.insert(program.code.begin() + int64_t(*local) + 1,
                        Reduce(ops[0], partial, out, axes));
    (declared ? wrong.declared : wrong.run) = std::move(program);
    return true;
  };
}

FaultAction ReduceMore(OpAt at, AxisGroup axes, bool result) {
  return [=](const SoundCase& of, Wrong& wrong) {
    const std::vector<int32_t> ops = OpsAt(of.graph, at);
    if (ops.empty()) return false;
    Program program = of.program;
    const std::optional<size_t> local = LocalOf(program, ops[0]);
    if (!local) return false;
    const int32_t slot =
        result ? program.result[AsIndex(of.graph.ops[AsIndex(ops[0])].out)]
               : program.code[*local].out;
    if (!ReduceSlot(program, slot, axes)) return false;
    wrong.run = std::move(program);
    return true;
  };
}

FaultAction ReduceGradient(std::string_view role, AxisGroup axes) {
  return [=](const SoundCase& of, Wrong& wrong) {
    for (size_t i = 0; i < of.graph.parameters.size(); ++i) {
      if (of.graph.parameters[i].role != role) continue;
      Program program = of.program;
      const int32_t slot = program.result[AsIndex(of.graph.gradients[i])];
      if (!ReduceSlot(program, slot, axes)) return false;
      wrong.run = std::move(program);
      return true;
    }
    return false;
  };
}

FaultAction ReadInstead(OpAt at, size_t operand, OpAt other) {
  return [=](const SoundCase& of, Wrong& wrong) {
    const std::vector<int32_t> ops = OpsAt(of.graph, at);
    const std::vector<int32_t> read = OpsAt(of.graph, other);
    if (ops.empty() || read.empty()) return false;
    Program program = of.program;
    const std::optional<size_t> local = LocalOf(program, ops[0]);
    if (!local) return false;
    program.code[*local].in[operand] =
        program.result[AsIndex(of.graph.ops[AsIndex(read[0])].out)];
    wrong.run = std::move(program);
    return true;
  };
}

FaultAction SumBeforeSlicing(CallAt at) {
  return [=](const SoundCase& of, Wrong& wrong) {
    Program program = of.program;
    for (size_t i = 0; i < program.code.size(); ++i) {
      if (!Matches(of, program.code[i], at)) continue;
      // Two instructions reduce the gradient: a reduce_scatter, then a
      // reduction over the other axes.
      const Instruction scatter = program.code[i];
      if (i + 1 >= program.code.size()) return false;
      Instruction& last = program.code[i + 1];
      if (last.in[0] != scatter.out) return false;
      const int32_t scattered = last.out;
      const int32_t summed =
          NewSlot(program, scatter.in[0],
                  program.slots[AsIndex(scatter.out)].sharding.partial);
      const int32_t whole = NewSlot(program, scatter.in[0], 0);
      const Instruction slice = {.kind = InstructionKind::kSlice,
                                 .op = scatter.op,
                                 .in = {whole},
                                 .out = scattered,
                                 .axes = scatter.axes,
                                 .dim = scatter.dim};
      program.code[i] = Reduce(scatter.op, scatter.in[0], summed, scatter.axes);
      last.in = {summed};
      last.out = whole;
      program.code.insert(program.code.begin() + int64_t(i) + 2, slice);
      program.result[AsIndex(program.slots[AsIndex(whole)].value)] = whole;
      wrong.declared = std::move(program);
      return true;
    }
    return false;
  };
}

FaultAction SplitInOtherOrder(std::string_view input) {
  return [=](const SoundCase& of, Wrong& wrong) {
    Program program = of.program;
    for (const Instruction& step : program.code) {
      if (step.kind != InstructionKind::kInput ||
          of.graph.ops[AsIndex(step.op)].name != input) {
        continue;
      }
      step::AxisList& list = program.slots[AsIndex(step.out)].sharding.dims[0];
      step::AxisList reversed;
      for (step::AxisId axis : list) reversed.push_front(axis);
      if (reversed == list) return false;
      list = reversed;
      wrong.run = std::move(program);
      return true;
    }
    return false;
  };
}

FaultAction SplitOverInstead(std::string_view input, AxisGroup axes) {
  return [=](const SoundCase& of, Wrong& wrong) {
    Program program = of.program;
    bool found = false;
    for (const Instruction& step : program.code) {
      if (step.kind != InstructionKind::kInput ||
          of.graph.ops[AsIndex(step.op)].name != input) {
        continue;
      }
      step::AxisList& list = program.slots[AsIndex(step.out)].sharding.dims[0];
      const step::AxisList other = ListOf(program, axes);
      found = found || !(other == list);
      list = other;
    }
    if (found) wrong.run = std::move(program);
    return found;
  };
}

// --- inputs ---

FaultAction MirrorParameter(std::string_view role, int64_t parts, bool moment) {
  return [=](const SoundCase& of, Wrong& wrong) {
    for (size_t i = 0; i < of.graph.parameters.size(); ++i) {
      if (of.graph.parameters[i].role != role) continue;
      const step::ValueId value =
          moment ? of.graph.moments[i].first : of.graph.parameters[i].value;
      wrong.inputs = [=](exec::StepInputs& inputs) {
        Buffer& buffer = inputs.values[AsIndex(value)];
        const int64_t length = buffer.shape[0] / parts;
        std::vector<Buffer> reversed;
        for (int64_t part = parts; part > 0;) {
          --part;
          reversed.push_back(exec::SliceDim(buffer, 0, part * length, length));
        }
        std::vector<const Buffer*> list;
        for (const Buffer& part : reversed) list.push_back(&part);
        buffer = exec::ConcatDim(list, 0);
      };
      return true;
    }
    return false;
  };
}

}  // namespace shardc::verify
