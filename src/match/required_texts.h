// Finds the literal texts without which a pattern cannot match a name.
#ifndef SHARDC_MATCH_REQUIRED_TEXTS_H_
#define SHARDC_MATCH_REQUIRED_TEXTS_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardc {

// One requirement: every name that the pattern matches contains at least one of
// these texts, which are ASCII and not empty.
using AnyOfTexts = std::vector<std::string>;

// Returns the requirements of a pattern, all of which a matching name fulfils:
// `(up|down)_.*kernel$` requires (`up` or `down`), `_` and `kernel`. Returns an
// empty list if the pattern has no literal text, or if it cannot be parsed.
std::vector<AnyOfTexts> RequiredTexts(std::string_view pattern);

}  // namespace shardc

#endif  // SHARDC_MATCH_REQUIRED_TEXTS_H_
