// Directory: hlo. Reads the HLO text of programs that XLA has compiled.
// Its files include headers of these directories: source.
//
// An instruction is one line of a computation. This header splits the line into
// parts, which are views of the line:
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
  std::string_view type;        // such as "f32[8]{0}", or a tuple of types
  std::string_view opcode;      // such as "all-gather-start"
  std::string_view operands;    // the text between the parentheses
  std::string_view attributes;  // the text after the parentheses and a comma
  bool root = false;
};

// Splits a line into its parts, whatever its opcode is. Returns nullopt if the
// line has another form, for example if a bracket is not closed.
std::optional<Instruction> SplitInstruction(std::string_view line);

// Removes the next item from a comma-separated list and stores it in `item`,
// without the blanks and comments around it. Commas in brackets and in strings
// do not separate items. Returns false at the end of the list.
bool NextItem(std::string_view& list, std::string_view& item);

// Returns the name to which an operand (`%x`, `x` or `f32[2]{0} %x`) refers.
std::string_view NameOfOperand(std::string_view operand);

// Returns the value of an attribute, up to the next comma outside brackets and
// strings; nullopt if there is no such attribute. The value of `replica_groups`
// may continue after this comma, so callers read it up to the end of
// `attributes`.
std::optional<std::string_view> AttributeOf(std::string_view attributes,
                                            std::string_view key);
// Returns the value of a member of a text such as `{op_name="..."
// source_line=3}`, whose members are separated by blanks. Returns nullopt if
// there is no such member. Quotes around the value are removed, and escapes are
// kept.
std::optional<std::string_view> MemberOf(std::string_view braces,
                                         std::string_view key);

// Returns the value of the attribute `metadata`; empty if there is none.
std::string_view MetadataOf(const Instruction& instruction);
// Returns the member `op_name` of an instruction's metadata, with its escapes
// replaced. It is the path of an argument, or the name of an operation. Returns
// nullopt if the metadata has no such member.
std::optional<std::string> OpNameOf(const Instruction& instruction);

// Returns the decimal number at the beginning of the text. Returns nullopt if
// the text does not begin with a digit or `-`, or if the number overflows.
std::optional<int64_t> LeadingNumber(std::string_view text);

// Replaces `\'`, `\"` and `\\` by the second character. Replaces bytes in
// octal, such as `\303\266`, by the UTF-8 text that they encode.
std::string Unescaped(std::string_view text);

}  // namespace shardc::hlo

#endif  // SHARDC_HLO_INSTRUCTION_H_
