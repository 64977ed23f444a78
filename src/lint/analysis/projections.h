// Compares how the projections of attention shard heads with the axis rules.
#ifndef SHARDC_LINT_ANALYSIS_PROJECTIONS_H_
#define SHARDC_LINT_ANALYSIS_PROJECTIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/heads.h"

namespace shardc {

// The axes that shard heads in one mode: the heads of attention's query and
// output (`query`), and of its key and value (`key`).
struct HeadAxes {
  Mode mode = Mode::kTrain;
  AxisGroup query;
  AxisGroup key;
};

enum class ProjectionStatus : uint8_t { kAgrees, kDiffers, kUnknown };

// The result of comparing one parameter group. Modes with the same result share
// one object.
struct ComparedProjection {
  const ParameterGroup* group = nullptr;
  ProjectionStatus status = ProjectionStatus::kAgrees;
  std::vector<Mode> modes;
  std::string reason;  // lower case at the start; empty for kAgrees
  std::string help;
};

// Compares the specs of all query, key, value and output projections with
// `axes`, in each planned mode that `axes` has. `value_dim` is the size of a
// head in the value and output projections. The status is kUnknown, with a
// reason, in these cases: a fused or latent projection, another attention
// matrix of unknown role, or a projection whose dimension of heads cannot be
// found.
std::vector<ComparedProjection> CompareProjections(
    const Facts& facts, const Heads& sizes, int64_t value_dim,
    std::span<const HeadAxes> axes);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_PROJECTIONS_H_
