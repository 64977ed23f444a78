// Reports sizes that no step can have.
#ifndef SHARDC_STEP_CHECK_SIZES_H_
#define SHARDC_STEP_CHECK_SIZES_H_

#include <cstdint>
#include <span>

#include "model/step_graph.h"
#include "source/finding.h"

namespace shardc::step {

// Returns false after findings at `place`. Findings are, for example, KV heads
// that do not divide the heads, a token that is sent to more experts than
// exist, an odd rotary dimension, groups that do not divide the experts, or
// more chosen groups than exist.
bool CheckSizes(const Graph& graph, const Sizes& sizes, const Place& place,
                Findings& findings);

// Returns false after a finding at `place` if the bytes of all values together,
// with room for copies, exceed 64 bits. If `layer_times` is not empty, the
// values of layer i count layer_times[i] times.
bool CheckBytes(const Graph& graph, const Sizes& sizes, const Place& place,
                Findings& findings, std::span<const int64_t> layer_times = {});

}  // namespace shardc::step

#endif  // SHARDC_STEP_CHECK_SIZES_H_
