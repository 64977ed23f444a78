// Rewrites a program's collectives into the form in which a step program counts
// them. The rewrites hide no difference, because compiler passes after
// partitioning, or other back ends, make each of them too (docs/compiler.md).
#ifndef SHARDC_AUDIT_EQUIVALENT_H_
#define SHARDC_AUDIT_EQUIVALENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/audit.h"
#include "model/spec.h"

namespace shardc::audit {

// `sliced`    an all_reduce of which each device uses only its slice becomes a
//             reduce_scatter;
// `deferred`  a partial value is reduced after the linear operations that use
// it
//             and not before them;
// `joined`    all_reduces of one value over several axes become one; `again`
// a value that is gathered twice is gathered once; `top_k`     a gather whose
// result is only sorted is left out.
enum class Rewrite : uint8_t { kSliced, kDeferred, kJoined, kAgain, kTopK };
inline constexpr std::string_view kRewriteNames[] = {
    "sliced", "deferred", "joined", "again", "top_k"};

// A collective after the rewrites, with its devices and its sizes.
struct Sending {
  Collective kind = Collective::kAllGather;
  bool named = false;  // whether mesh axes describe its groups of devices
  AxisGroup axes;      // in the mesh's order
  int64_t members = 1, edges = 0;
  int64_t elements = 0, bits = 0;  // size of a member's operand
  bool integral = false;
  int64_t times = 1;
  uint8_t rewrites = 0;           // one bit for each Rewrite
  const Traffic* from = nullptr;  // its entry in the report; never null

  bool Has(Rewrite one) const {
    return (rewrites >> static_cast<int>(one) & 1) != 0;
  }
  // Returns the bytes that the busiest device sends in one run with elements of
  // this many bits; INT64_MAX if the bytes overflow.
  int64_t Sent(int64_t element_bits) const;
};

// Returns the collectives after the rewrites. `report` is the audit of the
// program and must have a mesh; the result points into the report. Returns
// nullopt after a finding if the program's calls cannot be read.
std::optional<std::vector<Sending>> EquivalentOf(const hlo::Program& program,
                                                 const Report& report,
                                                 Findings& findings);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_EQUIVALENT_H_
