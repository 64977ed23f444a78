// Directory: emit. Writes plans, findings, costs and results of verification as
// text, JSON and other formats. The subfolders have the writers.
// Its files include headers of these directories: source, model, plan.
#ifndef SHARDC_EMIT_EMIT_H_
#define SHARDC_EMIT_EMIT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/not_known.h"
#include "plan/plan.h"
#include "source/finding.h"
#include "source/json_writer.h"
#include "source/sink.h"

namespace shardc {

class FileSink;
struct Compiled;

// Writes shardc.plan/v1, or v2 for a plan with stages. The member `diagnostics`
// is written only if there are findings.
void WritePlanJson(const Plan& plan, std::span<const Finding> diagnostics,
                   Sink& out);
// Writes the same bytes as WritePlanJson above, but faster for a large plan.
// One thread writes the plan and leaves a gap for the fingerprint. Another
// thread computes the fingerprint, which then fills the gap. This is done only
// if `threads` is at least 2 and the sink can change bytes that it has written.
void WritePlanJson(const Plan& plan, std::span<const Finding> diagnostics,
                   FileSink& out, int threads);

// Returns the summary that `shardc plan` prints. It has totals, bytes per
// device, the largest replicated parameters, and for each rule the number of
// parameters that it is the first to match. A list of the corrected specs has
// the bytes that each correction adds. Unmatched parameters are listed with the
// rule whose pattern is the most similar.
std::string PlanSummaryText(const Compiled& compiled);

struct TextStyle {
  bool color = false;
};
// Returns one finding as text: level, code, message, place, source line with a
// caret, labels and help.
std::string FindingText(const Finding& finding, const TextStyle& style);

// Returns one line "not known: ..." for each fact; empty without facts.
std::string NotKnownLines(std::span<const NotKnown> facts);

// Writes the members `not_known`, a list of {"what", "params", "bytes",
// "settled_by"}, and `at_least`, which is true if any fact is missing. The
// totals of the object are then lower bounds, and it has no verdict.
void WriteNotKnown(JsonWriter& json, std::span<const NotKnown> facts);

// Writes tables of text.

// A table whose columns are as wide as their widest cell, with two spaces
// between them. In a table that is aligned to the left, the last cell of a row
// may be wider than its column, so that a row of one cell can be a heading.
// Cells are made printable (Printable), because they may hold names of inputs.
class Columns {
 public:
  enum class Align : uint8_t { kLeft, kRight };
  explicit Columns(Align align = Align::kLeft) : align_(align) {}

  void Row(std::vector<std::string> cells);
  std::string Text() const;

 private:
  Align align_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace shardc

#endif  // SHARDC_EMIT_EMIT_H_
