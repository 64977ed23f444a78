// Finds communication in a compiled program that its author probably did not
// intend.
#ifndef SHARDC_AUDIT_FLAWS_H_
#define SHARDC_AUDIT_FLAWS_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/audit.h"
#include "audit/graph.h"

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

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_FLAWS_H_
