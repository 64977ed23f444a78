// Writes rule groups and their patterns as a rules file with comments.
#ifndef SHARDC_SUGGEST_WRITE_H_
#define SHARDC_SUGGEST_WRITE_H_

#include "suggest/suggest.h"

namespace shardc::suggest {

// Returns the rule groups, each with the parameter groups that share a comment
// and a spec, in the order in which the file lists them.
std::vector<RuleGroup> RuleGroupsOf(const Tree& tree, const ModelDims& dims,
                                    const Choices& choices);

Imported WriteFile(const Suggestion& suggestion, const Mesh& mesh);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_WRITE_H_
