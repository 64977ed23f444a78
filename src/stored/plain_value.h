// Reads the plain values of a DCP checkpoint: numbers, strings and empty
// containers. DCP stores them as pickles. Other formats store the values
// themselves, so a conversion to another format must read the pickles.
#ifndef SHARDC_STORED_PLAIN_VALUE_H_
#define SHARDC_STORED_PLAIN_VALUE_H_

#include <optional>

#include "stored/tree.h"

namespace shardc::stored {

// If the leaf is a pickle that contains only a string, a number or an empty
// container, returns a leaf with this value. Returns nullopt for any other
// leaf, or if the `torch.save` archive with the pickle cannot be read.
std::optional<Leaf> PlainValueOf(const Leaf& leaf);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_PLAIN_VALUE_H_
