// Faults of how whole tensors are cut into devices' parts, and put together.
#include <cmath>
#include <utility>

#include "exec/attention/staging.h"
#include "exec/operations/ring_order.h"
#include "verify/faults/injection.h"

namespace shardc::verify {
namespace {

using exec::Fault;
using exec::Machine;
using exec::ShardedTensor;
using exec::SliceSeam;
using exec::Staged;

// Lengths and heads of [B, H, T, D] taken for one another.
void Misread(const Machine&, const Staged&, ShardedTensor& output) {
  output = SwapLengthAndHeads(output);
  std::swap(output.shape[1], output.shape[2]);
  std::swap(output.spec[1], output.spec[2]);
  for (exec::Buffer& local : output.local) {
    std::swap(local.shape[1], local.shape[2]);
  }
}

// Tokens where a zig-zag ring holds them: what its program undoes is undone
// before.
void LeavePermuted(const Machine& machine, const Staged& staged,
                   ShardedTensor& output) {
  const exec::SimMesh& mesh = machine.mesh();
  const auto order = exec::RingOrder(exec::SequenceOrder::kZigZag, staged.T(),
                                     mesh.Parts(staged.query.spec[1]));
  exec::Complaint why;
  const auto whole = exec::Gather(mesh, output, why);
  if (!whole) return;
  output = exec::Scatter(mesh, exec::PermuteDim(*whole, 1, order), output.spec);
}

void PutOneOff(const Machine&, const Staged&, ShardedTensor& output) {
  output.local.back().real[0] += 1e-4f;
}

void LetDrift(const Machine&, const Staged&, ShardedTensor& output) {
  float& x = output.local.back().real[0];
  x = std::nextafter(x, 10.0f);
}

void DropAxis(const Machine& machine, const Staged&, ShardedTensor& output) {
  for (AxisGroup& group : output.spec) {
    if (machine.mesh().Parts(group) == 1) continue;
    group.clear();
    return;
  }
}

// What is done to the output as it leaves.
struct WrongJoin {
  Fault fault;
  void (*join)(const Machine& machine, const Staged& staged,
               ShardedTensor& output);
};
constexpr WrongJoin kWrongJoins[] = {
    {Fault::kOneElementOff, PutOneOff},
    {Fault::kReplicaDrifts, LetDrift},
    {Fault::kOutputLacksAxis, DropAxis},
    {Fault::kOutputMisread, Misread},
    {Fault::kOutputLeftPermuted, LeavePermuted},
};

}  // namespace

void InjectIntoSlices(Fault fault, exec::Seams& seams) {
  SliceSeam seam;
  for (const WrongJoin& wrong : kWrongJoins) {
    if (wrong.fault == fault) seam.join = wrong.join;
  }
  seams.Set(std::move(seam));
}

}  // namespace shardc::verify
