// Reads the logical axes that a Python file registers with eformer, and the
// mesh axes that they have.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_REGISTER_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_REGISTER_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "importers/rules/python_tree.h"
#include "importers/rules/python_value.h"
#include "model/axis_rules.h"
#include "model/rules.h"
#include "source/finding.h"

namespace shardc::imports {

using Registrations = std::vector<Registration>;

// Returns the registrations of a file, in its order. `value_of` evaluates an
// expression of the module. Returns nullopt after a finding if the file
// registers or removes a logical axis in a way that cannot be read.
std::optional<Registrations> RegistrationsOf(
    const SourceRef& source, const PyModule& module,
    const std::function<PyValue(const PyNode&)>& value_of, Findings& findings);

// Returns the place of an expression whose axis rules cannot be read: a
// subclass of PartitionAxis, whose defaults may be others, a call of `replace`
// with a field of PartitionAxis, or a conversion such as
// PartitionAxis.from_dict. Returns nullopt if the file has none.
std::optional<Place> UnreadableAxes(const SourceRef& source);

// Returns the built-in logical axis that a constant of eformer's common_types
// stands for: TP and TENSOR_PARALLEL are the same one. Returns null for other
// names.
const Token* ConstantOf(const std::string& name);

// Returns the registration that decides the meaning of a logical axis; null if
// there is none. `X` and `__X__` are the same logical axis.
const Registration* FindRegistration(const Registrations& registrations,
                                     std::string_view name);

// Returns the mesh axes of a registered logical axis: those for decode and
// insert if `generation` is true, and otherwise those for train and prefill.
// Returns nullopt if registrations refer to each other in a circle.
std::optional<AxisValue> RegisteredAxes(const Registrations& registrations,
                                        const AxisRules& axes,
                                        const Registration& registration,
                                        bool generation);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_REGISTER_H_
