// Ways to inject a fault into a step's run: into a collective, an op on the
// devices, the devices' inputs, or the program. A function that returns a
// FaultAction makes an injection, which finds its place in the program by the
// name of an op, a role or an input.
#ifndef SHARDC_VERIFY_STEP_FAULT_KIT_H_
#define SHARDC_VERIFY_STEP_FAULT_KIT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>

#include "exec/machine/collectives.h"
#include "exec/machine/seams.h"
#include "exec/step/local_op.h"
#include "source/index.h"
#include "verify/step/sound_cases.h"

namespace shardc::verify {

// The seams, programs and inputs with which a faulty run of a case replaces the
// correct ones.
struct Wrong {
  exec::Seams seams = {};
  // The program that runs, while checks read the case's own program.
  std::optional<step::Program> run = {};
  // A program that runs and that checks read as well.
  std::optional<step::Program> declared = {};
  std::function<void(exec::StepInputs&)> inputs = {};
};
// An injection. It returns false if the case has no place for the fault.
using FaultAction = std::function<bool(const SoundCase&, Wrong&)>;

// --- collectives ---

// Selects collectives of the program, by op, kind and axes.
struct CallAt {
  std::string_view op;  // "linear o"
  Collective kind = Collective::kAllReduce;
  AxisGroup axes = {};  // empty: any axes
  bool max = false;
  bool all = false;  // select all such collectives, not only the first
};
// A function that replaces one call of a collective.
using SpoilCall =
    std::function<exec::PerDevice(exec::Machine&, const exec::CollectiveCall&)>;
FaultAction AtCall(CallAt at, SpoilCall spoil);

// Returns the operands as the result; for a reduce_scatter, each device's slice
// of its own operand.
exec::PerDevice Skipped(exec::Machine& machine,
                        const exec::CollectiveCall& call);
FaultAction Skip(CallAt at);
FaultAction ReduceWithout(CallAt at, std::string_view axis);
// Runs the correct collective, and then changes its result.
FaultAction AfterCall(
    CallAt at,
    std::function<void(const exec::SimMesh&, const exec::CollectiveCall&,
                       exec::PerDevice&)>
        spoil);
// Returns the result of an earlier collective in place of the call's own.
FaultAction StaleCall(CallAt earlier, CallAt at);

// --- ops ---

struct OpAt {
  std::string_view op;
  step::OpKind kind = step::OpKind::kAdd;
  int which = 0;  // index among the ops of this name and kind; -1: all
};

// One op on one device. A fault may change it before it runs.
struct WrongOp {
  const SoundCase* of = nullptr;
  exec::LocalOp local = {};
  step::Op op = {};
  step::Sizes sizes = {};
  std::deque<exec::Buffer> buffers = {};
  bool done = false;  // whether the op has run

  // Replaces an operand by a copy, and returns the copy, which may be changed.
  exec::Buffer& Own(size_t operand);
  int64_t SizeOf(step::LabelId label) const { return sizes[AsIndex(label)]; }
  void Run();
};
using SpoilOp = std::function<void(WrongOp&)>;
FaultAction AtOp(OpAt at, SpoilOp spoil);
// Multiplies the unsharded size of a dimension by `part`, which is above 1 for
// padding.
FaultAction WrongSize(OpAt at, std::string_view label, double part);
// Adds `off` to the index at which an operand's part starts in a dimension, or
// sets the index to 0 if `off` is 0. An empty `label` means all dimensions.
FaultAction WrongStart(OpAt at, size_t operand, std::string_view label,
                       int64_t off);
// Sets the index at which the result's part starts to 0.
FaultAction WrongResultStart(OpAt at, std::string_view label);
// Counts positions from the start of the device's part.
FaultAction LocalPositions(OpAt at, size_t operand);
// Runs the op on each half of a dimension that it needs unsharded.
FaultAction ByHalves(OpAt at, std::string_view label,
                     std::function<void(WrongOp&)> prepare = {});
// Gives all devices the operand of device 0.
FaultAction OperandOfFirst(OpAt at, size_t operand);

// --- the program ---

// Runs the op on operands that are still partial, and reduces its result
// afterwards. With `declared`, the checks read the changed program too.
FaultAction ReduceAfter(OpAt at, bool declared = false);
// Reduces the op's result once more or, with `result`, the last slot of the
// value.
FaultAction ReduceMore(OpAt at, AxisGroup axes, bool result = false);
FaultAction ReduceGradient(std::string_view role, AxisGroup axes);
// Makes the op read the result of another op.
FaultAction ReadInstead(OpAt at, size_t operand, OpAt other);
// Replaces the reduce_scatter of a gradient by an all_reduce and a later slice.
FaultAction SumBeforeSlicing(CallAt at);
// Shards an input's first dimension by its axes in the reverse order.
FaultAction SplitInOtherOrder(std::string_view input);

// --- inputs ---

// Reverses the order of `parts` equal parts of the first dimension of a
// parameter or, with `moment`, of its first moment.
FaultAction MirrorParameter(std::string_view role, int64_t parts,
                            bool moment = false);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_FAULT_KIT_H_
