#include "source/sink.h"

#include <algorithm>

namespace shardc {

void Sink::Flush() {
  if (next_ == begin_) return;
  const std::string_view held(begin_, static_cast<size_t>(next_ - begin_));
  next_ = begin_;
  Drain(held);
}

void Sink::Overflow(std::string_view bytes) {
  Flush();
  if (bytes.size() >= static_cast<size_t>(end_ - begin_)) {
    Drain(bytes);
    return;
  }
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
