// Finds the lines of the user's Python program from which HLO instructions
// come. Tables at the start of the HLO text list these lines.
#ifndef SHARDC_HLO_FRAMES_H_
#define SHARDC_HLO_FRAMES_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace shardc::hlo {

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

}  // namespace shardc::hlo

#endif  // SHARDC_HLO_FRAMES_H_
