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

#include <filesystem>
#include <iterator>
#include <system_error>

#include "source/boundary.h"

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

}  // namespace shardc
