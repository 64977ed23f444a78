// The features that an attention may have besides query, key and value, with
// their names, and which operations support them.
#ifndef SHARDC_VERIFY_CASES_FEATURES_H_
#define SHARDC_VERIFY_CASES_FEATURES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/axis_rules.h"
#include "model/operation_settings.h"
#include "verify/cases/case.h"

namespace shardc::verify {

enum class Feature : uint8_t {
  kBias,
  kBiasByHead,
  kMask,
  kAdditiveMask,
  kSegments,
  kWindow,
  kSinks,           // one attention sink for each query head
  kSinksByKeyHead,  // one or more attention sinks for each KV head
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

// Returns true if the operation supports the feature in this mode and layout.
bool Takes(const exec::Operation& operation, Mode mode, Layout layout,
           Feature feature);

// Adds the feature to a case, with a value that reveals mistakes. If the case
// already has a window, soft cap or scale, this value is kept.
void SwitchOn(Feature feature, Case& test);

// Returns the window of a case; nullopt if it has none.
std::optional<exec::Window> WindowOf(const Features& features);

// Returns the names of the features that a case has besides the causal mask and
// rows of different lengths, such as `soft_cap, window`; empty if it has none.
// The name `long` means that the case has more keys than requested.
std::vector<std::string_view> FeatureNames(const Case& test);

// Applies the settings and features that `record` contains to the case.
void ApplySettings(const SettingsRecord& record, Case& test);

// Fits block sizes to the case's lengths, which may be smaller than the `given`
// lengths. If no block size was requested, a default that is too large is
// reduced to about three eighths of the length: most lengths then have two
// blocks and a shorter last block. A requested block size is kept if it is
// below the case's length. It is also kept if it is at least the given length:
// at both lengths, all tokens are then in one block. Otherwise it is reduced,
// and the case gets a remark.
void FitBlocks(const SettingsRecord& record, const Sizes& given, Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_FEATURES_H_
