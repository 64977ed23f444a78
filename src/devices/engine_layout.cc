// Reads the layouts of engines, and states what they refuse. For example, 14
// heads on 4 devices:
//
//   Total number of attention heads (14) must be divisible by ... (4)
#include "devices/engine_layout.h"

#include <array>

#include "source/wording.h"

namespace shardc {
namespace {

constexpr IntegerRange kMultiple = {1, int64_t{1} << 20};
constexpr std::array<std::string_view, 2> kKvChoices = {"divide", "replicate"};
constexpr std::array<std::string_view, 5> kLayoutKeys = {
    "vocab_multiple", "kv_heads", "heads_refused", "mxfp4", "evidence"};
constexpr std::array<std::string_view, 2> kPaddingKeys = {"hidden", "inner"};

// Replaces each `{name}` of the text.
std::string Filled(std::string text, std::string_view name, int64_t number) {
  const std::string field = "{" + std::string(name) + "}";
  for (size_t at = text.find(field); at != text.npos; at = text.find(field)) {
    text.replace(at, field.size(), std::to_string(number));
  }
  return text;
}

void ReadMxfp4(const YamlContext& context, const YamlNode& node,
               EngineLayout& out) {
  if (!node.IsMapping()) {
    context.Add(code::kSchema, node,
                "`mxfp4` is " + Describe(node) +
                    ", not a mapping of profiles to multiples");
    return;
  }
  for (const YamlMember& member : node.members) {
    const auto name = ReadKey(context, member.key, code::kSchema, "a profile");
    const auto fields =
        Fields::Read(context, member.value, keys::kExpertPadding);
    if (!name || !fields) continue;
    ExpertPadding padding;
    if (const YamlNode* hidden = fields->Find("hidden")) {
      padding.hidden =
          ReadInteger(context, *hidden, "`hidden`", kMultiple).value_or(1);
    }
    if (const YamlNode* inner = fields->Find("inner")) {
      padding.inner =
          ReadInteger(context, *inner, "`inner`", kMultiple).value_or(1);
    }
    out.mxfp4.emplace_back(*name, padding);
  }
}

}  // namespace

namespace keys {
const KeyTable kEngineLayout{"engine.layout", "`layout`", kLayoutKeys};
const KeyTable kExpertPadding{"engine.padding", "a padding", kPaddingKeys};
}  // namespace keys

std::optional<ExpertPadding> EngineLayout::Mxfp4On(
    std::string_view profile) const {
  for (const auto& [name, padding] : mxfp4) {
    if (name == profile) return padding;
  }
  return std::nullopt;
}

int64_t EngineLayout::PaddedVocab(int64_t rows) const {
  return (rows + vocab_multiple - 1) / vocab_multiple * vocab_multiple;
}

std::vector<std::string> LayoutRefusals(const EngineLayout& layout,
                                        const ShardedSizes& sizes,
                                        int64_t tensor) {
  std::vector<std::string> out;
  if (sizes.heads && *sizes.heads % tensor != 0) {
    out.push_back(Filled(Filled(layout.heads_refused, "heads", *sizes.heads),
                         "tp", tensor));
  }
  if (const auto& kv = sizes.kv_heads) {
    const bool more = tensor > *kv && layout.replicates_kv_heads;
    if (more ? tensor % *kv != 0 : *kv % tensor != 0) {
      out.push_back(Counted(*kv, "KV head") + " and " +
                    Counted(tensor, "device") +
                    (more ? ": each KV head is replicated on equally many"
                          : ": each device has equally many"));
    }
  }
  if (sizes.vocab && layout.PaddedVocab(*sizes.vocab) % tensor != 0) {
    out.push_back("the vocabulary, padded to " +
                  CountText(layout.PaddedVocab(*sizes.vocab)) +
                  " rows, does not divide over " + Counted(tensor, "device"));
  }
  return out;
}

EngineLayout ReadEngineLayout(const YamlContext& context,
                              const YamlNode& node) {
  EngineLayout out;
  const auto fields = Fields::Read(context, node, keys::kEngineLayout);
  if (!fields) return out;
  if (const YamlNode* at = fields->Require(context, node, "vocab_multiple")) {
    out.vocab_multiple =
        ReadInteger(context, *at, "`vocab_multiple`", kMultiple).value_or(1);
  }
  if (const YamlNode* at = fields->Require(context, node, "kv_heads")) {
    out.replicates_kv_heads =
        ReadChoice(context, *at, "`kv_heads`", kKvChoices).value_or(0) == 1;
  }
  if (const YamlNode* at = fields->Require(context, node, "heads_refused")) {
    out.heads_refused = ReadText(context, *at, "`heads_refused`").value_or("");
  }
  if (const YamlNode* at = fields->Find("mxfp4")) ReadMxfp4(context, *at, out);
  if (const YamlNode* at = fields->Require(context, node, "evidence")) {
    out.evidence = ReadTexts(context, *at, "`evidence`")
                       .value_or(std::vector<std::string>{});
  }
  return out;
}

}  // namespace shardc
