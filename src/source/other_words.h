// The words of other systems for values of options: `full` of MaxText for a
// rematerialisation policy, `adamw_8bit` of transformers for an optimizer.
#ifndef SHARDC_SOURCE_OTHER_WORDS_H_
#define SHARDC_SOURCE_OTHER_WORDS_H_

#include <span>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// Returns advice for a value that another system has and this program spells
// otherwise: "`full` of MaxText, Megatron and torchtitan is
// `nothing_saveable`". `setting` is the option without dashes, such as `remat`.
// Case, `-` and `_` do not matter. Returns an empty text for a word that the
// table lacks.
std::string HelpForOtherWord(std::string_view setting, std::string_view word);

// Returns the advice for a value that is in no table, such as an accelerator
// without a profile. Returns an empty text for most settings.
std::string HelpForUnknownWord(std::string_view setting);

// Adds the finding that a value is none of the `known` words, with the advice
// of HelpForOtherWord, or else the nearest known word. `flag` is the option, or
// the key of a file, that has the value.
void RefuseWord(Place place, std::string_view flag, const std::string& word,
                std::span<const std::string_view> known, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_SOURCE_OTHER_WORDS_H_
