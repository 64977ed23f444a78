// Steps of concatenate_to_cache, replayed on the library's cache.
#ifndef SHARDC_TESTS_VECTORS_NUMERIC_CACHE_H_
#define SHARDC_TESTS_VECTORS_NUMERIC_CACHE_H_

#include <string>
#include <string_view>

#include "source/json.h"

namespace shardc::vectors {

// Empty where every step agrees.
std::string CheckCacheSteps(const JsonValue& input, const JsonValue& expect,
                            double rtol, double atol);
// "clamped write" or "dropped write" where a step passes the end.
std::string_view CacheDifference(const JsonValue& input);

}  // namespace shardc::vectors

#endif  // SHARDC_TESTS_VECTORS_NUMERIC_CACHE_H_
