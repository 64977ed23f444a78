// Directory: facts. What the parameters of a target and the axes of its mesh
// are, each statement with its evidence.
// Its files include headers of these directories: source, model, program,
// resolve, roles, step.
//
// This file holds what the axes of a mesh are for. Two questions matter. How
// does a device use the weights that an axis shards: does it compute with its
// shard (tensor parallelism), or are the shards gathered before use (FSDP)? And
// which tokens does it have: are rows of the batch or positions of the sequence
// sharded over the axis? Lints need the first answer, figures need the second.
//
// The first answer follows from statements of the rules, then from the specs of
// projections that belong together, and only then from the name of the axis:
//
//   q, k, v, gate and up split their outputs over `x`, o and down their inputs
//     ->  each device computes with its shard
//   q, k, v, gate and up split their inputs over `y`, o and down their outputs
//     ->  both sides are the residual stream: shards are gathered before use
//
// The second answer does not follow from the specs of parameters.
#ifndef SHARDC_FACTS_AXES_H_
#define SHARDC_FACTS_AXES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/axis_rules.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "roles/role.h"

namespace shardc {

// What devices do with the weights that an axis shards.
enum class AxisUse : uint8_t {
  kNotKnown,
  kKept,      // each device computes with its shard, as with tensor parallelism
  kGathered,  // the shards are gathered before use, as with FSDP
  kExperts,   // each device has some of the experts
  kLayers,    // each device has some of the layers
  kUnused,    // no spec has the axis, or its size is 1
};

// Which tokens the devices along an axis have.
enum class AxisTokens : uint8_t {
  kNotKnown,
  kBatch,     // different rows of the batch
  kSequence,  // different positions of a sequence
  kSame,      // the same tokens
};

// The evidence of a statement, the strongest first.
enum class AxisEvidence : uint8_t {
  kStated,      // `axes:`, a logical axis in a spec, `stages:` or size 1
  kSpecs,       // the specs of parameters that belong together
  kConvention,  // a default name of the axis rules: dp, fsdp, tp, sp or ep
  kName,        // another name that published systems use
  kNone,
};

// Returns what these mean, for people: "each device computes with its shard of
// the weights", "different rows of the batch", "by its name".
std::string_view AxisUseText(AxisUse use);
std::string_view AxisTokensText(AxisTokens tokens);
std::string_view AxisEvidenceText(AxisEvidence evidence);
// Returns the words of output, such as `kept`, `batch` and `name`; `not_known`
// and `none` for what is not known.
std::string_view AxisUseWord(AxisUse use);
std::string_view AxisTokensWord(AxisTokens tokens);
std::string_view AxisEvidenceWord(AxisEvidence evidence);
// Return the value of such a word; nullopt for another text.
std::optional<AxisUse> ParseAxisUse(std::string_view word);
std::optional<AxisTokens> ParseAxisTokens(std::string_view word);
std::optional<AxisEvidence> ParseAxisEvidence(std::string_view word);

struct AxisFacts {
  std::string axis;
  AxisUse use = AxisUse::kNotKnown;
  AxisEvidence use_evidence = AxisEvidence::kNone;
  AxisTokens tokens = AxisTokens::kNotKnown;
  AxisEvidence tokens_evidence = AxisEvidence::kNone;
  // Whether the spec of a parameter has the axis, and whether it shards a
  // dimension that counts experts.
  bool in_specs = false, experts = false;
  // What the specs show and what the name means, if these differ. `use` is then
  // kNotKnown.
  struct Denial {
    AxisUse specs = AxisUse::kNotKnown;
    AxisUse name = AxisUse::kNotKnown;
    bool operator==(const Denial&) const = default;
  };
  std::optional<Denial> denial;
  // The rules of two parameter groups that show `use`, or `denial`, by their
  // specs: one that splits its output and one that splits its input. Both are
  // -1 if the specs do not show it.
  int32_t out_rule = -1, in_rule = -1;

  bool operator==(const AxisFacts&) const = default;
};

// What the published names of axes mean, in lower case. `rule` is the kind of
// parallelism, or nullopt for pipeline stages.
struct AxisName {
  std::string_view name;
  std::optional<AxisRule> rule;
};
std::span<const AxisName> PublishedAxisNames();
// Returns the row of a name, of which case is ignored, or null.
const AxisName* FindAxisName(std::string_view name);

// A parameter group as evidence of what axes are for.
struct ShardedGroup {
  std::string block = {};  // a text that the projections of a block share
  Role role = Role::kOther;
  // Whether the group has projections of the model, and not of an adapter, a
  // quantised weight's scale, a router or an unknown module.
  bool projects = false;
  bool norm = false;         // the scale of a norm of the residual stream
  bool output_bias = false;  // a bias of a projection to the residual stream
  bool column_bias = false;  // a bias of a projection from the residual stream
  // The spec as the rules write it, before it is legalized, with an entry for
  // each dimension, and the shape.
  const Spec* spec = nullptr;
  const Shape* shape = nullptr;
  // The dimensions of the matrix; -1 if unknown. The other dimensions are in
  // `layers` if they count layers, and in `experts` if they count experts.
  int in = -1, out = -1;
  std::vector<int> layers = {}, experts = {};
  std::string_view placed_along = {};  // the axis of a placement, or empty
  // For each dimension, the axes that logical axes in the spec name, with the
  // kind of parallelism of the logical axis.
  std::vector<std::pair<std::string_view, AxisRule>> logical = {};
  int32_t rule = -1;
};

struct AxisInputs {
  const Mesh* mesh = nullptr;
  const AxisRules* rules = nullptr;
  std::string_view stage_axis = {};  // empty if no stages are declared
  // Whether the plan has only modes that generate tokens. Weights may then
  // stay sharded over the residual stream.
  bool generates_only = false;
  std::span<const ShardedGroup> groups = {};
};

// Returns the facts of each axis of the mesh, in its order.
std::vector<AxisFacts> FindAxisFacts(const AxisInputs& inputs);

// Returns the kind of parallelism from which the value of an axis rule follows
// by default, such as tensor_parallel for decode_kv_head; `rule` itself for a
// kind of parallelism. Returns nullopt for `batch` and for rules without one.
std::optional<AxisRule> ParallelismOf(AxisRule rule);

// Returns the axis rules completed by the facts, for figures. An axis whose
// tokens are known by its name, and that no rule states, is added to the axis
// rule of its kind of parallelism. So is an axis over which the rules state the
// tokens to be the same, if its use is known: specs alone show a use by
// convention only, as long as its tokens are unknown.
AxisRules CompletedAxes(const AxisRules& rules,
                        std::span<const AxisFacts> facts);

// Returns what was added by CompletedAxes(), for people: "`data` is taken as an
// axis of the batch by its name: write `axes: {data_parallel: [data]}` in the
// rules to state it".
std::vector<std::string> NotesOfCompleted(const AxisRules& rules,
                                          std::span<const AxisFacts> facts);

}  // namespace shardc

#endif  // SHARDC_FACTS_AXES_H_
