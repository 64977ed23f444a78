// Computes the memory that a proof needs on one rank. It is the size of the
// reference, which is kept until the end, plus the largest of several needs
// that occur one after the other.
//
// - The reference has each value in double, and each input once more in the
//   devices' dtype.
// - A run keeps each slot (a value in one sharding) on the rank's devices, from
//   the instruction that computes it until its last reader has run. An
//   instruction may copy its operands and its result once, for example to
//   write the operands of a product in another order.
// - A slot is compared when it is freed. The comparison copies the devices'
//   part of the value, and makes two copies of the value's reference in double.
// - The same step also runs on one device, before or after the run on all
//   devices.
//
// For example, a float64 step computes y from x, and z from y. All three have
// the shape [4, 8] and are sharded over 2 of 4 devices. The reference needs 3 *
// 32 * 8 bytes, and the input x another 32 * 8. When z is computed, x is free.
// The devices hold y and z, 4 * 16 * 8 bytes each, and at most a copy of both.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "exec/machine/mesh_sim.h"
#include "exec/step/run.h"
#include "source/index.h"
#include "source/size.h"
#include "verify/step/prove.h"

namespace shardc::verify {
namespace {

// The memory of a program's run, in bytes.
struct RunBytes {
  Size most = 0;  // the largest size that is held at one time
  Size end = 0;   // held after the last instruction
};

void Raise(Size& to, Size from) {
  if (from.value() > to.value()) to = from;
}

class Counter {
 public:
  explicit Counter(const StepCase& test)
      : test_(test),
        graph_(*test.graph),
        width_(test.dtype == Dtype::kF64 ? 8 : 4) {}

  Size Reference() const {
    Size out = 0;
    for (const step::Op& op : graph_.ops) {
      const Size elements = Whole(op.out);
      out += elements * 8;
      if (op.kind == step::OpKind::kInput) out += elements * width_;
      // A dropout keeps the factors by which it multiplies, in double.
      if (op.kind == step::OpKind::kDropout) out += elements * 8;
      // If values are recorded, each value is kept twice: as gathered from the
      // devices, and as a copy of its reference.
      if (test_.compared) out += elements * (8 + width_);
    }
    return out;
  }

  // Returns the largest number of bytes that one op of the reference copies:
  // its operands and its result, in double.
  Size ReferenceCopies() const {
    Size out = 0;
    for (const step::Op& op : graph_.ops) {
      Size copies = Whole(op.out);
      for (const step::ValueId value : op.in) copies += Whole(value);
      Raise(out, copies * 8);
    }
    return out;
  }

  RunBytes Run(const step::Program& program, int64_t devices,
               bool frees) const {
    const auto bytes = [&](int32_t slot) {
      const step::Slot& of = program.slots[AsIndex(slot)];
      const auto& labels = graph_.values[AsIndex(of.value)].labels;
      Size out = Size(width_) * devices;
      for (size_t d = 0; d < labels.size(); ++d) {
        out *= test_.sizes[AsIndex(labels[d])] /
               program.axes.Parts(of.sharding.dims[d]);
      }
      return out;
    };
    const std::vector<int64_t> last = exec::LastReaders(graph_, program);
    // No number can be subtracted from a Size that has overflowed. Freed bytes
    // are therefore added up separately, and Held subtracts them only if the
    // sum has not overflowed.
    Size made = 0, freed = 0;
    RunBytes out;
    const auto take = [&](Size copies) {
      Raise(out.most, Held(made, freed) + copies);
    };
    for (size_t i = 0; i < program.code.size(); ++i) {
      const step::Instruction& step = program.code[i];
      made += bytes(step.out);
      Size copies = bytes(step.out);
      for (const int32_t slot : step.in) copies += bytes(slot);
      take(copies);
      if (!frees) continue;
      for (size_t k = 0; k < step.in.size(); ++k) {
        const int32_t slot = step.in[k];
        const auto end = step.in.begin() + static_cast<std::ptrdiff_t>(k);
        const bool again = std::find(step.in.begin(), end, slot) != end;
        if (again || last[AsIndex(slot)] != static_cast<int64_t>(i)) continue;
        take(Compared(program, slot, bytes(slot)));
        freed += bytes(slot);
      }
    }
    out.end = Held(made, freed);
    for (size_t slot = 0; slot < program.slots.size(); ++slot) {
      if (frees && last[slot] >= 0) continue;
      const auto id = static_cast<int32_t>(slot);
      take(Compared(program, id, bytes(id)));
    }
    return out;
  }

 private:
  Size Whole(step::ValueId value) const {
    Size out = 1;
    for (const step::LabelId label : graph_.values[AsIndex(value)].labels) {
      out *= test_.sizes[AsIndex(label)];
    }
    return out;
  }

  // Returns the bytes of the copies that the comparison of a slot makes: two of
  // the reference, and one of the devices' part. If the slot is recorded, also
  // counts the gathered value and, with several ranks, the part that each rank
  // sends.
  Size Compared(const step::Program& program, int32_t slot,
                Size of_slot) const {
    const Size whole = Whole(program.slots[AsIndex(slot)].value);
    Size out = whole * 16 + of_slot;
    if (test_.compared) out += whole * width_;
    if (test_.compared && test_.transport != nullptr) {
      out += of_slot * test_.transport->ranks();
    }
    return out;
  }

  static Size Held(Size made, Size freed) {
    return made.Fits() ? Size(made.value() - freed.value()) : made;
  }

  const StepCase& test_;
  const step::Graph& graph_;
  // The bytes of one element in a device's memory: 8 in float64, otherwise 4,
  // because floats narrower than float32 are stored as float32.
  const int64_t width_;
};

}  // namespace

int64_t ProofBytes(const StepCase& test) {
  const Counter counter(test);
  const int64_t ranks = test.transport == nullptr ? 1 : test.transport->ranks();
  const int64_t devices =
      (exec::SimMesh(test.mesh).devices() + ranks - 1) / ranks;
  const RunBytes run = counter.Run(*test.program, devices, FreesSlots(test));
  Size most = counter.ReferenceCopies();
  Raise(most, run.most);
  if (test.alone != nullptr) {
    const Size alone = counter.Run(*test.alone, 1, true).most;
    // In float64, the step runs on one device after the run on all devices,
    // whose results are still in memory. In other dtypes it runs before.
    const bool exact = test.dtype == Dtype::kF64;
    Raise(most, exact ? alone + run.end : alone);
    // Each further set of random inputs needs a reference of its own.
    if (!exact && test.more_sets > 0) {
      Raise(most, counter.Reference() + alone + run.end);
    }
  }
  return (counter.Reference() + most).value();
}

}  // namespace shardc::verify
