// Writes the values of a plan as Python literals.
#ifndef SHARDC_EMIT_EXPORTS_PYTHON_H_
#define SHARDC_EMIT_EXPORTS_PYTHON_H_

#include <string>
#include <string_view>

#include "model/mesh.h"
#include "model/spec.h"

namespace shardc::exports {

// Returns a Python string literal. It is the JSON string, which is valid
// Python.
std::string PythonString(std::string_view text);
// Returns `P(("fsdp", "sp"), None, "tp")`.
std::string PartitionSpecText(const Spec& spec);
// Returns `{"dp": 2, "tp": 4}`.
std::string AxesText(const Mesh& mesh);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_PYTHON_H_
