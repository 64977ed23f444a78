// Compares the bytes that a program sends with an earlier audit, so that a
// change which adds traffic is reported.
#ifndef SHARDC_AUDIT_GROWTH_H_
#define SHARDC_AUDIT_GROWTH_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "audit/audit.h"
#include "model/project.h"
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

// The bytes to which the limits of a budget apply. This object does not refer
// to the program and may outlive it.
struct Sums {
  struct Part {
    int64_t bytes = 0;
    std::string most;  // largest sender: "up f32[32,64] at model.py:28"
  };
  std::map<TrafficRoute, Part> routes;
  Part total, activations_gathered;
  std::set<std::string> axes;  // mesh axes of size 2 or more
};
Sums SumsOf(const Report& report);

// Returns the names of all collectives, such as all_gather. A budget may have a
// limit for each of them.
std::vector<std::string_view> LimitedCollectives();

struct Excess {
  const AuditLimit* limit = nullptr;  // never null
  int64_t sent = 0;                   // bytes that the busiest device sends
  std::string most;
};

// Returns the names of the axes in a text such as "dp + fsdp" or "dp+fsdp".
std::vector<std::string> AxesIn(std::string_view over);

// Returns the limits that are exceeded, in the order of `limits`. A limit with
// axes applies to collectives over exactly these axes, in any order. Axes of
// size 1 are ignored. A limit without axes applies to the sum over all sets of
// axes.
std::vector<Excess> OverBudget(std::span<const AuditLimit> limits,
                               const Sums& sums);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_GROWTH_H_
