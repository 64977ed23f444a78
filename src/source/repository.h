// Paths relative to the repository, as code hosting services expect them.
#ifndef SHARDC_SOURCE_REPOSITORY_H_
#define SHARDC_SOURCE_REPOSITORY_H_

#include <optional>
#include <string>

namespace shardc {

// Makes paths relative to the root of a repository. A default-constructed
// Repository returns paths unchanged.
class Repository {
 public:
  // Returns the repository at `workspace`. If `workspace` is empty, its root is
  // the nearest folder at or above the working directory that holds `.git`, or
  // else the working directory.
  static Repository Find(const std::string& workspace);

  // Returns the path relative to the root with forward slashes, or the absolute
  // path if the file is outside.
  std::string PathOf(const std::string& path) const;

  // Finds the file of the repository that `path`, a path of another machine,
  // refers to. This is the file whose path in the repository is the longest
  // suffix of `path`, of two or more components. Returns its path relative to
  // the working directory, or nullopt if there is no such file.
  std::optional<std::string> FileLike(const std::string& path) const;

 private:
  // The absolute paths of the root and of the working directory.
  std::string root_, here_;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_REPOSITORY_H_
