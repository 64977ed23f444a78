// The dimension orders of attention's query, key, value and output tensors.
#ifndef SHARDC_MODEL_LAYOUT_H_
#define SHARDC_MODEL_LAYOUT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardc {

enum class Layout : uint8_t {
  kBthd,  // [batch, length, heads, dim]
  kBhtd,  // [batch, heads, length, dim]
  // [tokens of all sequences, heads, dim], with the cumulative lengths of the
  // sequences. eformer does not have this order. The token dimension is sharded
  // like the batch dimension.
  kThd,
};

inline constexpr std::array<Layout, 3> kAllLayouts = {
    Layout::kBthd, Layout::kBhtd, Layout::kThd};
// The names of the dimension orders, in the order of the enumeration.
inline constexpr std::array<std::string_view, 3> kLayoutNames = {"bthd", "bhtd",
                                                                 "thd"};

std::string_view LayoutName(Layout layout);
std::optional<Layout> ParseLayout(std::string_view text);

}  // namespace shardc

#endif  // SHARDC_MODEL_LAYOUT_H_
