// The rules for the shapes of results. Where a rule needs more than the sizes
// and the attributes that are read, such as the spatial sizes of a dilated
// convolution, only what factor analysis relies on is checked:
//
//   dot of [8, 128] and [128, 512], contracting 1 with 0  ->  [8, 512]
#include "program/read.h"

#include <algorithm>

#include "source/size.h"

namespace shardc::program {
namespace {

Shape Without(const Shape& shape, std::span<const int64_t> dims) {
  Shape out;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!HasDim(dims, d)) out.push_back(shape[d]);
  }
  return out;
}

class ShapeCheck {
 public:
  ShapeCheck(const Program& program, const Op& op)
      : program_(program), op_(op) {}

  std::string Fault() const {
    switch (op_.kind) {
      case OpKind::kMap:
        return Map();
      case OpKind::kBroadcast:
        return Broadcast();
      case OpKind::kReduce:
        return Expect(Without(In(0), op_.Of(Attr::kAxes)));
      case OpKind::kReshape:
        return CheckedProduct(In(0)) == CheckedProduct(Out())
                   ? ""
                   : "the operand has another number of elements";
      case OpKind::kTranspose: {
        const auto perm = op_.Of(Attr::kPerm);
        if (perm.size() != In(0).size()) return "`perm` leaves out dimensions";
        Shape out;
        for (const int64_t d : perm) out.push_back(In(0)[AsIndex(d)]);
        return Expect(out);
      }
      case OpKind::kSlice:
        return Slice();
      case OpKind::kConcat:
        return Concat();
      case OpKind::kPad:
        return Pad();
      case OpKind::kRev:
      case OpKind::kCumulative:
      case OpKind::kConstraint:
        return Expect(In(0));
      case OpKind::kDot:
      case OpKind::kRaggedDot:
        return Dot();
      case OpKind::kConv:
        return Conv();
      case OpKind::kSort:
        return Sort();
      case OpKind::kTopK:
        return TopK();
      case OpKind::kGather:
        return Gather();
      case OpKind::kScatter:
        return Scatter();
      case OpKind::kDynamicSlice:
      case OpKind::kDynamicUpdateSlice:
        return Dynamic();
      case OpKind::kScan:
        return Scan();
      case OpKind::kWhile:
        return While();
      case OpKind::kCond:
        return Cond();
      case OpKind::kSolve:
        return Solve();
      case OpKind::kManual:
        return Manual();
      case OpKind::kConst:
      case OpKind::kIota:
      case OpKind::kRandom:
      case OpKind::kCollective:
      case OpKind::kOpaque:
        return "";
    }
    return "";
  }

 private:
  const Shape& In(size_t i) const { return program_.ShapeOf(op_.in[i]); }
  const Shape& Out(size_t i = 0) const { return program_.ShapeOf(op_.out[i]); }
  int64_t InSize(size_t i, int64_t dim) const { return In(i)[AsIndex(dim)]; }

  std::string Expect(const Shape& shape, size_t result = 0) const {
    if (shape == Out(result)) return "";
    return "its result has the shape " + ShapeText(Out(result)) + ", not " +
           ShapeText(shape);
  }

  std::string Map() const {
    for (const ValueId id : op_.in) {
      const Shape& shape = program_.ShapeOf(id);
      if (shape.empty()) continue;
      bool fits = shape.size() == Out().size();
      for (size_t d = 0; fits && d < shape.size(); ++d) {
        fits = shape[d] == Out()[d] || shape[d] == 1;
      }
      if (!fits) {
        return "an operand of shape " + ShapeText(shape) +
               " cannot have a result of shape " + ShapeText(Out());
      }
    }
    return "";
  }

  std::string Broadcast() const {
    const auto dims = op_.Of(Attr::kDims);
    if (dims.size() != In(0).size()) return "`dims` leaves out dimensions";
    for (size_t d = 0; d < dims.size(); ++d) {
      if (In(0)[d] != 1 && In(0)[d] != Out()[AsIndex(dims[d])]) {
        return "dimension " + std::to_string(d) +
               " of the operand has another size than its result";
      }
    }
    return "";
  }

  std::string Slice() const {
    const auto start = op_.Of(Attr::kStart);
    const auto limit = op_.Of(Attr::kLimit);
    const auto stride = op_.Of(Attr::kStride);
    Shape out;
    for (size_t d = 0; d < In(0).size(); ++d) {
      if (start[d] > limit[d] || limit[d] > In(0)[d]) {
        return "the slice of dimension " + std::to_string(d) +
               " is outside of it";
      }
      out.push_back(
          ShareOf(limit[d] - start[d], stride.empty() ? 1 : stride[d]));
    }
    return Expect(out);
  }

  std::string Concat() const {
    const size_t dim = AsIndex(op_.NumberOf(Attr::kDim));
    Shape out = In(0);
    for (size_t i = 1; i < op_.in.size(); ++i) {
      Shape shape = In(i);
      if (shape.size() != out.size()) return "its operands differ in rank";
      const auto sum = CheckedAdd(out[dim], shape[dim]);
      shape[dim] = out[dim];
      if (shape != out) return "its operands differ in another dimension";
      if (!sum) return "its result is too large";
      out[dim] = *sum;
    }
    return Expect(out);
  }

  std::string Pad() const {
    const auto interior = op_.Of(Attr::kInterior);
    Shape out;
    for (size_t d = 0; d < In(0).size(); ++d) {
      const int64_t gaps = std::max<int64_t>(0, In(0)[d] - 1);
      const auto between = CheckedMul(gaps, interior[d]);
      auto size = between ? CheckedAdd(*between, In(0)[d]) : std::nullopt;
      if (size) size = CheckedAdd(*size, op_.Of(Attr::kLow)[d]);
      if (size) size = CheckedAdd(*size, op_.Of(Attr::kHigh)[d]);
      if (!size) return "its result is too large";
      out.push_back(std::max<int64_t>(0, *size));
    }
    return Expect(out);
  }

  std::string Dot() const {
    const auto lc = op_.Of(Attr::kLhsContract);
    const auto rc = op_.Of(Attr::kRhsContract);
    const auto lb = op_.Of(Attr::kLhsBatch);
    const auto rb = op_.Of(Attr::kRhsBatch);
    if (lc.size() != rc.size() || lb.size() != rb.size()) {
      return "its operands have different numbers of contracted or batch "
             "dimensions";
    }
    Numbers left(lc.begin(), lc.end());
    Numbers right(rc.begin(), rc.end());
    Shape out;
    for (size_t i = 0; i < lb.size(); ++i) {
      if (HasDim(lc, AsIndex(lb[i])) || HasDim(rc, AsIndex(rb[i]))) {
        return "a dimension is both contracted and a batch dimension";
      }
      if (InSize(0, lb[i]) != InSize(1, rb[i])) return Unequal();
      out.push_back(InSize(0, lb[i]));
      left.push_back(lb[i]);
      right.push_back(rb[i]);
    }
    for (size_t i = 0; i < lc.size(); ++i) {
      if (InSize(0, lc[i]) != InSize(1, rc[i])) return Unequal();
    }
    if (op_.kind == OpKind::kRaggedDot) {
      const auto group = op_.Of(Attr::kRhsGroup);
      if (op_.Of(Attr::kLhsRagged).size() != 1 || group.size() > 1 ||
          In(2).empty()) {
        return "it needs one ragged dimension and the sizes of the groups";
      }
      if (!group.empty()) {
        if (InSize(1, group[0]) != In(2).back() ||
            HasDim(right, AsIndex(group[0]))) {
          return "its groups do not have one size each";
        }
        right.push_back(group[0]);
      } else {
        out.insert(out.begin(), In(2).back());
      }
    }
    for (const int64_t size : Without(In(0), left)) out.push_back(size);
    for (const int64_t size : Without(In(1), right)) out.push_back(size);
    return Expect(out);
  }

  static std::string Unequal() {
    return "two dimensions that it ties have different sizes";
  }

  std::string Conv() const {
    const auto lhs = op_.Of(Attr::kLhs);
    const auto rhs = op_.Of(Attr::kRhs);
    const auto result = op_.Of(Attr::kResult);
    const size_t rank = In(0).size();
    const int64_t groups = op_.NumberOf(Attr::kGroups);
    if (rank < 2 || lhs.size() != rank || rhs.size() != rank ||
        result.size() != rank || In(1).size() != rank || Out().size() != rank) {
      return "its operands and its result differ in rank";
    }
    if (op_.Of(Attr::kStrides).size() != rank - 2) {
      return "`strides` must have an entry for each spatial dimension";
    }
    const auto features = CheckedMul(InSize(1, rhs[1]), groups);
    if (groups < 1 || features != InSize(0, lhs[1]) ||
        InSize(1, rhs[0]) % groups != 0 ||
        Out()[AsIndex(result[1])] != InSize(1, rhs[0])) {
      return "its features do not agree";
    }
    return "";
  }

  std::string Sort() const {
    if (op_.out.size() != op_.in.size())
      return "it needs a result for each operand";
    for (size_t i = 0; i < op_.in.size(); ++i) {
      if (In(i) != In(0) || Out(i) != In(0))
        return "its operands differ in shape";
    }
    return "";
  }

  std::string TopK() const {
    Shape out = In(0);
    int64_t& size = out[AsIndex(op_.NumberOf(Attr::kDim))];
    if (op_.NumberOf(Attr::kK) > size) return "`k` exceeds the dimension";
    size = op_.NumberOf(Attr::kK);
    const std::string fault = Expect(out);
    return fault.empty() ? Expect(out, 1) : fault;
  }

  // Returns why dimensions of an indexed operand are not of one kind each:
  // sliced, `removed` from slices, or batch dimensions. `sliced` is how many
  // dimensions the slices have.
  std::string IndexFault(std::span<const int64_t> removed,
                         std::span<const int64_t> map, size_t sliced) const {
    const auto batch = op_.Of(Attr::kOperandBatchDims);
    const auto indices_batch = op_.Of(Attr::kIndicesBatchDims);
    for (const int64_t d : batch) {
      if (HasDim(removed, AsIndex(d))) return "a dimension is removed twice";
    }
    if (sliced + removed.size() + batch.size() != In(0).size()) {
      return "its slices have another number of dimensions";
    }
    if (In(1).empty() || In(1).back() != static_cast<int64_t>(map.size())) {
      return "its index vectors have another length";
    }
    if (batch.size() != indices_batch.size()) return Unequal();
    for (size_t i = 0; i < batch.size(); ++i) {
      if (indices_batch[i] + 1 >= static_cast<int64_t>(In(1).size()) ||
          InSize(0, batch[i]) != InSize(1, indices_batch[i])) {
        return Unequal();
      }
    }
    return "";
  }

  std::string Gather() const {
    const auto offset = op_.Of(Attr::kOffsetDims);
    const auto removed = op_.Of(Attr::kCollapsedDims);
    const auto sizes = op_.Of(Attr::kSliceSizes);
    std::string fault =
        IndexFault(removed, op_.Of(Attr::kStartIndexMap), offset.size());
    if (!fault.empty()) return fault;
    Shape slice;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] > In(0)[d]) return "a slice exceeds its dimension";
      const bool gone =
          HasDim(removed, d) || HasDim(op_.Of(Attr::kOperandBatchDims), d);
      if (gone && sizes[d] > 1) return "a removed dimension has a size above 1";
      if (!gone) slice.push_back(sizes[d]);
    }
    return Merged(Out(), offset, slice);
  }

  // Checks a shape whose dimensions `window` have the sizes `slice`, and whose
  // others have the sizes of the indices without the index vector.
  std::string Merged(const Shape& shape, std::span<const int64_t> window,
                     const Shape& slice) const {
    Shape batch(In(1).begin(), In(1).end() - 1);
    size_t next = 0;
    size_t of_slice = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      const bool sliced = HasDim(window, d);
      size_t& at = sliced ? of_slice : next;
      const Shape& sizes = sliced ? slice : batch;
      if (at >= sizes.size() || sizes[at] != shape[d]) return Unequal();
      ++at;
    }
    return next == batch.size() && of_slice == slice.size() ? "" : Unequal();
  }

  std::string Scatter() const {
    const auto window = op_.Of(Attr::kUpdateWindowDims);
    const auto removed = op_.Of(Attr::kInsertedDims);
    std::string fault =
        IndexFault(removed, op_.Of(Attr::kOperandDims), window.size());
    if (!fault.empty()) return fault;
    Shape slice;
    for (size_t d = 0; d < In(2).size(); ++d) {
      if (HasDim(window, d)) slice.push_back(In(2)[d]);
    }
    fault = Merged(In(2), window, slice);
    size_t at = 0;
    for (size_t d = 0; d < In(0).size() && fault.empty(); ++d) {
      if (HasDim(removed, d) || HasDim(op_.Of(Attr::kOperandBatchDims), d))
        continue;
      if (slice[at++] > In(0)[d]) fault = "a slice exceeds its dimension";
    }
    return fault.empty() ? Expect(In(0)) : fault;
  }

  std::string Dynamic() const {
    const bool update = op_.kind == OpKind::kDynamicUpdateSlice;
    const size_t rank = In(0).size();
    if (op_.in.size() != rank + (update ? 2 : 1)) {
      return "it needs an index for each dimension";
    }
    const auto sizes = op_.Of(Attr::kSizes);
    const Shape part = update ? In(1) : Shape(sizes.begin(), sizes.end());
    if (part.size() != rank) return "its operands differ in rank";
    for (size_t d = 0; d < rank; ++d) {
      if (part[d] > In(0)[d]) return "a slice exceeds its dimension";
    }
    return Expect(update ? In(0) : part);
  }

  // Returns whether the values have the same shapes as those of the body.
  bool SameShapes(std::span<const ValueId> values,
                  std::span<const ValueId> inner) const {
    return std::ranges::equal(values, inner, [&](ValueId a, ValueId b) {
      return program_.ShapeOf(a) == program_.ShapeOf(b);
    });
  }

  // Returns whether `outer` is `inner` with a leading dimension of the length.
  bool IsStacked(ValueId outer, ValueId inner, int64_t length) const {
    const Shape& shape = program_.ShapeOf(outer);
    return !shape.empty() && shape[0] == length &&
           std::ranges::equal(std::span(shape).subspan(1),
                              program_.ShapeOf(inner));
  }

  static constexpr const char* kBodyFault =
      "the inputs and results of its body do not agree with its own";

  std::string Scan() const {
    const Body& body = op_.bodies[0];
    const int64_t fixed =
        op_.NumberOf(Attr::kConsts) + op_.NumberOf(Attr::kCarry);
    const int64_t length = op_.NumberOf(Attr::kLength);
    const size_t carry = AsIndex(op_.NumberOf(Attr::kCarry));
    if (fixed > static_cast<int64_t>(op_.in.size()) ||
        body.in.size() != op_.in.size() || body.out.size() != op_.out.size() ||
        carry > op_.out.size()) {
      return kBodyFault;
    }
    const std::span<const ValueId> in(op_.in);
    const std::span<const ValueId> inner(body.in);
    const std::span<const ValueId> out(op_.out);
    bool good =
        SameShapes(in.first(AsIndex(fixed)), inner.first(AsIndex(fixed))) &&
        SameShapes(out.first(carry), std::span(body.out).first(carry)) &&
        SameShapes(out.first(carry), in.subspan(AsIndex(fixed) - carry, carry));
    for (size_t i = AsIndex(fixed); good && i < in.size(); ++i) {
      good = IsStacked(in[i], inner[i], length);
    }
    for (size_t i = carry; good && i < out.size(); ++i) {
      good = IsStacked(out[i], body.out[i], length);
    }
    return good ? "" : kBodyFault;
  }

  std::string While() const {
    const int64_t first = op_.NumberOf(Attr::kConditionConsts);
    const int64_t second = op_.NumberOf(Attr::kBodyConsts);
    const std::span<const ValueId> in(op_.in);
    if (first + second > static_cast<int64_t>(in.size())) return kBodyFault;
    const auto carry = in.subspan(AsIndex(first + second));
    std::vector<ValueId> condition(in.begin(), in.begin() + first);
    condition.insert(condition.end(), carry.begin(), carry.end());
    const Body& body = op_.bodies[1];
    const bool good = SameShapes(condition, op_.bodies[0].in) &&
                      op_.bodies[0].out.size() == 1 &&
                      SameShapes(in.subspan(AsIndex(first)), body.in) &&
                      SameShapes(carry, body.out) && SameShapes(carry, op_.out);
    return good ? "" : kBodyFault;
  }

  std::string Cond() const {
    const auto operands = std::span<const ValueId>(op_.in).subspan(1);
    if (op_.bodies.empty()) return "it has no branches";
    for (const Body& branch : op_.bodies) {
      if (!SameShapes(operands, branch.in) ||
          !SameShapes(op_.out, branch.out)) {
        return kBodyFault;
      }
    }
    return "";
  }

  std::string Solve() const {
    const Shape& matrix = In(0);
    const size_t rank = matrix.size();
    if (rank < 2 || In(1).size() != rank ||
        matrix[rank - 1] != matrix[rank - 2]) {
      return "it needs a square matrix and right sides of the same rank";
    }
    for (size_t d = 0; d + 2 < rank; ++d) {
      if (matrix[d] != In(1)[d]) return Unequal();
    }
    const bool left = op_.NumberOf(Attr::kLeftSide) != 0;
    if (In(1)[rank - (left ? 2 : 1)] != matrix[rank - 1]) return Unequal();
    return Expect(In(1));
  }

  std::string Manual() const {
    const Body& body = op_.bodies[0];
    const auto ranks = [&](std::span<const ValueId> values,
                           std::span<const ValueId> inner) {
      return std::ranges::equal(values, inner, [&](ValueId a, ValueId b) {
        const Shape& outer = program_.ShapeOf(a);
        const Shape& local = program_.ShapeOf(b);
        bool fits = outer.size() == local.size();
        for (size_t d = 0; fits && d < outer.size(); ++d) {
          fits = local[d] == outer[d] ||
                 (local[d] > 0 && outer[d] % local[d] == 0);
        }
        return fits;
      });
    };
    return ranks(op_.in, body.in) && ranks(op_.out, body.out) ? "" : kBodyFault;
  }

  const Program& program_;
  const Op& op_;
};

}  // namespace

std::string ShapeFault(const Program& program, const Op& op) {
  return ShapeCheck(program, op).Fault();
}

}  // namespace shardc::program
