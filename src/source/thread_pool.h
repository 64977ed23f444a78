// Runs independent tasks on several threads. A task must write only its own
// data, so that results do not depend on the number of threads.
#ifndef SHARDC_SOURCE_THREAD_POOL_H_
#define SHARDC_SOURCE_THREAD_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>

namespace shardc {

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

#endif  // SHARDC_SOURCE_THREAD_POOL_H_
