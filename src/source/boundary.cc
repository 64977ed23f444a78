// Checks whether a path is inside a folder. All symbolic links are followed,
// and the file need not exist:
//
//   root /repo, in which /repo/data is a link to /etc:
//     data/passwd     ->  /etc/passwd, outside
//     data/../x.json  ->  /x.json, outside
//     plans/new.json  ->  /repo/plans/new.json, inside
#include "source/boundary.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "source/followed_path.h"

namespace shardc {
namespace {

namespace fs = std::filesystem;

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
  if (root.empty()) root = GitRoot(FollowedPath(folder));
  if (root.empty()) root = folder;
  Boundary out;
  out.root_ = FollowedPath(root);
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
  const fs::path full = FollowedPath(path);
  const fs::path root = root_;
  return !full.empty() &&
         std::mismatch(root.begin(), root.end(), full.begin(), full.end())
                 .first == root.end();
}

}  // namespace shardc
