// Directory: hlo. Reads the HLO text of programs that XLA has compiled.
// Its files include headers of these directories: source.
//
// An instruction is one line of a computation. This header splits the line into
// parts, which are views of the line:
//
//   ROOT %a.1 = f32[8]{0} add(%x, %y), metadata={op_name="f/add"}
//   root  name  type      opcode operands    attributes
#ifndef SHARDC_HLO_PROGRAM_H_
#define SHARDC_HLO_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "source/file.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc::hlo {

// Finds the lines of the user's Python program from which HLO instructions
// come. Tables at the start of the HLO text list these lines.

// A line of a Python program. `file` and `function` are views of the HLO text;
// a name that is unknown is empty.
struct SourceLine {
  std::string_view file, function;
  int64_t line = 0;
  bool operator==(const SourceLine&) const = default;
};

class Frames {
 public:
  // Starts to read the table with this heading, such as `FileNames`. Returns
  // false if no table has the heading.
  bool Begin(std::string_view heading);
  // Adds a line of the current table, such as `2 "model.py"`. Ignores a line
  // that does not begin with the next number of the table. A name that is
  // missing from the line is read as empty, and a missing number as 0.
  void Add(std::string_view line);
  void End() { table_ = Table::kNone; }
  bool reading() const { return table_ != Table::kNone; }

  // Returns the source lines of the calls that lead to an instruction,
  // innermost first; `metadata` is the text `{...}` of the instruction. In
  // newer texts these are the lines of its stack frames, and in older texts its
  // only line. If XLA inlined a loop body, its frames list the same calls
  // again. Each line is therefore returned once. Returns an empty list if no
  // file is known.
  std::vector<SourceLine> StackOf(std::string_view metadata) const;

 private:
  enum class Table : uint8_t { kNone, kFiles, kFunctions, kLocations, kFrames };
  // Numbers of the file and of the function in their tables, and the line.
  struct Location {
    int64_t file = 0, function = 0, line = 0;
  };
  struct Frame {
    int64_t location = 0;
    int64_t parent = 0;  // number of the calling frame; 0 if there is no caller
  };

  SourceLine LineOf(const Frame& frame) const;

  Table table_ = Table::kNone;
  // The four tables. The text numbers their entries from 1, so entry 1 is at
  // index 0.
  std::vector<std::string_view> files_, functions_;
  std::vector<Location> locations_;
  std::vector<Frame> frames_;
};

// Returns whether the line is in an installed package of Python.
bool IsInPackage(const SourceLine& line);

// Returns the innermost line whose file is not in an installed package. If
// every file is in a package, returns the innermost line. Returns an empty
// SourceLine if the stack is empty.
SourceLine UserLine(const std::vector<SourceLine>& stack);

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

struct Computation {
  std::string_view name;
  // Indices into Program::instructions; `end` is exclusive. `root` is the
  // instruction that is marked ROOT, or the last one if none is marked.
  uint32_t begin = 0, end = 0;
  uint32_t root = 0;
  bool empty() const { return begin == end; }
};

struct Program {
  SourceRef source;       // owns the text to which the views refer
  std::string_view name;  // name of the module
  int64_t devices = 1;    // number of partitions times number of replicas
  Instructions instructions;
  std::vector<Computation> computations;
  uint32_t entry = 0;  // index of the ENTRY computation in `computations`
  Frames frames;
  // The index into `computations`, keyed by the name of the computation.
  std::unordered_map<std::string_view, uint32_t> by_name;

  Place PlaceOf(std::string_view part) const;
  // Returns whether the text was written after XLA optimised and scheduled the
  // program. Other texts are of an earlier stage, such as right after
  // partitioning.
  bool IsScheduled() const;
  // Returns whether the first line of the module has tiled layouts, as on TPUs.
  bool HasTiles() const;
};

// Reads a module as `compiled.as_text()` and `--xla_dump_to` write it. Opcodes
// are not checked, and lines that are not instructions are skipped. Returns
// nullopt after a finding:
// - empty: the text is blank
// - limit: the module does not run on 1 to kMostDevices devices
// - foreign-syntax: the text is not a module, has no ENTRY computation, defines
//   a computation twice, ends inside a computation, or has brackets that do not
//   match
std::optional<Program> ReadProgram(const SourceRef& source, Findings& findings);

}  // namespace shardc::hlo

#endif  // SHARDC_HLO_PROGRAM_H_
