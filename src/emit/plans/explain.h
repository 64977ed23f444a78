// The whole story of one parameter: rules tried, names resolved, legality,
// bytes, mode by mode.
#ifndef SHARDC_EMIT_PLANS_EXPLAIN_H_
#define SHARDC_EMIT_PLANS_EXPLAIN_H_

#include <cstddef>
#include <optional>
#include <string>

#include "model/mesh_layout.h"
#include "plan/compile.h"
#include "source/sink.h"

namespace shardc {

// `param` is an index into the plan's parameters; with a device also what that
// one holds. In text modes that differ in nothing are told together.
std::string ExplainText(const Compiled& compiled, size_t param,
                        const std::optional<DevicePlace>& device = {});
void WriteExplainJson(const Compiled& compiled, size_t param, Sink& out,
                      const std::optional<DevicePlace>& device = {});

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_EXPLAIN_H_
