// Walks a traced program as the simulated mesh runs it, without its numbers:
// before an op its operands are resharded, after it partial results are
// reduced, and the ops of a loop count once for each turn. For example:
//
//   y = dot(x [b:dp, d], w [d:fsdp, f:tp])      at ffn.py:12
//     ->  ffn.py:12 all_gather over fsdp of w, 2 b d f / (dp tp) operations
//
// The peak of memory follows from the order of the program. A value that a
// compiler stores (program/program.h) exists from its op to the last op that
// reads it, itself or through values that are computed again.
#include "cost/traced_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "comm/reshard.h"
#include "cost/inputs.h"
#include "model/mesh_layout.h"
#include "program/program.h"
#include "program/read.h"
#include "program/sharding.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cost {
namespace {

using program::Attr;
using program::Body;
using program::Op;
using program::OpKind;
using program::OpSharding;
using program::Program;
using program::ValueId;

// The part of a program's operations up to which those in dtypes without a
// known rate are left out of the time.
constexpr double kNegligible = 0.01;

// The dtypes of the operands of matmuls, by the rates of profiles.
enum class Rate : uint8_t { kHalf, kFp8, kInt8, kOther };
constexpr size_t kRates = 4;

Rate RateOf(std::optional<Dtype> dtype) {
  if (dtype == Dtype::kBF16 || dtype == Dtype::kF16) return Rate::kHalf;
  if (dtype == Dtype::kF8E4M3 || dtype == Dtype::kF8E5M2) return Rate::kFp8;
  return dtype == Dtype::kI8 ? Rate::kInt8 : Rate::kOther;
}

// What a list of ops adds to the cost.
struct Sums {
  double flops = 0, masked = 0, device_flops = 0, device_masked = 0;
  double elements = 0, moved = 0;
  std::array<double, kRates> by_rate = {};
  std::vector<ProgramTransfer> transfers;

  void Add(Sums other) {
    flops += other.flops;
    masked += other.masked;
    device_flops += other.device_flops;
    device_masked += other.device_masked;
    elements += other.elements;
    moved += other.moved;
    for (size_t i = 0; i < kRates; ++i) by_rate[i] += other.by_rate[i];
    for (ProgramTransfer& one : other.transfers) {
      transfers.push_back(std::move(one));
    }
  }
};

class Counter {
 public:
  explicit Counter(const ProgramRequest& request)
      : request_(request),
        program_(*request.program),
        mesh_(request.mesh),
        sharding_(program::ShardProgram(program_, mesh_, request.specs)),
        masked_(program::MaskedMatmuls(program_)),
        sources_(program::StoredSources(program_)),
        shares_(program::SharesReshards(program_)) {
    if (request.profile != nullptr) {
      network_ = NetworkOf(*request.profile, mesh_);
    }
  }

  ProgramCost Run() {
    Sums sums = Walk(program_.ops, 1);
    out_.flops = sums.flops;
    out_.masked = sums.masked;
    out_.device_flops = sums.device_flops;
    out_.device_masked = sums.device_masked;
    out_.elements = sums.elements;
    out_.moved = sums.moved;
    Merge(std::move(sums.transfers));
    SetMemory();
    SetTime(sums.by_rate);
    Assume();
    return std::move(out_);
  }

 private:
  // ---- sizes

  const Spec& SpecOf(ValueId id) const { return sharding_.specs[id]; }

  // In the body of a manual region, shapes are those of a device.
  Shape LocalShape(ValueId id, const Spec& spec) const {
    const Shape& shape = program_.ShapeOf(id);
    return manual_ ? shape : ShardShape(mesh_, shape, spec);
  }

  int64_t Bits(ValueId id) const {
    const auto dtype = program_.values[id].dtype;
    return dtype ? DtypeBits(*dtype) : 32;
  }
  int64_t BytesOf(ValueId id, int64_t elements) const {
    return ((Size(elements) * Bits(id) + 7) / 8).value();
  }
  int64_t LocalBytes(ValueId id, const Spec& spec) const {
    return BytesOf(
        id, CheckedProduct(LocalShape(id, spec)).value_or(Size::kTooLarge));
  }
  int64_t LocalBytes(ValueId id) const { return LocalBytes(id, SpecOf(id)); }

  std::string Where(const Op& op) const {
    const std::string line = program_.LineText(op.at);
    return line.empty() ? "an unknown line" : Printable(line);
  }

  // ---- collectives

  void Send(const Op& op, ValueId value, const SpecMove& move, int64_t elements,
            int64_t times, Sums& to) {
    if (elements == 0) return;
    ProgramTransfer row{program_.LineText(op.at),
                        op.phase,
                        program::NameOf(op),
                        move.kind,
                        move.axes,
                        times,
                        0,
                        0};
    const int64_t bytes = (Size(elements) * Bits(value) / 8).value();
    row.sent = Times(bytes, times);
    if (request_.profile != nullptr) {
      const GroupSpan place =
          SpanOf(mesh_, network_, DropTrivial(mesh_, move.axes));
      row.seconds = Real(times) *
                    CollectiveSeconds(network_, place, move.kind, Real(bytes));
    }
    to.transfers.push_back(std::move(row));
  }

  // Counts the collective that reshards a value to this spec.
  void Bring(const Op& op, ValueId id, const Spec& spec, int64_t times,
             Sums& to) {
    if (manual_ || SpecOf(id) == spec) return;
    const auto move = ClassifyMove(mesh_, SpecOf(id), spec);
    if (!move) return;
    const Shape& shape = program_.ShapeOf(id);
    const auto [at, fresh] =
        moved_.try_emplace({shape, SpecOf(id), spec}, int64_t{0});
    if (fresh) {
      at->second =
          std::ranges::max(SentElements(mesh_, shape, SpecOf(id), spec));
    }
    Send(op, id, *move, at->second, times, to);
  }

  // The same for an operand, which other ops of the body may need with the same
  // spec.
  void Operand(const Op& op, size_t i, int64_t times, Sums& to) {
    if (manual_) return;
    const Spec& spec = sharding_.ops.at(&op).in[i];
    if (shares_ && !shared_.emplace(op.in[i], spec).second) return;
    Bring(op, op.in[i], spec, times, to);
  }

  // Counts the collectives that add or compare partial results.
  void Reduced(const Op& op, const OpSharding& chosen, int64_t times,
               Sums& to) {
    AxisGroup reduced;
    for (const auto& [axes, use] : chosen.reductions) {
      reduced.insert(reduced.end(), axes.begin(), axes.end());
    }
    for (size_t i = 0; i < op.out.size(); ++i) {
      int64_t elements =
          CheckedProduct(LocalShape(op.out[i], chosen.out[i])).value_or(0);
      const auto send = [&](Collective kind, const AxisGroup& axes) {
        const int64_t n = mesh_.Parts(axes).value_or(1);
        Send(op, op.out[i], {kind, axes}, BusiestSent(kind, elements, 1, n),
             times, to);
        return n;
      };
      for (const auto& [dim, axes] : chosen.scattered) {
        elements /= send(Collective::kReduceScatter, axes);
      }
      if (!reduced.empty()) send(Collective::kAllReduce, reduced);
    }
  }

  // Counts what a collective of the user's sends.
  void Exchange(const Op& op, int64_t times, Sums& to) {
    if (op.word == "axis_index") return;
    const ValueId id = op.in[0];
    const int64_t n = mesh_.Parts(op.axes).value_or(1);
    const int64_t elements = CheckedProduct(program_.ShapeOf(id)).value_or(0);
    Collective kind = Collective::kAllReduce;
    if (op.word == "all_gather") kind = Collective::kAllGather;
    if (op.word == "reduce_scatter") kind = Collective::kReduceScatter;
    if (op.word == "all_to_all") kind = Collective::kAllToAll;
    int64_t sent = 0;
    if (op.word == "ppermute") {
      kind = Collective::kPpermute;
      std::map<int64_t, int64_t> edges;
      const auto pairs = op.Of(Attr::kPairs);
      for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
        if (pairs[i] == pairs[i + 1]) continue;
        sent = std::max(sent, Times(++edges[pairs[i]], elements));
      }
    } else {
      sent = BusiestSent(kind, elements, 1, n);
    }
    Send(op, id, {kind, op.axes}, sent, times, to);
  }

  void Merge(std::vector<ProgramTransfer> all) {
    std::map<std::tuple<std::string, program::Phase, std::string, Collective,
                        AxisGroup>,
             size_t>
        rows;
    for (ProgramTransfer& one : all) {
      if (one.sent == Size::kTooLarge) {
        NotCounted(
            "the bytes that " +
                (one.line.empty() ? "an unknown line" : Printable(one.line)) +
                " sends, which are more than 64 bits count",
            "");
      }
      const auto [at, fresh] =
          rows.try_emplace({one.line, one.phase, one.op, one.kind, one.axes},
                           out_.transfers.size());
      if (fresh) {
        out_.transfers.push_back(std::move(one));
        continue;
      }
      ProgramTransfer& row = out_.transfers[at->second];
      row.count = (Size(row.count) + one.count).value();
      row.sent = (Size(row.sent) + one.sent).value();
      row.seconds += one.seconds;
    }
  }

  // ---- the walk

  Sums Walk(const std::vector<Op>& ops, int64_t times) {
    Sums out;
    std::set<std::pair<ValueId, Spec>> outer = std::exchange(shared_, {});
    for (const Op& op : ops) Visit(op, times, out);
    shared_ = std::move(outer);
    return out;
  }

  void Visit(const Op& op, int64_t times, Sums& to) {
    switch (op.kind) {
      case OpKind::kScan:
        return Scan(op, times, to);
      case OpKind::kWhile:
        return While(op, times, to);
      case OpKind::kCond:
        return Cond(op, times, to);
      case OpKind::kManual:
        return Manual(op, times, to);
      case OpKind::kCollective:
        Exchange(op, times, to);
        return Moves(op, times, to);
      default:
        break;
    }
    OpSharding none;
    if (manual_) {
      none.in.resize(op.in.size());
      none.out.resize(op.out.size());
    }
    const OpSharding& chosen = manual_ ? none : sharding_.ops.at(&op);
    for (size_t i = 0; i < op.in.size(); ++i) Operand(op, i, times, to);
    Reduced(op, chosen, times, to);
    Moves(op, times, to);
    if (program::IsOpaque(program_, op)) {
      NotCounted("the operations of `" + Printable(program::OpaqueName(op)) +
                     "` at " + Where(op) + ", and the memory that it needs",
                 "");
    } else if (program::IsMatmul(op)) {
      Matmul(op, chosen, times, to);
    } else if (op.kind == OpKind::kMap || op.kind == OpKind::kReduce) {
      const bool map = op.kind == OpKind::kMap;
      to.elements +=
          Real(times) *
          Real(CheckedProduct(map ? LocalShape(op.out[0], chosen.out[0])
                                  : LocalShape(op.in[0], chosen.in[0]))
                   .value_or(0));
    }
  }

  void Matmul(const Op& op, const OpSharding& chosen, int64_t times, Sums& to) {
    std::vector<Shape> whole;
    std::vector<Shape> local;
    for (size_t i = 0; i < 2; ++i) {
      whole.push_back(program_.ShapeOf(op.in[i]));
      local.push_back(LocalShape(op.in[i], chosen.in[i]));
    }
    double device =
        ProductFlops(op, local, LocalShape(op.out[0], chosen.out[0]));
    // A device multiplies the rows of its own groups.
    for (const int64_t d : op.Of(Attr::kRhsGroup)) {
      device *= Real(local[1][AsIndex(d)]) / Real(whole[1][AsIndex(d)]);
    }
    device *= Real(times);
    double all =
        Real(times) * ProductFlops(op, whole, program_.ShapeOf(op.out[0]));
    if (manual_) all *= Real(region_);
    if (masked_.contains(&op)) {
      all /= 2;
      device /= 2;
      to.masked += all;
      to.device_masked += device;
    }
    to.flops += all;
    to.device_flops += device;
    to.by_rate[static_cast<size_t>(RateOf(program_.values[op.in[0]].dtype))] +=
        device;
  }

  // Counts the bytes that an op reads and writes, unless it is computed again
  // where its result is read.
  void Moves(const Op& op, int64_t times, Sums& to) {
    double bytes = 0;
    for (const ValueId id : op.out) {
      const bool stored = sources_[id].size() == 1 && sources_[id][0] == id;
      if (!stored) return;
      bytes += Real(LocalBytes(id));
    }
    switch (op.kind) {
      case OpKind::kConst:
        return;
      case OpKind::kGather:
      case OpKind::kDynamicSlice:
        bytes *= 2;  // it reads no more than it writes
        break;
      case OpKind::kDynamicUpdateSlice:
        bytes = 2 * Real(LocalBytes(op.in[1]));
        break;
      default: {
        std::set<ValueId> read;
        for (const ValueId id : op.in) {
          read.insert(sources_[id].begin(), sources_[id].end());
        }
        for (const ValueId id : read) bytes += Real(LocalBytes(id));
      }
    }
    to.moved += Real(times) * bytes;
  }

  void Scan(const Op& op, int64_t times, Sums& to) {
    const Body& body = op.bodies[0];
    const size_t consts = AsIndex(op.NumberOf(Attr::kConsts));
    const size_t carry = AsIndex(op.NumberOf(Attr::kCarry));
    const int64_t turns = Times(times, op.NumberOf(Attr::kLength));
    for (size_t i = 0; i < op.in.size(); ++i) {
      if (manual_) break;
      if (i < consts + carry) {
        Bring(op, op.in[i], SpecOf(body.in[i]), times, to);
      } else {
        Operand(op, i, times, to);
      }
    }
    to.Add(Walk(body.ops, turns));
    Carry(op, body, consts, carry, turns, to);
  }

  void Carry(const Op& op, const Body& body, size_t first, size_t count,
             int64_t turns, Sums& to) {
    for (size_t i = 0; i < count; ++i) {
      Bring(op, body.out[i], SpecOf(body.in[first + i]), turns, to);
    }
  }

  void While(const Op& op, int64_t times, Sums& to) {
    const size_t first = AsIndex(op.NumberOf(Attr::kConditionConsts));
    const size_t second = AsIndex(op.NumberOf(Attr::kBodyConsts));
    const Body& body = op.bodies[1];
    for (size_t i = 0; i < first; ++i) {
      Bring(op, op.in[i], SpecOf(op.bodies[0].in[i]), times, to);
    }
    for (size_t i = 0; i < body.in.size(); ++i) {
      Bring(op, op.in[first + i], SpecOf(body.in[i]), times, to);
    }
    NotCounted(
        "how often the loop at " + Where(op) + " runs; one turn is counted",
        "a `scan` or a `fori_loop` of known length");
    to.Add(Walk(op.bodies[0].ops, times));
    to.Add(Walk(body.ops, times));
    Carry(op, body, second, op.out.size(), times, to);
  }

  // Counts the branch with the most operations, and of equal ones the first.
  void Cond(const Op& op, int64_t times, Sums& to) {
    std::optional<Sums> most;
    for (const Body& body : op.bodies) {
      Sums one;
      for (size_t i = 0; i < body.in.size(); ++i) {
        Bring(op, op.in[i + 1], SpecOf(body.in[i]), times, one);
      }
      one.Add(Walk(body.ops, times));
      for (size_t i = 0; i < op.out.size(); ++i) {
        Bring(op, body.out[i], SpecOf(op.out[i]), times, one);
      }
      const auto rank = [](const Sums& of) {
        return std::pair(of.device_flops, of.elements);
      };
      if (!most || rank(*most) < rank(one)) most = std::move(one);
    }
    branches_ = true;
    if (most) to.Add(std::move(*most));
  }

  void Manual(const Op& op, int64_t times, Sums& to) {
    for (size_t i = 0; i < op.in.size(); ++i) Operand(op, i, times, to);
    region_ = 1;
    for (const auto& [name, size] : op.region->mesh) {
      if (op.region->IsManual(name)) region_ = Times(region_, size);
    }
    manual_ = true;
    to.Add(Walk(op.bodies[0].ops, times));
    manual_ = false;
  }

  void NotCounted(std::string what, std::string settled_by) {
    AddNotKnown(
        {{.what = std::move(what), .settled_by = std::move(settled_by)}},
        out_.not_known);
  }

  // ---- memory

  bool IsStored(ValueId id) const {
    return sources_[id].size() == 1 && sources_[id][0] == id;
  }

  // Returns the most bytes that values of these ops have at a time. `results`
  // exist to the end. Those in `elsewhere` are not counted.
  int64_t Peak(const std::vector<Op>& ops, const std::vector<ValueId>& results,
               const std::set<ValueId>& elsewhere) {
    std::unordered_map<ValueId, size_t> last;
    for (size_t i = 0; i < ops.size(); ++i) {
      for (const ValueId id : ops[i].out) last[id] = i;
      for (const ValueId id : ops[i].in) {
        for (const ValueId source : sources_[id]) last[source] = i;
      }
    }
    for (const ValueId id : results) {
      for (const ValueId source : sources_[id]) last[source] = ops.size();
    }
    // The last op that reads an operand with another sharding than its own.
    std::map<std::pair<ValueId, Spec>, size_t> last_copy;
    for (size_t i = 0; i < ops.size(); ++i) {
      for (const auto& key : Copies(ops[i])) last_copy[key] = i;
    }
    std::unordered_map<ValueId, int64_t> held;
    std::map<std::pair<ValueId, Spec>, int64_t> copies;
    Size now = 0;
    int64_t most = 0;
    const auto release = [&](int64_t bytes) {
      now = now.Fits() ? now.value() - bytes : now.value();
    };
    for (size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      const auto free = [&](std::span<const ValueId> list) {
        for (const ValueId id : list) {
          for (const ValueId source : sources_[id]) {
            const auto at = held.find(source);
            if (at == held.end() || last[source] > i) continue;
            release(at->second);
            held.erase(at);
          }
        }
      };
      for (const auto& key : Copies(op)) {
        const auto [at, fresh] = copies.try_emplace(key, 0);
        if (fresh) now += at->second = LocalBytes(key.first, key.second);
      }
      // A result takes the memory of an operand that nothing reads later.
      const bool in_place = op.kind == OpKind::kMap ||
                            op.kind == OpKind::kDynamicUpdateSlice ||
                            op.kind == OpKind::kScatter;
      if (in_place) free(op.in);
      if (op.kind == OpKind::kScan) {
        free(std::span(op.in).subspan(AsIndex(op.NumberOf(Attr::kConsts)),
                                      AsIndex(op.NumberOf(Attr::kCarry))));
      }
      for (const ValueId id : op.out) {
        if (!IsStored(id) || elsewhere.contains(id)) continue;
        now += held[id] = LocalBytes(id);
      }
      most = std::max(most, (now + Working(op)).value());
      free(op.in);
      free(op.out);
      for (const auto& key : Copies(op)) {
        const auto at = copies.find(key);
        if (at == copies.end() || (shares_ && last_copy[key] > i)) continue;
        release(at->second);
        copies.erase(at);
      }
    }
    return most;
  }

  // Returns the operands that an op reads with another sharding than they are
  // stored with, and this sharding.
  std::set<std::pair<ValueId, Spec>> Copies(const Op& op) const {
    std::set<std::pair<ValueId, Spec>> out;
    const auto at = sharding_.ops.find(&op);
    if (manual_ || at == sharding_.ops.end()) return out;
    for (size_t i = 0; i < op.in.size(); ++i) {
      const Spec& spec = at->second.in[i];
      if (ClassifyMove(mesh_, SpecOf(op.in[i]), spec)) {
        out.emplace(op.in[i], spec);
      }
    }
    return out;
  }

  // Returns the bytes that exist only while an op runs: a partial sum of which
  // a shard is stored, and the values of its bodies.
  int64_t Working(const Op& op) {
    Size out = 0;
    const auto at = sharding_.ops.find(&op);
    if (!manual_ && at != sharding_.ops.end() &&
        !at->second.scattered.empty()) {
      out += LocalBytes(op.out[0], at->second.out[0]);
    }
    const bool before = manual_;
    manual_ = manual_ || op.kind == OpKind::kManual;
    int64_t most = 0;
    for (const Body& body : op.bodies) {
      most = std::max(most, Peak(body.ops, body.out, {}));
    }
    manual_ = before;
    return (out + most).value();
  }

  int64_t& MemoryAt(ProgramMemory part) {
    return out_.memory[static_cast<size_t>(part)];
  }

  void SetMemory() {
    const auto add = [&](ProgramMemory part, int64_t bytes) {
      MemoryAt(part) = (Size(MemoryAt(part)) + bytes).value();
    };
    std::vector<ValueId> replaced;
    for (const program::Input& input : program_.inputs) {
      const bool param = input.kind == program::InputKind::kParam;
      const bool data = input.kind == program::InputKind::kData;
      add(param  ? ProgramMemory::kParameters
          : data ? ProgramMemory::kData
                 : ProgramMemory::kState,
          LocalBytes(input.value));
      if (!data && request_.donates) replaced.push_back(input.value);
    }
    std::set<ValueId> in_inputs;
    for (const ValueId id : program_.outputs) {
      const program::Value& value = program_.values[id];
      const auto same = std::ranges::find_if(replaced, [&](ValueId other) {
        return program_.values[other].shape == value.shape &&
               program_.values[other].dtype == value.dtype &&
               SpecOf(other) == SpecOf(id);
      });
      if (same == replaced.end()) {
        add(ProgramMemory::kResults, LocalBytes(id));
        continue;
      }
      replaced.erase(same);
      if (sources_[id].size() == 1) in_inputs.insert(sources_[id][0]);
    }
    // Before a result is computed, temporaries may have its memory.
    MemoryAt(ProgramMemory::kTemporaries) =
        std::max<int64_t>(0, Peak(program_.ops, program_.outputs, in_inputs) -
                                 MemoryAt(ProgramMemory::kResults));
    out_.capacity = request_.capacity;
  }

  // ---- time

  void SetTime(const std::array<double, kRates>& by_rate) {
    const DeviceProfile* const profile = request_.profile;
    if (profile == nullptr) return;
    const std::optional<double> rates[kRates] = {
        profile->bf16_rate, profile->fp8_rate, profile->int8_rate, {}};
    Time time;
    double unknown = 0;
    for (size_t i = 0; i < kRates; ++i) {
      if (rates[i]) {
        time.compute +=
            by_rate[i] * Real(profile->devices_per_chip) / *rates[i];
      } else {
        unknown += by_rate[i];
      }
    }
    if (!out_.not_known.empty()) {
      out_.no_time = "the time of a step, since other facts are not known";
    } else if (unknown > kNegligible * out_.device_flops) {
      out_.no_time = "the time of a step: " + std::string(profile->name) +
                     " has no rate for the dtype of the matmuls' operands; "
                     "settled by a program whose matmuls are in bfloat16";
    }
    if (!out_.no_time.empty()) return;
    time.memory =
        out_.moved * Real(profile->devices_per_chip) / profile->memory_rate;
    for (const ProgramTransfer& one : out_.transfers) {
      time.communication += one.seconds;
    }
    time.bound = Bound::kCompute;
    if (time.memory > time.compute) time.bound = Bound::kMemory;
    if (time.communication > std::max(time.compute, time.memory)) {
      time.bound = Bound::kCommunication;
    }
    out_.time = time;
  }

  void Assume() {
    auto& out = out_.assumptions;
    out.emplace_back(
        "each op keeps the axes of its operands that its rule permits, as "
        "`verify step --program` runs it; XLA may choose other shardings");
    out.emplace_back(
        "a partial sum is reduce-scattered where all ops that read it need the "
        "same shard, and all-reduced otherwise; XLA's compiler for CPUs "
        "all-reduces it in both cases");
    out.emplace_back(
        shares_
            ? "a value is resharded once for all ops of a body that need it "
              "with the same sharding, and kept until the last of them"
            : "a value is resharded for each op that needs it");
    out.emplace_back(
        "ops run in the order of the program; loops that compute each element "
        "alone are fused into the ops that read them");
    out.emplace_back(
        request_.donates
            ? "results take the memory of parameters and state of the same "
              "shape, dtype and sharding"
            : "no input is donated: results have memory of their own");
    if (out_.masked > 0) {
      out.emplace_back(
          "half of the matmuls behind a causal mask is not computed");
    }
    if (branches_) {
      out.emplace_back("of each `cond`, the branch with the most operations");
    }
    if (request_.profile != nullptr) {
      out.push_back("rates of " + std::string(request_.profile->name) +
                    " are peak rates, without losses to launching, waiting or "
                    "padding");
    }
    for (const std::string& one : program_.assumptions) out.push_back(one);
  }

  const ProgramRequest& request_;
  const Program& program_;
  const Mesh& mesh_;
  const program::Sharding sharding_;
  const std::unordered_set<const Op*> masked_;
  const std::vector<std::vector<ValueId>> sources_;
  Network network_;
  const bool shares_;
  // The operands of the current body's ops that were resharded.
  std::set<std::pair<ValueId, Spec>> shared_;
  // The elements that the busiest device sends, by shape and both specs.
  std::map<std::tuple<Shape, Spec, Spec>, int64_t> moved_;
  int64_t region_ = 1;  // the devices of the manual region
  bool manual_ = false;
  bool branches_ = false;
  ProgramCost out_;
};

}  // namespace

std::optional<int64_t> ProgramCost::Total() const {
  Size out = 0;
  for (const int64_t bytes : memory) out += bytes;
  return out.Checked();
}

int64_t ProgramCost::Sent() const {
  Size out = 0;
  for (const ProgramTransfer& one : transfers) out += one.sent;
  return out.value();
}

std::optional<bool> ProgramCost::Fits() const {
  if (!capacity) return std::nullopt;
  const auto total = Total();
  if (!total || *total > *capacity) return false;
  return not_known.empty() ? std::optional(true) : std::nullopt;
}

bool IsCheaper(const ProgramCost& a, const ProgramCost& b) {
  const auto key = [](const ProgramCost& of) {
    return std::tuple(!of.Fits().value_or(true),
                      of.time ? of.time->Most() : 0.0, of.device_flops,
                      of.Sent(), of.Total().value_or(Size::kTooLarge));
  };
  return key(a) < key(b);
}

ProgramCost CostOfProgram(const ProgramRequest& request) {
  return Counter(request).Run();
}

}  // namespace shardc::cost
