// Chooses the sharding of each op by its rule (op_rule.cc):
//
//   dot of x [b, d] and w [d, f]  ->  factors b, d (a sum) and f
//
// If `x` is sharded over dp in b, and `w` over fsdp in d and over tp in f, then
// b has dp, f has tp, and d has fsdp: the result is [b:dp, f:tp], a partial sum
// over fsdp, and `x` is sliced over fsdp. If both b and d would have fsdp, the
// operand that depends on data keeps it, and the other one is gathered. In a
// step of decoding, whose activations are small, the weight keeps it.
#include "program/sharding.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "model/mesh_layout.h"
#include "program/ties.h"
#include "source/size.h"

namespace shardc::program {
namespace {

// The axes that both groups begin with.
AxisGroup CommonPrefix(const AxisGroup& a, const AxisGroup& b) {
  const auto [end, other] = std::ranges::mismatch(a, b);
  return {a.begin(), end};
}

bool Extends(const AxisGroup& whole, const AxisGroup& own) {
  return CommonPrefix(own, whole) == own;
}
bool Extends(const Spec& whole, const Spec& own) {
  for (size_t d = 0; d < own.size(); ++d) {
    if (!Extends(whole[d], own[d])) return false;
  }
  return true;
}

// The axes that each factor of an op has, as far as operands and results
// determine them.
class FactorAxes {
 public:
  FactorAxes(const OpRule& rule, const Mesh& mesh)
      : rule_(rule), mesh_(mesh), chosen_(rule.factors.size()) {}

  // Gives the axes of a dimension to its factors, as far as the sizes of the
  // axes divide the factors and no other factor has the axes.
  void Take(const Numbers& dim, const AxisGroup& axes) {
    size_t next = 0;
    for (const int64_t number : dim) {
      const size_t factor = AsIndex(number);
      if (rule_.factors[factor].use == FactorUse::kNeeded) return;
      int64_t left = rule_.factors[factor].size;
      AxisGroup own;
      while (next < axes.size() && left % mesh_.SizeOf(axes[next]) == 0) {
        left /= mesh_.SizeOf(axes[next]);
        own.push_back(axes[next++]);
      }
      if (own.empty()) return;
      if (chosen_[factor].empty()) {
        for (const std::string& axis : own) {
          if (!used_.insert(axis).second) return;
          chosen_[factor].push_back(axis);
        }
      } else if (chosen_[factor] != own) {
        return;
      }
      if (left != 1) return;
    }
  }
  void Take(const std::vector<Numbers>& dims, const Spec& spec) {
    for (size_t d = 0; d < dims.size(); ++d) Take(dims[d], spec[d]);
  }

  // Sets the specs of the op. Factors after one that its axes do not divide
  // into single indices lose their axes.
  void Set(OpSharding& out) {
    bool changed = true;
    while (changed) {
      changed = false;
      out.in.clear();
      out.out.clear();
      const auto add = [&](const std::vector<Numbers>& dims) {
        Spec spec;
        for (const Numbers& dim : dims) spec.push_back(AxesOf(dim, changed));
        return spec;
      };
      for (const auto& dims : rule_.in) out.in.push_back(add(dims));
      for (const auto& dims : rule_.out) out.out.push_back(add(dims));
    }
  }

  const std::vector<AxisGroup>& chosen() const { return chosen_; }

 private:
  AxisGroup AxesOf(const Numbers& dim, bool& changed) {
    AxisGroup out;
    bool whole = true;
    for (const int64_t number : dim) {
      AxisGroup& own = chosen_[AsIndex(number)];
      if (!whole && !own.empty()) {
        own.clear();
        changed = true;
      }
      out.insert(out.end(), own.begin(), own.end());
      whole = whole && mesh_.Parts(own) == rule_.factors[AsIndex(number)].size;
    }
    return out;
  }

  const OpRule& rule_;
  const Mesh& mesh_;
  std::vector<AxisGroup> chosen_;
  std::set<std::string> used_;
};

// Shards a program twice. The first walk finds with which shardings ops read
// their operands. From these follow the preferred shardings, and the second
// walk reduces a partial sum to the shard that its readers prefer:
//
//   g = dot(x [d, b:fsdp], e [b:fsdp, f])   partial over fsdp
//   q = sub(p [d:fsdp, f], mul(g, 0.1))     reads only [d:fsdp, f] of g
//     ->  g is [d:fsdp, f] after a reduce-scatter, as mul(g, 0.1) is
class Sharder {
 public:
  Sharder(const Program& program, const Mesh& mesh, const Program& sizes)
      : program_(program),
        sizes_(sizes),
        mesh_(mesh),
        depends_(TieDimensions(program).depends),
        weights_first_(HasLargeWeights()),
        preferred_(program.values.size()) {
    out_.specs.resize(program.values.size());
  }

  Sharding Run(const std::vector<Spec>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId value = program_.inputs[i].value;
      out_.specs[value] = inputs[i];
      out_.specs[value].resize(program_.ShapeOf(value).size());
    }
    Walk(program_.ops);
    for (const ValueId id : program_.outputs) Prefer(id, out_.specs[id]);
    Prefer(program_.ops);
    Walk(program_.ops);
    std::vector<int> readers(program_.values.size(), 0);
    for (const ValueId id : program_.outputs) ++readers[id];
    CountReaders(program_.ops, readers);
    Defer(program_.ops, readers);
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
        case OpKind::kConstraint:
          one.in = one.out = {Constrained(op)};
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
      for (const auto& [dim, axes] : one.scattered) {
        AxisGroup& all = out_.specs[op.out[0]][dim];
        all.insert(all.end(), axes.begin(), axes.end());
      }
      out_.ops[&op] = std::move(one);
    }
  }

  // Returns whether the products of a program without gradients have fewer
  // elements of activations, as operands and results, than of weights. It is
  // then cheaper to move activations than weights, as in a step of decoding.
  // Constraints of the user state where activations are: weights are then
  // moved.
  bool HasLargeWeights() const {
    double weights = 0;
    double activations = 0;
    bool forward = true;
    const auto add = [&](const auto& self, const std::vector<Op>& ops) -> void {
      for (const Op& op : ops) {
        forward = forward && op.phase == Phase::kForward &&
                  op.kind != OpKind::kConstraint;
        for (const Body& body : op.bodies) self(self, body.ops);
        if (op.kind != OpKind::kDot && op.kind != OpKind::kRaggedDot) continue;
        const bool data[] = {(depends_[op.in[0]] & kOnData) != 0,
                             (depends_[op.in[1]] & kOnData) != 0};
        if (data[0] == data[1]) continue;
        const auto elements = [&](ValueId id) {
          return static_cast<double>(
              CheckedProduct(sizes_.ShapeOf(id)).value_or(0));
        };
        weights += elements(op.in[data[0] ? 1 : 0]);
        activations += elements(op.in[data[0] ? 0 : 1]) + elements(op.out[0]);
      }
    };
    add(add, program_.ops);
    return forward && weights > activations;
  }

  // ---- the choice for an op without a body

  AxisGroup WithoutTrivial(const AxisGroup& axes) const {
    AxisGroup out;
    for (const std::string& axis : axes) {
      if (mesh_.SizeOf(axis) > 1) out.push_back(axis);
    }
    return out;
  }
  Spec WithoutTrivial(const Spec& spec) const {
    Spec out;
    for (const AxisGroup& axes : spec) out.push_back(WithoutTrivial(axes));
    return out;
  }

  // Returns the spec of a constraint's result. If all readers need only a part
  // of the shards that the constraint gives, it is the spec of these parts.
  Spec Constrained(const Op& op) const {
    Spec out = Written(op);
    const auto& preferred = preferred_[op.out[0]];
    return preferred && Extends(*preferred, out) ? *preferred : out;
  }

  Spec Written(const Op& op) const {
    const Spec given = WithoutTrivial(out_.specs[op.in[0]]);
    if (!op.constraint || !FollowsConstraint(op, mesh_)) return given;
    const Shape& shape = program_.ShapeOf(op.in[0]);
    Spec out(given.size());
    std::set<std::string> used;
    const auto add = [&](size_t d, const AxisGroup& axes) {
      int64_t left = shape[d];
      for (const std::string& axis : axes) {
        if (left % mesh_.SizeOf(axis) != 0 || !used.insert(axis).second) return;
        left /= mesh_.SizeOf(axis);
        out[d].push_back(axis);
      }
    };
    const auto& wanted = *op.constraint;
    for (size_t d = 0; d < wanted.size(); ++d) {
      if (wanted[d]) add(d, WithoutTrivial(RefinedGroup(mesh_, *wanted[d])));
    }
    for (size_t d = 0; d < wanted.size(); ++d) {
      if (!wanted[d]) add(d, given[d]);
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
      if (data_a != data_b && !weights_first_) return data_a;
      return CheckedProduct(sizes_.ShapeOf(op.in[a])) >
             CheckedProduct(sizes_.ShapeOf(op.in[b]));
    });
    FactorAxes axes(rule, mesh_);
    const auto* const preferred = op.out.size() == 1 && preferred_[op.out[0]]
                                      ? &*preferred_[op.out[0]]
                                      : nullptr;
    // Where operands disagree, the one counts that has what the readers need.
    for (size_t d = 0; preferred != nullptr && d < preferred->size(); ++d) {
      if (Provided(op, rule, d, (*preferred)[d])) {
        axes.Take(rule.out[0][d], (*preferred)[d]);
      }
    }
    for (const size_t i : order) {
      axes.Take(rule.in[i], WithoutTrivial(out_.specs[op.in[i]]));
    }
    // A device computes only the shard that all readers need.
    if (preferred != nullptr) axes.Take(rule.out[0], *preferred);
    OpSharding out;
    axes.Set(out);
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      const AxisGroup& own = axes.chosen()[f];
      if (own.empty() || rule.factors[f].use == FactorUse::kPass) continue;
      out.reductions.emplace_back(own, rule.factors[f].use);
    }
    if (preferred != nullptr) Scatter(*preferred, out);
    for (size_t i = 0; i < op.in.size(); ++i) AddGathered(op, rule, i, out);
    return out;
  }

  // Returns whether an operand has a dimension of the result with these axes.
  bool Provided(const Op& op, const OpRule& rule, size_t dim,
                const AxisGroup& axes) const {
    if (axes.empty() || rule.out[0][dim].empty()) return false;
    for (size_t i = 0; i < op.in.size(); ++i) {
      const Spec& given = out_.specs[op.in[i]];
      for (size_t d = 0; d < given.size(); ++d) {
        if (rule.in[i][d] == rule.out[0][dim] &&
            WithoutTrivial(given[d]) == axes) {
          return true;
        }
      }
    }
    return false;
  }

  // Replaces the reduction of a partial sum over axes by which the preferred
  // sharding of the result extends its own.
  static void Scatter(const Spec& preferred, OpSharding& one) {
    for (size_t d = 0; d < preferred.size(); ++d) {
      const AxisGroup& own = one.out[0][d];
      const AxisGroup& whole = preferred[d];
      Scattered made{d, {}};
      for (size_t i = own.size(); Extends(whole, own) && i < whole.size();
           ++i) {
        const auto from =
            std::ranges::find_if(one.reductions, [&](const auto& of) {
              return of.second == FactorUse::kSum &&
                     std::ranges::find(of.first, whole[i]) != of.first.end();
            });
        if (from == one.reductions.end()) break;
        std::erase(from->first, whole[i]);
        made.axes.push_back(whole[i]);
      }
      if (!made.axes.empty()) one.scattered.push_back(std::move(made));
    }
    std::erase_if(one.reductions,
                  [](const auto& of) { return of.first.empty(); });
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

  // ---- preferred shardings

  // Notes with which sharding a reader needs a value.
  void Prefer(ValueId id, Spec need) {
    need = WithoutTrivial(need);
    auto& own = preferred_[id];
    own = own ? Meet(*own, need) : std::move(need);
  }

  void Prefer(const std::vector<Op>& ops) {
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
      const bool scan = op->kind == OpKind::kScan;
      const size_t carry = AsIndex(op->NumberOf(Attr::kCarry));
      for (const Body& body : op->bodies) {
        if (op->kind == OpKind::kManual) break;
        for (size_t i = 0; i < body.out.size(); ++i) {
          Spec need = out_.specs[body.out[i]];
          const bool known = scan && preferred_[op->out[i]];
          // The stacked results of a scan have one more dimension.
          if (known && i >= carry) {
            need.assign(preferred_[op->out[i]]->begin() + 1,
                        preferred_[op->out[i]]->end());
          } else if (known && Extends(*preferred_[op->out[i]], need)) {
            need = *preferred_[op->out[i]];
          }
          Prefer(body.out[i], need);
        }
        Prefer(body.ops);
      }
      for (size_t i = 0; i < op->in.size(); ++i) {
        const auto need = NeedOf(*op, i);
        if (need) Prefer(op->in[i], *need);
      }
    }
  }

  // Returns whether a value has so few elements that to reduce partial sums of
  // it costs less than to have the other value on each device.
  bool IsSmall(ValueId id, ValueId other) const {
    constexpr double kSmall = 1.0 / 16;
    const auto elements = [&](ValueId of) {
      return static_cast<double>(
          CheckedProduct(sizes_.ShapeOf(of)).value_or(0));
    };
    return elements(id) <= kSmall * elements(other);
  }

  // Returns the sharding with which an op needs an operand; nullopt if it can
  // use any.
  std::optional<Spec> NeedOf(const Op& op, size_t operand) const {
    const OpSharding& chosen = out_.ops.at(&op);
    if (op.kind == OpKind::kConstraint) return Constrained(op);
    if (op.kind == OpKind::kScan &&
        operand < AsIndex(op.NumberOf(Attr::kConsts))) {
      return preferred_[op.bodies[0].in[operand]];
    }
    // Each device reduces its own shard, and the result is small.
    if (op.kind == OpKind::kReduce && IsSmall(op.out[0], op.in[0])) {
      return std::nullopt;
    }
    const bool known = op.out.size() == 1 && preferred_[op.out[0]];
    if (!known && PassesAll(op)) return std::nullopt;
    if (!known || !op.bodies.empty()) return chosen.in[operand];
    const OpRule rule = RuleOf(program_, op);
    FactorAxes axes(rule, mesh_);
    for (size_t i = 0; i < op.in.size(); ++i) {
      axes.Take(rule.in[i], chosen.in[i]);
    }
    axes.Take(rule.out[0], *preferred_[op.out[0]]);
    OpSharding extended;
    axes.Set(extended);
    return extended.in[operand];
  }

  // Returns whether an op can run on any shards.
  static bool PassesAll(const Op& op) {
    return op.kind == OpKind::kMap || op.kind == OpKind::kTranspose ||
           op.kind == OpKind::kReshape || op.kind == OpKind::kBroadcast ||
           op.kind == OpKind::kSlice;
  }

  // ---- sums of partial sums

  static void CountReaders(const std::vector<Op>& ops,
                           std::vector<int>& readers) {
    for (const Op& op : ops) {
      for (const ValueId id : op.in) ++readers[id];
      for (const Body& body : op.bodies) {
        for (const ValueId id : body.out) ++readers[id];
        CountReaders(body.ops, readers);
      }
    }
  }

  // The ops that compute a value from one partial sum: its own op and then ops
  // that only move elements.
  using Chain = std::vector<const Op*>;

  bool Keeps(const Op& op) const {
    const OpSharding& chosen = out_.ops.at(&op);
    for (size_t i = 0; i < op.in.size(); ++i) {
      if (chosen.in[i] != out_.specs[op.in[i]]) return false;
    }
    return true;
  }

  // Moves the reductions of two partial sums that are only added to one of
  // their sum: a + b is reduced once. Both must be partial over the same axes.
  void Defer(const std::vector<Op>& ops, const std::vector<int>& readers) {
    std::unordered_map<ValueId, Chain> open;
    for (const Op& op : ops) {
      for (const Body& body : op.bodies) {
        if (op.kind != OpKind::kManual) Defer(body.ops, readers);
      }
      if (op.kind == OpKind::kManual || op.out.size() != 1) continue;
      const bool adds = op.kind == OpKind::kMap && op.in.size() == 2 &&
                        (op.word == "add" || op.word == "sub");
      const bool moves =
          op.kind == OpKind::kReshape || op.kind == OpKind::kTranspose;
      const auto chain_of = [&](size_t i) -> const Chain* {
        const auto at = open.find(op.in[i]);
        return at == open.end() || readers[op.in[i]] != 1 ? nullptr
                                                          : &at->second;
      };
      if (moves && chain_of(0) != nullptr && Keeps(op)) {
        Chain longer = *chain_of(0);
        longer.push_back(&op);
        open[op.out[0]] = std::move(longer);
        continue;
      }
      if (adds && chain_of(0) != nullptr && chain_of(1) != nullptr &&
          Keeps(op)) {
        Join(op, *chain_of(0), *chain_of(1));
      }
      const OpSharding& chosen = out_.ops.at(&op);
      const bool sums = std::ranges::all_of(
          chosen.reductions,
          [](const auto& of) { return of.second == FactorUse::kSum; });
      if (sums && chosen.reductions.size() + chosen.scattered.size() > 0) {
        open[op.out[0]] = {&op};
      }
    }
  }

  void Join(const Op& sum, const Chain& a, const Chain& b) {
    OpSharding& from = out_.ops.at(a[0]);
    OpSharding& other = out_.ops.at(b[0]);
    OpSharding& to = out_.ops.at(&sum);
    const bool same = from.reductions == other.reductions &&
                      from.scattered == other.scattered && to.in[0] == to.in[1];
    // Only the result of the sum has the scattered axes then.
    const bool direct = a.size() == 1 && b.size() == 1 && from.out == other.out;
    if (!same || a[0] == b[0] || (!from.scattered.empty() && !direct)) return;
    AxisGroup axes;
    for (const auto& [group, use] : from.reductions) {
      axes.insert(axes.end(), group.begin(), group.end());
    }
    if (!from.scattered.empty()) {
      for (const auto& [dim, group] : from.scattered) {
        axes.insert(axes.end(), group.begin(), group.end());
      }
      to.in = {from.out[0], other.out[0]};
      to.out = from.out;
      out_.specs[a[0]->out[0]] = from.out[0];
      out_.specs[b[0]->out[0]] = from.out[0];
    }
    to.reductions = std::exchange(from.reductions, {});
    to.scattered = std::exchange(from.scattered, {});
    other.reductions.clear();
    other.scattered.clear();
    for (const Chain* const chain : {&a, &b}) {
      for (const Op* const op : *chain) out_.partial[op->out[0]] = axes;
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
    for (size_t i = 0; i < carry; ++i) {
      // A total, such as of gradients, is kept as its reader after the loop
      // needs it, if the loop needs no more of it.
      const auto& needed = preferred_[op.out[i]];
      Spec& start = out.in[consts + i];
      if (needed && preferred_[body.in[consts + i]] == needed &&
          Extends(*needed, WithoutTrivial(start))) {
        start = *needed;
      }
    }
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
  const Program& sizes_;  // by whose shapes values are compared
  const Mesh& mesh_;
  const std::vector<uint8_t> depends_;
  const bool weights_first_;
  // Of each value the axes with which all of its readers need it; nullopt
  // before the second walk, and if the readers can use any.
  std::vector<std::optional<Spec>> preferred_;
  Sharding out_;
};

}  // namespace

bool SharesReshards(const Program& program) { return !program.IsOfTorch(); }

bool FollowsConstraint(const Op& op, const Mesh& mesh) {
  if (!op.constraint) return true;
  for (const auto& dim : *op.constraint) {
    for (const std::string& axis :
         RefinedGroup(mesh, dim.value_or(AxisGroup()))) {
      if (!mesh.FindDigit(axis)) return false;
    }
  }
  return true;
}

Sharding ShardProgram(const Program& program, const Mesh& mesh,
                      const std::vector<Spec>& inputs, const Program* sizes) {
  return Sharder(program, mesh, sizes == nullptr ? program : *sizes)
      .Run(inputs);
}

}  // namespace shardc::program
