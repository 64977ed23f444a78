// Runs a program op by op on all devices. Before an op its operands are
// resharded as was chosen for it, then every device runs the op on
// its shards, and partial results are reduced:
//
//   dot of x [b:dp, d] and w [d:fsdp, f]  ->  w is gathered over fsdp, or x
//   sliced; the results are added over fsdp if both keep it
//
// In the body of a manual region nothing is resharded or reduced: what devices
// send is what the user's collectives say.
#include "exec/program/run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "comm/reshard.h"
#include "exec/machine/collectives.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

using program::Attr;
using program::Body;
using program::FactorUse;
using program::Op;
using program::OpKind;
using program::OpSharding;
using program::Program;
using program::ValueId;

// Replicas of a manual region may differ by the rounding of sums.
constexpr double kReplicaTolerance = 1e-9;
constexpr int kMostTurns = 100000;

using Resharded = std::map<std::pair<ValueId, Spec>, ShardedTensor>;

class Runner {
 public:
  Runner(Machine& machine, const ProgramInputs& inputs,
         const AfterProgramOp& after)
      : machine_(machine),
        mesh_(machine.mesh()),
        program_(*inputs.program),
        sharding_(*inputs.sharding),
        inputs_(inputs),
        after_(after) {
    out_.values.resize(program_.values.size());
    if (inputs.traced != nullptr) {
      NoteLengths(program_.ops, inputs.traced->ops);
    }
  }

  ProgramRun Run() {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      waiting_.emplace(program_.inputs[i].value, i);
    }
    std::vector<const Op*> last(program_.values.size(), nullptr);
    for (const Op& op : program_.ops) {
      for (const ValueId id : op.in) last[id] = &op;
      for (const ValueId id : op.out) last[id] = &op;
    }
    for (const ValueId id : program_.outputs) last[id] = nullptr;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (!inputs_.times.empty()) times_ = inputs_.times[i];
      Load(op.in);
      if (!RunOp(op) || (after_ && !after_(op, out_.values))) break;
      const auto free = [&](ValueId id) {
        if (last[id] == &op) At(id) = {};
      };
      std::ranges::for_each(op.in, free);
      std::ranges::for_each(op.out, free);
      FreeBodies(op);
      std::erase_if(shared_, [&](const auto& one) {
        return last[one.first.first] == &op;
      });
    }
    Load(program_.outputs);
    return std::move(out_);
  }

 private:
  ShardedTensor& At(ValueId id) { return out_.values[id]; }

  // Shards inputs that no op has read yet.
  void Load(const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) {
      const auto at = waiting_.find(id);
      if (at == waiting_.end()) continue;
      At(id) = Scatter(mesh_, inputs_.input(at->second), sharding_.specs[id]);
      waiting_.erase(at);
    }
  }

  void FreeBodies(const Op& op) {
    for (const Body& body : op.bodies) {
      for (const ValueId id : body.in) At(id) = {};
      for (const Op& one : body.ops) {
        for (const ValueId id : one.out) At(id) = {};
        FreeBodies(one);
      }
    }
  }

  // Notes how many turns the scans of the traced program have.
  void NoteLengths(const std::vector<Op>& ops, const std::vector<Op>& traced) {
    for (size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind == OpKind::kScan) {
        lengths_[&ops[i]] = traced[i].NumberOf(Attr::kLength);
      }
      for (size_t k = 0; k < ops[i].bodies.size(); ++k) {
        NoteLengths(ops[i].bodies[k].ops, traced[i].bodies[k].ops);
      }
    }
  }

  bool Fail(const Op& op, std::string message) {
    out_.error = {&op, std::move(message)};
    return false;
  }

  // Runs the ops of a body.
  bool RunOps(const std::vector<Op>& ops) {
    Resharded outer = std::exchange(shared_, {});
    const bool good =
        std::ranges::all_of(ops, [&](const Op& op) { return RunOp(op); });
    shared_ = std::move(outer);
    return good;
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
        At(op.out[0]) = Whole(program_.ShapeOf(op.out[0]), Exchanged(op));
        return true;
      default:
        return Local(op);
    }
  }

  // ---- ops on shards

  // Adds the collectives since the last call to the traffic of an op. `value`
  // is what they sent.
  void Note(const Op& op, ValueId value) {
    const auto dtype = program_.values[value].dtype;
    double width = static_cast<double>(dtype ? DtypeBits(*dtype) : 32) / 64.0;
    if (inputs_.traced != nullptr) {
      const auto elements = static_cast<double>(
          std::max<int64_t>(1, ElementsOf(program_.ShapeOf(value))));
      width *= static_cast<double>(ElementsOf(inputs_.traced->ShapeOf(value))) /
               elements;
    }
    const auto& entries = machine_.ledger().entries();
    for (; noted_ < entries.size(); ++noted_) {
      if (times_ == 0) continue;
      const LedgerEntry& entry = entries[noted_];
      const int64_t most =
          entry.sent.empty() ? 0 : *std::ranges::max_element(entry.sent);
      auto& all = out_.traffic;
      auto at = std::find_if(all.rbegin(), all.rend(), [&](const auto& one) {
        return one.op == &op && one.kind == entry.kind &&
               one.axes == entry.axes;
      });
      if (at == all.rend()) {
        all.push_back({&op, entry.kind, entry.axes, 0, 0});
        at = all.rbegin();
      }
      at->count += times_;
      at->bytes +=
          times_ * static_cast<int64_t>(static_cast<double>(most) * width);
    }
  }

  bool Moves(ValueId id, const Spec& spec) {
    return !manual_ && At(id).spec != spec;
  }

  // Returns a value with this sharding.
  ShardedTensor Brought(const Op& op, ValueId id, const Spec& spec) {
    if (!Moves(id, spec)) return At(id);
    ShardedTensor out = Reshard(machine_, At(id), spec, "operand");
    Note(op, id);
    return out;
  }

  // Returns an operand with this sharding: the value itself if it has it, and
  // otherwise a value that is resharded, which `fresh` holds, or which the body
  // keeps for other ops that need the same.
  const ShardedTensor& Operand(const Op& op, ValueId id, const Spec& spec,
                               ShardedTensor& fresh) {
    if (!Moves(id, spec)) return At(id);
    const bool shares = program::SharesReshards(program_) &&
                        ClassifyMove(mesh_.mesh(), At(id).spec, spec);
    if (!shares) return fresh = Brought(op, id, spec);
    const auto [at, made] = shared_.try_emplace({id, spec}, ShardedTensor());
    if (made) at->second = Brought(op, id, spec);
    return at->second;
  }

  static ShardedTensor Whole(const Shape& shape, PerDevice local) {
    return {shape, Dtype::kF64, Spec(shape.size()), std::move(local)};
  }

  bool Local(const Op& op) {
    std::vector<const ShardedTensor*> in;
    std::vector<ShardedTensor> fresh(op.in.size());
    AxisGroup reduced;
    AxisGroup partial;
    FactorUse use = FactorUse::kSum;
    std::vector<ShardedTensor> out;
    std::vector<program::Scattered> scattered;
    if (manual_) {
      for (const ValueId id : op.in) in.push_back(&At(id));
      for (const ValueId id : op.out)
        out.push_back(Whole(program_.ShapeOf(id), {}));
    } else {
      const OpSharding& chosen = sharding_.ops.at(&op);
      for (size_t i = 0; i < op.in.size(); ++i) {
        in.push_back(&Operand(op, op.in[i], chosen.in[i], fresh[i]));
      }
      for (size_t i = 0; i < op.out.size(); ++i) {
        out.push_back(
            {program_.ShapeOf(op.out[i]), Dtype::kF64, chosen.out[i], {}});
      }
      for (const auto& [axes, of] : chosen.reductions) {
        reduced.insert(reduced.end(), axes.begin(), axes.end());
        use = of;
      }
      scattered = chosen.scattered;
      partial = reduced;
      for (const auto& [dim, axes] : scattered) {
        partial.insert(partial.end(), axes.begin(), axes.end());
      }
    }
    std::vector<std::vector<Buffer>> results(AsIndex(machine_.devices()));
    const ProgramOpSeam& seam = machine_.Seam<ProgramOpSeam>();
    const std::vector<int> first = FirstAlike(op, in, out, partial);
    machine_.Local([&](int device) {
      if (first[AsIndex(device)] != device) return;
      std::vector<Buffer>& own = results[AsIndex(device)];
      // The elements of a copy are those of its operand.
      const bool copies =
          op.kind == OpKind::kReshape || op.kind == OpKind::kConstraint;
      for (const ShardedTensor& one : out) {
        const Shape shape = LocalShape(mesh_, one.shape, one.spec);
        own.push_back(copies ? Buffer::Hollow(shape, Dtype::kF64)
                             : Buffer::Zeros(shape, Dtype::kF64));
      }
      ProgramOp local{.program = &program_,
                      .op = &op,
                      .in = {},
                      .out = &own,
                      .first = mesh_.Index(device, partial) == 0,
                      .drawn = &inputs_.drawn};
      for (size_t i = 0; i < op.in.size(); ++i) {
        const ShardedTensor& one = *in[i];
        local.in.push_back({&one.local[AsIndex(device)],
                            LocalStart(mesh_, one.shape, one.spec, device)});
      }
      seam.run(local);
    });
    for (size_t device = 0; device < first.size(); ++device) {
      if (results[device].empty()) {
        results[device] = results[AsIndex(first[device])];
      }
    }
    for (size_t i = 0; i < out.size(); ++i) {
      for (auto& own : results) out[i].local.push_back(std::move(own[i]));
      for (const auto& [dim, axes] : scattered) {
        out[i].local =
            ReduceScatter(machine_, axes, out[i].local, dim, "partial result");
        AxisGroup& all = out[i].spec[dim];
        all.insert(all.end(), axes.begin(), axes.end());
        Note(op, op.out[i]);
      }
      if (!reduced.empty()) {
        out[i].local = Reduced(use, reduced, out[i].local);
        Note(op, op.out[i]);
      }
      At(op.out[i]) = std::move(out[i]);
    }
    return true;
  }

  // Returns for each device the first one that runs an op on the same shards.
  // In a manual region that is the device itself.
  std::vector<int> FirstAlike(const Op& op,
                              const std::vector<const ShardedTensor*>& in,
                              const std::vector<ShardedTensor>& out,
                              const AxisGroup& partial) const {
    std::vector<int> same(AsIndex(machine_.devices()));
    std::iota(same.begin(), same.end(), 0);
    if (manual_) return same;
    std::set<std::string> used(partial.begin(), partial.end());
    const auto add = [&](const Spec& spec) {
      for (const AxisGroup& axes : spec) used.insert(axes.begin(), axes.end());
    };
    for (size_t i = 0; i < op.in.size(); ++i) {
      add(in[i]->spec);
      const auto at = sharding_.partial.find(op.in[i]);
      if (at == sharding_.partial.end()) continue;
      used.insert(at->second.begin(), at->second.end());
    }
    for (const ShardedTensor& one : out) add(one.spec);
    const AxisGroup axes(used.begin(), used.end());
    std::map<int64_t, int> first;
    for (int device = 0; device < machine_.devices(); ++device) {
      same[AsIndex(device)] =
          first.try_emplace(mesh_.Index(device, axes), device).first->second;
    }
    return same;
  }

  static void Negate(PerDevice& values) {
    for (Buffer& one : values) {
      for (double& x : one.wide) x = -x;
    }
  }

  PerDevice Reduced(FactorUse use, const AxisGroup& axes, PerDevice values) {
    if (use == FactorUse::kMin) Negate(values);
    PerDevice out = AllReduce(
        machine_, axes, values,
        use == FactorUse::kSum ? Reduce::kSum : Reduce::kMax, "partial result");
    if (use == FactorUse::kMin) Negate(out);
    return out;
  }

  // ---- loops and branches

  const Spec& SpecOf(ValueId id) const { return sharding_.specs[id]; }

  // Copies a value into a body, or out of it, with the sharding that it has
  // there.
  void Bind(const Op& op, ValueId from, ValueId to) {
    At(to) = Brought(op, from, SpecOf(to));
  }

  bool Scan(const Op& op) {
    const Body& body = op.bodies[0];
    const size_t consts = AsIndex(op.NumberOf(Attr::kConsts));
    const size_t carry = AsIndex(op.NumberOf(Attr::kCarry));
    const int64_t length = op.NumberOf(Attr::kLength);
    for (size_t i = 0; i < consts + carry; ++i) Bind(op, op.in[i], body.in[i]);
    std::vector<ShardedTensor> scanned;
    for (size_t i = consts + carry; i < op.in.size(); ++i) {
      ShardedTensor fresh;
      scanned.push_back(Operand(
          op, op.in[i], manual_ ? Spec() : sharding_.ops.at(&op).in[i], fresh));
    }
    std::vector<ShardedTensor> stacked;
    for (size_t i = carry; i < op.out.size(); ++i) {
      const Shape& shape = program_.ShapeOf(op.out[i]);
      const Spec spec = manual_ ? Spec(shape.size()) : SpecOf(op.out[i]);
      stacked.push_back({shape, Dtype::kF64, spec,
                         PerDevice(AsIndex(machine_.devices()),
                                   Buffer::Zeros(LocalShape(mesh_, shape, spec),
                                                 Dtype::kF64))});
    }
    const int64_t times = times_;
    const auto traced = lengths_.find(&op);
    for (int64_t turn = 0; turn < length; ++turn) {
      if (traced != lengths_.end()) {
        times_ = turn == 0 ? times * traced->second : 0;
      }
      const int64_t at =
          op.NumberOf(Attr::kReverse) != 0 ? length - 1 - turn : turn;
      for (size_t i = 0; i < scanned.size(); ++i) {
        At(body.in[consts + carry + i]) = RowOf(scanned[i], at);
      }
      if (!RunOps(body.ops)) return false;
      for (size_t i = 0; i < stacked.size(); ++i) {
        const ValueId from = body.out[carry + i];
        for (size_t device = 0; device < stacked[i].local.size(); ++device) {
          const std::vector<double>& row = At(from).local[device].wide;
          std::ranges::copy(row, stacked[i].local[device].wide.begin() +
                                     at * static_cast<int64_t>(row.size()));
        }
      }
      Carry(op, body, consts, carry);
    }
    times_ = times;
    for (size_t i = 0; i < op.out.size(); ++i) {
      At(op.out[i]) =
          i < carry ? At(body.in[consts + i]) : std::move(stacked[i - carry]);
    }
    return true;
  }

  static ShardedTensor RowOf(const ShardedTensor& all, int64_t row) {
    ShardedTensor out;
    out.shape.assign(all.shape.begin() + 1, all.shape.end());
    out.dtype = Dtype::kF64;
    if (!all.spec.empty())
      out.spec.assign(all.spec.begin() + 1, all.spec.end());
    for (const Buffer& from : all.local) {
      Buffer one = SliceDim(from, 0, row, 1);
      one.shape.erase(one.shape.begin());
      out.local.push_back(std::move(one));
    }
    return out;
  }

  // Copies the body's first results to its inputs from `first` on.
  void Carry(const Op& op, const Body& body, size_t first, size_t count) {
    std::vector<ShardedTensor> next;
    for (size_t i = 0; i < count; ++i) {
      next.push_back(Brought(op, body.out[i], SpecOf(body.in[first + i])));
    }
    for (size_t i = 0; i < count; ++i) {
      At(body.in[first + i]) = std::move(next[i]);
    }
  }

  bool While(const Op& op) {
    const size_t first = AsIndex(op.NumberOf(Attr::kConditionConsts));
    const size_t second = AsIndex(op.NumberOf(Attr::kBodyConsts));
    const Body& condition = op.bodies[0];
    const Body& body = op.bodies[1];
    const size_t carry = op.out.size();
    for (size_t i = 0; i < first; ++i) Bind(op, op.in[i], condition.in[i]);
    for (size_t i = 0; i < second + carry; ++i) {
      Bind(op, op.in[first + i], body.in[i]);
    }
    for (int turn = 0; turn <= kMostTurns; ++turn) {
      for (size_t i = 0; i < carry; ++i) {
        At(condition.in[first + i]) = At(body.in[second + i]);
      }
      if (!RunOps(condition.ops)) return false;
      const PerDevice& holds = At(condition.out[0]).local;
      for (const Buffer& one : holds) {
        if (one.wide[0] != holds[0].wide[0]) {
          return Fail(op, "devices disagree whether the loop goes on");
        }
      }
      if (holds[0].wide[0] == 0) {
        for (size_t i = 0; i < carry; ++i) {
          At(op.out[i]) = At(body.in[second + i]);
        }
        return true;
      }
      if (!RunOps(body.ops)) return false;
      Carry(op, body, second, carry);
    }
    return Fail(op, "the loop does not end within " +
                        std::to_string(kMostTurns) + " turns");
  }

  // Devices of a manual region may take different branches: then all devices
  // run each of them, and keep the results of their own.
  bool Cond(const Op& op) {
    const PerDevice which = At(op.in[0]).local;
    const auto last = static_cast<double>(op.bodies.size() - 1);
    std::vector<ShardedTensor> results(op.out.size());
    for (size_t branch = 0; branch < op.bodies.size(); ++branch) {
      std::vector<size_t> takers;
      for (size_t device = 0; device < which.size(); ++device) {
        if (std::clamp(which[device].wide[0], 0.0, last) ==
            static_cast<double>(branch)) {
          takers.push_back(device);
        }
      }
      if (takers.empty()) continue;
      if (!manual_ && takers.size() != which.size()) {
        return Fail(op, "devices disagree on the branch");
      }
      const Body& body = op.bodies[branch];
      for (size_t i = 0; i < body.in.size(); ++i) {
        Bind(op, op.in[i + 1], body.in[i]);
      }
      if (!RunOps(body.ops)) return false;
      for (size_t i = 0; i < op.out.size(); ++i) {
        ShardedTensor got =
            Brought(op, body.out[i], manual_ ? Spec() : SpecOf(op.out[i]));
        if (results[i].local.empty()) {
          results[i] = std::move(got);
          continue;
        }
        for (const size_t device : takers) {
          results[i].local[device] = std::move(got.local[device]);
        }
      }
    }
    for (size_t i = 0; i < op.out.size(); ++i) {
      At(op.out[i]) = std::move(results[i]);
    }
    return true;
  }

  // ---- manual regions

  bool Manual(const Op& op) {
    const Body& body = op.bodies[0];
    const OpSharding& chosen = sharding_.ops.at(&op);
    for (size_t i = 0; i < op.in.size(); ++i) {
      ShardedTensor fresh;
      At(body.in[i]) = Whole(program_.ShapeOf(body.in[i]),
                             Operand(op, op.in[i], chosen.in[i], fresh).local);
    }
    manual_ = true;
    const bool good = RunOps(body.ops);
    manual_ = false;
    if (!good) return false;
    for (size_t i = 0; i < op.out.size(); ++i) {
      ShardedTensor out{program_.ShapeOf(op.out[i]), Dtype::kF64, chosen.out[i],
                        At(body.out[i]).local};
      if (!Replicate(out)) {
        return Fail(op, "devices disagree on result " + std::to_string(i) +
                            " of the region, which `out_specs` replicates");
      }
      At(op.out[i]) = std::move(out);
    }
    return true;
  }

  // Returns whether all holders of a shard have the same numbers but for
  // rounding, and gives them those of the first one.
  bool Replicate(ShardedTensor& value) const {
    double largest = 0;
    for (const Buffer& one : value.local) {
      for (const double x : one.wide) {
        if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
      }
    }
    for (const auto& [start, holders] :
         Holders(mesh_, value.shape, value.spec)) {
      const Buffer& first = value.local[AsIndex(holders[0])];
      for (const int device : holders) {
        Buffer& other = value.local[AsIndex(device)];
        for (size_t i = 0; i < first.wide.size(); ++i) {
          const double a = first.wide[i];
          const double b = other.wide[i];
          if (a == b || (a != a && b != b)) continue;
          if (!(std::fabs(a - b) <= kReplicaTolerance * largest)) return false;
        }
        other.wide = first.wide;
      }
    }
    return true;
  }

  static PerDevice Reshaped(PerDevice values, const Shape& shape) {
    for (Buffer& one : values) one.shape = shape;
    return values;
  }

  PerDevice Exchanged(const Op& op) {
    const std::string& kind = op.word;
    const AxisGroup& axes = op.axes;
    if (kind == "axis_index") {
      PerDevice out;
      for (int device = 0; device < machine_.devices(); ++device) {
        out.push_back(Buffer::Zeros({}, Dtype::kF64));
        out.back().wide[0] = static_cast<double>(mesh_.Index(device, axes));
      }
      return out;
    }
    PerDevice out = Sent(op, At(op.in[0]).local);
    Note(op, op.in[0]);
    return Reshaped(std::move(out), program_.ShapeOf(op.out[0]));
  }

  PerDevice Sent(const Op& op, PerDevice in) {
    const std::string& kind = op.word;
    const AxisGroup& axes = op.axes;
    if (kind == "psum") return Reduced(FactorUse::kSum, axes, std::move(in));
    if (kind == "pmax") return Reduced(FactorUse::kMax, axes, std::move(in));
    if (kind == "pmin") return Reduced(FactorUse::kMin, axes, std::move(in));
    if (kind == "ppermute") {
      std::vector<Edge> edges;
      const auto pairs = op.Of(Attr::kPairs);
      for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
        edges.emplace_back(pairs[i], pairs[i + 1]);
      }
      return Ppermute(machine_, axes, in, edges, kind);
    }
    const bool tiled = op.NumberOf(Attr::kTiled) != 0;
    const size_t dim = AsIndex(op.NumberOf(Attr::kDim));
    Shape shape = in[0].shape;
    if (kind == "all_gather") {
      if (!tiled) shape.insert(shape.begin() + static_cast<int64_t>(dim), 1);
      return AllGather(machine_, axes, Reshaped(std::move(in), shape), dim,
                       kind);
    }
    if (kind == "reduce_scatter") {
      return ReduceScatter(machine_, axes, in, dim, kind);
    }
    size_t split = AsIndex(op.NumberOf(Attr::kSplitDim));
    size_t concat = AsIndex(op.NumberOf(Attr::kConcatDim));
    if (!tiled) {
      // The parts are joined in a new dimension, and the divided one vanishes.
      if (concat <= split) {
        ++split;
      } else {
        ++concat;
      }
      shape.insert(shape.begin() + static_cast<int64_t>(concat), 1);
    }
    return AllToAll(machine_, axes, Reshaped(std::move(in), shape), split,
                    concat, kind);
  }

  Machine& machine_;
  const SimMesh& mesh_;
  const Program& program_;
  const program::Sharding& sharding_;
  const ProgramInputs& inputs_;
  const AfterProgramOp& after_;
  ProgramRun out_;
  std::unordered_map<ValueId, size_t> waiting_;  // inputs that no op has read
  // The operands of the current body's ops that were resharded.
  Resharded shared_;
  size_t noted_ = 0;  // entries of the ledger that are counted
  // The turns of scans in the program whose traffic is reported, and for how
  // many turns, or ops, the current one counts.
  std::unordered_map<const Op*, int64_t> lengths_;
  int64_t times_ = 1;
  bool manual_ = false;  // whether the body of a manual region runs
};

std::optional<ProgramError> MismatchIn(const std::vector<Op>& ops,
                                       const SimMesh& mesh) {
  for (const Op& op : ops) {
    if (op.region) {
      for (const auto& [name, size] : op.region->mesh) {
        if (!op.region->IsManual(name) || mesh.SizeOf(name) == size) continue;
        return ProgramError{
            &op,
            "the region runs over `" + name + "` of size " +
                std::to_string(size) + ", and the mesh has " +
                (mesh.Has(name) ? "size " + std::to_string(mesh.SizeOf(name))
                                : std::string("no such axis"))};
      }
    }
    for (const Body& body : op.bodies) {
      auto inner = MismatchIn(body.ops, mesh);
      if (inner) return inner;
    }
  }
  return std::nullopt;
}

}  // namespace

ProgramRun RunProgram(Machine& machine, const ProgramInputs& inputs,
                      const AfterProgramOp& after) {
  return Runner(machine, inputs, after).Run();
}

std::optional<ProgramError> RegionMismatch(const Program& program,
                                           const SimMesh& mesh) {
  return MismatchIn(program.ops, mesh);
}

}  // namespace shardc::exec
