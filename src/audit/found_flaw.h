// A flaw as the search finds it, and the function that writes its message.
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
  const Traffic* most = nullptr;  // the operand that sends most
  // The runs, and the bytes that a device sends, summed over these flaws.
  int64_t times = 0, sent = 0;
  std::string detail;  // its meaning depends on the code
};

// Returns the flaw with its message and its help. `graph` is the graph of the
// program in which the flaw was found.
Flaw Worded(const FoundFlaw& found, const Graph& graph);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_FOUND_FLAW_H_
