// Checks whether a path is inside a folder. Symbolic links are followed as the
// kernel follows them, one component after the other. So `..` after a link is
// the parent of the folder to which the link leads. A path whose last
// components do not exist is followed as far as it exists, because a command
// may create the file later:
//
//   root /repo, in which /repo/data is a link to /etc:
//     data/passwd     ->  /etc/passwd, outside
//     data/../x.json  ->  /x.json, outside
//     plans/new.json  ->  /repo/plans/new.json, inside
#include "source/boundary.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

namespace shardc {
namespace {

namespace fs = std::filesystem;

constexpr int kLinkLimit = 40;  // most links in one path, as on Linux

// Returns the absolute path without links. Returns an empty path after an
// error, such as more than kLinkLimit links.
fs::path Followed(const fs::path& path) {
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
  return at;
}

// Returns the nearest folder at or above `folder` that holds `.git`. Returns an
// empty path if there is no such folder.
fs::path GitRoot(fs::path folder) {
  for (;; folder = folder.parent_path()) {
    std::error_code error;
    if (fs::exists(folder / ".git", error)) return folder;
    if (folder == folder.parent_path()) return {};
  }
}

}  // namespace

Boundary Boundary::Of(const std::string& project_file) {
  std::error_code error;
  const fs::path folder = fs::absolute(project_file, error).parent_path();
  // Search upwards along the path as written first. If the folder is a link
  // that leads out of the repository, this still finds the repository.
  fs::path root = GitRoot(folder.lexically_normal());
  if (root.empty()) root = GitRoot(Followed(folder));
  if (root.empty()) root = folder;
  Boundary out;
  out.root_ = Followed(root).string();
  // If the links of the root cannot be followed, store the root as written. An
  // empty root would accept every path.
  if (out.root_.empty()) out.root_ = root.string();
  return out;
}

std::string RepositoryRoot(const std::string& folder) {
  std::error_code error;
  const fs::path full =
      fs::absolute(folder.empty() ? "." : folder, error).lexically_normal();
  // A path that ends with a slash has an empty last component.
  return GitRoot(full.has_filename() ? full : full.parent_path()).string();
}

bool Boundary::Holds(const std::string& path) const {
  if (root_.empty()) return true;
  const fs::path full = Followed(path);
  const fs::path root = root_;
  return !full.empty() &&
         std::mismatch(root.begin(), root.end(), full.begin(), full.end())
                 .first == root.end();
}

}  // namespace shardc
