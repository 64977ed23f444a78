// Proves a step: validates and runs the program, and compares each value on
// every device with the dense reference. Partial values are not compared. The
// error of a value is the largest difference, divided by the reference's
// largest element.
//
// The tolerance is 0 for integers and 1e-12 for float64. If float64 values miss
// it by a factor of at most 1000, it becomes four times the error of one
// device, because rounding errors grow from layer to layer. For narrower
// dtypes, it is four times the largest error that a run on one device has in
// the value and in all values before it, plus 18 * 2^-24. If values miss this
// by a factor of at most two, more random inputs are run on one device, and the
// largest error is used.
//
// In the backward pass and the optimizer, some values are only roundoff. An
// error is therefore divided by at least a hundredth of the largest gradient.
// Rounding may change a choice of experts, so runs in 16 bits use the
// reference's choices. The run in float64 proves these choices.
#include "verify/step/prove.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/machine/agreement.h"
#include "exec/machine/machine.h"
#include "exec/step/run.h"
#include "source/list.h"
#include "source/size.h"
#include "step/op_def.h"
#include "step/validate.h"
#include "verify/judge/explain.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using step::Graph;
using step::Program;
using step::ValueId;

constexpr double kExact = 1e-12;
constexpr double kMostRounding = 1e-9;  // the largest tolerance in float64
constexpr size_t kMostProblems = 64;
// The distance between the seeds of two sets of random inputs. Users choose
// small seeds such as 1, 2, 3. Because the distance is far larger, runs with
// different small seeds have no set of inputs in common.
constexpr uint64_t kNextSet = uint64_t{1} << 40;

double LargestFinite(const std::vector<double>& values) {
  double out = 0;
  for (double x : values) {
    if (std::isfinite(x)) out = std::max(out, std::abs(x));
  }
  return out;
}

class Prover {
 public:
  explicit Prover(const StepCase& test)
      : test_(test),
        graph_(*test.graph),
        program_(*test.program),
        run_program_(test.run != nullptr ? *test.run : *test.program),
        mesh_(test.mesh, test.transport),
        own_(test.reference != nullptr
                 ? StepData{}
                 : MakeReference(graph_, test.sizes, test.dtype, test.seed)),
        data_(test.reference != nullptr ? *test.reference : own_) {}

  StepProof Run() {
    CheckStatic();
    scale_ = ScalesOf(data_);
    out_.values.resize(graph_.values.size());
    alone_.assign(graph_.values.size(), 0);
    const bool exact = test_.dtype == Dtype::kF64;
    if (!exact) out_.overflow = MeasureAlone(data_, scale_);
    if (out_.overflow >= 0) return std::move(out_);
    exec::Machine machine(mesh_, test_.threads,
                          WithChoices(test_.seams, data_));
    const auto executed = RunProgram(machine);
    if (!executed) return std::move(out_);
    const exec::StepRun& run = *executed;
    if (test_.watch) test_.watch(run, machine.ledger());
    Measure(run);
    TakeLargestOfRanks();
    if (exact && MissesBy(kMostRounding / kExact)) {
      MeasureAlone(data_, scale_);
    }
    if (!exact && MissesBy(2)) MeasureMoreSets();
    Judge();
    if (!test_.execute) CheckLedger(machine);
    Count();
    return std::move(out_);
  }

 private:
  void Fail(StepCheck check, int32_t op, std::string message) {
    // The first problem of each check is always kept, even beyond the limit.
    if (out_.problems.size() < kMostProblems || !out_.Failed(check)) {
      out_.problems.push_back({check, op, std::move(message)});
    }
  }

  std::optional<exec::StepRun> RunProgram(exec::Machine& machine) {
    if (test_.execute) {
      return test_.execute(mesh_, WithChoices(test_.seams, data_), data_.inputs,
                           out_.problems);
    }
    if (!test_.spoil) return RunWith(machine, data_.inputs);
    exec::StepInputs inputs = data_.inputs;
    test_.spoil(inputs);
    return RunWith(machine, inputs);
  }

  // Runs the program. Each value is measured and freed after its last reader,
  // so that only a part of the step's values is in memory at once. All slots
  // are kept if a caller reads them, or if the program has an injected fault
  // and may read slots in another order.
  exec::StepRun RunWith(exec::Machine& machine,
                        const exec::StepInputs& inputs) {
    if (!FreesSlots(test_)) {
      return exec::RunStep(machine, graph_, run_program_, inputs,
                           exec::KeepSlots::kAll);
    }
    const std::vector<int32_t> op_of_slot = OpsOfSlots(program_);
    return exec::RunStep(machine, graph_, run_program_, inputs,
                         exec::KeepSlots::kResults,
                         [&](int32_t slot, const exec::PerDevice& local) {
                           const int32_t op = op_of_slot[AsIndex(slot)];
                           if (op >= 0) MeasureIfWhole(op, local);
                         });
  }

  // Returns, for each slot, the index of the op whose final result is in the
  // slot; -1 if the slot holds no final result.
  std::vector<int32_t> OpsOfSlots(const Program& program) const {
    std::vector<int32_t> out(program.slots.size(), -1);
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const int32_t slot = program.result[AsIndex(graph_.ops[i].out)];
      if (slot >= 0) out[AsIndex(slot)] = static_cast<int32_t>(i);
    }
    return out;
  }

  void CheckStatic() {
    for (step::ProgramFault& fault :
         step::Validate(graph_, program_, test_.sizes)) {
      Fail(StepCheck::kStatic, fault.op, std::move(fault.message));
    }
  }

  // Returns the number by which each value's error is divided, indexed by
  // value.
  std::vector<double> ScalesOf(const StepData& data) const {
    std::vector<double> scales(graph_.values.size(), 0);
    double largest = 0;
    for (ValueId value : graph_.gradients) {
      if (value >= 0) {
        largest = std::max(largest, LargestFinite(Expected(data, value)));
      }
    }
    for (const step::Op& op : graph_.ops) {
      double& scale = scales[AsIndex(op.out)];
      scale = LargestFinite(Expected(data, op.out));
      if (op.phase != step::Phase::kForward && op.recompute_of < 0) {
        scale = std::max(scale, 1e-2 * largest);
      }
      // The error of a value that is zero everywhere is not divided.
      if (scale == 0) scale = 1;
    }
    return scales;
  }
  static const std::vector<double>& Expected(const StepData& data,
                                             ValueId value) {
    return data.values[AsIndex(value)].data;
  }
  const std::vector<double>& Expected(ValueId value) const {
    return Expected(data_, value);
  }

  // Runs the program on one device. Raises `alone_` of each value to the
  // largest relative error of that value and of all values before it, since
  // errors propagate. Returns the op whose result is not finite, or -1 if all
  // results are finite. Does nothing if the case has no program for one device.
  int32_t MeasureAlone(const StepData& data,
                       const std::vector<double>& scales) {
    if (test_.alone == nullptr) return -1;
    Mesh mesh;
    mesh.axes = {{"one", 1, AxisType::kAuto}};
    const exec::SimMesh single(std::move(mesh));
    exec::Machine machine(single, 1, WithChoices({}, data));
    std::vector<double> errors(graph_.ops.size(), 0);
    const auto measure = [&](size_t index, const exec::PerDevice& local) {
      const ValueId out = graph_.ops[index].out;
      errors[index] =
          Difference(local[0], Expected(data, out)) / scales[AsIndex(out)];
    };
    const std::vector<int32_t> op_of_slot = OpsOfSlots(*test_.alone);
    const exec::StepRun run = exec::RunStep(
        machine, graph_, *test_.alone, data.inputs, exec::KeepSlots::kResults,
        [&](int32_t slot, const exec::PerDevice& local) {
          const int32_t op = op_of_slot[AsIndex(slot)];
          if (op >= 0) measure(AsIndex(op), local);
        });
    double so_far = 0;
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const step::Op& op = graph_.ops[i];
      const int32_t slot = test_.alone->result[AsIndex(op.out)];
      if (slot < 0) continue;
      const exec::PerDevice& kept = run.slots[AsIndex(slot)];
      if (!kept.empty()) measure(i, kept);
      so_far = std::max(so_far, errors[i]);
      if (!std::isfinite(so_far)) return static_cast<int32_t>(i);
      double& most = alone_[AsIndex(op.out)];
      most = std::max(most, so_far);
    }
    return -1;
  }

  // Measures the error of one device with more random inputs. If a value
  // overflows, the values after it are not measured.
  void MeasureMoreSets() {
    for (uint64_t set = 1; set <= test_.more_sets; ++set) {
      const StepData data = MakeReference(graph_, test_.sizes, test_.dtype,
                                          test_.seed + set * kNextSet);
      MeasureAlone(data, ScalesOf(data));
    }
  }

  bool IsNarrow() const {
    return test_.dtype == Dtype::kBF16 || test_.dtype == Dtype::kF16;
  }

  // Returns true if the op chooses experts, or is one of the discontinuous
  // functions that routers use.
  static bool Jumps(const step::Op& op) {
    if (op.kind == step::OpKind::kTopK || op.kind == step::OpKind::kTopGroups) {
      return true;
    }
    if (op.kind != step::OpKind::kFn) return false;
    const bool forward =
        op.phase == step::Phase::kForward || op.recompute_of >= 0;
    const step::Function* const function =
        step::FindFunction(step::As<step::FnAttributes>(op).fn);
    return forward && function != nullptr && function->derivative.empty();
  }

  // Returns seams (replaceable steps of a run) with which runs in 16 bits use
  // the reference's choices of experts.
  exec::Seams WithChoices(exec::Seams seams, const StepData& data) const {
    if (!IsNarrow()) return seams;
    exec::LocalOpSeam seam = seams.Get<exec::LocalOpSeam>();
    seam.run = [this, &data, run = seam.run](const exec::LocalOp& local) {
      if (!Jumps(*local.op)) return run(local);
      const step::ValueId value = local.op->out;
      const std::vector<double>& want = Expected(data, value);
      Buffer whole = Buffer::Zeros(step::ShapeOf(graph_, value, test_.sizes),
                                   local.out->dtype);
      for (size_t i = 0; i < want.size(); ++i) {
        if (whole.IsReal()) {
          whole.real[i] = static_cast<float>(want[i]);
        } else {
          whole.integers[i] = static_cast<int32_t>(want[i]);
        }
      }
      *local.out = exec::SliceBlock(whole, local.start, local.out->shape);
    };
    seams.Set(std::move(seam));
    return seams;
  }

  double Allowed(ValueId value) const {
    if (graph_.values[AsIndex(value)].integral) return 0;
    const double measured = 4 * alone_[AsIndex(value)];
    if (test_.dtype == Dtype::kF64) {
      return std::clamp(measured, kExact, kMostRounding);
    }
    return measured + 18 * std::ldexp(1.0, -24);
  }

  // Measures the error of each value of the run that was not measured before.
  void Measure(const exec::StepRun& run) {
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const step::Op& op = graph_.ops[i];
      const auto index = static_cast<int32_t>(i);
      const int32_t slot = program_.result[AsIndex(op.out)];
      if (op.kind == step::OpKind::kInput) {
        if (test_.compared) {
          test_.compared(index, data_.inputs.values[AsIndex(op.out)],
                         Expected(op.out));
        }
        continue;
      }
      if (slot < 0 || out_.values[AsIndex(op.out)].judged) continue;
      MeasureIfWhole(index, run.slots[AsIndex(slot)]);
    }
    std::sort(judged_.begin(), judged_.end(),
              [](const Judged& a, const Judged& b) { return a.op < b.op; });
  }

  // Measures the error of the value that the op computes. Partial values and
  // inputs are not measured.
  void MeasureIfWhole(int32_t index, const exec::PerDevice& local) {
    const step::Op& op = graph_.ops[AsIndex(index)];
    const step::Slot& slot =
        program_.slots[AsIndex(program_.result[AsIndex(op.out)])];
    if (op.kind == step::OpKind::kInput || slot.sharding.partial != 0) return;
    MeasureOne(index, slot, local);
  }

  void MeasureOne(int32_t index, const step::Slot& slot,
                  const exec::PerDevice& local) {
    const ValueId out = graph_.ops[AsIndex(index)].out;
    exec::ShardedTensor tensor{
        .shape = step::ShapeOf(graph_, slot.value, test_.sizes),
        .dtype = graph_.values[AsIndex(slot.value)].integral ? Dtype::kI32
                                                             : test_.dtype,
        .spec = step::SpecOf(program_.axes, slot.sharding),
        .local = local};
    judged_.push_back({index, exec::CheckReplicas(mesh_, tensor).has_value()});
    if (test_.compared)
      test_.compared(index, GatherAnyway(mesh_, test_.transport, tensor),
                     Expected(out));
    ValueError& error = out_.values[AsIndex(out)];
    error.judged = true;
    error.error =
        DifferenceHere(mesh_, tensor, Expected(out)) / scale_[AsIndex(out)];
  }

  // Each rank has measured the values on its own devices. Sets each value's
  // error to the largest error of all ranks.
  void TakeLargestOfRanks() {
    if (test_.transport == nullptr) return;
    std::vector<double> errors;
    for (const ValueError& value : out_.values) errors.push_back(value.error);
    exec::Packet own;
    exec::PutAll(errors, own);
    for (const exec::Packet& of : test_.transport->Share(own)) {
      std::span<const std::byte> left(of);
      if (!exec::TakeAll(left, errors)) {
        test_.transport->Stop("ranks compare different values");
      }
      for (size_t i = 0; i < errors.size(); ++i) {
        double& error = out_.values[i].error;
        error = std::max(error, errors[i]);
      }
    }
  }

  // Returns true if some value misses its tolerance, but no value misses it by
  // more than the factor. The error of one device may then explain these
  // misses. Returns false if the case has no program for one device.
  bool MissesBy(double factor) const {
    if (test_.alone == nullptr) return false;
    double most = 0;
    for (const Judged& of : judged_) {
      const ValueId out = graph_.ops[AsIndex(of.op)].out;
      const double error = out_.values[AsIndex(out)].error;
      const double allowed = Allowed(out);
      if (error > allowed) most = std::max(most, error / allowed);
    }
    return most > 1 && most <= factor;
  }

  // Checks the values in the order of the ops, so that the first failure names
  // the op that causes it.
  void Judge() {
    for (const Judged& of : judged_) {
      if (of.replicas_differ) {
        Fail(StepCheck::kReplicas, of.op,
             "devices that hold the same part differ");
      }
      JudgeOne(of.op, graph_.ops[AsIndex(of.op)].out);
    }
  }

  void JudgeOne(int32_t index, ValueId out) {
    ValueError& error = out_.values[AsIndex(out)];
    error.allowed = Allowed(out);
    if (error.error <= error.allowed) return;
    const bool result = out == graph_.loss || out == graph_.logits ||
                        IsIn(graph_.gradients, out) ||
                        IsIn(graph_.updated, out);
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(),
                  "has an error of %.1e, allowed %.1e", error.error,
                  error.allowed);
    Fail(result ? StepCheck::kResults : StepCheck::kConstraints, index,
         text.data());
  }

  static bool IsIn(const std::vector<ValueId>& values, ValueId value) {
    return IsAmong(value, values);
  }

  void CheckLedger(const exec::Machine& machine) {
    out_.ledger = exec::SumOverRanks(test_.transport, machine.ledger());
    const std::vector<exec::LedgerEntry>& entries = out_.ledger.entries();
    size_t next = 0;
    for (const step::Instruction& step : program_.code) {
      if (step.kind != step::InstructionKind::kCollective) continue;
      const bool there = next < entries.size() &&
                         entries[next].kind == step.collective &&
                         entries[next].axes == program_.axes.Group(step.axes);
      if (!there) {
        Fail(StepCheck::kLedger, step.op,
             "the run lacks a collective of the program");
        return;
      }
      if (entries[next].sent != exec::PredictedSent(mesh_, graph_, program_,
                                                    step, test_.sizes,
                                                    test_.dtype)) {
        Fail(StepCheck::kLedger, step.op,
             "the bytes sent are not those of the formula");
      }
      ++next;
    }
    if (next != entries.size()) {
      Fail(StepCheck::kLedger, -1,
           "the run has more collectives than the program");
    }
    if (test_.transport == nullptr) return;
    const std::string differs = MovedDiffers(mesh_, out_.ledger);
    if (!differs.empty()) Fail(StepCheck::kLedger, -1, differs);
  }

  void Count() {
    const auto count = [&](const std::vector<ValueId>& values) {
      return std::count_if(values.begin(), values.end(),
                           [&](ValueId value) { return value >= 0; });
    };
    out_.gradients = count(graph_.gradients);
    out_.updates = count(graph_.updated);
    out_.caches = static_cast<int64_t>(graph_.caches.size());
  }

  const StepCase& test_;
  const Graph& graph_;
  const Program& program_;
  const Program& run_program_;
  exec::SimMesh mesh_;
  const StepData own_;
  const StepData& data_;
  StepProof out_;
  // Indexed by ValueId. `scale_` has the number by which the errors of a value
  // are divided. `alone_` has the largest relative error, in the run on one
  // device, of the value and of all values before it.
  std::vector<double> scale_, alone_;
  struct Judged {
    int32_t op = -1;
    bool replicas_differ = false;
  };
  std::vector<Judged> judged_;
};

}  // namespace

std::string_view StepCheckName(StepCheck check) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "form", "static", "anchors", "replicas", "results", "ledger", "stages"};
  return kNames[static_cast<size_t>(check)];
}

bool StepProof::Failed(StepCheck check) const {
  return std::any_of(
      problems.begin(), problems.end(),
      [&](const StepProblem& problem) { return problem.check == check; });
}

StepData MakeReference(const Graph& graph, const step::Sizes& sizes,
                       Dtype dtype, uint64_t seed) {
  StepData out = MakeStepData(graph, sizes, dtype, seed);
  dense::RunStep(graph, sizes, step::Phase::kOptimizer, out.values);
  return out;
}

bool FreesSlots(const StepCase& test) {
  return test.run == nullptr && !test.watch && !test.compared &&
         test.transport == nullptr && !test.execute;
}

StepProof ProveStep(const StepCase& test) { return Prover(test).Run(); }

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
