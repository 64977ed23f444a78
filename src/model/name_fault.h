// Checks names of parameters, for manifests of all formats.
#ifndef SHARDC_MODEL_NAME_FAULT_H_
#define SHARDC_MODEL_NAME_FAULT_H_

#include <string>
#include <string_view>

namespace shardc {

// Returns why the UTF-8 text cannot be a parameter's name, as a message: it
// contains a NUL, at which C code would truncate it, or another control
// character (U+0001 to U+001F, U+007F to U+009F), which no pattern and no
// terminal shows. Returns an empty text if it can be one. Whether a name may be
// empty differs between formats: that of safetensors allows it.
std::string ParameterNameFault(std::string_view name);

}  // namespace shardc

#endif  // SHARDC_MODEL_NAME_FAULT_H_
