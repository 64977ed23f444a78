// Writes rules and specs as JSON, in the form that rules files have.
#ifndef SHARDC_EMIT_PLANS_RULE_JSON_H_
#define SHARDC_EMIT_PLANS_RULE_JSON_H_

#include "model/rules.h"
#include "source/json_writer.h"

namespace shardc {

// How an entry with a single name is written. kAsWritten keeps the brackets
// that the rules file has, as in `["TP"]`. kShortest omits them: `"TP"`.
enum class SpecForm : uint8_t { kAsWritten, kShortest };

// Writes `[["FSDP", "SP"], "TP", null]`.
void WriteSpecList(JsonWriter& json, const SpecList& list, SpecForm form);
// Writes the members "match", "spec" and the other settings of the rule.
void WriteRuleMembers(JsonWriter& json, const Rule& rule, SpecForm form);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_RULE_JSON_H_
