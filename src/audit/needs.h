// Compares what a compiled program sends with what the user's traced program
// needs under the same plan, by lines of the user's code.
#ifndef SHARDC_AUDIT_NEEDS_H_
#define SHARDC_AUDIT_NEEDS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "audit/audit.h"
#include "comm/collective.h"
#include "cost/traced_program.h"
#include "model/mesh.h"

namespace shardc::audit {

// The collectives of a line that have the same kind and axes: the bytes that
// the busiest device must send by the traced program, and that it sends.
struct LineNeeds {
  std::string line;  // "model.py:41"; empty if it is unknown
  std::string ops;   // of the traced program, such as "dot, reduce sum"
  Collective kind = Collective::kAllGather;
  std::string axes;  // "dp+tp", or devices without axes
  int64_t needed = 0, sent = 0;
};

// Returns the lines, those first whose bytes differ most. A collective belongs
// to the innermost line of its stack in a file of the traced program.
std::vector<LineNeeds> CompareWithNeeds(
    const Report& report, std::span<const cost::ProgramTransfer> needs);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_NEEDS_H_
