// Reads the `audit` section of a target in a project file. The section sets
// limits on what a compiled program may send.
#ifndef SHARDC_PARSE_AUDIT_READ_H_
#define SHARDC_PARSE_AUDIT_READ_H_

#include <optional>
#include <span>
#include <string_view>

#include "model/audit_input.h"
#include "model/project.h"
#include "source/finding.h"

namespace shardc {

// Parses the project file of the target again and reads its `audit` section:
//
//   audit: {program: build/step.hlo.txt, locked: llama.audit.json,
//           budget: {total: 12GiB, all_gather: {tp: 0, dp+fsdp: 1GiB}}}
//
// Paths are made relative to the working directory. A path that leads out of
// the project's repository is a finding unless `allow_outside`. `collectives`
// has the names of the collectives that a budget may limit. Returns nullopt if
// the target has no `audit`, and after a finding.
std::optional<AuditInput> ReadTargetAudit(
    const Target& target, std::span<const std::string_view> collectives,
    bool allow_outside, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_AUDIT_READ_H_
