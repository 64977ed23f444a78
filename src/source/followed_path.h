// Follows the symbolic links of a path.
#ifndef SHARDC_SOURCE_FOLLOWED_PATH_H_
#define SHARDC_SOURCE_FOLLOWED_PATH_H_

#include <string>

namespace shardc {

// Returns the absolute path without symbolic links, "." for an empty path. The
// last components need not exist. Returns an empty text after an error, such as
// more than 40 links.
std::string FollowedPath(const std::string& path);

}  // namespace shardc

#endif  // SHARDC_SOURCE_FOLLOWED_PATH_H_
