// Files that are not whole yet, for an end that runs no destructors: a signal,
// or want of memory.
#ifndef SHARDC_SOURCE_UNFINISHED_H_
#define SHARDC_SOURCE_UNFINISHED_H_

#include <atomic>

namespace shardc {

// While it lives, what stands at `path` goes when RemoveUnfinished is called.
// The path's characters stay the caller's. A few are known at a time; more than
// that are left to their owners.
class Unfinished {
 public:
  explicit Unfinished(const char* path);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  std::atomic<const char*>* slot_ = nullptr;
};

// May be called in a signal's handler.
void RemoveUnfinished();

}  // namespace shardc

#endif  // SHARDC_SOURCE_UNFINISHED_H_
