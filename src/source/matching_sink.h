// A sink that compares the bytes that are written with an expected text.
#ifndef SHARDC_SOURCE_MATCHING_SINK_H_
#define SHARDC_SOURCE_MATCHING_SINK_H_

#include <array>
#include <string_view>

#include "source/sink.h"

namespace shardc {

class MatchingSink final : public Sink {
 public:
  explicit MatchingSink(std::string_view expected)
      : Sink(buffer_), rest_(expected) {}

  // Returns whether exactly the expected bytes were written.
  bool Matches() {
    Flush();
    return matches_ && rest_.empty();
  }

 private:
  void Drain(std::string_view bytes) override {
    matches_ = matches_ && rest_.starts_with(bytes);
    if (matches_) rest_.remove_prefix(bytes.size());
  }

  std::string_view rest_;  // the part of the expected text still to be written
  bool matches_ = true;
  std::array<char, 4096> buffer_;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_MATCHING_SINK_H_
