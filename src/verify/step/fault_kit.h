// What can be made wrong in a step's run, and where: a collective, an op on the
// devices, what the devices are given, or the program itself. Each function
// makes a way of injecting one fault; what it needs it looks up by the names of
// ops.
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

// What a run of the case is given in place of what is right.
struct Wrong {
  exec::Seams seams = {};
  std::optional<step::Program> run = {};       // in place of what is declared
  std::optional<step::Program> declared = {};  // and run
  std::function<void(exec::StepInputs&)> inputs = {};
};
// False where what it breaks is not there.
using Inject = std::function<bool(const SoundCase&, Wrong&)>;

// --- collectives ---

struct CallAt {
  std::string_view op;  // "linear o"
  Collective kind = Collective::kAllReduce;
  AxisGroup axes = {};  // none: any
  bool max = false;
  bool all = false;  // else the first of them
};
// `run` is the right one.
using SpoilCall =
    std::function<exec::PerDevice(exec::Machine&, const exec::CollectiveCall&)>;
Inject AtCall(CallAt at, SpoilCall spoil);

// What the devices have stays as it is.
exec::PerDevice Skipped(exec::Machine& machine,
                        const exec::CollectiveCall& call);
Inject Skip(CallAt at);
Inject ReduceWithout(CallAt at, std::string_view axis);
// The result, changed.
Inject AfterCall(
    CallAt at,
    std::function<void(const exec::SimMesh&, const exec::CollectiveCall&,
                       exec::PerDevice&)>
        spoil);
// The result of the same collective at another op, which came before.
Inject StaleCall(CallAt earlier, CallAt at);

// --- ops ---

struct OpAt {
  std::string_view op;
  step::OpKind kind = step::OpKind::kAdd;
  int which = 0;  // of those of this name and kind; -1: all
};

// An op on one device, as it will run.
struct WrongOp {
  const SoundCase* of = nullptr;
  exec::LocalOp local = {};
  step::Op op = {};
  step::Sizes sizes = {};
  std::deque<exec::Buffer> buffers = {};
  bool done = false;  // it has run

  // A copy of an operand, to be changed.
  exec::Buffer& Own(size_t operand);
  int64_t SizeOf(step::LabelId label) const { return sizes[AsIndex(label)]; }
  void Run();
};
using SpoilOp = std::function<void(WrongOp&)>;
Inject AtOp(OpAt at, SpoilOp spoil);
// The global size of the dimension is taken for this part of it; above 1 for
// one that is padded.
Inject WrongSize(OpAt at, std::string_view label, double part);
// An operand's part is said to begin at 0, or `off` further on, in the
// dimension; empty: in all of them.
Inject WrongStart(OpAt at, size_t operand, std::string_view label, int64_t off);
// The same of the result.
Inject WrongResultStart(OpAt at, std::string_view label);
// Positions counted from where the device's part begins.
Inject LocalPositions(OpAt at, size_t operand);
// The op, by parts of a dimension that it needs whole.
Inject ByHalves(OpAt at, std::string_view label,
                std::function<void(WrongOp&)> prepare = {});
// An operand of device 0 in place of everyone's own.
Inject OperandOfFirst(OpAt at, size_t operand);

// --- the program ---

// The op works on what is not reduced yet, and its result is reduced.
Inject ReduceAfter(OpAt at, bool declared = false);
// What the op makes (with `result`: what becomes of it) is reduced once more.
Inject ReduceMore(OpAt at, AxisGroup axes, bool result = false);
Inject ReduceGradient(std::string_view role, AxisGroup axes);
// The op reads the result of another.
Inject ReadInstead(OpAt at, size_t operand, OpAt other);
// The reduce_scatter of a gradient reduces only.
Inject LeaveWhole(CallAt at);
// An input's first dimension is cut by its axes in the other order.
Inject CutInOtherOrder(std::string_view input);

// --- inputs ---

// Parts of a parameter's first dimension trade places: the first of `parts`
// for the last, and so on. `moment`: of its first moment.
Inject MirrorParameter(std::string_view role, int64_t parts,
                       bool moment = false);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_FAULT_KIT_H_
