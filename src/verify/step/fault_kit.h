// Ways to inject a fault into a step's run: into a collective, an op on the
// devices, the devices' inputs, or the program. Each function returns an
// injection, which finds its place by the names of ops.
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

// What a faulty run of a case uses in place of the correct seams, programs and
// inputs.
struct Wrong {
  exec::Seams seams = {};
  std::optional<step::Program> run = {};       // in place of what is declared
  std::optional<step::Program> declared = {};  // and run
  std::function<void(exec::StepInputs&)> inputs = {};
};
// Returns false if the case has no such place.
using FaultAction = std::function<bool(const SoundCase&, Wrong&)>;

// --- collectives ---

struct CallAt {
  std::string_view op;  // "linear o"
  Collective kind = Collective::kAllReduce;
  AxisGroup axes = {};  // none: any
  bool max = false;
  bool all = false;  // else the first of them
};
// Replaces one call of a collective.
using SpoilCall =
    std::function<exec::PerDevice(exec::Machine&, const exec::CollectiveCall&)>;
FaultAction AtCall(CallAt at, SpoilCall spoil);

// Returns the operands as the result; of a reduce_scatter, their own slice.
exec::PerDevice Skipped(exec::Machine& machine,
                        const exec::CollectiveCall& call);
FaultAction Skip(CallAt at);
FaultAction ReduceWithout(CallAt at, std::string_view axis);
// Changes the result.
FaultAction AfterCall(
    CallAt at,
    std::function<void(const exec::SimMesh&, const exec::CollectiveCall&,
                       exec::PerDevice&)>
        spoil);
// Returns the result that the collective had at an earlier op.
FaultAction StaleCall(CallAt earlier, CallAt at);

// --- ops ---

struct OpAt {
  std::string_view op;
  step::OpKind kind = step::OpKind::kAdd;
  int which = 0;  // of those of this name and kind; -1: all
};

// An op on one device, which may be changed before it runs.
struct WrongOp {
  const SoundCase* of = nullptr;
  exec::LocalOp local = {};
  step::Op op = {};
  step::Sizes sizes = {};
  std::deque<exec::Buffer> buffers = {};
  bool done = false;  // it has run

  // Replaces an operand by a copy, which may be changed.
  exec::Buffer& Own(size_t operand);
  int64_t SizeOf(step::LabelId label) const { return sizes[AsIndex(label)]; }
  void Run();
};
using SpoilOp = std::function<void(WrongOp&)>;
FaultAction AtOp(OpAt at, SpoilOp spoil);
// Multiplies the global size of a dimension by `part`; above 1 for padding.
FaultAction WrongSize(OpAt at, std::string_view label, double part);
// Shifts the index at which an operand's part starts in a dimension by `off`,
// or sets it to 0 if `off` is 0; in all dimensions if `label` is empty.
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

// Runs the op on operands before their reduction, and reduces its result.
FaultAction ReduceAfter(OpAt at, bool declared = false);
// Reduces the op's result, or with `result` the value's last slot, once more.
FaultAction ReduceMore(OpAt at, AxisGroup axes, bool result = false);
FaultAction ReduceGradient(std::string_view role, AxisGroup axes);
// Makes the op read the result of another op.
FaultAction ReadInstead(OpAt at, size_t operand, OpAt other);
// Replaces the reduce_scatter of a gradient by an all_reduce.
FaultAction SumBeforeSlicing(CallAt at);
// Shards an input's first dimension by its axes in the reverse order.
FaultAction SplitInOtherOrder(std::string_view input);

// --- inputs ---

// Reverses the order of the `parts` of a parameter's first dimension, or with
// `moment` of its first moment's.
FaultAction MirrorParameter(std::string_view role, int64_t parts,
                            bool moment = false);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_FAULT_KIT_H_
