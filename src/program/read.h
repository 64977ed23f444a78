// Reads a traced program from its JSON.
#ifndef SHARDC_PROGRAM_READ_H_
#define SHARDC_PROGRAM_READ_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "program/program.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/source.h"

namespace shardc::program {

// Returns whether the text is a JSON object with a schema `shardc.program/...`
// in its first 4096 bytes.
bool IsProgram(const SourceRef& source);

// Reads and checks a program: every number of a value is in range and defined
// before its use, and every shape follows from those of the operands. Returns
// nullopt after a finding.
std::optional<Program> ReadProgram(const SourceRef& source, Findings& findings);
std::optional<Program> ReadProgram(const JsonDocument& document,
                                   Findings& findings);

// What the numbers of an attribute count, and so what they are checked against.
enum class AttrForm : uint8_t {
  kDim,     // a dimension of the value `of`
  kDims,    // different dimensions of the value `of`
  kSizes,   // a number of 0 or more for each dimension of the first operand
  kSteps,   // as kSizes, 1 or more
  kPads,    // as kSizes, below 0 as well
  kCount,   // a number of 0 or more
  kFlag,    // true or false
  kList,    // any list of numbers of 0 or more
  kNumber,  // any number
  kPairs    // a list of pairs of any numbers, one after the other
};

// The value to which the numbers of an attribute refer: an operand by its
// index, or the first result.
inline constexpr int kResultValue = -1;

struct AttrRow {
  std::string_view key;
  Attr attr = Attr::kAxes;
  AttrForm form = AttrForm::kDims;
  int of = 0;
  bool optional = false;
};

struct OpRow {
  OpKind kind = OpKind::kConst;
  std::string_view name;
  // The number of operands: at least `least`, and at most `most` unless that is
  // below 0.
  int least = 0, most = -1;
  int results = 1;  // the number of results; below 0 if any number
  std::span<const AttrRow> attributes;
  std::string_view word;  // the key of Op::word; empty if the op has none
  // The keys of the bodies. Of cond, the one key has a list of bodies.
  std::span<const std::string_view> bodies;
};

// Returns the rows in the order of OpKind.
std::span<const OpRow> OpRows();
inline const OpRow& RowOf(OpKind kind) {
  return OpRows()[static_cast<size_t>(kind)];
}
const OpRow* FindOpRow(std::string_view name);
// Returns whether ops may have an attribute that the table does not list: no
// code needs it, or the reader has a case of its own for it.
bool IsUnread(std::string_view key);

// Returns why the shapes of an op's operands, results and bodies do not agree
// with each other or with its attributes; empty if they agree. The attributes
// must be in range, as the table of ops has them.
std::string ShapeFault(const Program& program, const Op& op);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_READ_H_
