// Defines a flaw of a compiled program before its message is written, and the
// function that writes the message.
#ifndef SHARDC_AUDIT_FOUND_FLAW_H_
#define SHARDC_AUDIT_FOUND_FLAW_H_

#include <cstdint>
#include <string>

#include "audit/audit.h"
#include "audit/flaws.h"

namespace shardc::audit {

// Flaws with the same code, line and parameter.
struct FoundFlaw {
  const Code* code = nullptr;
  Level level = Level::kWarning;
  // Of the operands with this flaw, the one for which the most bytes are sent.
  // Null if the flaw is an unused axis.
  const Traffic* most = nullptr;
  // The runs of the collectives, and the bytes that a device sends, summed over
  // the flaws with this code, line and parameter.
  int64_t times = 0, sent = 0;
  // A text for the message, which depends on `code`: for example the unused
  // axis, the gradient's parameter, or the dtype before a cast.
  std::string detail;
};

// Returns the flaw with its message and its help. `graph` is the graph of the
// program in which the flaw was found.
Flaw Worded(const FoundFlaw& found, const Graph& graph);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_FOUND_FLAW_H_
