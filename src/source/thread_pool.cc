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
#include "source/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace shardc {

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
