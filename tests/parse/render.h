// Reads a text as a file of some kind and prints the findings, for tests of
// complete messages.
#ifndef SHARDC_TESTS_PARSE_RENDER_H_
#define SHARDC_TESTS_PARSE_RENDER_H_

#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc {

// "line:column: level: message [name]\n    help\n" for each finding, sorted;
// labels as "    line:column: text".
std::string Render(Findings& findings);

// `kind`: mesh, text (a mesh string), rules, manifest, project.
std::string FindingsOf(std::string_view kind, std::string_view text);

}  // namespace shardc

#endif  // SHARDC_TESTS_PARSE_RENDER_H_
