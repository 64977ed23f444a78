// Finds the parameters of attention that have one number, or one row, for each
// head: gates by head, attention sinks, scales and slopes of heads, and biases
// by head and distance.
#ifndef SHARDC_LINT_ANALYSIS_HEADWISE_H_
#define SHARDC_LINT_ANALYSIS_HEADWISE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

struct Headwise {
  const ParameterGroup* group = nullptr;  // never null
  int dim = 0;                            // the dimension that counts heads
  int64_t heads = 0;
  bool rows = false;  // whether there are several numbers for each head
  // The projection that shows the heads, whose heads are sharded over `axes`.
  const ParameterGroup* projection = nullptr;
  AxisGroup axes;
  std::string evidence;  // as in "8192 columns in heads of 128"
};

// Returns the parameters with a number for each head in blocks of attention
// whose heads are sharded over tensor-parallel axes, whatever their own spec
// is. Projections, norms, adapters, scales of quantised weights and the vectors
// of mixers are left out.
std::vector<Headwise> HeadwiseOf(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_HEADWISE_H_
