#include "source/sink.h"

#include <algorithm>

namespace shardc {

void Sink::Flush() {
  if (next_ == begin_) return;
  const std::string_view held(begin_, static_cast<size_t>(next_ - begin_));
  next_ = begin_;
  Drain(held);
}

// Passes only complete buffers to Drain(), so that the writes to a file end
// where its pages end. After a write that ends inside a page, the kernel has to
// look up that page again for the next write.
void Sink::Overflow(std::string_view bytes) {
  const auto size = static_cast<size_t>(end_ - begin_);
  const auto take = [&](size_t count) {
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  };
  const std::string_view first = take(static_cast<size_t>(end_ - next_));
  std::memcpy(next_, first.data(), first.size());
  next_ = end_;
  Flush();
  if (bytes.size() >= size) Drain(take(bytes.size() / size * size));
  std::memcpy(next_, bytes.data(), bytes.size());
  next_ += bytes.size();
}

void Sink::Fill(size_t count, char c) {
  while (count > 0) {
    if (next_ == end_) Flush();
    const size_t some = std::min(count, static_cast<size_t>(end_ - next_));
    std::memset(next_, c, some);
    next_ += some;
    count -= some;
  }
}

}  // namespace shardc
