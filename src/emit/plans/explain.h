// The whole story of one parameter: rules tried, names resolved, legality,
// bytes, mode by mode.
#ifndef SHARDC_EMIT_PLANS_EXPLAIN_H_
#define SHARDC_EMIT_PLANS_EXPLAIN_H_

#include <cstddef>
#include <string>

#include "plan/compile.h"
#include "source/sink.h"

namespace shardc {

// `param` is an index into the plan's parameters.
std::string ExplainText(const Compiled& compiled, size_t param);
void WriteExplainJson(const Compiled& compiled, size_t param, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_EXPLAIN_H_
