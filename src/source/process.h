// The memory of the process: settings of its allocator, what is free, and what
// is reported when none is left.
#ifndef SHARDC_SOURCE_PROCESS_H_
#define SHARDC_SOURCE_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace shardc {

// Makes the allocator keep freed blocks of up to 1 GiB for reuse. If it
// returned them to the system, the system would clear the pages before the next
// use, which takes longer than filling them. Call it once, before large
// allocations. Has no effect with allocators other than glibc's.
void KeepFreedMemory();

// Makes the system back the allocator's next blocks by large pages, where it
// has them. The system then maps a page for 2 MiB and not one for each 4 KiB,
// and the processor finds more of the addresses in its caches. Call it when an
// input is large. Has no effect at the second call, where the address space is
// limited, and with allocators other than glibc's.
void PreferLargePages();
// The bytes of an input that make it large.
inline constexpr int64_t kLargeInputBytes = int64_t{1} << 20;

// Returns to the system the pages of freed blocks, which the allocator keeps
// after KeepFreedMemory. Call it before work that needs most of the memory in
// blocks that do not fit into the freed blocks. The system clears a page before
// it is used again, which takes about 0.2 s per GiB. Has no effect with
// allocators other than glibc's.
void ReturnFreedMemory();

// Returns the bytes of memory that the process can still allocate: what Linux
// estimates in /proc/meminfo, at most the limits of the process's address space
// and of its container. Returns INT64_MAX on systems without this estimate.
int64_t FreeMemory();

// Notes that the file at `path` is being read. If memory runs out, the message
// names the file that was noted last.
void NoteFileRead(std::string_view path);

// Writes "error: out of memory", with the file that was noted last and a help,
// to standard error. Allocates nothing.
void ReportNoMemory();

// The environment variables in which a launcher passes the index of a process
// and the number of processes.
struct Launcher {
  const char* index;
  const char* count;
};

// A function that returns the value of an environment variable, or null if the
// variable is not set.
using Variable = std::function<const char*(const char* name)>;

// The values of a launcher's two variables, as texts and as numbers.
struct Seat {
  std::string_view index_text, count_text;
  int64_t index = 0;
  // The number of processes. If a text is not a number, or the index is not
  // from 0 to count - 1, then `index` and `count` are both 0.
  int64_t count = 0;
};

// Returns the index of this process and the number of processes that the
// launcher set; nullopt if one of its two variables is not set.
std::optional<Seat> SeatBy(const Launcher& launcher, const Variable& variable);

class ThreadPool {
 public:
  // `threads` includes the calling thread, so 1 starts no thread. A number of 0
  // or less means one thread per processor. The system may allow fewer threads.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls f(task, worker) once for every task in [0, tasks), in no particular
  // order, and returns after the last. `worker` in [0, threads()) identifies
  // the thread, for scratch memory. A task must not call Run itself. If a task
  // throws, no further tasks start and Run rethrows the first exception.
  void Run(int64_t tasks,
           const std::function<void(int64_t task, int worker)>& f);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

// Calls f(task) for every task in [0, tasks) on at most `threads` threads, at
// least 1: the calling thread and threads that are started for this call.
void ParallelFor(int64_t tasks, int threads,
                 const std::function<void(int64_t task)>& f);

// Returns `wanted` if it is above 0, else the number of processors, at least 1.
int ThreadsOr(int wanted);

}  // namespace shardc

#endif  // SHARDC_SOURCE_PROCESS_H_
