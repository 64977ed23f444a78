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

// In one mode, the axes that shard the heads of attention's query and output
// (`query`), and of its key and value (`key`).
struct HeadAxes {
  Mode mode = Mode::kTrain;
  AxisGroup query;
  AxisGroup key;
};

enum class ProjectionStatus : uint8_t { kAgrees, kDiffers, kUnknown };

// The result of comparing one parameter group in the modes that give the same
// result.
struct ComparedProjection {
  const ParameterGroup* group = nullptr;
  ProjectionStatus status = ProjectionStatus::kAgrees;
  std::vector<Mode> modes;
  std::string reason;  // begins in lower case; empty for kAgrees
  std::string help;
};

// Compares the plan's specs of all query, key, value and output projections
// with `axes`, for the planned modes in `axes`. The status is kUnknown, with
// the reason, if the dimension of heads cannot be found, for fused and latent
// projections, and for other attention matrices of unknown role. `value_dim` is
// the size of a head in the value and output projections.
std::vector<ComparedProjection> CompareProjections(
    const Facts& facts, const Heads& sizes, int64_t value_dim,
    std::span<const HeadAxes> axes);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_PROJECTIONS_H_
