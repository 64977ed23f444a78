// Follows symbolic links as the kernel follows them, one component after the
// other. So `..` after a link is the parent of the folder to which the link
// leads. A path whose last components do not exist is followed as far as it
// exists, because a command may create the file later:
//
//   /repo/data is a link to /etc:       /repo/data/../x.json  ->  /x.json
//   /repo/a.json is a link to b.json,
//   which does not exist:               /repo/a.json  ->  /repo/b.json
#include "source/followed_path.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

namespace shardc {
namespace {

namespace fs = std::filesystem;

constexpr int kLinkLimit = 40;  // most links in one path, as on Linux

}  // namespace

std::string FollowedPath(const std::string& path) {
  std::error_code error;
  const fs::path full = fs::absolute(path.empty() ? "." : path, error);
  if (error) return {};
  // Path components that have not been resolved yet, in reverse order.
  std::vector<fs::path> rest;
  const auto add = [&rest](const fs::path& more) {
    const size_t before = rest.size();
    for (const fs::path& part : more.relative_path()) rest.push_back(part);
    std::reverse(rest.begin() + static_cast<ptrdiff_t>(before), rest.end());
  };
  add(full);
  fs::path at = full.root_path();
  int links = 0;
  while (!rest.empty()) {
    const fs::path part = rest.back();
    rest.pop_back();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      at = at.parent_path();
      continue;
    }
    const fs::path target = fs::read_symlink(at / part, error);
    if (error) {
      at /= part;
      continue;
    }
    if (++links > kLinkLimit) return {};
    if (target.is_absolute()) at = target.root_path();
    add(target);
  }
  return at.string();
}

}  // namespace shardc
