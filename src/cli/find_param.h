// A parameter by its name, in either separator.
#ifndef SHARDC_CLI_FIND_PARAM_H_
#define SHARDC_CLI_FIND_PARAM_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc::cli {

// model/layers/0 for model.layers.0; else a finding with the nearest name. A
// separator of 0 stands for none.
std::optional<size_t> FindParam(std::span<const std::string_view> names,
                                char separator, const std::string& name,
                                Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_FIND_PARAM_H_
