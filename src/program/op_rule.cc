// The sharding rule of each op class. A rule names the factors that an op's
// dimensions have in common, so that one procedure (sharding.cc) serves all
// classes:
//
//   dot of x [b, d] and w [d, f]  ->  factors b, d (a sum) and f
//   reshape [n*h] to [n, h]       ->  factors n and h; the dimension is n h
#include <algorithm>
#include <numeric>
#include <utility>

#include "program/read.h"
#include "program/sharding.h"
#include "source/size.h"

namespace shardc::program {
namespace {

class RuleMaker {
 public:
  RuleMaker(const Program& program, const Op& op) : program_(program), op_(op) {
    for (const ValueId id : op.in) {
      rule_.in.emplace_back(program.ShapeOf(id).size());
    }
    for (const ValueId id : op.out) {
      rule_.out.emplace_back(program.ShapeOf(id).size());
    }
  }

  OpRule Make() {
    switch (IsOpaque(program_, op_) ? OpKind::kOpaque : op_.kind) {
      case OpKind::kMap:
        Map();
        break;
      case OpKind::kBroadcast: {
        const auto dims = op_.Of(Attr::kDims);
        for (size_t d = 0; d < dims.size(); ++d) {
          if (In(0)[d] == Out()[AsIndex(dims[d])]) Tie(0, d, AsIndex(dims[d]));
        }
        // Copies along the other dimensions can be on any devices.
        for (size_t d = 0; d < Out().size(); ++d) {
          const int64_t factor = rule_.out[0][d].empty() ? New(Out()[d]) : -1;
          if (factor >= 0) rule_.out[0][d] = {factor};
        }
        break;
      }
      case OpKind::kReduce:
        Reduce();
        break;
      case OpKind::kReshape:
        Reshape();
        break;
      case OpKind::kTranspose: {
        const auto perm = op_.Of(Attr::kPerm);
        for (size_t d = 0; d < perm.size(); ++d) Tie(0, AsIndex(perm[d]), d);
        break;
      }
      case OpKind::kSlice: {
        const auto stride = op_.Of(Attr::kStride);
        for (size_t d = 0; d < Out().size(); ++d) {
          if (Out()[d] == In(0)[d] && (stride.empty() || stride[d] == 1)) {
            Tie(0, d, d);
          }
        }
        break;
      }
      case OpKind::kConcat:
        Along();
        break;
      case OpKind::kPad:
        for (size_t d = 0; d < Out().size(); ++d) {
          if (op_.Of(Attr::kLow)[d] == 0 && op_.Of(Attr::kHigh)[d] == 0 &&
              op_.Of(Attr::kInterior)[d] == 0) {
            Tie(0, d, d);
          }
        }
        break;
      case OpKind::kRev:
        for (size_t d = 0; d < Out().size(); ++d) {
          if (!HasDim(op_.Of(Attr::kDims), d)) Tie(0, d, d);
        }
        break;
      case OpKind::kCumulative:
      case OpKind::kSort:
      case OpKind::kTopK:
        Along();
        break;
      case OpKind::kDot:
      case OpKind::kRaggedDot:
        Dot();
        break;
      case OpKind::kConv:
        Conv();
        break;
      case OpKind::kGather:
        Slices(rule_.out[0], Out(), op_.Of(Attr::kOffsetDims),
               op_.Of(Attr::kCollapsedDims), FactorUse::kPass);
        Looked(op_.Of(Attr::kStartIndexMap), op_.Of(Attr::kCollapsedDims));
        break;
      case OpKind::kScatter: {
        const bool sums = op_.word == "add" || op_.word == "sub";
        Slices(rule_.in[2], In(2), op_.Of(Attr::kUpdateWindowDims),
               op_.Of(Attr::kInsertedDims),
               sums ? FactorUse::kSum : FactorUse::kNeeded);
        // Each device applies only the updates of rows in its own shard.
        for (const int64_t d : op_.Of(Attr::kInsertedDims)) {
          const int64_t factor = New(In(0)[AsIndex(d)]);
          if (factor >= 0) rule_.in[0][AsIndex(d)] = {factor};
        }
        rule_.out[0] = rule_.in[0];
        break;
      }
      case OpKind::kDynamicSlice:
      case OpKind::kDynamicUpdateSlice: {
        const bool update = op_.kind == OpKind::kDynamicUpdateSlice;
        const Shape& part = update ? In(1) : Out();
        for (size_t d = 0; d < part.size(); ++d) {
          if (part[d] != In(0)[d]) continue;
          Tie(0, d, d);
          if (update) rule_.in[1][d] = rule_.in[0][d];
        }
        break;
      }
      case OpKind::kSolve: {
        const size_t rank = Out().size();
        const bool left = op_.NumberOf(Attr::kLeftSide) != 0;
        for (size_t d = 0; d < rank; ++d) {
          if (d + 2 == rank ? left : d + 1 == rank && !left) continue;
          Tie(1, d, d);
          if (d + 2 < rank) rule_.in[0][d] = rule_.in[1][d];
        }
        break;
      }
      case OpKind::kConstraint:
        for (size_t d = 0; d < Out().size(); ++d) Tie(0, d, d);
        break;
      default:
        break;
    }
    // All other dimensions of operands are needed.
    for (size_t i = 0; i < op_.in.size(); ++i) {
      for (size_t d = 0; d < rule_.in[i].size(); ++d) {
        if (!rule_.in[i][d].empty() || In(i)[d] <= 1) continue;
        rule_.in[i][d] = {New(In(i)[d], FactorUse::kNeeded)};
      }
    }
    return std::move(rule_);
  }

 private:
  const Shape& In(size_t i) const { return program_.ShapeOf(op_.in[i]); }
  const Shape& Out() const { return program_.ShapeOf(op_.out[0]); }

  // Returns a new factor, or -1 for a size of 1 or 0.
  int64_t New(int64_t size, FactorUse use = FactorUse::kPass) {
    if (size <= 1) return -1;
    rule_.factors.push_back({size, use});
    return static_cast<int64_t>(rule_.factors.size()) - 1;
  }
  void Tie(size_t operand, size_t from, size_t to, size_t result = 0) {
    const int64_t factor = New(In(operand)[from]);
    if (factor < 0) return;
    rule_.in[operand][from] = {factor};
    rule_.out[result][to] = {factor};
  }

  void Map() {
    for (size_t d = 0; d < Out().size(); ++d) {
      const int64_t factor = New(Out()[d]);
      if (factor < 0) continue;
      rule_.out[0][d] = {factor};
      for (size_t i = 0; i < op_.in.size(); ++i) {
        if (!In(i).empty() && In(i)[d] == Out()[d]) rule_.in[i][d] = {factor};
      }
    }
  }

  // All dimensions of all operands and results but one are the same.
  void Along() {
    const size_t dim = AsIndex(op_.NumberOf(Attr::kDim));
    for (size_t d = 0; d < In(0).size(); ++d) {
      const int64_t factor = d == dim ? -1 : New(In(0)[d]);
      if (factor < 0) continue;
      for (auto& dims : rule_.in) dims[d] = {factor};
      for (auto& dims : rule_.out) dims[d] = {factor};
    }
  }

  void Reduce() {
    const std::string& fn = op_.word;
    const FactorUse use = fn == "sum"                  ? FactorUse::kSum
                          : fn == "max" || fn == "or"  ? FactorUse::kMax
                          : fn == "min" || fn == "and" ? FactorUse::kMin
                                                       : FactorUse::kNeeded;
    size_t to = 0;
    for (size_t d = 0; d < In(0).size(); ++d) {
      if (!HasDim(op_.Of(Attr::kAxes), d)) {
        Tie(0, d, to++);
        continue;
      }
      const int64_t factor = New(In(0)[d], use);
      if (factor >= 0) rule_.in[0][d] = {factor};
    }
  }

  // Divides both shapes into runs of dimensions with the same product, and each
  // run into the factors of both.
  void Reshape() {
    const Shape& from = In(0);
    const Shape& to = Out();
    size_t i = 0;
    size_t j = 0;
    // What is left of the sizes of dimensions i and j, from the major end.
    int64_t a = 1;
    int64_t b = 1;
    Numbers in;
    Numbers out;
    if (CheckedProduct(from) == 0) return;
    while (true) {
      while (a == 1 && i < from.size()) a = from[i++];
      while (b == 1 && j < to.size()) b = to[j++];
      if (a == 1 && b == 1) return;
      if (a <= 1 || b <= 1) return;
      const int64_t shared = std::gcd(a, b);
      if (shared != std::min(a, b)) {
        // No common refinement: nothing more of this run is tied. The next
        // dimensions begin where both products are equal.
        int64_t left = a;
        int64_t right = b;
        while (left != right) {
          if (left < right) {
            if (i >= from.size()) return;
            left *= from[i++];
          } else {
            if (j >= to.size()) return;
            right *= to[j++];
          }
        }
        a = b = 1;
        continue;
      }
      const int64_t factor = New(shared);
      rule_.in[0][i - 1].push_back(factor);
      rule_.out[0][j - 1].push_back(factor);
      a /= shared;
      b /= shared;
    }
  }

  void Dot() {
    const auto lc = op_.Of(Attr::kLhsContract);
    const auto rc = op_.Of(Attr::kRhsContract);
    const auto lb = op_.Of(Attr::kLhsBatch);
    const auto rb = op_.Of(Attr::kRhsBatch);
    const auto ragged = op_.Of(Attr::kLhsRagged);
    const auto group = op_.Of(Attr::kRhsGroup);
    const bool is_ragged = op_.kind == OpKind::kRaggedDot;
    size_t to = is_ragged && group.empty() ? 1 : 0;
    for (size_t i = 0; i < lb.size(); ++i) {
      Tie(0, AsIndex(lb[i]), to++);
      rule_.in[1][AsIndex(rb[i])] = rule_.in[0][AsIndex(lb[i])];
    }
    for (size_t i = 0; i < lc.size(); ++i) {
      const int64_t factor = HasDim(ragged, AsIndex(lc[i]))
                                 ? -1
                                 : New(In(0)[AsIndex(lc[i])], FactorUse::kSum);
      if (factor < 0) continue;
      rule_.in[0][AsIndex(lc[i])] = {factor};
      rule_.in[1][AsIndex(rc[i])] = {factor};
    }
    // A device multiplies the rows of its own groups. Those of the others stay
    // zero, so that the result is a partial sum.
    if (!group.empty()) {
      const int64_t factor = New(In(1)[AsIndex(group[0])], FactorUse::kSum);
      if (factor >= 0) rule_.in[1][AsIndex(group[0])] = {factor};
    }
    for (size_t d = 0; d < In(0).size(); ++d) {
      if (HasDim(lc, d) || HasDim(lb, d)) continue;
      if (HasDim(ragged, d)) {
        ++to;
      } else {
        Tie(0, d, to++);
      }
    }
    for (size_t d = 0; d < In(1).size(); ++d) {
      if (!HasDim(rc, d) && !HasDim(rb, d) && !HasDim(group, d)) {
        Tie(1, d, to++);
      }
    }
  }

  void Conv() {
    const auto lhs = op_.Of(Attr::kLhs);
    const auto rhs = op_.Of(Attr::kRhs);
    const auto result = op_.Of(Attr::kResult);
    const int64_t groups = op_.NumberOf(Attr::kGroups);
    if (op_.NumberOf(Attr::kBatchGroups, 1) != 1) return;
    Tie(0, AsIndex(lhs[0]), AsIndex(result[0]));
    if (groups == 1) {
      Tie(1, AsIndex(rhs[0]), AsIndex(result[1]));
      const int64_t factor = New(In(0)[AsIndex(lhs[1])], FactorUse::kSum);
      if (factor < 0) return;
      rule_.in[0][AsIndex(lhs[1])] = {factor};
      rule_.in[1][AsIndex(rhs[1])] = {factor};
    } else if (groups == In(0)[AsIndex(lhs[1])] &&
               groups == In(1)[AsIndex(rhs[0])]) {
      Tie(0, AsIndex(lhs[1]), AsIndex(result[1]));
      rule_.in[1][AsIndex(rhs[0])] = rule_.in[0][AsIndex(lhs[1])];
    }
  }

  // Ties the slices of a gather's result or of a scatter's updates, `sliced`,
  // to the operand and to the indices. `use` is that of dimensions of the
  // indices.
  void Slices(std::vector<Numbers>& sliced, const Shape& shape,
              std::span<const int64_t> window, std::span<const int64_t> removed,
              FactorUse use) {
    const auto batch = op_.Of(Attr::kOperandBatchDims);
    const auto indices_batch = op_.Of(Attr::kIndicesBatchDims);
    std::vector<size_t> kept;
    for (size_t d = 0; d < In(0).size(); ++d) {
      if (!HasDim(removed, d) && !HasDim(batch, d)) kept.push_back(d);
    }
    size_t of_slice = 0;
    size_t of_indices = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (HasDim(window, d)) {
        const size_t from = kept[of_slice++];
        const int64_t factor = In(0)[from] == shape[d] ? New(shape[d]) : -1;
        if (factor < 0) continue;
        rule_.in[0][from] = {factor};
        sliced[d] = {factor};
        continue;
      }
      const size_t from = of_indices++;
      const auto* const at = std::ranges::find(
          indices_batch.data(), indices_batch.data() + indices_batch.size(),
          static_cast<int64_t>(from));
      const auto which = at - indices_batch.data();
      const bool batched = which < static_cast<int64_t>(indices_batch.size());
      const int64_t factor = New(shape[d], batched ? FactorUse::kPass : use);
      if (factor < 0) continue;
      rule_.in[1][from] = {factor};
      sliced[d] = {factor};
      if (batched) rule_.in[0][AsIndex(batch[AsIndex(which)])] = {factor};
    }
  }

  // A device looks up the rows that it has. The others are zeros there.
  void Looked(std::span<const int64_t> map, std::span<const int64_t> removed) {
    for (const int64_t d : map) {
      if (!HasDim(removed, AsIndex(d))) continue;
      const int64_t factor = New(In(0)[AsIndex(d)], FactorUse::kSum);
      if (factor >= 0) rule_.in[0][AsIndex(d)] = {factor};
    }
  }

  const Program& program_;
  const Op& op_;
  OpRule rule_;
};

}  // namespace

OpRule RuleOf(const Program& program, const Op& op) {
  return RuleMaker(program, op).Make();
}

}  // namespace shardc::program
