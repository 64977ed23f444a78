// Makes paths relative to the root of the repository. PathOf() first compares
// the path with the root as text, so that a link inside the repository keeps
// its own name. If the path does not begin with the root, PathOf() resolves the
// links of the path and tries again. This finds a path that leads to the
// repository through a link.
//
// FileLike() finds the local file for a path of another machine. It is the file
// whose path below the root is the longest possible suffix of the other path.
// For example, with the root /repo and the working directory /repo/jobs:
//
//   PathOf:    `../rules/a.yaml`        ->  `rules/a.yaml`
//   FileLike:  `/home/ci/src/model.py`  ->  `../src/model.py`
#include "source/repository.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

namespace shardc {
namespace {

namespace fs = std::filesystem;

fs::path RealPath(const fs::path& path) {
  std::error_code error;
  fs::path out = fs::weakly_canonical(path, error);
  return error ? path.lexically_normal() : out;
}

// Returns `path` relative to `root`; an empty path if it is not below `root`.
std::string Below(const fs::path& path, const fs::path& root) {
  const fs::path relative = path.lexically_relative(root);
  if (relative.empty() || *relative.begin() == "..") return {};
  return relative.generic_string();
}

}  // namespace

Repository Repository::Find(const std::string& workspace) {
  std::error_code error;
  Repository out;
  const fs::path here = fs::current_path(error);
  fs::path root = workspace;
  if (root.empty()) root = RepositoryRoot(here.string());
  if (root.empty()) root = here;
  out.here_ = here.string();
  out.root_ = RealPath(here / root).string();
  return out;
}

std::string Repository::PathOf(const std::string& path) const {
  if (root_.empty()) return path;
  const fs::path whole = (fs::path(here_) / path).lexically_normal();
  for (const fs::path& one : {whole, RealPath(whole)}) {
    std::string below = Below(one, root_);
    if (!below.empty()) return below;
  }
  return whole.generic_string();
}

std::optional<std::string> Repository::FileLike(const std::string& path) const {
  if (root_.empty()) return std::nullopt;
  const fs::path whole = fs::path(path).lexically_normal();
  for (auto begin = whole.begin(); begin != whole.end(); ++begin) {
    if (*begin == ".." || std::next(begin) == whole.end()) continue;
    if (begin->has_root_directory()) continue;
    fs::path file = root_;
    for (auto part = begin; part != whole.end(); ++part) file /= *part;
    std::error_code error;
    if (!fs::is_regular_file(file, error)) continue;
    return fs::relative(file, here_, error).generic_string();
  }
  return std::nullopt;
}

// Checks whether a path is inside a folder. All symbolic links are followed,
// and the file need not exist:
//
//   root /repo, in which /repo/data is a link to /etc:
//     data/passwd     ->  /etc/passwd, outside
//     data/../x.json  ->  /x.json, outside
//     plans/new.json  ->  /repo/plans/new.json, inside

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

// Follows symbolic links as the kernel follows them, one component after the
// other. So `..` after a link is the parent of the folder to which the link
// leads. A path whose last components do not exist is followed as far as it
// exists, because a command may create the file later:
//
//   /repo/data is a link to /etc:       /repo/data/../x.json  ->  /x.json
//   /repo/a.json is a link to b.json,
//   which does not exist:               /repo/a.json  ->  /repo/b.json

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
