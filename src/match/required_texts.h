// The literal texts without which a pattern cannot match.
#ifndef SHARDC_MATCH_REQUIRED_TEXTS_H_
#define SHARDC_MATCH_REQUIRED_TEXTS_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardc {

// Every name that the pattern matches contains at least one of these texts.
// They are not empty, and ASCII.
using AnyOfTexts = std::vector<std::string>;

// Returns what a pattern requires, all of it together: `(up|down)_.*kernel$`
// requires `up` or `down`, and `kernel`. Empty if nothing is known.
std::vector<AnyOfTexts> RequiredTexts(std::string_view pattern);

}  // namespace shardc

#endif  // SHARDC_MATCH_REQUIRED_TEXTS_H_
