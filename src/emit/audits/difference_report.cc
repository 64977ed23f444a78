// Prints the difference between a compiled program and the step program that
// shardc planned. The first table has a row for each kind of collective and its
// axes. The second table lists the collectives that only one of the two
// programs has. For example:
//
//   compared with the step  axes  planned  bytes   compiled  bytes
//     all_gather            fsdp  16       96 KiB  24        128 KiB  more
//   compiled, not planned   axes  times  bytes   phase     what  line
//     all_gather            fsdp  8      32 KiB  backward  up    m.py:22 layer
//       gathered again for the backward pass
#include "emit/audits/difference_report.h"

#include <optional>
#include <string_view>
#include <vector>

#include "audit/table.h"
#include "emit/costs/columns.h"
#include "emit/findings/json.h"
#include "source/wording.h"

namespace shardc {
namespace {

using audit::Difference;
using audit::RouteCompared;
using audit::Unmatched;

// The largest number of rows in a table of the collectives that only one
// program has: the compiled program, or the planned step program.
constexpr size_t kShown = 20;

std::string RoutesText(const Difference& difference) {
  Columns table;
  table.Row({"compared with the step", "axes", "planned", "bytes", "compiled",
             "bytes", "", "rewritten"});
  for (const RouteCompared& one : difference.routes) {
    table.Row({"  " + std::string(CollectiveName(one.kind)), one.over,
               CountText(one.planned_count), BytesText(one.planned_bytes),
               CountText(one.count), BytesText(one.bytes),
               std::string(StatusText(one)), RewritesText(one.rewrites)});
  }
  return table.Text();
}

std::string PhaseText(audit::Phase phase) {
  const std::string_view name = audit::PhaseName(phase);
  return name.empty() ? "-" : std::string(name);
}

std::string UnmatchedText(std::string_view heading,
                          const std::vector<Unmatched>& all) {
  if (all.empty()) return "";
  const bool compiled = all.front().from != nullptr;
  Columns table;
  table.Row({std::string(heading), "axes", "times", "bytes", "phase", "what",
             compiled ? "line" : ""});
  std::vector<std::string> reasons = {""};
  for (size_t i = 0; i < all.size() && i < kShown; ++i) {
    const Unmatched& one = all[i];
    table.Row({"  " + std::string(CollectiveName(one.kind)), one.over,
               CountText(one.count), BytesText(one.bytes), PhaseText(one.phase),
               one.what, compiled ? audit::LineText(one.from->line) : ""});
    reasons.push_back(
        one.reason.empty() ? "" : "    " + Printable(one.reason) + "\n");
  }
  // Insert each row's reason as a line below the row.
  const std::string rows = table.Text();
  std::string out;
  size_t begin = 0;
  for (const std::string& reason : reasons) {
    const size_t end = rows.find('\n', begin) + 1;
    out += rows.substr(begin, end - begin) + reason;
    begin = end;
  }
  if (all.size() > kShown) {
    out += "  and " + CountText(static_cast<int64_t>(all.size() - kShown)) +
           " more\n";
  }
  return out;
}

void WriteUnmatched(JsonWriter& json, std::string_view key,
                    const std::vector<Unmatched>& all) {
  json.Key(key);
  json.BeginArray(JsonLayout::kLines);
  for (const Unmatched& one : all) {
    json.BeginObject();
    json.Member("collective", CollectiveName(one.kind));
    json.Member("over", one.over);
    json.Member("phase", one.phase == audit::Phase::kNone
                             ? std::nullopt
                             : std::optional(audit::PhaseName(one.phase)));
    json.Member("times", one.count);
    json.Member("bytes_per_device", one.bytes);
    json.Member("what", one.what);
    json.Key("line");
    WriteSourceLine(json,
                    one.from == nullptr ? hlo::SourceLine() : one.from->line);
    json.Member("reason", one.reason.empty()
                              ? std::nullopt
                              : std::optional<std::string_view>(one.reason));
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string RewritesText(uint8_t rewrites) {
  std::string out;
  for (size_t i = 0; i < std::size(audit::kRewriteNames); ++i) {
    if ((rewrites >> i & 1) == 0) continue;
    if (!out.empty()) out += ", ";
    out += audit::kRewriteNames[i];
  }
  return out;
}

std::string_view StatusText(const RouteCompared& one) {
  if (one.same) return "equal";
  if (one.count == 0) return "missing";
  if (one.planned_count == 0) return "extra";
  return one.bytes < one.planned_bytes ? "less" : "more";
}

void WriteSourceLine(JsonWriter& json, const hlo::SourceLine& line) {
  if (line.file.empty()) return json.Null();
  json.BeginObject();
  json.Member("file", line.file);
  json.Member("line", line.line);
  json.Member("function", line.function.empty() ? std::nullopt
                                                : std::optional(line.function));
  json.EndObject();
}

std::string DifferenceText(const StepCompared& compared) {
  const auto& [step, difference] = compared;
  std::string out = RoutesText(difference);
  out += UnmatchedText("planned, not compiled", difference.missing);
  out += UnmatchedText("compiled, not planned", difference.extra);
  if (difference.empty()) {
    out += "the program sends what the " + Printable(step.mode) + " step of " +
           Counted(step.batch, "row") + " of " + Counted(step.length, "token") +
           " does\n";
  } else {
    out += "the step is that of " + Counted(step.batch, "row") + " of " +
           Counted(step.length, "token") + ", mode " + Printable(step.mode) +
           "\n";
  }
  if (difference.other_bits != 0) {
    out += "the program sends elements of " +
           Counted(difference.other_bits, "bit") + ", the step has " +
           CountText(8 * step.element_bytes) +
           ": bytes are compared as if it sent those\n";
  }
  return out;
}

void WriteDifferenceMembers(JsonWriter& json, const StepCompared& compared) {
  const auto& [step, difference] = compared;
  json.Key("difference");
  json.BeginObject(JsonLayout::kLines);
  json.Member("mode", step.mode);
  json.Member("batch", step.batch);
  json.Member("length", step.length);
  json.Member("element_bytes", step.element_bytes);
  json.Member("keep_gathered", step.keep_gathered);
  json.Member("equal", difference.empty());
  json.Key("routes");
  json.BeginArray(JsonLayout::kLines);
  for (const RouteCompared& one : difference.routes) {
    json.BeginObject();
    json.Member("collective", CollectiveName(one.kind));
    json.Member("over", one.over);
    json.Member("planned_times", one.planned_count);
    json.Member("planned_bytes_per_device", one.planned_bytes);
    json.Member("times", one.count);
    json.Member("bytes_per_device", one.bytes);
    json.Member("status", StatusText(one));
    json.Key("rewrites");
    json.BeginArray();
    for (size_t i = 0; i < std::size(audit::kRewriteNames); ++i) {
      if ((one.rewrites >> i & 1) != 0) json.String(audit::kRewriteNames[i]);
    }
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
  WriteUnmatched(json, "missing", difference.missing);
  WriteUnmatched(json, "extra", difference.extra);
  json.Member("numbers_not_compared", difference.numbers);
  json.EndObject();
}

}  // namespace shardc
