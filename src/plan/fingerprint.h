// A plan's totals and the digest of its meaning.
#ifndef SHARDC_PLAN_FINGERPRINT_H_
#define SHARDC_PLAN_FINGERPRINT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "source/sink.h"

namespace shardc {

class JsonWriter;

// Totals are nothing if a size is unknown or the sum overflows.
PlanSummary Summarize(const Plan& plan);

// The plan's meaning as canonical JSON (RFC 8785): attention specs, mesh,
// modes, stages with their schedule's table, and, by name, each parameter's
// dtype, shape, spec, other modes' specs, placement, stages and weight decay.
void WriteCanonicalPlan(const Plan& plan, Sink& out);

// The order of names in canonical JSON, by their UTF-16 code units: indices
// into `names`.
std::vector<uint32_t> CanonicalOrder(std::span<const std::string_view> names);

// "sha256:" and the hex digest of the canonical plan.
std::string Fingerprint(const Plan& plan);

// The member "placement" of a parameter that has one.
void WritePlacement(JsonWriter& json, const Plan& plan,
                    const PlannedParam& param);

// The modes whose spec differs from train's, in canonical order.
std::vector<const ModeLayout*> DifferingModes(const Plan& plan,
                                              const ParamLayout& layout);

}  // namespace shardc

#endif  // SHARDC_PLAN_FINGERPRINT_H_
