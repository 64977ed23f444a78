// Whether a system would run a plan, and what it would do with it.
#ifndef SHARDC_CLI_RUNTIME_VERDICT_H_
#define SHARDC_CLI_RUNTIME_VERDICT_H_

#include <optional>
#include <string>
#include <vector>

#include "lint/run.h"
#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns the systems of `--runtime`, or else those of the target's `runtime`.
std::vector<std::string> RuntimesOf(const Target& target,
                                    const std::vector<std::string>& flags);

// Returns what the system refuses of the plan (config-refused), and what it
// does in another way without a word (config-silent), with the keys that state
// the plan. Adds an error if there is no such system.
std::vector<Finding> RuntimeVerdict(const std::string& system,
                                    const Target& target,
                                    const Compiled& compiled,
                                    const std::optional<ModelConfig>& model,
                                    Findings& errors);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_RUNTIME_VERDICT_H_
