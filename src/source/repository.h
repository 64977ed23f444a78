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

// A project file may come from somebody who is not trusted, such as the author
// of a pull request. Its paths may only name files of its own repository, so
// that no message can quote another file. A default-constructed Boundary
// accepts every path.
class Boundary {
 public:
  // Returns the boundary of a project file: the nearest folder above the file
  // that holds `.git`, or else the folder of the file.
  static Boundary Of(const std::string& project_file);

  // Returns whether the path, with all links followed, leads to the root of the
  // boundary or to a place below it. Returns false for a path with more than 40
  // links. The file need not exist.
  bool Holds(const std::string& path) const;

 private:
  std::string root_;  // empty if every path is accepted
};

// Returns the nearest folder at or above `folder` that holds `.git`, as an
// absolute path, or an empty text. The folder need not exist.
std::string RepositoryRoot(const std::string& folder);

// Returns the absolute path without symbolic links, "." for an empty path. The
// last components need not exist. Returns an empty text after an error, such as
// more than 40 links.
std::string FollowedPath(const std::string& path);

}  // namespace shardc

#endif  // SHARDC_SOURCE_REPOSITORY_H_
