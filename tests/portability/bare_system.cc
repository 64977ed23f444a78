// A library that is preloaded into a program, to remove what Linux has beyond
// POSIX: unnamed files cannot be opened, and nothing is below /proc.
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

bool IsMissing(const char* path) { return strncmp(path, "/proc/", 6) == 0; }

int Refuse(int error) {
  errno = error;
  return -1;
}

int OpenAt(int at, const char* path, int flags, mode_t mode) {
  if (IsMissing(path)) return Refuse(ENOENT);
  if ((flags & O_TMPFILE) == O_TMPFILE) return Refuse(EISDIR);
  return static_cast<int>(syscall(SYS_openat, at, path, flags, mode));
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0
                          ? static_cast<mode_t>(va_arg(rest, unsigned))
                          : 0;
  va_end(rest);
  return OpenAt(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));

int access(const char* path, int mode) {
  if (IsMissing(path)) return Refuse(ENOENT);
  return static_cast<int>(syscall(SYS_faccessat, AT_FDCWD, path, mode));
}

// The streams of the C++ library call fopen.
FILE* fopen(const char* path, const char* mode) {
  using Open = FILE* (*)(const char*, const char*);
  static const auto real = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "fopen"));
  if (IsMissing(path)) {
    errno = ENOENT;
    return nullptr;
  }
  return real(path, mode);
}
FILE* fopen64(const char* path, const char* mode)
    __attribute__((alias("fopen")));

}  // extern "C"
