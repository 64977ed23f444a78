// A transport whose ranks are threads of one process, for tests.
#ifndef SHARDC_TESTS_EXEC_THREAD_TRANSPORT_H_
#define SHARDC_TESTS_EXEC_THREAD_TRANSPORT_H_

#include <barrier>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/machine/machine.h"

namespace shardc::exec {

class ThreadTransport : public Transport {
 public:
  // The memory that the ranks share.
  struct Board {
    explicit Board(int ranks)
        : meet(ranks), boxes(static_cast<size_t>(ranks)) {}
    std::barrier<> meet;
    std::vector<std::vector<Packet>> boxes;  // by sender
  };

  ThreadTransport(Board& board, int rank) : board_(board), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(board_.boxes.size()); }

  std::vector<Packet> Exchange(std::vector<Packet> out) override {
    board_.boxes[static_cast<size_t>(rank_)] = std::move(out);
    board_.meet.arrive_and_wait();
    std::vector<Packet> in;
    for (const std::vector<Packet>& box : board_.boxes) {
      in.push_back(box[static_cast<size_t>(rank_)]);
    }
    board_.meet.arrive_and_wait();
    return in;
  }
  std::vector<Packet> Share(const Packet& own) override {
    return Exchange(std::vector<Packet>(board_.boxes.size(), own));
  }
  [[noreturn]] void Stop(const std::string&) override { std::abort(); }

 private:
  Board& board_;
  int rank_;
};

// Runs body(transport) on all ranks at the same time, each in a thread.
inline void OnRanks(int ranks, const std::function<void(Transport&)>& body) {
  ThreadTransport::Board board(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&board, &body, rank] {
      ThreadTransport transport(board, rank);
      body(transport);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace shardc::exec

#endif  // SHARDC_TESTS_EXEC_THREAD_TRANSPORT_H_
