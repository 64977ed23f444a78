// The keys of training and serving systems (src/systems) for a plan.
#ifndef SHARDC_EMIT_EXPORTS_SYSTEM_KEYS_H_
#define SHARDC_EMIT_EXPORTS_SYSTEM_KEYS_H_

#include <optional>
#include <string_view>

#include "model/project.h"
#include "model/rules.h"
#include "plan/read.h"
#include "source/finding.h"
#include "source/sink.h"
#include "systems/plan_keys.h"

namespace shardc::exports {

struct Request;

// Returns what a plan states in one mode, in the terms of systems.
systems::PlanFacts FactsOfPlan(const ReadPlan& plan, Mode mode,
                               const std::optional<ModelConfig>& model);

// Writes the keys of a system, or adds findings (inexpressible).
void WriteKeysOf(std::string_view system, const Request& request, Sink& out,
                 Findings& findings);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_SYSTEM_KEYS_H_
