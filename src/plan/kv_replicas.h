// Replicates KV heads that are fewer than the devices of their axes
// (`kv_replicate` of a rules file), as serving engines do: of n devices, device
// i has KV head i * heads / n, rounded down, which is the head that its query
// heads use. Of 8 KV heads of size 128 over tp:16, a device has one head, 128
// of 1024 columns, and each head is on two devices.
//
// The sharding is written with a factor of the axis (model/sub_axis.h), such as
// `tp:(1)8`. So everything that reads a spec computes with one head for each
// device, without knowing about KV heads.
#ifndef SHARDC_PLAN_KV_REPLICAS_H_
#define SHARDC_PLAN_KV_REPLICAS_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "legalize/legalize.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"
#include "model/spec.h"
#include "plan/compile.h"
#include "plan/plan.h"

namespace shardc::step {
struct RoleUse;
}  // namespace shardc::step

namespace shardc {

class JsonWriter;

// The dimension of a parameter that consists of KV heads.
struct KvHeadsDim {
  // The index of the dimension; -1 if the shape does not show which it is.
  int dim = -1;
  // The possible numbers of heads in ascending order. There are several if
  // layers differ and the size fits several of their numbers. Empty if it fits
  // none.
  std::vector<int64_t> heads = {};
  // Whether the parameter is a fused projection, whose dimension holds query
  // heads next to KV heads, or both keys and values.
  bool fused = false;
  auto operator<=>(const KvHeadsDim&) const = default;
};

// Sets RuleSet::kv_heads by the `model:` section and the configuration, which
// may be null, if the rules replicate KV heads.
void FindKvHeads(RuleSet& rules, const ModelConfig* model);

// Finds the KV heads of parameters: of projections to keys and values, and of
// their biases, scales, adapters and norms by head. Parameters of vision and
// audio towers next to a language model are not those of the configuration's
// heads, and are left out.
class KvHeadDims {
 public:
  // Keeps a reference to the inputs of `compiled`. Sets RuleSet::kv_heads by
  // the shapes and the `model:` section if there is no configuration.
  explicit KvHeadDims(Compiled& compiled);
  // Returns the number of the dimension of KV heads of a tensor, by which At()
  // returns it; 0 if the tensor has no KV heads. Tensors with equal dimensions
  // have the same number.
  uint32_t Of(uint32_t tensor);
  const KvHeadsDim* At(uint32_t number) const {
    return number == 0 ? nullptr : &found_[number - 1];
  }

 private:
  std::optional<KvHeadsDim> Find(uint32_t tensor) const;

  const Compiled& c_;
  const std::vector<step::RoleUse>* uses_ = nullptr;
  bool language_ = false;
  std::vector<KvHeadsDim> found_;
};

// The result of ReplicateKvHeads.
struct KvReplication {
  std::optional<KvReplicas> replicas;
  std::optional<Edit> problem;
};
// Rewrites the axes of the dimension of KV heads in `spec`, if they are more
// devices than heads. If the heads cannot be replicated over these axes, leaves
// the spec unchanged and returns a problem. `head_axes` are the axes of the
// axis rule for KV heads in the mode.
KvReplication ReplicateKvHeads(const KvHeadsDim& of, const Mesh& mesh,
                               const AxisGroup& head_axes, Spec& spec);

// Returns what is wrong in a problem with the reason kKvHeads, such as "12
// devices are no multiple of 8 KV heads".
std::string KvProblemText(const Edit& problem);
// Returns what to do about it.
std::string KvProblemHelp(const Edit& problem);

// Writes the member `kv_replicate` of a parameter in JSON, if it has replicas:
// {"dim": 1, "axes": "tp", "heads": 8}.
void WriteKvReplicas(JsonWriter& json, const std::optional<KvReplicas>& of);

// Returns the axes that shard the KV heads of attention's keys and values, for
// example `tp:(1)8` if `axes` is tp:16 and every layer has 8 KV heads. Returns
// `axes` unchanged if layers have numbers of KV heads that would be sharded
// over different axes.
AxisGroup AttentionKvAxes(const RuleSet& rules, const Mesh& mesh,
                          const AxisGroup& axes);

// Returns the refined mesh of all specs of a plan (RefinedMesh() in
// model/sub_axis.h).
std::optional<Mesh> RefinedMeshOf(const Plan& plan);

}  // namespace shardc

#endif  // SHARDC_PLAN_KV_REPLICAS_H_
