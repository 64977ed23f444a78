// Writes the facts about the parameters of a target and the axes of its mesh,
// each with its evidence, for `shardc explain`.
#ifndef SHARDC_EMIT_PLANS_EXPLAIN_FACTS_H_
#define SHARDC_EMIT_PLANS_EXPLAIN_FACTS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "plan/compile.h"
#include "source/sink.h"

namespace shardc {

class JsonWriter;

// The format of the JSON (schemas/facts.schema.json).
inline constexpr std::string_view kFactsFormat = "shardc.facts/v1";

// Returns lines on what one parameter does, what its dimensions count, and with
// which parameters it is split.
std::string ParameterFactsText(const Compiled& compiled, size_t param);
// Writes the members of an object with the same facts.
void WriteParameterFacts(JsonWriter& json, const Compiled& compiled,
                         size_t param);

// Returns what one axis of the mesh is for, and what it shards.
std::string AxisFactsText(const Compiled& compiled, size_t axis);

// Returns the facts about all groups of parameters and all axes.
std::string AllFactsText(const Compiled& compiled);

// Writes all facts as JSON; only those about one axis if `axis` is given.
void WriteFactsJson(const Compiled& compiled, Sink& out,
                    std::optional<size_t> axis = std::nullopt);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_EXPLAIN_FACTS_H_
