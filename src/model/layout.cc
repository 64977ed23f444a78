#include "model/layout.h"

namespace shardc {

std::string_view LayoutName(Layout layout) {
  return kLayoutNames[static_cast<size_t>(layout)];
}

std::optional<Layout> ParseLayout(std::string_view text) {
  for (Layout layout : kAllLayouts) {
    if (text == LayoutName(layout)) return layout;
  }
  return std::nullopt;
}

}  // namespace shardc
