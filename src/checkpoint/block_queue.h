// A queue of the blocks of tensors, from which worker threads take blocks to
// copy. All blocks of a tensor are started before the first block of the next
// tensor.
#ifndef SHARDC_CHECKPOINT_BLOCK_QUEUE_H_
#define SHARDC_CHECKPOINT_BLOCK_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "source/finding.h"
#include "source/thread_pool.h"

namespace shardc {

// `Work` describes a tensor that is being copied; `blocks()` returns the number
// of its blocks. `Scratch` is memory that a worker reuses for all its blocks.
template <typename Work, typename Scratch>
class BlockQueue {
 public:
  // A function that begins the copy of a tensor. It returns null if no part of
  // the tensor has to be copied. It is called under a lock.
  using Begin = std::function<std::shared_ptr<Work>(size_t tensor)>;
  // A function that copies one block. It returns false after a finding (an
  // error). Several threads call it at the same time.
  using Copy = std::function<bool(Work& work, int64_t block, Scratch& scratch,
                                  Findings& findings)>;

  BlockQueue(size_t tensors, Begin begin, Copy copy)
      : tensors_(tensors), begin_(std::move(begin)), copy_(std::move(copy)) {}

  // Copies all blocks. After a block fails, no further block is started, and
  // Run returns false with the findings of the first block that failed.
  bool Run(int threads, Findings& findings) {
    ParallelFor(threads, threads, [this](int64_t) { Worker(); });
    if (!stop_) return true;
    findings.Append(std::move(first_error_));
    return false;
  }

 private:
  void Worker() {
    Scratch scratch;
    for (;;) {
      const auto [work, block] = Next();
      if (work == nullptr) return;
      Findings findings;
      if (copy_(*work, block, scratch, findings)) continue;
      const std::lock_guard lock(mutex_);
      if (!stop_.exchange(true)) first_error_ = std::move(findings);
      return;
    }
  }

  // Returns the next block and its tensor. Returns null if no block is left or
  // if a block has failed.
  std::pair<std::shared_ptr<Work>, int64_t> Next() {
    const std::lock_guard lock(mutex_);
    while (!stop_) {
      if (next_block_ < blocks_) return {work_, next_block_++};
      if (next_tensor_ == tensors_) break;
      work_ = begin_(next_tensor_++);
      next_block_ = 0;
      blocks_ = work_ == nullptr ? 0 : work_->blocks();
    }
    return {nullptr, 0};
  }

  const size_t tensors_;
  const Begin begin_;
  const Copy copy_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;  // guards all members below
  Findings first_error_;
  std::shared_ptr<Work> work_;
  int64_t blocks_ = 0;
  int64_t next_block_ = 0;
  size_t next_tensor_ = 0;
};

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_BLOCK_QUEUE_H_
