// The process: settings of its allocator, its free memory, and its rank among
// the processes that a launcher started.
#include "source/process.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>  // defines __GLIBC__
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

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
  // Small freed pieces are joined at once. Joining all of them when a large one
  // is freed visits each again, when none of them is in the caches any more.
  mallopt(M_MXFAST, 0);
#endif
}

void PreferLargePages() {
#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)
  static std::once_flag once;
  std::call_once(once, [] {
    // Address space for the blocks of any input, of which only the pages that
    // are written take memory.
    constexpr int kReserved = 1 << 29;
    // A block that does not fit into what the allocator holds makes it extend
    // the address space.
    constexpr size_t kBlock = size_t{1} << 21, kPage = size_t{1} << 21;
    struct rlimit space = {};
    if (::getrlimit(RLIMIT_AS, &space) != 0 ||
        space.rlim_cur != RLIM_INFINITY) {
      return;
    }
    auto* const before = static_cast<char*>(::sbrk(0));
    mallopt(M_TOP_PAD, kReserved);
    // Volatile, so that the compiler keeps the calls.
    void* volatile const block = std::malloc(kBlock);
    std::free(block);
    mallopt(M_TOP_PAD, 1 << 20);
    auto* const after = static_cast<char*>(::sbrk(0));
    const size_t skipped =
        (kPage - reinterpret_cast<uintptr_t>(before) % kPage) % kPage;
    if (after - before < std::ptrdiff_t{kReserved}) return;
    (void)::madvise(before + skipped,
                    static_cast<size_t>(after - before) - skipped,
                    MADV_HUGEPAGE);
  });
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

namespace {

// Returns the number in the text; -1 if the text is not a number.
int64_t Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size();
  return error == std::errc() && whole ? value : -1;
}

}  // namespace

std::optional<Seat> SeatBy(const Launcher& launcher, const Variable& variable) {
  const char* index = variable(launcher.index);
  const char* count = variable(launcher.count);
  if (index == nullptr || count == nullptr) return std::nullopt;
  Seat seat{index, count};
  const int64_t i = Number(index), n = Number(count);
  if (i >= 0 && i < n) {
    seat.index = i;
    seat.count = n;
  }
  return seat;
}

// Runs tasks on a pool of worker threads. Each call of Run is one round of
// tasks, and the workers sleep between rounds. During a round, every worker and
// the calling thread repeatedly take the next task number from a shared
// counter, until no task is left. The last worker to finish wakes the caller.
//
// Tasks run at the same time, and which thread runs a task differs from run to
// run. So a task must not change data that another task uses. For example:
//
//   Run(3, f) with 2 threads may call f(0, 0), f(1, 1) and f(2, 0). The first
//   argument is the task, and the second is the thread; 0 is the caller.

struct ThreadPool::Shared {
  std::mutex mutex;
  // Notified when a round begins or the pool ends.
  std::condition_variable start;
  // Notified when the last worker finishes a round.
  std::condition_variable done;
  int64_t round = 0;
  int busy = 0;
  bool stop = false;
  const std::function<void(int64_t, int)>* work = nullptr;
  int64_t tasks = 0;
  std::atomic<int64_t> next = 0;
  std::exception_ptr thrown;
  std::vector<std::thread> threads;

  void TakeTasks(int worker) {
    try {
      for (int64_t task = next++; task < tasks; task = next++) {
        (*work)(task, worker);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
      next = tasks;  // no further task starts
    }
  }

  void Loop(int worker) {
    int64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      start.wait(lock, [&] { return stop || round != seen; });
      if (stop) return;
      seen = round;
      lock.unlock();
      TakeTasks(worker);
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : shared_(std::make_unique<Shared>()) {
  threads = ThreadsOr(threads);
  shared_->threads.reserve(static_cast<size_t>(threads));
  try {
    for (int i = 1; i < threads; ++i) {
      shared_->threads.emplace_back([this, i] { shared_->Loop(i); });
    }
  } catch (const std::exception&) {
    // The system refuses another thread because of a limit on processes or
    // memory. The threads that were started do all of the work.
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->start.notify_all();
  for (std::thread& thread : shared_->threads) thread.join();
}

int ThreadPool::threads() const {
  return static_cast<int>(shared_->threads.size()) + 1;
}

void ThreadPool::Run(int64_t tasks,
                     const std::function<void(int64_t, int)>& f) {
  Shared& s = *shared_;
  if (tasks <= 1 || s.threads.empty()) {
    for (int64_t task = 0; task < tasks; ++task) f(task, 0);
    return;
  }
  {
    const std::lock_guard lock(s.mutex);
    s.work = &f;
    s.tasks = tasks;
    s.next = 0;
    s.busy = static_cast<int>(s.threads.size());
    ++s.round;
  }
  s.start.notify_all();
  s.TakeTasks(0);
  std::unique_lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.busy == 0; });
  if (s.thrown) std::rethrow_exception(std::exchange(s.thrown, nullptr));
}

void ParallelFor(int64_t tasks, int threads,
                 const std::function<void(int64_t task)>& f) {
  const auto most =
      static_cast<int>(std::clamp<int64_t>(tasks, 1, std::max(threads, 1)));
  ThreadPool(most).Run(tasks, [&](int64_t task, int) { f(task); });
}

int ThreadsOr(int wanted) {
  if (wanted > 0) return wanted;
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace shardc
