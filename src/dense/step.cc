// Runs a training step on one device, as the reference for sharded runs. The
// ops of a graph run in order, over unsharded tensors. The table kOps has the
// function of each op. No code is shared with exec/step, whose results are
// compared with this reference.
//
// A run over complex numbers computes a derivative without finite differences.
// The parameters p are changed by an imaginary number ih along a direction v,
// where h is tiny. Functions such as max or relu compare real parts, so this
// run takes the same branches as a run over real numbers. The derivative of the
// loss along v is then:
//
//   imaginary part of loss(p + ihv) / h
#include "dense/step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "dense/step_ops.h"
#include "source/index.h"

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
