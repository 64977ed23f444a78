// Finds characters that no reader of manifests accepts in a name. "a\x7f" is
// refused for its control character; "a b" and "größe" are accepted.
#include "model/name_fault.h"

#include "source/wording.h"

namespace shardc {

std::string ParameterNameFault(std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    const auto next =
        static_cast<unsigned char>(i + 1 < name.size() ? name[i + 1] : 0);
    const bool c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;
    if (byte >= 0x20 && byte != 0x7f && !c1) continue;
    return "the name " + ShortQuote(name) +
           (byte == 0 ? " holds a NUL" : " holds a control character");
  }
  return {};
}

}  // namespace shardc
