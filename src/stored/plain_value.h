// Reads plain values of DCP: numbers, strings and empty containers, for which
// other formats have forms of their own.
#ifndef SHARDC_STORED_PLAIN_VALUE_H_
#define SHARDC_STORED_PLAIN_VALUE_H_

#include <optional>

#include "stored/tree.h"

namespace shardc::stored {

// If the pickle of the opaque leaf is only a string, a number or an empty
// container, returns a leaf with this value. Returns nullopt for any other
// leaf, and if the archive cannot be read.
std::optional<Leaf> PlainValueOf(const Leaf& leaf);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_PLAIN_VALUE_H_
