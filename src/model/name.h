// Names of parameters as paths of parts.
#ifndef SHARDC_MODEL_NAME_H_
#define SHARDC_MODEL_NAME_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardc {

// Whether a module of that name, without what it lies in, is a table of
// embeddings in the libraries' custom: embed_tokens, wte, wpe.
bool NamesEmbedding(std::string_view last_part);

// A part that is a number.
bool AllDigits(std::string_view part);

// `/` of a name that has one, else `.`.
char SeparatorOf(std::string_view name);

// The parts between the separators; the whole name where there is none (0).
std::vector<std::string_view> SplitName(std::string_view name, char separator);

// `model/layers/0/mlp` -> `model/layers/*/mlp`: parts of digits alone.
std::string NameTemplate(std::string_view name, char separator);
// The same, appended to `out`.
void AppendTemplate(std::string_view name, char separator, std::string& out);

}  // namespace shardc

#endif  // SHARDC_MODEL_NAME_H_
