// Writes a suggestion as a rules file with comments.
#ifndef SHARDC_SUGGEST_WRITE_H_
#define SHARDC_SUGGEST_WRITE_H_

#include "suggest/suggest.h"

namespace shardc::suggest {

// Returns the rule groups in the order in which the file lists them. Parameter
// groups are in one rule group if they have the same comment and spec.
std::vector<RuleGroup> RuleGroupsOf(const Tree& tree, const ModelDims& dims,
                                    const Choices& choices);

Imported WriteFile(const Suggestion& suggestion, const Mesh& mesh);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_WRITE_H_
