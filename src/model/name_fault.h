// Checks names of parameters, for manifests of all formats.
#ifndef SHARDC_MODEL_NAME_FAULT_H_
#define SHARDC_MODEL_NAME_FAULT_H_

#include <string>
#include <string_view>

namespace shardc {

// Returns a message if the UTF-8 text cannot be a parameter's name, else an
// empty text. A name cannot contain a NUL, because C code would truncate it
// there. Nor can it contain another control character (U+0001 to U+001F, U+007F
// to U+009F), because patterns and terminals do not show it. An empty name is
// accepted, as in safetensors; formats that forbid it check for it themselves.
std::string ParameterNameFault(std::string_view name);

}  // namespace shardc

#endif  // SHARDC_MODEL_NAME_FAULT_H_
