// The matrices of a model whose names do not show what they do.
#ifndef SHARDC_ROLES_UNKNOWN_ROLES_H_
#define SHARDC_ROLES_UNKNOWN_ROLES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/manifest.h"

namespace shardc {

// The share of a model's bytes up to which matrices of unknown role are usual:
// a pooler, a projector between towers. Statements about the entire model hold
// in spite of them.
constexpr double kMostUnknownRoles = 0.1;

// Returns whether the name is that of the projection out of a state-space
// mixer, such as `layers.*.mixer.out_proj.weight`, which has no heads.
bool IsOutOfMixer(std::string_view name, char separator);

// Returns whether a parameter is a matrix in each layer and no word of its name
// shows its role. `layers` are the dimensions that count scanned layers. A
// parameter with taps, such as the kernel of a convolution, shows by its shape
// what it is.
bool IsUnknownByName(std::string_view name, char separator, const Shape& shape,
                     const std::vector<int>& layers);

}  // namespace shardc

#endif  // SHARDC_ROLES_UNKNOWN_ROLES_H_
