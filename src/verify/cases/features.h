// What an attention may have besides query, key and value, by name, and which
// operations take it.
#ifndef SHARDC_VERIFY_CASES_FEATURES_H_
#define SHARDC_VERIFY_CASES_FEATURES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/layout.h"
#include "verify/cases/case.h"

namespace shardc::verify {

enum class Feature : uint8_t {
  kBias,
  kBiasByHead,
  kMask,
  kAdditiveMask,
  kSegments,
  kWindow,
  kSinks,           // one a query head
  kSinksByKeyHead,  // rows of key heads
  kSoftCap,
  kLeftPadding,
  kMaskedRow,
  kDropout,
  kLargeLogits,
  kCustomBlocks,
  kScale,
};

std::span<const Feature> AllFeatures();
std::string_view FeatureName(Feature feature);
std::optional<Feature> ParseFeature(std::string_view name);

// Whether the operation has a use for it in this mode and layout.
bool Takes(const exec::Operation& operation, Mode mode, Layout layout,
           Feature feature);

// Adds it to a case, with a value that shows; what the case has stays.
void SwitchOn(Feature feature, Case& test);

// `soft_cap, window`: what a case has beyond causal rows of their lengths;
// empty: nothing. `long`: more keys than were asked for.
std::vector<std::string_view> FeatureNames(const Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_FEATURES_H_
