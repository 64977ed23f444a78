// The kernels of a traced program. Most ops are a walk over several arrays at
// once, each with a step for each dimension of the walk:
//
//   transpose of [2, 3]   ->  walk [3, 2]: result steps (2, 1), operand (1, 3)
//   sum over dimension 0  ->  walk [2, 3]: operand steps (3, 1), result (0, 1)
//
// What an op does with an element is chosen once, before the walk: a function
// of elements is a loop of its own (element_loop.h), and a dot is a product of
// matrices, whose operands are first copied to the order of the product:
//
//   dot [b, m, k] x [k, n]  ->  [1, b m, k] x [1, k, n]
#include "exec/program/run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "exec/kernels/kernels.h"
#include "exec/program/element_loop.h"
#include "program/read.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

using program::Attr;
using program::HasDim;
using program::IndexMode;
using program::Op;
using program::OpKind;
using program::Program;
using Steps = std::vector<int64_t>;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

// ---- walks

struct Track {
  int64_t at = 0;  // the offset of the first element
  Steps steps;     // for each dimension of the walk
};

// Returns the distances between elements that are neighbours in a dimension.
Steps StepsOf(const Shape& shape) {
  Steps out(shape.size(), 1);
  for (size_t d = shape.size(); d > 1; --d)
    out[d - 2] = out[d - 1] * shape[d - 1];
  return out;
}

template <size_t N, class Visit>
void WalkFrom(const Shape& shape, size_t dim,
              const std::array<Track, N>& tracks, std::array<int64_t, N> at,
              const Visit& visit) {
  std::array<int64_t, N> step;
  for (size_t t = 0; t < N; ++t) step[t] = tracks[t].steps[dim];
  const int64_t count = shape[dim];
  if (dim + 1 == shape.size()) {
    for (int64_t i = 0; i < count; ++i) {
      visit(at);
      for (size_t t = 0; t < N; ++t) at[t] += step[t];
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    WalkFrom(shape, dim + 1, tracks, at, visit);
    for (size_t t = 0; t < N; ++t) at[t] += step[t];
  }
}

// Calls `visit` with the offsets of all tracks, the last dimension fastest.
template <size_t N, class Visit>
void Walk(const Shape& shape, const std::array<Track, N>& tracks,
          const Visit& visit) {
  std::array<int64_t, N> at{};
  for (size_t t = 0; t < N; ++t) at[t] = tracks[t].at;
  if (shape.empty()) return visit(at);
  WalkFrom(shape, 0, tracks, at, visit);
}

// Copies the elements of a walk to consecutive places.
void CopyWalk(const double* from, const Shape& shape, const Track& track,
              double* to) {
  if (shape.empty() || track.steps.back() != 1) {
    return Walk<1>(shape, {track},
                   [&](const auto& at) { *to++ = from[at[0]]; });
  }
  Shape lines = shape;
  const int64_t width = shape.back();
  lines.back() = width > 0 ? 1 : 0;
  Walk<1>(lines, {track},
          [&](const auto& at) { to = std::copy_n(from + at[0], width, to); });
}

// ---- elements

// Wraps and truncates numbers to those of the dtype.
double Kept(double x, std::optional<Dtype> dtype) {
  if (!dtype) return x;
  if (*dtype == Dtype::kBool) return x == 0 ? 0 : 1;
  const int bits = program::IntegerBits(*dtype);
  if (bits == 0) return x;
  if (x != x) return 0;
  const auto limit = static_cast<double>(int64_t{1} << 62);
  if (std::fabs(x) > limit) {
    const int own = std::abs(bits);
    const auto half = static_cast<double>(int64_t{1} << (own - 1));
    return Kept(x > 0 ? half - 1 : -half, dtype);
  }
  const auto modulus = int64_t{1} << std::abs(bits);
  int64_t rest = static_cast<int64_t>(x) % modulus;
  if (rest < 0) rest += modulus;
  if (bits > 0 && rest >= modulus / 2) rest -= modulus;
  return static_cast<double>(rest);
}

class Kernel {
 public:
  explicit Kernel(const ProgramOp& local)
      : local_(local), program_(*local.program), op_(*local.op) {}

  void Run() {
    if (program::IsOpaque(program_, op_)) return StandIn();
    switch (op_.kind) {
      case OpKind::kConst: {
        const program::Value& value = program_.values[op_.out[0]];
        if (!value.floats.empty()) {
          Out() = value.floats;
        } else if (value.integers.empty()) {
          Out() = (*local_.drawn)(op_.out[0]);
        } else {
          Out().assign(value.integers.begin(), value.integers.end());
        }
        return;
      }
      case OpKind::kRandom:
        for (size_t i = 0; i < op_.out.size(); ++i) {
          Out(i) = (*local_.drawn)(op_.out[i]);
        }
        return;
      case OpKind::kIota: {
        const size_t dim = AsIndex(op_.NumberOf(Attr::kDim));
        Track count{0, Steps(OutShape().size(), 0)};
        count.steps[dim] = 1;
        return Walk<2>(OutShape(), {Result(), count}, [&](const auto& at) {
          Out()[AsIndex(at[0])] = static_cast<double>(at[1]);
        });
      }
      case OpKind::kMap:
        return Map();
      case OpKind::kReshape:
      case OpKind::kConstraint:
        Out() = In();
        return;
      case OpKind::kReduce:
        return Reduce();
      case OpKind::kConcat:
      case OpKind::kPad:
      case OpKind::kDynamicUpdateSlice:
        return Place();
      case OpKind::kDot:
        return Dot(0, -1);
      case OpKind::kRaggedDot:
        return RaggedDot();
      case OpKind::kConv:
        return Conv();
      case OpKind::kCumulative:
      case OpKind::kSort:
      case OpKind::kTopK:
        return Lines();
      case OpKind::kGather:
      case OpKind::kScatter:
        return Indexed();
      case OpKind::kSolve:
        return Solve();
      default:
        return Pick();
    }
  }

  void Keep() {
    for (size_t i = 0; i < op_.out.size(); ++i) {
      const auto dtype = program_.values[op_.out[i]].dtype;
      if (!dtype ||
          (*dtype != Dtype::kBool && program::IntegerBits(*dtype) == 0)) {
        continue;
      }
      for (double& x : Out(i)) x = Kept(x, dtype);
    }
  }

 private:
  const std::vector<double>& In(size_t i = 0) const {
    return local_.in[i].buffer->wide;
  }
  const Shape& InShape(size_t i = 0) const {
    return local_.in[i].buffer->shape;
  }
  std::vector<double>& Out(size_t i = 0) { return (*local_.out)[i].wide; }
  const Shape& OutShape(size_t i = 0) const { return (*local_.out)[i].shape; }
  Track Result() const { return {0, StepsOf(OutShape())}; }
  Track Operand(size_t i = 0) const { return {0, StepsOf(InShape(i))}; }

  // A function of all elements in place of one that is not known. Every device
  // has all of the operands.
  void StandIn() {
    double mixed = 0;
    double operand = 0;
    for (const ProgramOperand& one : local_.in) {
      double index = 0;
      for (const double x : one.buffer->wide) {
        mixed += (x - x == 0 ? x : 1) * std::cos(0.7 * index + operand);
        index += 1;
      }
      operand += 1;
    }
    double result = 0;
    for (Buffer& out : *local_.out) {
      double index = 0;
      for (double& x : out.wide) {
        x = std::sin(mixed + 0.3 * index + result);
        index += 1;
      }
      result += 1;
    }
  }

  // Reads each element of the result from one place.
  void Pick() {
    const Steps steps = StepsOf(InShape());
    Track from{0, Steps(OutShape().size(), 0)};
    for (size_t d = 0; d < InShape().size(); ++d) {
      switch (op_.kind) {
        case OpKind::kBroadcast:
          from.steps[AsIndex(op_.Of(Attr::kDims)[d])] =
              InShape()[d] == 1 ? 0 : steps[d];
          break;
        case OpKind::kTranspose:
          from.steps[d] = steps[AsIndex(op_.Of(Attr::kPerm)[d])];
          break;
        case OpKind::kSlice: {
          const auto stride = op_.Of(Attr::kStride);
          from.at += op_.Of(Attr::kStart)[d] * steps[d];
          from.steps[d] = steps[d] * (stride.empty() ? 1 : stride[d]);
          break;
        }
        case OpKind::kRev: {
          const bool turned = HasDim(op_.Of(Attr::kDims), d);
          from.at += turned ? (InShape()[d] - 1) * steps[d] : 0;
          from.steps[d] = turned ? -steps[d] : steps[d];
          break;
        }
        default:  // dynamic_slice
          from.at += Inside(1 + d, InShape()[d] - OutShape()[d]) * steps[d];
          from.steps[d] = steps[d];
          break;
      }
    }
    CopyWalk(In().data(), OutShape(), from, Out().data());
  }

  // The value of a scalar operand, moved to [0, last].
  int64_t Inside(size_t operand, int64_t last) const {
    return std::clamp<int64_t>(static_cast<int64_t>(In(operand)[0]), 0, last);
  }

  // Writes each element of operands to one place of the result.
  void Place() {
    const auto put = [&](size_t operand, const Track& to) {
      const double* const from = In(operand).data();
      double* const out = Out().data();
      Walk<2>(InShape(operand), {Operand(operand), to},
              [&](const auto& at) { out[at[1]] = from[at[0]]; });
    };
    Track to = Result();
    if (op_.kind == OpKind::kConcat) {
      const size_t dim = AsIndex(op_.NumberOf(Attr::kDim));
      for (size_t i = 0; i < local_.in.size(); ++i) {
        put(i, to);
        to.at += InShape(i)[dim] * to.steps[dim];
      }
      return;
    }
    if (op_.kind == OpKind::kDynamicUpdateSlice) {
      Out() = In();
      for (size_t d = 0; d < OutShape().size(); ++d) {
        to.at += Inside(2 + d, OutShape()[d] - InShape(1)[d]) * to.steps[d];
      }
      return put(1, to);
    }
    std::ranges::fill(Out(), In(1)[0]);
    // Elements that a negative edge removes are left out of the walk.
    Shape shape = InShape();
    Track from = Operand();
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t gap = op_.Of(Attr::kInterior)[d] + 1;
      const int64_t low = op_.Of(Attr::kLow)[d];
      const int64_t skipped = low < 0 ? (-low + gap - 1) / gap : 0;
      int64_t count = shape[d] - skipped;
      while (count > 0 && low + (skipped + count - 1) * gap >= OutShape()[d]) {
        --count;
      }
      shape[d] = std::max<int64_t>(count, 0);
      from.at += skipped * from.steps[d];
      to.at += (low + skipped * gap) * to.steps[d];
      to.steps[d] *= gap;
    }
    Walk<2>(shape, {from, to}, [&](const auto& at) {
      Out()[AsIndex(at[1])] = In()[AsIndex(at[0])];
    });
  }

  void Map() {
    // An operand has all elements of the result, or one, or is repeated to the
    // result's shape.
    std::vector<std::vector<double>> repeated(local_.in.size());
    std::vector<ElementColumn> columns;
    for (size_t i = 0; i < local_.in.size(); ++i) {
      if (InShape(i) == OutShape() || In(i).size() == 1) {
        columns.push_back(
            {In(i).data(), InShape(i) == OutShape() ? size_t{1} : 0});
        continue;
      }
      Track from{0, Steps(OutShape().size(), 0)};
      const Steps steps = StepsOf(InShape(i));
      for (size_t d = 0; d < steps.size(); ++d) {
        if (InShape(i)[d] != 1) from.steps[d] = steps[d];
      }
      repeated[i].resize(Out().size());
      CopyWalk(In(i).data(), OutShape(), from, repeated[i].data());
      columns.push_back({repeated[i].data(), 1});
    }
    const ElementLoop loop{op_, program_.values[op_.in[0]].dtype, columns,
                           Out()};
    RunElementLoop(loop);
  }

  // Calls `use` with the function that adds a number to a reduction.
  template <class Use>
  static void WithCombine(std::string_view fn, const Use& use) {
    if (fn == "sum") {
      use([](double x, double& total) { total += x; });
    } else if (fn == "prod") {
      use([](double x, double& total) { total *= x; });
    } else if (fn == "max") {
      use([](double x, double& total) { total = Larger(total, x); });
    } else if (fn == "min") {
      use([](double x, double& total) { total = Smaller(total, x); });
    } else if (fn == "and") {
      use([](double x, double& total) { total = total * x != 0 ? 1 : 0; });
    } else if (fn == "or") {
      use([](double x, double& total) {
        total = total != 0 || x != 0 ? 1 : 0;
      });
    } else if (fn == "xor") {
      use([](double x, double& total) {
        total = static_cast<double>(static_cast<int64_t>(total) ^
                                    static_cast<int64_t>(x));
      });
    } else {  // logsumexp
      use([](double x, double& total) {
        const double top = Larger(total, x);
        const double low = Smaller(total, x);
        total = top - top != 0 ? top : top + std::log1p(std::exp(low - top));
      });
    }
  }

  void Reduce() {
    const std::string_view fn = op_.word;
    const auto axes = op_.Of(Attr::kAxes);
    Track to{0, {}};
    Track index{0, {}};
    const Steps steps = StepsOf(OutShape());
    size_t next = 0;
    for (size_t d = 0; d < InShape().size(); ++d) {
      const bool reduced = HasDim(axes, d);
      to.steps.push_back(reduced ? 0 : steps[next++]);
      index.steps.push_back(reduced ? 1 : 0);
    }
    if (fn.starts_with("arg")) {
      std::vector<double> best(Out().size(), kNotANumber);
      return Walk<3>(InShape(), {Operand(), to, index}, [&](const auto& at) {
        const double x = In()[AsIndex(at[0])];
        double& old = best[AsIndex(at[1])];
        if (!(old != old) && !(fn == "argmax" ? x > old : x < old)) return;
        old = x;
        Out()[AsIndex(at[1])] = static_cast<double>(at[2]);
      });
    }
    const double begin = fn == "prod" || fn == "and" ? 1
                         : fn == "max"               ? -kInfinite
                         : fn == "min"               ? kInfinite
                                                     : 0;
    std::ranges::fill(Out(), begin);
    const double* const in = In().data();
    double* const out = Out().data();
    WithCombine(fn, [&](const auto& combine) {
      Walk<2>(InShape(), {Operand(), to},
              [&](const auto& at) { combine(in[at[0]], out[at[1]]); });
    });
  }

  // Dimensions of a product that have the same place in its matrices, with
  // their steps in the operands and in the result.
  struct Sides {
    Shape sizes;
    Steps left, right, result;

    void Add(int64_t size, int64_t in_left, int64_t in_right, int64_t in_out) {
      sizes.push_back(size);
      left.push_back(in_left);
      right.push_back(in_right);
      result.push_back(in_out);
    }
    size_t count() const {
      size_t out = 1;
      for (const int64_t size : sizes) out *= AsIndex(size);
      return out;
    }
  };

  // Returns a walk over the dimensions of three groups, and the steps there of
  // an array, `of`.
  static std::pair<Shape, Track> Joined(std::array<const Sides*, 3> groups,
                                        Steps Sides::*of, int64_t at) {
    Shape shape;
    Track track{at, {}};
    for (const Sides* const group : groups) {
      const Steps& steps = group->*of;
      shape.insert(shape.end(), group->sizes.begin(), group->sizes.end());
      track.steps.insert(track.steps.end(), steps.begin(), steps.end());
    }
    return {std::move(shape), std::move(track)};
  }

  // Adds the product of the rows of one group, whose number in the result is
  // `group`; of all rows if that is below 0.
  void Dot(int64_t begin, int64_t end, int64_t of_rhs = 0, int64_t group = -1) {
    const auto lc = op_.Of(Attr::kLhsContract);
    const auto rc = op_.Of(Attr::kRhsContract);
    const auto lb = op_.Of(Attr::kLhsBatch);
    const auto rb = op_.Of(Attr::kRhsBatch);
    const auto ragged = op_.Of(Attr::kLhsRagged);
    const auto of_group = op_.Of(Attr::kRhsGroup);
    const Steps left = StepsOf(InShape(0));
    const Steps right = StepsOf(InShape(1));
    const Steps result = StepsOf(OutShape());
    Sides batch;
    Sides rows;
    Sides columns;
    Sides inner;
    // The first elements of both operands and of the result.
    int64_t at_left = 0;
    int64_t at_right = 0;
    int64_t at_result = 0;
    size_t next = 0;
    if (!ragged.empty() && of_group.empty()) {
      at_result += group * result[next++];
    }
    if (!of_group.empty()) at_right += of_rhs * right[AsIndex(of_group[0])];
    // A ragged dimension is walked over the rows of the group only.
    const auto size_of = [&](size_t d) {
      return HasDim(ragged, d) && end >= 0 ? end - begin : InShape(0)[d];
    };
    for (size_t i = 0; i < lb.size(); ++i) {
      batch.Add(InShape(0)[AsIndex(lb[i])], left[AsIndex(lb[i])],
                right[AsIndex(rb[i])], result[next++]);
    }
    for (size_t d = 0; d < left.size(); ++d) {
      if (HasDim(lc, d) || HasDim(lb, d)) continue;
      if (HasDim(ragged, d)) {
        at_left += begin * left[d];
        at_result += begin * result[next];
      }
      rows.Add(size_of(d), left[d], 0, result[next++]);
    }
    for (size_t d = 0; d < right.size(); ++d) {
      if (HasDim(rc, d) || HasDim(rb, d) || HasDim(of_group, d)) continue;
      columns.Add(InShape(1)[d], 0, right[d], result[next++]);
    }
    for (size_t i = 0; i < lc.size(); ++i) {
      const size_t d = AsIndex(lc[i]);
      if (HasDim(ragged, d)) {
        at_left += begin * left[d];
        at_right += begin * right[AsIndex(rc[i])];
      }
      inner.Add(size_of(d), left[d], right[AsIndex(rc[i])], 0);
    }
    const size_t count = batch.count();
    MatrixSizes sizes{rows.count(), columns.count(), inner.count()};
    if (count * sizes.rows * sizes.columns * sizes.inner == 0) return;
    const auto copied = [&](const auto& walk, const std::vector<double>& from) {
      std::vector<double> out(count * sizes.inner *
                              (&from == &In(0) ? sizes.rows : sizes.columns));
      CopyWalk(from.data(), walk.first, walk.second, out.data());
      return out;
    };
    // The vectors run along the columns, so the longer side becomes these.
    const bool swaps = sizes.rows > sizes.columns;
    const std::vector<double> a =
        copied(swaps ? Joined({&batch, &inner, &rows}, &Sides::left, at_left)
                     : Joined({&batch, &rows, &inner}, &Sides::left, at_left),
               In(0));
    const std::vector<double> b = copied(
        swaps ? Joined({&batch, &columns, &inner}, &Sides::right, at_right)
              : Joined({&batch, &inner, &columns}, &Sides::right, at_right),
        In(1));
    const std::span<const double> first(swaps ? b : a);
    const std::span<const double> second(swaps ? a : b);
    if (swaps) std::swap(sizes.rows, sizes.columns);
    const size_t of_first = sizes.rows * sizes.inner;
    const size_t of_second = sizes.inner * sizes.columns;
    const size_t of_product = sizes.rows * sizes.columns;
    std::vector<double> product(count * of_product);
    for (size_t i = 0; i < count; ++i) {
      MultiplyInto(first.subspan(i * of_first, of_first),
                   second.subspan(i * of_second, of_second), sizes,
                   std::span(product).subspan(i * of_product, of_product));
    }
    const auto [shape, to] =
        swaps ? Joined({&batch, &columns, &rows}, &Sides::result, at_result)
              : Joined({&batch, &rows, &columns}, &Sides::result, at_result);
    const double* from = product.data();
    double* const out = Out().data();
    Walk<1>(shape, {to}, [&](const auto& at) { out[at[0]] += *from++; });
  }

  void RaggedDot() {
    const auto group = op_.Of(Attr::kRhsGroup);
    const int64_t all = InShape(0)[AsIndex(op_.Of(Attr::kLhsRagged)[0])];
    const int64_t first =
        group.empty() ? 0 : local_.in[1].start[AsIndex(group[0])];
    const auto sizes = static_cast<int64_t>(In(2).size());
    const int64_t own = group.empty() ? sizes : InShape(1)[AsIndex(group[0])];
    int64_t begin = 0;
    for (int64_t g = 0; g < first + own && g < sizes; ++g) {
      const auto size = static_cast<int64_t>(In(2)[AsIndex(g)]);
      const int64_t end = std::clamp(begin + size, begin, all);
      if (g >= first) Dot(begin, end, g - first, g);
      begin = end;
    }
  }

  void Conv() {
    const auto lhs = op_.Of(Attr::kLhs);
    const auto rhs = op_.Of(Attr::kRhs);
    const auto result = op_.Of(Attr::kResult);
    const auto padding = op_.Of(Attr::kPadding);
    const size_t spatial = lhs.size() - 2;
    const Steps x = StepsOf(InShape(0));
    const Steps w = StepsOf(InShape(1));
    const Steps y = StepsOf(OutShape());
    const double* const x_in = In(0).data();
    const double* const w_in = In(1).data();
    double* const y_out = Out().data();
    const int64_t batches = op_.NumberOf(Attr::kBatchGroups, 1);
    const int64_t features = InShape(1)[AsIndex(rhs[1])];
    const int64_t outs = InShape(1)[AsIndex(rhs[0])];
    const int64_t groups = std::max<int64_t>(
        1, InShape(0)[AsIndex(lhs[1])] / std::max<int64_t>(1, features));
    const auto of = [&](Attr attr, size_t d) {
      const auto list = op_.Of(attr);
      return list.empty() ? int64_t{1} : list[d];
    };
    // The offsets in operands and result of each pair of a result's place and a
    // tap of the window there.
    std::vector<std::array<int64_t, 3>> places = {{0, 0, 0}};
    for (size_t d = 0; d < spatial; ++d) {
      const std::vector<std::array<int64_t, 3>> outer = std::move(places);
      places.clear();
      const int64_t gap = of(Attr::kLhsDilation, d);
      for (int64_t row = 0; row < OutShape()[AsIndex(result[d + 2])]; ++row) {
        for (int64_t tap = 0; tap < InShape(1)[AsIndex(rhs[d + 2])]; ++tap) {
          const int64_t spread = row * op_.Of(Attr::kStrides)[d] +
                                 tap * of(Attr::kRhsDilation, d) -
                                 padding[2 * d];
          if (spread < 0 || spread % gap != 0 ||
              spread / gap >= InShape(0)[AsIndex(lhs[d + 2])]) {
            continue;
          }
          for (const auto& [from, weight, to] : outer) {
            places.push_back({from + spread / gap * x[AsIndex(lhs[d + 2])],
                              weight + tap * w[AsIndex(rhs[d + 2])],
                              to + row * y[AsIndex(result[d + 2])]});
          }
        }
      }
    }
    // Output features with the same input features and the same part of the
    // batch.
    const int64_t rows = InShape(0)[AsIndex(lhs[0])] / batches;
    const int64_t block =
        std::max<int64_t>(1, std::gcd(outs / batches, outs / groups));
    const int64_t w_step = w[AsIndex(rhs[0])];
    const int64_t y_step = y[AsIndex(result[1])];
    for (int64_t out = 0; out < outs; out += block) {
      const int64_t first =
          out / (outs / batches) * rows * x[AsIndex(lhs[0])] +
          out / (outs / groups) * features * x[AsIndex(lhs[1])];
      for (const auto& [from, weight, to] : places) {
        for (int64_t row = 0; row < rows; ++row) {
          const double* const of_x =
              x_in + first + from + row * x[AsIndex(lhs[0])];
          double* const of_y =
              y_out + to + row * y[AsIndex(result[0])] + out * y_step;
          for (int64_t k = 0; k < features; ++k) {
            const double one = of_x[k * x[AsIndex(lhs[1])]];
            const double* const of_w =
                w_in + weight + k * w[AsIndex(rhs[1])] + out * w_step;
            for (int64_t i = 0; i < block; ++i) {
              of_y[i * y_step] += one * of_w[i * w_step];
            }
          }
        }
      }
    }
  }

  // Ops along a dimension: each line of elements is computed alone.
  void Lines() {
    const size_t dim = AsIndex(op_.NumberOf(Attr::kDim));
    Shape lines = InShape();
    lines[dim] = 1;
    Track to = Result();
    const int64_t step = Operand().steps[dim];
    const int64_t size = InShape()[dim];
    Walk<2>(lines, {Operand(), to}, [&](const auto& at) {
      const auto from = [&](int64_t i) { return AsIndex(at[0] + i * step); };
      const auto into = [&](int64_t i) {
        return AsIndex(at[1] + i * to.steps[dim]);
      };
      if (op_.kind == OpKind::kCumulative) {
        const bool reverse = op_.NumberOf(Attr::kReverse) != 0;
        double total = 0;
        WithCombine(op_.word, [&](const auto& combine) {
          for (int64_t k = 0; k < size; ++k) {
            const int64_t i = reverse ? size - 1 - k : k;
            if (k == 0) {
              total = In()[from(i)];
            } else {
              combine(In()[from(i)], total);
            }
            Out()[into(i)] = total;
          }
        });
        return;
      }
      const bool top = op_.kind == OpKind::kTopK;
      const size_t keys = AsIndex(top ? 1 : op_.NumberOf(Attr::kKeys, 1));
      std::vector<int64_t> order(AsIndex(size));
      std::iota(order.begin(), order.end(), int64_t{0});
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        for (size_t k = 0; k < keys; ++k) {
          const double x = In(k)[from(top ? b : a)];
          const double y = In(k)[from(top ? a : b)];
          if (x < y) return true;
          if (y < x) return false;
        }
        return false;
      });
      for (int64_t i = 0; i < OutShape()[dim]; ++i) {
        const int64_t row = order[AsIndex(i)];
        if (top) {
          Out(0)[into(i)] = In()[from(row)];
          Out(1)[into(i)] = static_cast<double>(row);
          continue;
        }
        for (size_t k = 0; k < local_.in.size(); ++k) {
          Out(k)[into(i)] = In(k)[from(row)];
        }
      }
    });
  }

  // A gather reads a slice of the operand for each index vector, and a scatter
  // combines one. The operand may be a shard: an index counts in the entire
  // operand, and elements of other devices are left out.
  void Indexed() {
    const bool gathers = op_.kind == OpKind::kGather;
    const auto map =
        op_.Of(gathers ? Attr::kStartIndexMap : Attr::kOperandDims);
    const auto window =
        op_.Of(gathers ? Attr::kOffsetDims : Attr::kUpdateWindowDims);
    const auto removed =
        op_.Of(gathers ? Attr::kCollapsedDims : Attr::kInsertedDims);
    const auto batched = op_.Of(Attr::kOperandBatchDims);
    const auto indices_batch = op_.Of(Attr::kIndicesBatchDims);
    const Shape& shape = program_.ShapeOf(op_.in[0]);
    const Shape& own = InShape();
    const Shape& start = local_.in[0].start;
    const Shape& sliced = gathers ? OutShape() : InShape(2);
    const Steps of_slices = StepsOf(sliced);
    const Steps steps = StepsOf(own);
    // The dimensions of a slice in the operand, and in the slices.
    Shape walk;
    Track in_operand;
    Track in_slices;
    Shape sizes(shape.size(), 1);
    std::vector<size_t> kept;
    size_t next = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (HasDim(removed, d) || HasDim(batched, d)) continue;
      while (!HasDim(window, next)) ++next;
      walk.push_back(sliced[next]);
      in_operand.steps.push_back(steps[d]);
      in_slices.steps.push_back(of_slices[next]);
      // A slice of an entire dimension is as much of it as the device has.
      const int64_t global = gathers ? op_.Of(Attr::kSliceSizes)[d]
                                     : program_.ShapeOf(op_.in[2])[next];
      sizes[d] = global;
      kept.push_back(d);
      ++next;
    }
    if (!gathers) {
      if (local_.first) Out() = In();
    }
    Shape vectors = InShape(1);
    const auto length = vectors.back();
    vectors.pop_back();
    Track index{0, StepsOf(InShape(1))};
    index.steps.pop_back();
    Track slices{0, {}};
    Track number{0, StepsOf(vectors)};
    for (size_t d = 0; d < sliced.size(); ++d) {
      if (!HasDim(window, d)) slices.steps.push_back(of_slices[d]);
    }
    Shape first(shape.size(), 0);
    Walk<3>(vectors, {index, slices, number}, [&](const auto& at) {
      for (int64_t c = 0; c < length; ++c) {
        first[AsIndex(map[AsIndex(c)])] =
            static_cast<int64_t>(In(1)[AsIndex(at[0] + c)]);
      }
      bool inside = true;
      bool here = true;
      bool leads = true;
      in_operand.at = 0;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (HasDim(batched, d)) {
          // Batch dimensions of the operand and of the indices have the same
          // shards.
          const auto which =
              static_cast<size_t>(std::find(batched.begin(), batched.end(),
                                            static_cast<int64_t>(d)) -
                                  batched.begin());
          const size_t dim = AsIndex(indices_batch[which]);
          in_operand.at += at[2] / number.steps[dim] % vectors[dim] * steps[d];
          continue;
        }
        const int64_t last = shape[d] - sizes[d];
        inside = inside && first[d] >= 0 && first[d] <= last;
        leads = leads && (start[d] == 0 || !HasDim(removed, d));
        const bool entire = HasDim(removed, d) == false && sizes[d] == shape[d];
        const int64_t begin =
            entire ? 0 : std::clamp<int64_t>(first[d], 0, last) - start[d];
        here = here && begin >= 0 && begin < std::max<int64_t>(own[d], 1);
        in_operand.at += begin * steps[d];
      }
      in_slices.at = at[1];
      if (gathers) {
        if (!inside && op_.mode == IndexMode::kFill) {
          const double fill = leads ? Fill() : 0;
          return Walk<1>(walk, {in_slices},
                         [&](const auto& i) { Out()[AsIndex(i[0])] = fill; });
        }
        if (!here) return;
        return Walk<2>(walk, {in_slices, in_operand}, [&](const auto& i) {
          Out()[AsIndex(i[0])] = In()[AsIndex(i[1])];
        });
      }
      if (!here || (!inside && op_.mode != IndexMode::kClip)) return;
      const double* const updates = In(2).data();
      double* const out = Out().data();
      const auto update = [&](const auto& combine) {
        Walk<2>(walk, {in_slices, in_operand},
                [&](const auto& i) { combine(updates[i[0]], out[i[1]]); });
      };
      if (op_.word == "set") {
        update([](double x, double& to) { to = x; });
      } else if (op_.word == "sub") {
        update([](double x, double& to) { to -= x; });
      } else {
        WithCombine(op_.word == "add"   ? "sum"
                    : op_.word == "mul" ? "prod"
                                        : op_.word,
                    update);
      }
    });
  }

  // The element of a slice outside of the operand.
  double Fill() const {
    if (op_.fill) return *op_.fill;
    const auto dtype = program_.values[op_.out[0]].dtype;
    const int bits = dtype ? program::IntegerBits(*dtype) : 0;
    if (dtype == Dtype::kBool) return 0;
    if (bits == 0) return kNotANumber;
    return bits > 0 ? -std::exp2(bits - 1) : std::exp2(-bits) - 1;
  }

  // Solves a triangular system by elimination: once an unknown is known, its
  // multiples are subtracted from the other equations.
  void Solve() {
    const size_t rank = InShape().size();
    const bool left = op_.NumberOf(Attr::kLeftSide) != 0;
    const bool unit = op_.NumberOf(Attr::kUnitDiagonal) != 0;
    const bool turned = (op_.NumberOf(Attr::kTranspose) != 0) == left;
    const bool forward = (op_.NumberOf(Attr::kLower) != 0) != turned;
    const int64_t n = InShape()[rank - 1];
    Out() = In(1);
    Shape lines = OutShape();
    const size_t solved = rank - (left ? 2 : 1);
    lines[solved] = 1;
    Track matrix = Operand();
    const int64_t row = matrix.steps[rank - (turned ? 1 : 2)];
    const int64_t column = matrix.steps[rank - (turned ? 2 : 1)];
    matrix.steps[rank - 1] = matrix.steps[rank - 2] = 0;
    const Track result = Result();
    Walk<2>(lines, {matrix, result}, [&](const auto& at) {
      const auto unknown = [&](int64_t i) -> double& {
        return Out()[AsIndex(at[1] + i * result.steps[solved])];
      };
      for (int64_t k = 0; k < n; ++k) {
        const int64_t i = forward ? k : n - 1 - k;
        if (!unit) unknown(i) /= In()[AsIndex(at[0] + i * (row + column))];
        for (int64_t j = forward ? i + 1 : 0; j < (forward ? n : i); ++j) {
          unknown(j) -=
              In()[AsIndex(at[0] + j * row + i * column)] * unknown(i);
        }
      }
    });
  }

  const ProgramOp& local_;
  const Program& program_;
  const Op& op_;
};

}  // namespace

void RunProgramOp(const ProgramOp& op) {
  // An op that is not known may have results with elements next to empty ones.
  if (std::ranges::all_of(
          *op.out, [](const Buffer& out) { return out.Elements() == 0; })) {
    return;
  }
  Kernel kernel(op);
  kernel.Run();
  kernel.Keep();
}

}  // namespace shardc::exec
