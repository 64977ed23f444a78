// Suggests the full name of a dtype for the short name that other programs use.
#ifndef SHARDC_CLI_DTYPE_HELP_H_
#define SHARDC_CLI_DTYPE_HELP_H_

#include <string>
#include <string_view>

namespace shardc::cli {

// Returns "write `bfloat16`" for `bf16`. Returns an empty string for a word
// that is not a dtype's short name.
std::string DtypeHelp(std::string_view text);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_DTYPE_HELP_H_
