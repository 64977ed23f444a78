// Paths relative to the repository, as code hosting services expect them.
#ifndef SHARDC_SOURCE_REPOSITORY_H_
#define SHARDC_SOURCE_REPOSITORY_H_

#include <optional>
#include <string>

namespace shardc {

// A default Repository leaves paths unchanged.
class Repository {
 public:
  // Returns the repository at `workspace`. If `workspace` is empty: the nearest
  // folder upwards that holds `.git`, or else the working directory.
  static Repository Find(const std::string& workspace);

  // Returns the path relative to the root with forward slashes, or the absolute
  // path if the file is outside.
  std::string PathOf(const std::string& path) const;

  // Returns the file of the repository that `path`, of another machine, names:
  // that of its longest end of at least two parts, relative to the working
  // directory. Returns nullopt if there is none.
  std::optional<std::string> FileLike(const std::string& path) const;

 private:
  std::string root_, here_;  // absolute
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_REPOSITORY_H_
