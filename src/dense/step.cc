// Every op is a loop over the labels of its result, and those it sums, with a
// stride a label and operand; a label that an operand lacks has the stride 0,
// which is what broadcasts:
//
//   einsum(a [b d], w [f d] -> b f)   b f | d   a: d 0 | 1   w: 0 d | 1
//
// Comparisons (maximum, choices, kinks of functions) are of real parts.
#include "dense/step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string_view>
#include <type_traits>

#include "dense/rotary.h"
#include "source/index.h"

namespace shardc::dense {
namespace {

using step::Graph;
using step::LabelId;
using step::Op;
using step::OpKind;
using step::Sizes;
using step::ValueId;
using Labels = std::vector<LabelId>;
using Strides = std::vector<int64_t>;

template <typename T>
struct RealOf {
  using Type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using Type = T;
};

template <typename T>
typename RealOf<T>::Type Real(const T& x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x;
  } else {
    return x.real();
  }
}

constexpr double kPi = 3.14159265358979323846;

template <typename T>
T Exp(const T& x) {
  // Minus infinity has no phase.
  if (Real(x) == -std::numeric_limits<typename RealOf<T>::Type>::infinity()) {
    return T(0);
  }
  return std::exp(x);
}

// To first order in the imaginary part, which is all that is asked of it.
template <typename T>
T Erf(const T& x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::erf(x);
  } else {
    const double at = x.real();
    return {std::erf(at), x.imag() * 2 / std::sqrt(kPi) * std::exp(-at * at)};
  }
}

template <typename T>
T Sigmoid(const T& x) {
  return T(1) / (T(1) + Exp(-x));
}

// Rows of the table of functions; `c` is the op's constant.
template <typename T>
T SmoothFunction(std::string_view fn, const T& x, const T& c) {
  if (fn == "recip") return T(1) / x;
  if (fn == "recip_d") return T(-1) / (x * x);
  if (fn == "recip_dd") return T(2) / (x * x * x);
  if (fn == "rsqrt") return T(1) / std::sqrt(x + c);
  if (fn == "rsqrt_d") {
    return T(-0.5) / ((x + c) * std::sqrt(x + c));
  }
  if (fn == "sqrt") return std::sqrt(x);
  if (fn == "sqrt_d") return T(0.5) / std::sqrt(x);
  if (fn == "exp") return Exp(x);
  if (fn == "log") return std::log(x);
  if (fn == "tanh") return std::tanh(x);
  if (fn == "tanh_d") return T(1) - std::tanh(x) * std::tanh(x);
  if (fn == "cap") return c * std::tanh(x / c);
  if (fn == "cap_d") return T(1) - std::tanh(x / c) * std::tanh(x / c);
  if (fn == "sigmoid") return Sigmoid(x);
  if (fn == "shift") return x + c;
  if (fn == "one") return T(1);
  const bool scaled = fn == "swish" || fn == "swish_d";
  const T k = scaled ? c : T(1);
  const T s = Sigmoid(k * x);
  if (fn == "sigmoid_d") return s * (T(1) - s);
  if (fn == "silu" || fn == "swish") return x * s;
  return s + k * x * s * (T(1) - s);  // silu_d, swish_d
}

template <typename T>
T Gelu(std::string_view fn, const T& x) {
  const T root = T(std::sqrt(2.0));
  if (fn == "gelu") return x / T(2) * (T(1) + Erf(x / root));
  if (fn == "gelu_d") {
    return (T(1) + Erf(x / root)) / T(2) +
           x * std::exp(-x * x / T(2)) / T(std::sqrt(2 * kPi));
  }
  const T k = T(std::sqrt(2 / kPi)), a = T(0.044715);
  const T u = std::tanh(k * (x + a * x * x * x));
  if (fn == "gelu_tanh") return x / T(2) * (T(1) + u);
  return (T(1) + u) / T(2) +
         x / T(2) * (T(1) - u * u) * k * (T(1) + T(3) * a * x * x);
}

// Those with a kink.
template <typename T>
T PiecewiseFunction(std::string_view fn, const T& x, const T& c) {
  const auto at = Real(x), limit = Real(c);
  if (fn == "relu") return at > 0 ? x : T(0);
  if (fn == "step") return T(at > 0 ? 1 : 0);
  if (fn == "relu2") return at > 0 ? x * x : T(0);
  if (fn == "relu2_d") return at > 0 ? T(2) * x : T(0);
  if (fn == "at_most") return at < limit ? x : c;
  if (fn == "below") return T(at < limit ? 1 : 0);
  if (fn == "clamp") return at < -limit ? -c : at > limit ? c : x;
  if (fn == "inside") return T(-limit < at && at < limit ? 1 : 0);
  if (fn == "floor") return T(std::floor(at));
  return limit < at ? c / x : T(1);  // clip
}

constexpr std::array<std::string_view, 10> kPiecewise = {
    "relu",  "step",  "relu2",  "relu2_d", "at_most",
    "below", "clamp", "inside", "clip",    "floor"};

template <typename T>
using FunctionOf = T (*)(std::string_view, const T&, const T&);

template <typename T>
FunctionOf<T> Find(std::string_view fn) {
  if (std::find(kPiecewise.begin(), kPiecewise.end(), fn) != kPiecewise.end()) {
    return PiecewiseFunction<T>;
  }
  if (fn.starts_with("gelu")) {
    return [](std::string_view f, const T& x, const T&) { return Gelu(f, x); };
  }
  return SmoothFunction<T>;
}

int64_t Product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1},
                         std::multiplies<>());
}

Strides RowMajor(const std::vector<int64_t>& shape) {
  Strides out(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i) {
    out[i - 2] = out[i - 1] * shape[i - 1];
  }
  return out;
}

// Counts through `shape`, offsets of up to three arrays beside.
class Odometer {
 public:
  Odometer(std::vector<int64_t> shape, std::vector<Strides> strides)
      : shape_(std::move(shape)),
        strides_(std::move(strides)),
        at_(shape_.size(), 0),
        offset_(strides_.size(), 0) {}

  int64_t offset(size_t array) const { return offset_[array]; }
  int64_t at(size_t dim) const { return at_[dim]; }
  void Next() {
    for (size_t d = shape_.size(); d > 0;) {
      --d;
      ++at_[d];
      for (size_t a = 0; a < offset_.size(); ++a) {
        offset_[a] += strides_[a][d];
      }
      if (at_[d] < shape_[d]) return;
      for (size_t a = 0; a < offset_.size(); ++a) {
        offset_[a] -= strides_[a][d] * shape_[d];
      }
      at_[d] = 0;
    }
  }

 private:
  std::vector<int64_t> shape_;
  std::vector<Strides> strides_;
  std::vector<int64_t> at_, offset_;
};

template <typename T>
class Runner {
 public:
  Runner(const Graph& graph, const Sizes& sizes, StepValues<T>& values)
      : graph_(graph), sizes_(sizes), values_(values) {}

  void Run(const Op& op) {
    if (op.kind == OpKind::kInput) return;
    StepTensor<T>& out = Of(op.out);
    out.shape = ShapeOf(graph_, sizes_, op.out);
    out.data.assign(AsIndex(Product(out.shape)), T(0));
    Into(op, out);
  }

 private:
  StepTensor<T>& Of(ValueId value) { return values_[AsIndex(value)]; }
  const Labels& LabelsOf(ValueId value) const {
    return graph_.values[AsIndex(value)].labels;
  }
  int64_t SizeOf(LabelId label) const { return sizes_[AsIndex(label)]; }
  static size_t Place(const Labels& labels, LabelId label) {
    return AsIndex(std::find(labels.begin(), labels.end(), label) -
                   labels.begin());
  }
  void Drop(const Op& op, StepTensor<T>& out) {
    out.data = Of(op.in[0]).data;
    if (out.factors.size() != out.data.size()) return;
    for (size_t i = 0; i < out.data.size(); ++i) {
      out.data[i] *= T(out.factors[i]);
    }
  }

  // Of `value`'s array by `labels`, 0 where it lacks one.
  Strides By(ValueId value, const Labels& labels) {
    const Labels& own = LabelsOf(value);
    const Strides strides = RowMajor(Of(value).shape);
    Strides out;
    for (const LabelId label : labels) {
      const size_t at = Place(own, label);
      out.push_back(at < own.size() ? strides[at] : 0);
    }
    return out;
  }
  std::vector<int64_t> Sized(const Labels& labels) const {
    std::vector<int64_t> out;
    for (const LabelId label : labels) out.push_back(SizeOf(label));
    return out;
  }

  void Into(const Op& op, StepTensor<T>& out) {
    switch (op.kind) {
      case OpKind::kEinsum:
        return Einsum(op, out);
      case OpKind::kAdd:
        for (const ValueId in : op.in) {
          Each(op, in, [](T& to, const T& x) { to += x; });
        }
        return;
      case OpKind::kScale: {
        const T factor = T(Factor(op));
        return Each(op, op.in[0], [&](T& to, const T& x) { to = factor * x; });
      }
      case OpKind::kFn:
        return Fn(op);
      case OpKind::kIdentity:
      case OpKind::kBroadcast:
        return Each(op, op.in[0], [](T& to, const T& x) { to = x; });
      case OpKind::kSum:
      case OpKind::kMax:
        return Reduce(op, out);
      case OpKind::kLookup:
      case OpKind::kScatter:
        return Rows(op, out);
      case OpKind::kPick:
      case OpKind::kPlace:
        return PickOrPlace(op, out);
      case OpKind::kSplit:
      case OpKind::kMerge:
        return Reshape(op, out);
      case OpKind::kPart:
      case OpKind::kIndex:
        return Slice(op, out, false);
      case OpKind::kUnpart:
      case OpKind::kUnindex:
        return Slice(op, out, true);
      case OpKind::kRename:
        out.data = Of(op.in[0]).data;
        return;
      case OpKind::kRope:
        return Turn(op, out);
      case OpKind::kMask:
        return Mask(op, out);
      case OpKind::kRepeat:
      case OpKind::kGroupSum:
        return Heads(op, out);
      case OpKind::kTopK:
      case OpKind::kTopGroups:
        return Choose(op, out);
      case OpKind::kSlots:
        return Slots(op, out);
      case OpKind::kCacheWrite:
        return CacheWrite(op, out);
      case OpKind::kAdamW:
        return Update(op, out);
      case OpKind::kDropout:
        return Drop(op, out);
      case OpKind::kRoll:
        return Roll(op, out);
      case OpKind::kDistance:
        return Distances(op, out);
      case OpKind::kInput:
        return;
    }
  }

  void Roll(const Op& op, StepTensor<T>& out) {
    const Labels& labels = LabelsOf(op.out);
    const size_t dim = Place(labels, op.label);
    const int64_t rows = SizeOf(op.label);
    const int64_t stride = RowMajor(out.shape)[dim];
    const StepTensor<T>& x = Of(op.in[0]);
    Odometer at(out.shape, {RowMajor(out.shape)});
    for (T& to : out.data) {
      const int64_t before = at.at(dim) - op.sign;
      const int64_t from = (before + rows) % rows;
      const int64_t there = at.offset(0) + (from - at.at(dim)) * stride;
      const bool comes_round = before != from;
      to = comes_round && op.fn == step::kOpen ? T(0) : x.data[AsIndex(there)];
      at.Next();
    }
  }

  // `apply(result, operand)` for each element of the result.
  template <typename Apply>
  void Each(const Op& op, ValueId in, Apply apply) {
    const Labels& labels = LabelsOf(op.out);
    const StepTensor<T>& x = Of(in);
    StepTensor<T>& out = Of(op.out);
    Odometer at(out.shape, {By(in, labels)});
    for (T& to : out.data) {
      apply(to, x.data[AsIndex(at.offset(0))]);
      at.Next();
    }
  }

  double Factor(const Op& op) const {
    double factor = op.scale.constant;
    for (const auto& [label, power] : op.scale.powers) {
      factor *= std::pow(static_cast<double>(SizeOf(label)), power);
    }
    return factor;
  }

  void Fn(const Op& op) {
    if (op.in.size() > 1) {
      Each(op, op.in[0], [](T& to, const T& x) { to = x; });
      return Each(op, op.in[1], [](T& to, const T& x) {
        if (Real(x) > Real(to)) to = x;
      });
    }
    const FunctionOf<T> function = Find<T>(op.fn);
    const T c = T(op.scale.constant);
    Each(op, op.in[0], [&](T& to, const T& x) { to = function(op.fn, x, c); });
  }

  void Einsum(const Op& op, StepTensor<T>& out) {
    const ValueId a = op.in[0], b = op.in[1];
    Labels labels = LabelsOf(op.out);
    const size_t kept = labels.size();
    for (const ValueId in : op.in) {
      for (const LabelId label : LabelsOf(in)) {
        if (Place(labels, label) == labels.size()) labels.push_back(label);
      }
    }
    Strides c = RowMajor(out.shape);
    c.resize(labels.size(), 0);
    (void)kept;
    // The last label has the tight loop.
    const int64_t inner = labels.empty() ? 1 : SizeOf(labels.back());
    const Strides sa = By(a, labels), sb = By(b, labels);
    std::vector<int64_t> outer = Sized(labels);
    if (!outer.empty()) outer.pop_back();
    const int64_t da = labels.empty() ? 0 : sa.back();
    const int64_t db = labels.empty() ? 0 : sb.back();
    const int64_t dc = labels.empty() ? 0 : c.back();
    Odometer at(outer, {sa, sb, c});
    const int64_t rounds = Product(outer);
    for (int64_t i = 0; i < rounds; ++i) {
      const T* x = Of(a).data.data() + at.offset(0);
      const T* y = Of(b).data.data() + at.offset(1);
      T* z = out.data.data() + at.offset(2);
      for (int64_t j = 0; j < inner; ++j) z[j * dc] += x[j * da] * y[j * db];
      at.Next();
    }
  }

  void Reduce(const Op& op, StepTensor<T>& out) {
    const ValueId in = op.in[0];
    const bool max = op.kind == OpKind::kMax;
    Labels labels = LabelsOf(op.out);
    labels.push_back(op.label);
    Strides to = RowMajor(out.shape);
    to.push_back(0);
    Odometer at(Sized(labels), {By(in, labels), to});
    const StepTensor<T>& x = Of(in);
    for (size_t i = 0; i < x.data.size(); ++i) {
      const T& from = x.data[AsIndex(at.offset(0))];
      T& into = out.data[AsIndex(at.offset(1))];
      const bool first = at.at(labels.size() - 1) == 0;
      if (!max) {
        into += from;
      } else if (first || Real(from) > Real(into)) {
        into = from;
      }
      at.Next();
    }
  }

  int64_t Whole(ValueId value, int64_t offset) {
    return std::llround(
        static_cast<double>(Real(Of(value).data[AsIndex(offset)])));
  }

  // Rows of a table by ids, or back into it.
  void Rows(const Op& op, StepTensor<T>& out) {
    const bool scatter = op.kind == OpKind::kScatter;
    const ValueId ids = scatter ? op.in[0] : op.in[1];
    const ValueId table = scatter ? op.out : op.in[0];
    // What a token has of its row.
    const ValueId tokens = scatter ? op.in[1] : op.out;
    const StepTensor<T>& from = Of(scatter ? op.in[1] : op.in[0]);
    const int64_t rows = SizeOf(op.label);
    const Labels& labels = LabelsOf(tokens);
    const int64_t step = By(table, {op.label})[0];
    Odometer at(Of(tokens).shape,
                {By(tokens, labels), By(table, labels), By(ids, labels)});
    const size_t count = Of(tokens).data.size();
    for (size_t i = 0; i < count; ++i, at.Next()) {
      const int64_t row = Whole(ids, at.offset(2)) + op.index;
      if (row < 0 || row >= rows) continue;
      const auto token = AsIndex(at.offset(0));
      const auto cell = AsIndex(at.offset(1) + row * step);
      out.data[scatter ? cell : token] += from.data[scatter ? token : cell];
    }
  }

  // Of `rows` the one for a key `apart` places behind its query: half of them
  // are for keys that lie behind, where these count. Half of what is left have
  // one distance each, the others stand for ranges that grow by a factor.
  static int64_t Bucket(int64_t apart, int64_t rows, int64_t most, bool both) {
    int64_t first = 0, far = std::max<int64_t>(-apart, 0);
    if (both) {
      rows /= 2;
      first = apart > 0 ? rows : 0;
      far = std::abs(apart);
    }
    const int64_t single = rows / 2;
    if (far < single) return first + far;
    if (single == 0 || far >= most) return first + rows - 1;
    const auto unit = static_cast<double>(single);
    const double way = std::log(static_cast<double>(far) / unit) /
                       std::log(static_cast<double>(most) / unit);
    const auto more =
        static_cast<int64_t>(way * static_cast<double>(rows - single));
    return first + std::min(single + more, rows - 1);
  }

  void Distances(const Op& op, StepTensor<T>& out) {
    const Labels& labels = LabelsOf(op.out);
    const int64_t rows = SizeOf(op.label), most = SizeOf(op.counts[0]);
    Odometer at(out.shape, {By(op.in[0], labels), By(op.in[1], labels)});
    for (T& to : out.data) {
      const int64_t apart =
          Whole(op.in[1], at.offset(1)) - Whole(op.in[0], at.offset(0));
      to = T(static_cast<double>(Bucket(apart, rows, most, op.fn == "both")));
      at.Next();
    }
  }

  void PickOrPlace(const Op& op, StepTensor<T>& out) {
    const bool place = op.kind == OpKind::kPlace;
    const ValueId ids = place ? op.in[0] : op.in[1];
    const ValueId wide = place ? op.out : op.in[0];
    const Labels& labels = LabelsOf(ids);
    const ValueId narrow = place ? op.in[1] : op.out;
    const int64_t step = By(wide, {op.label})[0], size = SizeOf(op.label);
    Odometer at(Of(ids).shape,
                {By(ids, labels), By(wide, labels), By(narrow, labels)});
    for (size_t i = 0; i < Of(ids).data.size(); ++i, at.Next()) {
      const int64_t row = Whole(ids, at.offset(0));
      if (row < 0 || row >= size) continue;
      const auto far = AsIndex(at.offset(1) + row * step);
      const auto near = AsIndex(at.offset(2));
      if (place) {
        out.data[far] = Of(narrow).data[near];
      } else {
        out.data[near] = Of(wide).data[far];
      }
    }
  }

  // Factors in the order of the label stand for it, wherever they are.
  void Reshape(const Op& op, StepTensor<T>& out) {
    const bool split = op.kind == OpKind::kSplit;
    const ValueId whole = split ? op.in[0] : op.out;
    const ValueId apart = split ? op.out : op.in[0];
    const auto& factors = graph_.labels[AsIndex(op.label)].factors;
    Labels labels;
    Strides strides;
    const Labels& own = LabelsOf(whole);
    const Strides of_whole = RowMajor(Of(whole).shape);
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i] != op.label) {
        labels.push_back(own[i]);
        strides.push_back(of_whole[i]);
        continue;
      }
      const Strides inside = RowMajor(Sized(factors));
      for (size_t f = 0; f < factors.size(); ++f) {
        labels.push_back(factors[f]);
        strides.push_back(of_whole[i] * inside[f]);
      }
    }
    Odometer at(Sized(labels), {strides, By(apart, labels)});
    const StepTensor<T>& from = Of(op.in[0]);
    for (size_t i = 0; i < out.data.size(); ++i, at.Next()) {
      const auto in_whole = AsIndex(at.offset(0));
      const auto in_apart = AsIndex(at.offset(1));
      out.data[split ? in_apart : in_whole] =
          from.data[split ? in_whole : in_apart];
    }
  }

  // A part or a row of the wide value's `label`, from it or into it.
  void Slice(const Op& op, StepTensor<T>& out, bool into) {
    const ValueId wide = into ? op.out : op.in[0];
    const ValueId narrow = into ? op.in[0] : op.out;
    const Labels& labels = LabelsOf(narrow);
    Strides strides = By(wide, labels);
    const int64_t step = By(wide, {op.label})[0];
    int64_t begin = op.index;
    if (op.to != step::kNoLabel) {
      const auto& parts = graph_.labels[AsIndex(op.label)].parts;
      begin = 0;
      for (size_t i = 0; i < AsIndex(op.index); ++i) {
        begin += SizeOf(parts[i]);
      }
      strides[Place(labels, op.to)] = step;
    }
    Odometer at(Of(narrow).shape, {By(narrow, labels), strides});
    const StepTensor<T>& from = Of(op.in[0]);
    for (size_t i = 0; i < Of(narrow).data.size(); ++i, at.Next()) {
      const auto near = AsIndex(at.offset(0));
      const auto far = AsIndex(at.offset(1) + begin * step);
      out.data[into ? far : near] = from.data[into ? near : far];
    }
  }

  static Rope RopeOf(const step::Rope& from) {
    Rope rope;
    rope.base = from.base;
    rope.stretch = from.scaling == "linear"    ? Stretch::kLinear
                   : from.scaling == "dynamic" ? Stretch::kDynamic
                   : from.scaling == "yarn"    ? Stretch::kYarn
                   : from.scaling == "llama3"  ? Stretch::kLlama3
                                               : Stretch::kNone;
    rope.factor = from.factor;
    rope.original_length = from.original_length;
    rope.fast_turns = from.beta_fast;
    rope.slow_turns = from.beta_slow;
    rope.whole_numbers = from.truncate;
    rope.low_part = from.low_frequency_factor;
    rope.high_part = from.high_frequency_factor;
    if (from.amplitude > 0) rope.amplitude = from.amplitude;
    return rope;
  }

  void Turn(const Op& op, StepTensor<T>& out) {
    const step::Rope& from = graph_.ropes[AsIndex(op.index)];
    const int64_t width = SizeOf(op.label);
    const auto pairs = std::max<int64_t>(
        1, std::llround(std::floor(
               static_cast<double>(width) * from.rotary_fraction / 2 + 1e-9)));
    const Rotary rotary(2 * pairs, SizeOf(graph_.common.query), RopeOf(from),
                        from.interleaved ? Pairs::kNeighbours : Pairs::kHalves);
    const StepTensor<T>& x = Of(op.in[0]);
    const int64_t step = By(op.out, {op.label})[0];
    const Labels rest = [&] {
      Labels labels = LabelsOf(op.out);
      labels.erase(std::find(labels.begin(), labels.end(), op.label));
      return labels;
    }();
    out.data = x.data;
    Odometer at(Sized(rest), {By(op.out, rest), By(op.in[1], rest)});
    const int64_t rows = static_cast<int64_t>(x.data.size()) / width;
    for (int64_t i = 0; i < rows; ++i, at.Next()) {
      const auto position = static_cast<double>(Whole(op.in[1], at.offset(1)));
      for (int64_t p = 0; p < pairs; ++p) {
        const double angle =
            op.sign * position * rotary.frequencies()[AsIndex(p)];
        const T c = T(std::cos(angle) * rotary.amplitude());
        const T s = T(std::sin(angle) * rotary.amplitude());
        const int64_t one = from.interleaved ? 2 * p : p;
        const int64_t two = from.interleaved ? 2 * p + 1 : p + pairs;
        const auto first = AsIndex(at.offset(0) + one * step);
        const auto second = AsIndex(at.offset(0) + two * step);
        out.data[first] = x.data[first] * c - x.data[second] * s;
        out.data[second] = x.data[second] * c + x.data[first] * s;
      }
    }
  }

  // What a head's scores have more for a key one place further on: a
  // geometric row from 2^(-8/n) for n a power of two; else those of the power
  // below, then every second one of the power above.
  static double Slope(int64_t heads, int64_t head) {
    int64_t power = 1;
    while (2 * power <= heads) power *= 2;
    const bool below = head < power;
    const double base =
        std::pow(2.0, -8.0 / static_cast<double>(below ? power : 2 * power));
    return std::pow(
        base, static_cast<double>(below ? head + 1 : 2 * (head - power) + 1));
  }

  void Mask(const Op& op, StepTensor<T>& out) {
    const Labels& labels = LabelsOf(op.out);
    const int64_t window = op.counts.empty()
                               ? std::numeric_limits<int64_t>::max()
                               : SizeOf(op.counts[0]);
    const bool causal = op.fn != "all", chunked = op.fn == "chunked";
    const StepTensor<T>& x = Of(op.in[0]);
    const bool sloped = op.label != step::kNoLabel;
    Strides heads(labels.size(), 0);
    if (sloped) {
      heads[AsIndex(std::find(labels.begin(), labels.end(), op.label) -
                    labels.begin())] = 1;
    }
    Odometer at(out.shape, {By(op.in[1], labels), By(op.in[2], labels), heads});
    for (size_t i = 0; i < out.data.size(); ++i, at.Next()) {
      const int64_t query = Whole(op.in[1], at.offset(0));
      const int64_t key = Whole(op.in[2], at.offset(1));
      const bool near =
          chunked ? query / window == key / window : query - key < window;
      const bool seen = !causal || (key <= query && near);
      const double slope = sloped ? Factor(op) * static_cast<double>(key) *
                                        Slope(SizeOf(op.label), at.offset(2))
                                  : 0;
      out.data[i] =
          seen ? x.data[i] + T(slope)
               : T(-std::numeric_limits<typename RealOf<T>::Type>::infinity());
    }
  }

  // Heads from kv heads, or sums of them.
  void Heads(const Op& op, StepTensor<T>& out) {
    const bool sum = op.kind == OpKind::kGroupSum;
    const ValueId many = sum ? op.in[0] : op.out;
    const ValueId few = sum ? op.out : op.in[0];
    const LabelId heads = sum ? op.label : op.to;
    const LabelId groups = sum ? op.to : op.label;
    const int64_t each = SizeOf(heads) / SizeOf(groups);
    const Labels& labels = LabelsOf(many);
    const int64_t step = By(few, {groups})[0];
    const size_t head = Place(labels, heads);
    Odometer at(Of(many).shape, {By(many, labels), By(few, labels)});
    for (size_t i = 0; i < Of(many).data.size(); ++i, at.Next()) {
      const auto narrow = AsIndex(at.offset(1) + at.at(head) / each * step);
      const auto wide = AsIndex(at.offset(0));
      if (sum) {
        out.data[narrow] += Of(many).data[wide];
      } else {
        out.data[wide] = Of(few).data[narrow];
      }
    }
  }

  // Marks the `count` greatest; of equal ones those that come first.
  static std::vector<bool> Greatest(const std::vector<double>& scores,
                                    int64_t count) {
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    std::vector<bool> marked(scores.size(), false);
    for (size_t i = 0; i < order.size() && i < AsIndex(count); ++i) {
      marked[order[i]] = true;
    }
    return marked;
  }

  std::vector<double> GroupScores(const std::vector<double>& scores,
                                  int64_t groups, bool two) const {
    std::vector<double> out;
    const size_t each = scores.size() / AsIndex(groups);
    for (size_t g = 0; g < AsIndex(groups); ++g) {
      std::vector<double> members(
          scores.begin() + static_cast<std::ptrdiff_t>(g * each),
          scores.begin() + static_cast<std::ptrdiff_t>((g + 1) * each));
      std::sort(members.rbegin(), members.rend());
      out.push_back(members[0] +
                    (two && members.size() > 1 ? members[1] : 0.0));
    }
    return out;
  }

  void Choose(const Op& op, StepTensor<T>& out) {
    const StepTensor<T>& x = Of(op.in[0]);
    const int64_t step = By(op.in[0], {op.label})[0];
    const int64_t experts = SizeOf(op.label);
    Labels rest = LabelsOf(op.out);
    rest.erase(std::find(rest.begin(), rest.end(), op.label));
    Odometer at(Sized(rest), {By(op.in[0], rest)});
    const int64_t rows = static_cast<int64_t>(x.data.size()) / experts;
    for (int64_t i = 0; i < rows; ++i, at.Next()) {
      std::vector<double> scores;
      for (int64_t e = 0; e < experts; ++e) {
        scores.push_back(static_cast<double>(
            Real(x.data[AsIndex(at.offset(0) + e * step)])));
      }
      int64_t each = 1;
      if (op.kind == OpKind::kTopGroups) {
        const int64_t groups = SizeOf(op.counts[0]);
        each = experts / groups;
        scores = GroupScores(scores, groups, op.fn == "top2");
      }
      const auto marked = Greatest(scores, SizeOf(op.counts.back()));
      for (int64_t e = 0; e < experts; ++e) {
        const bool chosen = marked[AsIndex(e / each)];
        out.data[AsIndex(at.offset(0) + e * step)] = T(chosen ? 1 : 0);
      }
    }
  }

  // Tokens of a row queue in their order.
  void Slots(const Op& op, StepTensor<T>& out) {
    const StepTensor<T>& chosen = Of(op.in[0]);
    const int64_t batch = chosen.shape[0], tokens = chosen.shape[1],
                  experts = chosen.shape[2], slots = SizeOf(op.to);
    for (int64_t b = 0; b < batch; ++b) {
      std::vector<int64_t> next(AsIndex(experts), 0);
      for (int64_t i = 0; i < tokens * experts; ++i) {
        const int64_t at = b * tokens * experts + i;
        if (Real(chosen.data[AsIndex(at)]) == 0) continue;
        const int64_t slot = next[AsIndex(i % experts)]++;
        if (slot < slots) {
          out.data[AsIndex(at * slots + slot)] = T(1);
        }
      }
    }
  }

  void CacheWrite(const Op& op, StepTensor<T>& out) {
    const ValueId fresh = op.in[1], positions = op.in[2];
    out.data = Of(op.in[0]).data;
    const Labels& labels = LabelsOf(fresh);
    const int64_t rows = SizeOf(op.label);
    const int64_t step = By(op.out, {op.label})[0];
    Odometer at(Of(fresh).shape,
                {By(fresh, labels), By(op.out, labels), By(positions, labels)});
    for (size_t i = 0; i < Of(fresh).data.size(); ++i, at.Next()) {
      const int64_t row = Whole(positions, at.offset(2));
      if (row < 0 || row >= rows) continue;
      out.data[AsIndex(at.offset(1) + row * step)] =
          Of(fresh).data[AsIndex(at.offset(0))];
    }
  }

  void Update(const Op& op, StepTensor<T>& out) {
    const step::Adam& adam = graph_.adam;
    const T clip = Of(op.in[4]).data[0];
    const auto time = static_cast<double>(adam.step);
    const T one = T(1 / (1 - std::pow(adam.beta1, time)));
    const T two = T(1 / (1 - std::pow(adam.beta2, time)));
    for (size_t i = 0; i < out.data.size(); ++i) {
      const T p = Of(op.in[0]).data[i];
      const T g = Of(op.in[1]).data[i] * clip;
      const T m = T(adam.beta1) * Of(op.in[2]).data[i] + T(1 - adam.beta1) * g;
      const T v =
          T(adam.beta2) * Of(op.in[3]).data[i] + T(1 - adam.beta2) * g * g;
      const T moved = m * one / (std::sqrt(v * two) + T(adam.epsilon));
      const T decayed = moved + T(op.scale.constant) * p;
      out.data[i] = op.index == 0   ? p - T(adam.rate) * decayed
                    : op.index == 1 ? m
                                    : v;
    }
  }

  const Graph& graph_;
  const Sizes& sizes_;
  StepValues<T>& values_;
};

}  // namespace

std::vector<int64_t> ShapeOf(const step::Graph& graph, const step::Sizes& sizes,
                             step::ValueId value) {
  std::vector<int64_t> shape;
  for (const LabelId label : graph.values[AsIndex(value)].labels) {
    shape.push_back(sizes[AsIndex(label)]);
  }
  return shape;
}

template <typename T>
void RunStep(const step::Graph& graph, const step::Sizes& sizes,
             step::Phase last, StepValues<T>& values) {
  values.resize(graph.values.size());
  Runner<T> runner(graph, sizes, values);
  for (const Op& op : graph.ops) {
    if (op.phase <= last) runner.Run(op);
  }
}

template void RunStep<float>(const step::Graph&, const step::Sizes&,
                             step::Phase, StepValues<float>&);
template void RunStep<double>(const step::Graph&, const step::Sizes&,
                              step::Phase, StepValues<double>&);
template void RunStep<std::complex<double>>(const step::Graph&,
                                            const step::Sizes&, step::Phase,
                                            StepValues<std::complex<double>>&);

double ComplexStepError(const step::Graph& graph, const step::Sizes& sizes,
                        const StepValues<double>& values, uint64_t seed) {
  constexpr double kStep = 1e-30;
  constexpr double kFloor = 1e-2;
  using Complex = std::complex<double>;
  StepValues<double> given = values;
  RunStep(graph, sizes, step::Phase::kBackward, given);
  StepValues<Complex> complex(graph.values.size());
  for (const Op& op : graph.ops) {
    const auto at = AsIndex(op.out);
    complex[at].factors = values[at].factors;
    if (op.kind != OpKind::kInput || op.phase != step::Phase::kForward) {
      continue;
    }
    complex[at].shape = values[at].shape;
    complex[at].data.assign(values[at].data.begin(), values[at].data.end());
  }
  std::mt19937_64 random(seed);
  std::vector<std::pair<double, double>> slopes;
  double largest = 0;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    auto& data = complex[AsIndex(graph.parameters[i].value)].data;
    const ValueId g = graph.gradients[i];
    double expected = 0;
    for (size_t j = 0; j < data.size(); ++j) {
      const double along = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
      data[j] = {data[j].real(), kStep * along};
      if (g != step::kNoValue) {
        expected += along * given[AsIndex(g)].data[j];
      }
    }
    RunStep(graph, sizes, step::Phase::kForward, complex);
    const double slope = complex[AsIndex(graph.loss)].data[0].imag() / kStep;
    for (Complex& x : data) x = x.real();
    slopes.emplace_back(slope, expected);
    largest = std::max({largest, std::abs(slope), std::abs(expected)});
  }
  double worst = 0;
  for (const auto& [a, b] : slopes) {
    const double scale = std::max({std::abs(a), std::abs(b), kFloor * largest});
    if (scale > 0) worst = std::max(worst, std::abs(a - b) / scale);
    if (!std::isfinite(a) || !std::isfinite(b)) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return worst;
}

}  // namespace shardc::dense
