// Compares what a program sends with an earlier audit, so that a change which
// adds traffic is detected where it is made.
#ifndef SHARDC_AUDIT_GROWTH_H_
#define SHARDC_AUDIT_GROWTH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "audit/audit.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::audit {

// A kind of collective and the devices that take part: "all_gather", "fsdp".
// Bytes by these are equal for recompilations, compiler versions, and before
// and after collectives are combined; numbers of collectives are not.
using Route = std::pair<std::string, std::string>;

// The schema of a committed summary of an audit.
inline constexpr std::string_view kLockSchema = "shardc.audit-lock/v1";

// What a program sends by route; of each route, by what is moved and where.
struct Sent {
  struct Cause {
    std::string what;      // "layers/gate", "activation"
    std::string shape;     // "f32[64,64]"
    std::string function;  // of the source line; empty if it is not known
    auto operator<=>(const Cause&) const = default;
  };
  std::map<Route, std::map<Cause, int64_t>> bytes;
  int64_t devices = 1;
};

// The route of one collective; groups that are no axes have their size.
Route RouteOf(const Traffic& one);
Sent SentOf(const Report& report);
// Reads what WriteAuditJson or WriteAuditLock (emit/audits) wrote. Returns
// nullopt after a finding (schema, number) if it is neither, or if the sums do
// not fit.
std::optional<Sent> ReadSent(const JsonDocument& document, Findings& findings);

// A route over which a program sends more than before.
struct Growth {
  Route route;
  int64_t before = 0, after = 0;  // bytes that the busiest device sends
  Sent::Cause cause;              // what grew most
};

// A route counts as grown if it sends more than before by over 1 % and 4 KiB
// together, because compilers add and remove collectives of a few numbers, or
// if it sends anything and sent nothing before. The largest growth comes first.
std::vector<Growth> GrowthOf(const Sent& before, const Sent& after);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_GROWTH_H_
