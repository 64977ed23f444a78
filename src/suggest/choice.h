// The spec that was chosen for each parameter group, and the reason for the
// choice.
#ifndef SHARDC_SUGGEST_CHOICE_H_
#define SHARDC_SUGGEST_CHOICE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/axis_rules.h"
#include "roles/layer_stacks.h"

namespace shardc::suggest {

struct Preferences {
  // Whether a vocabulary that tp does not divide stays replicated over tp,
  // which takes more memory but less communication.
  bool prefer_traffic = false;
  ScanAxis scan_axis = {};
  // Whether fsdp preferably divides the experts. Experts that are separate
  // tensors are divided over ep instead if the mesh has an ep axis.
  bool place_experts = false;
};

// One logical axis in a spec, as the file writes it, and the size of its mesh
// axis.
struct AxisAssignment {
  std::string axis;
  int64_t size = 1;
};

// The purpose of the mesh axis that a logical axis resolves to.
enum class AxisPurpose : uint8_t { kData, kExpert, kTensor };
AxisPurpose PurposeOf(std::string_view logical_axis);

// The axes that shard each dimension. The first axis of a dimension is the
// outermost.
using AxisSpec = std::vector<std::vector<AxisAssignment>>;

int64_t PartsOf(const std::vector<AxisAssignment>& assigned);
int64_t PartsOf(const AxisSpec& spec);
bool IsReplicated(const AxisSpec& spec);

// The reason why a spec differs from the first choice for its role.
enum class Reason : uint8_t {
  kUsual,
  kSlices,          // tp shards the width; gathered before use
  kReplicatedKeys,  // few KV heads of few bytes, replicated over tp
  kExpertsOverTp,   // tp divides the number of experts
  kNotOverTensor,   // tp shards no dimension
  kDataOnInner,     // data axes shard the dimension that tp shards
  kLessData         // at least one data axis shards no dimension
};

struct Choice {
  AxisSpec spec;           // empty if replicated
  std::string place_axis;  // logical axis that divides expert tensors; or empty
  int64_t place_count = 0;
  int64_t place_size = 1;  // size of `place_axis`
  Reason reason = Reason::kUsual;
  bool inner_sharded = false;  // tp shards the inner dimension
  bool width_slices = false;
  // Whether the file suppresses SHD214, which would report the spec although no
  // better one exists.
  bool ignore_reshard = false;

  bool replicated() const { return IsReplicated(spec); }
  int64_t Parts() const { return place_size * PartsOf(spec); }
};

struct Choices {
  std::vector<Choice> groups;  // in the order of the tree's groups
  AxisRules axes;              // the file's `axes` section
  bool heads_unsharded = false;
  bool kv_heads_unsharded = false;
  bool batch_over_experts = false;
};

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_CHOICE_H_
