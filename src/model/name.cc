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

#include "source/utf8.h"
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

char Small(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool ContainsAny(std::string_view text, std::span<const std::string_view> any) {
  return std::any_of(any.begin(), any.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

// Returns the length of the text before the digits, or the `*`, at its end.
size_t LengthBeforeNumber(std::string_view text, bool star) {
  const auto counts = [star](char c) {
    return IsDigit(c) || (star && c == '*');
  };
  size_t length = text.size();
  while (length > 0 && counts(text[length - 1])) --length;
  return length;
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
  for (char& c : out) c = Small(c);
  return out;
}

bool IsLayerWord(std::string_view word) {
  const auto end = std::find_if(
      kLayerEnds.begin(), kLayerEnds.end(), [&](std::string_view one) {
        return word.size() >= one.size() &&
               std::equal(one.rbegin(), one.rend(), word.rbegin(),
                          [](char a, char b) { return a == Small(b); });
      });
  if (end == kLayerEnds.end()) return false;
  if (end->size() == word.size()) return true;
  const std::string small = LowerCase(word);
  // A module of scanned layers has one number for all of its layers.
  if (small.find("scan") != small.npos) return false;
  return end->ends_with('s') || !ContainsAny(small, kLayerParts);
}

bool AllDigits(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(),
                                      [](char c) { return IsDigit(c); });
}

char SeparatorOf(std::string_view name) {
  return name.find('/') == std::string_view::npos ? '.' : '/';
}

std::vector<std::string_view> SplitName(std::string_view name, char separator) {
  std::vector<std::string_view> out;
  out.reserve(1 + static_cast<size_t>(std::ranges::count(name, separator)));
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

size_t EndBeforeExpertNumber(std::string_view name, char separator) {
  const size_t whole = name.size();
  const size_t end = LengthBeforeNumber(name, true);
  if (end == 0) return whole;
  const size_t leaf = name.rfind(separator, end - 1);
  if (leaf == name.npos || leaf == 0) return whole;
  const std::string_view word = name.substr(leaf + 1, end - leaf - 1);
  if (word != "weight" && word != "bias") return whole;
  const size_t module = name.rfind(separator, leaf - 1);
  if (module == name.npos) return whole;
  const std::string_view path = name.substr(0, module);
  const size_t last = path.rfind(separator);
  return path.substr(last == path.npos ? 0 : last + 1) == "experts" ? end
                                                                    : whole;
}

size_t PartEnd(std::string_view name, size_t begin, char separator) {
  // A part is short, so that a loop takes fewer instructions than searches.
  const auto is_mark = [](char c) {
    return c == '[' || c == ']' || c == '\'' || c == '"';
  };
  size_t end = begin;
  while (end < name.size() && name[end] != separator && !is_mark(name[end])) {
    ++end;
  }
  const size_t mark = end;
  bool brackets = false;
  for (; end < name.size() && name[end] != separator; ++end) {
    brackets = brackets || name[end] == ']';
  }
  return brackets ? mark : end;
}

size_t StemBeforeNumber(std::string_view part) {
  size_t stem = LengthBeforeNumber(part, false);
  if (stem == part.size()) --stem;  // a part that ends with `*`
  if (stem == 0) return stem;
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
