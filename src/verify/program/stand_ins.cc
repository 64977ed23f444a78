// Finds the ops of a program for which something else runs, and draws the
// numbers that the program does not state. For example:
//
//   w = eigh(x)         `eigh`           a function of all elements runs
//   y = w * table       `constant [64]`  the trace left its elements out
//
// The result y is computed from both, so that neither its numbers nor a
// difference from other ones say anything about the function.
#include "verify/program/stand_ins.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>

#include "exec/machine/buffer.h"
#include "model/manifest.h"
#include "program/read.h"
#include "source/size.h"

namespace shardc::verify {
namespace {

using program::Body;
using program::Op;
using program::OpKind;
using program::Program;
using program::ValueId;

bool IsUnstated(const Program& program, const Op& op) {
  if (op.kind != OpKind::kConst) return false;
  const program::Value& value = program.values[op.out[0]];
  return value.integers.empty() && value.floats.empty() &&
         exec::ElementsOf(value.shape) > 0;
}

// Collects stand-ins, each name and line once.
class Found {
 public:
  Found(const Program& program, const Program& traced)
      : program_(program), traced_(traced) {}

  void Add(const Op& op, bool region) {
    const std::string name = StandInName(program_, traced_, op);
    if (!name.empty() && seen_.emplace(name, program_.LineText(op.at)).second) {
      out_.push_back({&op, region});
    }
    for (const Body& body : op.bodies) {
      for (const Op& one : body.ops) {
        Add(one, region || op.kind == OpKind::kManual);
      }
    }
  }
  std::vector<StandIn> Take() { return std::move(out_); }

 private:
  const Program& program_;
  const Program& traced_;
  std::set<std::pair<std::string, std::string>> seen_;
  std::vector<StandIn> out_;
};

}  // namespace

bool IsDrawn(const Program& program, const Op& op) {
  return op.kind == OpKind::kRandom || IsUnstated(program, op);
}

std::string StandInName(const Program& program, const Program& traced,
                        const Op& op) {
  if (IsUnstated(program, op)) {
    return "constant " + ShapeText(traced.ShapeOf(op.out[0]));
  }
  if (op.kind == OpKind::kRandom) return "random numbers";
  return program::IsOpaque(program, op) ? program::OpaqueName(op) : "";
}

std::vector<StandIn> StandInsBefore(const Program& program,
                                    const Program& traced, const Op& op) {
  std::vector<bool> read(program.values.size(), false);
  std::vector<const Op*> before;
  bool reached = false;
  for (size_t i = program.ops.size(); i-- > 0;) {
    const Op& one = program.ops[i];
    reached = reached || &one == &op;
    if (!reached) continue;
    const bool counts =
        &one == &op ||
        std::ranges::any_of(one.out, [&](ValueId id) { return read[id]; });
    if (!counts) continue;
    for (const ValueId id : one.in) read[id] = true;
    before.push_back(&one);
  }
  Found found(program, traced);
  for (auto one = before.rbegin(); one != before.rend(); ++one) {
    found.Add(**one, false);
  }
  return found.Take();
}

DrawnValues::DrawnValues(const Program& program, std::vector<int64_t> bounds,
                         const exec::Random& random)
    : program_(program),
      bounds_(std::move(bounds)),
      random_(random.Split("values")) {
  Counts counts;
  Number(program.ops, counts);
}

void DrawnValues::Number(const std::vector<Op>& ops, Counts& counts) {
  for (const Op& op : ops) {
    if (IsDrawn(program_, op)) {
      for (const ValueId id : op.out) {
        const program::Value& value = program_.values[id];
        numbers_.emplace(id, counts[{value.shape, value.dtype}]++);
      }
    }
    for (const Body& body : op.bodies) Number(body.ops, counts);
  }
}

std::vector<double> DrawnValues::Of(ValueId id) const {
  const program::Value& value = program_.values[id];
  const auto number = numbers_.find(id);
  const exec::Random own =
      random_.Split(number == numbers_.end() ? 0 : number->second);
  const int bits = value.dtype ? program::IntegerBits(*value.dtype) : 0;
  const int64_t bound = bounds_[id];
  const double range = bound > 0 ? static_cast<double>(bound)
                                 : std::exp2(std::min(std::abs(bits), 32));
  const double least = bits > 0 && bound == 0 ? -range / 2 : 0;
  std::vector<double> out(AsIndex(exec::ElementsOf(value.shape)));
  for (size_t i = 0; i < out.size(); ++i) {
    const double u = own.Uniform(i);
    out[i] = !value.dtype                  ? 0
             : value.dtype == Dtype::kBool ? (u < 0.5 ? 1 : 0)
             : bits != 0                   ? std::floor(u * range) + least
                                           : 1.4 * u - 0.7;
  }
  return out;
}

}  // namespace shardc::verify
