// The rule of each op class: which dimensions of its operands and results are
// one dimension. Every rule gives the result's dimensions, tied to those of the
// operands, and records what else the op does with a dimension as an event.
// All phases tie dimensions, since a gradient has those of its parameter, but
// only ops of the forward pass give events: a weight's gradient is a product of
// two activations, which would look like attention.
//
// Two facts are not in the dimensions and are tracked for each value. Its
// content: an iota's elements count a dimension, and so do the indices that
// top_k returns; a comparison of two such values ties the dimensions they
// count, which is how a one-hot matrix of the chosen experts has the dimension
// of the router's experts. And what it depends on: parameters, data or both.
#include "program/ties.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "source/size.h"

namespace shardc::program {
namespace {

// The dimensions that a value's elements count, one for each component of the
// last dimension, or one for all elements.
using Content = std::vector<std::optional<Factors>>;

class Tying {
 public:
  explicit Tying(const Program& program) : program_(program) {
    out_.dims.resize(program.values.size());
    content_.resize(program.values.size());
    List(program.ops, 1);
    SetDepends();
    FindSlices();
  }

  Ties Run() {
    out_.origin.resize(program_.values.size());
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const Input& input = program_.inputs[i];
      Fresh(input.value);
      if (input.kind == InputKind::kParam) {
        out_.origin[input.value] = static_cast<uint32_t>(i + 1);
      }
    }
    Walk(program_.ops);
    return std::move(out_);
  }

 private:
  // ---- before the walk

  // A `while` loop counts as one turn, since nothing shows how many it has.
  void List(const std::vector<Op>& ops, double turns) {
    for (const Op& op : ops) {
      out_.ops.push_back(&op);
      out_.turns.push_back(turns);
      const bool scan = op.kind == OpKind::kScan;
      const double inner =
          scan ? turns * static_cast<double>(op.NumberOf(Attr::kLength))
               : turns;
      for (const Body& body : op.bodies) List(body.ops, inner);
    }
  }

  // Calls `visit(from, to)` for the values that an op hands to its bodies and
  // that these hand back, including from one turn of a loop to the next.
  template <class Visit>
  void ForBodies(const Op& op, const Visit& visit) const {
    const auto each = [&](std::span<const ValueId> from,
                          std::span<const ValueId> to) {
      for (size_t i = 0; i < from.size(); ++i) visit(from[i], to[i]);
    };
    const std::span<const ValueId> in(op.in);
    switch (op.kind) {
      case OpKind::kScan: {
        const Body& body = op.bodies[0];
        const size_t consts = AsIndex(op.NumberOf(Attr::kConsts));
        const size_t carry = AsIndex(op.NumberOf(Attr::kCarry));
        each(in, body.in);
        each(std::span(body.out).first(carry),
             std::span(body.in).subspan(consts, carry));
        each(body.out, op.out);
        break;
      }
      case OpKind::kWhile: {
        const size_t first = AsIndex(op.NumberOf(Attr::kConditionConsts));
        const size_t second = AsIndex(op.NumberOf(Attr::kBodyConsts));
        const Body& condition = op.bodies[0];
        const Body& body = op.bodies[1];
        each(in.first(first), condition.in);
        each(in.subspan(first), body.in);
        each(body.out, std::span(body.in).subspan(second));
        each(body.out, std::span(condition.in).subspan(first));
        each(in.subspan(first + second),
             std::span(condition.in).subspan(first));
        each(body.out, op.out);
        break;
      }
      case OpKind::kCond:
        for (const Body& branch : op.bodies) {
          each(in.subspan(1), branch.in);
          each(branch.out, op.out);
        }
        break;
      case OpKind::kManual:
        each(in, op.bodies[0].in);
        each(op.bodies[0].out, op.out);
        break;
      default:
        break;
    }
  }

  // Loops need as many passes as they are nested, and one to see no change.
  void SetDepends() {
    out_.depends.resize(program_.values.size());
    for (const Input& input : program_.inputs) {
      if (input.kind == InputKind::kParam) {
        out_.depends[input.value] = kOnParams;
      }
      if (input.kind == InputKind::kData) out_.depends[input.value] = kOnData;
    }
    bool changed = true;
    const auto add = [&](ValueId from, ValueId to) {
      const uint8_t both =
          static_cast<uint8_t>(out_.depends[to] | out_.depends[from]);
      changed = changed || both != out_.depends[to];
      out_.depends[to] = both;
    };
    while (changed) {
      changed = false;
      for (const Op* op : out_.ops) {
        ForBodies(*op, add);
        // An op lists its bodies after itself: their results are added in the
        // next pass.
        if (!op->bodies.empty()) continue;
        uint8_t all = 0;
        for (const ValueId in : op->in) {
          all = static_cast<uint8_t>(all | out_.depends[in]);
        }
        if (IsOfMatrices(*op)) all = out_.depends[op->in[0]];
        for (const ValueId to : op->out) {
          changed = changed || (all | out_.depends[to]) != out_.depends[to];
          out_.depends[to] = static_cast<uint8_t>(all | out_.depends[to]);
        }
      }
    }
  }

  // Returns whether an op looks up matrices of a parameter, such as those of
  // the experts that a token has chosen. They are weights, while the vectors
  // that are looked up in an embedding are activations.
  bool IsOfMatrices(const Op& op) const {
    if (op.kind != OpKind::kGather || out_.depends[op.in[0]] != kOnParams) {
      return false;
    }
    const auto sizes = op.Of(Attr::kSliceSizes);
    return std::ranges::count_if(sizes, [](int64_t n) { return n > 1; }) > 1;
  }

  // The bounds of all slices of one dimension, which must nest or be separate.
  struct Slices {
    std::vector<std::pair<int64_t, int64_t>> ranges;
    std::vector<int64_t> bounds;
    bool overlap = false;
  };

  void FindSlices() {
    for (const Op* op : out_.ops) {
      if (op->kind != OpKind::kSlice) continue;
      const Shape& shape = program_.ShapeOf(op->in[0]);
      for (size_t d = 0; d < shape.size(); ++d) {
        const auto [start, limit, stride] = BoundsOf(*op, d);
        if (limit - start == shape[d] || limit == start || stride != 1)
          continue;
        slices_[{op->in[0], d}].ranges.emplace_back(start, limit);
      }
    }
    for (auto& [key, slices] : slices_) {
      auto& ranges = slices.ranges;
      std::ranges::sort(ranges, [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first < b.first : a.second > b.second;
      });
      std::vector<int64_t> open;  // ends of the ranges around the next one
      for (const auto& [start, limit] : ranges) {
        while (!open.empty() && open.back() <= start) open.pop_back();
        if (!open.empty() && open.back() < limit) slices.overlap = true;
        open.push_back(limit);
        slices.bounds.push_back(start);
        slices.bounds.push_back(limit);
      }
    }
  }

  struct Bounds {
    int64_t start, limit, stride;
  };
  static Bounds BoundsOf(const Op& op, size_t d) {
    const auto stride = op.Of(Attr::kStride);
    return {op.Of(Attr::kStart)[d], op.Of(Attr::kLimit)[d],
            stride.empty() ? 1 : stride[d]};
  }

  // ---- helpers of the rules

  const Shape& ShapeOf(ValueId id) const { return program_.ShapeOf(id); }
  std::vector<Factors>& Dims(ValueId id) { return out_.dims[id]; }
  const Factors& In(const Op& op, size_t operand, int64_t d) {
    return Dims(op.in[operand])[AsIndex(d)];
  }

  void Fresh(ValueId id) {
    Dims(id).clear();
    for (const int64_t size : ShapeOf(id)) {
      Dims(id).push_back(out_.table.Fresh(size));
    }
  }

  void Unify(const Factors& a, const Factors& b) {
    if (out_.table.Unify(a, b)) return;
    Record(Use::kUnreconciled, a);
    Record(Use::kUnreconciled, b);
  }

  Event* Record(Use use, const Factors& factors) {
    if (out_.ops[at_]->phase != Phase::kForward || factors.empty()) {
      return nullptr;
    }
    out_.events.push_back({.use = use, .op = at_, .factors = factors});
    return &out_.events.back();
  }

  // Ties the dimensions of two values of the same shape. Values that a body has
  // not defined yet get the dimensions.
  void Same(ValueId from, ValueId to) {
    if (Dims(to).empty()) {
      Dims(to) = Dims(from);
      return;
    }
    for (size_t d = 0; d < Dims(to).size(); ++d) {
      Unify(Dims(from)[d], Dims(to)[d]);
    }
  }

  std::optional<Factors> ContentOf(ValueId id) const {
    return content_[id].size() == 1 ? content_[id][0] : std::nullopt;
  }

  // ---- the walk

  void Walk(const std::vector<Op>& ops) {
    for (const Op& op : ops) {
      const uint32_t own = next_++;
      at_ = own;
      Apply(op);
      at_ = own;
      if (op.kind == OpKind::kScan || op.kind == OpKind::kWhile ||
          op.kind == OpKind::kCond || op.kind == OpKind::kManual) {
        continue;
      }
      SetOrigin(op);
      RecordRepeated(op);
    }
  }

  void SetOrigin(const Op& op) {
    std::set<uint32_t> origins;
    for (const ValueId id : op.in) {
      if (out_.depends[id] != 0) origins.insert(out_.origin[id]);
    }
    if (origins.size() != 1) return;
    for (const ValueId id : op.out) out_.origin[id] = *origins.begin();
  }

  void RecordRepeated(const Op& op) {
    for (const ValueId id : op.out) {
      const auto& dims = Dims(id);
      for (size_t d = 1; d < dims.size(); ++d) {
        if (dims[d].empty()) continue;
        for (size_t e = 0; e < d; ++e) {
          if (!dims[e].empty() &&
              out_.table.Resolve(dims[d]) == out_.table.Resolve(dims[e])) {
            Record(Use::kRepeated, dims[d]);
          }
        }
      }
    }
  }

  void Apply(const Op& op) {
    switch (op.kind) {
      case OpKind::kConst:
      case OpKind::kRandom:
        for (const ValueId id : op.out) Fresh(id);
        return;
      case OpKind::kIota: {
        Fresh(op.out[0]);
        const Factors& counted =
            Dims(op.out[0])[AsIndex(op.NumberOf(Attr::kDim))];
        if (!counted.empty()) content_[op.out[0]] = {counted};
        return;
      }
      case OpKind::kMap:
        return Map(op);
      case OpKind::kBroadcast:
        return Broadcast(op);
      case OpKind::kReduce:
        return Reduce(op);
      case OpKind::kReshape:
        return Reshape(op);
      case OpKind::kTranspose:
        Dims(op.out[0]).clear();
        for (const int64_t d : op.Of(Attr::kPerm)) {
          Dims(op.out[0]).push_back(In(op, 0, d));
        }
        KeepContent(op);
        return;
      case OpKind::kSlice:
        return Slice(op);
      case OpKind::kConcat:
        return Concat(op);
      case OpKind::kPad:
        return Pad(op);
      case OpKind::kRev:
        Fresh(op.out[0]);
        for (size_t d = 0; d < Dims(op.in[0]).size(); ++d) {
          if (HasDim(op.Of(Attr::kDims), d)) {
            Record(Use::kShifted, Dims(op.in[0])[d]);
          } else {
            Unify(Dims(op.out[0])[d], Dims(op.in[0])[d]);
          }
        }
        return;
      case OpKind::kDot:
      case OpKind::kRaggedDot:
        return Dot(op);
      case OpKind::kConv:
        return Conv(op);
      case OpKind::kCumulative:
        Same(op.in[0], op.out[0]);
        Record(Use::kOrdered, In(op, 0, op.NumberOf(Attr::kDim)));
        return;
      case OpKind::kSort:
        for (size_t i = 0; i < op.in.size(); ++i) {
          if (i > 0) Same(op.in[0], op.in[i]);
          Same(op.in[0], op.out[i]);
          content_[op.out[i]] = content_[op.in[i]];
        }
        Record(Use::kOrdered, In(op, 0, op.NumberOf(Attr::kDim)));
        return;
      case OpKind::kTopK:
        return TopK(op);
      case OpKind::kGather:
        return Gather(op);
      case OpKind::kScatter:
        return Scatter(op);
      case OpKind::kDynamicSlice:
      case OpKind::kDynamicUpdateSlice:
        return Dynamic(op);
      case OpKind::kScan:
        return Scan(op);
      case OpKind::kWhile:
        return While(op);
      case OpKind::kCond:
        return Cond(op);
      case OpKind::kSolve:
        return Solve(op);
      case OpKind::kManual:
        return Manual(op);
      case OpKind::kCollective:
        return Collective(op);
      case OpKind::kConstraint:
        Same(op.in[0], op.out[0]);
        KeepContent(op);
        return;
      case OpKind::kOpaque:
        for (const ValueId id : op.out) Fresh(id);
        for (const ValueId id : op.in) {
          for (const Factors& dim : Dims(id)) Record(Use::kOpaque, dim);
        }
        return;
    }
  }

  void KeepContent(const Op& op) { content_[op.out[0]] = content_[op.in[0]]; }

  void Map(const Op& op) {
    const ValueId to = op.out[0];
    const Shape& shape = ShapeOf(to);
    Dims(to).assign(shape.size(), {});
    for (size_t d = 0; d < shape.size(); ++d) {
      bool first = true;
      for (const ValueId id : op.in) {
        if (ShapeOf(id).empty() || ShapeOf(id)[d] != shape[d]) continue;
        if (first) {
          Dims(to)[d] = Dims(id)[d];
        } else {
          Unify(Dims(to)[d], Dims(id)[d]);
        }
        first = false;
      }
      if (first) Dims(to)[d] = out_.table.Fresh(shape[d]);
    }
    MapContent(op);
  }

  void MapContent(const Op& op) {
    const std::string& fn = op.word;
    if (fn == "eq" || fn == "ne") {
      const auto left = ContentOf(op.in[0]);
      const auto right = op.in.size() > 1 ? ContentOf(op.in[1]) : std::nullopt;
      if (left && right) {
        if (out_.table.SizeOf(*left) == out_.table.SizeOf(*right)) {
          Unify(*left, *right);
        }
      } else if (left || right) {
        // An index that was computed from data, compared with a constant: that
        // the token of an argmax ends the text picks no elements.
        const uint8_t by = out_.depends[op.in[left ? 1 : 0]];
        const bool tested = (out_.depends[op.in[left ? 0 : 1]] & kOnData) != 0;
        if (tested && (by & kOnData) == 0) return;
        Lookup(left ? *left : *right, out_.depends[op.out[0]], by);
      }
      return;
    }
    constexpr std::string_view kKeeps[] = {"convert", "select", "clamp", "add",
                                           "sub",     "max",    "min"};
    if (std::ranges::find(kKeeps, fn) == std::end(kKeeps)) return;
    // The content is that of the only operand that has one; the others must be
    // constants, or the condition of a select.
    const Content* found = nullptr;
    for (size_t i = 0; i < op.in.size(); ++i) {
      const ValueId id = op.in[i];
      if (content_[id].empty()) {
        const bool constant =
            !program_.values[id].integers.empty() || (fn == "select" && i == 0);
        if (!constant && fn != "select") return;
      } else if (found != nullptr && !SameContent(*found, content_[id])) {
        return;
      } else {
        found = &content_[id];
      }
    }
    if (found != nullptr) content_[op.out[0]] = Content(*found);
  }

  bool SameContent(const Content& a, const Content& b) const {
    return std::ranges::equal(a, b, [&](const auto& x, const auto& y) {
      return x.has_value() == y.has_value() &&
             (!x || out_.table.Resolve(*x) == out_.table.Resolve(*y));
    });
  }

  void Lookup(const Factors& dim, uint8_t own, uint8_t by) {
    Event* const event = Record(Use::kLookedUp, dim);
    if (event == nullptr) return;
    event->own = own;
    event->other = by;
  }

  void Broadcast(const Op& op) {
    Fresh(op.out[0]);
    const auto dims = op.Of(Attr::kDims);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (ShapeOf(op.in[0])[d] == ShapeOf(op.out[0])[AsIndex(dims[d])]) {
        Dims(op.out[0])[AsIndex(dims[d])] = Dims(op.in[0])[d];
      }
    }
    KeepContent(op);
  }

  void Reduce(const Op& op) {
    const auto axes = op.Of(Attr::kAxes);
    const bool index = op.word == "argmax" || op.word == "argmin";
    for (size_t d = 0; d < Dims(op.in[0]).size(); ++d) {
      const Factors dim = Dims(op.in[0])[d];
      if (!HasDim(axes, d)) {
        Dims(op.out[0]).push_back(dim);
        continue;
      }
      Record(index ? Use::kOrdered : Use::kReduced, dim);
      if (index && axes.size() == 1 && !dim.empty()) {
        content_[op.out[0]] = {dim};
      }
    }
    // A reduction of a one-hot matrix of indices, or of equal ones.
    if (!index && (op.word == "max" || op.word == "min")) KeepContent(op);
  }

  // Ties groups of dimensions whose products are equal: [8, 128, 512] and
  // [1024, 8, 64] have the groups 8 128 | 1024 and 512 | 8 64.
  void Reshape(const Op& op) {
    const Shape& from = ShapeOf(op.in[0]);
    const Shape& to = ShapeOf(op.out[0]);
    Fresh(op.out[0]);
    const auto is_empty = [](const Shape& shape) {
      return std::ranges::find(shape, 0) != shape.end();
    };
    if (is_empty(from)) return;
    const std::vector<Factors> in = Dims(op.in[0]);
    std::vector<Factors>& out = Dims(op.out[0]);
    size_t i = 0;
    size_t j = 0;
    while (i < from.size() || j < to.size()) {
      if (i < from.size() && from[i] == 1) {
        ++i;
        continue;
      }
      if (j < to.size() && to[j] == 1) {
        ++j;
        continue;
      }
      if (from[i] == to[j]) {
        out[j++] = in[i++];
        continue;
      }
      Factors left = in[i];
      Factors right = out[j];
      int64_t a = from[i++];
      int64_t b = to[j++];
      while (a != b) {
        if (a < b) {
          left.insert(left.end(), in[i].begin(), in[i].end());
          a *= from[i++];
        } else {
          right.insert(right.end(), out[j].begin(), out[j].end());
          b *= to[j++];
        }
      }
      Unify(left, right);
    }
    const bool keeps_last =
        !from.empty() && !to.empty() && from.back() == to.back();
    if (content_[op.in[0]].size() == 1 || keeps_last) KeepContent(op);
  }

  void Slice(const Op& op) {
    const ValueId from = op.in[0];
    const ValueId to = op.out[0];
    Fresh(to);
    sliced_[to] = &op;
    for (size_t d = 0; d < ShapeOf(from).size(); ++d) {
      const Factors dim = Dims(from)[d];
      const int64_t size = ShapeOf(from)[d];
      const auto [start, limit, stride] = BoundsOf(op, d);
      if (limit - start == size && stride == 1) {
        Dims(to)[d] = dim;
      } else if (stride > 1 && size % stride == 0 && start < stride &&
                 ShapeOf(to)[d] == size / stride) {
        // Every stride-th element: the dimension is a product whose inner
        // factor has the size of the stride.
        const Factors outer = Dims(to)[d];
        Factors both = outer;
        const Factors inner = out_.table.Fresh(stride);
        both.insert(both.end(), inner.begin(), inner.end());
        Unify(dim, both);
        Record(Use::kDivided, dim);
      } else if (const auto part = PartOf(from, d, start, limit, stride)) {
        Dims(to)[d] = *part;
        Record(Use::kDivided, dim);
      } else {
        Record(Use::kShifted, dim);
      }
    }
    if (content_[from].size() == 1) KeepContent(op);
  }

  std::optional<Factors> PartOf(ValueId from, size_t d, int64_t start,
                                int64_t limit, int64_t stride) {
    if (stride != 1 || start == limit) return std::nullopt;
    const auto found = slices_.find({from, d});
    if (found == slices_.end() || found->second.overlap) return std::nullopt;
    const Factors dim = Dims(from)[d];
    if (!out_.table.DivideAt(dim, found->second.bounds)) return std::nullopt;
    return out_.table.Range(dim, start, limit);
  }

  void Concat(const Op& op) {
    const ValueId to = op.out[0];
    const size_t dim = AsIndex(op.NumberOf(Attr::kDim));
    std::vector<Factors> parts;
    Content components;
    for (const ValueId id : op.in) {
      if (ShapeOf(id)[dim] == 0) continue;
      parts.push_back(Dims(id)[dim]);
      components.push_back(ContentOf(id));
      if (Dims(to).empty()) {
        Dims(to) = Dims(id);
      } else {
        for (size_t d = 0; d < Dims(id).size(); ++d) {
          if (d != dim) Unify(Dims(to)[d], Dims(id)[d]);
        }
      }
    }
    if (parts.empty()) return Fresh(to);
    const bool joined = parts.size() > 1;
    Dims(to)[dim] = out_.table.SumOf(std::move(parts));
    if (joined) Record(Use::kJoined, Dims(to)[dim]);
    if (dim + 1 == ShapeOf(to).size() &&
        components.size() == AsIndex(ShapeOf(to)[dim])) {
      content_[to] = std::move(components);
    }
  }

  // A slice that leaves out some rows at one end, padded with as many at the
  // other, moves the rows of its operand: x[:, :-1] with a row before it.
  // Returns the operand's dimension, or null if the op does another thing.
  const Factors* MovedBy(const Op& op, size_t d) {
    const auto made = sliced_.find(op.in[0]);
    if (made == sliced_.end()) return nullptr;
    const Op& slice = *made->second;
    const auto [start, limit, stride] = BoundsOf(slice, d);
    const int64_t low = op.Of(Attr::kLow)[d];
    const int64_t high = op.Of(Attr::kHigh)[d];
    const bool moves = low >= 0 && high >= 0 && start == high && stride == 1 &&
                       limit == ShapeOf(slice.in[0])[d] - low && limit > start;
    return moves ? &Dims(slice.in[0])[d] : nullptr;
  }

  void Pad(const Op& op) {
    const Shape& from = ShapeOf(op.in[0]);
    Fresh(op.out[0]);
    for (size_t d = 0; d < from.size(); ++d) {
      const int64_t low = op.Of(Attr::kLow)[d];
      const int64_t high = op.Of(Attr::kHigh)[d];
      const Factors dim = Dims(op.in[0])[d];
      const bool spread = op.Of(Attr::kInterior)[d] > 0 && from[d] > 1;
      const Factors* const moved = spread ? nullptr : MovedBy(op, d);
      if (low == 0 && high == 0 && !spread) {
        Dims(op.out[0])[d] = dim;
      } else if (moved != nullptr) {
        Dims(op.out[0])[d] = *moved;
        Record(Use::kShifted, *moved);
      } else if (low < 0 || high < 0 || spread || from[d] == 0) {
        Record(Use::kShifted, dim);
      } else {
        std::vector<Factors> parts;
        if (low > 0) parts.push_back(out_.table.Fresh(low));
        parts.push_back(dim);
        if (high > 0) parts.push_back(out_.table.Fresh(high));
        Dims(op.out[0])[d] = out_.table.SumOf(std::move(parts));
        Record(Use::kShifted, dim);
      }
    }
  }

  void Dot(const Op& op) {
    const Attr contract[] = {Attr::kLhsContract, Attr::kRhsContract};
    const Attr batch[] = {Attr::kLhsBatch, Attr::kRhsBatch};
    const auto group = op.Of(Attr::kRhsGroup);
    const auto record = [&](Use use, size_t side, const Factors& dim) {
      Event* const event = Record(use, dim);
      if (event == nullptr) return;
      event->own = out_.depends[op.in[side]];
      event->other = out_.depends[op.in[1 - side]];
      event->side = static_cast<uint8_t>(side);
    };
    std::vector<Factors> result;
    const auto left_batch = op.Of(batch[0]);
    // A dot that contracts nothing, with an operand that has no other
    // dimensions, is a product of elements such as a scale. Neither heads nor
    // experts show in it.
    const bool scales = op.kind == OpKind::kDot && op.Of(contract[0]).empty() &&
                        left_batch.size() == std::min(Dims(op.in[0]).size(),
                                                      Dims(op.in[1]).size());
    for (size_t i = 0; i < left_batch.size(); ++i) {
      const Factors dim = In(op, 0, left_batch[i]);
      Unify(dim, In(op, 1, op.Of(batch[1])[i]));
      if (!scales) record(Use::kBatched, 0, dim);
      result.push_back(dim);
    }
    const auto left_contract = op.Of(contract[0]);
    for (size_t i = 0; i < left_contract.size(); ++i) {
      const Factors dim = In(op, 0, left_contract[i]);
      const Factors other = In(op, 1, op.Of(contract[1])[i]);
      Unify(dim, other);
      record(Use::kContracted, 0, dim);
      record(Use::kContracted, 1, other);
    }
    if (op.kind == OpKind::kRaggedDot) {
      const Factors sizes = Dims(op.in[2]).back();
      if (group.empty()) {
        result.insert(result.begin(), sizes);
      } else {
        Unify(sizes, In(op, 1, group[0]));
      }
      Record(Use::kGrouped, sizes);
    }
    for (size_t side = 0; side < 2; ++side) {
      const auto& dims = Dims(op.in[side]);
      const uint8_t own = out_.depends[op.in[side]];
      for (size_t d = 0; d < dims.size(); ++d) {
        if (HasDim(op.Of(contract[side]), d) || HasDim(op.Of(batch[side]), d) ||
            (side == 1 && HasDim(group, d))) {
          continue;
        }
        record((own & kOnData) == 0 ? Use::kProduced : Use::kFree, side,
               dims[d]);
        result.push_back(dims[d]);
      }
    }
    Dims(op.out[0]) = std::move(result);
  }

  void Conv(const Op& op) {
    const auto lhs = op.Of(Attr::kLhs);
    const auto rhs = op.Of(Attr::kRhs);
    const auto result = op.Of(Attr::kResult);
    const int64_t groups = op.NumberOf(Attr::kGroups);
    const ValueId to = op.out[0];
    Fresh(to);
    const auto out = [&](size_t i) -> Factors& {
      return Dims(to)[AsIndex(result[i])];
    };
    if (ShapeOf(to)[AsIndex(result[0])] == ShapeOf(op.in[0])[AsIndex(lhs[0])]) {
      out(0) = In(op, 0, lhs[0]);
    }
    const Factors in_feature = In(op, 0, lhs[1]);
    const Factors of_kernel = In(op, 1, rhs[1]);
    out(1) = In(op, 1, rhs[0]);
    if (groups == 1) {
      Unify(in_feature, of_kernel);
    } else {
      // Each group of input features makes a group of output features.
      const Factors group = out_.table.Fresh(groups);
      const auto grouped = [&](Factors inner) {
        inner.insert(inner.begin(), group.begin(), group.end());
        return inner;
      };
      Unify(in_feature, grouped(of_kernel));
      Unify(out(1), grouped(out_.table.Fresh(ShapeOf(to)[AsIndex(result[1])] /
                                             groups)));
    }
    Record(Use::kFeature, in_feature);
    Record(Use::kFeature, out(1));
    const auto strides = op.Of(Attr::kStrides);
    for (size_t i = 2; i < lhs.size(); ++i) {
      const Factors dim = In(op, 0, lhs[i]);
      const Factors window = In(op, 1, rhs[i]);
      const int64_t size = ShapeOf(op.in[0])[AsIndex(lhs[i])];
      const int64_t taps = ShapeOf(op.in[1])[AsIndex(rhs[i])];
      const int64_t outputs = ShapeOf(to)[AsIndex(result[i])];
      Record(Use::kWindow, window);
      if (taps == 1 && strides[i - 2] == 1 && outputs == size) {
        out(i) = dim;
      } else if (taps > 0 && strides[i - 2] == taps && size / taps == outputs &&
                 size % taps == 0) {
        // Windows that do not overlap: patches.
        Factors both = out(i);
        both.insert(both.end(), window.begin(), window.end());
        Unify(dim, both);
      } else if (outputs == size) {
        out(i) = dim;
        Record(Use::kShifted, dim);
      } else {
        Record(Use::kShifted, dim);
      }
    }
  }

  void TopK(const Op& op) {
    const size_t dim = AsIndex(op.NumberOf(Attr::kDim));
    Dims(op.out[0]) = Dims(op.in[0]);
    Dims(op.out[0])[dim] = out_.table.Fresh(op.NumberOf(Attr::kK));
    Dims(op.out[1]) = Dims(op.out[0]);
    const Factors& searched = Dims(op.in[0])[dim];
    Record(Use::kSearched, searched);
    if (!searched.empty()) content_[op.out[1]] = {searched};
  }

  // Ties the dimensions of an operand that components of an index vector count,
  // and records that they are looked up.
  void Index(const Op& op, std::span<const int64_t> map,
             std::span<const int64_t> single) {
    const Content& content = content_[op.in[1]];
    for (size_t c = 0; c < map.size(); ++c) {
      if (!HasDim(single, AsIndex(map[c]))) continue;
      const Factors dim = In(op, 0, map[c]);
      const bool all = content.size() == 1 && map.size() == 1;
      if (all || (content.size() == map.size() && c < content.size())) {
        const auto& counted = content[all ? 0 : c];
        if (counted && out_.table.SizeOf(*counted) == out_.table.SizeOf(dim)) {
          Unify(*counted, dim);
        }
      }
      Lookup(dim, out_.depends[op.in[0]], out_.depends[op.in[1]]);
    }
  }

  // Ties the dimensions of slices (of a gather's result or a scatter's updates)
  // to those of the operand and of the indices.
  void TieSlices(const Op& op, ValueId sliced, std::span<const int64_t> window,
                 std::span<const int64_t> removed) {
    const auto batch = op.Of(Attr::kOperandBatchDims);
    const auto indices_batch = op.Of(Attr::kIndicesBatchDims);
    for (size_t i = 0; i < batch.size(); ++i) {
      Unify(In(op, 0, batch[i]), In(op, 1, indices_batch[i]));
    }
    std::vector<size_t> kept;
    for (size_t d = 0; d < ShapeOf(op.in[0]).size(); ++d) {
      if (!HasDim(removed, d) && !HasDim(batch, d)) kept.push_back(d);
    }
    size_t of_slice = 0;
    size_t of_indices = 0;
    for (size_t d = 0; d < ShapeOf(sliced).size(); ++d) {
      if (!HasDim(window, d)) {
        Unify(Dims(sliced)[d], Dims(op.in[1])[of_indices++]);
        continue;
      }
      const size_t from = kept[of_slice++];
      if (ShapeOf(op.in[0])[from] == ShapeOf(sliced)[d]) {
        Unify(Dims(sliced)[d], Dims(op.in[0])[from]);
      } else {
        Record(Use::kShifted, Dims(op.in[0])[from]);
      }
    }
  }

  void Gather(const Op& op) {
    Fresh(op.out[0]);
    TieSlices(op, op.out[0], op.Of(Attr::kOffsetDims),
              op.Of(Attr::kCollapsedDims));
    Index(op, op.Of(Attr::kStartIndexMap), op.Of(Attr::kCollapsedDims));
    if (content_[op.in[0]].size() == 1) KeepContent(op);
  }

  // A scatter to constant positions of a constant, such as the rows of an
  // adapter for query and value that are set among zeros for the key, makes a
  // dimension of parts as a concatenation does:
  //
  //   updates (48 | 16) set at 0 to 47 and 64 to 79 of 80  ->  (48 | 16 | 16)
  //
  // The positions must ascend. Returns false for any other scatter.
  bool ScatterParts(const Op& op) {
    const auto positions =
        std::span<const int64_t>(program_.values[op.in[1]].integers);
    const auto removed = op.Of(Attr::kInsertedDims);
    const auto window = op.Of(Attr::kUpdateWindowDims);
    const Shape& whole = ShapeOf(op.in[0]);
    const Shape& updates = ShapeOf(op.in[2]);
    if (positions.empty() || op.word != "set" || out_.depends[op.in[0]] != 0 ||
        removed.size() != 1 || updates.size() != whole.size() ||
        window.size() + 1 != updates.size() ||
        !op.Of(Attr::kOperandBatchDims).empty()) {
      return false;
    }
    const size_t dim = AsIndex(removed[0]);
    size_t rows = 0;  // The dimension of the updates that has the positions.
    while (HasDim(window, rows)) ++rows;
    if (updates[rows] != std::ssize(positions) ||
        !std::ranges::is_sorted(positions, std::less_equal<>()) ||
        positions.front() < 0 || positions.back() >= whole[dim]) {
      return false;
    }
    for (size_t d = 0, u = 0; d < whole.size(); ++d, ++u) {
      if (d == dim) continue;
      if (u == rows) ++u;
      if (u >= updates.size() || updates[u] != whole[d]) return false;
    }
    return SumPositions(op, dim, rows, positions);
  }

  bool SumPositions(const Op& op, size_t dim, size_t rows,
                    std::span<const int64_t> positions) {
    struct Run {
      int64_t at = 0, begin = 0, end = 0;  // The updates `begin` to `end`.
    };
    std::vector<Run> runs;
    for (int64_t i = 0; i < std::ssize(positions); ++i) {
      const int64_t at = positions[AsIndex(i)];
      if (runs.empty() ||
          at != runs.back().at + (runs.back().end - runs.back().begin)) {
        runs.push_back({at, i, i});
      }
      runs.back().end = i + 1;
    }
    std::vector<int64_t> bounds;
    for (const Run& run : runs) bounds.push_back(run.begin);
    bounds.push_back(std::ssize(positions));
    const Factors from = Dims(op.in[2])[rows];
    if (runs.size() > 1 && !out_.table.DivideAt(from, bounds)) return false;
    std::vector<Factors> parts;
    int64_t next = 0;
    for (const Run& run : runs) {
      if (run.at > next) parts.push_back(out_.table.Fresh(run.at - next));
      const auto part = runs.size() > 1
                            ? out_.table.Range(from, run.begin, run.end)
                            : std::optional(from);
      if (!part) return false;
      parts.push_back(*part);
      next = run.at + run.end - run.begin;
    }
    const int64_t size = ShapeOf(op.in[0])[dim];
    if (size > next) parts.push_back(out_.table.Fresh(size - next));
    Fresh(op.out[0]);
    for (size_t d = 0, u = 0; d < ShapeOf(op.in[0]).size(); ++d) {
      if (d == dim) continue;
      if (u == rows) ++u;
      Dims(op.out[0])[d] = Dims(op.in[2])[u++];
    }
    Dims(op.out[0])[dim] =
        parts.size() > 1 ? out_.table.SumOf(std::move(parts)) : parts[0];
    if (runs.size() > 1) Record(Use::kDivided, from);
    Record(Use::kJoined, Dims(op.out[0])[dim]);
    return true;
  }

  void Scatter(const Op& op) {
    if (ScatterParts(op)) return;
    Same(op.in[0], op.out[0]);
    TieSlices(op, op.in[2], op.Of(Attr::kUpdateWindowDims),
              op.Of(Attr::kInsertedDims));
    Index(op, op.Of(Attr::kOperandDims), op.Of(Attr::kInsertedDims));
  }

  void Dynamic(const Op& op) {
    const bool update = op.kind == OpKind::kDynamicUpdateSlice;
    const ValueId part = update ? op.in[1] : op.out[0];
    if (update) {
      Same(op.in[0], op.out[0]);
    } else {
      Fresh(part);
    }
    for (size_t d = 0; d < ShapeOf(part).size(); ++d) {
      if (ShapeOf(part)[d] == ShapeOf(op.in[0])[d]) {
        Unify(Dims(part)[d], Dims(op.in[0])[d]);
      } else {
        Lookup(Dims(op.in[0])[d], out_.depends[op.in[0]],
               out_.depends[op.in[d + (update ? 2 : 1)]]);
        Record(Use::kShifted, Dims(op.in[0])[d]);
      }
    }
  }

  // Binds a value of an op to one of its body, before the body is walked.
  void Bind(ValueId outer, ValueId inner) {
    Dims(inner) = Dims(outer);
    content_[inner] = content_[outer];
    if (out_.depends[inner] == kOnParams) {
      out_.origin[inner] = out_.origin[outer];
    }
  }

  void Scan(const Op& op) {
    const Body& body = op.bodies[0];
    const size_t consts = AsIndex(op.NumberOf(Attr::kConsts));
    const size_t carry = AsIndex(op.NumberOf(Attr::kCarry));
    const Factors turns = out_.table.Fresh(op.NumberOf(Attr::kLength));
    for (size_t i = 0; i < op.in.size(); ++i) {
      if (i < consts + carry) {
        Bind(op.in[i], body.in[i]);
        if (i >= consts) content_[body.in[i]].clear();
        continue;
      }
      const auto& dims = Dims(op.in[i]);
      Unify(dims[0], turns);
      if (Event* const event = Record(Use::kScanned, dims[0])) {
        event->own = out_.depends[op.in[i]];
      }
      Dims(body.in[i]).assign(dims.begin() + 1, dims.end());
      out_.origin[body.in[i]] = out_.origin[op.in[i]];
    }
    Walk(body.ops);
    for (size_t i = 0; i < op.out.size(); ++i) {
      if (i < carry) {
        Same(body.out[i], body.in[consts + i]);
        Dims(op.out[i]) = Dims(body.out[i]);
        continue;
      }
      Dims(op.out[i]) = Dims(body.out[i]);
      Dims(op.out[i]).insert(Dims(op.out[i]).begin(), turns);
    }
  }

  void While(const Op& op) {
    const size_t first = AsIndex(op.NumberOf(Attr::kConditionConsts));
    const size_t second = AsIndex(op.NumberOf(Attr::kBodyConsts));
    const Body& condition = op.bodies[0];
    const Body& body = op.bodies[1];
    for (size_t i = 0; i < condition.in.size(); ++i) {
      Bind(op.in[i < first ? i : i + second], condition.in[i]);
    }
    Walk(condition.ops);
    for (size_t i = 0; i < body.in.size(); ++i) {
      Bind(op.in[first + i], body.in[i]);
      if (i >= second) content_[body.in[i]].clear();
    }
    Walk(body.ops);
    for (size_t i = 0; i < op.out.size(); ++i) {
      Same(body.out[i], body.in[second + i]);
      Dims(op.out[i]) = Dims(body.out[i]);
    }
  }

  void Cond(const Op& op) {
    for (const Body& branch : op.bodies) {
      for (size_t i = 0; i < branch.in.size(); ++i) {
        Bind(op.in[i + 1], branch.in[i]);
      }
      Walk(branch.ops);
      for (size_t i = 0; i < op.out.size(); ++i) {
        Same(branch.out[i], op.out[i]);
      }
    }
  }

  void Solve(const Op& op) {
    Dims(op.out[0]) = Dims(op.in[1]);
    const size_t rank = ShapeOf(op.in[0]).size();
    for (size_t d = 0; d + 2 < rank; ++d) {
      Unify(Dims(op.in[0])[d], Dims(op.in[1])[d]);
    }
    const bool left = op.NumberOf(Attr::kLeftSide) != 0;
    const Factors solved = Dims(op.in[1])[rank - (left ? 2 : 1)];
    Unify(Dims(op.in[0])[rank - 1], solved);
    Unify(Dims(op.in[0])[rank - 2], solved);
    Record(Use::kOrdered, solved);
  }

  // A dimension of the global value is that of a device's value, as many times
  // as devices share it.
  void Manual(const Op& op) {
    const Body& body = op.bodies[0];
    for (size_t i = 0; i < op.in.size(); ++i) {
      Fresh(body.in[i]);
      TieLocal(op.in[i], body.in[i]);
    }
    Walk(body.ops);
    for (size_t i = 0; i < op.out.size(); ++i) {
      Fresh(op.out[i]);
      TieLocal(op.out[i], body.out[i]);
    }
  }

  void TieLocal(ValueId global, ValueId local) {
    for (size_t d = 0; d < ShapeOf(global).size(); ++d) {
      const int64_t part = ShapeOf(local)[d];
      if (part == 0) continue;
      Factors both = out_.table.Fresh(ShapeOf(global)[d] / part);
      both.insert(both.end(), Dims(local)[d].begin(), Dims(local)[d].end());
      Unify(Dims(global)[d], both);
    }
  }

  // Collectives keep the dimensions whose sizes they keep.
  void Collective(const Op& op) {
    for (size_t i = 0; i < op.out.size(); ++i) {
      Fresh(op.out[i]);
      if (i >= op.in.size()) continue;
      const Shape& from = ShapeOf(op.in[i]);
      const Shape& to = ShapeOf(op.out[i]);
      if (from.size() != to.size()) continue;
      for (size_t d = 0; d < to.size(); ++d) {
        if (from[d] == to[d]) Dims(op.out[i])[d] = Dims(op.in[i])[d];
      }
    }
  }

  const Program& program_;
  Ties out_;
  std::vector<Content> content_;  // of each value
  std::map<std::pair<ValueId, size_t>, Slices> slices_;
  std::map<ValueId, const Op*> sliced_;  // the slices by their results
  uint32_t at_ = 0;    // the position of the op that is applied
  uint32_t next_ = 0;  // the position of the next op in Ties::ops
};

}  // namespace

Ties TieDimensions(const Program& program) { return Tying(program).Run(); }

}  // namespace shardc::program
