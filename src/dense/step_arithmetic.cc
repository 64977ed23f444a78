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
#include "dense/step_ops.h"

#include <cmath>

#include "dense/step_functions.h"

namespace shardc::dense {
namespace {

using step::LabelId;
using step::Op;
using step::OpKind;
using step::ValueId;

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

}  // namespace shardc::dense
