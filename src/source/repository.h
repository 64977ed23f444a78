// A file's path as a service that shows a repository wants it.
#ifndef SHARDC_SOURCE_REPOSITORY_H_
#define SHARDC_SOURCE_REPOSITORY_H_

#include <string>

namespace shardc {

// One that was not looked for leaves paths as they are.
class Repository {
 public:
  // At `workspace`; where that is empty, at the nearest folder upwards that
  // holds `.git`; where there is none, at the working directory.
  static Repository Find(const std::string& workspace);

  // Relative to the root, with slashes; absolute where the file is outside.
  std::string PathOf(const std::string& path) const;

 private:
  std::string root_, here_;  // absolute
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_REPOSITORY_H_
