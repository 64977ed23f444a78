#include "source/unfinished.h"

#include <unistd.h>

#include <array>

namespace shardc {
namespace {

// The paths of the files that RemoveUnfinished deletes; a null entry is unused.
// The array has a fixed size, because a signal handler cannot read a list that
// another thread may be changing.
std::array<std::atomic<const char*>, 32> paths;

}  // namespace

Unfinished::Unfinished(const char* path) {
  for (auto& slot : paths) {
    const char* none = nullptr;
    if (!slot.compare_exchange_strong(none, path)) continue;
    slot_ = &slot;
    return;
  }
}

Unfinished::~Unfinished() {
  if (slot_ != nullptr) *slot_ = nullptr;
}

void RemoveUnfinished() {
  for (auto& slot : paths) {
    const char* path = slot.exchange(nullptr);
    if (path != nullptr) ::unlink(path);
  }
}

}  // namespace shardc
