// Finds a parameter by its name, written with the separator `/` or `.`.
#ifndef SHARDC_CLI_FIND_PARAM_H_
#define SHARDC_CLI_FIND_PARAM_H_

#include <cstddef>
#include <optional>
#include <string>

#include "source/finding.h"
#include "source/texts.h"

namespace shardc::cli {

// Returns the index of a parameter. The name may be written with the other
// separator: model/layers/0 finds model.layers.0. If `separator` is 0, names
// have no separator. Returns nullopt after a finding if there is no such name.
std::optional<size_t> FindParam(Texts names, char separator,
                                const std::string& name, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_FIND_PARAM_H_
