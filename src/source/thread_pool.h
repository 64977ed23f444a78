// Threads that share out independent tasks. A task writes only what is its
// own, so results cannot depend on how many threads there are.
#ifndef SHARDC_SOURCE_THREAD_POOL_H_
#define SHARDC_SOURCE_THREAD_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>

namespace shardc {

class ThreadPool {
 public:
  // `threads` in all, the caller's among them; 0: one per processor. With 1
  // nothing is started. Where the system gives fewer, there are fewer.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls f(task, worker) for every task in [0, tasks), each once, in no
  // particular order; returns when all are done. `worker` in [0, threads())
  // names the thread, for scratch memory. A task must not call Run itself.
  // What a task throws ends the round, and the first of it comes out here.
  void Run(int64_t tasks,
           const std::function<void(int64_t task, int worker)>& f);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

// One round of that: f(task) for every task in [0, tasks), on at most `threads`
// threads, which are started for it.
void ParallelFor(int64_t tasks, int threads,
                 const std::function<void(int64_t task)>& f);

// How many processors there are, at least 1; or `wanted`, where that is more
// than 0.
int ThreadsOr(int wanted);

}  // namespace shardc

#endif  // SHARDC_SOURCE_THREAD_POOL_H_
