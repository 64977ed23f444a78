// Finds names with a word of no published model. One such word may make a
// parameter another one than its other words say: `q_proj.drosk` may be a scale
// of quantised weights, and `mlp.drosk.up_proj` an expert that all tokens
// share.
#ifndef SHARDC_FACTS_STRANGE_NAMES_H_
#define SHARDC_FACTS_STRANGE_NAMES_H_

#include <span>
#include <string_view>
#include <vector>

#include "model/manifest.h"

namespace shardc::facts {

struct NamedShape {
  std::string_view name;         // with `*` in place of the numbers
  const Shape* shape = nullptr;  // null if unknown
};

// Returns for each name whether it has such a word where the word matters: in
// the parts that say what the parameter is, and before the layers if several
// modules hold layers.
std::vector<bool> StrangeNames(std::span<const NamedShape> names,
                               char separator);

}  // namespace shardc::facts

#endif  // SHARDC_FACTS_STRANGE_NAMES_H_
