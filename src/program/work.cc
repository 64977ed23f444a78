// The masked products, with an example of causal attention:
//
//   mask  = ge(iota of rows, iota of columns)      a mask
//   s     = dot(q, k)                              only read behind the mask
//   p     = softmax(select(mask, s, -inf))         masked values
//   y     = dot(p, v)                              reads masked values
//
// The mask may also be added, as numbers: add(s, select(mask, -3.4e38, 0)).
//
// Half of the multiplications of both dots are not needed, and kernels of
// attention skip them. The products of the gradients are found in the same way:
// a select and a product with `p` mask their operands and results.
#include "program/program.h"
#include "source/list.h"

#include <algorithm>
#include <optional>

#include "source/size.h"
#include "source/wording.h"

namespace shardc::program {
namespace {

double Elements(const Shape& shape) {
  return static_cast<double>(CheckedProduct(shape).value_or(0));
}

// Calls `visit` for each op, and then for those of its bodies.
template <class Visit>
void ForEachOp(const std::vector<Op>& ops, const Visit& visit) {
  for (const Op& op : ops) {
    visit(op);
    for (const Body& body : op.bodies) ForEachOp(body.ops, visit);
  }
}

// The last inputs of a body are the last operands of its op.
template <class Bind>
void ForEachBound(const Op& op, const Body& body, const Bind& bind) {
  for (size_t i = 1; i <= std::min(body.in.size(), op.in.size()); ++i) {
    bind(op.in[op.in.size() - i], body.in[body.in.size() - i]);
  }
}

bool IsView(const Op& op) {
  return op.kind == OpKind::kReshape || op.kind == OpKind::kTranspose ||
         op.kind == OpKind::kConstraint;
}

// ---- causal masks

class Masks {
 public:
  explicit Masks(const Program& program)
      : program_(program),
        counts_(program.values.size()),
        mask_(program.values.size(), false),
        hides_(program.values.size(), false),
        masked_(program.values.size(), false),
        read_(program.values.size(), false),
        shown_(program.values.size(), false) {}

  std::unordered_set<const Op*> Products() {
    Forward(program_.ops);
    for (const ValueId id : program_.outputs) shown_[id] = true;
    Backward(program_.ops);
    std::unordered_set<const Op*> out;
    ForEachOp(program_.ops, [&](const Op& op) {
      if (!IsMatmul(op)) return;
      const ValueId id = op.out[0];
      if (masked_[op.in[0]] || masked_[op.in[1]] || (read_[id] && !shown_[id]))
        out.insert(&op);
    });
    return out;
  }

 private:
  const Shape& ShapeOf(ValueId id) const { return program_.ShapeOf(id); }
  bool Full(ValueId id, const Op& op) const {
    return ShapeOf(id) == ShapeOf(op.out[0]);
  }

  // The dimension whose index each element of a value is, and the index of the
  // first element if it is known.
  struct Count {
    size_t dim = 0;
    std::optional<int64_t> start;
  };

  void Forward(const std::vector<Op>& ops) {
    for (const Op& op : ops) {
      for (const Body& body : op.bodies) {
        ForEachBound(op, body, [&](ValueId from, ValueId to) {
          mask_[to] = mask_[from];
          hides_[to] = hides_[from];
          masked_[to] = masked_[from];
          if (ShapeOf(from) == ShapeOf(to)) counts_[to] = counts_[from];
        });
        for (size_t i = FirstCarried(op, body); i < body.in.size(); ++i) {
          if (auto& count = counts_[body.in[i]]) count->start.reset();
        }
        Forward(body.ops);
        for (size_t i = 0; i < std::min(body.out.size(), op.out.size()); ++i) {
          mask_[op.out[i]] = mask_[body.out[i]];
          masked_[op.out[i]] = masked_[body.out[i]];
        }
      }
      if (op.bodies.empty()) Step(op);
    }
  }

  // Returns the position of the first input of a body that the turns of a loop
  // change.
  static size_t FirstCarried(const Op& op, const Body& body) {
    if (op.kind == OpKind::kScan) return AsIndex(op.NumberOf(Attr::kConsts));
    if (op.kind != OpKind::kWhile) return body.in.size();
    return body.in.size() - std::min(body.in.size(), op.out.size());
  }

  void Step(const Op& op) {
    if (op.kind == OpKind::kIota) {
      counts_[op.out[0]] = Count{AsIndex(op.NumberOf(Attr::kDim)), 0};
    }
    if (op.kind == OpKind::kMap) return Map(op);
    if (!IsView(op) && op.kind != OpKind::kBroadcast) return;
    mask_[op.out[0]] = mask_[op.in[0]];
    hides_[op.out[0]] = hides_[op.in[0]];
    masked_[op.out[0]] = masked_[op.in[0]];
    const auto& count = counts_[op.in[0]];
    const auto moved = count ? Moved(op, count->dim) : std::nullopt;
    counts_[op.out[0]] =
        moved ? std::optional(Count{*moved, count->start}) : std::nullopt;
  }

  // Returns which dimension of a view has the indices of an operand's.
  std::optional<size_t> Moved(const Op& op, size_t from) const {
    if (op.kind == OpKind::kBroadcast) {
      return AsIndex(op.Of(Attr::kDims)[from]);
    }
    if (op.kind == OpKind::kTranspose) {
      const auto perm = op.Of(Attr::kPerm);
      for (size_t d = 0; d < perm.size(); ++d) {
        if (AsIndex(perm[d]) == from) return d;
      }
    }
    // A reshape that only adds or drops dimensions of size 1.
    const Shape& before = ShapeOf(op.in[0]);
    const Shape& after = ShapeOf(op.out[0]);
    const auto nth =
        std::count_if(before.begin(), before.begin() + AsSigned(from),
                      [](int64_t size) { return size != 1; });
    Shape a;
    Shape b;
    std::optional<size_t> out;
    std::ranges::copy_if(before, std::back_inserter(a),
                         [](int64_t size) { return size != 1; });
    for (size_t d = 0; d < after.size(); ++d) {
      if (after[d] == 1) continue;
      if (std::ssize(b) == nth) out = d;
      b.push_back(after[d]);
    }
    return a == b ? out : std::nullopt;
  }
  static std::ptrdiff_t AsSigned(size_t number) {
    return static_cast<std::ptrdiff_t>(number);
  }

  void Map(const Op& op) {
    const ValueId out = op.out[0];
    constexpr std::string_view kComparisons[] = {"ge", "gt", "le", "lt"};
    if (IsAmong(op.word, kComparisons) && op.in.size() == 2) {
      mask_[out] = HidesHalf(counts_[op.in[0]], counts_[op.in[1]], out);
      return;
    }
    const auto is_mask = [&](ValueId id) { return mask_[id]; };
    const auto is_masked = [&](ValueId id) {
      return masked_[id] && Full(id, op);
    };
    if (op.word == "and" || op.word == "not" || op.word == "convert") {
      mask_[out] = std::ranges::any_of(op.in, is_mask);
    }
    if (op.word == "convert") hides_[out] = hides_[op.in[0]];
    if (op.word == "add" || op.word == "sub" || op.word == "convert") {
      // An index plus a constant is still an index, but for its start.
      for (size_t i = 0; i < op.in.size(); ++i) {
        const ValueId other = op.in[op.in.size() - 1 - i];
        if (op.in.size() == 1) {
          counts_[out] = counts_[op.in[i]];
        } else if (CheckedProduct(ShapeOf(other)) == 1 && counts_[op.in[i]]) {
          counts_[out] = Shifted(*counts_[op.in[i]], other, op.word, i);
        }
      }
    }
    if (op.word == "select") {
      mask_[out] =
          is_mask(op.in[0]) && program_.values[out].dtype == Dtype::kBool;
      hides_[out] = is_mask(op.in[0]) && ChoosesNumbers(op);
      masked_[out] = !hides_[out] &&
                     (is_mask(op.in[0]) ||
                      std::any_of(op.in.begin() + 1, op.in.end(), is_masked));
    } else if (op.word == "add") {
      const auto hides = [&](ValueId id) { return hides_[id]; };
      masked_[out] = std::ranges::all_of(op.in, is_masked) ||
                     std::ranges::any_of(op.in, hides);
    } else if (op.word == "mul") {
      masked_[out] = std::ranges::any_of(op.in, is_masked);
    } else {
      masked_[out] = is_masked(op.in[0]);
    }
  }

  // The count after a number is added to it, or subtracted from it if it is the
  // first operand.
  Count Shifted(Count count, ValueId by, std::string_view fn, size_t operand) {
    const auto& known = program_.values[by].integers;
    if (!count.start || known.empty() || (fn == "sub" && operand == 1)) {
      return {count.dim, std::nullopt};
    }
    const auto change = CheckedMul(known[0], fn == "sub" ? -1 : 1);
    return {count.dim, change ? CheckedAdd(*count.start, *change) : change};
  }

  // Returns whether the comparison of two counts is true for half of a square.
  // It is if rows and columns begin at the same index. Blocks of scores that
  // begin elsewhere are hidden as wholes, or not at all.
  bool HidesHalf(const std::optional<Count>& a, const std::optional<Count>& b,
                 ValueId out) const {
    if (!a || !b || a->dim == b->dim || !a->start || !b->start) return false;
    const auto negative = CheckedMul(*b->start, -1);
    const auto apart =
        negative ? CheckedAdd(*a->start, *negative) : std::nullopt;
    return apart && *apart >= -1 && *apart <= 1 &&
           ShapeOf(out)[a->dim] == ShapeOf(out)[b->dim];
  }

  // Returns whether a select chooses among constants of which one hides a score
  // to which it is added, as exp() of their sum is 0.
  bool ChoosesNumbers(const Op& op) const {
    constexpr double kHidden = -1e4;
    const auto of = [&](ValueId id) -> const std::vector<double>& {
      return program_.values[id].floats;
    };
    const auto is_number = [&](ValueId id) { return !of(id).empty(); };
    const auto is_low = [&](ValueId id) {
      return std::ranges::all_of(of(id), [](double x) { return x <= kHidden; });
    };
    return std::all_of(op.in.begin() + 1, op.in.end(), is_number) &&
           std::any_of(op.in.begin() + 1, op.in.end(), is_low);
  }

  // Finds values whose results are shown outside of the mask: `shown_`. The
  // bodies of an op run before it is visited, backwards.
  void Backward(const std::vector<Op>& ops) {
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
      for (auto body = op->bodies.rbegin(); body != op->bodies.rend(); ++body) {
        for (const ValueId id : body->out) shown_[id] = true;
        Backward(body->ops);
      }
      const bool passes = IsView(*op) || op->kind == OpKind::kMap ||
                          op->kind == OpKind::kBroadcast;
      const bool hides = passes && (masked_[op->out[0]] ||
                                    (read_[op->out[0]] && !shown_[op->out[0]]));
      for (const ValueId id : op->in) {
        read_[id] = true;
        // What is repeated is read in front of the mask as well.
        const bool full = hides && CheckedProduct(ShapeOf(id)) ==
                                       CheckedProduct(ShapeOf(op->out[0]));
        if (!full) shown_[id] = true;
      }
    }
  }

  const Program& program_;
  std::vector<std::optional<Count>> counts_;
  // `hides_`: numbers that hide a score to which they are added.
  std::vector<bool> mask_, hides_, masked_, read_, shown_;
};

// ---- stored values

// An op reads more stored values than this only if one of them is stored.
constexpr size_t kMostSources = 16;
// Functions that are not computed twice.
constexpr std::string_view kDear[] = {
    "acos",   "acosh", "asin", "asinh", "atan", "atan2", "atanh",
    "cbrt",   "cos",   "cosh", "div",   "erf",  "erfc",  "exp",
    "exp2",   "expm1", "log",  "log1p", "pow",  "rsqrt", "logistic",
    "lgamma", "rem",   "sin",  "sinh",  "sqrt", "tan",   "tanh"};

// Returns whether a loop that reads the op's operands can compute the op.
bool Fuses(const Op& op) {
  switch (op.kind) {
    case OpKind::kMap:
    case OpKind::kBroadcast:
    case OpKind::kIota:
    case OpKind::kSlice:
    case OpKind::kConcat:
    case OpKind::kPad:
    case OpKind::kRev:
      return true;
    default:
      return IsView(op);
  }
}

struct Readers {
  int count = 0;
  bool all_fuse = true;
};

}  // namespace

bool IsMatmul(const Op& op) {
  return op.kind == OpKind::kDot || op.kind == OpKind::kRaggedDot ||
         op.kind == OpKind::kConv;
}

double ProductFlops(const Op& op, std::span<const Shape> in, const Shape& out) {
  double each = 2;
  if (op.kind == OpKind::kConv) {
    const auto rhs = op.Of(Attr::kRhs);
    for (size_t d = 1; d < rhs.size(); ++d) {
      each *= static_cast<double>(in[1][AsIndex(rhs[d])]);
    }
    // A transposed convolution puts zeros between the elements of its operand,
    // which are not multiplied.
    for (const int64_t apart : op.Of(Attr::kLhsDilation)) {
      each /= static_cast<double>(std::max<int64_t>(1, apart));
    }
  }
  for (const int64_t d : op.Of(Attr::kLhsContract)) {
    each *= static_cast<double>(in[0][AsIndex(d)]);
  }
  // Where the ragged dimension is contracted, each row belongs to one group.
  if (op.kind == OpKind::kRaggedDot && op.Of(Attr::kRhsGroup).empty()) {
    each /= std::max<double>(1, static_cast<double>(out[0]));
  }
  return each * Elements(out);
}

std::unordered_set<const Op*> MaskedMatmuls(const Program& program) {
  return Masks(program).Products();
}

std::vector<std::vector<ValueId>> StoredSources(const Program& program) {
  std::vector<Readers> readers(program.values.size());
  const auto keep = [&](ValueId id) { readers[id].all_fuse = false; };
  std::ranges::for_each(program.outputs, keep);
  ForEachOp(program.ops, [&](const Op& op) {
    for (const ValueId id : op.in) {
      ++readers[id].count;
      const bool fuses = Fuses(op) || op.kind == OpKind::kReduce;
      if (!fuses) keep(id);
    }
    for (const Body& body : op.bodies) std::ranges::for_each(body.out, keep);
  });
  // What reads a view reads what is below it.
  std::vector<const Op*> all;
  ForEachOp(program.ops, [&](const Op& op) { all.push_back(&op); });
  for (auto op = all.rbegin(); op != all.rend(); ++op) {
    if (!IsView(**op)) continue;
    if (!readers[(*op)->out[0]].all_fuse) keep((*op)->in[0]);
    readers[(*op)->in[0]].count += readers[(*op)->out[0]].count - 1;
  }
  std::vector<std::vector<ValueId>> out(program.values.size());
  for (size_t id = 0; id < out.size(); ++id) {
    out[id] = {static_cast<ValueId>(id)};
  }
  for (const Op* const op : all) {
    if (!Fuses(*op)) continue;
    const ValueId id = op->out[0];
    const Readers& own = readers[id];
    const bool dear = op->kind == OpKind::kMap && IsAmong(op->word, kDear);
    if (!IsView(*op) && (!own.all_fuse || (dear && own.count > 1))) continue;
    std::vector<ValueId> sources;
    for (const ValueId from : op->in) {
      sources.insert(sources.end(), out[from].begin(), out[from].end());
    }
    std::ranges::sort(sources);
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    // To store a sum, such as that of a residual stream, frees its sources.
    const auto large = std::ranges::count_if(sources, [&](ValueId from) {
      return Elements(program.ShapeOf(from)) >= Elements(program.ShapeOf(id));
    });
    if (op->kind == OpKind::kMap && own.count > 1 && large > 1) continue;
    if (sources.size() <= kMostSources || IsView(*op)) {
      out[id] = std::move(sources);
    }
  }
  return out;
}

}  // namespace shardc::program
