// Files to delete if the process ends without running destructors: by a signal,
// or out of memory.
#ifndef SHARDC_SOURCE_UNFINISHED_H_
#define SHARDC_SOURCE_UNFINISHED_H_

#include <atomic>

namespace shardc {

// While this object exists, RemoveUnfinished deletes the file at `path`. The
// caller keeps the path's characters alive. Only a few paths can be registered
// at a time; further ones are ignored.
class Unfinished {
 public:
  explicit Unfinished(const char* path);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  std::atomic<const char*>* slot_ = nullptr;
};

// Deletes all registered files. Safe to call in a signal handler.
void RemoveUnfinished();

}  // namespace shardc

#endif  // SHARDC_SOURCE_UNFINISHED_H_
