// Replays steps of concatenate_to_cache on the library's cache.
#ifndef SHARDC_TESTS_VECTORS_NUMERIC_CACHE_H_
#define SHARDC_TESTS_VECTORS_NUMERIC_CACHE_H_

#include <string>
#include <string_view>

#include "source/json.h"

namespace shardc::vectors {

// Returns an empty text if every step agrees; otherwise the first difference.
std::string CheckCacheSteps(const JsonValue& input, const JsonValue& expect,
                            double rtol, double atol);
// Returns "clamped write" or "dropped write" if a step exceeds the end of the
// cache and the source accepts it; otherwise an empty text.
std::string_view CacheDifference(const JsonValue& input);

}  // namespace shardc::vectors

#endif  // SHARDC_TESTS_VECTORS_NUMERIC_CACHE_H_
