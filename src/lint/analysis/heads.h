// Reads the number and the size of the attention heads from the model's
// configuration.
#ifndef SHARDC_LINT_ANALYSIS_HEADS_H_
#define SHARDC_LINT_ANALYSIS_HEADS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "model/project.h"
#include "roles/described.h"

namespace shardc {

class LayerHeads {
 public:
  // `head_dim` is the size of a head in the configuration.
  LayerHeads(const Facts& facts, int64_t head_dim);

  // Returns the indices of the group's parameters in the plan, keyed by the
  // size of the heads of their layer. The group is one of a projection of
  // attention.
  std::map<int64_t, std::vector<uint32_t>> BySize(
      const ParameterGroup& group) const;

 private:
  const Facts& facts_;
  int64_t head_dim_ = 0;
  // The size of a head, keyed by the path of the attention block with its last
  // separator, such as `layers.3.self_attn.`. Blocks whose heads have the
  // configuration's size are omitted.
  std::map<std::string, int64_t, std::less<>> of_block_;
};

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

#endif  // SHARDC_LINT_ANALYSIS_HEADS_H_
