#include "stored/tree.h"

#include <vector>

namespace shardc::stored {

#define SHARDC_STORED_FORMAT(name) extern const Format name;
#include "stored/table.h"
#undef SHARDC_STORED_FORMAT

std::span<const Format* const> Formats() {
  static const std::vector<const Format*> kFormats = {
#define SHARDC_STORED_FORMAT(name) &name,
#include "stored/table.h"
#undef SHARDC_STORED_FORMAT
  };
  return kFormats;
}

}  // namespace shardc::stored
