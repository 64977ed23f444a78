// A library that is preloaded into a program. It makes the n-th system call of
// the program fail, shortens it, or kills the program there. Calls are counted
// from main on, so that a test can try every way in which one call can go
// wrong:
//
//   FAULT_CALL=pwrite,write   what is counted; `any`: every call but memory's
//   FAULT_FROM=17             the first that fails
//   FAULT_EVERY=1             and then every k-th (0: no other)
//   FAULT_HOW=28              an errno; `short`: half of a transfer; `kill`;
//                             `grow`, `cut`, `swap`: before the call,
//                             FAULT_FILE gets a byte more, loses all, or is
//                             replaced by FAULT_FILE.new; `flip`: pwrite
//                             changes a byte
//   FAULT_REPORT=path         made when the first call went wrong
//
// The replaced functions call the kernel directly, because finding the original
// functions would need calls itself. Writes to standard error never fail,
// because messages are tested too. Functions with two names, such as open and
// open64, are replaced under both names, so these must not be macros for each
// other.
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {

constexpr int kShort = -1;
constexpr int kKill = -2;
constexpr int kGrow = -3;
constexpr int kTruncate = -4;
constexpr int kSwap = -5;
constexpr int kFlip = -6;
constexpr ssize_t kFlipped = SSIZE_MAX;

struct How {
  const char* name;
  int how;
};
constexpr How kHows[] = {{"short", kShort},  {"kill", kKill}, {"grow", kGrow},
                         {"cut", kTruncate}, {"swap", kSwap}, {"flip", kFlip}};

std::atomic<bool> armed = false;
std::atomic<long> seen = 0;
long from = 0;
long every = 0;
int how = 0;
const char* calls = "";
const char* report = nullptr;

bool IsCounted(const char* name) {
  if (strcmp(calls, "any") == 0) {
    return strcmp(name, "malloc") != 0 && strcmp(name, "mmap") != 0;
  }
  const size_t length = strlen(name);
  for (const char* at = strstr(calls, name); at != nullptr;
       at = strstr(at + 1, name)) {
    const bool begins = at == calls || at[-1] == ',';
    if (begins && (at[length] == 0 || at[length] == ',')) return true;
  }
  return false;
}

void ReportInjection() {
  if (report == nullptr) return;
  const long fd =
      syscall(SYS_openat, AT_FDCWD, report, O_WRONLY | O_CREAT, 0600);
  if (fd >= 0) syscall(SYS_close, fd);
}

// Changes FAULT_FILE as another process might.
void ChangeFile() {
  const char* path = getenv("FAULT_FILE");
  if (path == nullptr) return;
  if (how == kSwap) {
    char other[4096] = "";
    strncpy(other, path, sizeof(other) - sizeof(".new"));
    strcat(other, ".new");
    syscall(SYS_renameat, AT_FDCWD, other, AT_FDCWD, path);
    return;
  }
  const int flags = O_WRONLY | (how == kTruncate ? O_TRUNC : O_APPEND);
  const long fd = syscall(SYS_openat, AT_FDCWD, path, flags, 0);
  if (fd < 0) return;
  if (how == kGrow) syscall(SYS_write, fd, " ", 1);
  syscall(SYS_close, fd);
}

// Returns whether this call fails; kills the process if that is requested.
bool GoesWrong(const char* name) {
  if (!armed || !IsCounted(name)) return false;
  const long number = ++seen;
  if (number < from) return false;
  if (number > from && (every == 0 || (number - from) % every != 0)) {
    return false;
  }
  const int before = errno;
  if (number == from) ReportInjection();
  if (how == kKill) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  }
  const bool changes = how == kGrow || how == kTruncate || how == kSwap;
  if (changes) ChangeFile();
  errno = before;
  return !changes;
}

bool Fails(const char* name) {
  if (!GoesWrong(name) || how == kShort || how == kFlip) return false;
  errno = how;
  return true;
}

// Returns how many bytes of a transfer are made; -1 if it fails.
ssize_t Transfer(const char* name, int fd, size_t count) {
  if (fd == STDERR_FILENO || !GoesWrong(name)) {
    return static_cast<ssize_t>(count);
  }
  if (how == kShort) return static_cast<ssize_t>(count > 1 ? count / 2 : count);
  if (how == kFlip) {
    return count > 0 ? kFlipped : 0;
  }
  errno = how;
  return -1;
}

// Returns the first byte with one bit changed. The caller writes this byte, and
// writes the other bytes by another call.
char Flipped(const void* bytes) {
  return static_cast<char>(*static_cast<const char*>(bytes) ^ 1);
}

int (*real_main)(int, char**, char**) = nullptr;

int CountedMain(int argc, char** argv, char** environment) {
  armed = true;
  return real_main(argc, argv, environment);
}

}  // namespace

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv,
                      void (*init)(), void (*fini)(), void (*rtld_fini)(),
                      void* stack_end) {
  using Start = int (*)(int (*)(int, char**, char**), int, char**, void (*)(),
                        void (*)(), void (*)(), void*);
  const auto start =
      reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  const char* how_text = getenv("FAULT_HOW");
  if (getenv("FAULT_CALL") == nullptr || how_text == nullptr) {
    return start(main, argc, argv, init, fini, rtld_fini, stack_end);
  }
  calls = getenv("FAULT_CALL");
  report = getenv("FAULT_REPORT");
  from = atol(getenv("FAULT_FROM"));
  const char* every_text = getenv("FAULT_EVERY");
  every = every_text == nullptr ? 0 : atol(every_text);
  how = atoi(how_text);
  for (const How& one : kHows) {
    if (strcmp(how_text, one.name) == 0) how = one.how;
  }
  real_main = main;
  return start(CountedMain, argc, argv, init, fini, rtld_fini, stack_end);
}

int openat(int at, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0
                          ? static_cast<mode_t>(va_arg(rest, unsigned))
                          : 0;
  va_end(rest);
  if (Fails("open")) return -1;
  return static_cast<int>(syscall(SYS_openat, at, path, flags, mode));
}
int openat64(int at, const char* path, int flags, ...)
    __attribute__((alias("openat")));

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0
                          ? static_cast<mode_t>(va_arg(rest, unsigned))
                          : 0;
  va_end(rest);
  return openat(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));

ssize_t read(int fd, void* out, size_t count) {
  const ssize_t some = Transfer("read", fd, count);
  return some < 0 ? -1 : syscall(SYS_read, fd, out, some);
}

ssize_t pread(int fd, void* out, size_t count, off_t offset) {
  const ssize_t some = Transfer("pread", fd, count);
  return some < 0 ? -1 : syscall(SYS_pread64, fd, out, some, offset);
}
ssize_t pread64(int fd, void* out, size_t count, off64_t offset)
    __attribute__((alias("pread")));

ssize_t write(int fd, const void* bytes, size_t count) {
  const ssize_t some = Transfer("write", fd, count);
  if (some < 0) return -1;
  if (some != kFlipped) return syscall(SYS_write, fd, bytes, some);
  const char wrong = Flipped(bytes);
  return syscall(SYS_write, fd, &wrong, 1);
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  const ssize_t some = Transfer("pwrite", fd, count);
  if (some < 0) return -1;
  if (some != kFlipped) return syscall(SYS_pwrite64, fd, bytes, some, offset);
  const char wrong = Flipped(bytes);
  return syscall(SYS_pwrite64, fd, &wrong, 1, offset);
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t offset)
    __attribute__((alias("pwrite")));

int fsync(int fd) {
  return Fails("fsync") ? -1 : static_cast<int>(syscall(SYS_fsync, fd));
}

int rename(const char* from_path, const char* to_path) {
  if (Fails("rename")) return -1;
  return static_cast<int>(
      syscall(SYS_renameat, AT_FDCWD, from_path, AT_FDCWD, to_path));
}

int linkat(int from_at, const char* from_path, int to_at, const char* to_path,
           int flags) {
  if (Fails("link")) return -1;
  return static_cast<int>(
      syscall(SYS_linkat, from_at, from_path, to_at, to_path, flags));
}

int ftruncate(int fd, off_t size) {
  if (Fails("ftruncate")) return -1;
  return static_cast<int>(syscall(SYS_ftruncate, fd, size));
}
int ftruncate64(int fd, off64_t size) __attribute__((alias("ftruncate")));

int unlink(const char* path) {
  // unlink is counted only as a call at which the process may be killed. It
  // never fails, because a file that cannot be removed just remains.
  if (how == kKill) GoesWrong("unlink");
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int mkdir(const char* path, mode_t mode) {
  if (Fails("mkdir")) return -1;
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

// Linux closes the descriptor even if close returns an error.
int close(int fd) {
  const bool fails = Fails("close");
  const int error = errno;
  const long result = syscall(SYS_close, fd);
  if (!fails) return static_cast<int>(result);
  errno = error;
  return -1;
}

DIR* opendir(const char* path) {
  if (Fails("opendir")) return nullptr;
  using Open = DIR* (*)(const char*);
  return reinterpret_cast<Open>(dlsym(RTLD_NEXT, "opendir"))(path);
}

DIR* fdopendir(int fd) {
  if (Fails("opendir")) return nullptr;
  using Open = DIR* (*)(int);
  return reinterpret_cast<Open>(dlsym(RTLD_NEXT, "fdopendir"))(fd);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                   void* (*run)(void*), void* argument) {
  if (Fails("thread")) return errno;
  using Create =
      int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  return reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"))(
      thread, attributes, run, argument);
}

void* mmap(void* address, size_t length, int protection, int flags, int fd,
           off_t offset) {
  if (Fails("mmap")) return MAP_FAILED;
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}
void* mmap64(void* address, size_t length, int protection, int flags, int fd,
             off64_t offset) __attribute__((alias("mmap")));

void* malloc(size_t size) {
  return Fails("malloc") ? nullptr : __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  return Fails("malloc") ? nullptr : __libc_calloc(count, size);
}

void* realloc(void* old, size_t size) {
  return Fails("malloc") ? nullptr : __libc_realloc(old, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  return Fails("malloc") ? nullptr : __libc_memalign(alignment, size);
}

int posix_memalign(void** out, size_t alignment, size_t size) {
  const int before = errno;
  void* memory = aligned_alloc(alignment, size);
  errno = before;
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}

}  // extern "C"
