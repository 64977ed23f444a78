// Computes the reference for attention in narrow arithmetic, and its slack. The
// slack bounds how much the errors of float32 may change an element of the
// output.
//
// The dense reference computes every weight and the log of the denominator,
// from which the logits follow. A row of logits is then rounded as the settings
// require. (If the softmax is in float32, a row of weights is rounded instead.)
// Three versions of each number are rounded: its exact value, and both ends of
// the interval in which float32 may compute it. So each output has three
// versions, too. Its slack is the larger distance from the exact version to one
// of the other two.
//
// In this example, weights are rounded to multiples of a step:
//
//   4 bits, weights 0.5 and 0.31: the step is 0.5 / 7.5, so 0.31 is 4.65 steps.
//   The ends of its interval, 4.6499 and 4.6501, also round to 5 steps. The
//   slack is then only float32's error in the size of a step.
//
//   The ends for 4.5000001 steps may round to 4 and to 5: a slack of one step.
#include "dense/narrow.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "dense/attention.h"
#include "source/size.h"

namespace shardc::dense {
namespace {

double StepOf(double largest, int bits) {
  return largest / (std::ldexp(1.0, bits - 1) - 0.5);
}

double RoundTo(double x, double step, int bits) {
  const double top = std::ldexp(1.0, bits - 1) - 1;
  return step > 0 ? std::clamp(std::nearbyint(x / step), -top, top) : 0;
}

// Rounds the `count` numbers x[at], x[at + stride], x[at + 2 * stride] and so
// on to multiples of one step. The step depends on the largest magnitude of
// these numbers.
void QuantizeRow(Array& x, int64_t at, int64_t count, int64_t stride,
                 int bits) {
  const auto number = [&](int64_t i) -> double& {
    return x.data[AsIndex(at + i * stride)];
  };
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(number(i)));
  }
  const double step = StepOf(largest, bits);
  for (int64_t i = 0; i < count; ++i) {
    number(i) = step * RoundTo(number(i), step, bits);
  }
}

// An exact number, and the ends of the interval in which float32 may compute
// it.
struct Range {
  double is = 0, low = 0, high = 0;

  static Range Around(double x, double off) { return {x, x - off, x + off}; }
  // Applies a monotonically increasing function to the number and to both ends.
  template <class F>
  Range Through(F f) const {
    return {f(is), f(low), f(high)};
  }
  Range Times(double x) const { return {is * x, low * x, high * x}; }
  // Returns the larger of the distances from the number to the two ends.
  double Reach() const { return std::max(high - is, is - low); }
};

// Divides two ranges whose numbers are not negative. A quotient by 0 is 0.
Range Quotient(const Range& a, const Range& b) {
  return {b.is > 0 ? a.is / b.is : 0, b.high > 0 ? a.low / b.high : 0,
          b.low > 0 ? a.high / b.low : 0};
}

class NarrowRows {
 public:
  NarrowRows(const Inputs& in, const Options& options, const Narrow& narrow,
             const Result& whole)
      : in_(in),
        options_(options),
        narrow_(narrow),
        keys_(in.key.dim(1)),
        block_(narrow.block == 0 || narrow.softmax != Dtype::kF32
                   ? keys_
                   : narrow.block),
        dim_(in.query.dim(3)),
        value_dim_(in.value.dim(3)),
        group_(in.query.dim(2) / in.key.dim(2)),
        scale_(std::abs(options.ScaleOf(dim_))),
        exact_(whole) {}

  NarrowResult Run() {
    NarrowResult out;
    out.output = out.slack = Array::Zeros(
        {in_.query.dim(0), in_.query.dim(1), in_.query.dim(2), value_dim_});
    for (int64_t b = 0; b < in_.query.dim(0); ++b) {
      for (int64_t t = 0; t < in_.query.dim(1); ++t) {
        for (int64_t h = 0; h < in_.query.dim(2); ++h) {
          Attend(b, t, h, &out.output.At(b, t, h, 0),
                 &out.slack.At(b, t, h, 0));
        }
      }
    }
    return out;
  }

 private:
  bool Softens() const { return narrow_.softmax != Dtype::kF32; }

  // Returns the largest error of a logit in float32. The error of the dot
  // product is at most (dim + 2) * kUnit * sum |q_d k_d|; it is 0 if the
  // operands are integers. Scale, cap, bias and rounding each add an error of a
  // few kUnit times the number that they change.
  double LogitError(int64_t b, int64_t t, int64_t h, int64_t s,
                    double logit) const {
    if (logit <= kMasked / 2) return 0;
    const double* const q = in_.query.Row(b, t, h);
    const double* const k = in_.key.Row(b, s, h / group_);
    double dot = 0, sizes = 0;
    for (int64_t d = 0; d < dim_; ++d) {
      dot += q[d] * k[d];
      sizes += std::abs(q[d] * k[d]);
    }
    dot *= scale_;
    const double products =
        narrow_.bits > 0 ? 0 : static_cast<double>(dim_ + 2) * sizes * scale_;
    // Bias and dot product may cancel each other in the logit, so the errors of
    // both are added.
    return kUnit * (products + 8 * (3 * std::abs(dot) + 2 * std::abs(logit)));
  }

  // Returns the logits of a row. Each logit is computed as log(weight) plus the
  // log of the denominator. The logit of a key with weight 0 is -inf.
  std::vector<Range> Logits(int64_t b, int64_t t, int64_t h) const {
    const double lse = exact_.lse.At(b, t, h, 0);
    std::vector<Range> out;
    for (int64_t s = 0; s < keys_; ++s) {
      const double weight = exact_.weights.At(b, h, t, s);
      if (weight == 0 || lse == -kInfinity) {
        out.push_back({-kInfinity, -kInfinity, -kInfinity});
        continue;
      }
      const double logit = std::log(weight) + lse;
      out.push_back(Range::Around(logit, LogitError(b, t, h, s, logit)));
    }
    return out;
  }

  double ToSoftmax(double x) const {
    const double y = Nearest(narrow_.softmax, x);
    if (!std::isinf(y) || std::isinf(x) || x > 0) return y;
    return narrow_.softmax == Dtype::kF16 ? -65504.0 : y;
  }

  // Returns the weights of a row whose softmax is in 16 bits.
  std::vector<Range> SoftWeights(int64_t h, std::vector<Range> row) const {
    const auto rounded = [&](double x) { return ToSoftmax(x); };
    const int64_t first = static_cast<int64_t>(row.size());
    for (int64_t a = 0; a < in_.SinkCount(); ++a) {
      row.push_back(Range::Around(in_.Sink(a, h), 0));
    }
    Range top{-kInfinity, -kInfinity, -kInfinity};
    for (Range& x : row) {
      x = x.Through(rounded);
      top = {std::max(top.is, x.is), std::max(top.low, x.low),
             std::max(top.high, x.high)};
    }
    Range sum;
    for (Range& x : row) {
      x = Power(x, top);
      sum = {sum.is + x.is, sum.low + x.low, sum.high + x.high};
    }
    const double off = kUnit * static_cast<double>(row.size());
    sum = Range{sum.is, sum.low * (1 - off), sum.high * (1 + off)}.Through(
        rounded);
    row.resize(AsIndex(first));
    for (Range& x : row) {
      x = Quotient(x, sum);
      x = Range{x.is, x.low * (1 - kUnit), x.high * (1 + kUnit)}.Through(
          rounded);
    }
    return row;
  }

  // Returns e^(x - top), rounded to the dtype of the softmax; x is at most top.
  Range Power(const Range& x, const Range& top) const {
    if (x.high == -kInfinity) return {};
    const auto power = [&](double a, double b, double off) {
      const double distance = ToSoftmax(std::min(a - b, 0.0));
      return ToSoftmax(std::exp(distance) * (1 + off));
    };
    return {power(x.is, top.is, 0), power(x.low, top.high, -2 * kUnit),
            power(x.high, top.low, 2 * kUnit)};
  }

  // Returns the weights of a row if the softmax is in float32: the weights of
  // the reference, and the intervals in which float32 may compute them.
  std::vector<Range> PlainWeights(int64_t b, int64_t t, int64_t h,
                                  const std::vector<Range>& logits) const {
    const double lse = exact_.lse.At(b, t, h, 0);
    double off = 0;
    for (const Range& x : logits) {
      if (x.is == -kInfinity) continue;
      // Float32 rounds the logit, its distance from the maximum, and exp of the
      // distance.
      off = std::max(off, x.Reach() + kUnit * std::abs(x.is - lse));
    }
    off = 2 * off + 16 * kUnit;
    std::vector<Range> out;
    for (int64_t s = 0; s < keys_; ++s) {
      const double weight = exact_.weights.At(b, h, t, s);
      out.push_back({weight, weight * (1 - off), weight * (1 + off)});
    }
    return out;
  }

  double Keep(int64_t b, int64_t t, int64_t h, int64_t s) const {
    const bool drops =
        Drops(options_.dropout_seed, b + in_.first_row, h + in_.first_head,
              in_.QueryPosition(b, t), in_.KeyPosition(b, s), options_.dropout);
    return drops ? 0 : 1 / (1 - options_.dropout);
  }

  // Rounds the weights of the keys [begin, end) to integers times a common
  // step.
  void QuantizeWeights(std::vector<Range>& row, int64_t begin,
                       int64_t end) const {
    const int bits = narrow_.bits;
    Range step;
    for (int64_t s = begin; s < end; ++s) {
      const Range& x = row[AsIndex(s)];
      step = {std::max(step.is, x.is), std::max(step.low, x.low),
              std::max(step.high, x.high)};
    }
    step = step.Through([&](double x) { return StepOf(x, bits); });
    for (int64_t s = begin; s < end; ++s) {
      const Range steps =
          Quotient(row[AsIndex(s)], step).Through([&](double x) {
            return RoundTo(x, 1, bits);
          });
      row[AsIndex(s)] = {steps.is * step.is, steps.low * step.low,
                         steps.high * step.high};
    }
  }

  void Attend(int64_t b, int64_t t, int64_t h, double* out,
              double* slack) const {
    const std::vector<Range> logits = Logits(b, t, h);
    const bool sees =
        std::any_of(logits.begin(), logits.end(),
                    [](const Range& x) { return x.is != -kInfinity; });
    if (!sees) return;
    std::vector<Range> row =
        Softens() ? SoftWeights(h, logits) : PlainWeights(b, t, h, logits);
    for (int64_t s = 0; options_.dropout > 0 && s < keys_; ++s) {
      // Kept weights are multiplied by 1/(1 - dropout). Both this factor and
      // the product are rounded to float32.
      Range& x = row[AsIndex(s)];
      x = x.Times(Keep(b, t, h, s));
      x = {x.is, x.low * (1 - 3 * kUnit), x.high * (1 + 3 * kUnit)};
    }
    for (int64_t s = 0; narrow_.bits > 0 && s < keys_; s += block_) {
      QuantizeWeights(row, s, std::min(s + block_, keys_));
    }
    for (int64_t s = 0; s < keys_; ++s) {
      if (row[AsIndex(s)].high == 0) continue;
      const double* const value = in_.value.Row(b, s, h / group_);
      const double reach = row[AsIndex(s)].Reach();
      for (int64_t d = 0; d < value_dim_; ++d) {
        out[d] += row[AsIndex(s)].is * value[d];
        slack[d] += reach * std::abs(value[d]);
      }
    }
  }

  const Inputs& in_;
  const Options& options_;
  const Narrow& narrow_;
  int64_t keys_, block_, dim_, value_dim_, group_;
  double scale_;
  const Result& exact_;
};

}  // namespace

Inputs QuantizeOperands(const Inputs& in, int bits, int64_t block) {
  Inputs out = in;
  for (Array* x : {&out.query, &out.key}) {
    const auto elements = static_cast<int64_t>(x->data.size());
    for (int64_t at = 0; at < elements; at += x->dim(3)) {
      QuantizeRow(*x, at, x->dim(3), 1, bits);
    }
  }
  Array& v = out.value;
  const int64_t keys = v.dim(1), width = v.dim(2) * v.dim(3);
  const int64_t step = block == 0 ? keys : block;
  for (int64_t b = 0; b < v.dim(0); ++b) {
    for (int64_t s = 0; s < keys; s += step) {
      for (int64_t i = 0; i < width; ++i) {
        QuantizeRow(v, (b * keys + s) * width + i, std::min(step, keys - s),
                    width, bits);
      }
    }
  }
  return out;
}

std::optional<NarrowResult> NarrowAttention(const Inputs& in,
                                            const Options& options,
                                            const Narrow& narrow,
                                            std::string& why) {
  std::optional<Inputs> cut;
  if (narrow.bits > 0) {
    cut = QuantizeOperands(in, narrow.bits,
                           narrow.softmax == Dtype::kF32 ? narrow.block : 0);
  }
  const Inputs& from = cut ? *cut : in;
  const auto whole = Attention(from, options, why, true);
  if (!whole) return std::nullopt;
  return NarrowRows(from, options, narrow, *whole).Run();
}

// Rounds a double to the nearest number of a narrower dtype, ties to even. Half
// a unit of the last kept bit is added to the bits of the double (minus 1 if
// the last kept bit is 0). Then the lower bits are dropped. For example:
//
//   BF16 keeps 7 of 52 bits after the point. 1 + 2^-8 is a tie and becomes 1;
//   numbers between 1 + 2^-8 and 1 + 3 * 2^-8 become 1 + 2^-7
//
// The subnormal numbers of a dtype are multiples of one step. A number below
// the smallest normal number is therefore rounded to a multiple of this step.

namespace {

struct Format {
  int cut;        // number of mantissa bits of a double that are dropped
  double normal;  // the smallest positive normal number
  double step;    // the distance between two subnormal numbers
  double most;    // the largest finite number
};
constexpr Format kF16 = {42, 0x1p-14, 0x1p-24, 65504};
constexpr Format kBF16 = {45, 0x1p-126, 0x1p-133, 0x1.fep127};
constexpr Format kF8E4M3 = {49, 0x1p-6, 0x1p-9, 448};
constexpr Format kF8E5M2 = {50, 0x1p-14, 0x1p-16, 57344};
constexpr Format kF32 = {29, 0x1p-126, 0x1p-149, 0x1.fffffep127};

double NearestIn(const Format& format, double x) {
  const double size = std::fabs(x);
  if (!(size < std::numeric_limits<double>::infinity())) return x;
  if (size < format.normal) {
    return std::copysign(std::nearbyint(size / format.step) * format.step, x);
  }
  const auto bits = std::bit_cast<uint64_t>(size);
  const uint64_t unit = uint64_t{1} << format.cut;
  const uint64_t half = unit / 2 - 1 + ((bits >> format.cut) & 1);
  const auto cut = std::bit_cast<double>((bits + half) & ~(unit - 1));
  const double out =
      cut > format.most ? std::numeric_limits<double>::infinity() : cut;
  return std::copysign(out, x);
}

float Single(double x) { return static_cast<float>(NearestIn(kF32, x)); }

}  // namespace

double Nearest(Dtype dtype, double x) {
  switch (dtype) {
    case Dtype::kF16:
      return NearestIn(kF16, x);
    case Dtype::kBF16:
      return NearestIn(kBF16, x);
    case Dtype::kF32:
      return NearestIn(kF32, x);
    case Dtype::kF8E4M3:
      return NearestIn(kF8E4M3, x);
    case Dtype::kF8E5M2:
      return NearestIn(kF8E5M2, x);
    default:
      return x;
  }
}

void NearestOf(Dtype dtype, std::span<float> x) {
  if (dtype != Dtype::kF16 && dtype != Dtype::kBF16) return;
  const Format& format = dtype == Dtype::kF16 ? kF16 : kBF16;
  for (float& value : x) {
    value = static_cast<float>(NearestIn(format, double{value}));
  }
}

float ToInt8(std::span<const float> x, std::span<int8_t> integers) {
  double largest = 0;
  for (float value : x) {
    const double magnitude = std::fabs(double{value});
    if (std::isnan(magnitude) || magnitude > largest) largest = magnitude;
    if (std::isnan(largest)) break;
  }
  std::fill(integers.begin(), integers.end(), int8_t{0});
  if (largest == 0 || !std::isfinite(largest)) {
    return static_cast<float>(largest);
  }
  // A step is largest / 127.5. There are `steps` steps from 0 to 1, so a number
  // x becomes x * `steps` steps. If `steps` overflows float32, x * 127.5 /
  // largest is computed in double instead.
  const double steps = NearestIn(kF32, 127.5 / largest);
  for (size_t i = 0; i < x.size(); ++i) {
    const double count = std::isfinite(steps)
                             ? NearestIn(kF32, double{x[i]} * steps)
                             : double{x[i]} * 127.5 / largest;
    const double whole = std::nearbyint(count);
    integers[i] = static_cast<int8_t>(whole > 127 ? 127 : whole);
  }
  return static_cast<float>(largest);
}

float FromInt8(int8_t integer, float scale) {
  return Single(double{Single(static_cast<double>(integer) * double{scale})} /
                127.5);
}

void StoreInt8(std::span<float> x) {
  std::vector<int8_t> integers(x.size());
  const float scale = ToInt8(x, integers);
  for (size_t i = 0; i < x.size(); ++i) x[i] = FromInt8(integers[i], scale);
}

}  // namespace shardc::dense
