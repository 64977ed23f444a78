// Removes from the system's headers what macOS lacks or names differently. With
// `clang++ -include tests/portability/macos.h -U__linux__ -fsyntax-only`, a
// source that uses any of it does not compile.
#define st_atim st_atimespec
#define st_mtim st_mtimespec
#define st_ctim st_ctimespec
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <complex>
#include <filesystem>
#include <fstream>
#include <functional>
#include <list>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#undef st_atim
#undef st_mtim
#undef st_ctim
#undef st_atime
#undef st_mtime
#undef st_ctime
#define st_atime st_atimespec.tv_sec
#define st_mtime st_mtimespec.tv_sec
#define st_ctime st_ctimespec.tv_sec

#undef __GLIBC__
#undef MADV_HUGEPAGE
#undef MADV_POPULATE_READ
#undef MAP_HUGETLB
#undef MAP_LOCKED
#undef MAP_POPULATE
#undef MFD_CLOEXEC
#undef O_DIRECT
#undef O_LARGEFILE
#undef O_NOATIME
#undef O_PATH
#undef O_RSYNC
#undef O_TMPFILE
#undef AT_EMPTY_PATH
#undef AT_NO_AUTOMOUNT
#undef RENAME_NOREPLACE
#undef RENAME_EXCHANGE
#undef RLIMIT_SIGPENDING
#undef SCHED_BATCH
#undef TEMP_FAILURE_RETRY

// Functions that only Linux or the GNU C library has.
#pragma GCC poison accept4 asprintf canonicalize_file_name copy_file_range
#pragma GCC poison dup3 epoll_create1 epoll_ctl epoll_wait euidaccess eventfd
#pragma GCC poison execvpe explicit_bzero fallocate fallocate64
#pragma GCC poison fgetc_unlocked fputs_unlocked fread_unlocked
#pragma GCC poison fwrite_unlocked getauxval getrandom gettid
#pragma GCC poison get_current_dir_name inotify_init1 malloc_trim mallinfo
#pragma GCC poison mallinfo2 mallopt memfd_create memrchr mempcpy mkostemp
#pragma GCC poison mremap name_to_handle_at openat2 pipe2 posix_fadvise
#pragma GCC poison posix_fallocate ppoll prctl preadv2 prlimit
#pragma GCC poison program_invocation_name program_invocation_short_name
#pragma GCC poison pthread_setaffinity_np pthread_tryjoin_np pwritev2
#pragma GCC poison rawmemchr readahead renameat2 sched_getaffinity
#pragma GCC poison sched_getcpu sched_setaffinity secure_getenv sendfile
#pragma GCC poison sigwaitinfo sincos splice statx stpncpy strchrnul
#pragma GCC poison strverscmp sync_file_range syncfs sysinfo timerfd_create
#pragma GCC poison vmsplice
