// Compares the collectives of a compiled program with the step program of a
// plan.
#ifndef SHARDC_AUDIT_DIFFERENCE_H_
#define SHARDC_AUDIT_DIFFERENCE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "audit/audit.h"
#include "audit/drift.h"
#include "audit/equivalent.h"
#include "comm/collective.h"
#include "cost/traced_program.h"
#include "model/mesh.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::audit {

// A collective that the step program runs once in each of `layers` layers.
struct PlannedSend {
  Collective kind = Collective::kAllGather;
  AxisGroup axes;                 // in the mesh's order
  Phase phase = Phase::kForward;  // kNone for an op of the optimizer
  std::string part, op;           // "layer 0-31", "linear q"
  bool number = false;            // whether only a scalar is sent
  int64_t layers = 1;
  int64_t bytes = 0;  // bytes that the busiest device sends in one layer
};

struct PlannedStep {
  std::string mode;  // "train"
  Mesh mesh;
  int64_t batch = 0, length = 0;
  int64_t element_bytes = 4;
  bool keep_gathered = false;
  std::vector<PlannedSend> sends;
};

// Reads the step of a mode from a document `shardc.step/v1`. Returns nullopt
// after a finding: SHD002 (missing) if the document lacks the mode, and SHD022
// (schema) if it has another schema, or if the mode's step is not supported or
// has an invalid member.
std::optional<PlannedStep> ReadPlannedStep(const JsonDocument& document,
                                           std::string_view mode,
                                           Findings& findings);

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

// Reads members and reports at most one invalid member (SHD022). A caller may
// therefore read all members first and check refused() once.
class SavedJson {
 public:
  // Creates a reader. `how` is the help of its finding, which names the command
  // that writes the document.
  SavedJson(Findings& findings, std::string_view how)
      : findings_(findings), how_(how) {}

  bool refused() const { return refused_; }
  std::nullopt_t Refuse(const JsonValue& at, std::string message);

  // These functions return nullopt and add the finding if the value is not an
  // object, or if the member is absent or has another type. A negative number
  // is invalid.
  std::optional<int64_t> Number(const JsonValue& object, std::string_view key);
  std::optional<std::string> Text(const JsonValue& object,
                                  std::string_view key);
  std::optional<bool> Truth(const JsonValue& object, std::string_view key);

 private:
  Findings& findings_;
  std::string_view how_;
  bool refused_ = false;
};

// Compares what a compiled program sends with what the user's traced program
// needs under the same plan, by lines of the user's code.

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

#endif  // SHARDC_AUDIT_DIFFERENCE_H_
