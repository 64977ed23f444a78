// A unified diff, as `patch` reads it.
#ifndef SHARDC_EMIT_FINDINGS_DIFF_H_
#define SHARDC_EMIT_FINDINGS_DIFF_H_

#include <string>

namespace shardc {

// Returns the unified diff with three lines of context; empty if the texts are
// equal.
std::string DiffText(const std::string& name, const std::string& before,
                     const std::string& after);

}  // namespace shardc

#endif  // SHARDC_EMIT_FINDINGS_DIFF_H_
