// Reads the settings of rotary embeddings from a config.json.
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

// Returns the settings; nullopt if the config has no rotary base and no
// scaling, or after a finding about a base that is not above 1. A scaling that
// does not state the length of the original model has `positions`, the largest
// number of positions.
std::optional<RopeConfig> ReadRope(ConfigFields& fields,
                                   std::optional<int64_t> positions,
                                   Findings& findings);

// Adds a finding about a value of the wrong type; null counts as absent.
// `wanted` is for example "a string".
void RefuseType(std::string_view key, const JsonValue& value,
                std::string_view wanted, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_ROPE_CONFIG_H_
