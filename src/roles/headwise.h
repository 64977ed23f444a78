// Words for what heads have one of.
#ifndef SHARDC_ROLES_HEADWISE_H_
#define SHARDC_ROLES_HEADWISE_H_

#include <string_view>

namespace shardc {

// Returns whether a part of the name has a word for what each head has one of,
// such as a gate or a slope: `to_gate_logits.weight`, `alibi_slopes`.
bool NamesHeads(std::string_view name, char separator);

}  // namespace shardc

#endif  // SHARDC_ROLES_HEADWISE_H_
