// A flaw of a program as it was found, and its finding in words.
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
  int64_t times = 0, sent = 0;    // of all these flaws; bytes per device
  std::string detail;             // its meaning depends on the code
};

// Returns the flaw with its message and its help. `graph` is that of the
// program in which it was found.
Flaw Worded(const FoundFlaw& found, const Graph& graph);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_FOUND_FLAW_H_
