// Checks that the sizes of a step do not contradict each other, and that the
// bytes of the step fit in 64 bits.
#ifndef SHARDC_STEP_CHECK_SIZES_H_
#define SHARDC_STEP_CHECK_SIZES_H_

#include <cstdint>
#include <span>

#include "model/step_graph.h"
#include "source/finding.h"

namespace shardc::step {

// Reports errors at `place` and returns false if sizes contradict each other.
// Examples are KV heads that do not divide the heads, a token that is sent to
// more experts than exist, an odd rotary dimension, groups that do not divide
// the experts, and more chosen groups than exist.
bool CheckSizes(const Graph& graph, const Sizes& sizes, const Place& place,
                Findings& findings);

// Reports an error at `place` and returns false if the bytes of all values
// together, with a margin for copies, do not fit in 64 bits. If `layer_times`
// is not empty, the bytes of layer i are multiplied by layer_times[i].
bool CheckBytes(const Graph& graph, const Sizes& sizes, const Place& place,
                Findings& findings, std::span<const int64_t> layer_times = {});

}  // namespace shardc::step

#endif  // SHARDC_STEP_CHECK_SIZES_H_
