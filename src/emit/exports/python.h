// Python literals for the values of a plan.
#ifndef SHARDC_EMIT_EXPORTS_PYTHON_H_
#define SHARDC_EMIT_EXPORTS_PYTHON_H_

#include <string>
#include <string_view>

#include "model/mesh.h"
#include "model/spec.h"

namespace shardc::exports {

// A Python string literal; JSON strings are valid Python strings.
std::string PythonString(std::string_view text);
// `P(("fsdp", "sp"), None, "tp")`
std::string PartitionSpecText(const Spec& spec);
// `{"dp": 2, "tp": 4}`
std::string AxesText(const Mesh& mesh);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_PYTHON_H_
