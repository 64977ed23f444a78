// Checks that the paths in a project file lead to files inside the project's
// folder, which is the repository of the project file.
#ifndef SHARDC_SOURCE_BOUNDARY_H_
#define SHARDC_SOURCE_BOUNDARY_H_

#include <string>

namespace shardc {

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

}  // namespace shardc

#endif  // SHARDC_SOURCE_BOUNDARY_H_
