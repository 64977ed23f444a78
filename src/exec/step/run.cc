// Runs the program of a step on the simulated mesh, instruction by instruction.
// Inputs are scattered by their sharding. An op runs on the parts of every
// device. A slice instruction keeps one block of a dimension on each device:
// the block whose number is the device's index along the axes. A collective
// runs on the machine, whose ledger gets one entry for each collective, in the
// order of the program.
//
// For example, a value [b, d] with d = 8 is sliced over tp = 4 along d. The
// device at tp=2 keeps elements [4, 6) of d.
#include "exec/step/run.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "comm/collective.h"
#include "exec/kernels/arithmetic.h"
#include "exec/step/kernel.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

using step::Instruction;
using step::InstructionKind;

class Runner {
 public:
  Runner(Machine& machine, const step::Graph& graph,
         const step::Program& program, const StepInputs& inputs,
         std::vector<PerDevice>& slots)
      : machine_(machine),
        graph_(graph),
        program_(program),
        inputs_(inputs),
        slots_(slots) {}

  void RunAll(KeepSlots keep, const BeforeFree& before_free) {
    slots_.resize(program_.slots.size());
    const std::vector<int64_t> last = LastReaders(graph_, program_);
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& step = program_.code[i];
      RunOne(step);
      if (keep == KeepSlots::kAll) continue;
      for (int32_t slot : step.in) {
        // An instruction may read the same slot twice, so the slot may already
        // be freed.
        PerDevice& freed = slots_[AsIndex(slot)];
        if (last[AsIndex(slot)] != static_cast<int64_t>(i) || freed.empty()) {
          continue;
        }
        if (before_free) before_free(slot, freed);
        freed = {};
      }
    }
  }

  void RunOne(const Instruction& step) {
    switch (step.kind) {
      case InstructionKind::kInput:
        RunInput(step);
        break;
      case InstructionKind::kLocal:
        RunLocal(step);
        break;
      case InstructionKind::kSlice:
        RunSlice(step);
        break;
      case InstructionKind::kCollective:
        RunMove(step);
        break;
    }
  }

 private:
  const step::Slot& SlotOf(int32_t slot) const {
    return program_.slots[AsIndex(slot)];
  }
  const step::Value& ValueOf(int32_t slot) const {
    return graph_.values[AsIndex(SlotOf(slot).value)];
  }
  Shape LocalShape(int32_t slot) const {
    return step::LocalShapeOf(graph_, program_, slot, inputs_.sizes);
  }
  Dtype DtypeOf(int32_t slot) const {
    return ValueOf(slot).integral ? Dtype::kI32 : inputs_.dtype;
  }

  void RunInput(const Instruction& step) {
    const step::Slot& slot = SlotOf(step.out);
    ShardedTensor tensor =
        Scatter(machine_.mesh(), inputs_.values[AsIndex(slot.value)],
                step::SpecOf(program_.axes, slot.sharding));
    slots_[AsIndex(step.out)] = std::move(tensor.local);
  }

  void RunLocal(const Instruction& step) {
    const Shape shape = LocalShape(step.out);
    PerDevice& result = slots_[AsIndex(step.out)];
    result.resize(AsIndex(machine_.devices()));
    ShapeElsewhere(machine_.mesh(), shape, DtypeOf(step.out), result);
    const LocalOpSeam& seam = machine_.Seam<LocalOpSeam>();
    std::vector<Shape> shapes;
    for (int32_t slot : step.in) shapes.push_back(LocalShape(slot));
    machine_.Local([&](int device) {
      Buffer& out = result[AsIndex(device)];
      out = Buffer::Zeros(shape, DtypeOf(step.out));
      LocalOp local{.graph = &graph_,
                    .op = &graph_.ops[AsIndex(step.op)],
                    .sizes = &inputs_.sizes,
                    .device = device,
                    .in = {},
                    .labels = &ValueOf(step.out).labels,
                    .start = Start(step.out, shape, device),
                    .out = &out};
      for (size_t i = 0; i < step.in.size(); ++i) {
        const int32_t slot = step.in[i];
        local.in.push_back({&ValueOf(slot).labels,
                            &slots_[AsIndex(slot)][AsIndex(device)],
                            Start(slot, shapes[i], device)});
      }
      seam.run(local);
    });
  }

  Shape Start(int32_t slot, const Shape& local, int device) const {
    return LocalStartOf(machine_.mesh(), program_, SlotOf(slot), local, device);
  }

  void RunSlice(const Instruction& step) {
    const AxisGroup axes = program_.axes.Group(step.axes);
    const int64_t n = machine_.mesh().Parts(axes);
    const PerDevice& in = slots_[AsIndex(step.in[0])];
    PerDevice out(in.size());
    ShapeElsewhere(machine_.mesh(), LocalShape(step.out), DtypeOf(step.out),
                   out);
    machine_.Local([&](int device) {
      const Buffer& from = in[AsIndex(device)];
      const int64_t length = from.shape[step.dim] / n;
      out[AsIndex(device)] = SliceDim(
          from, step.dim, machine_.mesh().Index(device, axes) * length, length);
    });
    slots_[AsIndex(step.out)] = std::move(out);
  }

  std::string_view NameOf(const Instruction& step) const {
    return step.op < 0 ? std::string_view("results")
                       : std::string_view(graph_.ops[AsIndex(step.op)].name);
  }

  void RunMove(const Instruction& step) {
    const AxisGroup axes = program_.axes.Group(step.axes);
    const PerDevice& in = slots_[AsIndex(step.in[0])];
    const std::string_view what = NameOf(step);
    const std::vector<Edge> edges = EdgesOf(step, axes);
    const CollectiveDef& of = DefOf(step.collective);
    slots_[AsIndex(step.out)] = machine_.Seam<CollectiveSeam>().run(
        machine_, {.kind = step.collective,
                   .axes = axes,
                   .in = &in,
                   .dim = step.dim,
                   .concat_dim = step.other,
                   .reduce = step.max ? Reduce::kMax : Reduce::kSum,
                   .rounds = of.reduces,
                   .edges = edges,
                   .what = what});
  }

  // Returns the edges of a ppermute, or an empty list for all other
  // collectives.
  std::vector<Edge> EdgesOf(const Instruction& step,
                            const AxisGroup& axes) const {
    if (step.collective != Collective::kPpermute) return {};
    const SimMesh& mesh = machine_.mesh();
    if (step.shift != 0) return ShiftEdges(mesh.Parts(axes), step.shift);
    return ReorderEdges(
        mesh, axes,
        program_.axes.Group(SlotOf(step.out).sharding.dims[step.dim]));
  }

  static std::vector<Edge> ShiftEdges(int64_t n, int shift) {
    std::vector<Edge> out = RingEdges(n);
    if (shift < 0) {
      for (auto& [from, to] : out) std::swap(from, to);
    }
    return out;
  }

 public:
  // Returns the edges (sender, receiver) of a ppermute that changes the order
  // of the axes of a dimension.
  static std::vector<Edge> ReorderEdges(const SimMesh& mesh,
                                        const AxisGroup& from,
                                        const AxisGroup& to) {
    const std::vector<int> group = mesh.Groups(from).front();
    std::vector<Edge> out;
    for (size_t i = 0; i < group.size(); ++i) {
      // Member i needs the shard whose number is its index along `to`. That
      // shard is on the member whose index along `from` is this number.
      out.emplace_back(mesh.Index(group[i], to), static_cast<int64_t>(i));
    }
    return out;
  }

 private:
  Machine& machine_;
  const step::Graph& graph_;
  const step::Program& program_;
  const StepInputs& inputs_;
  std::vector<PerDevice>& slots_;
};

}  // namespace

std::vector<int64_t> LastReaders(const step::Graph& graph,
                                 const step::Program& program) {
  std::vector<int64_t> out(program.slots.size(), -1);
  for (size_t i = 0; i < program.code.size(); ++i) {
    for (int32_t slot : program.code[i].in) {
      out[AsIndex(slot)] = static_cast<int64_t>(i);
    }
  }
  const auto keep = [&](step::ValueId value) {
    if (value < 0) return;
    const int32_t slot = program.result[AsIndex(value)];
    if (slot >= 0) out[AsIndex(slot)] = -1;
  };
  keep(graph.loss);
  keep(graph.logits);
  for (step::ValueId value : graph.gradients) keep(value);
  for (step::ValueId value : graph.updated) keep(value);
  for (const step::Moments& moments : graph.updated_moments) {
    keep(moments.first);
    keep(moments.second);
  }
  for (const step::Cache& cache : graph.caches) keep(cache.after);
  return out;
}

StepRun RunStep(Machine& machine, const step::Graph& graph,
                const step::Program& program, const StepInputs& inputs,
                KeepSlots keep, const BeforeFree& before_free) {
  StepRun out;
  Runner(machine, graph, program, inputs, out.slots).RunAll(keep, before_free);
  return out;
}

void RunInstruction(Machine& machine, const step::Graph& graph,
                    const step::Program& program, const StepInputs& inputs,
                    const Instruction& instruction,
                    std::vector<PerDevice>& slots) {
  Runner(machine, graph, program, inputs, slots).RunOne(instruction);
}

Shape LocalStartOf(const SimMesh& mesh, const step::Program& program,
                   const step::Slot& slot, const Shape& local, int device) {
  Shape out(local.size(), 0);
  for (size_t d = 0; d < local.size(); ++d) {
    if (slot.sharding.dims[d].empty()) continue;
    out[d] = mesh.Index(device, program.axes.Group(slot.sharding.dims[d])) *
             local[d];
  }
  return out;
}

std::vector<int64_t> PredictedSent(const SimMesh& mesh,
                                   const step::Graph& graph,
                                   const step::Program& program,
                                   const Instruction& instruction,
                                   const step::Sizes& sizes, Dtype dtype) {
  std::vector<int64_t> out(AsIndex(mesh.devices()), 0);
  if (instruction.kind != InstructionKind::kCollective) return out;
  const step::Slot& from = program.slots[AsIndex(instruction.in[0])];
  const step::Value& value = graph.values[AsIndex(from.value)];
  const int64_t elements =
      step::LocalElements(program.axes, value, from.sharding, sizes);
  const int64_t width =
      value.integral ? step::kIntegerBytes : DtypeBits(dtype) / 8;
  const AxisGroup axes = program.axes.Group(instruction.axes);
  const int64_t n = mesh.Parts(axes);
  // If the instruction changes the order of the axes, `to` is the new order.
  const AxisGroup to = program.axes.Group(
      program.slots[AsIndex(instruction.out)].sharding.dims[instruction.dim]);
  for (int device = 0; device < mesh.devices(); ++device) {
    const int64_t member = mesh.Index(device, axes);
    int64_t& sent = out[AsIndex(device)];
    // If a ppermute changes the order of axes, a device that already holds its
    // new block sends nothing.
    const bool stays = instruction.collective == Collective::kPpermute &&
                       instruction.shift == 0 &&
                       mesh.Index(device, to) == member;
    sent = stays ? 0
                 : DefOf(instruction.collective)
                       .member_sent(elements, width, n, member);
  }
  return out;
}

// Runs one op on the parts of its operands that one device holds. This file has
// the table that maps each op to its kernel, and rounds the results of kernels
// to their dtype. To add an op, add a row to this table and write its kernel in
// another file. For example:
//
//   einsum of BF16 parts: products and sums in float32, rounded once at the end

namespace {

using step::OpKind;

struct KernelRow {
  OpKind kind;
  void (*run)(const LocalOp&);
};

// The rows are in the order of OpKind. The values of inputs are arguments of a
// run, so kInput has no kernel.
constexpr std::array<KernelRow, step::kOpKinds> kKernels = {{
    {OpKind::kInput, nullptr},
    {OpKind::kEinsum, RunEinsum},
    {OpKind::kAdd, RunElementwise},
    {OpKind::kScale, RunElementwise},
    {OpKind::kFn, RunElementwise},
    {OpKind::kSum, RunReduction},
    {OpKind::kMax, RunReduction},
    {OpKind::kBroadcast, RunElementwise},
    {OpKind::kLookup, RunIndexed},
    {OpKind::kScatter, RunIndexed},
    {OpKind::kPick, RunIndexed},
    {OpKind::kPlace, RunIndexed},
    {OpKind::kSplit, RunReshape},
    {OpKind::kMerge, RunReshape},
    {OpKind::kPart, RunReshape},
    {OpKind::kUnpart, RunReshape},
    {OpKind::kIndex, RunReshape},
    {OpKind::kUnindex, RunReshape},
    {OpKind::kRename, RunReshape},
    {OpKind::kIdentity, RunReshape},
    {OpKind::kRope, RunRope},
    {OpKind::kMask, RunMask},
    {OpKind::kRepeat, RunHeads},
    {OpKind::kGroupSum, RunHeads},
    {OpKind::kTopGroups, RunTopGroups},
    {OpKind::kTopK, RunTopK},
    {OpKind::kSlots, RunSlots},
    {OpKind::kDropout, RunDropout},
    {OpKind::kCacheWrite, RunCacheWrite},
    {OpKind::kAdamW, RunAdam},
    {OpKind::kRoll, RunRoll},
    {OpKind::kDistance, RunDistance},
}};

constexpr bool IsInOrder() {
  for (size_t i = 0; i < kKernels.size(); ++i) {
    if (static_cast<size_t>(kKernels[i].kind) != i) return false;
  }
  return true;
}
static_assert(IsInOrder(), "a kernel for each OpKind, in its order");

}  // namespace

void RunLocalOp(const LocalOp& local) {
  const auto run = kKernels[static_cast<size_t>(local.op->kind)].run;
  if (run != nullptr) run(local);
  RoundTo(*local.out);
}

// Determines how an attention operation runs inside a step: as ops that a
// compiler partitions from a global view, as a kernel on each device's slices,
// or as a ring. A kernel needs the full length. Its inputs are therefore
// gathered along the length, or an all_to_all changes a sharding of the length
// to a sharding of the heads.
//
// For example, q is the query and op_q is the query as the kernel of ulysses
// reads it. An all_to_all over sp changes q to op_q:
//
//   ulysses, q [b, t:sp, n:tp, h]  ->  op_q [b, t, n:tp+sp, h]

namespace {

const AxisGroup& AxesOf(const step::ShardingConstraints& constraints,
                        std::string_view token) {
  return constraints
      .by_axis[AsIndex(std::find(step::kConstraintAxes.begin(),
                                 step::kConstraintAxes.end(), token) -
                       step::kConstraintAxes.begin())];
}

AxisGroup Joined(AxisGroup first, const AxisGroup& then) {
  for (const std::string& axis : then) {
    AddOnce(first, axis);
  }
  return first;
}

}  // namespace

step::AttentionForm StepForm(const Operation& operation, int64_t length_parts,
                             int64_t key_heads) {
  step::AttentionForm out;
  if (operation.global_view) return out;
  out.view = step::AttentionView::kLocal;
  if (!operation.equal_length_axes || length_parts == 1) return out;
  if (!operation.exchanges_heads) {
    out.view = step::AttentionView::kRing;
    out.turns = length_parts;
    return out;
  }
  if (key_heads % length_parts != 0) out.copies = length_parts / key_heads;
  return out;
}

void AddStepOverrides(const Operation& operation,
                      step::ShardingConstraints& constraints) {
  if (operation.global_view) return;
  const AxisGroup lengths = AxesOf(constraints, "QUERY_LENGTH");
  const AxisGroup heads = AxesOf(constraints, "HEAD");
  const auto put = [&](std::string_view role, std::string_view token,
                       AxisGroup axes) {
    constraints.overrides.push_back(
        {std::string(role), std::string(token), std::move(axes)});
  };
  const bool exchanges = operation.exchanges_heads;
  const bool rings = operation.equal_length_axes && !exchanges;
  if (!rings) {
    put("op_q", "QUERY_LENGTH", {});
    put("op_out", "QUERY_LENGTH", {});
  }
  // An operation for decoding merges partial softmaxes of sharded keys. All
  // other operations except rings gather the key length.
  const bool joins = operation.decode_only;
  if (!rings && !joins) {
    put("op_k", "KV_LENGTH", {});
    put("op_krep", "KV_LENGTH", {});
  }
  if (operation.heads_on_keys) put("op_k", "KV_HEAD", heads);
  if (!exchanges) return;
  for (const std::string_view role : {"op_q", "op_k", "op_krep", "op_out"}) {
    put(role, "HEAD", Joined(heads, lengths));
  }
  put("op_k", "KV_HEAD", Joined(AxesOf(constraints, "KV_HEAD"), lengths));
}

}  // namespace shardc::exec
