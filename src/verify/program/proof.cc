// Runs a traced program twice on the same random inputs and compares the runs
// op by op, so that the first value that differs names the op that is wrong:
//
//   dense    h = relu(x w)  ...                      one device, plain loops
//   sharded  h = all_reduce(relu(x w)) at ffn.py:12  differs: sum after relu
//
// Both runs compute in float64. Their sums have other orders, so that values
// may differ by their rounding, which is far below what a wrong sharding does.
// The numbers of inputs follow from the seed alone, so that another program can
// draw the same ones.
#include "verify/program/proof.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "dense/program/run.h"
#include "exec/machine/collectives.h"
#include "exec/machine/random.h"
#include "exec/machine/sharded.h"
#include "exec/program/run.h"
#include "program/fold.h"
#include "program/read.h"
#include "program/reduce.h"
#include "program/sharding.h"
#include "program/ties.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"
#include "verify/judge/explain.h"
#include "verify/program/stand_ins.h"

namespace shardc::verify {
namespace {

using program::Attr;
using program::Body;
using program::InputKind;
using program::Op;
using program::OpKind;
using program::Program;
using program::ValueId;

// Some seconds of both runs.
constexpr double kMostWork = 2e9;
// About a tenth of a second: sizes need not be reduced.
constexpr double kLittleWork = 1e8;
// The elements of all values: 256 MiB.
constexpr double kMostElements = 1 << 25;

// ---- inputs

// For each value how many different integers it may have, because it selects an
// element of a dimension; 0 if nothing shows it.
class IntegerBounds {
 public:
  explicit IntegerBounds(const Program& program)
      : program_(program),
        bounds_(program.values.size(), 0),
        counts_(program.values.size(), 0) {
    Count(program.ops);
    Walk(program.ops);
  }
  int64_t Of(ValueId value) const { return bounds_[value]; }
  const std::vector<int64_t>& OfAll() const { return bounds_; }

 private:
  // Finds values whose elements count a dimension, as an iota's do.
  void Count(const std::vector<Op>& ops) {
    for (const Op& op : ops) {
      if (op.kind == OpKind::kIota) {
        counts_[op.out[0]] =
            program_.ShapeOf(op.out[0])[AsIndex(op.NumberOf(Attr::kDim))];
      } else if (op.in.size() == 1 &&
                 (op.kind == OpKind::kBroadcast ||
                  op.kind == OpKind::kReshape || op.word == "convert")) {
        counts_[op.out[0]] = counts_[op.in[0]];
      }
      for (const Body& body : op.bodies) Count(body.ops);
    }
  }

  void Lower(ValueId value, int64_t bound) {
    if (bound < 1) return;
    int64_t& own = bounds_[value];
    own = own == 0 ? bound : std::min(own, bound);
  }

  void Walk(const std::vector<Op>& ops) {
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) Visit(*op);
  }

  void Visit(const Op& op) {
    for (const Body& body : op.bodies) {
      Walk(body.ops);
      // The last inputs of a body are the last operands of its op.
      for (size_t i = 0; i < std::min(body.in.size(), op.in.size()); ++i) {
        Lower(op.in[op.in.size() - 1 - i],
              bounds_[body.in[body.in.size() - 1 - i]]);
      }
    }
    switch (op.kind) {
      case OpKind::kGather:
      case OpKind::kScatter: {
        const bool gathers = op.kind == OpKind::kGather;
        const auto sizes = op.Of(Attr::kSliceSizes);
        for (const int64_t d :
             op.Of(gathers ? Attr::kStartIndexMap : Attr::kOperandDims)) {
          const int64_t size = program_.ShapeOf(op.in[0])[AsIndex(d)];
          Lower(op.in[1], gathers ? size - sizes[AsIndex(d)] + 1 : size);
        }
        return;
      }
      case OpKind::kDynamicSlice:
      case OpKind::kDynamicUpdateSlice: {
        const bool update = op.kind == OpKind::kDynamicUpdateSlice;
        const Shape& part = program_.ShapeOf(update ? op.in[1] : op.out[0]);
        for (size_t d = 0; d < part.size(); ++d) {
          Lower(op.in[d + (update ? 2 : 1)],
                program_.ShapeOf(op.in[0])[d] - part[d] + 1);
        }
        return;
      }
      case OpKind::kMap:
        if ((op.word == "eq" || op.word == "ne") && op.in.size() == 2) {
          Lower(op.in[0], counts_[op.in[1]]);
          Lower(op.in[1], counts_[op.in[0]]);
          return;
        }
        if (!IsAmong(op.word, kKeeps)) return;
        break;
      case OpKind::kBroadcast:
      case OpKind::kReshape:
      case OpKind::kTranspose:
      case OpKind::kSlice:
      case OpKind::kConcat:
      case OpKind::kRev:
      case OpKind::kConstraint:
        break;
      default:
        return;
    }
    for (const ValueId id : op.in) Lower(id, bounds_[op.out[0]]);
  }

  static constexpr std::string_view kKeeps[] = {
      "convert", "select", "clamp", "add", "sub", "max", "min"};
  const Program& program_;
  std::vector<int64_t> bounds_, counts_;
};

// Returns how many different integers are drawn for an input of data, and 0 for
// all other inputs.
int64_t DrawnBelow(const Program& program, const program::Input& input,
                   const IntegerBounds& bounds) {
  constexpr int64_t kUnbounded = 4;
  const auto dtype = program.values[input.value].dtype;
  if (input.kind != InputKind::kData || !dtype ||
      program::IntegerBits(*dtype) == 0) {
    return 0;
  }
  const int64_t bound = bounds.Of(input.value);
  return bound > 0 ? bound : kUnbounded;
}

// Returns random numbers for an input. A state, such as a moment of an
// optimizer or a count of steps, is positive.
std::vector<double> DrawInput(const Program& program, size_t index,
                              const IntegerBounds& bounds,
                              const exec::Random& random) {
  const program::Input& input = program.inputs[index];
  const program::Value& value = program.values[input.value];
  const exec::Random own = random.Split(index);
  const bool state = input.kind == InputKind::kState;
  const int bits = value.dtype ? program::IntegerBits(*value.dtype) : 0;
  std::vector<double> out(AsIndex(exec::ElementsOf(value.shape)));
  for (size_t i = 0; i < out.size(); ++i) {
    const double u = own.Uniform(i);
    if (!value.dtype) {
      out[i] = 0;  // a key of random numbers
    } else if (value.dtype == Dtype::kBool) {
      out[i] = u < 0.5 ? 1 : 0;
    } else if (bits != 0 && state) {
      out[i] = 3;
    } else if (bits != 0 && input.kind == InputKind::kParam) {
      out[i] = std::floor(u * 254) - (bits > 0 ? 127 : 0);
    } else if (bits != 0) {
      out[i] = std::floor(
          u * static_cast<double>(DrawnBelow(program, input, bounds)));
    } else {
      out[i] = state ? 0.01 + 0.19 * u : 1.4 * u - 0.7;
    }
  }
  return out;
}

// ---- the comparison

struct Compared {
  double difference = 0;
  double largest = 0;
  bool finite = true;
  double rounding = 0;  // what rounding of the dense run may add

  double Allowed() const { return AllowedFor(largest) + rounding; }
  bool Passes() const { return difference <= Allowed(); }
};

// How much the inputs of a run that measures rounding differ, and how many
// times the change of a value is allowed. The change counts as rounding only up
// to this part of the largest number of the run: where a choice such as that of
// the largest of equal numbers changes, the value is another one.
constexpr double kInputRounding = 0x1p-50;
constexpr double kTimesRounding = 64;
constexpr double kMostRounding = 1e-10;

Compared CompareArrays(const std::vector<double>& got,
                       const std::vector<double>& want) {
  Compared out;
  for (size_t i = 0; i < want.size(); ++i) {
    const double a = got[i];
    const double b = want[i];
    if (std::isfinite(b)) out.largest = std::max(out.largest, std::fabs(b));
    if (std::isnan(b)) out.finite = false;
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double off = std::fabs(a - b);
    out.difference = std::isfinite(off)
                         ? std::max(out.difference, off)
                         : std::numeric_limits<double>::infinity();
  }
  return out;
}

// Proves a program at its own sizes.
class Prover {
 public:
  // `traced` is the same program at the sizes whose traffic is reported.
  // `sharding` is that of the program. `times` is how many ops of the user's
  // program each op stands for; one each if it is empty.
  Prover(const ProgramRequest& request, const Program& traced,
         program::Sharding sharding, std::vector<int64_t> times)
      : request_(request),
        program_(*request.program),
        traced_(traced),
        mesh_(request.mesh),
        random_(request.seed),
        bounds_(program_),
        drawn_(program_, bounds_.OfAll(), random_),
        dense_(
            program_, [this](size_t i) { return InputOf(i); }, Drawn()),
        sharding_(std::move(sharding)),
        times_(std::move(times)) {}

  ProgramProof Run() {
    out_.ops = out_.ops_run = std::ssize(program_.ops);
    for (const int64_t times : times_) out_.ops += times - 1;
    for (const program::Input& input : program_.inputs) {
      out_.bounds.push_back(DrawnBelow(program_, input, bounds_));
    }
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      NoteOps({&program_.ops[i], 1}, false, TimesOf(i));
    }
    exec::ProgramInputs inputs;
    inputs.program = &program_;
    inputs.sharding = &sharding_;
    inputs.input = [this](size_t i) {
      dense::Array drawn = InputOf(i);
      exec::Buffer out;
      out.shape = std::move(drawn.shape);
      out.dtype = Dtype::kF64;
      out.wide = std::move(drawn.data);
      return out;
    };
    inputs.drawn = Drawn();
    if (&traced_ != &program_) inputs.traced = &traced_;
    inputs.times = times_;
    exec::Machine machine(mesh_, request_.threads, request_.seams);
    Report(0, "");
    // Both runs go op by op together, so that values are freed that no later op
    // reads.
    size_t done = 0;
    const exec::ProgramRun run = exec::RunProgram(
        machine, inputs, [&](const Op& op, const exec::ProgramValues& values) {
          dense_.Run(op);
          if (dense_.run().fault) return false;
          CheckOp(op, values, {}, TimesOf(done));
          dense_.Free(op);
          Report(++done, program_.LineText(op.at));
          return true;
        });
    // An op that no device can run is reported by the dense run.
    if (run.error) dense_.Run(program_.ops[done]);
    if (const auto& fault = dense_.run().fault) {
      Fail(*fault->op, fault->message + " (in the dense run)");
      const auto reference = ReferenceRun(Kept::kAll);
      if (reference && !reference->fault) Locate(*reference, std::nullopt);
      return std::move(out_);
    }
    Report(program_.ops.size(), "");
    if (run.error) Fail(*run.error->op, run.error->message);
    AddTraffic(run);
    dense_.LoadResults();
    if (!run.error) CheckResults(run);
    CheckReference();
    return std::move(out_);
  }

 private:
  using Kept = dense::ProgramSteps::Kept;

  dense::Array InputOf(size_t i) const {
    return {program_.ShapeOf(program_.inputs[i].value),
            DrawInput(program_, i, bounds_, random_)};
  }
  dense::Drawn Drawn() const {
    return [this](ValueId id) { return drawn_.Of(id); };
  }
  const dense::ProgramValue& DenseOf(ValueId id) const {
    return dense_.run().values[id];
  }
  // Returns a dense run that has all values.
  dense::ProgramRun WholeRun() const {
    return dense::ProgramSteps(
               program_, [this](size_t i) { return InputOf(i); }, Drawn())
        .RunAll(Kept::kAll);
  }

  int64_t TimesOf(size_t op) const { return times_.empty() ? 1 : times_[op]; }

  void Report(size_t done, const std::string& within) const {
    if (!request_.progress || program_.ops.empty()) return;
    request_.progress(done, program_.ops.size(), within);
  }

  void Fail(const Op& op, std::string message) {
    if (out_.failure) return;
    out_.failure = {program_.LineText(op.at),
                    "`" + program::NameOf(op) + "`: " + std::move(message)};
  }

  // ---- what the verdict must say

  // `region` is whether a manual region has the ops.
  void NoteOps(std::span<const Op> ops, bool region, int64_t times) {
    for (const Op& op : ops) {
      if (op.kind == OpKind::kManual) out_.manual += times;
      if (const std::string name = StandInName(program_, traced_, op);
          !name.empty()) {
        AddStandIn(op, name, IsDrawn(program_, op), region, times);
      }
      const auto at = sharding_.ops.find(&op);
      if (at != sharding_.ops.end()) {
        for (const program::Gathered& one : at->second.gathered) {
          AddGather(op, one, times);
        }
      }
      for (const Body& body : op.bodies) {
        NoteOps(body.ops, region || op.kind == OpKind::kManual, times);
      }
    }
  }

  void AddStandIn(const Op& op, const std::string& what, bool drawn,
                  bool region, int64_t times) {
    const std::string line = program_.LineText(op.at);
    for (ProgramStandIn& one : out_.stand_ins) {
      if (one.line != line || one.what != what || one.drawn != drawn ||
          one.region != region) {
        continue;
      }
      one.count += times;
      return;
    }
    out_.stand_ins.push_back({line, what, drawn, region, times});
  }

  void AddGather(const Op& op, const program::Gathered& gathered,
                 int64_t times) {
    const ProgramGather made{program_.LineText(op.at),
                             program::NameOf(op),
                             gathered.operand,
                             gathered.dim,
                             gathered.axes,
                             gathered.needed,
                             times};
    for (ProgramGather& one : out_.gathers) {
      if (one.line != made.line || one.op != made.op ||
          one.operand != made.operand || one.dim != made.dim ||
          one.axes != made.axes || one.needed != made.needed) {
        continue;
      }
      one.count += times;
      return;
    }
    out_.gathers.push_back(made);
  }

  void AddTraffic(const exec::ProgramRun& run) {
    std::map<std::tuple<std::string, program::Phase, std::string, Collective,
                        AxisGroup>,
             size_t>
        rows;
    for (const exec::ProgramTraffic& one : run.traffic) {
      ProgramRow row{program_.LineText(one.op->at),
                     one.op->phase,
                     program::NameOf(*one.op),
                     one.kind,
                     one.axes,
                     one.count,
                     one.bytes};
      const auto [at, fresh] = rows.try_emplace(
          {row.line, row.phase, row.op, row.kind, row.axes}, out_.rows.size());
      if (fresh) {
        out_.rows.push_back(std::move(row));
      } else {
        out_.rows[at->second].count += one.count;
        out_.rows[at->second].bytes += one.bytes;
      }
    }
  }

  // ---- comparisons

  // Compares the results of an op. Looks into its bodies for the op that is
  // wrong. `manual` has the axes of the region that the op is in, and `times`
  // how many ops it stands for.
  void CheckOp(const Op& op, const exec::ProgramValues& values,
               const AxisGroup& manual, int64_t times) {
    if (out_.failure) return;
    std::string wrong;
    for (const ValueId id : op.out) {
      out_.values += times;
      if (wrong.empty()) wrong = Wrong(id, values[id], manual);
    }
    if (wrong.empty()) return;
    AxisGroup inner = manual;
    if (op.region) {
      for (const auto& [name, size] : op.region->mesh) {
        if (op.region->IsManual(name)) inner.push_back(name);
      }
    }
    for (const Body& body : op.bodies) {
      for (const Op& one : body.ops) {
        const bool ran = std::ranges::all_of(one.out, [&](ValueId id) {
          return !values[id].local.empty() && !DenseOf(id).empty();
        });
        if (ran) CheckOp(one, values, inner, times);
      }
    }
    Fail(op, wrong);
  }

  // Returns how a value differs from the dense one; empty if it does not.
  std::string Wrong(ValueId id, const exec::ShardedTensor& value,
                    const AxisGroup& manual) {
    const dense::ProgramValue& want = DenseOf(id);
    if (!manual.empty()) {
      for (size_t device = 0; device < value.local.size(); ++device) {
        const auto index =
            AsIndex(mesh_.Index(static_cast<int>(device), manual));
        const Compared one = Judged(
            CompareArrays(value.local[device].wide, want[index].data), id);
        if (!one.Passes()) {
          return Text(one) + " on " +
                 mesh_.DeviceText(static_cast<int>(device));
        }
      }
      return "";
    }
    exec::LayoutError why;
    const auto partial = sharding_.partial.find(id);
    const auto got =
        partial == sharding_.partial.end()
            ? exec::Gather(mesh_, value, why)
            : exec::Gather(mesh_, Added(value, partial->second), why);
    if (!got) return why.message;
    const Compared one = Judged(CompareArrays(got->wide, want[0].data), id);
    return one.Passes() ? "" : Text(one);
  }

  // Adds what rounding changes in a value that differs. Where large numbers
  // cancel, as in the gradient of a softmax that is nearly 1, the result is all
  // rounding, and another order of sums gives another one.
  Compared Judged(Compared one, ValueId id) {
    if (one.Passes() || !std::isfinite(one.difference)) return one;
    const dense::ProgramRun& other = Rounded();
    if (other.fault) return one;
    const dense::ProgramValue& want = DenseOf(id);
    const dense::ProgramValue& got = other.values[id];
    double change = 0;
    for (size_t d = 0; d < std::min(got.size(), want.size()); ++d) {
      change =
          std::max(change, CompareArrays(got[d].data, want[d].data).difference);
    }
    one.rounding = std::min(kTimesRounding * change, kMostRounding * *largest_);
    return one;
  }

  // Returns the dense run on inputs that differ in their last bits.
  const dense::ProgramRun& Rounded() {
    if (rounded_) return *rounded_;
    const exec::Random draws = random_.Split("rounding");
    const auto input = [&](size_t i) {
      dense::Array out = InputOf(i);
      const auto dtype = program_.values[program_.inputs[i].value].dtype;
      if (!dtype || program::IntegerBits(*dtype) != 0 ||
          *dtype == Dtype::kBool) {
        return out;
      }
      const exec::Random own = draws.Split(i);
      for (size_t k = 0; k < out.data.size(); ++k) {
        out.data[k] *=
            1 + (own.Uniform(k) < 0.5 ? -kInputRounding : kInputRounding);
      }
      return out;
    };
    rounded_ = dense::ProgramSteps(program_, input, Drawn()).RunAll(Kept::kAll);
    largest_ = 0;
    for (const dense::ProgramValue& value : rounded_->values) {
      for (const dense::Array& array : value) {
        largest_ =
            std::max(*largest_, CompareArrays(array.data, array.data).largest);
      }
    }
    return *rounded_;
  }

  // Returns the sum of a partial value over the axes.
  exec::ShardedTensor Added(exec::ShardedTensor value,
                            const AxisGroup& axes) const {
    exec::Machine machine(mesh_, 1, {});
    value.local = exec::AllReduce(machine, axes, value.local,
                                  exec::Reduce::kSum, "partial value");
    return value;
  }

  static std::string Text(const Compared& one) {
    return "its result differs by " + ErrorText(one.difference) +
           " from the dense one, where " + ErrorText(one.Allowed()) +
           " is allowed";
  }

  void CheckResults(const exec::ProgramRun& run) {
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const ValueId id = program_.outputs[i];
      const std::vector<double>& want = DenseOf(id)[0].data;
      ProgramResult& result = out_.results.emplace_back();
      result.shape = program_.ShapeOf(id);
      for (const double x : want) {
        result.sum += x;
        result.squares += x * x;
      }
      exec::LayoutError why;
      const auto got = exec::Gather(mesh_, run.values[id], why);
      const std::string name = "result " + std::to_string(i);
      if (!got) {
        if (!out_.failure) out_.failure = {"", name + ": " + why.message};
        continue;
      }
      const Compared one = Judged(CompareArrays(got->wide, want), id);
      result.difference = one.difference;
      result.allowed = one.Allowed();
      result.largest = one.largest;
      if (out_.failure) continue;
      if (!one.Passes()) out_.failure = {"", name + ": " + Text(one)};
      if (!one.finite && !out_.failure) CannotJudge(name);
    }
  }

  // Notes that a result is not a number in either run, so that it proves
  // nothing, and why.
  void CannotJudge(const std::string& name) {
    const Op* const first = FirstNan();
    out_.unproved = true;
    out_.failure = {first == nullptr ? "" : program_.LineText(first->at),
                    name + " is not a number in the dense run as well"};
    std::string& message = out_.failure->message;
    const std::string made =
        first == nullptr
            ? ""
            : StandInsText(StandInsBefore(program_, traced_, *first), {});
    if (made.empty()) {
      message +=
          "; choose another seed, or guard the function against these inputs";
      return;
    }
    message += ", since it is computed from the numbers of " + made;
  }

  // Returns stand-ins of the program, and of the reference, as a part of a
  // sentence; empty if there is none.
  std::string StandInsText(const std::vector<StandIn>& own,
                           const std::vector<StandIn>& others) const {
    std::vector<std::string> names;
    const auto add = [&](const Program& program, const Program& traced,
                         const StandIn& one, const std::string& of) {
      const std::string line = program.LineText(one.op->at);
      names.push_back("`" + StandInName(program, traced, *one.op) + "`" + of +
                      (line.empty() ? "" : " at " + line));
    };
    for (const StandIn& one : own) add(program_, traced_, one, "");
    for (const StandIn& one : others) {
      const Program& other = *request_.reference;
      add(other, other, one, " of the reference");
    }
    if (names.empty()) return "";
    return Join(names, " and ") + (names.size() == 1 ? ", which is a stand-in"
                                                     : ", which are stand-ins");
  }

  // Returns the first op whose dense result has a NaN.
  const Op* FirstNan() const {
    const dense::ProgramRun whole = WholeRun();
    for (const Op& op : program_.ops) {
      for (const ValueId id : op.out) {
        if (std::ranges::any_of(whole.values[id][0].data,
                                [](double x) { return std::isnan(x); })) {
          return &op;
        }
      }
    }
    return nullptr;
  }

  // Runs the reference, if there is one, on the inputs of the same names.
  std::optional<dense::ProgramRun> ReferenceRun(Kept kept) {
    if (request_.reference == nullptr) return std::nullopt;
    const Program& other = *request_.reference;
    std::vector<size_t> from;  // the program's inputs
    for (const program::Input& input : other.inputs) {
      size_t at = 0;
      while (at < program_.inputs.size() &&
             (program_.inputs[at].kind != input.kind ||
              program_.inputs[at].name != input.name ||
              program_.ShapeOf(program_.inputs[at].value) !=
                  other.ShapeOf(input.value))) {
        ++at;
      }
      if (at == program_.inputs.size()) {
        if (out_.failure) return std::nullopt;
        out_.failure = {"", "the program has no input " +
                                ShortQuote(input.name) + " of shape " +
                                ShapeText(other.ShapeOf(input.value)) +
                                ", which the reference has"};
        return std::nullopt;
      }
      from.push_back(at);
    }
    const DrawnValues drawn(other, IntegerBounds(other).OfAll(), random_);
    return dense::ProgramSteps(
               other, [&](size_t i) { return InputOf(from[i]); },
               [&](ValueId id) { return drawn.Of(id); })
        .RunAll(kept);
  }

  void CheckReference() {
    if (out_.failure) return;
    const auto run = ReferenceRun(Kept::kResults);
    if (!run) return;
    const Program& other = *request_.reference;
    if (run->fault) {
      out_.failure = {other.LineText(run->fault->op->at),
                      "the reference: " + run->fault->message};
      return;
    }
    if (other.outputs.size() != program_.outputs.size()) {
      out_.failure = {
          "",
          "the reference has " +
              Counted(static_cast<int64_t>(other.outputs.size()), "result") +
              ", not " + std::to_string(program_.outputs.size())};
      return;
    }
    for (size_t i = 0; i < other.outputs.size(); ++i) {
      const dense::Array& got = DenseOf(program_.outputs[i])[0];
      const dense::Array& want = run->values[other.outputs[i]][0];
      const std::string name = "result " + std::to_string(i);
      if (got.shape != want.shape) {
        out_.failure = {"", name + " of the reference has another shape"};
        return;
      }
      const Compared one =
          Judged(CompareArrays(got.data, want.data), program_.outputs[i]);
      if (one.Passes()) continue;
      out_.failure = {"", name + " differs by " + ErrorText(one.difference) +
                              " from that of the reference, where " +
                              ErrorText(one.Allowed()) + " is allowed"};
      const std::string made = UnlikeStandIns(i);
      if (made.empty()) {
        Locate(*ReferenceRun(Kept::kAll), program_.outputs[i]);
        return;
      }
      out_.unproved = true;
      out_.failure->message +=
          ", which shows nothing, since it is computed from the numbers of " +
          made;
      return;
    }
  }

  // Returns the stand-ins of a result that may have other numbers in the
  // program than in the reference: those that are drawn, and those that run on
  // shards. Empty if there is none.
  std::string UnlikeStandIns(size_t result) const {
    const auto found = [&](const Program& program, const Program& traced) {
      std::vector<StandIn> out;
      for (const Op& op : program.ops) {
        if (std::ranges::find(op.out, program.outputs[result]) !=
            op.out.end()) {
          out = StandInsBefore(program, traced, op);
        }
      }
      std::erase_if(out, [&](const StandIn& one) {
        return !one.region && !IsDrawn(program, *one.op);
      });
      return out;
    };
    const Program& other = *request_.reference;
    return StandInsText(found(program_, traced_), found(other, other));
  }

  // Adds to the failure the line of the first op whose result the reference
  // lacks.
  void Locate(const dense::ProgramRun& reference,
              std::optional<ValueId> wrong) {
    const Op* const op = FirstStrange(program_, WholeRun(), reference, wrong);
    if (op == nullptr || program_.LineText(op->at).empty()) return;
    out_.failure->line = program_.LineText(op->at);
    out_.failure->message +=
        "; the first value that the reference lacks is a "
        "result of `" +
        program::NameOf(*op) + "` there";
  }

  const ProgramRequest& request_;
  const Program& program_;
  const Program& traced_;
  const exec::SimMesh mesh_;
  const exec::Random random_;
  const IntegerBounds bounds_;
  const DrawnValues drawn_;
  dense::ProgramSteps dense_;
  // The dense run that measures rounding, and its largest number.
  std::optional<dense::ProgramRun> rounded_;
  std::optional<double> largest_;
  program::Sharding sharding_;
  const std::vector<int64_t> times_;
  ProgramProof out_;
};

// ---- sizes

// The elements of all values of a program.
double ElementsOf(const Program& program) {
  double out = 0;
  for (const program::Value& value : program.values) {
    out += static_cast<double>(exec::ElementsOf(value.shape));
  }
  return out;
}

// Chooses the sizes of a proof, and proves the program at these.
class SizedProof {
 public:
  SizedProof(const ProgramRequest& request, Findings& findings)
      : request_(request), program_(*request.program), findings_(findings) {}

  std::optional<ProgramProof> Run() {
    for (const Program* const one : Programs()) {
      if (const auto fault = program::RunFault(*one)) {
        return Refuse(*one, code::kSchema, *fault,
                      "trace it again with `python -m shardc.program`");
      }
    }
    if (const auto mismatch = RegionFault(program_, request_.mesh)) {
      return Refuse(program_, code::kUsage, *mismatch,
                    "choose the mesh for which the function was traced, or "
                    "trace it again");
    }
    sharding_ = program::ShardProgram(program_, request_.mesh, request_.specs);
    const std::string large = LargeText();
    if (request_.sizes == ProofSizes::kTraced) {
      if (!large.empty()) {
        return Refuse(program_, code::kLimit, "at the traced sizes " + large,
                      "leave out `--full`, so that smaller sizes are chosen");
      }
      return AsTraced();
    }
    const bool small = large.empty() && Work() <= kLittleWork;
    if (request_.sizes == ProofSizes::kChosen && small) return AsTraced();
    const auto made = Reduce(nullptr);
    const Program& run = made ? made->program : program_;
    const auto folded = Fold(run, made ? made->sharding : sharding_);
    if ((!made && (large.empty() || !folded)) ||
        ExceedsLimits(folded ? folded->program : run)) {
      return TracedOr(large, large + KeptText(made));
    }
    if (request_.sizes == ProofSizes::kChosen && large.empty() &&
        2 * program::WorkOf(run) > program::WorkOf(program_)) {
      return AsTraced();
    }
    ProgramProof proof = folded ? Folded(*folded) : Reduced(*made);
    if (folded && made && proof.failure && !ExceedsLimits(run)) {
      // The numbers of a folded program are not those of the function.
      proof = Reduced(*made);
    }
    if (made) AddSizes(*made, proof);
    if (!proof.failure && request_.reference != nullptr) {
      // A number of one function may equal a reduced size of the other one by
      // chance. At other sizes it does not.
      const auto other = Reduce(&*made);
      if (!other || ExceedsLimits(other->program)) {
        return TracedOr(large, large + KeptText(other));
      }
      ProgramProof again = Reduced(*other);
      AddSizes(*other, again);
      if (again.failure) {
        proof = std::move(again);
      } else {
        NoteSecond(again, proof);
      }
    }
    // Constants of a function may be about its sizes, so that only the traced
    // sizes show whether a difference is one of the function.
    const bool again =
        request_.sizes == ProofSizes::kChosen && proof.failure && large.empty();
    return again ? AsTraced() : proof;
  }

 private:
  std::optional<program::ReducedProgram> Reduce(
      const program::ReducedProgram* unlike) const {
    return program::ReduceProgram(
        {.program = &program_,
         .reference = request_.reference,
         .mesh = &request_.mesh,
         .inputs = &request_.specs,
         .sharding = &sharding_,
         .keeps_counted = request_.reference != nullptr,
         .unlike = unlike});
  }

  // Runs the traced sizes, or refuses these if they are too large.
  std::optional<ProgramProof> TracedOr(const std::string& large,
                                       const std::string& why) {
    if (large.empty()) return AsTraced();
    return Refuse(program_, code::kLimit, why,
                  "trace the same function with a smaller batch, length and "
                  "config");
  }

  // Adds the sizes of a second proof to those of the first one.
  static void NoteSecond(const ProgramProof& again, ProgramProof& proof) {
    for (ProofSize& one : proof.sizes) {
      const auto same =
          std::ranges::find_if(again.sizes, [&](const ProofSize& other) {
            return other.where == one.where && other.traced == one.traced;
          });
      one.again = same == again.sizes.end() ? one.traced : same->run;
    }
  }

  std::vector<const Program*> Programs() const {
    std::vector<const Program*> out = {&program_};
    if (request_.reference != nullptr) out.push_back(request_.reference);
    return out;
  }

  std::nullopt_t Refuse(const Program& program, const Code& code,
                        const std::string& why, std::string help) {
    findings_.Add(code, {},
                  "the program of " + ShortQuote(program.function) +
                      " cannot be run: " + why,
                  std::move(help));
    return std::nullopt;
  }

  double Work() const {
    double out = 0;
    for (const Program* const one : Programs()) out += program::WorkOf(*one);
    return out;
  }

  // The traced sizes may take as long as it takes and the free memory if the
  // user demands them.
  bool ExceedsLimits(const Program& one) const {
    if (request_.sizes == ProofSizes::kTraced && request_.memory_bytes > 0) {
      // Of all values, as if none were freed, the dense run has one copy, and
      // the sharded run a part on each device, of which replicas are stored
      // apart.
      constexpr double kBytes = 8 * 3;
      return ElementsOf(one) * kBytes >
             static_cast<double>(request_.memory_bytes);
    }
    return ElementsOf(one) > kMostElements || program::WorkOf(one) > kMostWork;
  }

  // Returns why a run of the traced sizes would be too large; empty if it is
  // not.
  std::string LargeText() const {
    for (const Program* const one : Programs()) {
      if (!ExceedsLimits(*one)) continue;
      if (request_.sizes == ProofSizes::kTraced && request_.memory_bytes > 0) {
        return "its values need more memory than is free";
      }
      return ElementsOf(*one) > kMostElements
                 ? "its values have more than 33,554,432 elements"
                 : "it has more than 2,000,000,000 multiplications";
    }
    return "";
  }

  // Returns which large sizes could not be reduced.
  std::string KeptText(
      const std::optional<program::ReducedProgram>& made) const {
    if (!made) return ", and no smaller sizes have the same ops";
    const program::ReducedSize* most = nullptr;
    for (const program::ReducedSize& one : made->sizes) {
      if (one.kept_by.empty()) continue;
      if (most == nullptr || one.traced > most->traced) most = &one;
    }
    if (most == nullptr) return ", and at reduced sizes as well";
    const std::string line = program_.LineText(most->at);
    return ", and the size " + std::to_string(most->traced) +
           " cannot be reduced, which `" + most->kept_by + "` needs" +
           (line.empty() ? "" : " at " + line);
  }

  // Folds the ops of the program at the sizes of a run. With a reference all
  // ops run: that the results of two programs are equal follows from how their
  // ops are connected.
  std::optional<program::FoldedProgram> Fold(
      const Program& program, const program::Sharding& sharding) const {
    if (request_.reference != nullptr || !request_.folds) return std::nullopt;
    return program::FoldRepeated(
        {.program = &program, .traced = &program_, .sharding = &sharding});
  }

  ProgramProof AsTraced() {
    return Prover(request_, program_, sharding_, {}).Run();
  }

  ProgramProof Reduced(const program::ReducedProgram& made) {
    ProgramRequest request = request_;
    request.program = &made.program;
    if (made.reference) request.reference = &*made.reference;
    return Prover(request, program_, made.sharding, {}).Run();
  }

  ProgramProof Folded(const program::FoldedProgram& folded) {
    ProgramRequest request = request_;
    request.program = &folded.program;
    ProgramProof out =
        Prover(request, folded.traced, folded.sharding, folded.times).Run();
    out.ops_run = std::ssize(folded.program.ops);
    // An input that no op reads has no integers that were drawn.
    std::vector<int64_t> bounds;
    for (const auto& input : folded.inputs) {
      bounds.push_back(input ? out.bounds[*input] : 0);
    }
    out.bounds = std::move(bounds);
    if (out.results.empty()) return out;
    std::vector<ProgramResult> results;
    for (const size_t i : folded.results) results.push_back(out.results[i]);
    out.results = std::move(results);
    return out;
  }

  void AddSizes(const program::ReducedProgram& made, ProgramProof& out) const {
    out.reduced = true;
    for (const program::ReducedSize& one : made.sizes) {
      out.sizes.push_back({one.traced, one.run, 0,
                           one.input.empty() ? ""
                                             : one.input + " dimension " +
                                                   std::to_string(one.dim),
                           one.kept_by, program_.LineText(one.at)});
    }
  }

  const ProgramRequest& request_;
  const Program& program_;
  Findings& findings_;
  program::Sharding sharding_;
};

}  // namespace

std::optional<ProgramProof> ProveProgram(const ProgramRequest& request,
                                         Findings& findings) {
  return SizedProof(request, findings).Run();
}

std::optional<std::string> RegionFault(const Program& program,
                                       const Mesh& mesh) {
  const auto mismatch = exec::RegionMismatch(program, exec::SimMesh(mesh));
  if (!mismatch) return std::nullopt;
  const std::string line = program.LineText(mismatch->op->at);
  return "at " + (line.empty() ? "an unknown line" : line) + " " +
         mismatch->message;
}

namespace {

// Shards states of no parameter, such as KV caches: a dimension gets the axes
// of the data's or of a parameter's dimension that begins with the same factor.
// The data axes of a parameter do not count, since its shards over them are
// gathered before use.
void ShardStates(const Program& program, const exec::SimMesh& sim,
                 const AxisGroup& batch, const std::vector<size_t>& states,
                 std::vector<Spec>& specs) {
  const program::Ties ties = program::TieDimensions(program);
  std::map<program::FactorId, AxisGroup> axes_of;
  for (const InputKind kind : {InputKind::kData, InputKind::kParam}) {
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      const program::Input& input = program.inputs[i];
      if (input.kind != kind) continue;
      for (size_t d = 0; d < specs[i].size(); ++d) {
        AxisGroup axes = specs[i][d];
        if (kind == InputKind::kParam) {
          std::erase_if(axes, [&](const std::string& axis) {
            return std::ranges::find(batch, axis) != batch.end();
          });
        }
        const auto factors = ties.table.Resolve(ties.dims[input.value][d]);
        if (!axes.empty() && !factors.empty()) {
          axes_of.try_emplace(factors[0], std::move(axes));
        }
      }
    }
  }
  for (const size_t i : states) {
    const ValueId value = program.inputs[i].value;
    for (size_t d = 0; d < specs[i].size(); ++d) {
      const auto factors = ties.table.Resolve(ties.dims[value][d]);
      const auto at =
          factors.empty() ? axes_of.end() : axes_of.find(factors[0]);
      if (at == axes_of.end()) continue;
      Spec with = specs[i];
      with[d] = at->second;
      if (!exec::CheckLayout(sim, program.ShapeOf(value), with)) {
        specs[i] = std::move(with);
      }
    }
  }
}

}  // namespace

std::vector<Spec> InputSpecs(const Program& program, const Mesh& mesh,
                             const std::vector<Spec>& specs,
                             const AxisGroup& batch,
                             std::vector<std::string>& notes) {
  const exec::SimMesh sim(mesh);
  std::vector<Spec> out;
  std::vector<size_t> states;  // those of no parameter
  size_t next = 0;
  for (const program::Input& input : program.inputs) {
    const Shape& shape = program.ShapeOf(input.value);
    Spec& spec = out.emplace_back(shape.size());
    if (input.kind == InputKind::kData) {
      int64_t parts = 1;
      for (const std::string& axis : batch) {
        const int64_t size = mesh.SizeOf(axis);
        if (shape.empty() || size < 2 || shape[0] % (parts * size) != 0) {
          continue;
        }
        spec[0].push_back(axis);
        parts *= size;
      }
      continue;
    }
    const auto param = input.kind == InputKind::kParam
                           ? std::optional(next++)
                           : program::ParamOfState(program, input);
    if (!param) {
      if (!shape.empty()) states.push_back(out.size() - 1);
      continue;
    }
    const Spec own = exec::PadSpec(specs[*param], shape.size());
    if (const auto why = exec::CheckLayout(sim, shape, own)) {
      notes.push_back(ShortQuote(input.name) + " is replicated, since " +
                      why->message);
      continue;
    }
    spec = own;
  }
  if (!states.empty()) ShardStates(program, sim, batch, states, out);
  return out;
}

}  // namespace shardc::verify
