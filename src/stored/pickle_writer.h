// Writes Python pickles of protocol 2.
#ifndef SHARDC_STORED_PICKLE_WRITER_H_
#define SHARDC_STORED_PICKLE_WRITER_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "stored/pickle_operations.h"

namespace shardc::stored {

// Builds a pickle. Op appends a single operation. Int, Text, Global, Ints and
// Sizes append the operations that push a value. If a text or a global was
// pushed before, it is pushed from the pickle's memo.
class PickleWriter {
 public:
  PickleWriter();

  void Op(pickle::Op op) { out_ += static_cast<char>(op); }
  void Int(int64_t value);
  // Pushes a text in UTF-8 of less than 4 GiB.
  void Text(std::string_view text);
  void Global(std::string_view module, std::string_view name);
  void Ints(std::span<const int64_t> values);   // pushes a tuple
  void Sizes(std::span<const int64_t> values);  // pushes a torch.Size
  // Ends the pickle and returns it.
  std::string Take();

 private:
  // If the memo has the value, pushes the value and returns true. Otherwise
  // returns false, and the caller must push the value and call Keep.
  bool Recall(const std::string& key);
  void Keep(const std::string& key);

  std::string out_;
  std::map<std::string, uint32_t> memo_;
};

}  // namespace shardc::stored

#endif  // SHARDC_STORED_PICKLE_WRITER_H_
