// Reads the settings of rotary embeddings (RoPE) from a config.json.
#ifndef SHARDC_PARSE_ROPE_CONFIG_H_
#define SHARDC_PARSE_ROPE_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/project.h"
#include "parse/config_fields.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Returns the settings of rotary embeddings. Returns nullopt if the config has
// no rotary base and no scaling, or after a finding about a base that is not
// above 1. `positions` is the model's largest number of positions. It is used
// if a scaling does not state `original_max_position_embeddings`.
std::optional<RopeConfig> ReadRope(ConfigFields& fields,
                                   std::optional<int64_t> positions,
                                   Findings& findings);

// Adds a finding that a value has the wrong type. A null value is treated as
// absent. `wanted` describes the right type, such as "a string".
void RefuseType(std::string_view key, const JsonValue& value,
                std::string_view wanted, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_ROPE_CONFIG_H_
