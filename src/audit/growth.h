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

// A kind of collective and the axes or devices over which it runs:
// {"all_gather", "fsdp"}. Another compiler version may combine collectives, so
// that their number changes. The bytes of a route stay the same then, so bytes
// are compared by route.
using TrafficRoute = std::pair<std::string, std::string>;

// The schema of a committed summary of an audit.
inline constexpr std::string_view kLockSchema = "shardc.audit-lock/v1";

// The bytes that a program sends, keyed by route: a kind of collective and the
// axes over which it runs. Within a route, they are keyed by the tensor that is
// sent, and by the function of the user's source that sends it.
struct Sent {
  struct Cause {
    std::string what;   // "layers/gate", "activation"
    std::string shape;  // "f32[64,64]"
    // The function that contains the collective's source line; may be empty.
    std::string function;
    auto operator<=>(const Cause&) const = default;
  };
  std::map<TrafficRoute, std::map<Cause, int64_t>> bytes;
  int64_t devices = 1;
  // The axes of the mesh without axes of size 1: "dp=2 tp=4". Routes use these
  // names. Empty if the audit had no mesh. nullopt if the document does not
  // state the mesh, as in a committed summary.
  std::optional<std::string> mesh;
};

// Returns the sum of the bytes of all causes.
int64_t SumOf(const std::map<Sent::Cause, int64_t>& causes);
// Returns the route of a collective. If no axes describe a group of devices,
// the group is named by its size.
TrafficRoute RouteOf(const Traffic& one);
Sent SentOf(const Report& report);
// Reads a document that WriteAuditJson or WriteAuditLock (emit/audits) wrote.
// Returns nullopt after a finding: SHD022 (schema) if the document has another
// schema or is malformed, and SHD023 (number) if a sum overflows.
std::optional<Sent> ReadSent(const JsonDocument& document, Findings& findings);

// A route on which a program sends more bytes than before.
struct Growth {
  TrafficRoute route;
  int64_t before = 0, after = 0;  // bytes that the busiest device sends
  Sent::Cause cause;              // the tensor whose bytes grew most
};

// Returns the routes that grew, the largest growth first. Compilers add and
// remove collectives of a few scalars, so small growth is ignored: a route has
// grown if its bytes increase by more than 1 % plus 4 KiB. A route that sent
// nothing before has grown if it sends anything.
std::vector<Growth> GrowthOf(const Sent& before, const Sent& after);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_GROWTH_H_
