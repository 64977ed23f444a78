#include "source/text_window.h"

#include <algorithm>
#include <cstring>

#include "source/finding.h"

namespace shardc {

TextWindow::TextWindow(const InputFile& file, size_t bytes)
    : file_(&file),
      buffer_(std::make_unique_for_overwrite<char[]>(bytes)),
      capacity_(bytes),
      end_(0) {
  Advance(0);
}

bool TextWindow::Advance(size_t count) {
  if (file_ == nullptr) return false;
  const size_t kept = text_.size() - count;
  const int64_t unread = file_->size() - end_;
  const size_t more =
      unread <= 0 ? 0 : std::min(capacity_ - kept, static_cast<size_t>(unread));
  if (more == 0) return false;
  std::memmove(buffer_.get(), buffer_.get() + count, kept);
  // The error is not reported here: after a failure the caller reads the
  // complete file, which reports the error.
  Findings unreported;
  if (!file_->ReadAt(end_, buffer_.get() + kept, more, unreported)) {
    text_ = {};
    end_ = file_->size();
    failed_ = true;
    return false;
  }
  text_ = std::string_view(buffer_.get(), kept + more);
  end_ += static_cast<int64_t>(more);
  dropped_ += static_cast<int64_t>(count);
  return true;
}

}  // namespace shardc
