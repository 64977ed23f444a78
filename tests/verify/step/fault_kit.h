// Ways to inject a fault into a step's run: into a collective, an op on the
// devices, the devices' inputs, or the program. Each function that returns a
// FaultAction makes one injection. The injection finds its place in the program
// by the name of an op, by the role of a parameter, or by an input.
#ifndef SHARDC_TESTS_VERIFY_STEP_FAULT_KIT_H_
#define SHARDC_TESTS_VERIFY_STEP_FAULT_KIT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>

#include "exec/machine/collectives.h"
#include "exec/machine/machine.h"
#include "exec/step/run.h"
#include "source/size.h"
#include "verify/step/sound_cases.h"

namespace shardc::verify {

// What a faulty run of a case replaces: the seams (steps of the run that a test
// may replace), the program and the inputs.
struct Wrong {
  exec::Seams seams = {};
  // If set, this program runs. The checks still read the case's own program.
  std::optional<step::Program> run = {};
  // If set, this program runs, and the checks read it too.
  std::optional<step::Program> declared = {};
  std::function<void(exec::StepInputs&)> inputs = {};
};
// An injection. It returns false if the case has no place for the fault.
using FaultAction = std::function<bool(const SoundCase&, Wrong&)>;

// --- collectives ---

// Selects collectives of the program, by the name of the op, the kind of
// collective and the axes.
struct CallAt {
  std::string_view op;  // name of the op, such as "linear o"
  Collective kind = Collective::kAllReduce;
  AxisGroup axes = {};  // mesh axes of the collective; empty: any axes
  bool max = false;
  bool all = false;  // true: select all such collectives; false: only the first
};
// A function that runs in place of one call of a collective.
using SpoilCall =
    std::function<exec::PerDevice(exec::Machine&, const exec::CollectiveCall&)>;
FaultAction AtCall(CallAt at, SpoilCall spoil);

// Sends nothing and returns the operands as the result. For a reduce_scatter,
// returns each device's slice of its own operand.
exec::PerDevice Skipped(exec::Machine& machine,
                        const exec::CollectiveCall& call);
FaultAction Skip(CallAt at);
FaultAction ReduceWithout(CallAt at, std::string_view axis);
// Runs the correct collective, and then `spoil`, which changes its result.
FaultAction AfterCall(
    CallAt at,
    std::function<void(const exec::SimMesh&, const exec::CollectiveCall&,
                       exec::PerDevice&)>
        spoil);
// Makes the collective at `at` return the result of the collective at
// `earlier`.
FaultAction StaleCall(CallAt earlier, CallAt at);

// --- ops ---

struct OpAt {
  std::string_view op;
  step::OpKind kind = step::OpKind::kAdd;
  int which = 0;  // index among the ops of this name and kind; -1: all of them
};

// One op on one device. A fault may change the members before the op runs.
struct WrongOp {
  const SoundCase* of = nullptr;
  exec::LocalOp local = {};
  step::Op op = {};
  step::Sizes sizes = {};
  std::deque<exec::Buffer> buffers = {};
  bool done = false;  // true: the op has already run

  // Replaces an operand by a copy, and returns the copy, which a fault may
  // change.
  exec::Buffer& Own(size_t operand);
  int64_t SizeOf(step::LabelId label) const { return sizes[AsIndex(label)]; }
  void Run();
};
using SpoilOp = std::function<void(WrongOp&)>;
FaultAction AtOp(OpAt at, SpoilOp spoil);
// Multiplies the unsharded size of a dimension by `part`. A `part` above 1
// represents padding.
FaultAction WrongSize(OpAt at, std::string_view label, double part);
// Changes the index at which the device's part of an operand begins in the
// dimension `label`: adds `off` or, if `off` is 0, sets the index to 0. An
// empty `label` means all dimensions.
FaultAction WrongStart(OpAt at, size_t operand, std::string_view label,
                       int64_t off);
// Sets the index at which the device's part of the result begins in the
// dimension `label` to 0.
FaultAction WrongResultStart(OpAt at, std::string_view label);
// Counts positions from the start of the device's part instead of the start of
// the sequence.
FaultAction LocalPositions(OpAt at, size_t operand);
// Runs the op separately on each half of a dimension that must be unsharded.
FaultAction ByHalves(OpAt at, std::string_view label,
                     std::function<void(WrongOp&)> prepare = {});
// Replaces the operand on all devices by the operand of device 0.
FaultAction OperandOfFirst(OpAt at, size_t operand);

// --- the program ---

// Runs the op on operands that are still partial, and reduces its result
// afterwards. With `declared`, the checks also read the changed program.
FaultAction ReduceAfter(OpAt at, bool declared = false);
// Reduces the op's result once more, directly after the op. With `result`,
// reduces it only after its last reshard, when it has its final sharding.
FaultAction ReduceMore(OpAt at, AxisGroup axes, bool result = false);
FaultAction ReduceGradient(std::string_view role, AxisGroup axes);
// Makes the op at `at` read the result of the op at `other` as its operand.
FaultAction ReadInstead(OpAt at, size_t operand, OpAt other);
// Replaces the reduce_scatter of a gradient by an all_reduce and a slice.
FaultAction SumBeforeSlicing(CallAt at);
// Shards an input's first dimension by its axes in reverse order.
FaultAction SplitInOtherOrder(std::string_view input);
// Shards an input's first dimension over other axes of the same size.
FaultAction SplitOverInstead(std::string_view input, AxisGroup axes);

// --- inputs ---

// Reverses the order of `parts` equal parts of the first dimension of a
// parameter. With `moment`, reverses the parameter's first moment instead.
FaultAction MirrorParameter(std::string_view role, int64_t parts,
                            bool moment = false);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_STEP_FAULT_KIT_H_
