// Splits parameter names at their separators into parts, such as `layers`, `0`
// and `mlp`.
#ifndef SHARDC_MODEL_NAME_H_
#define SHARDC_MODEL_NAME_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardc {

// Returns whether the last part of a module's name suggests an embedding table.
// The part must contain `embed` and not be `embed_out`, or be `wte` or `wpe`.
bool NamesEmbedding(std::string_view last_part);

bool AllDigits(std::string_view part);

// Returns `/` if the name contains one, else `.`.
char SeparatorOf(std::string_view name);

// Splits a name at its separators. With separator 0 the name is one part.
std::vector<std::string_view> SplitName(std::string_view name, char separator);

// Returns the length of a name without the number of its expert, which
// Megatron-Core appends to the last part: `experts.linear_fc1.weight5`, or
// `weight*` in a template. Returns the length of the entire name if it has no
// such number.
size_t EndBeforeExpert(std::string_view name, char separator);

// Replaces each part that is a number by `*`: `model/layers/0/mlp` ->
// `model/layers/*/mlp`. An expert's number at the end of the last part
// (EndBeforeExpert) is replaced too: `weight5` -> `weight*`.
std::string NameTemplate(std::string_view name, char separator);
void AppendTemplate(std::string_view name, char separator, std::string& out);

}  // namespace shardc

#endif  // SHARDC_MODEL_NAME_H_
