// The event parser's complaints in our words, at the place where the slip
// was made rather than where it was noticed.
#ifndef SHARDC_YAML_ERROR_H_
#define SHARDC_YAML_ERROR_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc {

struct YamlFailure {
  size_t offset = 0;                // where the parser gave up
  size_t last_end = 0;              // end of the last whole token
  std::optional<size_t> open_flow;  // innermost open `[` or `{`
  // The last quoted string that runs over several lines.
  std::optional<size_t> long_quote;
};

// `reason` is the event parser's message.
void ReportYamlError(const SourceRef& source, const std::string& reason,
                     const YamlFailure& failure, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_YAML_ERROR_H_
