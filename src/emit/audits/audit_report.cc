// Prints an audit as a table. By default, collectives share a row if they are
// of the same kind, send the same tensor over the same axes, and come from the
// same source line and pass of the step. The rows are in descending order of
// bytes, and the total follows. The last lines name the instructions that make
// the total inexact, such as loops with an unknown number of iterations. For
// example, two lines for a compiled program of one step are:
//
//   sent per device  axes  times  bytes    phase    what  shape    line
//     all_gather     fsdp  12     96 KiB   forward  gate  f32[32]  m.py:28
//     total                       160 KiB
#include "emit/audits/audit_report.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "audit/audit.h"
#include "audit/growth.h"
#include "emit/costs/cost_report.h"
#include "emit/findings/formats.h"
#include "source/json_writer.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Writes the members `collective`, `axes` and `group_size`. `axes` is null if
// the collective's groups of devices are not the groups along any axes of the
// mesh.
void WriteGroup(JsonWriter& json, const audit::Traffic& one) {
  json.Members(
      "collective", CollectiveName(one.kind), "axes",
      one.members->named ? std::optional(one.members->axes) : std::nullopt,
      "group_size", one.members->size);
}

using audit::By;
using audit::Remark;
using audit::Report;
using audit::Row;
using audit::Traffic;

// Lines below the table name the instructions that make the total inexact, for
// example loops with an unknown number of iterations. This is the largest
// number of instructions that one line names.
constexpr size_t kRemarks = 5;

std::string TimeText(const Report& report,
                     const std::optional<double>& seconds) {
  if (report.profile == nullptr) return "";
  return seconds ? SecondsText(*seconds) : "-";
}

std::string SentText(const Row& row, By by) {
  const bool most = by == By::kAll && row.example->at_most;
  return (most ? "at most " : "") + BytesText(row.sent);
}

std::vector<std::string> FullCells(const Report& report, const Row& row) {
  const Traffic& one = *row.example;
  const std::string_view phase = audit::PhaseName(one.phase);
  return {"  " + std::string(CollectiveName(one.kind)),
          one.members->text,
          CountText(row.times),
          SentText(row, By::kAll),
          TimeText(report, row.seconds),
          phase.empty() ? "-" : std::string(phase),
          Printable(MovedText(one.moved)),
          Printable(one.moved.shape),
          Printable(audit::LineText(one.line))};
}

std::string TableText(const Report& report, By by) {
  const bool full = by == By::kAll;
  const std::string time = report.profile == nullptr ? "" : "time";
  Columns table;
  if (full) {
    table.Row({"sent per device", report.mesh ? "axes" : "group", "times",
               "bytes", time, "phase", "what", "shape", "line"});
  } else {
    const auto name = audit::kByNames[static_cast<size_t>(by)];
    table.Row({"sent per device by " + std::string(name), "times", "bytes",
               "share", time});
  }
  for (const Row& row : Tabulate(report, by)) {
    if (full) {
      table.Row(FullCells(report, row));
    } else {
      table.Row({"  " + row.key, CountText(row.times), SentText(row, by),
                 report.sent > 0 ? ShareText(row.sent, report.sent) : "-",
                 TimeText(report, row.seconds)});
    }
  }
  std::vector<std::string> total = {"  total"};
  if (full) total.emplace_back();
  total.insert(total.end(), {"", BytesText(report.sent)});
  if (!full) total.emplace_back();
  total.push_back(TimeText(report, report.seconds));
  table.Row(std::move(total));
  return table.Text();
}

std::string RemarkText(const Remark& remark) {
  std::string out = "`" + Printable(remark.name) + "`";
  if (!remark.line.file.empty()) {
    out += " at " + Printable(audit::LineText(remark.line));
  }
  return out;
}

// Returns one line: the words `before`, and then the names of the first
// kRemarks instructions of the list. Returns an empty text if the list is
// empty.
std::string RemarksText(std::string_view before, std::span<const Remark> all) {
  if (all.empty()) return "";
  std::string out =
      std::string(before) + " " + Join(First(all, kRemarks), ", ", RemarkText);
  if (all.size() > kRemarks) {
    out += " and " + CountText(static_cast<int64_t>(all.size() - kRemarks)) +
           " more";
  }
  return out + "\n";
}

bool HasUntimed(const Report& report) {
  return report.profile != nullptr &&
         std::ranges::any_of(report.traffic, [](const Traffic& one) {
           return !one.seconds && one.sent.value() > 0;
         });
}

std::string GrowthText(const AuditText& how) {
  if (!how.growth) return "";
  if (how.growth->empty()) return "no more than in the earlier audit\n";
  Columns table;
  table.Row({"more than in the earlier audit", "axes", "before", "now",
             "most of it", "shape", "function"});
  for (const audit::Growth& one : *how.growth) {
    const auto& cause = one.cause;
    table.Row({"  " + one.route.first, one.route.second, BytesText(one.before),
               BytesText(one.after), cause.what, cause.shape,
               cause.function.empty() ? "-" : cause.function});
  }
  return table.Text();
}

std::string DriftText(const AuditText& how) {
  if (!how.drifts) return "";
  const audit::Drifts& drifts = *how.drifts;
  const int64_t all = drifts.compared + std::ssize(drifts.skipped);
  const std::string compared = CountText(drifts.compared) + " of " +
                               Counted(all, "argument") + " compared";
  if (drifts.compared == 0) {
    return compared + " with the plan: " +
           (drifts.has_shardings
                ? "no argument has the name and the shape of a parameter"
                : "the text states no shardings of arguments") +
           "\n";
  }
  std::string skipped = drifts.skipped.empty() ? "" : "not compared: ";
  skipped +=
      Join(First(drifts.skipped, kRemarks), ", ",
           [](const std::string& name) { return Quote(Printable(name)); });
  if (drifts.skipped.size() > kRemarks) {
    skipped +=
        " and " +
        CountText(std::ssize(drifts.skipped) - static_cast<int64_t>(kRemarks)) +
        " more";
  }
  if (!skipped.empty()) skipped += "\n";
  if (drifts.all.empty()) {
    return compared + " with the plan, and sharded as planned\n" + skipped;
  }
  Columns table;
  table.Row({"sharded in another way than planned", "planned", "compiled"});
  for (const audit::Drift& one : drifts.all) {
    table.Row({"  " + one.argument, SpecText(one.planned),
               one.actual ? SpecText(*one.actual) : one.sharding});
  }
  const auto same = drifts.compared - std::ssize(drifts.all);
  return table.Text() + "  " + compared + " with the plan, " + CountText(same) +
         " sharded as planned\n" + skipped;
}

void WriteTraffic(JsonWriter& json, const Report& report, const Traffic& one) {
  json.BeginObject();
  WriteGroup(json, one);
  json.Members(
      "times", one.times.value(), "calls", one.calls.value(),
      "bytes_per_device", one.sent.value(), "at_most", one.at_most, "seconds",
      one.seconds, "phase", TextOrNull(audit::PhaseName(one.phase)), "what",
      audit::WhatName(one.moved.what), "parameter", TextOrNull(one.moved.name),
      "shape", one.moved.shape, "scope", TextOrNull(one.scope), "line",
      WrittenBy(WriteSourceLine, one.line));
  json.Array("stack", report.frames->StackOf(one.metadata),
             [&](const auto& line) { WriteSourceLine(json, line); });
  json.EndObject();
}

void WriteRemarks(JsonWriter& json, std::string_view key,
                  std::span<const Remark> all) {
  json.Rows(key, all, [&](const Remark& remark) {
    json.Members("instruction", remark.name, "line",
                 WrittenBy(WriteSourceLine, remark.line));
  });
}

void WriteDrifts(JsonWriter& json, const AuditText& how) {
  if (!how.drifts) return;
  json.Members("arguments_compared", how.drifts->compared, "arguments_skipped",
               how.drifts->skipped);
  json.Rows("drift", how.drifts->all, [&](const audit::Drift& one) {
    json.Members("argument", one.argument, "parameter", one.parameter,
                 "planned", WrittenBy(WriteSpec, one.planned), "compiled",
                 one.actual ? std::optional(WrittenBy(WriteSpec, *one.actual))
                            : std::nullopt,
                 "sharding", one.sharding);
  });
}

void WriteGrowth(JsonWriter& json, const AuditText& how) {
  if (!how.growth) return;
  json.Rows("growth", *how.growth, [&](const audit::Growth& one) {
    json.Members("collective", one.route.first, "over", one.route.second,
                 "before", one.before, "after", one.after, "what",
                 one.cause.what, "shape", one.cause.shape, "function",
                 TextOrNull(one.cause.function));
  });
}

}  // namespace

std::string_view BoundName(const Report& report) {
  const bool ragged = std::ranges::any_of(
      report.traffic, [](const Traffic& one) { return one.at_most; });
  const bool most = ragged || !report.conditionals.empty();
  if (report.unknown_loops.empty()) return most ? "at_most" : "exact";
  return most ? "unknown" : "at_least";
}

namespace {

std::string NeedsText(const std::vector<audit::LineNeeds>& needs) {
  Columns table;
  table.Row({"compared with the traced program", "", "", "needed", "sent"});
  Size needed = 0;
  Size sent = 0;
  for (const audit::LineNeeds& one : needs) {
    needed += one.needed;
    sent += one.sent;
    table.Row({"  " + (one.line.empty() ? "an unknown line" : one.line) +
                   (one.ops.empty() ? "" : " " + one.ops),
               std::string(CollectiveName(one.kind)), one.axes,
               BytesText(one.needed), BytesText(one.sent)});
  }
  table.Row(
      {"  total", "", "", BytesText(needed.value()), BytesText(sent.value())});
  return table.Text();
}

void WriteNeeds(JsonWriter& json, const std::vector<audit::LineNeeds>& needs) {
  json.Rows("needs", needs, [&](const audit::LineNeeds& one) {
    json.Members("line", TextOrNull(one.line), "ops", one.ops, "collective",
                 CollectiveName(one.kind), "axes", one.axes, "needed_bytes",
                 one.needed, "sent_bytes", one.sent);
  });
}

}  // namespace

std::string AuditReportText(const Report& report, const AuditText& how) {
  std::string out =
      Printable(report.program) + " on " + Counted(report.devices, "device");
  if (report.mesh) out += ", " + MeshText(*report.mesh);
  out += ": " + Counted(report.calls, "collective") + " per device\n";
  out += TableText(report, how.by) + DriftText(how) + GrowthText(how);
  if (how.compared) out += DifferenceText(*how.compared);
  if (how.needs) out += NeedsText(*how.needs);
  out += RemarksText(
      "at least: a loop that runs an unknown number of times counts once:",
      report.unknown_loops);
  out += RemarksText(
      "at most: of a conditional, the branch that sends most counts:",
      report.conditionals);
  out +=
      RemarksText("not counted, to or from the host:", report.host_transfers);
  if (HasUntimed(report)) {
    out += "no time is known of groups that are no axes of the mesh\n";
  }
  if (!report.mesh && report.sent > 0) {
    out += "`--mesh` or `--plan` names the axes of the groups\n";
  }
  return out;
}

void WriteAuditJson(const Report& report, const AuditText& how, Sink& out) {
  const By by = how.by;
  WriteDocument(out, "shardc.audit/v1", [&](JsonWriter& json) {
    json.Members(
        "program", report.program, "devices", report.devices, "mesh",
        report.mesh ? std::optional(WrittenBy(WriteMesh, *report.mesh,
                                              MeshDetail::kSizes))
                    : std::nullopt,
        "profile",
        TextOrNull(report.profile == nullptr ? "" : report.profile->name),
        "total",
        Record("bytes_per_device", report.sent, "calls", report.calls,
               "seconds", report.seconds, "bound", BoundName(report)),
        "by", audit::kByNames[static_cast<size_t>(by)]);
    json.Key("rows");
    json.BeginArray(JsonLayout::kLines);
    // For By::kAll the member `rows` is an empty list, because the member
    // `collectives` already has each collective.
    const auto rows =
        by == By::kAll ? std::vector<Row>() : Tabulate(report, by);
    for (const Row& row : rows) {
      json.Object("key", row.key, "times", row.times, "calls", row.calls,
                  "bytes_per_device", row.sent, "seconds", row.seconds);
    }
    json.EndArray();
    json.Lines("collectives", report.traffic,
               [&](const Traffic& one) { WriteTraffic(json, report, one); });
    WriteRemarks(json, "unknown_loops", report.unknown_loops);
    WriteRemarks(json, "conditionals", report.conditionals);
    WriteRemarks(json, "host_transfers", report.host_transfers);
    json.Member("findings", WrittenBy(WriteFindings, how.findings));
    WriteDrifts(json, how);
    WriteGrowth(json, how);
    if (how.compared) WriteDifferenceMembers(json, *how.compared);
    if (how.needs) WriteNeeds(json, *how.needs);
  });
}

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
  json.Rows(key, all, [&](const Unmatched& one) {
    json.Members(
        "collective", CollectiveName(one.kind), "over", one.over, "phase",
        one.phase == audit::Phase::kNone
            ? std::nullopt
            : std::optional(audit::PhaseName(one.phase)),
        "times", one.count, "bytes_per_device", one.bytes, "what", one.what,
        "line",
        WrittenBy(WriteSourceLine,
                  one.from == nullptr ? hlo::SourceLine() : one.from->line),
        "reason", TextOrNull(one.reason));
  });
}

}  // namespace

std::string RewritesText(uint8_t rewrites) {
  std::string out;
  for (size_t i = 0; i < std::size(audit::kRewriteNames); ++i) {
    if ((rewrites >> i & 1) == 0) continue;
    AppendItem(out, ", ", audit::kRewriteNames[i]);
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
  json.Object("file", line.file, "line", line.line, "function",
              TextOrNull(line.function));
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
  json.Members("mode", step.mode, "batch", step.batch, "length", step.length,
               "element_bytes", step.element_bytes, "keep_gathered",
               step.keep_gathered, "equal", difference.empty());
  json.Rows("routes", difference.routes, [&](const RouteCompared& one) {
    json.Members("collective", CollectiveName(one.kind), "over", one.over,
                 "planned_times", one.planned_count, "planned_bytes_per_device",
                 one.planned_bytes, "times", one.count, "bytes_per_device",
                 one.bytes, "status", StatusText(one));
    json.Key("rewrites");
    json.BeginArray();
    for (size_t i = 0; i < std::size(audit::kRewriteNames); ++i) {
      if ((one.rewrites >> i & 1) != 0) json.String(audit::kRewriteNames[i]);
    }
    json.EndArray();
  });
  WriteUnmatched(json, "missing", difference.missing);
  WriteUnmatched(json, "extra", difference.extra);
  json.Member("numbers_not_compared", difference.numbers);
  json.EndObject();
}

// Writes the committed summary of an audit, which lists the collectives of a
// compiled program. Collectives that send bytes share one entry if they have
// the same kind and axes and send the same tensor in the same function. For
// example, all gathers of the parameter `up` in the function `layer` share this
// entry:
//
//   {"collective": "all_gather", "axes": ["fsdp"], "group_size": 2,
//    "bytes_per_device": 98304, "what": "parameter", "parameter": "up",
//    "shape": "f32[32,64]", "line": {"function": "layer"}}
//
// An entry has neither line numbers nor the number of its collectives, because
// both change with the compiler and with edits of other code.

namespace {

using audit::Traffic;

struct Entry {
  const Traffic* first = nullptr;
  int64_t bytes = 0;
};

void WriteEntry(JsonWriter& json, const Entry& entry) {
  const Traffic& one = *entry.first;
  json.BeginObject();
  WriteGroup(json, one);
  json.Members("bytes_per_device", entry.bytes, "what",
               audit::WhatName(one.moved.what), "parameter",
               TextOrNull(one.moved.name), "shape", one.moved.shape, "line",
               Record("function", TextOrNull(one.line.function)));
  json.EndObject();
}

}  // namespace

void WriteAuditLock(const audit::Report& report, bool scheduled, Sink& out) {
  using Key = std::tuple<audit::TrafficRoute, audit::What, std::string,
                         std::string, std::string_view>;
  std::map<Key, Entry> entries;
  for (const Traffic& one : report.traffic) {
    if (one.sent.value() == 0) continue;
    Entry& entry = entries[{audit::RouteOf(one), one.moved.what, one.moved.name,
                            one.moved.shape, one.line.function}];
    if (entry.first == nullptr) entry.first = &one;
    entry.bytes += one.sent.value();
  }
  WriteDocument(out, audit::kLockSchema, [&](JsonWriter& json) {
    json.Members("program", report.program, "devices", report.devices, "stage",
                 audit::StageName(scheduled));
    json.Key("collectives");
    json.BeginArray(JsonLayout::kLines);
    for (const auto& [key, entry] : entries) WriteEntry(json, entry);
    json.EndArray();
    std::set<audit::LockedFlaw> flaws;
    for (const audit::Flaw& flaw : report.flaws) {
      flaws.insert(audit::LockedOf(flaw));
    }
    json.Rows("findings", flaws, [&](const audit::LockedFlaw& flaw) {
      json.Members("code", flaw.code, "parameter", TextOrNull(flaw.parameter),
                   "function", TextOrNull(flaw.function), "axis",
                   Given(flaw.axis));
    });
  });
}

}  // namespace shardc
