#include "stored/pickle_bytes.h"

#include <bit>

#include "source/little_endian.h"
#include "source/utf8.h"
#include "stored/pickle_operations.h"

namespace shardc::stored {

bool PickleBytes::Refuse(const std::string& what) {
  *why_ = what + " (at byte " + std::to_string(op_at_) + ")";
  return false;
}

bool PickleBytes::Truncated() {
  return Refuse("the pickle ends inside an operation");
}

bool PickleBytes::Begin() {
  using enum pickle::Op;
  if (bytes_.size() < 2 || Byte(0) != kProto || Byte(1) < 2 || Byte(1) > 5) {
    return Refuse("the file does not begin as a pickle of protocol 2 to 5");
  }
  at_ = 2;
  return true;
}

bool PickleBytes::Operation(uint8_t* op) {
  op_at_ = at_;
  if (left() == 0) return Refuse("the pickle ends without a STOP");
  *op = Byte(at_++);
  return true;
}

bool PickleBytes::Unsigned(size_t count, uint64_t* out) {
  if (left() < count) return Truncated();
  *out = LittleEndian(bytes_.substr(at_, count));
  at_ += count;
  return true;
}

bool PickleBytes::Signed(size_t count, int64_t* out) {
  uint64_t value = 0;
  if (!Unsigned(count, &value)) return false;
  if (count > 0 && count < 8 && (value >> (8 * count - 1) & 1) != 0) {
    value |= UINT64_MAX - ((uint64_t{1} << (8 * count)) - 1);
  }
  *out = std::bit_cast<int64_t>(value);
  return true;
}

bool PickleBytes::Line(std::string_view* out) {
  const size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) return Truncated();
  *out = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return true;
}

bool PickleBytes::Text(size_t length_bytes, size_t* begin, uint32_t* length) {
  uint64_t size = 0;
  if (!Unsigned(length_bytes, &size)) return false;
  if (size > left() || size >= UINT32_MAX) return Truncated();
  if (!IsUtf8(bytes_.substr(at_, size))) {
    return Refuse("a text of the pickle is not UTF-8");
  }
  *begin = at_;
  *length = static_cast<uint32_t>(size);
  at_ += size;
  return true;
}

bool PickleBytes::Frame() {
  uint64_t length = 0;
  return Unsigned(8, &length) && (length <= left() || Truncated());
}

}  // namespace shardc::stored
