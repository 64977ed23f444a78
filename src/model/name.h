// Splits parameter names at their separators into parts, such as `layers`, `0`
// and `mlp`.
#ifndef SHARDC_MODEL_NAME_H_
#define SHARDC_MODEL_NAME_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/manifest.h"
#include "source/text_order.h"
#include "source/utf8.h"

namespace shardc {

// Returns whether the last part of a module's name suggests an embedding table.
// The part must contain `embed` and not be `embed_out`, or be `wte` or `wpe`.
bool NamesEmbedding(std::string_view last_part);

bool AllDigits(std::string_view part);

// Returns `/` if the name contains one, else `.`.
char SeparatorOf(std::string_view name);

// Splits a name at its separators. With separator 0 the name is one part.
std::vector<std::string_view> SplitName(std::string_view name, char separator);

// Returns whether the text ends with a digit, or with the `*` of a template.
inline bool EndsWithNumber(std::string_view text) {
  return !text.empty() && (IsDigit(text.back()) || text.back() == '*');
}

// EndBeforeExpert() and StemLength() of a text that EndsWithNumber().
size_t EndBeforeExpertNumber(std::string_view name, char separator);
size_t StemBeforeNumber(std::string_view part);

// Returns the length of a name without the number of its expert, which
// Megatron-Core appends to the last part: `experts.linear_fc1.weight5`, or
// `weight*` in a template. Returns the length of the entire name if it has no
// such number.
inline size_t EndBeforeExpert(std::string_view name, char separator) {
  return EndsWithNumber(name) ? EndBeforeExpertNumber(name, separator)
                              : name.size();
}

// The numbers of a name that a template replaces.
enum class TemplateNumbers : uint8_t {
  // Numbers of layers and experts in every spelling that StemLength() knows.
  kAll,
  // Only parts that are numbers, as transformers' plans have them.
  kParts,
};

// Returns the index after the part that begins at `begin`. A part ends at a
// separator, and at the brackets and quotes of paths that JAX prints, such as
// `['layers'][0]`.
size_t PartEnd(std::string_view name, size_t begin, char separator);

// Returns the text with its ASCII capitals in lower case.
std::string LowerCase(std::string_view text);

// Returns whether the word names layers, so that a number after it counts them:
// `layers`, `DecoderBlock`.
bool IsLayerWord(std::string_view word);

// Returns the length of the text before the number of a layer or an expert with
// which a part of a name ends. The number of a layer is the entire part, or
// follows a word for layers, with or without `_` or `-`. Returns the length of
// the part if it has no such number:
//
//   `12` -> 0, `layers_3` -> 7, `DecoderBlock_0` -> 13, `expert_1` -> 7
//   `layer0` -> 5, `EncoderBlock0` -> 12, `block-0` -> 6
//   `wi_0` -> 4, `MlpBlock_1` -> 10: parts of one layer
inline size_t StemLength(std::string_view part) {
  return EndsWithNumber(part) ? StemBeforeNumber(part) : part.size();
}

// Replaces each number of a layer or an expert (StemLength) by `*`:
// `model/layers/0/mlp` -> `model/layers/*/mlp`, `h_0/mlp` -> `h_*/mlp`. An
// expert's number at the end of the last part (EndBeforeExpert) is replaced
// too: `weight5` -> `weight*`.
std::string NameTemplate(std::string_view name, char separator,
                         TemplateNumbers numbers = TemplateNumbers::kAll);
void AppendTemplate(std::string_view name, char separator, std::string& out,
                    TemplateNumbers numbers = TemplateNumbers::kAll);

// Calls `text` and `number` for the consecutive pieces of a name: the numbers
// that a template replaces, and the text between them.
template <class Text, class Number>
void ForTemplatePieces(std::string_view name, char separator, const Text& text,
                       const Number& number,
                       TemplateNumbers numbers = TemplateNumbers::kAll) {
  const size_t kept = EndBeforeExpert(name, separator);
  // Few names have brackets. In others a part ends only at a separator.
  const bool brackets = name.find(']') != std::string_view::npos;
  size_t done = 0;
  for (size_t begin = 0; begin <= kept;) {
    const size_t end = std::min(brackets ? PartEnd(name, begin, separator)
                                         : name.find(separator, begin),
                                kept);
    const std::string_view part = name.substr(begin, end - begin);
    size_t stem = StemLength(part);
    if (numbers == TemplateNumbers::kParts && stem > 0) stem = part.size();
    if (stem < part.size()) {
      text(name.substr(done, begin + stem - done));
      number(part.substr(stem));
      done = end;
    }
    begin = end + 1;
  }
  text(name.substr(done, kept - done));
  if (kept < name.size()) number(name.substr(kept));
}

// Returns a message if the UTF-8 text cannot be a parameter's name, else an
// empty text. A name cannot contain a NUL, because C code would truncate it
// there. Nor can it contain another control character (U+0001 to U+001F, U+007F
// to U+009F), because patterns and terminals do not show it. An empty name is
// accepted, as in safetensors; formats that forbid it check for it themselves.
std::string ParameterNameFault(std::string_view name);

// Returns a view of the names, in the order of the tensors. The view is valid
// until `tensors` changes.
inline Texts NamesOf(std::span<const Tensor> tensors) {
  return Texts::Of(tensors, &Tensor::name);
}

// Returns whether the name of a rules file has the form of a rule pack's name,
// such as `builtin:llama`. A pack of this name need not exist.
inline bool IsPackName(std::string_view name) {
  return name.starts_with("builtin:");
}

}  // namespace shardc

#endif  // SHARDC_MODEL_NAME_H_
