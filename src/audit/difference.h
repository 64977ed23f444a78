// Compares the collectives of a compiled program with the step program of a
// plan.
#ifndef SHARDC_AUDIT_DIFFERENCE_H_
#define SHARDC_AUDIT_DIFFERENCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "audit/audit.h"
#include "audit/drift.h"
#include "audit/equivalent.h"
#include "audit/planned_step.h"

namespace shardc::audit {

// The collectives for one tensor that only the plan's step or only the program
// has.
struct Unmatched {
  Collective kind = Collective::kAllGather;
  std::string over;  // axes, as "dp+fsdp"
  Phase phase = Phase::kNone;
  int64_t count = 0, bytes = 0;
  std::string what;  // "linear q of layer 0-31", "activation f32[8,64]"
  // The program's collectives. Null if only the plan's step has the
  // collectives.
  const Traffic* from = nullptr;
  std::string reason;  // empty if unknown
};

// All collectives of one kind over the same axes, summed over the layers. The
// program's collectives have been rewritten (audit/equivalent.h). Bytes are
// computed as if floating-point elements had the step's dtype.
struct RouteCompared {
  Collective kind = Collective::kAllGather;
  std::string over;
  int64_t planned_count = 0, planned_bytes = 0;
  int64_t count = 0, bytes = 0;
  uint8_t rewrites = 0;  // one bit for each Rewrite that was made
  bool same = false;     // whether plan and program send equally many bytes
};

struct Difference {
  std::vector<RouteCompared> routes;
  std::vector<Unmatched> missing, extra;  // most bytes first
  // The number of runs of collectives that move a scalar. These collectives are
  // not compared.
  int64_t numbers = 0;
  // If the program sends floating-point elements whose size differs from the
  // size of the step's dtype, the bits of the widest of them; otherwise 0.
  int64_t other_bits = 0;
  bool empty() const { return missing.empty() && extra.empty(); }
};

// Returns the collectives that only the step program or only the compiled
// program has. `program` holds the collectives of `report` after the rewrites.
// A kind of collective over a set of axes is skipped if both send the same
// total bytes. The others are matched by size, first within the same pass.
// Collectives of single numbers, such as the loss, are not compared, because a
// step program adds several of these numbers before it reduces them.
Difference DifferenceOf(const PlannedStep& step,
                        std::span<const Sending> program, const Report& report,
                        const Drifts& drifts);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_DIFFERENCE_H_
