// Stores the instructions of a compiled program. Each takes 24 bytes: the
// position of its name in the HLO text, and the lengths of its parts.
#ifndef SHARDC_HLO_INSTRUCTIONS_H_
#define SHARDC_HLO_INSTRUCTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hlo/instruction.h"
#include "source/file.h"

namespace shardc::hlo {

// For each instruction, the position in the text and the lengths of its parts.
// Positions have 32 bits. This is enough, because ReadSource() refuses texts
// that are longer than kTextLimitBytes.
class Instructions {
 public:
  Instructions() = default;
  // Creates an empty list. Only instructions whose parts are views of `text`
  // may be added.
  explicit Instructions(std::string_view text) : text_(text.data()) {}

  size_t size() const { return size_; }
  // Returns an instruction whose parts are views of the text.
  Instruction operator[](size_t index) const;
  std::string_view NameOf(size_t index) const;

  // Opcodes are numbered in the order in which they first occur.
  uint32_t OpcodeNumber(size_t index) const { return At(index).opcode; }
  const std::vector<std::string_view>& opcodes() const { return opcodes_; }

  void Add(const Instruction& instruction);

 private:
  static_assert(kTextLimitBytes <= UINT32_MAX);
  // The parts of an instruction are in the order of the text. The position of a
  // part is therefore computed from the lengths of the parts before it.
  struct Row {
    uint32_t begin = 0;  // the position of the name in the text
    uint32_t name = 0, type = 0, operands = 0, attributes = 0;  // lengths
    // The index of the opcode in `opcodes_`.
    uint32_t opcode : 31 = 0;
    uint32_t root : 1 = 0;
  };
  // Rows are allocated in chunks. A vector would need memory for twice as many
  // rows while it grows.
  static constexpr size_t kChunkBits = 14;
  static constexpr size_t kChunk = size_t{1} << kChunkBits;

  const Row& At(size_t index) const {
    return chunks_[index >> kChunkBits][index & (kChunk - 1)];
  }

  const char* text_ = nullptr;
  size_t size_ = 0;
  std::vector<std::unique_ptr<Row[]>> chunks_;
  std::vector<std::string_view> opcodes_;
  // The index in `opcodes_` of each opcode.
  std::unordered_map<std::string_view, uint32_t> numbers_;
};

}  // namespace shardc::hlo

#endif  // SHARDC_HLO_INSTRUCTIONS_H_
