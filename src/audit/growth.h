// Compares the bytes that a program sends with an earlier audit, so that a
// change which adds traffic is reported.
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
// Bytes are compared by route because they stay the same if another compiler
// version combines collectives; the number of collectives does not.
using Route = std::pair<std::string, std::string>;

// The schema of a committed summary of an audit.
inline constexpr std::string_view kLockSchema = "shardc.audit-lock/v1";

// The bytes that a program sends by route, and for each route by the tensor and
// the function of the source line.
struct Sent {
  struct Cause {
    std::string what;      // "layers/gate", "activation"
    std::string shape;     // "f32[64,64]"
    std::string function;  // function of the source line; may be empty
    auto operator<=>(const Cause&) const = default;
  };
  std::map<Route, std::map<Cause, int64_t>> bytes;
  int64_t devices = 1;
  // The mesh, whose axes name the groups of devices: "dp=2 tp=4", without axes
  // of size 1. Empty if the audit had no mesh; nullopt if the document does not
  // state it, as a committed summary does not.
  std::optional<std::string> mesh;
};

// Returns the bytes of all causes together.
int64_t SumOf(const std::map<Sent::Cause, int64_t>& causes);
// Returns the route of a collective. A group of devices that is not named by
// axes is named by its size.
Route RouteOf(const Traffic& one);
Sent SentOf(const Report& report);
// Reads a document that WriteAuditJson or WriteAuditLock (emit/audits) wrote.
// Returns nullopt after a finding (schema, number) if it has another schema or
// is malformed, or if a sum overflows.
std::optional<Sent> ReadSent(const JsonDocument& document, Findings& findings);

// A route over which a program sends more than before.
struct Growth {
  Route route;
  int64_t before = 0, after = 0;  // bytes that the busiest device sends
  Sent::Cause cause;              // the tensor that grew most
};

// Returns the routes that grew, the largest growth first. A route has grown if
// it sends more than before by over 1 % plus 4 KiB, because compilers add and
// remove collectives of a few scalars. A route that sent nothing before has
// grown if it sends anything.
std::vector<Growth> GrowthOf(const Sent& before, const Sent& after);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_GROWTH_H_
