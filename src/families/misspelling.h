// Finds the model type that a misspelled one stands for.
#ifndef SHARDC_FAMILIES_MISSPELLING_H_
#define SHARDC_FAMILIES_MISSPELLING_H_

#include <optional>
#include <span>
#include <string_view>

namespace shardc::families {

// Returns the first type that differs from `word` only in case, in characters
// other than letters and digits, or by a typing error in one word: a doubled or
// missing double letter, a swap of neighbours or, in words of at least six
// letters, any single edit. Returns nullopt if there is none, or if `word` has
// more than 256 bytes. Types with other digits or further words are other
// models: `nemotron_h` is not `nemotron`, nor `qwen3_5` `qwen3`.
std::optional<std::string_view> FindMisspelled(
    std::string_view word, std::span<const std::string_view> types);

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_MISSPELLING_H_
