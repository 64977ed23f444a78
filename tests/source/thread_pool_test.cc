#include "source/process.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace shardc {
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

TEST_CASE("a loop runs each task once, on no more threads than asked for") {
  for (const int threads : {-1, 0, 1, 3, 50}) {
    for (const int64_t tasks : {0, 1, 5, 200}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      std::atomic<int> inside = 0, most = 0;
      ParallelFor(tasks, threads, [&](int64_t task) {
        const int now = ++inside;
        for (int seen = most; now > seen;) {
          if (most.compare_exchange_weak(seen, now)) break;
        }
        ++runs[static_cast<size_t>(task)];
        --inside;
      });
      for (const auto& n : runs) CHECK(n == 1);
      CHECK(most <= std::max(threads, 1));
    }
  }
}

TEST_CASE("what a task throws comes out, and the pool goes on") {
  for (const int threads : {1, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> runs = 0;
      CHECK_THROWS_AS(pool.Run(100,
                               [&](int64_t task, int) {
                                 ++runs;
                                 if (task == 7) throw std::bad_alloc();
                               }),
                      std::bad_alloc);
      CHECK(runs <= 100);
      pool.Run(100, [&](int64_t, int) { ++runs; });
      CHECK(runs >= 108);
    }
  }
}

TEST_CASE("as many threads as are wanted, or as there are processors") {
  CHECK(ThreadsOr(7) == 7);
  CHECK(ThreadsOr(0) >= 1);
  CHECK(ThreadsOr(-3) == ThreadsOr(0));
  CHECK(ThreadPool().threads() == ThreadsOr(0));
}

}  // namespace
}  // namespace shardc
