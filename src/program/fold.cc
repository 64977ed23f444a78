// Each op has a class, and the first op of a class stands for the others. For
// example, layer 0 stands for all layers of
//
//   h1 = tanh(x @ w0) + x     h2 = tanh(h1 @ w1) + h1     h3 = ...
//
// What reads h3 reads h1 then. An op whose operands would become the same value
// has nothing to show: y - z is 0 where the op of y stands for that of z. Such
// ops are kept apart, with those before them up to where the numbers differ.
#include "program/fold.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "program/read.h"
#include "source/size.h"

namespace shardc::program {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);
// How often ops are kept apart before nothing is folded.
constexpr int kMostChoices = 64;

// Returns whether an op reshards an operand for other ops as well.
bool SharesOperand(const Op& op, size_t operand) {
  switch (op.kind) {
    case OpKind::kScan:
      return operand >=
             AsIndex(op.NumberOf(Attr::kConsts) + op.NumberOf(Attr::kCarry));
    case OpKind::kWhile:
    case OpKind::kCond:
    case OpKind::kCollective:
      return false;
    default:
      return true;
  }
}

// Returns whether numbers decide what an op runs and sends.
bool HasBranches(const Op& op) {
  return op.kind == OpKind::kWhile || op.kind == OpKind::kCond ||
         std::ranges::any_of(op.bodies, [](const Body& body) {
           return std::ranges::any_of(body.ops, HasBranches);
         });
}

// ---- classes

// Writes what the class of an op consists of.
class ClassText {
 public:
  explicit ClassText(const FoldRequest& request) : request_(request) {}

  // `more` are further numbers.
  std::string Of(const Op& op, const Op& traced, const Numbers& more) {
    text_.clear();
    for (const int64_t number : more) Add(number);
    Add(op, *request_.program);
    Add(traced, *request_.traced);
    return std::move(text_);
  }

 private:
  void Add(const Op& op, const Program& program) {
    program_ = &program;
    numbers_.clear();
    AddOp(op, false);
  }
  void Add(int64_t number) { text_ += std::to_string(number) + ' '; }
  void Add(std::string_view word) {
    Add(std::ssize(word));
    text_ += word;
  }
  void AddBytes(double number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  template <class T>
  void Add(const std::vector<T>& list) {
    Add(std::ssize(list));
    for (const T& one : list) Add(one);
  }

  // `inside` is whether a body has the value, where it has a number of its own,
  // in the order of the body. `made` is whether the op makes it.
  void AddValue(ValueId id, bool inside, bool made) {
    if (inside) {
      Add(numbers_.try_emplace(id, std::ssize(numbers_)).first->second);
    }
    const Value& value = program_->values[id];
    Add(value.shape);
    Add(value.dtype ? static_cast<int64_t>(*value.dtype) : -1);
    const Sharding& sharding = *request_.sharding;
    if (id < sharding.specs.size()) Add(sharding.specs[id]);
    const auto partial = sharding.partial.find(id);
    if (partial != sharding.partial.end()) Add(partial->second);
    if (!made) return;
    Add(value.integers);
    Add(std::ssize(value.floats));
    for (const double number : value.floats) AddBytes(number);
  }

  void AddOp(const Op& op, bool inside) {
    Add(static_cast<int64_t>(op.kind));
    Add(static_cast<int64_t>(op.phase));
    Add(int64_t{op.at.file});
    Add(int64_t{op.at.line});
    Add(op.word);
    for (const auto& [attr, numbers] : op.numbers) {
      Add(static_cast<int64_t>(attr));
      Add(numbers);
    }
    Add(static_cast<int64_t>(op.mode));
    if (op.fill) AddBytes(*op.fill);
    Add(op.axes);
    if (op.region) AddRegion(*op.region);
    if (op.constraint) {
      for (const auto& axes : *op.constraint) {
        Add(axes ? *axes : AxisGroup{"?"});
      }
    }
    for (const ValueId id : op.in) AddValue(id, inside, false);
    for (const ValueId id : op.out) AddValue(id, inside, true);
    AddSharding(op);
    for (const Body& body : op.bodies) {
      for (const ValueId id : body.in) AddValue(id, true, false);
      for (const Op& one : body.ops) AddOp(one, true);
      for (const ValueId id : body.out) AddValue(id, true, false);
    }
  }

  void AddRegion(const Region& region) {
    for (const auto& [name, size] : region.mesh) {
      Add(name);
      Add(size);
    }
    Add(region.manual_axes);
    Add(region.in_specs);
    Add(region.out_specs);
  }

  void AddSharding(const Op& op) {
    const auto at = request_.sharding->ops.find(&op);
    if (at == request_.sharding->ops.end()) return;
    const OpSharding& one = at->second;
    Add(one.in);
    Add(one.out);
    for (const auto& [axes, use] : one.reductions) {
      Add(axes);
      Add(static_cast<int64_t>(use));
    }
    for (const Scattered& part : one.scattered) {
      Add(static_cast<int64_t>(part.dim));
      Add(part.axes);
    }
    for (const Gathered& part : one.gathered) {
      Add(static_cast<int64_t>(part.operand));
      Add(static_cast<int64_t>(part.dim));
      Add(part.axes);
      Add(static_cast<int64_t>(part.needed));
    }
  }

  const FoldRequest& request_;
  const Program* program_ = nullptr;
  std::string text_;
  std::map<ValueId, int64_t> numbers_;  // of the values of a body
};

// ---- the choice

class Folder {
 public:
  explicit Folder(const FoldRequest& request)
      : request_(request),
        ops_(request.program->ops),
        made_by_(request.program->values.size(), kNone),
        apart_(ops_.size(), false) {}

  std::optional<FoldedProgram> Run() {
    SetClasses();
    for (int i = 0; i < kMostChoices; ++i) {
      Choose();
      changed_ = false;
      CheckNumbers();
      CheckMoves();
      if (changed_) continue;
      // To run a few ops less is not worth other results.
      const auto left = std::ranges::count(stands_, true);
      if (4 * left > 3 * std::ssize(ops_)) return std::nullopt;
      return Written();
    }
    return std::nullopt;
  }

 private:
  // A value that is resharded, and how.
  using Move = std::pair<ValueId, Spec>;

  // Calls `visit(operand, spec)` for each operand that an op reshards for all
  // ops that need it.
  template <class Visit>
  void ForMoves(size_t i, const Visit& visit) const {
    const Op& op = ops_[i];
    const auto at = request_.sharding->ops.find(&op);
    if (at == request_.sharding->ops.end()) return;
    for (size_t k = 0; k < op.in.size() && k < at->second.in.size(); ++k) {
      const Spec& spec = at->second.in[k];
      if (!SharesOperand(op, k)) continue;
      if (request_.sharding->specs[op.in[k]] != spec) visit(k, spec);
    }
  }

  // Returns whether a constant's numbers are not known.
  bool IsUnstated(const Op& op) const {
    const Value& value = request_.program->values[op.out[0]];
    return op.kind == OpKind::kConst && value.integers.empty() &&
           value.floats.empty();
  }

  void SetClasses() {
    std::unordered_map<std::string, size_t> numbers;
    // The class of the op of a value that no input determines, and which of the
    // results it is.
    std::vector<int64_t> content(made_by_.size(), -1);
    ClassText text(request_);
    for (size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = ops_[i];
      Numbers more;
      bool known = op.bodies.empty() && op.kind != OpKind::kRandom &&
                   !IsOpaque(*request_.program, op);
      for (const ValueId id : op.in) {
        more.push_back(content[id]);
        known = known && content[id] >= 0;
      }
      ForMoves(i, [&](size_t k, const Spec& spec) {
        const bool first = moved_by_.try_emplace({op.in[k], spec}, i).second;
        more.push_back(first ? 1 : 0);
      });
      // No other op has this number.
      if (HasBranches(op) || IsUnstated(op)) {
        more.push_back(static_cast<int64_t>(i));
      }
      classes_.push_back(
          numbers
              .try_emplace(text.Of(op, request_.traced->ops[i], more),
                           numbers.size())
              .first->second);
      for (size_t k = 0; k < op.out.size(); ++k) {
        made_by_[op.out[k]] = i;
        constexpr size_t kMostResults = 1024;
        if (known && k < kMostResults) {
          content[op.out[k]] =
              static_cast<int64_t>(classes_[i] * kMostResults + k);
        }
      }
    }
  }

  // The first op of each class stands for the others.
  void Choose() {
    stands_.assign(ops_.size(), true);
    first_.clear();
    stand_in_.resize(made_by_.size());
    for (ValueId id = 0; id < stand_in_.size(); ++id) stand_in_[id] = id;
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (apart_[i]) continue;
      const auto [at, fresh] = first_.try_emplace(classes_[i], i);
      if (fresh) continue;
      stands_[i] = false;
      for (size_t k = 0; k < ops_[i].out.size(); ++k) {
        stand_in_[ops_[i].out[k]] = ops_[at->second].out[k];
      }
    }
  }

  void KeepApart(size_t op) {
    if (apart_[op] || stands_[op]) return;
    apart_[op] = true;
    changed_ = true;
  }

  // ---- ops with equal operands

  // Returns whether equal operands show as much as others do.
  static bool MayBeEqual(const Op& op) {
    return op.kind == OpKind::kMap && (op.word == "add" || op.word == "mul" ||
                                       op.word == "and" || op.word == "or");
  }

  void CheckNumbers() {
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (!stands_[i] || MayBeEqual(ops_[i])) continue;
      const auto& in = ops_[i].in;
      for (size_t b = 1; b < in.size(); ++b) {
        for (size_t a = 0; a < b; ++a) {
          if (in[a] != in[b] && stand_in_[in[a]] == stand_in_[in[b]]) {
            Separate(in[a], in[b]);
          }
        }
      }
    }
  }

  // Two ops of a class.
  struct Pair {
    size_t op = 0, other = 0;
    size_t from = kNone;  // the pair that reads their results
  };

  // Keeps ops apart so that two values have other numbers: those from the
  // values up to the first ops that read different ones.
  void Separate(ValueId a, ValueId b) {
    std::vector<Pair> pairs = {{made_by_[a], made_by_[b], kNone}};
    std::set<std::pair<size_t, size_t>> seen;
    for (size_t next = 0; next < pairs.size(); ++next) {
      const Pair now = pairs[next];
      const auto& in = ops_[now.op].in;
      const auto& other = ops_[now.other].in;
      bool differ = false;
      for (size_t k = 0; k < in.size(); ++k) {
        differ = differ || stand_in_[in[k]] != stand_in_[other[k]];
      }
      if (differ) {
        for (size_t at = next; at != kNone; at = pairs[at].from) {
          KeepApart(pairs[at].op);
          KeepApart(pairs[at].other);
        }
        return;
      }
      for (size_t k = 0; k < in.size(); ++k) {
        if (in[k] == other[k]) continue;
        const std::pair key(made_by_[in[k]], made_by_[other[k]]);
        if (seen.insert(key).second) {
          pairs.push_back({key.first, key.second, next});
        }
      }
    }
  }

  // ---- what is resharded

  // The ops of the whole program that read one value with one sharding share
  // its reshard: the first of them sends, and the others find the result. Keeps
  // ops where folding would change which of the ops that stay is the first.
  void CheckMoves() {
    if (!SharesReshards(*request_.program)) return;
    std::map<Move, ValueId> moved;  // by which value of the whole program
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (!stands_[i]) continue;
      ForMoves(i, [&](size_t k, const Spec& spec) {
        const ValueId id = ops_[i].in[k];
        const size_t whole = moved_by_.at({id, spec});
        const auto [at, first] = moved.try_emplace({stand_in_[id], spec}, id);
        if (first == (whole == i)) return;
        if (first) return KeepApart(whole);
        for (const ValueId one : {id, at->second}) {
          if (made_by_[one] != kNone) KeepApart(made_by_[one]);
        }
      });
    }
  }

  // ---- the folded program

  std::optional<FoldedProgram> Written() const {
    FoldedProgram out;
    out.program = *request_.program;
    out.traced = *request_.traced;
    std::vector<size_t> from;
    std::map<size_t, size_t> counts;  // of the ops of each class that go
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (stands_[i]) {
        from.push_back(i);
      } else {
        ++counts[classes_[i]];
      }
    }
    std::vector<bool> used(made_by_.size(), false);
    for (Program* const program : {&out.program, &out.traced}) {
      const std::vector<Op> all = std::move(program->ops);
      program->ops.clear();
      for (const size_t i : from) {
        Op& op = program->ops.emplace_back(all[i]);
        for (ValueId& id : op.in) id = stand_in_[id];
        Use(op, used);
      }
    }
    for (const size_t i : from) {
      const bool counts_all = !apart_[i] && counts.contains(classes_[i]);
      out.times.push_back(
          1 + (counts_all ? static_cast<int64_t>(counts.at(classes_[i])) : 0));
    }
    WriteResults(out, used);
    WriteInputs(out, used);
    out.sharding.specs = request_.sharding->specs;
    out.sharding.partial = request_.sharding->partial;
    for (size_t k = 0; k < from.size(); ++k) {
      CopySharding(ops_[from[k]], out.program.ops[k], out.sharding);
    }
    return out;
  }

  static void Use(const Op& op, std::vector<bool>& used) {
    for (const auto* const ids : {&op.in, &op.out}) {
      for (const ValueId id : *ids) used[id] = true;
    }
    for (const Body& body : op.bodies) {
      for (const auto* const ids : {&body.in, &body.out}) {
        for (const ValueId id : *ids) used[id] = true;
      }
      for (const Op& one : body.ops) Use(one, used);
    }
  }

  void WriteResults(FoldedProgram& out, std::vector<bool>& used) const {
    std::map<ValueId, size_t> places;
    std::vector<ValueId> results;
    for (const ValueId id : request_.program->outputs) {
      const ValueId now = stand_in_[id];
      used[now] = true;
      const auto [at, fresh] = places.try_emplace(now, results.size());
      if (fresh) results.push_back(now);
      out.results.push_back(at->second);
    }
    out.program.outputs = results;
    out.traced.outputs = std::move(results);
  }

  // Leaves out the inputs and the shapes of values that nothing reads.
  void WriteInputs(FoldedProgram& out, const std::vector<bool>& used) const {
    std::vector<Input> inputs;
    for (const Input& input : request_.program->inputs) {
      if (!used[input.value]) {
        out.inputs.emplace_back();
        continue;
      }
      out.inputs.emplace_back(inputs.size());
      inputs.push_back(input);
    }
    for (Program* const program : {&out.program, &out.traced}) {
      program->inputs = inputs;
      for (ValueId id = 0; id < used.size(); ++id) {
        if (!used[id]) program->values[id] = {};
      }
    }
  }

  void CopySharding(const Op& from, const Op& to, Sharding& out) const {
    const auto at = request_.sharding->ops.find(&from);
    if (at != request_.sharding->ops.end()) out.ops[&to] = at->second;
    for (size_t k = 0; k < from.bodies.size(); ++k) {
      for (size_t i = 0; i < from.bodies[k].ops.size(); ++i) {
        CopySharding(from.bodies[k].ops[i], to.bodies[k].ops[i], out);
      }
    }
  }

  const FoldRequest& request_;
  const std::vector<Op>& ops_;
  std::vector<size_t> classes_;      // of each op
  std::vector<size_t> made_by_;      // the op of each value
  std::vector<bool> apart_;          // whether each op stands for itself alone
  std::map<Move, size_t> moved_by_;  // in the whole program
  std::unordered_map<size_t, size_t> first_;  // the op of each class that stays
  std::vector<bool> stands_;                  // whether each op stays
  std::vector<ValueId> stand_in_;  // the value in place of each value
  bool changed_ = false;
};

}  // namespace

std::optional<FoldedProgram> FoldRepeated(const FoldRequest& request) {
  return Folder(request).Run();
}

}  // namespace shardc::program
