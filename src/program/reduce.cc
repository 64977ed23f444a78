// Chooses sizes of factors, writes the program with them, and checks it. For
// example, of a matrix [stream 256, heads 8 x head_dim 32] on tp = 2:
//
//   stream    256 ->  4
//   heads       8 ->  4   two for each shard over tp
//   head_dim   32 ->  4   so that the matrix is [4, 16]
//
// Where sizes are not products, one follows from another: the tokens [65] of
// which [0:64] and [1:65] are read become [5] if 64 becomes 4. Such a size
// grows until all ops agree, and at most to the traced size. A factor of which
// an op cannot do with less keeps its size, and the search begins again with
// it. Sizes only grow, so that it ends.
#include "program/reduce.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "model/mesh_layout.h"
#include "program/read.h"
#include "program/ties.h"
#include "source/size.h"

namespace shardc::program {
namespace {

// The least size of a factor, and the elements of each shard.
constexpr int64_t kLeastSize = 4;
constexpr int64_t kEachShard = 2;
// The turns of a scan over layers.
constexpr int64_t kLayerTurns = 2;
// How often sizes are chosen again. The traced sizes are run after that.
constexpr int kMostTries = 400;

// A dimension of a value.
struct DimOf {
  ValueId value = 0;
  size_t dim = 0;
};

class Reducer {
 public:
  explicit Reducer(const ReduceRequest& request)
      : request_(request),
        real_(*request.program),
        mesh_(*request.mesh),
        ties_(TieDimensions(real_)) {}

  std::optional<ReducedProgram> Run() {
    Choose();
    for (int i = 0; i < kMostTries; ++i) {
      changed_ = false;
      Repair();
      if (changed_) continue;
      if (request_.unlike != nullptr) Distinguish(*request_.unlike);
      if (changed_) continue;
      if (!IsSmaller()) return std::nullopt;
      ReducedProgram out;
      out.program = real_;
      Write(out.program);
      CheckOps(real_.ops, out.program.ops, out.program);
      if (changed_) continue;
      out.sharding = ShardProgram(out.program, mesh_, *request_.inputs, &real_);
      CompareShardings(real_.ops, out.program.ops, out.sharding);
      if (changed_) continue;
      if (out.sharding.specs != request_.sharding->specs) return std::nullopt;
      AddSizes(out.sizes);
      out.factors = sizes_;
      return out;
    }
    return std::nullopt;
  }

 private:
  // ---- factors

  const Shape& ShapeOf(ValueId id) const { return real_.ShapeOf(id); }
  Factors FactorsOf(DimOf of) const {
    return ties_.table.Resolve(ties_.dims[of.value][of.dim]);
  }

  // Calls `visit` for each factor of a dimension that is neither a product nor
  // a sum.
  template <class Visit>
  void ForLeaves(const Factors& factors, const Visit& visit) const {
    for (const FactorId one : ties_.table.Resolve(factors)) {
      if (!ties_.table.IsSum(one)) {
        visit(one);
        continue;
      }
      for (const Factors& part : ties_.table.PartsOf(one)) {
        ForLeaves(part, visit);
      }
    }
  }

  int64_t Reduced(FactorId factor) const {
    if (!ties_.table.IsSum(factor)) {
      const auto at = sizes_.find(factor);
      return at == sizes_.end() ? ties_.table.SizeOf(factor) : at->second;
    }
    int64_t sum = 0;
    for (const Factors& part : ties_.table.PartsOf(factor)) {
      sum += Reduced(part);
    }
    return sum;
  }
  int64_t Reduced(const Factors& factors) const {
    int64_t out = 1;
    for (const FactorId one : ties_.table.Resolve(factors)) {
      out *= Reduced(one);
    }
    return out;
  }
  int64_t SizeOf(DimOf of) const {
    const int64_t size = ShapeOf(of.value)[of.dim];
    return size <= 1 ? size : Reduced(ties_.dims[of.value][of.dim]);
  }
  int64_t Traced(DimOf of) const { return ShapeOf(of.value)[of.dim]; }

  // ---- the first choice

  void Need(FactorId factor, int64_t parts) {
    int64_t& own = needs_.try_emplace(factor, 1).first->second;
    own = std::lcm(own, parts);
  }

  // Notes that axes shard a dimension. They shard its outermost factor first.
  void NeedShards(DimOf of, const AxisGroup& axes) {
    const Factors factors = FactorsOf(of);
    size_t next = 0;
    for (const FactorId factor : factors) {
      int64_t left = ties_.table.SizeOf(factor);
      int64_t parts = 1;
      while (next < axes.size() && left % mesh_.SizeOf(axes[next]) == 0) {
        left /= mesh_.SizeOf(axes[next]);
        parts *= mesh_.SizeOf(axes[next++]);
      }
      if (parts > 1) Need(factor, parts);
      if (next == axes.size()) return;
      // All of this factor is sharded, and the next one as well.
      Keep({factor});
      if (left != 1) return Keep(factors);
    }
    if (next < axes.size()) Keep(factors);
  }
  void NeedShards(ValueId id, const Spec& spec) {
    for (size_t d = 0; d < spec.size(); ++d) {
      if (!spec[d].empty()) NeedShards({id, d}, spec[d]);
    }
  }

  void NeedShards(const std::vector<Op>& ops, bool region) {
    for (const Op& op : ops) {
      const auto at = request_.sharding->ops.find(&op);
      if (!region && at != request_.sharding->ops.end()) {
        for (size_t i = 0; i < op.in.size(); ++i) {
          NeedShards(op.in[i], at->second.in[i]);
        }
        for (size_t i = 0; i < op.out.size(); ++i) {
          NeedShards(op.out[i], at->second.out[i]);
        }
      }
      if (op.kind == OpKind::kManual) KeepShares(op);
      if (op.kind == OpKind::kScan) NoteTurns(op);
      cause_ = &op;
      if (region || request_.keeps_counted) KeepCounted(op);
      cause_ = nullptr;
      for (const Body& body : op.bodies) {
        NeedShards(body.ops, region || op.kind == OpKind::kManual);
      }
    }
  }

  // The devices that share a dimension of a manual region are a factor of it.
  void KeepShares(const Op& op) {
    const Body& body = op.bodies[0];
    const auto keep = [&](ValueId global, ValueId local) {
      for (size_t d = 0; d < ShapeOf(global).size(); ++d) {
        int64_t parts =
            ShapeOf(local)[d] == 0 ? 1 : ShapeOf(global)[d] / ShapeOf(local)[d];
        for (const FactorId factor : FactorsOf({global, d})) {
          if (parts <= 1) break;
          Keep({factor});
          parts /= std::max<int64_t>(1, ties_.table.SizeOf(factor));
        }
      }
    };
    for (size_t i = 0; i < op.in.size(); ++i) keep(op.in[i], body.in[i]);
    for (size_t i = 0; i < op.out.size(); ++i) keep(op.out[i], body.out[i]);
  }

  // A scan over parameters is one over layers.
  void NoteTurns(const Op& op) {
    for (size_t i = FirstScanned(op); i < op.in.size(); ++i) {
      if (ties_.depends[op.in[i]] != kOnParams) continue;
      ForLeaves(FactorsOf({op.in[i], 0}),
                [&](FactorId leaf) { turns_.insert(leaf); });
    }
  }
  static size_t FirstScanned(const Op& op) {
    return AsIndex(op.NumberOf(Attr::kConsts) + op.NumberOf(Attr::kCarry));
  }

  // Keeps the dimensions whose indices an op counts: constants of the function
  // may be about these.
  void KeepCounted(const Op& op) {
    const auto keep = [&](ValueId id, int64_t d) { KeepDim({id, AsIndex(d)}); };
    const auto keep_all = [&](ValueId id) {
      for (size_t d = 0; d < ShapeOf(id).size(); ++d) KeepDim({id, d});
    };
    switch (op.kind) {
      case OpKind::kConst:
        return keep_all(op.out[0]);
      case OpKind::kIota:
        return keep(op.out[0], op.NumberOf(Attr::kDim));
      case OpKind::kSlice:
      case OpKind::kPad:
      case OpKind::kDynamicSlice:
      case OpKind::kDynamicUpdateSlice: {
        const bool update = op.kind == OpKind::kDynamicUpdateSlice;
        const ValueId part = update ? op.in[1] : op.out[0];
        for (size_t d = 0; d < ShapeOf(part).size(); ++d) {
          if (ShapeOf(part)[d] == ShapeOf(op.in[0])[d]) continue;
          KeepDim({part, d});
          KeepDim({op.in[0], d});
        }
        return;
      }
      case OpKind::kRev:
        for (const int64_t d : op.Of(Attr::kDims)) keep(op.in[0], d);
        return;
      case OpKind::kReduce:
        // The sum of ones is a size.
        if (!op.word.starts_with("arg") && ties_.depends[op.in[0]] != 0) return;
        for (const int64_t d : op.Of(Attr::kAxes)) keep(op.in[0], d);
        return;
      case OpKind::kDot:
        if ((ties_.depends[op.in[0]] | ties_.depends[op.in[1]]) != 0) return;
        for (const int64_t d : op.Of(Attr::kLhsContract)) keep(op.in[0], d);
        return;
      case OpKind::kConcat:
        for (const ValueId id : op.in) keep(id, op.NumberOf(Attr::kDim));
        return keep(op.out[0], op.NumberOf(Attr::kDim));
      case OpKind::kCumulative:
      case OpKind::kSort:
      case OpKind::kTopK:
        return keep(op.in[0], op.NumberOf(Attr::kDim));
      case OpKind::kGather:
      case OpKind::kScatter: {
        const bool gathers = op.kind == OpKind::kGather;
        for (const int64_t d :
             op.Of(gathers ? Attr::kStartIndexMap : Attr::kOperandDims)) {
          keep(op.in[0], d);
        }
        return;
      }
      case OpKind::kConv:
        for (const ValueId id : op.in) keep_all(id);
        return keep_all(op.out[0]);
      case OpKind::kScan:
        for (size_t i = FirstScanned(op); i < op.in.size(); ++i) {
          keep(op.in[i], 0);
        }
        return;
      case OpKind::kCollective:
        for (size_t i = 0; i < op.in.size() && i < op.out.size(); ++i) {
          if (ShapeOf(op.in[i]) == ShapeOf(op.out[i]) &&
              op.word != "all_to_all") {
            continue;
          }
          keep_all(op.in[i]);
          keep_all(op.out[i]);
        }
        return;
      default:
        return;
    }
  }

  void Choose() {
    for (ValueId id = 0; id < real_.values.size(); ++id) {
      if (id < request_.sharding->specs.size() && !ties_.dims[id].empty()) {
        NeedShards(id, request_.sharding->specs[id]);
      }
    }
    NeedShards(real_.ops, false);
    for (ValueId id = 0; id < real_.values.size(); ++id) {
      for (const Factors& dim : ties_.dims[id]) {
        ForLeaves(dim, [&](FactorId leaf) { ChooseLeaf(leaf); });
      }
    }
  }
  void ChooseLeaf(FactorId leaf) {
    if (sizes_.contains(leaf)) return;
    const int64_t traced = ties_.table.SizeOf(leaf);
    const auto need = needs_.find(leaf);
    const int64_t parts = need == needs_.end() ? 1 : need->second;
    const int64_t least = turns_.contains(leaf) ? kLayerTurns : kLeastSize;
    const int64_t size =
        ShareOf(std::max(least, kEachShard * parts), parts) * parts;
    sizes_[leaf] = std::min(traced, size);
  }

  // ---- repairs

  // Keeps the traced sizes of factors.
  void Keep(const Factors& factors) {
    ForLeaves(factors, [&](FactorId leaf) {
      const int64_t traced = ties_.table.SizeOf(leaf);
      const auto [at, fresh] = sizes_.try_emplace(leaf, traced);
      if (!fresh && at->second == traced) return;
      at->second = traced;
      changed_ = true;
      if (cause_ != nullptr) kept_.try_emplace(leaf, cause_);
    });
  }
  void KeepDim(DimOf of) {
    if (Traced(of) > 1) Keep(ties_.dims[of.value][of.dim]);
  }
  void KeepOp(const Op& op) {
    cause_ = &op;
    for (const auto* const ids : {&op.in, &op.out}) {
      for (const ValueId id : *ids) {
        for (size_t d = 0; d < ShapeOf(id).size(); ++d) KeepDim({id, d});
      }
    }
    cause_ = nullptr;
  }

  // Makes a dimension at least this large.
  void Grow(DimOf of, int64_t size) {
    const int64_t own = SizeOf(of);
    if (own >= size) return;
    const Factors factors = FactorsOf(of);
    if (size >= Traced(of)) return KeepDim(of);
    // The innermost factor that may change, or a part of a sum.
    for (size_t i = factors.size(); i-- > 0;) {
      FactorId leaf = factors[i];
      if (ties_.table.IsSum(leaf)) {
        const int64_t inner = own / std::max<int64_t>(1, Reduced(leaf));
        const int64_t more = ShareOf(size - own, std::max<int64_t>(1, inner));
        if (GrowPart(leaf, more)) return;
        continue;
      }
      const int64_t rest = own / Reduced(leaf);
      if (GrowLeaf(leaf, ShareOf(size, rest))) return;
    }
    KeepDim(of);
  }
  bool GrowLeaf(FactorId leaf, int64_t size) {
    const auto need = needs_.find(leaf);
    const int64_t parts = need == needs_.end() ? 1 : need->second;
    const int64_t traced = ties_.table.SizeOf(leaf);
    const int64_t to = std::min(traced, ShareOf(size, parts) * parts);
    if (to <= Reduced(leaf)) return false;
    sizes_[leaf] = to;
    changed_ = true;
    return true;
  }
  bool GrowPart(FactorId sum, int64_t more) {
    for (const Factors& part : ties_.table.PartsOf(sum)) {
      if (part.size() != 1 || ties_.table.IsSum(part[0])) continue;
      const int64_t own = Reduced(part[0]);
      if (own < ties_.table.SizeOf(part[0]) && GrowLeaf(part[0], own + more)) {
        return true;
      }
    }
    return false;
  }

  // Makes two dimensions of an op equal in size but for a constant: `to` is
  // `from` + `more`.
  void Follow(DimOf from, DimOf to, int64_t more) {
    const int64_t want = SizeOf(from) + more;
    const int64_t got = SizeOf(to);
    if (got < want) Grow(to, want);
    if (got > want) Grow(from, got - more);
  }

  // Makes two dimensions equal in size that are equal in the traced program,
  // although nothing ties them: 1 + 5 rows and 1 + 1 + 4 rows.
  void RepairSame(DimOf one, DimOf other) {
    if (Traced(one) == Traced(other)) Follow(one, other, 0);
  }

  void Repair() {
    for (const auto& [factor, parts] : needs_) {
      if (Reduced(factor) % parts == 0) continue;
      // The factor is a sum, or has a size that grew.
      if (ties_.table.IsSum(factor)) {
        if (!GrowPart(factor, parts - Reduced(factor) % parts)) Keep({factor});
      } else if (!GrowLeaf(factor, Reduced(factor) + 1)) {
        Keep({factor});
      }
    }
    RepairOps(real_.ops);
  }
  void RepairOps(const std::vector<Op>& ops) {
    for (const Op& op : ops) {
      cause_ = &op;
      RepairOp(op);
      cause_ = nullptr;
      for (const Body& body : op.bodies) RepairOps(body.ops);
    }
  }

  void RepairOp(const Op& op) {
    switch (op.kind) {
      case OpKind::kMap:
        for (const ValueId id : op.in) {
          for (size_t d = 0; d < ShapeOf(id).size(); ++d) {
            RepairSame({id, d}, {op.out[0], d});
          }
        }
        return;
      case OpKind::kSlice:
        for (size_t d = 0; d < ShapeOf(op.in[0]).size(); ++d) {
          RepairSlice(op, d);
        }
        return;
      case OpKind::kPad:
        for (size_t d = 0; d < ShapeOf(op.in[0]).size(); ++d) RepairPad(op, d);
        return;
      case OpKind::kConcat: {
        const size_t d = AsIndex(op.NumberOf(Attr::kDim));
        int64_t sum = 0;
        for (const ValueId id : op.in) sum += SizeOf({id, d});
        const int64_t got = SizeOf({op.out[0], d});
        if (sum == got) return;
        if (sum > got) return Grow({op.out[0], d}, sum);
        for (const ValueId id : op.in) KeepDim({id, d});
        return KeepDim({op.out[0], d});
      }
      case OpKind::kTopK: {
        const size_t d = AsIndex(op.NumberOf(Attr::kDim));
        KeepDim({op.out[0], d});
        return Grow({op.in[0], d},
                    std::min(Traced({op.in[0], d}), op.NumberOf(Attr::kK) + 2));
      }
      case OpKind::kGather:
      case OpKind::kScatter:
        return RepairSlices(op);
      case OpKind::kDynamicSlice:
      case OpKind::kDynamicUpdateSlice: {
        const bool update = op.kind == OpKind::kDynamicUpdateSlice;
        const ValueId part = update ? op.in[1] : op.out[0];
        for (size_t d = 0; d < ShapeOf(part).size(); ++d) {
          if (Traced({part, d}) == Traced({op.in[0], d})) continue;
          Grow({op.in[0], d}, SizeOf({part, d}) + 1);
        }
        return;
      }
      case OpKind::kConst:
        return RepairConst(op);
      case OpKind::kConv:
        return RepairConv(op);
      default:
        return;
    }
  }

  // ---- slices

  // Returns the boundary of the parts of a dimension that was at `bound`.
  std::optional<int64_t> Boundary(const Factors& dim, int64_t bound) const {
    const Factors factors = ties_.table.Resolve(dim);
    if (bound == 0) return 0;
    if (bound == ties_.table.SizeOf(factors)) return Reduced(factors);
    if (factors.empty() || !ties_.table.IsSum(factors[0])) return std::nullopt;
    const Factors rest(factors.begin() + 1, factors.end());
    const int64_t inner = ties_.table.SizeOf(rest);
    if (bound % inner != 0) return std::nullopt;
    int64_t left = bound / inner;
    int64_t out = 0;
    for (const Factors& part : ties_.table.PartsOf(factors[0])) {
      const int64_t size = ties_.table.SizeOf(part);
      if (left < size) {
        const auto own = Boundary(part, left);
        if (!own) return std::nullopt;
        return (out + *own) * Reduced(rest);
      }
      left -= size;
      out += Reduced(part);
    }
    return out * Reduced(rest);
  }

  struct Slice {
    int64_t start = 0, limit = 0;
  };

  static int64_t StrideOf(const Op& op, size_t d) {
    const auto stride = op.Of(Attr::kStride);
    return stride.empty() ? 1 : stride[d];
  }

  // Returns the slice of the reduced dimension; nullopt if it has none yet.
  std::optional<Slice> SliceOf(const Op& op, size_t d) const {
    const DimOf from{op.in[0], d};
    const int64_t start = op.Of(Attr::kStart)[d];
    const int64_t limit = op.Of(Attr::kLimit)[d];
    const int64_t size = Traced(from);
    const int64_t own = SizeOf(from);
    const int64_t out = SizeOf({op.out[0], d});
    if (own == size && out == Traced({op.out[0], d})) {
      return Slice{start, limit};
    }
    const int64_t stride = StrideOf(op, d);
    if (stride == 1) {
      const Factors& dim = ties_.dims[from.value][d];
      const auto begin = Boundary(dim, start);
      const auto end = Boundary(dim, limit);
      if (begin && end && *end - *begin == out) return Slice{*begin, *end};
    }
    // What is left out at both ends stays the same, or the slice itself does.
    Slice made{start, own - (size - limit)};
    if (made.limit > start && ShareOf(made.limit - start, stride) == out) {
      return made;
    }
    if (limit <= own && out == ShareOf(limit - start, stride)) {
      return Slice{start, limit};
    }
    const int64_t from_end = size - start;
    if (from_end <= own && out == ShareOf(limit - start, stride)) {
      return Slice{own - from_end, own - (size - limit)};
    }
    return std::nullopt;
  }

  void RepairSlice(const Op& op, size_t d) {
    if (SliceOf(op, d)) return;
    const DimOf from{op.in[0], d};
    const DimOf to{op.out[0], d};
    const int64_t out = Traced(to);
    const int64_t less = Traced(from) - out;
    if (StrideOf(op, d) == 1 && less < out) return Follow(from, to, -less);
    KeepDim(from);
    KeepDim(to);
  }

  struct Padding {
    int64_t low = 0, high = 0;
  };

  std::optional<Padding> PaddingOf(const Op& op, size_t d) const {
    const DimOf to{op.out[0], d};
    const int64_t low = op.Of(Attr::kLow)[d];
    const int64_t high = op.Of(Attr::kHigh)[d];
    const int64_t gaps = op.Of(Attr::kInterior)[d] *
                         std::max<int64_t>(0, SizeOf({op.in[0], d}) - 1);
    const int64_t in = SizeOf({op.in[0], d}) + gaps;
    const int64_t out = SizeOf(to);
    if (in + low + high == out) return Padding{low, high};
    if (gaps != 0 || low < 0 || high < 0) return std::nullopt;
    const Factors& dim = ties_.dims[to.value][d];
    const auto begin = Boundary(dim, low);
    const auto end = Boundary(dim, Traced(to) - high);
    if (!begin || !end || *end - *begin != in) return std::nullopt;
    return Padding{*begin, out - *end};
  }

  void RepairPad(const Op& op, size_t d) {
    if (PaddingOf(op, d)) return;
    const DimOf from{op.in[0], d};
    const DimOf to{op.out[0], d};
    const int64_t more = Traced(to) - Traced(from);
    if (op.Of(Attr::kInterior)[d] == 0 && std::abs(more) < Traced(from)) {
      return Follow(from, to, more);
    }
    KeepDim(from);
    KeepDim(to);
  }

  // The window dimensions of a gather's result or of a scatter's updates, with
  // the dimensions of the operand.
  template <class Visit>
  void ForWindow(const Op& op, const Visit& visit) const {
    const bool gathers = op.kind == OpKind::kGather;
    const auto window =
        op.Of(gathers ? Attr::kOffsetDims : Attr::kUpdateWindowDims);
    const auto removed =
        op.Of(gathers ? Attr::kCollapsedDims : Attr::kInsertedDims);
    const auto batch = op.Of(Attr::kOperandBatchDims);
    const ValueId sliced = gathers ? op.out[0] : op.in[2];
    size_t next = 0;
    for (size_t d = 0; d < ShapeOf(op.in[0]).size(); ++d) {
      if (HasDim(removed, d) || HasDim(batch, d)) continue;
      while (!HasDim(window, next)) ++next;
      visit(d, DimOf{sliced, next++});
    }
  }

  void RepairSlices(const Op& op) {
    ForWindow(op, [&](size_t d, DimOf part) {
      const DimOf from{op.in[0], d};
      if (Traced(from) == Traced(part)) return;
      KeepDim(part);
      Grow(from, Traced(part) + 1);
    });
  }

  // ---- constants

  // Returns whether the first elements of a constant stand for all of them:
  // numbers that are not counted, or integers that count.
  bool IsUniform(const Value& value) const {
    if (!value.floats.empty() || value.integers.empty()) return true;
    const auto& x = value.integers;
    if (std::ranges::all_of(x, [&](int64_t one) { return one == x[0]; })) {
      return true;
    }
    if (value.shape.size() != 1 || x.size() < 2) return false;
    for (size_t i = 1; i < x.size(); ++i) {
      if (x[i] - x[i - 1] != x[1] - x[0]) return false;
    }
    return true;
  }

  void RepairConst(const Op& op) {
    if (IsUniform(real_.values[op.out[0]])) return;
    for (size_t d = 0; d < ShapeOf(op.out[0]).size(); ++d) {
      KeepDim({op.out[0], d});
    }
  }

  // ---- convolutions

  // Returns how many results a window has along a dimension.
  int64_t WindowsOf(const Op& op, size_t i, int64_t size) const {
    const auto of = [&](Attr attr) {
      const auto list = op.Of(attr);
      return list.empty() ? int64_t{1} : list[i];
    };
    const auto padding = op.Of(Attr::kPadding);
    const int64_t taps = Traced({op.in[1], AsIndex(op.Of(Attr::kRhs)[i + 2])});
    const int64_t spread = (size - 1) * of(Attr::kLhsDilation) + 1 +
                           padding[2 * i] + padding[2 * i + 1] -
                           (taps - 1) * of(Attr::kRhsDilation) - 1;
    return spread < 0 ? 0 : spread / of(Attr::kStrides) + 1;
  }

  void RepairConv(const Op& op) {
    const auto lhs = op.Of(Attr::kLhs);
    const auto rhs = op.Of(Attr::kRhs);
    const auto result = op.Of(Attr::kResult);
    if (op.NumberOf(Attr::kBatchGroups, 1) != 1) return KeepOp(op);
    for (size_t i = 0; i + 2 < lhs.size(); ++i) {
      const DimOf from{op.in[0], AsIndex(lhs[i + 2])};
      const DimOf taps{op.in[1], AsIndex(rhs[i + 2])};
      const DimOf to{op.out[0], AsIndex(result[i + 2])};
      KeepDim(taps);
      const int64_t want = WindowsOf(op, i, SizeOf(from));
      const bool known = WindowsOf(op, i, Traced(from)) == Traced(to);
      if (known && want == SizeOf(to) && want > 0) continue;
      if (known && want > SizeOf(to)) {
        Grow(to, want);
      } else if (known && want < SizeOf(to)) {
        Grow(from, SizeOf(from) + 1);
      } else {
        KeepDim(from);
        KeepDim(to);
      }
    }
  }

  // Returns the groups of features of a reduced convolution.
  int64_t GroupsOf(const Op& op) const {
    const int64_t groups = op.NumberOf(Attr::kGroups);
    if (groups == 1) return 1;
    const int64_t all = SizeOf({op.in[0], AsIndex(op.Of(Attr::kLhs)[1])});
    const int64_t each = SizeOf({op.in[1], AsIndex(op.Of(Attr::kRhs)[1])});
    return each > 0 ? all / each : groups;
  }

  // ---- sizes that are unlike others

  // Returns the whole numbers that the ops have, and those of which they have
  // the reciprocals.
  std::set<int64_t> NumbersOfOps() const {
    std::set<int64_t> out;
    const auto add = [&](double number) {
      constexpr double kMost = 1 << 20;
      for (const double x : {number, 1 / number}) {
        if (std::abs(x) <= kMost && x == std::floor(x)) {
          out.insert(static_cast<int64_t>(x));
        }
      }
    };
    for (const Value& value : real_.values) {
      out.insert(value.integers.begin(), value.integers.end());
      for (const double number : value.floats) add(number);
    }
    return out;
  }

  // Grows sizes that another factor has, that a constant is, or that were
  // chosen before. A sum over a dimension can be any of its size, the number of
  // another dimension, and a constant: they are the same number only where the
  // traced ones are.
  void Distinguish(const ReducedProgram& before) {
    if (!numbers_) numbers_ = NumbersOfOps();
    std::map<int64_t, int64_t> traced_of;  // of each size
    for (const auto& [leaf, size] : sizes_) {
      if (size == ties_.table.SizeOf(leaf)) traced_of.emplace(size, size);
    }
    for (auto& [leaf, size] : sizes_) {
      const int64_t traced = ties_.table.SizeOf(leaf);
      const auto old = before.factors.find(leaf);
      const auto is_taken = [&](int64_t one) {
        const auto other = traced_of.find(one);
        return numbers_->contains(one) ||
               (old != before.factors.end() && old->second == one) ||
               (other != traced_of.end() && other->second != traced);
      };
      while (size < traced && is_taken(size)) GrowLeaf(leaf, size + 1);
      traced_of.emplace(size, traced);
    }
  }

  // ---- the program with these sizes

  bool IsSmaller() const {
    return std::ranges::any_of(sizes_, [&](const auto& one) {
      return one.second < ties_.table.SizeOf(one.first);
    });
  }

  void Write(Program& out) const {
    for (ValueId id = 0; id < out.values.size(); ++id) {
      Value& value = out.values[id];
      const Shape before = value.shape;
      for (size_t d = 0; d < value.shape.size(); ++d) {
        if (d < ties_.dims[id].size()) value.shape[d] = SizeOf({id, d});
      }
      if (value.shape == before) continue;
      value.integers = FirstOf(value.integers, before, value.shape);
      value.floats = FirstOf(value.floats, before, value.shape);
    }
    WriteOps(real_.ops, out.ops);
  }

  // Returns the elements of an array that begin each dimension.
  template <class T>
  static std::vector<T> FirstOf(const std::vector<T>& from, const Shape& before,
                                const Shape& shape) {
    const int64_t count = CheckedProduct(shape).value_or(0);
    if (from.empty() || count > static_cast<int64_t>(from.size())) return from;
    std::vector<T> out;
    for (int64_t at = 0; at < count; ++at) {
      int64_t rest = at;
      int64_t offset = 0;
      int64_t step = 1;
      for (size_t d = shape.size(); d-- > 0;) {
        offset += rest % shape[d] * step;
        rest /= shape[d];
        step *= before[d];
      }
      out.push_back(from[AsIndex(offset)]);
    }
    return out;
  }

  static Numbers& Attribute(Op& op, Attr attr) {
    return std::ranges::find(op.numbers, attr, &std::pair<Attr, Numbers>::first)
        ->second;
  }

  void WriteOps(const std::vector<Op>& from, std::vector<Op>& to) const {
    for (size_t i = 0; i < from.size(); ++i) {
      WriteOp(from[i], to[i]);
      for (size_t k = 0; k < from[i].bodies.size(); ++k) {
        WriteOps(from[i].bodies[k].ops, to[i].bodies[k].ops);
      }
    }
  }

  void WriteOp(const Op& op, Op& out) const {
    const auto dims_of = [&](ValueId id) { return ShapeOf(id).size(); };
    switch (op.kind) {
      case OpKind::kSlice:
        for (size_t d = 0; d < dims_of(op.in[0]); ++d) {
          const auto slice = SliceOf(op, d);
          if (!slice) continue;
          Attribute(out, Attr::kStart)[d] = slice->start;
          Attribute(out, Attr::kLimit)[d] = slice->limit;
        }
        return;
      case OpKind::kPad:
        for (size_t d = 0; d < dims_of(op.in[0]); ++d) {
          const auto padding = PaddingOf(op, d);
          if (!padding) continue;
          Attribute(out, Attr::kLow)[d] = padding->low;
          Attribute(out, Attr::kHigh)[d] = padding->high;
        }
        return;
      case OpKind::kGather:
        ForWindow(op, [&](size_t d, DimOf part) {
          Attribute(out, Attr::kSliceSizes)[d] = SizeOf(part);
        });
        // Constant indices, such as buckets of distances, may be outside of
        // fewer rows.
        if ((ties_.depends[op.in[1]] & kOnData) == 0 &&
            out.mode == IndexMode::kFill) {
          out.mode = IndexMode::kClip;
        }
        return;
      case OpKind::kDynamicSlice:
        for (size_t d = 0; d < dims_of(op.out[0]); ++d) {
          Attribute(out, Attr::kSizes)[d] = SizeOf({op.out[0], d});
        }
        return;
      case OpKind::kConv:
        Attribute(out, Attr::kGroups) = {GroupsOf(op)};
        return;
      case OpKind::kScan:
        Attribute(out, Attr::kLength) = {LengthOf(op)};
        return;
      default:
        return;
    }
  }

  int64_t LengthOf(const Op& op) const {
    const size_t first = FirstScanned(op);
    if (first < op.in.size()) return SizeOf({op.in[first], 0});
    const size_t carry = AsIndex(op.NumberOf(Attr::kCarry));
    if (carry < op.out.size()) return SizeOf({op.out[carry], 0});
    return op.NumberOf(Attr::kLength);
  }

  // ---- checks

  void CheckOps(const std::vector<Op>& before, const std::vector<Op>& now,
                const Program& made) {
    for (size_t i = 0; i < before.size(); ++i) {
      const Op& op = before[i];
      if (!ShapeFault(made, now[i]).empty() || !SameSplits(op, made)) {
        KeepOp(op);
        continue;
      }
      if (op.bodies.empty() && op.kind != OpKind::kCollective) {
        CompareRules(op, now[i], made);
      }
      for (size_t k = 0; k < op.bodies.size(); ++k) {
        CheckOps(op.bodies[k].ops, now[i].bodies[k].ops, made);
      }
    }
  }

  // Returns whether a manual region has the same shards, and a collective the
  // same parts, as before.
  bool SameSplits(const Op& op, const Program& made) const {
    const auto same = [&](ValueId whole, ValueId part) {
      const Shape& a = ShapeOf(whole);
      const Shape& b = ShapeOf(part);
      const Shape& c = made.ShapeOf(whole);
      const Shape& d = made.ShapeOf(part);
      if (a.size() != b.size()) return a == c && b == d;
      for (size_t i = 0; i < a.size(); ++i) {
        if (a[i] * d[i] != b[i] * c[i]) return false;
      }
      return true;
    };
    if (op.kind == OpKind::kManual) {
      const Body& body = op.bodies[0];
      for (size_t i = 0; i < op.in.size(); ++i) {
        if (!same(op.in[i], body.in[i])) return false;
      }
      for (size_t i = 0; i < op.out.size(); ++i) {
        if (!same(op.out[i], body.out[i])) return false;
      }
    }
    if (op.kind != OpKind::kCollective) return true;
    for (size_t i = 0; i < std::min(op.in.size(), op.out.size()); ++i) {
      if (!same(op.in[i], op.out[i])) return false;
    }
    return true;
  }

  void CompareRules(const Op& op, const Op& now, const Program& made) {
    const OpRule before = RuleOf(real_, op);
    const OpRule after = RuleOf(made, now);
    const auto same = [](const OpFactor& a, const OpFactor& b) {
      return a.use == b.use;
    };
    if (before.in == after.in && before.out == after.out &&
        std::ranges::equal(before.factors, after.factors, same)) {
      return;
    }
    KeepOp(op);
  }

  void CompareShardings(const std::vector<Op>& before,
                        const std::vector<Op>& now, const Sharding& sharding) {
    for (size_t i = 0; i < before.size(); ++i) {
      const auto real = request_.sharding->ops.find(&before[i]);
      const auto made = sharding.ops.find(&now[i]);
      if (real != request_.sharding->ops.end() && made != sharding.ops.end() &&
          !Same(real->second, made->second)) {
        // What follows differs as well.
        KeepOp(before[i]);
        if (changed_) return;
      }
      for (size_t k = 0; k < before[i].bodies.size(); ++k) {
        CompareShardings(before[i].bodies[k].ops, now[i].bodies[k].ops,
                         sharding);
        if (changed_) return;
      }
    }
  }
  static bool Same(const OpSharding& a, const OpSharding& b) {
    return a.in == b.in && a.out == b.out && a.reductions == b.reductions &&
           a.scattered == b.scattered;
  }

  // ---- the report

  void AddSizes(std::vector<ReducedSize>& out) const {
    std::set<FactorId> seen;
    const auto add = [&](ValueId id, const Input* input) {
      for (size_t d = 0; d < ties_.dims[id].size(); ++d) {
        ForLeaves(ties_.dims[id][d], [&](FactorId leaf) {
          if (!seen.insert(leaf).second) return;
          const int64_t traced = ties_.table.SizeOf(leaf);
          const int64_t run = Reduced(leaf);
          const auto kept = kept_.find(leaf);
          if (run == traced && (kept == kept_.end() || traced <= kLeastSize)) {
            return;
          }
          ReducedSize& made = out.emplace_back();
          made.traced = traced;
          made.run = run;
          if (input != nullptr) made.input = input->name;
          made.dim = d;
          if (kept == kept_.end() || run < traced) return;
          made.kept_by = NameOf(*kept->second);
          made.at = kept->second->at;
        });
      }
    };
    for (const Input& input : real_.inputs) add(input.value, &input);
    for (ValueId id = 0; id < real_.values.size(); ++id) add(id, nullptr);
  }

  const ReduceRequest& request_;
  const Program& real_;
  const Mesh& mesh_;
  const Ties ties_;
  std::map<FactorId, int64_t> sizes_;  // of factors without factors or parts
  std::map<FactorId, int64_t> needs_;  // by what sizes must be divisible
  std::set<FactorId> turns_;           // factors that count layers
  std::map<FactorId, const Op*> kept_;
  std::optional<std::set<int64_t>> numbers_;  // that the ops have
  const Op* cause_ = nullptr;                 // the op for which sizes are kept
  bool changed_ = false;
};

// Gives the values of ops other numbers.
void Renumber(std::vector<Op>& ops, const std::vector<ValueId>& to) {
  const auto change = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) id = to[id];
  };
  for (Op& op : ops) {
    change(op.in);
    change(op.out);
    for (Body& body : op.bodies) {
      change(body.in);
      change(body.out);
      Renumber(body.ops, to);
    }
  }
}

// Two programs of the same inputs as one, and the numbers there of the second
// one's values.
struct Both {
  Program program;
  std::vector<ValueId> numbers;
};

// Returns nullopt if the programs have other inputs or results.
std::optional<Both> JoinedPrograms(const Program& first,
                                   const Program& second) {
  Both out{first, std::vector<ValueId>(second.values.size())};
  std::vector<bool> found(second.values.size(), false);
  for (const Input& input : second.inputs) {
    const auto at = std::ranges::find_if(first.inputs, [&](const Input& one) {
      return one.kind == input.kind && one.name == input.name &&
             first.ShapeOf(one.value) == second.ShapeOf(input.value);
    });
    if (at == first.inputs.end()) return std::nullopt;
    out.numbers[input.value] = at->value;
    found[input.value] = true;
  }
  for (ValueId id = 0; id < second.values.size(); ++id) {
    if (found[id]) continue;
    out.numbers[id] = static_cast<ValueId>(out.program.values.size());
    out.program.values.push_back(second.values[id]);
  }
  std::vector<Op> ops = second.ops;
  Renumber(ops, out.numbers);
  std::ranges::move(ops, std::back_inserter(out.program.ops));
  // Results that are compared have the same sizes.
  if (first.outputs.size() != second.outputs.size()) return std::nullopt;
  for (size_t i = 0; i < first.outputs.size(); ++i) {
    const ValueId a = first.outputs[i];
    const ValueId b = second.outputs[i];
    if (first.ShapeOf(a) != second.ShapeOf(b)) return std::nullopt;
    Op op;
    op.kind = OpKind::kMap;
    op.word = "sub";
    op.in = {a, out.numbers[b]};
    op.out = {static_cast<ValueId>(out.program.values.size())};
    out.program.values.push_back(first.values[a]);
    out.program.ops.push_back(std::move(op));
  }
  return out;
}

// Takes the second program out of both: its values have the numbers and its ops
// the places that they had.
Program Separated(const Program& both, const std::vector<ValueId>& numbers,
                  size_t ops_before, const Program& second) {
  Program out = second;
  std::vector<ValueId> back(both.values.size(), 0);
  for (ValueId id = 0; id < numbers.size(); ++id) {
    out.values[id] = both.values[numbers[id]];
    back[numbers[id]] = id;
  }
  for (size_t i = 0; i < out.ops.size(); ++i) {
    out.ops[i] = both.ops[ops_before + i];
  }
  Renumber(out.ops, back);
  return out;
}

std::optional<ReducedProgram> ReduceBoth(const ReduceRequest& request) {
  const Program& first = *request.program;
  const auto both = JoinedPrograms(first, *request.reference);
  if (!both) return std::nullopt;
  const Sharding sharding =
      ShardProgram(both->program, *request.mesh, *request.inputs, nullptr);
  ReduceRequest joined = request;
  joined.program = &both->program;
  joined.sharding = &sharding;
  auto out = Reducer(joined).Run();
  if (!out) return std::nullopt;
  out->reference = Separated(out->program, both->numbers, first.ops.size(),
                             *request.reference);
  out->program.ops.resize(first.ops.size());
  out->program.values.resize(first.values.size());
  out->sharding =
      ShardProgram(out->program, *request.mesh, *request.inputs, &first);
  if (out->sharding.specs != request.sharding->specs) return std::nullopt;
  return out;
}

}  // namespace

std::optional<ReducedProgram> ReduceProgram(const ReduceRequest& request) {
  if (request.reference != nullptr) return ReduceBoth(request);
  return Reducer(request).Run();
}

}  // namespace shardc::program
