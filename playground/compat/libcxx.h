// What libc++'s std::filesystem takes from Linux and WASI lacks. Only
// filesystem/operations.cpp, which copies files with it, includes this file.
#ifndef SHARDC_PLAYGROUND_LIBCXX_H_
#define SHARDC_PLAYGROUND_LIBCXX_H_

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

inline ssize_t copy_file_range(int, off_t*, int, off_t*, size_t, unsigned) {
  errno = ENOSYS;
  return -1;
}

#endif  // SHARDC_PLAYGROUND_LIBCXX_H_
