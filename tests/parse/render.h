// Reads a text as a file of some kind and prints the findings, for tests of
// complete messages.
#ifndef SHARDC_TESTS_PARSE_RENDER_H_
#define SHARDC_TESTS_PARSE_RENDER_H_

#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc {

// Returns "line:column: level: message [name]\n    help\n" for each finding,
// sorted, with labels as "    line:column: text".
std::string Render(Findings& findings);

// Reads the text as a file of the kind `mesh`, `text` (a mesh string), `rules`,
// `manifest` or `project`, and returns the findings as Render does.
std::string FindingsOf(std::string_view kind, std::string_view text);

}  // namespace shardc

#endif  // SHARDC_TESTS_PARSE_RENDER_H_
