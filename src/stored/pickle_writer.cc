// Writes pickles, which are programs of a stack machine. The tuple (2, 300) is
//
//   (       MARK
//   K\x02   BININT1, 2
//   M\x2c\x01   BININT2, 300
//   t       TUPLE of everything above the mark
//
// All operations are of protocol 2, which every version of torch reads.
#include "stored/pickle_writer.h"

#include "stored/append_integer.h"

namespace shardc::stored {

PickleWriter::PickleWriter() {
  Op(pickle::kProto);
  out_ += '\x02';
}

void PickleWriter::Int(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  if (value >= 0 && value <= UINT8_MAX) {
    Op(pickle::kBinInt1);
    AppendLittle(out_, bits, 1);
  } else if (value >= 0 && value <= UINT16_MAX) {
    Op(pickle::kBinInt2);
    AppendLittle(out_, bits, 2);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    Op(pickle::kBinInt);
    AppendLittle(out_, bits, 4);
  } else {
    Op(pickle::kLong1);
    out_ += '\x08';
    AppendLittle(out_, bits, 8);
  }
}

void PickleWriter::Text(std::string_view text) {
  const std::string key = "t" + std::string(text);
  if (Recall(key)) return;
  Op(pickle::kBinUnicode);
  AppendLittle(out_, text.size(), 4);
  out_ += text;
  Keep(key);
}

void PickleWriter::Global(std::string_view module, std::string_view name) {
  std::string key = "c";
  key.append(module).append("\n").append(name).append("\n");
  if (Recall(key)) return;
  out_ += key;  // GLOBAL: the letter c, and module and name as lines
  Keep(key);
}

void PickleWriter::Ints(std::span<const int64_t> values) {
  Op(pickle::kMark);
  for (const int64_t value : values) Int(value);
  Op(pickle::kTuple);
}

void PickleWriter::Sizes(std::span<const int64_t> values) {
  Global("torch", "Size");
  Ints(values);
  Op(pickle::kTuple1);
  Op(pickle::kReduce);
}

std::string PickleWriter::Take() {
  Op(pickle::kStop);
  return std::move(out_);
}

bool PickleWriter::Recall(const std::string& key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) return false;
  Op(pickle::kLongBinGet);
  AppendLittle(out_, found->second, 4);
  return true;
}

void PickleWriter::Keep(const std::string& key) {
  const auto number = static_cast<uint32_t>(memo_.size());
  memo_.emplace(key, number);
  Op(pickle::kLongBinPut);
  AppendLittle(out_, number, 4);
}

}  // namespace shardc::stored
