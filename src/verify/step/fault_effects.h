// What an injected fault does to the result of a collective or to one op.
// Functions of collectives take the call, and either its operands or the result
// that the right collective gave on every device; functions of ops change one
// op on one device before it runs, or run it themselves and set `done`.
#ifndef SHARDC_VERIFY_STEP_FAULT_EFFECTS_H_
#define SHARDC_VERIFY_STEP_FAULT_EFFECTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "verify/step/fault_kit.h"

namespace shardc::verify::effects {

// --- results of collectives, changed in place ---

// Each device holds what the next device of its group should hold.
void Rotate(const exec::SimMesh& mesh, const exec::CollectiveCall& call,
            exec::PerDevice& out);
// Divides by the number of devices in the group.
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

// Leaves the last device of each group out of the sum.
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
// Reads one device's contiguous chunk of [gate | up] as its gate and its up.
exec::PerDevice ChunkAsHalves(exec::Machine& machine,
                              const exec::CollectiveCall& call);
// Sends along the edges of a ppermute in the opposite direction.
exec::PerDevice OtherWay(exec::Machine& machine,
                         const exec::CollectiveCall& call);
// Injects at the `which`-th (from 1) of the calls that match.
FaultAction AtCallNumber(CallAt at, int which, SpoilCall spoil);

// --- ops ---

// Clips the ids of rows that another device holds to the nearest own row.
void ClipIds(WrongOp& one);
// Gives the last token of a shard the label of the shard's own first token.
void ShiftLabels(WrongOp& one);
// Splits (a b) as (b a).
void OtherFactorOrder(WrongOp& one);
// Gives head n the KV head n mod K.
void RepeatModulo(WrongOp& one);
// Adds 0.001 on all devices but those at index 0 of tp.
void DriftOnSecond(WrongOp& one);
// Selects the last of equal scores in place of the first, on all devices but
// those at index 0 of tp.
void LastOfEqual(WrongOp& one);
// Counts half as many groups, and chooses half as many of them.
void HalfTheGroups(WrongOp& one);
// Drops the term of a tied embedding's gradient that its lookup contributes.
void ForgetLookup(WrongOp& one);
// Multiplies the op's constant.
SpoilOp Constant(double factor);
// Draws dropout by another key.
void OtherSeed(WrongOp& one);
// Keys dropout by the index within the shard.
void LocalDropout(WrongOp& one);
// Returns the parameter as the optimizer got it, without the update.
void KeepModelWeight(WrongOp& one);
// Applies weight decay to a parameter that has none.
void DecayAnyway(WrongOp& one);
// Takes the device's index along tp as additional optimizer steps.
void StepOfAnother(WrongOp& one);
// Reverses the places in experts' queues.
void ReverseSlots(WrongOp& one);
// Maps the positions in an operand.
SpoilOp Positions(size_t operand, const std::function<int64_t(int64_t)>& to);
// Writes a new row into every shard of the cache, at its place in a shard.
void WriteEverywhere(WrongOp& one);
// Counts a row of padding on the last device of the vocabulary.
void CountPadding(WrongOp& one);
// Adds an attention sink, or the sink's gradient, once for each turn of a ring.
void SinkPerBlock(WrongOp& one);
void SinkGradientPerBlock(WrongOp& one);

}  // namespace shardc::verify::effects

#endif  // SHARDC_VERIFY_STEP_FAULT_EFFECTS_H_
