// Destinations of output bytes: a string, a file or a digest. A sink first
// copies short writes to its buffer, so that writing one byte usually needs no
// virtual call.
#ifndef SHARDC_SOURCE_SINK_H_
#define SHARDC_SOURCE_SINK_H_

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace shardc {

class Sink {
 public:
  virtual ~Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void Put(char c) {
    if (next_ == end_) {
      Overflow({&c, 1});
    } else {
      *next_++ = c;
    }
  }
  void Append(std::string_view bytes) {
    if (bytes.size() > static_cast<size_t>(end_ - next_)) {
      Overflow(bytes);
    } else if (!bytes.empty()) {
      std::memcpy(next_, bytes.data(), bytes.size());
      next_ += bytes.size();
    }
  }
  void Fill(size_t count, char c);

  // Passes the buffered bytes to Drain().
  void Flush();

 protected:
  // `buffer` belongs to the derived class and is not empty; the constructor
  // only stores its address.
  explicit Sink(std::span<char> buffer)
      : begin_(buffer.data()), next_(begin_), end_(begin_ + buffer.size()) {}
  // Receives the next bytes, in order.
  virtual void Drain(std::string_view bytes) = 0;

 private:
  void Overflow(std::string_view bytes);

  char* begin_;
  char* next_;
  char* end_;
};

// Appends to `out`, which is complete after Flush or destruction.
class StringSink final : public Sink {
 public:
  explicit StringSink(std::string& out) : Sink(buffer_), out_(out) {}
  ~StringSink() override { Flush(); }

 private:
  void Drain(std::string_view bytes) override { out_.append(bytes); }

  std::string& out_;
  std::array<char, 512> buffer_;
};

// Returns the text that `write(Sink&)` writes.
template <class Write>
std::string TextOf(const Write& write) {
  std::string out;
  StringSink sink(out);
  write(static_cast<Sink&>(sink));
  sink.Flush();
  return out;
}

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

#endif  // SHARDC_SOURCE_SINK_H_
