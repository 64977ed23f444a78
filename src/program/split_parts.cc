// Rewrites each op for the split shapes of its operands and results. An op that
// cannot work on the parts of a dimension gets its operands joined by a
// reshape, and its results are split by another one. A reshape or a slice that
// separates the parts needs neither:
//
//   dot [8, 64], [64, 384] -> [8, 384]      becomes  [64, 3, 128] -> [8, 3,
//   128] reshape [8, 384] -> [8, 3, 2, 64]       becomes  [8, 3, 128] -> the
//   same slice [8, 384] from 128 to 256          becomes  a slice of [8, 3,
//   128] from
//                                           1 to 2, and a reshape to [8, 128]
#include "program/read.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "program/ties.h"
#include "source/size.h"

namespace shardc::program {
namespace {

class Splitter {
 public:
  Splitter(const Program& program, const std::vector<EqualParts>& parts)
      : program_(program), out_(program), parts_(program.values.size()) {
    const Ties ties = TieDimensions(program);
    std::map<Factors, int64_t> split;
    size_t next = 0;
    for (const Input& input : program.inputs) {
      if (input.kind != InputKind::kParam) continue;
      const EqualParts& own = parts[next++];
      for (size_t d = 0; d < own.size(); ++d) {
        if (own[d] < 2) continue;
        split.emplace(ties.table.Resolve(ties.dims[input.value][d]), own[d]);
      }
    }
    std::vector<bool> shards(program.values.size());
    FindShards(program.ops, false, shards);
    for (ValueId id = 0; id < parts_.size(); ++id) {
      const Shape& shape = program.ShapeOf(id);
      if (shards[id]) continue;
      for (size_t d = 0; d < ties.dims[id].size(); ++d) {
        const auto at = split.find(ties.table.Resolve(ties.dims[id][d]));
        if (at == split.end() || shape[d] % at->second != 0) continue;
        parts_[id].resize(shape.size(), 1);
        parts_[id][d] = at->second;
      }
    }
    // Inputs have the parts that the plan states, and no others.
    next = 0;
    for (const Input& input : program.inputs) {
      std::optional<size_t> param;
      if (input.kind == InputKind::kParam) param = next++;
      if (input.kind == InputKind::kState) param = ParamOfState(program, input);
      parts_[input.value] = param ? parts[*param] : EqualParts();
    }
    for (ValueId id = 0; id < parts_.size(); ++id) {
      out_.values[id].shape = SplitShape(program.ShapeOf(id), parts_[id]);
    }
  }

  Program Run() {
    std::vector<Op> ops;
    Rewrite(program_.ops, ops);
    out_.ops = std::move(ops);
    return std::move(out_);
  }

 private:
  // Marks the values inside of manual regions (shard_map). Their shapes are
  // those of shards, so their dimensions are not split.
  static void FindShards(const std::vector<Op>& ops, bool in_region,
                         std::vector<bool>& out) {
    for (const Op& op : ops) {
      const bool inside = in_region || op.kind == OpKind::kManual;
      for (const Body& body : op.bodies) {
        for (const ValueId id : body.in) out[id] = out[id] || inside;
        FindShards(body.ops, inside, out);
      }
      for (const ValueId id : op.out) out[id] = out[id] || in_region;
    }
  }

  void Rewrite(const std::vector<Op>& ops, std::vector<Op>& to) {
    std::map<std::pair<ValueId, Shape>, ValueId> shaped;
    std::swap(shaped, shaped_);
    std::vector<Op>* const outer = std::exchange(to_, &to);
    for (const Op& op : ops) {
      if (!op.bodies.empty() && op.kind != OpKind::kManual) {
        WithBodies(op);
      } else if (!HasSplit(op)) {
        to.push_back(op);
      } else if (!Native(op)) {
        Joined(op);
      }
    }
    std::swap(shaped, shaped_);
    to_ = outer;
  }

  bool IsSplit(ValueId id) const { return !parts_[id].empty(); }
  bool HasSplit(const Op& op) const {
    return std::ranges::any_of(op.in,
                               [&](ValueId id) { return IsSplit(id); }) ||
           std::ranges::any_of(op.out, [&](ValueId id) { return IsSplit(id); });
  }
  int64_t PartsOf(ValueId id, size_t d) const { return PartsAt(parts_[id], d); }
  // The size of a value's dimension before it was split.
  int64_t Size(ValueId id, size_t d) const { return program_.ShapeOf(id)[d]; }
  size_t Rank(ValueId id) const { return program_.ShapeOf(id).size(); }

  ValueId NewLike(ValueId id, Shape shape) {
    Value value;
    value.dtype = out_.values[id].dtype;
    value.shape = std::move(shape);
    out_.values.push_back(std::move(value));
    return static_cast<ValueId>(out_.values.size() - 1);
  }
  static Op ReshapeOp(const Op& like, ValueId from, ValueId to) {
    Op op;
    op.kind = OpKind::kReshape;
    op.phase = like.phase;
    op.at = like.at;
    op.module = like.module;
    op.in = {from};
    op.out = {to};
    return op;
  }

  // Returns the value with another shape of as many elements.
  ValueId Shaped(ValueId id, const Shape& shape, const Op& op) {
    if (out_.ShapeOf(id) == shape) return id;
    const auto [at, fresh] = shaped_.try_emplace({id, shape}, 0);
    if (fresh) {
      at->second = NewLike(id, shape);
      to_->push_back(ReshapeOp(op, id, at->second));
    }
    return at->second;
  }
  // Adds an op whose only result has this shape. The value that it stands for
  // is a reshape of it.
  void AddAs(Op op, const Shape& shape) {
    const ValueId result = op.out[0];
    if (out_.ShapeOf(result) == shape) {
      to_->push_back(std::move(op));
      return;
    }
    op.out = {NewLike(result, shape)};
    Op last = ReshapeOp(op, op.out[0], result);
    to_->push_back(std::move(op));
    to_->push_back(std::move(last));
  }

  // Runs the op on joined dimensions.
  void Joined(const Op& op) {
    Op made = op;
    std::vector<Op> after;
    for (ValueId& id : made.in) {
      if (IsSplit(id)) id = Shaped(id, program_.ShapeOf(id), op);
    }
    for (ValueId& id : made.out) {
      if (!IsSplit(id)) continue;
      const ValueId joined = NewLike(id, program_.ShapeOf(id));
      after.push_back(ReshapeOp(op, joined, id));
      id = joined;
    }
    to_->push_back(std::move(made));
    std::ranges::move(after, std::back_inserter(*to_));
  }

  static void Set(Op& op, Attr attr, Numbers list) {
    const auto at = std::ranges::find(
        op.numbers, attr, [](const auto& one) { return one.first; });
    if (at != op.numbers.end()) at->second = std::move(list);
  }
  // Returns the indices of dimensions in the split shape: with the parts
  // [1, 3], dimension 1 becomes the dimensions 1 and 2.
  static Numbers Dims(std::span<const int64_t> dims, const EqualParts& parts) {
    Numbers out;
    for (const int64_t d : dims) {
      const auto last = static_cast<int64_t>(SplitDim(AsIndex(d), parts));
      if (PartsAt(parts, AsIndex(d)) > 1) out.push_back(last - 1);
      out.push_back(last);
    }
    return out;
  }
  // Returns the shape of an operand whose dimensions are split as those of a
  // result with these parts. A dimension of size 1, which the op repeats along
  // the result's, becomes two of size 1.
  static Shape LikeShape(const Shape& shape, const EqualParts& parts) {
    Shape out;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t count = PartsAt(parts, d);
      if (count > 1) out.push_back(shape[d] == 1 ? 1 : count);
      out.push_back(shape[d] == 1 ? 1 : shape[d] / count);
    }
    return out;
  }

  // Adds the op on split dimensions, or returns false.
  bool Native(const Op& op) {
    switch (op.kind) {
      case OpKind::kConst:
      case OpKind::kReshape:
        to_->push_back(op);
        return true;
      case OpKind::kMap:
        return Map(op);
      case OpKind::kTranspose:
        return Transpose(op);
      case OpKind::kBroadcast:
        return Broadcast(op);
      case OpKind::kReduce:
        return Reduce(op);
      case OpKind::kSlice:
        return Slice(op);
      case OpKind::kPad:
        return Pad(op);
      case OpKind::kConcat:
        return Concat(op);
      case OpKind::kDot:
      case OpKind::kRaggedDot:
        return Dot(op);
      case OpKind::kGather:
        return Gather(op);
      case OpKind::kScatter:
        return Scatter(op);
      case OpKind::kConstraint:
        return Constraint(op);
      case OpKind::kCumulative:
      case OpKind::kSort:
      case OpKind::kTopK:
        return Along(op);
      default:
        return false;
    }
  }

  bool Map(const Op& op) {
    Op made = op;
    for (ValueId& id : made.in) {
      const Shape& shape = program_.ShapeOf(id);
      if (shape.empty()) continue;
      id = Shaped(id, LikeShape(shape, parts_[op.out[0]]), op);
    }
    to_->push_back(std::move(made));
    return true;
  }

  bool Transpose(const Op& op) {
    Op made = op;
    const auto perm = op.Of(Attr::kPerm);
    EqualParts own(perm.size(), 1);
    for (size_t d = 0; d < perm.size(); ++d) {
      own[AsIndex(perm[d])] = PartsOf(op.out[0], d);
    }
    made.in[0] =
        Shaped(op.in[0], SplitShape(program_.ShapeOf(op.in[0]), own), op);
    Set(made, Attr::kPerm, Dims(perm, own));
    to_->push_back(std::move(made));
    return true;
  }

  bool Broadcast(const Op& op) {
    Op made = op;
    const auto dims = op.Of(Attr::kDims);
    EqualParts own(dims.size(), 1);
    for (size_t i = 0; i < dims.size(); ++i) {
      own[i] = PartsOf(op.out[0], AsIndex(dims[i]));
    }
    made.in[0] =
        Shaped(op.in[0], LikeShape(program_.ShapeOf(op.in[0]), own), op);
    Set(made, Attr::kDims, Dims(dims, parts_[op.out[0]]));
    to_->push_back(std::move(made));
    return true;
  }

  bool Reduce(const Op& op) {
    Op made = op;
    const auto axes = op.Of(Attr::kAxes);
    EqualParts own(Rank(op.in[0]), 1);
    size_t to = 0;
    // An index counts the elements of one dimension.
    const bool indexes = op.word.starts_with("arg");
    for (size_t d = 0; d < own.size(); ++d) {
      if (indexes && HasDim(axes, d)) continue;
      own[d] =
          HasDim(axes, d) ? PartsOf(op.in[0], d) : PartsOf(op.out[0], to++);
    }
    made.in[0] =
        Shaped(op.in[0], SplitShape(program_.ShapeOf(op.in[0]), own), op);
    Set(made, Attr::kAxes, Dims(axes, own));
    to_->push_back(std::move(made));
    return true;
  }

  // Appends a dimension of this size, or two dimensions if `inner`, the
  // elements of a part, is not 0.
  static void Append(Shape& shape, int64_t size, int64_t inner) {
    if (inner != 0) shape.push_back(size / inner);
    shape.push_back(inner != 0 ? inner : size);
  }
  // Returns how many elements a part of a value's dimension has; 0 if it has no
  // parts.
  int64_t Inner(ValueId id, size_t d) const {
    const int64_t parts = PartsOf(id, d);
    return parts > 1 ? Size(id, d) / parts : 0;
  }

  // A range of complete parts is sliced at the dimension that counts them.
  bool Slice(const Op& op) {
    Op made = op;
    Shape operand;
    Shape result;
    Numbers start, limit, stride;
    for (size_t d = 0; d < Rank(op.in[0]); ++d) {
      const int64_t size = Size(op.in[0], d);
      const int64_t begin = op.Of(Attr::kStart)[d];
      const int64_t end = op.Of(Attr::kLimit)[d];
      const auto steps = op.Of(Attr::kStride);
      const int64_t step = steps.empty() ? 1 : steps[d];
      const bool passes = begin == 0 && end == size && step == 1;
      const int64_t inner = Inner(passes ? op.out[0] : op.in[0], d);
      const bool parts =
          inner != 0 && step == 1 && begin % inner == 0 && end % inner == 0;
      Append(operand, size, parts ? inner : 0);
      Append(result, Size(op.out[0], d), parts ? inner : 0);
      start.push_back(parts ? begin / inner : begin);
      limit.push_back(parts ? end / inner : end);
      stride.push_back(step);
      if (!parts) continue;
      start.push_back(0);
      limit.push_back(inner);
      stride.push_back(1);
    }
    made.in[0] = Shaped(op.in[0], operand, op);
    Set(made, Attr::kStart, std::move(start));
    Set(made, Attr::kLimit, std::move(limit));
    Set(made, Attr::kStride, std::move(stride));
    AddAs(std::move(made), result);
    return true;
  }

  bool Pad(const Op& op) {
    Op made = op;
    Shape operand;
    Shape result;
    Numbers low, high, interior;
    for (size_t d = 0; d < Rank(op.in[0]); ++d) {
      const int64_t before = op.Of(Attr::kLow)[d];
      const int64_t after = op.Of(Attr::kHigh)[d];
      const int64_t between = op.Of(Attr::kInterior)[d];
      const int64_t inner = Inner(op.out[0], d);
      const bool parts = inner != 0 && between == 0 && before % inner == 0 &&
                         after % inner == 0;
      Append(operand, Size(op.in[0], d), parts ? inner : 0);
      Append(result, Size(op.out[0], d), parts ? inner : 0);
      low.push_back(parts ? before / inner : before);
      high.push_back(parts ? after / inner : after);
      interior.push_back(between);
      if (!parts) continue;
      for (Numbers* const list : {&low, &high, &interior}) list->push_back(0);
    }
    made.in[0] = Shaped(op.in[0], operand, op);
    Set(made, Attr::kLow, std::move(low));
    Set(made, Attr::kHigh, std::move(high));
    Set(made, Attr::kInterior, std::move(interior));
    AddAs(std::move(made), result);
    return true;
  }

  bool Concat(const Op& op) {
    Op made = op;
    const size_t dim = AsIndex(op.NumberOf(Attr::kDim));
    std::vector<Shape> operands(op.in.size());
    Shape result;
    for (size_t d = 0; d < Rank(op.out[0]); ++d) {
      int64_t inner = Inner(op.out[0], d);
      if (d == dim) {
        for (const ValueId id : op.in) {
          if (inner != 0 && Size(id, d) % inner != 0) inner = 0;
        }
        Set(made, Attr::kDim, {std::ssize(result)});
      }
      for (size_t i = 0; i < op.in.size(); ++i) {
        Append(operands[i], Size(op.in[i], d), inner);
      }
      Append(result, Size(op.out[0], d), inner);
    }
    for (size_t i = 0; i < op.in.size(); ++i) {
      made.in[i] = Shaped(op.in[i], operands[i], op);
    }
    AddAs(std::move(made), result);
    return true;
  }

  bool Dot(const Op& op) {
    Op made = op;
    const auto lc = op.Of(Attr::kLhsContract);
    const auto rc = op.Of(Attr::kRhsContract);
    const auto lb = op.Of(Attr::kLhsBatch);
    const auto rb = op.Of(Attr::kRhsBatch);
    const auto ragged = op.Of(Attr::kLhsRagged);
    const auto group = op.Of(Attr::kRhsGroup);
    EqualParts lhs(Rank(op.in[0]), 1);
    EqualParts rhs(Rank(op.in[1]), 1);
    for (size_t i = 0; i < lc.size(); ++i) {
      lhs[AsIndex(lc[i])] = rhs[AsIndex(rc[i])] = std::max(
          PartsOf(op.in[0], AsIndex(lc[i])), PartsOf(op.in[1], AsIndex(rc[i])));
    }
    size_t to = op.kind == OpKind::kRaggedDot && group.empty() ? 1 : 0;
    for (size_t i = 0; i < lb.size(); ++i) {
      lhs[AsIndex(lb[i])] = rhs[AsIndex(rb[i])] = PartsOf(op.out[0], to++);
    }
    for (size_t d = 0; d < lhs.size(); ++d) {
      if (!HasDim(lc, d) && !HasDim(lb, d)) lhs[d] = PartsOf(op.out[0], to++);
    }
    for (size_t d = 0; d < rhs.size(); ++d) {
      if (HasDim(rc, d) || HasDim(rb, d) || HasDim(group, d)) continue;
      rhs[d] = PartsOf(op.out[0], to++);
    }
    for (const int64_t d : ragged) {
      if (PartsAt(lhs, AsIndex(d)) > 1) return false;
    }
    made.in[0] =
        Shaped(op.in[0], SplitShape(program_.ShapeOf(op.in[0]), lhs), op);
    made.in[1] =
        Shaped(op.in[1], SplitShape(program_.ShapeOf(op.in[1]), rhs), op);
    Set(made, Attr::kLhsContract, Dims(lc, lhs));
    Set(made, Attr::kRhsContract, Dims(rc, rhs));
    Set(made, Attr::kLhsBatch, Dims(lb, lhs));
    Set(made, Attr::kRhsBatch, Dims(rb, rhs));
    Set(made, Attr::kLhsRagged, Dims(ragged, lhs));
    Set(made, Attr::kRhsGroup, Dims(group, rhs));
    to_->push_back(std::move(made));
    return true;
  }

  // Returns the parts of a table of rows, the operand of a gather or scatter:
  // its dimensions that rows have completely may have parts. The rows'
  // dimensions `window` get the same parts.
  EqualParts RowParts(const Op& op, ValueId rows,
                      std::span<const int64_t> window,
                      std::span<const int64_t> removed,
                      std::span<const int64_t> indexed,
                      EqualParts& of_rows) const {
    const auto batch = op.Of(Attr::kOperandBatchDims);
    EqualParts out(Rank(op.in[0]), 1);
    size_t next = 0;
    for (size_t d = 0; d < out.size(); ++d) {
      if (HasDim(removed, d) || HasDim(batch, d)) continue;
      const size_t at = AsIndex(window[next++]);
      if (HasDim(indexed, d) || Size(rows, at) != Size(op.in[0], d)) continue;
      out[d] = of_rows[at] = std::max(PartsOf(op.in[0], d), PartsOf(rows, at));
    }
    return out;
  }

  bool Gather(const Op& op) {
    Op made = op;
    const auto window = op.Of(Attr::kOffsetDims);
    EqualParts rows(Rank(op.out[0]), 1);
    const EqualParts own =
        RowParts(op, op.out[0], window, op.Of(Attr::kCollapsedDims),
                 op.Of(Attr::kStartIndexMap), rows);
    made.in[0] =
        Shaped(op.in[0], SplitShape(program_.ShapeOf(op.in[0]), own), op);
    made.in[1] = Shaped(op.in[1], program_.ShapeOf(op.in[1]), op);
    Set(made, Attr::kOffsetDims, Dims(window, rows));
    for (const Attr attr : {Attr::kCollapsedDims, Attr::kOperandBatchDims,
                            Attr::kStartIndexMap}) {
      Set(made, attr, Dims(op.Of(attr), own));
    }
    const auto sizes = op.Of(Attr::kSliceSizes);
    Set(made, Attr::kSliceSizes,
        SplitShape(Shape(sizes.begin(), sizes.end()), own));
    AddAs(std::move(made), SplitShape(program_.ShapeOf(op.out[0]), rows));
    return true;
  }

  bool Scatter(const Op& op) {
    Op made = op;
    const auto window = op.Of(Attr::kUpdateWindowDims);
    EqualParts rows(Rank(op.in[2]), 1);
    const EqualParts own =
        RowParts(op, op.in[2], window, op.Of(Attr::kInsertedDims),
                 op.Of(Attr::kOperandDims), rows);
    const Shape shape = SplitShape(program_.ShapeOf(op.in[0]), own);
    made.in[0] = Shaped(op.in[0], shape, op);
    made.in[1] = Shaped(op.in[1], program_.ShapeOf(op.in[1]), op);
    made.in[2] =
        Shaped(op.in[2], SplitShape(program_.ShapeOf(op.in[2]), rows), op);
    Set(made, Attr::kUpdateWindowDims, Dims(window, rows));
    for (const Attr attr :
         {Attr::kInsertedDims, Attr::kOperandBatchDims, Attr::kOperandDims}) {
      Set(made, attr, Dims(op.Of(attr), own));
    }
    AddAs(std::move(made), shape);
    return true;
  }

  // A constraint of a dimension with parts is one of contiguous ranges.
  bool Constraint(const Op& op) {
    Op made = op;
    const EqualParts& parts = parts_[op.out[0]];
    if (made.constraint) {
      made.constraint->clear();
      for (size_t d = 0; d < op.constraint->size(); ++d) {
        const auto& entry = (*op.constraint)[d];
        if (PartsAt(parts, d) > 1) {
          if (entry && !entry->empty()) return false;
          made.constraint->push_back(entry);
        }
        made.constraint->push_back(entry);
      }
    }
    made.in[0] = Shaped(op.in[0], out_.ShapeOf(op.out[0]), op);
    to_->push_back(std::move(made));
    return true;
  }

  // Ops along one dimension of operands that have all others in common.
  bool Along(const Op& op) {
    const size_t dim = AsIndex(op.NumberOf(Attr::kDim));
    const EqualParts& parts = parts_[op.out[0]];
    for (const ValueId id : op.in) {
      if (PartsOf(id, dim) > 1) return false;
    }
    for (const ValueId id : op.out) {
      if (parts_[id] != parts || PartsOf(id, dim) > 1) return false;
    }
    Op made = op;
    for (ValueId& id : made.in) {
      id = Shaped(id, SplitShape(program_.ShapeOf(id), parts), op);
    }
    Set(made, Attr::kDim, {static_cast<int64_t>(SplitDim(dim, parts))});
    to_->push_back(std::move(made));
    return true;
  }

  // ---- bodies

  // Rewrites a body whose inputs have these shapes. Its outputs get the shapes
  // of `results`, or keep their own if `results` has no entry for them.
  Body Rewritten(const Body& body, const std::vector<Shape>& inputs,
                 const std::vector<std::optional<Shape>>& results,
                 const Op& op) {
    Body made;
    std::vector<Op> first;
    for (size_t i = 0; i < body.in.size(); ++i) {
      ValueId id = body.in[i];
      if (out_.ShapeOf(id) != inputs[i]) {
        const ValueId given = NewLike(id, inputs[i]);
        first.push_back(ReshapeOp(op, given, id));
        id = given;
      }
      made.in.push_back(id);
    }
    Rewrite(body.ops, made.ops);
    made.ops.insert(made.ops.begin(), first.begin(), first.end());
    for (size_t i = 0; i < body.out.size(); ++i) {
      ValueId id = body.out[i];
      if (results[i] && out_.ShapeOf(id) != *results[i]) {
        const ValueId shaped = NewLike(id, *results[i]);
        made.ops.push_back(ReshapeOp(op, id, shaped));
        id = shaped;
      }
      made.out.push_back(id);
    }
    return made;
  }

  std::vector<Shape> ShapesOf(std::span<const ValueId> ids) const {
    std::vector<Shape> out;
    for (const ValueId id : ids) out.push_back(out_.ShapeOf(id));
    return out;
  }

  void WithBodies(const Op& op) {
    Op made = op;
    const std::vector<Shape> in = ShapesOf(op.in);
    std::vector<std::optional<Shape>> results;
    std::vector<Shape> out;  // of the op
    if (op.kind == OpKind::kScan) {
      const Body& body = op.bodies[0];
      const size_t consts = AsIndex(op.NumberOf(Attr::kConsts));
      const size_t carry = AsIndex(op.NumberOf(Attr::kCarry));
      std::vector<Shape> inner = in;
      for (size_t i = consts + carry; i < inner.size(); ++i) {
        // A loop over a dimension that has parts runs over it as it was.
        if (PartsOf(op.in[i], 0) > 1) {
          made.in[i] = Shaped(op.in[i], program_.ShapeOf(op.in[i]), op);
          inner[i] = program_.ShapeOf(op.in[i]);
        }
        inner[i].erase(inner[i].begin());
      }
      results.resize(body.out.size());
      for (size_t i = 0; i < carry; ++i) results[i] = inner[consts + i];
      made.bodies = {Rewritten(body, inner, results, op)};
      out = ShapesOf(made.bodies[0].out);
      for (size_t i = carry; i < out.size(); ++i) {
        out[i].insert(out[i].begin(), op.NumberOf(Attr::kLength));
      }
    } else if (op.kind == OpKind::kWhile) {
      const auto first = op.NumberOf(Attr::kConditionConsts);
      const auto second = op.NumberOf(Attr::kBodyConsts);
      std::vector<Shape> condition(in.begin(), in.begin() + first);
      condition.insert(condition.end(), in.begin() + first + second, in.end());
      const std::vector<Shape> body(in.begin() + first, in.end());
      out.assign(in.begin() + first + second, in.end());
      results.assign(out.begin(), out.end());
      made.bodies = {Rewritten(op.bodies[0], condition, {std::nullopt}, op),
                     Rewritten(op.bodies[1], body, results, op)};
    } else {
      out = ShapesOf(op.out);
      results.assign(out.begin(), out.end());
      const std::vector<Shape> given(in.begin() + 1, in.end());
      made.bodies.clear();
      for (const Body& body : op.bodies) {
        made.bodies.push_back(Rewritten(body, given, results, op));
      }
    }
    std::vector<Op> after;
    for (size_t i = 0; i < out.size(); ++i) {
      if (out_.ShapeOf(op.out[i]) == out[i]) continue;
      made.out[i] = NewLike(op.out[i], out[i]);
      after.push_back(ReshapeOp(op, made.out[i], op.out[i]));
    }
    to_->push_back(std::move(made));
    std::ranges::move(after, std::back_inserter(*to_));
  }

  const Program& program_;
  Program out_;
  std::vector<EqualParts> parts_;  // of each value; empty without parts
  std::vector<Op>* to_ = nullptr;
  // The values of the body's reshapes, by the value and the shape.
  std::map<std::pair<ValueId, Shape>, ValueId> shaped_;
};

}  // namespace

Program SplitParts(const Program& program,
                   const std::vector<EqualParts>& parts) {
  return Splitter(program, parts).Run();
}

}  // namespace shardc::program
