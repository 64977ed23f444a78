// Reads a traced program from its JSON. A program that is read can then be
// checked for running, and parts of its dimensions can get dimensions of their
// own.
#ifndef SHARDC_PROGRAM_READ_H_
#define SHARDC_PROGRAM_READ_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/legal_sizes.h"
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

// Checks that a program can be run, beyond what factor analysis needs.

// Returns the bits of an integer dtype, negative if it is unsigned, or 0 for
// all other dtypes. BOOL is no integer here, and I64 has the 53 bits that a
// double holds exactly: a run computes modulo 2^53.
int IntegerBits(Dtype dtype);

// Returns whether nothing is known of an op: its primitive, or its function,
// has no definition here. A stand-in runs in its place, which depends on all
// elements of all operands.
bool IsOpaque(const Program& program, const Op& op);
// Returns the primitive or the function of which nothing is known, such as
// `fft`.
std::string OpaqueName(const Op& op);

// Returns what is malformed beyond shapes, with the line of the op: a manual
// region or a collective, or a window that leaves its operand. Returns nullopt
// if nothing is.
std::optional<std::string> FormFault(const Program& program);
// Returns why a program cannot be run: what FormFault() finds, or numbers that
// doubles do not represent. Returns nullopt if it can.
std::optional<std::string> RunFault(const Program& program);

// Returns about how many multiplications a run has, or other steps that take as
// long. A `while` loop counts as one turn.
double WorkOf(const Program& program);

// Gives the parts of a dimension a dimension of their own.

// Returns the same program with two dimensions in place of each dimension that
// has parts, for the parameters and for all values that have the same factors:
// a projection [64, 3 * 128] in 3 parts becomes [64, 3, 128], and so does its
// result. An axis that shards the last dimension then shards each part, which
// no spec of the joined dimension can say. `parts` has the parts of each
// parameter, in the order of the program's inputs, and must divide its shape.
Program SplitParts(const Program& program,
                   const std::vector<EqualParts>& parts);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_READ_H_
