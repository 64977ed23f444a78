// The options of `cost` that describe an engine and its requests.
#ifndef SHARDC_CLI_SERVING_FLAGS_H_
#define SHARDC_CLI_SERVING_FLAGS_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "cli/cost_flags.h"
#include "cost/serving.h"

namespace shardc::cli {

struct ServingFlags {
  std::string engine, slots, input, output, format, fill;
  Strings settings;
  bool disaggregated = false;

  // Returns whether `--engine` or `--fill` is given. The other options do not
  // apply without them.
  bool Given() const { return !engine.empty() || !fill.empty(); }
};

Options OptionsOf(ServingFlags& flags);

// Returns the request of the options; nullopt after a finding. Adds a finding
// for each option of `cost` that does not apply to engines.
std::optional<cost::ServingRequest> ServingRequestOf(const ServingFlags& flags,
                                                     const CostFlags& step,
                                                     Mode mode,
                                                     Findings& findings);
// Returns ServingRequest::stored for a configuration, or an empty function.
std::function<std::optional<ServedFormat>(std::string_view module)>
StoredFormatsOf(const std::optional<ModelConfig>& model);
// Adds a finding for an option that needs `--engine` or `--fill`, and returns
// false, if neither is given.
bool CheckServingFlags(const ServingFlags& flags, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SERVING_FLAGS_H_
