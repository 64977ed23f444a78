// The control flow of a program's reference run: bodies, loops, and manual
// regions with their collectives. Ops on arrays are in ops.cc.
//
// In a manual region over tp = 4 a value is a list of 4 arrays. An op computes
// each array from the arrays of the same device, and a collective such as psum
// computes the arrays of a group of devices from each other.
#include "dense/program/run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "source/size.h"

namespace shardc::dense {
namespace {

using program::Attr;
using program::Body;
using program::Op;
using program::OpKind;
using program::Program;
using program::ValueId;
using Numbers = std::vector<int64_t>;

// Copies of a device may differ by the rounding of sums in another order.
constexpr double kReplicaTolerance = 1e-9;

}  // namespace

class ProgramSteps::Runner {
 public:
  Runner(const Program& program, InputOf input, Drawn drawn)
      : program_(program), drawn_(std::move(drawn)), input_(std::move(input)) {
    out_.values.resize(program.values.size());
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      waiting_.emplace(program.inputs[i].value, i);
    }
    last_.resize(program.values.size(), nullptr);
    for (const Op& op : program.ops) {
      for (const ValueId id : op.in) last_[id] = &op;
      for (const ValueId id : op.out) last_[id] = &op;
    }
    for (const ValueId id : program.outputs) last_[id] = nullptr;
  }

  bool Run(const Op& op) {
    Load(op.in);
    return RunOp(op);
  }

  void Load(const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) {
      const auto at = waiting_.find(id);
      if (at == waiting_.end()) continue;
      At(id) = {input_(at->second)};
      waiting_.erase(at);
    }
  }

  void Free(const Op& op) {
    for (const auto* const ids : {&op.in, &op.out}) {
      for (const ValueId id : *ids) {
        if (last_[id] == &op) At(id) = {};
      }
    }
    FreeBodies(op);
  }

  const Program& program() const { return program_; }
  ProgramRun& out() { return out_; }

 private:
  struct Axis {
    std::string name;
    int64_t size = 1;
  };

  ProgramValue& At(ValueId id) { return out_.values[id]; }

  void FreeBodies(const Op& op) {
    for (const Body& body : op.bodies) {
      for (const ValueId id : body.in) At(id) = {};
      for (const Op& one : body.ops) {
        for (const ValueId id : one.out) At(id) = {};
        FreeBodies(one);
      }
    }
  }

  bool Fault(const Op& op, std::string message) {
    out_.fault = {&op, std::move(message)};
    return false;
  }

  bool RunOps(const std::vector<Op>& ops) {
    return std::ranges::all_of(ops, [&](const Op& op) { return RunOp(op); });
  }

  bool RunOp(const Op& op) {
    switch (op.kind) {
      case OpKind::kScan:
        return Scan(op);
      case OpKind::kWhile:
        return While(op);
      case OpKind::kCond:
        return Cond(op);
      case OpKind::kManual:
        return Manual(op);
      case OpKind::kCollective:
        Collective(op);
        return true;
      default:
        break;
    }
    std::vector<ProgramValue> results(op.out.size());
    for (int64_t device = 0; device < devices_; ++device) {
      std::vector<const Array*> in;
      for (const ValueId id : op.in) in.push_back(&At(id)[AsIndex(device)]);
      std::vector<Array> out;
      for (const ValueId id : op.out) {
        out.push_back(Array::Zeros(program_.ShapeOf(id)));
      }
      RunProgramOp(program_, op, in, drawn_, out);
      for (size_t i = 0; i < out.size(); ++i) {
        results[i].push_back(std::move(out[i]));
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      At(op.out[i]) = std::move(results[i]);
    }
    return true;
  }

  // ---- loops and branches

  bool Scan(const Op& op) {
    const Body& body = op.bodies[0];
    const size_t consts = AsIndex(op.NumberOf(Attr::kConsts));
    const size_t carry = AsIndex(op.NumberOf(Attr::kCarry));
    const int64_t length = op.NumberOf(Attr::kLength);
    const bool reverse = op.NumberOf(Attr::kReverse) != 0;
    for (size_t i = 0; i < consts + carry; ++i) At(body.in[i]) = At(op.in[i]);
    std::vector<ProgramValue> stacked;
    for (size_t i = carry; i < op.out.size(); ++i) {
      stacked.emplace_back(AsIndex(devices_),
                           Array::Zeros(program_.ShapeOf(op.out[i])));
    }
    for (int64_t turn = 0; turn < length; ++turn) {
      const int64_t at = reverse ? length - 1 - turn : turn;
      for (size_t i = consts + carry; i < op.in.size(); ++i) {
        ProgramValue& row = At(body.in[i]);
        row.clear();
        for (const Array& all : At(op.in[i])) {
          Array& one =
              row.emplace_back(Array::Zeros(program_.ShapeOf(body.in[i])));
          const auto begin =
              all.data.begin() + at * static_cast<int64_t>(one.data.size());
          std::copy(begin, begin + static_cast<int64_t>(one.data.size()),
                    one.data.begin());
        }
      }
      if (!RunOps(body.ops)) return false;
      for (size_t i = carry; i < op.out.size(); ++i) {
        for (size_t device = 0; device < AsIndex(devices_); ++device) {
          const std::vector<double>& from = At(body.out[i])[device].data;
          std::ranges::copy(from, stacked[i - carry][device].data.begin() +
                                      at * static_cast<int64_t>(from.size()));
        }
      }
      Carry(body.out, body.in, consts, carry);
    }
    for (size_t i = 0; i < op.out.size(); ++i) {
      At(op.out[i]) =
          i < carry ? At(body.in[consts + i]) : std::move(stacked[i - carry]);
    }
    return true;
  }

  // Copies `count` values to those from `first` on. A value may be in both
  // lists.
  void Carry(const std::vector<ValueId>& from, const std::vector<ValueId>& to,
             size_t first, size_t count) {
    std::vector<ProgramValue> next;
    for (size_t i = 0; i < count; ++i) next.push_back(At(from[i]));
    for (size_t i = 0; i < count; ++i) At(to[first + i]) = std::move(next[i]);
  }

  // Returns the value of a scalar, or nullopt if devices have different ones.
  std::optional<double> Agreed(ValueId id) {
    const ProgramValue& all = At(id);
    for (const Array& one : all) {
      if (one.data[0] != all[0].data[0]) return std::nullopt;
    }
    return all[0].data[0];
  }

  bool While(const Op& op) {
    constexpr int kMostTurns = 100000;
    const size_t first = AsIndex(op.NumberOf(Attr::kConditionConsts));
    const size_t second = AsIndex(op.NumberOf(Attr::kBodyConsts));
    const Body& condition = op.bodies[0];
    const Body& body = op.bodies[1];
    const size_t carry = op.out.size();
    for (size_t i = 0; i < first; ++i) At(condition.in[i]) = At(op.in[i]);
    for (size_t i = 0; i < second + carry; ++i) {
      At(body.in[i]) = At(op.in[first + i]);
    }
    for (int turn = 0; turn <= kMostTurns; ++turn) {
      for (size_t i = 0; i < carry; ++i) {
        At(condition.in[first + i]) = At(body.in[second + i]);
      }
      if (!RunOps(condition.ops)) return false;
      const auto holds = Agreed(condition.out[0]);
      if (!holds) return Fault(op, "devices disagree whether the loop goes on");
      if (*holds == 0) {
        for (size_t i = 0; i < carry; ++i) {
          At(op.out[i]) = At(body.in[second + i]);
        }
        return true;
      }
      if (!RunOps(body.ops)) return false;
      Carry(body.out, body.in, second, carry);
    }
    return Fault(op, "the loop does not end within " +
                         std::to_string(kMostTurns) + " turns");
  }

  // In a manual region devices may take different branches.
  bool Cond(const Op& op) {
    const ProgramValue which = At(op.in[0]);
    const auto last = static_cast<double>(op.bodies.size() - 1);
    std::vector<ProgramValue> results(op.out.size(),
                                      ProgramValue(which.size()));
    for (size_t branch = 0; branch < op.bodies.size(); ++branch) {
      std::vector<size_t> takers;
      for (size_t device = 0; device < which.size(); ++device) {
        if (std::clamp(which[device].data[0], 0.0, last) ==
            static_cast<double>(branch)) {
          takers.push_back(device);
        }
      }
      if (takers.empty()) continue;
      const Body& body = op.bodies[branch];
      for (size_t i = 0; i < body.in.size(); ++i) {
        At(body.in[i]) = At(op.in[i + 1]);
      }
      if (!RunOps(body.ops)) return false;
      for (size_t i = 0; i < op.out.size(); ++i) {
        for (const size_t device : takers) {
          results[i][device] = At(body.out[i])[device];
        }
      }
    }
    for (size_t i = 0; i < op.out.size(); ++i) {
      At(op.out[i]) = std::move(results[i]);
    }
    return true;
  }

  // ---- manual regions

  int64_t SizeOf(const std::string& name) const {
    for (const Axis& axis : axes_) {
      if (axis.name == name) return axis.size;
    }
    return 1;
  }
  int64_t Coordinate(int64_t device, const std::string& name) const {
    for (size_t i = axes_.size(); i > 0; --i) {
      if (axes_[i - 1].name == name) return device % axes_[i - 1].size;
      device /= axes_[i - 1].size;
    }
    return 0;
  }
  // The device's number among those that differ in these axes only.
  template <class Names>
  int64_t IndexAlong(int64_t device, const Names& names) const {
    int64_t out = 0;
    for (const std::string& name : names) {
      out = out * SizeOf(name) + Coordinate(device, name);
    }
    return out;
  }

  // Calls `visit(global, local)` with the offsets of each element that a device
  // has of a value.
  template <class Visit>
  void ForShard(const Numbers& global, const Numbers& local, const Spec& spec,
                int64_t device, const Visit& visit) const {
    Numbers start(global.size(), 0);
    for (size_t d = 0; d < spec.size(); ++d) {
      start[d] = IndexAlong(device, spec[d]) * local[d];
      // A dimension that an axis outside of the region shards.
      if (local[d] == global[d]) start[d] = 0;
    }
    int64_t count = 1;
    for (const int64_t size : local) count *= size;
    for (int64_t at = 0; at < count; ++at) {
      int64_t rest = at;
      int64_t offset = 0;
      int64_t stride = 1;
      for (size_t d = global.size(); d > 0; --d) {
        offset += (start[d - 1] + rest % local[d - 1]) * stride;
        rest /= local[d - 1];
        stride *= global[d - 1];
      }
      visit(AsIndex(offset), AsIndex(at));
    }
  }

  bool Manual(const Op& op) {
    const program::Region& region = *op.region;
    axes_.clear();
    devices_ = 1;
    for (const auto& [name, size] : region.mesh) {
      if (!region.IsManual(name)) continue;
      axes_.push_back({name, size});
      devices_ *= size;
    }
    const Body& body = op.bodies[0];
    for (size_t i = 0; i < op.in.size(); ++i) {
      const Array global = At(op.in[i])[0];
      ProgramValue& local = At(body.in[i]);
      local.clear();
      for (int64_t device = 0; device < devices_; ++device) {
        Array& one =
            local.emplace_back(Array::Zeros(program_.ShapeOf(body.in[i])));
        ForShard(
            global.shape, one.shape, region.in_specs[i], device,
            [&](size_t from, size_t to) { one.data[to] = global.data[from]; });
      }
    }
    const bool good = RunOps(body.ops) && Join(op);
    devices_ = 1;
    axes_.clear();
    return good;
  }

  bool Join(const Op& op) {
    const Body& body = op.bodies[0];
    std::vector<Array> results;
    for (size_t i = 0; i < op.out.size(); ++i) {
      Array& out =
          results.emplace_back(Array::Zeros(program_.ShapeOf(op.out[i])));
      const ProgramValue& locals = At(body.out[i]);
      std::vector<bool> set(out.data.size(), false);
      double largest = 0;
      for (const Array& local : locals) {
        for (const double x : local.data) {
          if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
        }
      }
      bool agree = true;
      for (int64_t device = 0; device < devices_; ++device) {
        const Array& local = locals[AsIndex(device)];
        ForShard(out.shape, local.shape, op.region->out_specs[i], device,
                 [&](size_t to, size_t from) {
                   const double x = local.data[from];
                   const double was = out.data[to];
                   if (set[to] && !(x == was || (x != x && was != was)) &&
                       !(std::abs(x - was) <= kReplicaTolerance * largest)) {
                     agree = false;
                   }
                   out.data[to] = x;
                   set[to] = true;
                 });
      }
      if (!agree) {
        return Fault(op, "devices disagree on result " + std::to_string(i) +
                             " of the region, which `out_specs` replicates");
      }
    }
    for (size_t i = 0; i < op.out.size(); ++i) {
      At(op.out[i]) = {std::move(results[i])};
    }
    return true;
  }

  void Collective(const Op& op) {
    ProgramValue out;
    for (int64_t device = 0; device < devices_; ++device) {
      out.push_back(Array::Zeros(program_.ShapeOf(op.out[0])));
    }
    if (op.word == "axis_index") {
      for (int64_t device = 0; device < devices_; ++device) {
        out[AsIndex(device)].data[0] =
            static_cast<double>(IndexAlong(device, op.axes));
      }
      At(op.out[0]) = std::move(out);
      return;
    }
    // The groups of devices, each in the order of its indices.
    std::map<int64_t, std::map<int64_t, int64_t>> groups;
    for (int64_t device = 0; device < devices_; ++device) {
      std::vector<std::string> others;
      for (const Axis& axis : axes_) {
        if (std::ranges::find(op.axes, axis.name) == op.axes.end()) {
          others.push_back(axis.name);
        }
      }
      groups[IndexAlong(device, others)][IndexAlong(device, op.axes)] = device;
    }
    for (const auto& [key, group] : groups) {
      std::vector<const Array*> given;
      std::vector<Array*> got;
      for (const auto& [index, device] : group) {
        given.push_back(&At(op.in[0])[AsIndex(device)]);
        got.push_back(&out[AsIndex(device)]);
      }
      Exchange(op, given, got);
    }
    At(op.out[0]) = std::move(out);
  }

  // A value as [before, size, after] around a dimension. A dimension that the
  // value lacks has the size 1.
  struct Split {
    int64_t before = 1, size = 1, after = 1;
    Split(const Numbers& shape, size_t dim, bool lacks = false) {
      for (size_t d = 0; d < shape.size(); ++d) {
        if (d < dim) before *= shape[d];
        if (d == dim && !lacks) size = shape[d];
        if (d > dim || (d == dim && lacks)) after *= shape[d];
      }
    }
  };

  static void Exchange(const Op& op, const std::vector<const Array*>& given,
                       const std::vector<Array*>& got) {
    const size_t n = given.size();
    const std::string& kind = op.word;
    const bool tiled = op.NumberOf(Attr::kTiled) != 0;
    if (kind == "psum" || kind == "pmax" || kind == "pmin") {
      for (size_t at = 0; at < got[0]->data.size(); ++at) {
        double total = given[0]->data[at];
        for (size_t i = 1; i < n; ++i) {
          const double x = given[i]->data[at];
          total = kind == "psum"   ? total + x
                  : kind == "pmax" ? std::max(total, x)
                                   : std::min(total, x);
        }
        for (Array* const one : got) one->data[at] = total;
      }
      return;
    }
    if (kind == "ppermute") {
      const auto pairs = op.Of(Attr::kPairs);
      for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
        got[AsIndex(pairs[i + 1])]->data = given[AsIndex(pairs[i])]->data;
      }
      return;
    }
    const size_t dim = AsIndex(
        op.NumberOf(kind == "all_to_all" ? Attr::kSplitDim : Attr::kDim));
    if (kind == "all_gather") {
      const Split part(given[0]->shape, dim, !tiled);
      for (size_t i = 0; i < n; ++i) {
        ForEach(part, [&](int64_t a, int64_t k, int64_t b, int64_t from) {
          const int64_t row = static_cast<int64_t>(i) * part.size + k;
          const int64_t to =
              (a * part.size * static_cast<int64_t>(n) + row) * part.after + b;
          for (Array* const one : got) {
            one->data[AsIndex(to)] = given[i]->data[AsIndex(from)];
          }
        });
      }
      return;
    }
    if (kind == "reduce_scatter") {
      const Split part(got[0]->shape, dim, !tiled);
      for (size_t i = 0; i < n; ++i) {
        ForEach(part, [&](int64_t a, int64_t k, int64_t b, int64_t to) {
          const int64_t row = static_cast<int64_t>(i) * part.size + k;
          const int64_t from =
              (a * part.size * static_cast<int64_t>(n) + row) * part.after + b;
          double total = 0;
          for (const Array* const one : given) {
            total += one->data[AsIndex(from)];
          }
          got[i]->data[AsIndex(to)] = total;
        });
      }
      return;
    }
    // all_to_all: part j of device i becomes part i of device j.
    const size_t concat = AsIndex(op.NumberOf(Attr::kConcatDim));
    Numbers piece = given[0]->shape;
    piece[dim] = tiled ? piece[dim] / static_cast<int64_t>(n) : 1;
    int64_t count = 1;
    for (const int64_t size : piece) count *= size;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        for (int64_t at = 0; at < count; ++at) {
          Numbers position(piece.size());
          int64_t rest = at;
          for (size_t d = piece.size(); d > 0; --d) {
            position[d - 1] = rest % piece[d - 1];
            rest /= piece[d - 1];
          }
          Numbers from = position;
          from[dim] += static_cast<int64_t>(j) * piece[dim];
          Numbers to = position;
          if (tiled) {
            to[concat] += static_cast<int64_t>(i) * piece[concat];
          } else {
            to.erase(to.begin() + static_cast<int64_t>(dim));
            to.insert(to.begin() + static_cast<int64_t>(concat),
                      static_cast<int64_t>(i));
          }
          got[j]->data[Offset(*got[j], to)] =
              given[i]->data[Offset(*given[i], from)];
        }
      }
    }
  }

  static size_t Offset(const Array& x, const Numbers& position) {
    int64_t out = 0;
    for (size_t d = 0; d < position.size(); ++d) {
      out = out * x.shape[d] + position[d];
    }
    return AsIndex(out);
  }

  template <class Visit>
  static void ForEach(const Split& part, const Visit& visit) {
    int64_t at = 0;
    for (int64_t a = 0; a < part.before; ++a) {
      for (int64_t k = 0; k < part.size; ++k) {
        for (int64_t b = 0; b < part.after; ++b) visit(a, k, b, at++);
      }
    }
  }

  const Program& program_;
  const Drawn drawn_;
  const InputOf input_;
  std::map<ValueId, size_t> waiting_;  // the inputs that no op has read
  // The op that is the last one to read each value; nullptr for results.
  std::vector<const Op*> last_;
  ProgramRun out_;
  std::vector<Axis> axes_;  // of the manual region that runs
  int64_t devices_ = 1;
};

ProgramSteps::ProgramSteps(const Program& program, InputOf input, Drawn drawn)
    : runner_(std::make_unique<Runner>(program, std::move(input),
                                       std::move(drawn))) {}

ProgramSteps::~ProgramSteps() = default;

void ProgramSteps::Run(const Op& op) { runner_->Run(op); }

void ProgramSteps::Free(const Op& op) { runner_->Free(op); }

ProgramRun ProgramSteps::RunAll(Kept kept) {
  const Program& program = runner_->program();
  if (kept == Kept::kAll) {
    for (const program::Input& input : program.inputs) {
      runner_->Load({input.value});
    }
  }
  for (const Op& op : program.ops) {
    if (!runner_->Run(op)) break;
    if (kept == Kept::kResults) runner_->Free(op);
  }
  LoadResults();
  return std::move(runner_->out());
}

const ProgramRun& ProgramSteps::run() const { return runner_->out(); }

void ProgramSteps::LoadResults() { runner_->Load(runner_->program().outputs); }

ProgramRun RunProgram(const Program& program, const std::vector<Array>& inputs,
                      const Drawn& drawn) {
  return ProgramSteps(
             program, [&](size_t input) { return inputs[input]; }, drawn)
      .RunAll(ProgramSteps::Kept::kAll);
}

}  // namespace shardc::dense
