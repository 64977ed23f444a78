#include "exec/machine/thread_pool.h"

#include <doctest/doctest.h>

#include <atomic>
#include <vector>

namespace shardc::exec {
namespace {

TEST_CASE("every task runs once, on a worker that exists") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (const int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      std::atomic<int> strangers = 0;
      pool.Run(tasks, [&](int64_t task, int worker) {
        ++runs[static_cast<size_t>(task)];
        if (worker < 0 || worker >= threads) ++strangers;
      });
      for (const auto& n : runs) CHECK(n == 1);
      CHECK(strangers == 0);
    }
  }
}

TEST_CASE("rounds follow each other without losing a task") {
  ThreadPool pool(3);
  int64_t total = 0;
  for (int round = 0; round < 2000; ++round) {
    std::atomic<int64_t> sum = 0;
    pool.Run(5, [&](int64_t task, int) { sum += task; });
    total += sum;
  }
  CHECK(total == 20000);
}

TEST_CASE("a worker's tasks never overlap, so it may own scratch memory") {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<int> overlaps = 0;
  pool.Run(500, [&](int64_t, int worker) {
    if (++inside[static_cast<size_t>(worker)] != 1) ++overlaps;
    --inside[static_cast<size_t>(worker)];
  });
  CHECK(overlaps == 0);
}

TEST_CASE("the default is one thread per processor") {
  CHECK(ThreadPool().threads() >= 1);
}

}  // namespace
}  // namespace shardc::exec
