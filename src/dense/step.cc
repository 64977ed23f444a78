// Runs a training step on one device, as the reference for sharded runs. The
// ops of a graph run in order, over unsharded tensors. The table kOps has the
// function of each op, which is below it. No code is shared with exec/step,
// whose results are compared with this reference.
#include "dense/step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <variant>

#include "dense/attention.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::dense {
namespace {

using step::LabelId;
using step::Op;
using step::OpKind;
using step::ValueId;

template <typename T>
struct OpRow {
  OpKind kind;
  void (*run)(StepContext<T>&, const Op&, StepTensor<T>&);
};

// The functions of the ops, in the order of OpKind. The values of inputs are
// arguments of the run, so kInput has no function.
template <typename T>
constexpr std::array<OpRow<T>, step::kOpKinds> kOps = {{
    {OpKind::kInput, nullptr},
    {OpKind::kEinsum, RunEinsum<T>},
    {OpKind::kAdd, RunAdd<T>},
    {OpKind::kScale, RunScale<T>},
    {OpKind::kFn, RunFn<T>},
    {OpKind::kSum, RunReduction<T>},
    {OpKind::kMax, RunReduction<T>},
    {OpKind::kBroadcast, RunCopy<T>},
    {OpKind::kLookup, RunRows<T>},
    {OpKind::kScatter, RunRows<T>},
    {OpKind::kPick, RunPick<T>},
    {OpKind::kPlace, RunPick<T>},
    {OpKind::kSplit, RunReshape<T>},
    {OpKind::kMerge, RunReshape<T>},
    {OpKind::kPart, RunSlice<T>},
    {OpKind::kUnpart, RunSlice<T>},
    {OpKind::kIndex, RunSlice<T>},
    {OpKind::kUnindex, RunSlice<T>},
    {OpKind::kRename, RunRename<T>},
    {OpKind::kIdentity, RunCopy<T>},
    {OpKind::kRope, RunRope<T>},
    {OpKind::kMask, RunMask<T>},
    {OpKind::kRepeat, RunHeads<T>},
    {OpKind::kGroupSum, RunHeads<T>},
    {OpKind::kTopGroups, RunChoice<T>},
    {OpKind::kTopK, RunChoice<T>},
    {OpKind::kSlots, RunSlots<T>},
    {OpKind::kDropout, RunDropout<T>},
    {OpKind::kCacheWrite, RunCacheWrite<T>},
    {OpKind::kAdamW, RunAdamW<T>},
    {OpKind::kRoll, RunRoll<T>},
    {OpKind::kDistance, RunDistance<T>},
}};

constexpr bool IsInOrder() {
  for (size_t i = 0; i < step::kOpKinds; ++i) {
    if (static_cast<size_t>(kOps<double>[i].kind) != i) return false;
  }
  return true;
}
static_assert(IsInOrder(), "an op for each OpKind, in its order");

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
  StepContext<T> context{graph, sizes, values};
  for (const Op& op : graph.ops) {
    if (op.phase > last || op.kind == OpKind::kInput) continue;
    StepTensor<T>& out = context.Of(op.out);
    out.shape = ShapeOf(graph, sizes, op.out);
    out.data.assign(AsIndex(Product(out.shape)), T(0));
    kOps<T>[static_cast<size_t>(op.kind)].run(context, op, out);
  }
}

template void RunStep<float>(const step::Graph&, const step::Sizes&,
                             step::Phase, StepValues<float>&);
template void RunStep<double>(const step::Graph&, const step::Sizes&,
                              step::Phase, StepValues<double>&);
template void RunStep<std::complex<double>>(const step::Graph&,
                                            const step::Sizes&, step::Phase,
                                            StepValues<std::complex<double>>&);

namespace {

// The arithmetic ops of the dense reference: products, sums, functions, maxima,
// dropout and AdamW. Dropout and AdamW loop over the elements. Each other op is
// a loop nest with one loop for each dimension label of the result, and for
// each label that is summed. An operand has a stride for each label: the
// distance between its elements if the label's index grows by 1. If the operand
// lacks the label, the stride is 0, which broadcasts the operand.
//
// For example, `einsum(a [b d], w [f d] -> b f)` loops over b, f and d. If D is
// the size of d, the strides of a are D, 0 and 1, and those of w are 0, D and
// 1.

// The scalar functions of a step and their derivatives, over float, double and
// complex numbers. step/op_def.h lists which function is the derivative of
// which: for example, `silu_d` is the derivative of `silu`. Functions with a
// kink compare only the real parts of complex numbers. For example:
//
//   relu at 2 + 1e-30i is 2 + 1e-30i, at -1 + 1e-30i it is 0

// Computes the function named `fn` of x. `constant` is the number c in the
// formulas of step/op_def.h, such as the cap in c tanh(x / c).
template <typename T>
using StepFunction = T (*)(std::string_view fn, const T& x, const T& constant);

// Returns the function that computes `fn`, which must be one of the names in
// step/op_def.h.
template <typename T>
StepFunction<T> FindStepFunction(std::string_view fn);

constexpr double kPi = 3.14159265358979323846;

template <typename T>
T Exp(const T& x) {
  // The result is 0 at -inf, whatever the imaginary part is.
  if (Real(x) == -std::numeric_limits<typename RealOf<T>::Type>::infinity()) {
    return T(0);
  }
  return std::exp(x);
}

// Computes erf of a complex number to first order in the imaginary part. The
// first order is enough for derivatives by a complex step.
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

// Computes the smooth function named `fn` of x. `c` is the constant of the
// function, such as the cap in c tanh(x / c).
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
  return s + k * x * s * (T(1) - s);  // the functions silu_d and swish_d
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

// Computes the function named `fn` of x, which has a kink or a step. `c` is the
// constant of the function, such as the limit to which `clamp` limits |x|.
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
  return limit < at ? c / x : T(1);  // the function clip
}

constexpr std::array<std::string_view, 10> kPiecewise = {
    "relu",  "step",  "relu2",  "relu2_d", "at_most",
    "below", "clamp", "inside", "clip",    "floor"};

template <typename T>
StepFunction<T> FindStepFunction(std::string_view fn) {
  if (IsAmong(fn, kPiecewise)) {
    return PiecewiseFunction<T>;
  }
  if (fn.starts_with("gelu")) {
    return [](std::string_view f, const T& x, const T&) { return Gelu(f, x); };
  }
  return SmoothFunction<T>;
}

}  // namespace

template <typename T>
void RunAdd(StepContext<T>& c, const Op& op, StepTensor<T>&) {
  for (const ValueId in : op.in) {
    c.Each(op, in, [](T& to, const T& x) { to += x; });
  }
}

template <typename T>
void RunScale(StepContext<T>& c, const Op& op, StepTensor<T>&) {
  const T factor = T(c.Factor(step::As<step::ScaleAttributes>(op).factor));
  c.Each(op, op.in[0], [&](T& to, const T& x) { to = factor * x; });
}

template <typename T>
void RunCopy(StepContext<T>& c, const Op& op, StepTensor<T>&) {
  c.Each(op, op.in[0], [](T& to, const T& x) { to = x; });
}

template <typename T>
void RunFn(StepContext<T>& c, const Op& op, StepTensor<T>&) {
  if (op.in.size() > 1) {
    c.Each(op, op.in[0], [](T& to, const T& x) { to = x; });
    return c.Each(op, op.in[1], [](T& to, const T& x) {
      if (Real(x) > Real(to)) to = x;
    });
  }
  const auto& [fn, number] = step::As<step::FnAttributes>(op);
  const StepFunction<T> function = FindStepFunction<T>(fn);
  const T constant = T(number);
  const std::string_view name = fn;
  c.Each(op, op.in[0],
         [&](T& to, const T& x) { to = function(name, x, constant); });
}

template <typename T>
void RunEinsum(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const ValueId a = op.in[0], b = op.in[1];
  Labels labels = c.LabelsOf(op.out);
  for (const ValueId in : op.in) {
    for (const LabelId label : c.LabelsOf(in)) {
      if (Place(labels, label) == labels.size()) labels.push_back(label);
    }
  }
  Strides sc = RowMajor(out.shape);
  sc.resize(labels.size(), 0);
  // The innermost loop runs over the last label.
  const int64_t inner = labels.empty() ? 1 : c.SizeOf(labels.back());
  const Strides sa = c.By(a, labels), sb = c.By(b, labels);
  std::vector<int64_t> outer = c.Sized(labels);
  if (!outer.empty()) outer.pop_back();
  const int64_t da = labels.empty() ? 0 : sa.back();
  const int64_t db = labels.empty() ? 0 : sb.back();
  const int64_t dc = labels.empty() ? 0 : sc.back();
  Odometer at(outer, {sa, sb, sc});
  const int64_t rounds = Product(outer);
  for (int64_t i = 0; i < rounds; ++i) {
    const T* x = c.Of(a).data.data() + at.offset(0);
    const T* y = c.Of(b).data.data() + at.offset(1);
    T* z = out.data.data() + at.offset(2);
    for (int64_t j = 0; j < inner; ++j) z[j * dc] += x[j * da] * y[j * db];
    at.Next();
  }
}

template <typename T>
void RunReduction(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const ValueId in = op.in[0];
  const bool max = op.kind == OpKind::kMax;
  Labels labels = c.LabelsOf(op.out);
  labels.push_back(step::As<step::LabelAttributes>(op).label);
  Strides to = RowMajor(out.shape);
  to.push_back(0);
  Odometer at(c.Sized(labels), {c.By(in, labels), to});
  const StepTensor<T>& x = c.Of(in);
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

template <typename T>
void RunDropout(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  out.data = c.Of(op.in[0]).data;
  if (out.factors.size() != out.data.size()) return;
  for (size_t i = 0; i < out.data.size(); ++i) {
    out.data[i] *= T(out.factors[i]);
  }
}

template <typename T>
void RunAdamW(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  using step::AdamWResult;
  const auto& [result, decay] = step::As<step::AdamWAttributes>(op);
  const step::Adam& adam = c.graph.adam;
  const T clip = c.Of(op.in[4]).data[0];
  const auto time = static_cast<double>(adam.step);
  const T one = T(1 / (1 - std::pow(adam.beta1, time)));
  const T two = T(1 / (1 - std::pow(adam.beta2, time)));
  for (size_t i = 0; i < out.data.size(); ++i) {
    const T p = c.Of(op.in[0]).data[i];
    const T g = c.Of(op.in[1]).data[i] * clip;
    const T m = T(adam.beta1) * c.Of(op.in[2]).data[i] + T(1 - adam.beta1) * g;
    const T v =
        T(adam.beta2) * c.Of(op.in[3]).data[i] + T(1 - adam.beta2) * g * g;
    const T moved = m * one / (std::sqrt(v * two) + T(adam.epsilon));
    const T decayed = moved + T(decay) * p;
    out.data[i] = result == AdamWResult::kParameter ? p - T(adam.rate) * decayed
                  : result == AdamWResult::kFirstMoment ? m
                                                        : v;
  }
}

SHARDC_DENSE_OP(RunAdd)
SHARDC_DENSE_OP(RunScale)
SHARDC_DENSE_OP(RunCopy)
SHARDC_DENSE_OP(RunFn)
SHARDC_DENSE_OP(RunEinsum)
SHARDC_DENSE_OP(RunReduction)
SHARDC_DENSE_OP(RunDropout)
SHARDC_DENSE_OP(RunAdamW)

// The ops of the dense reference that depend on positions: rotary embeddings
// and attention masks. For example, in a causal mask with a window of 4, the
// query at position 9 sees the keys at these positions:
//
//   6, 7, 8 and 9

namespace {

Rope RopeOf(const step::Rope& from) {
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
  rope.rounds_outwards = from.truncate;
  rope.low_part = from.low_frequency_factor;
  rope.high_part = from.high_frequency_factor;
  if (from.amplitude > 0) rope.amplitude = from.amplitude;
  return rope;
}

// Returns the ALiBi slope of a head. The bias of a score is the slope times the
// position of the key. If the number n of heads is a power of two, the slopes
// are the geometric sequence 2^(-8/n), 2^(-16/n) and so on. Otherwise let m be
// the largest power of two below n. The first m heads have the slopes of m
// heads. The remaining heads have the first, third, fifth and so on of the
// slopes of 2m heads.
double Slope(int64_t heads, int64_t head) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const bool below = head < power;
  const double base =
      std::pow(2.0, -8.0 / static_cast<double>(below ? power : 2 * power));
  return std::pow(
      base, static_cast<double>(below ? head + 1 : 2 * (head - power) + 1));
}

}  // namespace

template <typename T>
void RunRope(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const auto& [label, rope, sign] = step::As<step::RopeAttributes>(op);
  const step::Rope& from = c.graph.ropes[AsIndex(rope)];
  const int64_t width = c.SizeOf(label);
  const auto pairs = std::max<int64_t>(
      1, std::llround(std::floor(
             static_cast<double>(width) * from.rotary_fraction / 2 + 1e-9)));
  const Rotary rotary(2 * pairs, c.SizeOf(c.graph.common.query), RopeOf(from),
                      from.interleaved ? Pairs::kNeighbours : Pairs::kHalves);
  const StepTensor<T>& x = c.Of(op.in[0]);
  const int64_t step = c.By(op.out, {label})[0];
  Labels rest = c.LabelsOf(op.out);
  rest.erase(std::find(rest.begin(), rest.end(), label));
  out.data = x.data;
  Odometer at(c.Sized(rest), {c.By(op.out, rest), c.By(op.in[1], rest)});
  const int64_t rows = static_cast<int64_t>(x.data.size()) / width;
  for (int64_t i = 0; i < rows; ++i, at.Next()) {
    const auto position =
        static_cast<double>(c.Integer(op.in[1], at.offset(1)));
    for (int64_t p = 0; p < pairs; ++p) {
      const double angle = sign * position * rotary.frequencies()[AsIndex(p)];
      const T cosine = T(std::cos(angle) * rotary.amplitude());
      const T sine = T(std::sin(angle) * rotary.amplitude());
      const int64_t one = from.interleaved ? 2 * p : p;
      const int64_t two = from.interleaved ? 2 * p + 1 : p + pairs;
      const auto first = AsIndex(at.offset(0) + one * step);
      const auto second = AsIndex(at.offset(0) + two * step);
      out.data[first] = x.data[first] * cosine - x.data[second] * sine;
      out.data[second] = x.data[second] * cosine + x.data[first] * sine;
    }
  }
}

template <typename T>
void RunMask(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const Labels& labels = c.LabelsOf(op.out);
  const auto& mask = step::As<step::MaskAttributes>(op);
  const int64_t window = mask.window == step::kNoLabel
                             ? std::numeric_limits<int64_t>::max()
                             : c.SizeOf(mask.window);
  const bool causal = mask.rule != step::MaskRule::kNone;
  const bool chunked = mask.rule == step::MaskRule::kChunked;
  const StepTensor<T>& x = c.Of(op.in[0]);
  const bool sloped = mask.heads != step::kNoLabel;
  Strides heads(labels.size(), 0);
  if (sloped) {
    heads[AsIndex(std::find(labels.begin(), labels.end(), mask.heads) -
                  labels.begin())] = 1;
  }
  Odometer at(out.shape,
              {c.By(op.in[1], labels), c.By(op.in[2], labels), heads});
  for (size_t i = 0; i < out.data.size(); ++i, at.Next()) {
    const int64_t query = c.Integer(op.in[1], at.offset(0));
    const int64_t key = c.Integer(op.in[2], at.offset(1));
    const bool near =
        chunked ? query / window == key / window : query - key < window;
    const bool seen = !causal || (key <= query && near);
    const double slope = sloped ? c.Factor(mask.slope_scale) *
                                      static_cast<double>(key) *
                                      Slope(c.SizeOf(mask.heads), at.offset(2))
                                : 0;
    out.data[i] =
        seen ? x.data[i] + T(slope)
             : T(-std::numeric_limits<typename RealOf<T>::Type>::infinity());
  }
}

SHARDC_DENSE_OP(RunRope)
SHARDC_DENSE_OP(RunMask)

// The ops of the dense reference for expert routing. They compute which experts
// a token chooses, and the token's position in the queue of each of these
// experts. All results are arrays of zeros and ones. If two scores are equal,
// the expert with the lower index is chosen first. For example:
//
//   top 1 of [3, 1, 3, 2] -> [1, 0, 0, 0], top 2 -> [1, 0, 1, 0]

namespace {

// Marks the `count` largest scores. If scores are equal, the first ones are
// marked.
std::vector<bool> Greatest(const std::vector<double>& scores, int64_t count) {
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

// Returns the score of each group of experts: its largest score, or the sum of
// its two largest if `two` is true.
std::vector<double> GroupScores(const std::vector<double>& scores,
                                int64_t groups, bool two) {
  std::vector<double> out;
  const size_t each = scores.size() / AsIndex(groups);
  for (size_t g = 0; g < AsIndex(groups); ++g) {
    std::vector<double> members(
        scores.begin() + static_cast<std::ptrdiff_t>(g * each),
        scores.begin() + static_cast<std::ptrdiff_t>((g + 1) * each));
    std::sort(members.rbegin(), members.rend());
    out.push_back(members[0] + (two && members.size() > 1 ? members[1] : 0.0));
  }
  return out;
}

}  // namespace

// Marks the experts of the best groups (kTopGroups), or the best experts
// (kTopK). For kTopK, each expert is treated as a group of one expert.
template <typename T>
void RunChoice(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const auto* const grouped =
      std::get_if<step::TopGroupsAttributes>(&op.attributes);
  const auto* const single = std::get_if<step::TopKAttributes>(&op.attributes);
  const LabelId label = grouped != nullptr ? grouped->experts : single->experts;
  const int64_t count =
      c.SizeOf(grouped != nullptr ? grouped->chosen : single->chosen);
  const StepTensor<T>& x = c.Of(op.in[0]);
  const int64_t step = c.By(op.in[0], {label})[0];
  const int64_t experts = c.SizeOf(label);
  Labels rest = c.LabelsOf(op.out);
  rest.erase(std::find(rest.begin(), rest.end(), label));
  Odometer at(c.Sized(rest), {c.By(op.in[0], rest)});
  const int64_t rows = static_cast<int64_t>(x.data.size()) / experts;
  for (int64_t i = 0; i < rows; ++i, at.Next()) {
    std::vector<double> scores;
    for (int64_t e = 0; e < experts; ++e) {
      scores.push_back(
          static_cast<double>(Real(x.data[AsIndex(at.offset(0) + e * step)])));
    }
    int64_t each = 1;
    if (grouped != nullptr) {
      const int64_t groups = c.SizeOf(grouped->groups);
      each = experts / groups;
      scores = GroupScores(scores, groups,
                           grouped->score == step::GroupScore::kTop2);
    }
    const auto marked = Greatest(scores, count);
    for (int64_t e = 0; e < experts; ++e) {
      const bool chosen = marked[AsIndex(e / each)];
      out.data[AsIndex(at.offset(0) + e * step)] = T(chosen ? 1 : 0);
    }
  }
}

// Assigns a slot in an expert's queue to each token that chose the expert,
// until no slots are left. The tokens of a batch row enter the queue in their
// order.
template <typename T>
void RunSlots(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const StepTensor<T>& chosen = c.Of(op.in[0]);
  const int64_t batch = chosen.shape[0], tokens = chosen.shape[1],
                experts = chosen.shape[2];
  const int64_t slots = c.SizeOf(step::As<step::SlotsAttributes>(op).slots);
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

SHARDC_DENSE_OP(RunChoice)
SHARDC_DENSE_OP(RunSlots)

// The ops of the dense reference that read or write the rows of an array by ids
// or positions. They look up embedding tables, pick the logits of the targets,
// write caches, and look up position biases by distance. An id or a position
// for which there is no row is skipped. For example:
//
//   cache write at position 3: row 3 of the cache is replaced
//   cache write at position -1: the cache is unchanged

namespace {

// Returns the row of a table of position biases (T5's buckets) for a key that
// is `apart` positions after its query. Rows in the first half are for one
// distance each. Each later row is for a range of distances, which is longer
// than the range before it by a constant factor. The last row is for all
// distances from `most` on. If `both` is true, the table consists of two such
// tables: one for keys before the query, and one for keys after it. If `both`
// is false, a key after the query has row 0. For example, 32 rows with `both`
// give a key 3 before its query row 3, and a key 3 after it row 19.
int64_t Bucket(int64_t apart, int64_t rows, int64_t most, bool both) {
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

}  // namespace

// Reads rows of a table by ids (kLookup), or adds rows to the rows of a table
// with these ids (kScatter).
template <typename T>
void RunRows(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const bool scatter = op.kind == OpKind::kScatter;
  const ValueId ids = scatter ? op.in[0] : op.in[1];
  const ValueId table = scatter ? op.out : op.in[0];
  // The array that has one row for each token.
  const ValueId tokens = scatter ? op.in[1] : op.out;
  const StepTensor<T>& from = c.Of(scatter ? op.in[1] : op.in[0]);
  const auto& [label, shift] = step::As<step::LookupAttributes>(op);
  const int64_t rows = c.SizeOf(label);
  const Labels& labels = c.LabelsOf(tokens);
  const int64_t step = c.By(table, {label})[0];
  Odometer at(c.Of(tokens).shape,
              {c.By(tokens, labels), c.By(table, labels), c.By(ids, labels)});
  const size_t count = c.Of(tokens).data.size();
  for (size_t i = 0; i < count; ++i, at.Next()) {
    const int64_t row = c.Integer(ids, at.offset(2)) + shift;
    if (row < 0 || row >= rows) continue;
    const auto token = AsIndex(at.offset(0));
    const auto cell = AsIndex(at.offset(1) + row * step);
    out.data[scatter ? cell : token] += from.data[scatter ? token : cell];
  }
}

template <typename T>
void RunPick(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const bool place = op.kind == OpKind::kPlace;
  const ValueId ids = place ? op.in[0] : op.in[1];
  const ValueId wide = place ? op.out : op.in[0];
  const Labels& labels = c.LabelsOf(ids);
  const ValueId narrow = place ? op.in[1] : op.out;
  const LabelId label = step::As<step::LabelAttributes>(op).label;
  const int64_t step = c.By(wide, {label})[0], size = c.SizeOf(label);
  Odometer at(c.Of(ids).shape,
              {c.By(ids, labels), c.By(wide, labels), c.By(narrow, labels)});
  for (size_t i = 0; i < c.Of(ids).data.size(); ++i, at.Next()) {
    const int64_t row = c.Integer(ids, at.offset(0));
    if (row < 0 || row >= size) continue;
    const auto far = AsIndex(at.offset(1) + row * step);
    const auto near = AsIndex(at.offset(2));
    if (place) {
      out.data[far] = c.Of(narrow).data[near];
    } else {
      out.data[near] = c.Of(wide).data[far];
    }
  }
}

template <typename T>
void RunCacheWrite(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const ValueId fresh = op.in[1], positions = op.in[2];
  out.data = c.Of(op.in[0]).data;
  const Labels& labels = c.LabelsOf(fresh);
  const LabelId label = step::As<step::LabelAttributes>(op).label;
  const int64_t rows = c.SizeOf(label);
  const int64_t step = c.By(op.out, {label})[0];
  Odometer at(c.Of(fresh).shape, {c.By(fresh, labels), c.By(op.out, labels),
                                  c.By(positions, labels)});
  for (size_t i = 0; i < c.Of(fresh).data.size(); ++i, at.Next()) {
    const int64_t row = c.Integer(positions, at.offset(2));
    if (row < 0 || row >= rows) continue;
    out.data[AsIndex(at.offset(1) + row * step)] =
        c.Of(fresh).data[AsIndex(at.offset(0))];
  }
}

template <typename T>
void RunDistance(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const Labels& labels = c.LabelsOf(op.out);
  const auto& distance = step::As<step::DistanceAttributes>(op);
  const int64_t rows = c.SizeOf(distance.rows);
  const int64_t most = c.SizeOf(distance.longest);
  Odometer at(out.shape, {c.By(op.in[0], labels), c.By(op.in[1], labels)});
  for (T& to : out.data) {
    const int64_t apart =
        c.Integer(op.in[1], at.offset(1)) - c.Integer(op.in[0], at.offset(0));
    to = T(static_cast<double>(Bucket(apart, rows, most, distance.both_sides)));
    at.Next();
  }
}

SHARDC_DENSE_OP(RunRows)
SHARDC_DENSE_OP(RunPick)
SHARDC_DENSE_OP(RunCacheWrite)
SHARDC_DENSE_OP(RunDistance)

// The ops of the dense reference that move elements without computing. They
// split, merge, slice, index, rename and roll dimensions, and repeat each KV
// head for its query heads. The sum over the query heads of each KV head is in
// this file too. For example, a dimension of 8 elements is split into n of size
// 2 and h of size 4:
//
//   split (n h) -> n h: element 5 of (n h) is at n = 1, h = 1

namespace {}  // namespace

template <typename T>
void RunRename(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  out.data = c.Of(op.in[0]).data;
}

// Splits a dimension into its factors (kSplit), or merges the factors into the
// dimension (kMerge). The factors may be anywhere among the other dimensions.
template <typename T>
void RunReshape(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const bool split = op.kind == OpKind::kSplit;
  const ValueId whole = split ? op.in[0] : op.out;
  const ValueId apart = split ? op.out : op.in[0];
  const LabelId merged = step::As<step::LabelAttributes>(op).label;
  const auto& factors = c.graph.labels[AsIndex(merged)].factors;
  Labels labels;
  Strides strides;
  const Labels& own = c.LabelsOf(whole);
  const Strides of_merged = RowMajor(c.Of(whole).shape);
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i] != merged) {
      labels.push_back(own[i]);
      strides.push_back(of_merged[i]);
      continue;
    }
    const Strides inside = RowMajor(c.Sized(factors));
    for (size_t f = 0; f < factors.size(); ++f) {
      labels.push_back(factors[f]);
      strides.push_back(of_merged[i] * inside[f]);
    }
  }
  Odometer at(c.Sized(labels), {strides, c.By(apart, labels)});
  const StepTensor<T>& from = c.Of(op.in[0]);
  for (size_t i = 0; i < out.data.size(); ++i, at.Next()) {
    const auto in_merged = AsIndex(at.offset(0));
    const auto in_apart = AsIndex(at.offset(1));
    out.data[split ? in_apart : in_merged] =
        from.data[split ? in_merged : in_apart];
  }
}

// Copies a range of indices of a dimension (kPart), or one index (kIndex), from
// a wide tensor into a narrow one. kUnpart and kUnindex copy it back.
template <typename T>
void RunSlice(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const bool into = op.kind == OpKind::kUnpart || op.kind == OpKind::kUnindex;
  const ValueId wide = into ? op.out : op.in[0];
  const ValueId narrow = into ? op.in[0] : op.out;
  const Labels& labels = c.LabelsOf(narrow);
  Strides strides = c.By(wide, labels);
  int64_t step = 0, begin = 0;
  if (const auto* part = std::get_if<step::PartAttributes>(&op.attributes)) {
    step = c.By(wide, {part->whole})[0];
    const auto& parts = c.graph.labels[AsIndex(part->whole)].parts;
    for (size_t i = 0; i < AsIndex(part->number); ++i) {
      begin += c.SizeOf(parts[i]);
    }
    strides[Place(labels, part->part)] = step;
  } else {
    const auto& [label, row] = step::As<step::IndexAttributes>(op);
    step = c.By(wide, {label})[0];
    begin = row < 0 ? c.SizeOf(label) + row : row;
  }
  Odometer at(c.Of(narrow).shape, {c.By(narrow, labels), strides});
  const StepTensor<T>& from = c.Of(op.in[0]);
  for (size_t i = 0; i < c.Of(narrow).data.size(); ++i, at.Next()) {
    const auto near = AsIndex(at.offset(0));
    const auto far = AsIndex(at.offset(1) + begin * step);
    out.data[into ? far : near] = from.data[into ? near : far];
  }
}

// Repeats each KV head for its query heads (kRepeat), or sums the query heads
// of each KV head (kGroupSum).
template <typename T>
void RunHeads(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const bool sum = op.kind == OpKind::kGroupSum;
  const ValueId many = sum ? op.in[0] : op.out;
  const ValueId few = sum ? op.out : op.in[0];
  const auto& names = step::As<step::HeadGroupAttributes>(op);
  const LabelId heads = names.query_heads, groups = names.kv_heads;
  const int64_t each = c.SizeOf(heads) / c.SizeOf(groups);
  const Labels& labels = c.LabelsOf(many);
  const int64_t step = c.By(few, {groups})[0];
  const size_t head = Place(labels, heads);
  Odometer at(c.Of(many).shape, {c.By(many, labels), c.By(few, labels)});
  for (size_t i = 0; i < c.Of(many).data.size(); ++i, at.Next()) {
    const auto narrow = AsIndex(at.offset(1) + at.at(head) / each * step);
    const auto wide = AsIndex(at.offset(0));
    if (sum) {
      out.data[narrow] += c.Of(many).data[wide];
    } else {
      out.data[wide] = c.Of(few).data[narrow];
    }
  }
}

template <typename T>
void RunRoll(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const Labels& labels = c.LabelsOf(op.out);
  const auto& roll = step::As<step::RollAttributes>(op);
  const size_t dim = Place(labels, roll.label);
  const int64_t rows = c.SizeOf(roll.label);
  const int64_t stride = RowMajor(out.shape)[dim];
  const StepTensor<T>& x = c.Of(op.in[0]);
  Odometer at(out.shape, {RowMajor(out.shape)});
  for (T& to : out.data) {
    const int64_t before = at.at(dim) - roll.sign;
    const int64_t from = (before + rows) % rows;
    const int64_t there = at.offset(0) + (from - at.at(dim)) * stride;
    const bool comes_round = before != from;
    to = comes_round && roll.open ? T(0) : x.data[AsIndex(there)];
    at.Next();
  }
}

SHARDC_DENSE_OP(RunRename)
SHARDC_DENSE_OP(RunReshape)
SHARDC_DENSE_OP(RunSlice)
SHARDC_DENSE_OP(RunHeads)
SHARDC_DENSE_OP(RunRoll)

}  // namespace shardc::dense
