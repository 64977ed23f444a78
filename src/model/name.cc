// Splits parameter names at their separator, and makes templates from names. A
// template has `*` in place of each number of a layer or an expert, so that the
// layers and experts of a stack have one template. For example:
//
//   layers.0.experts.fc1.weight5      ->  layers.*.experts.fc1.weight*
//   decoder_block_11/wi_0/kernel      ->  decoder_block_*/wi_0/kernel
//   EncoderBlock0.mlp, block-0.mlp    ->  EncoderBlock*.mlp, block-*.mlp
//   ['layers'][0]['mlp']['up']        ->  ['layers'][*]['mlp']['up']
//
// The number in `wi_0` stays, because `wi` is no word for layers: `wi_0` and
// `wi_1` are two parameters of one layer.
#include "model/name.h"

#include <algorithm>
#include <array>
#include <span>

#include "source/wording.h"

namespace shardc {
namespace {

// The ends of words for the repeated layers of a model, in small letters.
constexpr std::array<std::string_view, 6> kLayerEnds = {
    "layers", "blocks", "blks", "layer", "block", "blk"};
// Words for the parts of one layer, and for layers that predict further tokens
// (mtp). A module such as `MoeBlock_0` or `attention_block_1` is a part of a
// layer, and its number counts no layers.
constexpr std::array<std::string_view, 12> kLayerParts = {
    "moe",  "mlp",    "ffn",  "feed", "attn", "attention",
    "norm", "expert", "gate", "conv", "head", "mtp"};

bool ContainsAny(std::string_view text, std::span<const std::string_view> any) {
  return std::any_of(any.begin(), any.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

// Returns whether a number after this word and `_` or `-` counts layers or
// experts.
bool IsCounted(std::string_view word) {
  return word == "h" || word == "expert" || word == "experts" ||
         IsLayerWord(word);
}

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool IsLayerWord(std::string_view word) {
  const std::string small = LowerCase(word);
  const auto end =
      std::find_if(kLayerEnds.begin(), kLayerEnds.end(),
                   [&](std::string_view one) { return small.ends_with(one); });
  // A module of scanned layers has one number for all of its layers.
  if (end == kLayerEnds.end() || small.find("scan") != small.npos) return false;
  return end->ends_with('s') || !ContainsAny(small, kLayerParts);
}

bool AllDigits(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

char SeparatorOf(std::string_view name) {
  return name.find('/') == std::string_view::npos ? '.' : '/';
}

std::vector<std::string_view> SplitName(std::string_view name, char separator) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  while (separator != 0) {
    const size_t end = name.find(separator, begin);
    if (end == std::string_view::npos) break;
    out.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  out.push_back(name.substr(begin));
  return out;
}

size_t EndBeforeExpert(std::string_view name, char separator) {
  const size_t whole = name.size();
  const size_t end = name.find_last_not_of("0123456789*");
  if (end == name.npos || end + 1 == whole) return whole;
  const size_t leaf = name.rfind(separator, end);
  if (leaf == name.npos || leaf == 0) return whole;
  const std::string_view word = name.substr(leaf + 1, end - leaf);
  if (word != "weight" && word != "bias") return whole;
  const size_t module = name.rfind(separator, leaf - 1);
  if (module == name.npos) return whole;
  const std::string_view path = name.substr(0, module);
  const size_t last = path.rfind(separator);
  return path.substr(last == path.npos ? 0 : last + 1) == "experts" ? end + 1
                                                                    : whole;
}

size_t PartEnd(std::string_view name, size_t begin, char separator) {
  const size_t end = std::min(name.find(separator, begin), name.size());
  const std::string_view part = name.substr(begin, end - begin);
  if (part.find(']') == std::string_view::npos) return end;
  return begin + part.find_first_of("[]'\"");
}

size_t StemLength(std::string_view part) {
  const size_t last = part.find_last_not_of("0123456789");
  size_t stem = last == std::string_view::npos ? 0 : last + 1;
  if (stem == part.size() && part.ends_with('*')) --stem;
  if (stem == 0 || stem == part.size()) return stem;
  if (part[stem - 1] == '_' || part[stem - 1] == '-') {
    return IsCounted(part.substr(0, stem - 1)) ? stem : part.size();
  }
  return IsLayerWord(part.substr(0, stem)) ? stem : part.size();
}

std::string NameTemplate(std::string_view name, char separator,
                         TemplateNumbers numbers) {
  std::string out;
  AppendTemplate(name, separator, out, numbers);
  return out;
}

bool NamesEmbedding(std::string_view last_part) {
  // `embed_out` is GPT-NeoX's output projection.
  if (last_part == "embed_out") return false;
  return last_part.find("embed") != std::string_view::npos ||
         last_part == "wte" || last_part == "wpe";
}

void AppendTemplate(std::string_view name, char separator, std::string& out,
                    TemplateNumbers numbers) {
  ForTemplatePieces(
      name, separator, [&](std::string_view text) { out += text; },
      [&](std::string_view) { out += '*'; }, numbers);
}

// Finds characters that no reader of manifests accepts in a name. "a\x7f" is
// refused for its control character; "a b" and "größe" are accepted.

std::string ParameterNameFault(std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    const auto next =
        static_cast<unsigned char>(i + 1 < name.size() ? name[i + 1] : 0);
    const bool c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;
    if (byte >= 0x20 && byte != 0x7f && !c1) continue;
    return "the name " + ShortQuote(name) +
           (byte == 0 ? " holds a NUL" : " holds a control character");
  }
  return {};
}

}  // namespace shardc
