// Computes a plan's totals, and its fingerprint: a digest of the mesh, the
// shapes, the specs and the other members that decide how the model is sharded.
#ifndef SHARDC_PLAN_FINGERPRINT_H_
#define SHARDC_PLAN_FINGERPRINT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "source/sink.h"
#include "source/text_order.h"

namespace shardc {

class JsonWriter;

// Returns the totals of a plan, such as its bytes. A total is nullopt if a size
// is unknown or if the sum overflows.
PlanSummary Summarize(const Plan& plan);

// Writes the members of a plan that the fingerprint covers, as canonical JSON
// (RFC 8785). These are the attention specs, the other activations if the rules
// state the spec of one, the mesh, the modes, the parameters sorted by name,
// and the pipeline's stages with a digest of their schedule. Each parameter is
// written with its dtype, shape, spec, other modes' specs, the parts of its
// dimensions, placement, stages, weight decay, and whether its shards are
// uneven.
void WriteCanonicalPlan(const Plan& plan, Sink& out);

// Returns the order of names in canonical JSON, by their UTF-16 code units, as
// indices into `names`.
std::vector<uint32_t> CanonicalOrder(Texts names);

// Returns "sha256:" and the hexadecimal digest of the canonical plan.
std::string Fingerprint(const Plan& plan);

// Writes the member "activations_stated", the names of the activations whose
// specs the rules state. Writes nothing if there are none. The plan must have
// activations.
void WriteStatedActivations(JsonWriter& json, const Plan& plan);
// Returns "sha256:" and the hexadecimal digest of the activations and of what
// the axes are for. The fingerprint does not cover what follows from the axis
// rules, so it is the same as without it; the digest shows whether it was
// edited.
std::string ActivationsDigest(const Plan& plan);

// Writes the member "placement" of a parameter that is placed, which means that
// only the devices at one coordinate of a mesh axis hold it. Writes nothing for
// other parameters.
void WritePlacement(JsonWriter& json, const Plan& plan,
                    const PlannedParam& param);

// Returns whether a parameter has a member that the other parameters of its
// layout do not share: a placement, stages or weight decay.
bool HasOwnMembers(const Plan& plan, size_t param);

// Returns the planned modes whose spec differs from the train spec, in the
// layout's order.
std::vector<const ModeLayout*> DifferingModes(const Plan& plan,
                                              const ParamLayout& layout);

}  // namespace shardc

#endif  // SHARDC_PLAN_FINGERPRINT_H_
