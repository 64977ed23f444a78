// Reads the operations of a pickle, and the operands that follow them, from its
// bytes.
#ifndef SHARDC_STORED_PICKLE_BYTES_H_
#define SHARDC_STORED_PICKLE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardc::stored {

// A reader with a position in the bytes. All functions that return bool return
// false after they have called Refuse().
class PickleBytes {
 public:
  // `bytes` and `why` must outlive the reader.
  PickleBytes(std::string_view bytes, std::string* why)
      : bytes_(bytes), why_(why) {}

  // Sets `*why` to the reason why the pickle is refused, with the place of the
  // current operation. Returns false.
  bool Refuse(const std::string& what);

  // Reads the operation PROTO, with which pickles of protocol 2 to 5 begin.
  bool Begin();
  // Reads the next operation.
  bool Operation(uint8_t* op);

  // Reads an unsigned integer of `count` bytes, low byte first.
  bool Unsigned(size_t count, uint64_t* out);
  // Reads a signed integer (two's complement) of at most 8 bytes.
  bool Signed(size_t count, int64_t* out);
  // Reads a line, and skips the newline that ends the line.
  bool Line(std::string_view* out);
  // Reads the length of a text, which is an integer of `length_bytes` bytes,
  // and skips the text. Sets `*begin` to the position of the text.
  bool Text(size_t length_bytes, size_t* begin, uint32_t* length);
  // Reads the length of a frame. Refuses the pickle if fewer bytes remain.
  bool Frame();

  // Returns the number of bytes that have not been read yet.
  size_t left() const { return bytes_.size() - at_; }

 private:
  bool Truncated();
  uint8_t Byte(size_t at) const { return static_cast<uint8_t>(bytes_[at]); }

  std::string_view bytes_;
  std::string* why_;
  size_t at_ = 0;
  size_t op_at_ = 0;  // start of the current operation
};

}  // namespace shardc::stored

#endif  // SHARDC_STORED_PICKLE_BYTES_H_
