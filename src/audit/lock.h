// Compares a program's audit with the summary of an earlier audit that a
// project has committed.
#ifndef SHARDC_AUDIT_LOCK_H_
#define SHARDC_AUDIT_LOCK_H_

#include <compare>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "audit/flaw.h"
#include "audit/growth.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::audit {

// A flaw without its source line and its bytes. The remaining members stay the
// same if lines move or if the program is compiled again.
struct LockedFlaw {
  std::string code, parameter, function, axis;
  auto operator<=>(const LockedFlaw&) const = default;
};
LockedFlaw LockedOf(const Flaw& flaw);

// The summary of a program's audit: the bytes that the program sends, and its
// flaws.
struct Lock {
  Sent sent;
  // Whether the program is optimised, and not only partitioned.
  bool scheduled = false;
  std::set<LockedFlaw> flaws;

  // Returns whether the summary has the flaw. Summaries of earlier versions do
  // not state the axis, nor the parameter of SHD605. An entry of such a summary
  // matches every axis, and for SHD605 every parameter.
  bool Has(LockedFlaw flaw) const;
};
Lock LockOf(const Report& report, bool scheduled);
// Returns one line for each difference of two summaries: in the stage
// (partitioned or optimised), in the number of devices, in the findings, and in
// each route (a kind of collective over a set of axes, such as all_gather over
// fsdp). A route may differ in its bytes, or in the tensors or functions that
// send them.
std::vector<std::string> ChangesOf(const Lock& before, const Lock& now);

// Reads a summary that WriteAuditLock (emit/audits) wrote. Returns nullopt
// after a finding: SHD022 (schema) if the document is not a valid summary, and
// SHD023 (number) if the sum of its bytes overflows.
std::optional<Lock> ReadLock(const JsonDocument& document, Findings& findings);

// Returns "optimised" or "partitioned".
std::string_view StageName(bool scheduled);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_LOCK_H_
