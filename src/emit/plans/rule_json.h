// Rules and specs as rules files write them, in JSON.
#ifndef SHARDC_EMIT_PLANS_RULE_JSON_H_
#define SHARDC_EMIT_PLANS_RULE_JSON_H_

#include "model/rules.h"
#include "source/json_writer.h"

namespace shardc {

// A group of one name: as it was written, or without its brackets.
enum class SpecForm : uint8_t { kAsWritten, kShortest };

// `[["FSDP", "SP"], "TP", null]`
void WriteSpecList(JsonWriter& json, const SpecList& list, SpecForm form);
// The members "match", "spec" and what else the rule sets.
void WriteRuleMembers(JsonWriter& json, const Rule& rule, SpecForm form);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_RULE_JSON_H_
