#include "source/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>  // defines __GLIBC__
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>

#include "source/wording.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace shardc {
namespace {

// The printable path of the file that was noted last. Longer paths lose their
// beginning, because the name of the file is at the end.
struct NotedFile {
  std::mutex mutex;
  std::array<char, 512> path = {};
  size_t size = 0;
};

constinit NotedFile noted;

void WriteToStandardError(std::string_view text) {
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

int64_t FreeMemory() {
  int64_t free = INT64_MAX;
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kibibytes = 0;
  for (std::string unit; file >> key >> kibibytes >> unit;) {
    if (key == "MemAvailable:") free = kibibytes * 1024;
  }
  int64_t container = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> container) {
    free = std::min(free, container);
  }
  struct rlimit space = {};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur < INT64_MAX) {
    free = std::min(free, static_cast<int64_t>(space.rlim_cur));
  }
  return free;
}

void NoteFileRead(std::string_view path) {
  const std::string shown = Printable(path);
  const std::lock_guard lock(noted.mutex);
  noted.size = std::min(shown.size(), noted.path.size());
  std::copy(shown.end() - static_cast<std::ptrdiff_t>(noted.size), shown.end(),
            noted.path.begin());
}

void ReportNoMemory() {
  WriteToStandardError("error: out of memory\n");
  // Another thread may be noting a file. Then the message names none.
  if (const std::unique_lock lock(noted.mutex, std::try_to_lock);
      lock.owns_lock() && noted.size > 0) {
    WriteToStandardError("  --> ");
    WriteToStandardError({noted.path.data(), noted.size});
    WriteToStandardError(": the file that was read last\n");
  }
  WriteToStandardError(
      "  = help: use a machine with more memory, or fewer parameters, devices "
      "or threads\n");
}

}  // namespace shardc
