// Reports YAML syntax errors at their likely cause, which is often before the
// position where the parser stopped.
#ifndef SHARDC_YAML_ERROR_H_
#define SHARDC_YAML_ERROR_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc {

// The largest size of a YAML key without `?` before it.
inline constexpr size_t kLongestKeyBytes = 1024;
inline constexpr std::string_view kLongKeyMessage =
    "a key of more than 1,024 characters";
inline constexpr std::string_view kLongKeyHelp =
    "shorten it, or write `? ` before it and its `: ` on the next line";

struct YamlFailure {
  size_t offset = 0;                // where the parser stopped
  size_t last_end = 0;              // end of the last complete token
  std::optional<size_t> open_flow;  // innermost open `[` or `{`
  // The beginning of the last quoted string that extends over several lines.
  std::optional<size_t> long_quote;
};

// Adds a finding for a syntax error. `reason` is the event parser's message.
void ReportYamlError(const SourceRef& source, const std::string& reason,
                     const YamlFailure& failure, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_YAML_ERROR_H_
