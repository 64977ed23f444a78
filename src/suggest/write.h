// Groups and patterns as a rules file with its comments.
#ifndef SHARDC_SUGGEST_WRITE_H_
#define SHARDC_SUGGEST_WRITE_H_

#include "suggest/suggest.h"

namespace shardc::suggest {

// Kinds that one comment and one spec serve, in the order for readers.
std::vector<Group> GroupsOf(const Tree& tree, const Readings& readings,
                            const Choices& choices);

Imported WriteFile(const Suggestion& suggestion, const Mesh& mesh);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_WRITE_H_
