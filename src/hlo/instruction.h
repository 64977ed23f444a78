// Room: hlo. Reads the text of programs that XLA has compiled.
// Includes: source.
//
// An instruction is one line of a computation. Here it is split into its parts,
// which are views of the line:
//
//   ROOT %a.1 = f32[8]{0} add(%x, %y), metadata={op_name="f/add"}
//   root  name  type      opcode operands    attributes
#ifndef SHARDC_HLO_INSTRUCTION_H_
#define SHARDC_HLO_INSTRUCTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardc::hlo {

struct Instruction {
  std::string_view name;        // without `%`
  std::string_view type;        // an array's or a tuple's, with layouts
  std::string_view opcode;      // "all-gather-start"
  std::string_view operands;    // between the parentheses
  std::string_view attributes;  // after the parentheses and the comma
  bool root = false;
};

// Splits a line of any opcode. Returns nullopt if the line has another form,
// for example brackets that are not closed.
std::optional<Instruction> SplitInstruction(std::string_view line);

// Takes the next item of a comma-separated list, without blanks and comments
// around it. Commas in brackets and in strings do not separate. Returns false
// at the end of the list.
bool NextItem(std::string_view& list, std::string_view& item);

// Returns the name that an operand (`%x`, `x` or `f32[2]{0} %x`) refers to.
std::string_view NameOfOperand(std::string_view operand);

// Returns the value of an attribute up to the next comma outside brackets and
// strings, or nullopt if the attributes lack it. The value of `replica_groups`
// may continue after that comma, so its callers read on to the end of the
// attributes.
std::optional<std::string_view> AttributeOf(std::string_view attributes,
                                            std::string_view key);
// Returns the value of a member of `{op_name="..." source_line=3}`, whose
// members are separated by blanks; or nullopt if the member is missing. Quotes
// around the value are removed, escapes are kept.
std::optional<std::string_view> MemberOf(std::string_view braces,
                                         std::string_view key);

// Returns the value of the attribute `metadata`, or an empty view without it.
std::string_view MetadataOf(const Instruction& instruction);
// Returns the member `op_name` of an instruction's metadata, without escapes:
// the path of an argument, or the name of an operation. Returns nullopt if the
// metadata has no such member.
std::optional<std::string> OpNameOf(const Instruction& instruction);

// Returns the decimal number at the beginning of the text. Returns nullopt if
// the text does not begin with a digit or `-`, or if the number overflows.
std::optional<int64_t> LeadingNumber(std::string_view text);

// Replaces `\'`, `\"` and `\\` by the second character, and bytes in octal
// (`\303\266`) by the UTF-8 text that they encode.
std::string Unescaped(std::string_view text);

}  // namespace shardc::hlo

#endif  // SHARDC_HLO_INSTRUCTION_H_
