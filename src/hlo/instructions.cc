// Stores the instructions of a program in little memory. Each instruction has a
// row with the position of its name in the text and the lengths of its parts.
// To find the parts after the name, the characters between parts are skipped in
// the text. For example, the name of this instruction is `a.1`:
//
//   ROOT %a.1 = f32[8]{0} add(%x, %y), metadata={...}
//
// The type begins after the name, the three characters ` = ` and any further
// blanks. The attributes begin after the operands, `)` and a comma.
#include "hlo/instructions.h"

#include <utility>

namespace shardc::hlo {
namespace {

const char* AfterBlanks(const char* at) {
  while (*at == ' ' || *at == '\t' || *at == '\r') ++at;
  return at;
}

}  // namespace

Instruction Instructions::operator[](size_t index) const {
  const Row& row = At(index);
  Instruction out;
  const char* at = text_ + row.begin;
  out.name = {at, row.name};
  at = AfterBlanks(at + row.name + 3);
  out.type = {at, row.type};
  at = AfterBlanks(at + row.type);
  out.opcode = opcodes_[row.opcode];
  at += out.opcode.size() + 1;
  out.operands = {at, row.operands};
  at += row.operands + 1;
  // The operands of an instruction without attributes may end the text, so no
  // character after them is read.
  if (row.attributes > 0) {
    if (*at == ',') ++at;
    out.attributes = {at, row.attributes};
  }
  out.root = row.root != 0;
  return out;
}

std::string_view Instructions::NameOf(size_t index) const {
  const Row& row = At(index);
  return {text_ + row.begin, row.name};
}

void Instructions::Add(const Instruction& instruction) {
  if (size_ >> kChunkBits == chunks_.size()) {
    chunks_.push_back(std::make_unique<Row[]>(kChunk));
  }
  const auto [number, added] = numbers_.try_emplace(
      instruction.opcode, static_cast<uint32_t>(opcodes_.size()));
  if (added) opcodes_.push_back(instruction.opcode);
  const auto length = [](std::string_view part) {
    return static_cast<uint32_t>(part.size());
  };
  Row& row = chunks_.back()[size_ & (kChunk - 1)];
  row.begin = static_cast<uint32_t>(instruction.name.data() - text_);
  row.name = length(instruction.name);
  row.type = length(instruction.type);
  row.operands = length(instruction.operands);
  row.attributes = length(instruction.attributes);
  row.opcode = number->second & 0x7fffffff;
  row.root = instruction.root ? 1 : 0;
  ++size_;
}

}  // namespace shardc::hlo
