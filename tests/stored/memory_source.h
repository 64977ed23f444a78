// Arrays in memory that tests write as checkpoints, and the comparison of the
// result.
#ifndef SHARDC_TESTS_STORED_MEMORY_SOURCE_H_
#define SHARDC_TESTS_STORED_MEMORY_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "draws.h"
#include "stored/write.h"

namespace shardc::stored {

using Writer = bool (*)(std::span<const ArrayToWrite>, std::span<const Leaf>,
                        const BoxSource&, const WriteOptions&, Findings&);
inline constexpr Writer kWriters[] = {WriteOrbax, WriteDcp};

// Returns a line `code: message` for each finding.
std::string MessagesOf(const Findings& findings);

int64_t BytesOf(const ArrayToWrite& array);

ArrayToWrite ArrayOf(std::vector<std::string> path, Shape shape,
                     Dtype dtype = Dtype::kF32, Shape chunk = {});

// Holds the arrays in memory, and counts how often each element is read.
class MemorySource : public BoxSource {
 public:
  MemorySource(const std::vector<ArrayToWrite>& arrays, Draws& draws);

  bool Read(size_t array, const Box& box, char* out,
            Findings& findings) const override;

  const std::string& bytes(size_t array) const { return bytes_[array]; }
  int64_t elements() const { return elements_; }
  int64_t largest_bytes() const { return largest_bytes_; }
  void FailAfter(int64_t elements) { fail_after_ = elements; }

 private:
  const std::vector<ArrayToWrite>& arrays_;
  std::vector<std::string> bytes_;
  int64_t fail_after_ = -1;
  mutable std::atomic<int64_t> elements_ = 0;
  mutable std::atomic<int64_t> largest_bytes_ = 0;
};

// Checks that the folder has exactly these arrays with the source's bytes and,
// if WriteOrbax made it, their shardings.
void CompareTree(const std::string& folder,
                 const std::vector<ArrayToWrite>& arrays,
                 const MemorySource& source, bool orbax);

}  // namespace shardc::stored

#endif  // SHARDC_TESTS_STORED_MEMORY_SOURCE_H_
