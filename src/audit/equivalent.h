// Rewrites a program's collectives, so that they can be counted like those of a
// step program. The rewrites are those that compiler passes after partitioning,
// or other back ends, make as well. They therefore hide no real difference
// between a program and a plan (docs/compiler.md).
#ifndef SHARDC_AUDIT_EQUIVALENT_H_
#define SHARDC_AUDIT_EQUIVALENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/audit.h"
#include "model/mesh.h"

namespace shardc::audit {

// The rewrites of collectives:
//
//   kSliced    an all_reduce becomes a reduce_scatter, because each device uses
//              only its slice of the result
//   kDeferred  a partial value is reduced after linear operations that use it
//   kJoined    all_reduces of one value over several axes become one all_reduce
//   kAgain     a value that is gathered twice is counted as gathered once
//   kTopK      a gather whose result is only sorted is not counted
enum class Rewrite : uint8_t { kSliced, kDeferred, kJoined, kAgain, kTopK };
inline constexpr std::string_view kRewriteNames[] = {
    "sliced", "deferred", "joined", "again", "top_k"};

// A collective after the rewrites, with its devices and its sizes.
struct Sending {
  Collective kind = Collective::kAllGather;
  bool named = false;  // whether mesh axes describe its groups of devices
  AxisGroup axes;      // in the mesh's order
  int64_t members = 1, edges = 0;
  // The number of elements of the operand on one device, and the bits of an
  // element.
  int64_t elements = 0, bits = 0;
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
