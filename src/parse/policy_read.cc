// Reads the policies of a rules file, and the patterns of the parameters that
// are excluded from weight decay. Most policies are one of a few words, such as
// `shrink`. If a key is absent, its value stays empty, so that another rules
// file can set it:
//
//   policy: {illegal: shrink}  ->  `illegal` is shrink, `unmatched` stays empty
#include "parse/policy_read.h"

#include "parse/keys.h"

#include <array>

namespace shardc {

std::optional<IllegalPolicy> ReadIllegal(const YamlContext& context,
                                         const YamlNode& node) {
  static constexpr std::array<std::string_view, 4> kChoices = {"error", "drop",
                                                               "shrink", "pad"};
  const auto choice = ReadChoice(context, node, "`illegal`", kChoices);
  if (!choice) return std::nullopt;
  constexpr std::array<IllegalPolicy, 4> kValues = {
      IllegalPolicy::kError, IllegalPolicy::kDrop, IllegalPolicy::kShrink,
      IllegalPolicy::kPad};
  return kValues[*choice];
}

std::optional<int64_t> ReadMinSize(const YamlContext& context,
                                   const YamlNode& node) {
  return ReadInteger(context, node, "`min_size`", {0});
}

Policy ReadPolicy(const YamlContext& context, const YamlNode& node) {
  Policy policy;
  if (node.IsNull()) return policy;
  const auto fields = Fields::Read(context, node, keys::kPolicy);
  if (!fields) return policy;
  if (const YamlNode* unmatched = fields->Find("unmatched")) {
    static constexpr std::array<std::string_view, 2> kChoices = {"error",
                                                                 "replicate"};
    const auto choice =
        ReadChoice(context, *unmatched, "`unmatched`", kChoices);
    if (choice) {
      policy.unmatched =
          *choice == 0 ? UnmatchedPolicy::kError : UnmatchedPolicy::kReplicate;
    }
  }
  if (const YamlNode* illegal = fields->Find("illegal")) {
    policy.illegal = ReadIllegal(context, *illegal);
  }
  if (const YamlNode* min_size = fields->Find("min_size")) {
    policy.min_size = ReadMinSize(context, *min_size);
  }
  if (const YamlNode* compat = fields->Find("compat")) {
    static constexpr std::array<std::string_view, 3> kChoices = {
        "none", "eformer", "fjformer"};
    const auto choice = ReadChoice(context, *compat, "`compat`", kChoices);
    constexpr std::array<Compat, 3> kValues = {Compat::kNone, Compat::kEformer,
                                               Compat::kFjformer};
    if (choice) policy.compat = kValues[*choice];
  }
  return policy;
}

WeightDecayExclusions ReadWeightDecay(const YamlContext& context,
                                      const YamlNode& node) {
  if (node.IsNull()) return std::nullopt;
  const auto fields = Fields::Read(context, node, keys::kWeightDecay);
  if (!fields) return std::nullopt;
  const YamlNode* exclude = fields->Find("exclude");
  if (exclude == nullptr || exclude->IsNull()) return std::nullopt;
  const auto texts = ReadTexts(context, *exclude, "`exclude`");
  if (!texts) return std::nullopt;
  std::vector<NamePattern> out;
  for (size_t i = 0; i < texts->size(); ++i) {
    const YamlNode& item = exclude->IsSequence() ? exclude->items[i] : *exclude;
    out.push_back({(*texts)[i], context.document.PlaceOf(item)});
  }
  return out;
}

}  // namespace shardc
