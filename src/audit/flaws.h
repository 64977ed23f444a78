// Finds communication in a compiled program that its author probably did not
// intend.
#ifndef SHARDC_AUDIT_FLAWS_H_
#define SHARDC_AUDIT_FLAWS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "audit/audit.h"
#include "audit/graph.h"
#include "source/finding.h"

namespace shardc::audit {

struct Report;

// Returns the user's source line of an instruction's metadata.
using LineReader = std::function<hlo::SourceLine(std::string_view)>;

// Returns the flaws of the report's program, one for each code, source line and
// parameter. Flaws of a single collective come first, in the order of the text.
// Then follow flaws of several collectives, unused axes and transfers to the
// host. Without a mesh, the rules about mesh axes are skipped. For optimised
// programs of CPUs and GPUs, the rules about dtypes are skipped, because these
// back ends change dtypes.
std::vector<Flaw> FlawsOf(const Graph& graph, Tracer& tracer,
                          const Entry& entry, const Report& report,
                          const LineReader& line_of);

// Writes the messages of flaws (communication in a compiled program that its
// author probably did not intend).

// The detail of a flaw of an activation that a matmul made in shards.
inline constexpr std::string_view kOfMatmul = "product";

// Flaws with the same code, line and parameter.
struct FoundFlaw {
  const Code* code = nullptr;
  Level level = Level::kWarning;
  // Of the operands with this flaw, the one for which the most bytes are sent.
  // Null if the flaw is an unused axis.
  const Traffic* most = nullptr;
  // The runs of the collectives, and the bytes that a device sends, summed over
  // the flaws with this code, line and parameter.
  int64_t times = 0, sent = 0;
  // The runs by the devices of the collectives, in the order of the text.
  std::vector<std::pair<const Members*, int64_t>> over = {};
  // The phase of the collectives; kNone if it is unknown, or if they differ.
  Phase phase = Phase::kNone;
  // A text for the message, which depends on `code`: for example the unused
  // axis, or the dtype before a cast.
  std::string detail;
  // The name of the parameter that is moved, or whose gradient, new value, rows
  // or factor are moved; empty if it is not known.
  std::string parameter;
  // The line of the flaw and its metadata: those of `most`, or of the sharding
  // constraint or the use of a parameter that the collective serves.
  hlo::SourceLine line;
  std::string_view metadata;
};

// Returns the flaw with its message and its help. `graph` is the graph of the
// program in which the flaw was found.
Flaw Worded(const FoundFlaw& found, const Graph& graph);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_FLAWS_H_
