// Writes the explanation of one parameter's layout, for `shardc explain`. It
// shows the rules that were tried and, for each mode, how the names in the spec
// were resolved, how the spec was corrected, and the bytes.
#ifndef SHARDC_EMIT_PLANS_EXPLAIN_H_
#define SHARDC_EMIT_PLANS_EXPLAIN_H_

#include <cstddef>
#include <optional>
#include <string>

#include "model/mesh_layout.h"
#include "plan/compile.h"
#include "source/sink.h"

namespace shardc {

// Returns the explanation as text. `param` is an index into the plan's
// parameters. If a device is given, the part of the parameter that the device
// holds is printed too, except for a tensor with the layers of several stages.
// Modes with the same text share a heading.
std::string ExplainText(const Compiled& compiled, size_t param,
                        const std::optional<DevicePlace>& device = {});
void WriteExplainJson(const Compiled& compiled, size_t param, Sink& out,
                      const std::optional<DevicePlace>& device = {});

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_EXPLAIN_H_
