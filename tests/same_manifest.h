// Compares two manifests.
#ifndef SHARDC_TESTS_SAME_MANIFEST_H_
#define SHARDC_TESTS_SAME_MANIFEST_H_

#include <algorithm>

#include "model/manifest.h"

namespace shardc {

inline bool SameManifest(const Manifest& a, const Manifest& b) {
  return a.types == b.types && a.model == b.model && a.naming == b.naming &&
         a.separator == b.separator && a.notes == b.notes &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(),
                    b.tensors.end(), [](const Tensor& x, const Tensor& y) {
                      return x.name == y.name && x.type == y.type;
                    });
}

}  // namespace shardc

#endif  // SHARDC_TESTS_SAME_MANIFEST_H_
