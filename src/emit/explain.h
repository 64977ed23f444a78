// The whole story of one parameter: rules tried, names resolved, legality,
// bytes, mode by mode.
#ifndef SHARDC_EMIT_EXPLAIN_H_
#define SHARDC_EMIT_EXPLAIN_H_

#include <cstddef>
#include <string>

#include "plan/compile.h"

namespace shardc {

// `param` is an index into the plan's parameters.
std::string ExplainText(const Compiled& compiled, size_t param);
std::string ExplainJson(const Compiled& compiled, size_t param);

}  // namespace shardc

#endif  // SHARDC_EMIT_EXPLAIN_H_
