// Finds words for what each head has one of. If a head has as many columns as
// there are heads, a size does not show which of the two it is, and such a word
// decides:
//
//   64 heads of 64, gate.weight [64, 4096]      ->  a row for each head
//   64 heads of 64, rescale.weight [64, 4096]   ->  not known
#include "roles/headwise.h"

#include <algorithm>
#include <array>
#include <string>

#include "model/name.h"
#include "source/utf8.h"

namespace shardc {

bool NamesHeads(std::string_view name, char separator) {
  constexpr std::array<std::string_view, 5> kWords = {"gate", "sink", "slope",
                                                      "alibi", "head"};
  return std::ranges::any_of(
      SplitName(name, separator), [&](std::string_view part) {
        const std::string small = LowerCase(part);
        return std::ranges::any_of(kWords, [&](std::string_view word) {
          return small.find(word) != std::string::npos;
        });
      });
}

}  // namespace shardc
