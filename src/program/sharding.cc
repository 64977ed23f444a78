// The sharding rule of each op class, and the choice of shardings. A rule names
// the factors that an op's dimensions have in common, so that one procedure
// serves all classes:
//
//   dot of x [b, d] and w [d, f]  ->  factors b, d (a sum) and f
//   reshape [n*h] to [n, h]       ->  factors n and h; the dimension is n h
//
// If `x` is sharded over dp in b, and `w` over fsdp in d and over tp in f, then
// b has dp, f has tp, and d has fsdp: the result is [b:dp, f:tp], a partial sum
// over fsdp, and `x` is sliced over fsdp. If both b and d would have fsdp, the
// operand that depends on data keeps it, and the other one is gathered.
#include "program/sharding.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "program/runnable.h"
#include "program/ties.h"
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
        // Each device applies the updates that its own rows get.
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

// The axes that both groups begin with.
AxisGroup CommonPrefix(const AxisGroup& a, const AxisGroup& b) {
  const auto [end, other] = std::ranges::mismatch(a, b);
  return {a.begin(), end};
}

class Sharder {
 public:
  Sharder(const Program& program, const Mesh& mesh)
      : program_(program),
        mesh_(mesh),
        depends_(TieDimensions(program).depends) {
    out_.specs.resize(program.values.size());
  }

  Sharding Run(const std::vector<Spec>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId value = program_.inputs[i].value;
      out_.specs[value] = inputs[i];
      out_.specs[value].resize(program_.ShapeOf(value).size());
    }
    Walk(program_.ops);
    return std::move(out_);
  }

 private:
  void Walk(const std::vector<Op>& ops) {
    for (const Op& op : ops) {
      OpSharding one;
      switch (op.kind) {
        case OpKind::kScan:
          one = Scan(op);
          break;
        case OpKind::kWhile:
          one = While(op);
          break;
        case OpKind::kCond:
          one = Cond(op);
          break;
        case OpKind::kManual:
          one.in = op.region->in_specs;
          one.out = op.region->out_specs;
          break;
        default:
          one = Choose(op);
          break;
      }
      for (size_t i = 0; i < op.in.size(); ++i) {
        one.in[i].resize(program_.ShapeOf(op.in[i]).size());
      }
      for (size_t i = 0; i < op.out.size(); ++i) {
        one.out[i].resize(program_.ShapeOf(op.out[i]).size());
        out_.specs[op.out[i]] = one.out[i];
      }
      out_.ops[&op] = std::move(one);
    }
  }

  // ---- the choice for an op without a body

  // Sets the axes of factors to those of an operand's dimension, as far as
  // their sizes divide the factors and no other factor has them.
  void Take(const OpRule& rule, const Numbers& dim, const AxisGroup& axes,
            std::vector<AxisGroup>& chosen, std::set<std::string>& used) const {
    size_t next = 0;
    for (const int64_t number : dim) {
      const size_t factor = AsIndex(number);
      if (rule.factors[factor].use == FactorUse::kNeeded) return;
      int64_t left = rule.factors[factor].size;
      AxisGroup own;
      while (next < axes.size() && left % mesh_.SizeOf(axes[next]) == 0) {
        left /= mesh_.SizeOf(axes[next]);
        own.push_back(axes[next++]);
      }
      if (own.empty()) return;
      if (chosen[factor].empty()) {
        for (const std::string& axis : own) {
          if (!used.insert(axis).second) return;
          chosen[factor].push_back(axis);
        }
      } else if (chosen[factor] != own) {
        return;
      }
      if (left != 1) return;
    }
  }

  // Returns the axes of a dimension. Removes the axes of factors after one that
  // its axes do not divide into single indices, and sets `changed`.
  AxisGroup AxesOf(const OpRule& rule, const Numbers& dim,
                   std::vector<AxisGroup>& chosen, bool& changed) const {
    AxisGroup out;
    bool whole = true;
    for (const int64_t number : dim) {
      AxisGroup& own = chosen[AsIndex(number)];
      if (!whole && !own.empty()) {
        own.clear();
        changed = true;
      }
      out.insert(out.end(), own.begin(), own.end());
      whole = whole && mesh_.Parts(own) == rule.factors[AsIndex(number)].size;
    }
    return out;
  }

  AxisGroup WithoutTrivial(const AxisGroup& axes) const {
    AxisGroup out;
    for (const std::string& axis : axes) {
      if (mesh_.SizeOf(axis) > 1) out.push_back(axis);
    }
    return out;
  }

  OpSharding Choose(const Op& op) const {
    const OpRule rule = RuleOf(program_, op);
    std::vector<size_t> order(op.in.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) {
      const bool data_a = (depends_[op.in[a]] & kOnData) != 0;
      const bool data_b = (depends_[op.in[b]] & kOnData) != 0;
      if (data_a != data_b) return data_a;
      return CheckedProduct(program_.ShapeOf(op.in[a])) >
             CheckedProduct(program_.ShapeOf(op.in[b]));
    });
    std::vector<AxisGroup> chosen(rule.factors.size());
    std::set<std::string> used;
    for (const size_t i : order) {
      for (size_t d = 0; d < rule.in[i].size(); ++d) {
        Take(rule, rule.in[i][d], WithoutTrivial(out_.specs[op.in[i]][d]),
             chosen, used);
      }
    }
    OpSharding out;
    bool changed = true;
    while (changed) {
      changed = false;
      out.in.clear();
      out.out.clear();
      const auto add = [&](const std::vector<Numbers>& dims) {
        Spec spec;
        for (const Numbers& dim : dims) {
          spec.push_back(AxesOf(rule, dim, chosen, changed));
        }
        return spec;
      };
      for (const auto& dims : rule.in) out.in.push_back(add(dims));
      for (const auto& dims : rule.out) out.out.push_back(add(dims));
    }
    for (size_t f = 0; f < chosen.size(); ++f) {
      if (chosen[f].empty() || rule.factors[f].use == FactorUse::kPass)
        continue;
      out.reductions.emplace_back(chosen[f], rule.factors[f].use);
    }
    for (size_t i = 0; i < op.in.size(); ++i) AddGathered(op, rule, i, out);
    return out;
  }

  void AddGathered(const Op& op, const OpRule& rule, size_t i,
                   OpSharding& out) const {
    const Spec& given = out_.specs[op.in[i]];
    for (size_t d = 0; d < given.size(); ++d) {
      Gathered one{.operand = i, .dim = d, .axes = {}, .needed = true};
      for (const std::string& axis : WithoutTrivial(given[d])) {
        if (std::ranges::find(out.in[i][d], axis) == out.in[i][d].end()) {
          one.axes.push_back(axis);
        }
      }
      if (one.axes.empty()) continue;
      for (const int64_t factor : rule.in[i][d]) {
        const OpFactor& of = rule.factors[AsIndex(factor)];
        const int64_t size = mesh_.SizeOf(one.axes.front());
        if (of.use != FactorUse::kNeeded && of.size % size == 0) {
          one.needed = false;
        }
      }
      out.gathered.push_back(std::move(one));
    }
  }

  // ---- loops and branches

  std::vector<Spec> SpecsOf(const std::vector<ValueId>& values) const {
    std::vector<Spec> out;
    out.reserve(values.size());
    for (const ValueId id : values) out.push_back(out_.specs[id]);
    return out;
  }

  static Spec Meet(const Spec& a, const Spec& b) {
    Spec out;
    for (size_t d = 0; d < a.size(); ++d) {
      out.push_back(CommonPrefix(a[d], b[d]));
    }
    return out;
  }

  // Finds carried shardings that the body keeps: those that the first turn
  // gives, and then what two turns have in common. `walk` walks the body with
  // these shardings of its carried inputs and returns those of its results.
  template <class WalkBody>
  std::vector<Spec> Fixed(std::vector<Spec> carry, const WalkBody& walk) {
    constexpr int kTurns = 8;
    carry = walk(carry);
    for (int i = 0; i < kTurns; ++i) {
      const std::vector<Spec> next = walk(carry);
      if (next == carry) return carry;
      for (size_t c = 0; c < carry.size(); ++c) {
        carry[c] = Meet(carry[c], next[c]);
      }
    }
    for (Spec& spec : carry) spec.assign(spec.size(), {});
    walk(carry);
    return carry;
  }

  OpSharding Scan(const Op& op) {
    const Body& body = op.bodies[0];
    const size_t consts = AsIndex(op.NumberOf(Attr::kConsts));
    const size_t carry = AsIndex(op.NumberOf(Attr::kCarry));
    OpSharding out;
    out.in = SpecsOf(op.in);
    for (size_t i = 0; i < op.in.size(); ++i) {
      Spec inner = out.in[i];
      if (i >= consts + carry) {
        if (!WithoutTrivial(inner[0]).empty()) {
          out.gathered.push_back({i, 0, inner[0], true});
        }
        out.in[i][0].clear();
        inner.erase(inner.begin());
      }
      out_.specs[body.in[i]] = std::move(inner);
    }
    const auto begin = out.in.begin() + static_cast<std::ptrdiff_t>(consts);
    const std::vector<Spec> carried =
        Fixed({begin, begin + static_cast<std::ptrdiff_t>(carry)},
              [&](const std::vector<Spec>& specs) {
                for (size_t i = 0; i < carry; ++i) {
                  out_.specs[body.in[consts + i]] = specs[i];
                }
                Walk(body.ops);
                auto got = SpecsOf(body.out);
                got.resize(carry);
                return got;
              });
    std::ranges::copy(carried, begin);
    out.out = carried;
    for (size_t i = carry; i < op.out.size(); ++i) {
      Spec& spec = out.out.emplace_back(out_.specs[body.out[i]]);
      spec.insert(spec.begin(), AxisGroup());
    }
    return out;
  }

  OpSharding While(const Op& op) {
    const size_t first = AsIndex(op.NumberOf(Attr::kConditionConsts));
    const size_t second = AsIndex(op.NumberOf(Attr::kBodyConsts));
    const Body& condition = op.bodies[0];
    const Body& body = op.bodies[1];
    OpSharding out;
    out.in = SpecsOf(op.in);
    for (size_t i = 0; i < first; ++i) {
      out_.specs[condition.in[i]] = out.in[i];
    }
    for (size_t i = 0; i < second; ++i) {
      out_.specs[body.in[i]] = out.in[first + i];
    }
    const auto begin =
        out.in.begin() + static_cast<std::ptrdiff_t>(first + second);
    out.out = Fixed({begin, out.in.end()}, [&](const std::vector<Spec>& specs) {
      for (size_t i = 0; i < specs.size(); ++i) {
        out_.specs[condition.in[first + i]] = specs[i];
        out_.specs[body.in[second + i]] = specs[i];
      }
      Walk(condition.ops);
      Walk(body.ops);
      return SpecsOf(body.out);
    });
    std::ranges::copy(out.out, begin);
    return out;
  }

  OpSharding Cond(const Op& op) {
    OpSharding out;
    out.in = SpecsOf(op.in);
    for (const Body& branch : op.bodies) {
      for (size_t i = 0; i < branch.in.size(); ++i) {
        out_.specs[branch.in[i]] = out.in[i + 1];
      }
      Walk(branch.ops);
      const std::vector<Spec> got = SpecsOf(branch.out);
      if (out.out.empty()) out.out = got;
      for (size_t i = 0; i < got.size(); ++i) {
        out.out[i] = Meet(out.out[i], got[i]);
      }
    }
    return out;
  }

  const Program& program_;
  const Mesh& mesh_;
  const std::vector<uint8_t> depends_;
  Sharding out_;
};

}  // namespace

OpRule RuleOf(const Program& program, const Op& op) {
  return RuleMaker(program, op).Make();
}

Sharding ShardProgram(const Program& program, const Mesh& mesh,
                      const std::vector<Spec>& inputs) {
  return Sharder(program, mesh).Run(inputs);
}

}  // namespace shardc::program
