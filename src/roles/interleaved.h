// How a matrix with several parts stores them: one after the other, such as all
// queries before all keys, or interleaved, such as the query, key and value of
// each head. One range of an interleaved matrix has its share of each part.
#ifndef SHARDC_ROLES_INTERLEAVED_H_
#define SHARDC_ROLES_INTERLEAVED_H_

#include <string_view>

#include "roles/role.h"

namespace shardc {

// Returns whether the model family interleaves the parts of the matrix of this
// name and role. `family` is the `model_type` of its configuration; empty if it
// is unknown.
bool InterleavesParts(std::string_view family, Role role, std::string_view name,
                      char separator);
// Returns whether some family interleaves the parts of a matrix whose name does
// not show it.
bool MayInterleaveParts(std::string_view name, char separator);

}  // namespace shardc

#endif  // SHARDC_ROLES_INTERLEAVED_H_
