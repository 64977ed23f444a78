// Decides by shapes whether likely words of names give parameters their roles.
#ifndef SHARDC_FACTS_SIBLINGS_H_
#define SHARDC_FACTS_SIBLINGS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "roles/classify.h"

namespace shardc::facts {

// A parameter group whose role is to be confirmed, or which may confirm that of
// another one.
struct Sibling {
  const ParameterRole* role = nullptr;  // by sure and by likely words
  bool sure = false;     // whether a sure word gives the role of the module
  bool layered = false;  // whether the parameters are in layers
  Shape sizes;  // without dimensions that count layers; empty if unknown
  std::optional<Dtype> dtype;
  int64_t count = 0;
};

// The sizes of the configuration that confirm roles; nullopt if unknown.
struct KnownSizes {
  std::optional<int64_t> vocabulary, experts;
};

// Returns for each group whether the shapes of the block show that it has the
// role that its name suggests.
std::vector<bool> ConfirmedBySiblings(std::span<const Sibling> groups,
                                      const KnownSizes& known);

}  // namespace shardc::facts

#endif  // SHARDC_FACTS_SIBLINGS_H_
