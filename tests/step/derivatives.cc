// A run over complex numbers computes a derivative without finite differences.
// The parameters p are changed by an imaginary number ih along a direction v,
// where h is tiny. Functions such as max or relu compare real parts, so this
// run takes the same branches as a run over real numbers. The derivative of the
// loss along v is then:
//
//   imaginary part of loss(p + ihv) / h
#include "step/derivatives.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "source/size.h"

namespace shardc::dense {

using step::Op;
using step::OpKind;
using step::ValueId;

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
