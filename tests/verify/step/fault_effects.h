// The effect of an injected fault on a collective or on one op. A function for
// a collective changes the correct results of all devices, or runs the
// collective in another way. A function for an op changes the op on one device
// before the op runs. The function may also run the op itself and set `done`.
#ifndef SHARDC_TESTS_VERIFY_STEP_FAULT_EFFECTS_H_
#define SHARDC_TESTS_VERIFY_STEP_FAULT_EFFECTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "verify/step/fault_kit.h"

namespace shardc::verify::effects {

// --- results of collectives, changed in place ---

// Replaces each device's result by the result of the next device of its group.
void Rotate(const exec::SimMesh& mesh, const exec::CollectiveCall& call,
            exec::PerDevice& out);
// Divides the result by the number of devices in the group.
void Mean(const exec::SimMesh& mesh, const exec::CollectiveCall& call,
          exec::PerDevice& out);
// Joins the devices' blocks along `call.dim` in reverse order.
void Reverse(const exec::SimMesh& mesh, const exec::CollectiveCall& call,
             exec::PerDevice& out);
// Joins the senders' blocks of an all_to_all in an order shifted by one.
void RotateSenders(const exec::SimMesh& mesh, const exec::CollectiveCall& call,
                   exec::PerDevice& out);
// Shifts the joined rows of an all_to_all by one row.
void RotateRows(const exec::SimMesh& mesh, const exec::CollectiveCall& call,
                exec::PerDevice& out);

// --- collectives, run in another way ---

// Omits the last device of each group from the sum.
exec::PerDevice WithoutLast(exec::Machine& machine,
                            const exec::CollectiveCall& call);
// Applies the collective to its own result.
exec::PerDevice Twice(exec::Machine& machine, const exec::CollectiveCall& call);
// Runs the same collective a second time, so that its bytes are sent twice.
exec::PerDevice CalledTwice(exec::Machine& machine,
                            const exec::CollectiveCall& call);
// Runs the collective over other axes.
SpoilCall Over(AxisGroup axes);
// Multiplies a device's own operand by the size of the group in place of
// summing over the group.
exec::PerDevice OwnTimes(exec::Machine& machine,
                         const exec::CollectiveCall& call);
// Rounds operands and result to bfloat16.
exec::PerDevice InBf16(exec::Machine& machine,
                       const exec::CollectiveCall& call);
// Reads a device's contiguous chunk of [gate | up] as if its first half were
// the device's gate and its second half the device's up.
exec::PerDevice ChunkAsHalves(exec::Machine& machine,
                              const exec::CollectiveCall& call);
// Sends along the edges of a ppermute in the reverse direction.
exec::PerDevice OtherWay(exec::Machine& machine,
                         const exec::CollectiveCall& call);
// Injects the fault at the call with number `which`, counted from 1 among the
// calls that match `at`.
FaultAction AtCallNumber(CallAt at, int which, SpoilCall spoil);

// --- ops ---

// Clips the ids of rows that another device holds to the nearest own row.
void ClipIds(WrongOp& one);
// In each row, replaces the label of the shard's last token by the label of the
// shard's first token.
void ShiftLabels(WrongOp& one);
// Splits a dimension with the factors (a b) as if they were (b a).
void OtherFactorOrder(WrongOp& one);
// Makes query head n read KV head n mod K, where K is the number of KV heads.
void RepeatModulo(WrongOp& one);
// Adds 0.001 to the op's result on all devices except those at index 0 of tp.
void DriftOnSecond(WrongOp& one);
// Selects the last of equal scores instead of the first, on all devices except
// those at index 0 of tp.
void LastOfEqual(WrongOp& one);
// Halves the number of a router's groups of experts, and the number of groups
// that the router chooses.
void HalfTheGroups(WrongOp& one);
// Removes the term of a tied embedding's gradient that comes from the lookup.
void ForgetLookup(WrongOp& one);
// Multiplies the op's constant by `factor`.
SpoilOp Constant(double factor);
// Draws dropout with another random key.
void OtherSeed(WrongOp& one);
// Draws dropout by the index of an element within the shard.
void LocalDropout(WrongOp& one);
// Sets the optimizer's result to the old parameter, without the update.
void KeepModelWeight(WrongOp& one);
// Applies weight decay to a parameter that should have no decay.
void DecayAnyway(WrongOp& one);
// Adds the device's index along tp to the number of optimizer steps.
void StepOfAnother(WrongOp& one);
// Reverses the order of the slots in experts' queues.
void ReverseSlots(WrongOp& one);
// Replaces each position p in an operand by to(p), in a copy of the operand.
SpoilOp Positions(size_t operand, const std::function<int64_t(int64_t)>& to);
// Writes a new row into every shard of the cache, at the same index of each.
void WriteEverywhere(WrongOp& one);
// Makes the device with the last rows of the vocabulary count its last row
// twice, as if it counted a row of padding.
void CountPadding(WrongOp& one);
// Adds an attention sink, or the sink's gradient, once for each step of a ring.
void SinkPerBlock(WrongOp& one);
void SinkGradientPerBlock(WrongOp& one);

}  // namespace shardc::verify::effects

#endif  // SHARDC_TESTS_VERIFY_STEP_FAULT_EFFECTS_H_
