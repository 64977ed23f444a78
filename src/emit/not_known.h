// Writes the facts that a report lacks, with what settles each of them.
#ifndef SHARDC_EMIT_NOT_KNOWN_H_
#define SHARDC_EMIT_NOT_KNOWN_H_

#include <span>
#include <string>

#include "model/not_known.h"
#include "source/json_writer.h"

namespace shardc {

// Returns one line "not known: ..." for each fact; empty without facts.
std::string NotKnownLines(std::span<const NotKnown> facts);

// Writes the members `not_known`, a list of {"what", "params", "bytes",
// "settled_by"}, and `at_least`, which is true if any fact is missing. The
// totals of the object are then lower bounds, and it has no verdict.
void WriteNotKnown(JsonWriter& json, std::span<const NotKnown> facts);

}  // namespace shardc

#endif  // SHARDC_EMIT_NOT_KNOWN_H_
