// How far a row may be off by rounding that was asked for. Steps of operands
// bound the error of logits; weights of logits that are off by e differ by
// 2 tanh(e / 2) in sum, which moves the output by that much of the largest
// value; steps of weights and values come on top.
//
//   e = 0.01 and values up to 3  ->  0.01 * 3 = 0.03
#include "verify/judge/narrow_bound.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "floats/half.h"

namespace shardc::verify {
namespace {

using exec::DenseArray;

double StepOf(double largest, int bits) {
  return largest / (std::ldexp(1.0, bits - 1) - 0.5);
}

// `count` numbers from `at`, `stride` apart, rounded to their row's steps.
void CutRow(DenseArray& x, int64_t at, int64_t count, int64_t stride,
            int bits) {
  const auto number = [&](int64_t i) -> double& {
    return x.data[static_cast<size_t>(at + i * stride)];
  };
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(number(i)));
  }
  const double step = StepOf(largest, bits);
  const double top = std::ldexp(1.0, bits - 1) - 1;
  for (int64_t i = 0; i < count && step > 0; ++i) {
    number(i) = step * std::clamp(std::nearbyint(number(i) / step), -top, top);
  }
}

// One row of numbers: their sum and largest, in size.
struct Line {
  double total = 0, largest = 0;
  void Take(double x) {
    total += std::abs(x);
    largest = std::max(largest, std::abs(x));
  }
};

class Bound {
 public:
  Bound(const exec::ReferenceInputs& in, const exec::AttentionOptions& options,
        const exec::OperationSettings& settings, const DenseArray& weights,
        bool cut)
      : in_(in),
        options_(options),
        settings_(settings),
        weights_(weights),
        cut_(cut),
        group_(in.query.dim(2) / in.key.dim(2)),
        scale_(std::abs(options.ScaleFor(in.query.dim(3)))),
        roundoff_(settings.softmax_dtype == Dtype::kF32
                      ? 0
                      : UnitRoundoff(settings.softmax_dtype)) {
    for (int64_t b = 0; b < in.key.dim(0); ++b) {
      for (int64_t s = 0; s < in.key.dim(1); ++s) {
        for (int64_t k = 0; k < in.key.dim(2); ++k) {
          keys_.push_back(LineOf(in.key, b, s, k));
        }
      }
    }
  }

  DenseArray Run() const {
    DenseArray out = DenseArray::Zeros(
        {in_.query.dim(0), in_.query.dim(1), in_.query.dim(2), 1});
    for (int64_t b = 0; b < in_.query.dim(0); ++b) {
      for (int64_t h = 0; h < in_.query.dim(2); ++h) {
        const ValueLines values = Values(b, h / group_);
        for (int64_t t = 0; t < in_.query.dim(1); ++t) {
          out.At(b, t, h, 0) = Row(b, h, t, values) / (1 - options_.dropout);
        }
      }
    }
    return out;
  }

 private:
  // Of an operand, which may have been cut already.
  double HalfStep(double largest) const {
    return settings_.dot_bits == 0 || cut_
               ? 0
               : StepOf(largest, settings_.dot_bits) / 2;
  }

  // A head's values, by dim over all keys.
  struct ValueLines {
    std::vector<Line> dims;
    double largest = 0;
  };

  ValueLines Values(int64_t b, int64_t k) const {
    ValueLines out;
    for (int64_t d = 0; d < in_.value.dim(3); ++d) {
      Line line;
      for (int64_t s = 0; s < in_.value.dim(1); ++s) {
        line.Take(in_.value.At(b, s, k, d));
      }
      out.dims.push_back(line);
      out.largest = std::max(out.largest, line.largest);
    }
    return out;
  }

  static Line LineOf(const DenseArray& x, int64_t b, int64_t l, int64_t n) {
    Line out;
    for (int64_t d = 0; d < x.dim(3); ++d) out.Take(x.At(b, l, n, d));
    return out;
  }

  double Logit(int64_t b, int64_t h, int64_t t, int64_t s) const {
    double dot = 0;
    for (int64_t d = 0; d < in_.query.dim(3); ++d) {
      dot += in_.query.At(b, t, h, d) * in_.key.At(b, s, h / group_, d);
    }
    double out = std::abs(dot * scale_);
    if (options_.soft_cap > 0) out = std::min(out, options_.soft_cap);
    if (!in_.bias.shape.empty()) out += std::abs(Bias(b, h, t, s));
    return out;
  }

  double Bias(int64_t b, int64_t h, int64_t t, int64_t s) const {
    const DenseArray& x = in_.bias;
    int64_t head = 0;
    if (x.dim(1) == in_.query.dim(2)) {
      head = h;
    } else if (x.dim(1) > 1) {
      head = h / group_;
    }
    return x.At(x.dim(0) == 1 ? 0 : b, head, x.dim(2) == 1 ? 0 : t, s);
  }

  double Row(int64_t b, int64_t h, int64_t t, const ValueLines& values) const {
    const double most = values.largest;
    const int64_t k = h / group_, keys = in_.key.dim(1);
    const int64_t dim = in_.query.dim(3);
    const Line q = LineOf(in_.query, b, t, h);
    double cut = 0, logit = 0, weight = 0;
    for (int64_t s = 0; s < keys; ++s) {
      const double p = weights_.At(b, h, t, s);
      if (p == 0) continue;
      weight = std::max(weight, p);
      const Line& key =
          keys_[static_cast<size_t>((b * keys + s) * in_.key.dim(2) + k)];
      const double dq = HalfStep(q.largest), dk = HalfStep(key.largest);
      cut = std::max(cut, q.total * dk + key.total * dq +
                              static_cast<double>(dim) * dq * dk);
      if (roundoff_ > 0) logit = std::max(logit, Logit(b, h, t, s));
    }
    if (roundoff_ > 0 && !in_.sinks.shape.empty()) {
      for (int64_t a = 0; a < in_.sinks.dim(0); ++a) {
        logit = std::max(
            logit,
            std::abs(
                in_.sinks.data[static_cast<size_t>(a * in_.sinks.dim(1) + h)]));
      }
    }
    const double off = cut * scale_ + 3 * roundoff_ * (logit + cut * scale_);
    double out = 2 * std::tanh(off / 2) * most + 5 * roundoff_ * most;
    if (settings_.softmax_dtype == Dtype::kF16) {
      out += static_cast<double>(keys) * 0x1p-24 * most;
    }
    if (settings_.dot_bits == 0) return out;
    const auto most_of = [&](double p) {
      return std::min(1.0, p * std::exp(2 * off)) * (1 + 5 * roundoff_);
    };
    const double dp = StepOf(most_of(weight), settings_.dot_bits) / 2;
    std::vector<double> sums(values.dims.size(), 0);
    for (int64_t s = 0; s < keys; ++s) {
      const double p = std::min(dp, most_of(weights_.At(b, h, t, s)));
      for (size_t d = 0; p > 0 && d < sums.size(); ++d) {
        sums[d] +=
            p * (std::abs(in_.value.At(b, s, k, static_cast<int64_t>(d))) +
                 HalfStep(values.dims[d].largest));
      }
    }
    double product = 0;
    for (size_t d = 0; d < sums.size(); ++d) {
      product = std::max(product, sums[d] + HalfStep(values.dims[d].largest));
    }
    return out + product;
  }

  const exec::ReferenceInputs& in_;
  const exec::AttentionOptions& options_;
  const exec::OperationSettings& settings_;
  const DenseArray& weights_;
  bool cut_;
  int64_t group_;
  double scale_, roundoff_;
  std::vector<Line> keys_;  // [B, S, K]
};

}  // namespace

bool IsNarrow(const exec::OperationSettings& settings) {
  return settings.dot_bits != 0 || settings.softmax_dtype != Dtype::kF32;
}

exec::ReferenceInputs CutOperands(const exec::ReferenceInputs& in, int bits,
                                  int64_t block) {
  exec::ReferenceInputs out = in;
  for (DenseArray* x : {&out.query, &out.key}) {
    const auto elements = static_cast<int64_t>(x->data.size());
    for (int64_t at = 0; at < elements; at += x->dim(3)) {
      CutRow(*x, at, x->dim(3), 1, bits);
    }
  }
  DenseArray& v = out.value;
  const int64_t keys = v.dim(1), width = v.dim(2) * v.dim(3);
  const int64_t step = block == 0 ? keys : block;
  for (int64_t b = 0; b < v.dim(0); ++b) {
    for (int64_t s = 0; s < keys; s += step) {
      for (int64_t i = 0; i < width; ++i) {
        CutRow(v, (b * keys + s) * width + i, std::min(step, keys - s), width,
               bits);
      }
    }
  }
  return out;
}

DenseArray NarrowBounds(const exec::ReferenceInputs& in,
                        const exec::AttentionOptions& options,
                        const exec::OperationSettings& settings, bool cut) {
  if (!IsNarrow(settings)) return {};
  std::string why;
  const auto reference = exec::ReferenceAttention(in, options, why, true);
  if (!reference) return {};
  return Bound(in, options, settings, reference->weights, cut).Run();
}

}  // namespace shardc::verify
