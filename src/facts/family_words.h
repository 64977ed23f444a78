// Finds roles by words that only one or two families of models use.
#ifndef SHARDC_FACTS_FAMILY_WORDS_H_
#define SHARDC_FACTS_FAMILY_WORDS_H_

#include <string_view>

#include "roles/classify.h"

namespace shardc::facts {

// Sets the role of a parameter whose name has a word that only a few families
// use, and whether it belongs to experts. `role` is the role by other words,
// and `rank` the number of dimensions of the stored parameter.
void UseFamilyWord(std::string_view name, char separator, int rank,
                   ParameterRole& role);

}  // namespace shardc::facts

#endif  // SHARDC_FACTS_FAMILY_WORDS_H_
