// Reports sizes that no step can have.
#ifndef SHARDC_STEP_CHECK_SIZES_H_
#define SHARDC_STEP_CHECK_SIZES_H_

#include <cstdint>
#include <span>

#include "model/step_graph.h"
#include "source/finding.h"

namespace shardc::step {

// Returns false after findings at `place`: KV heads that do not divide the
// heads, a token that goes to more experts than there are, an odd rotary
// dimension, groups that experts do not divide into, more groups chosen than
// there are. The reader of a config.json already reports the first three; here
// the sizes may come from a description or from shapes.
bool CheckSizes(const Graph& graph, const Sizes& sizes, const Place& place,
                Findings& findings);

// Returns false after a finding at `place` if the bytes of all values together
// exceed 64 bits; otherwise later sums and products of bytes cannot overflow.
// If `layer_times` is not empty, the values of layer i count layer_times[i]
// times.
bool CheckBytes(const Graph& graph, const Sizes& sizes, const Place& place,
                Findings& findings, std::span<const int64_t> layer_times = {});

}  // namespace shardc::step

#endif  // SHARDC_STEP_CHECK_SIZES_H_
