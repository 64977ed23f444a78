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
#include <span>
#include <vector>

#include "emit/audits/group_json.h"
#include "emit/costs/columns.h"
#include "emit/costs/figures.h"
#include "emit/findings/json.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

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
  std::string out(before);
  for (size_t i = 0; i < std::min(all.size(), kRemarks); ++i) {
    out += (i == 0 ? " " : ", ") + RemarkText(all[i]);
  }
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
  std::string skipped;
  for (size_t i = 0; i < std::min(drifts.skipped.size(), kRemarks); ++i) {
    skipped += (i == 0 ? "not compared: `" : ", `") +
               Printable(drifts.skipped[i]) + "`";
  }
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
  json.Member("times", one.times.value());
  json.Member("calls", one.calls.value());
  json.Member("bytes_per_device", one.sent.value());
  json.Member("at_most", one.at_most);
  json.Member("seconds", one.seconds);
  json.TextOrNull("phase", audit::PhaseName(one.phase));
  json.Member("what", audit::WhatName(one.moved.what));
  json.TextOrNull("parameter", one.moved.name);
  json.Member("shape", one.moved.shape);
  json.TextOrNull("scope", one.scope);
  json.Key("line");
  WriteSourceLine(json, one.line);
  json.Key("stack");
  json.BeginArray();
  for (const auto& line : report.frames->StackOf(one.metadata)) {
    WriteSourceLine(json, line);
  }
  json.EndArray();
  json.EndObject();
}

void WriteRemarks(JsonWriter& json, std::string_view key,
                  std::span<const Remark> all) {
  json.Key(key);
  json.BeginArray(JsonLayout::kLines);
  for (const Remark& remark : all) {
    json.BeginObject();
    json.Member("instruction", remark.name);
    json.Key("line");
    WriteSourceLine(json, remark.line);
    json.EndObject();
  }
  json.EndArray();
}

void WriteDrifts(JsonWriter& json, const AuditText& how) {
  if (!how.drifts) return;
  json.Member("arguments_compared", how.drifts->compared);
  json.Key("arguments_skipped");
  json.BeginArray();
  for (const std::string& one : how.drifts->skipped) json.String(one);
  json.EndArray();
  json.Key("drift");
  json.BeginArray(JsonLayout::kLines);
  for (const audit::Drift& one : how.drifts->all) {
    json.BeginObject();
    json.Member("argument", one.argument);
    json.Member("parameter", one.parameter);
    json.Key("planned");
    WriteSpec(json, one.planned);
    json.Key("compiled");
    if (one.actual) {
      WriteSpec(json, *one.actual);
    } else {
      json.Null();
    }
    json.Member("sharding", one.sharding);
    json.EndObject();
  }
  json.EndArray();
}

void WriteGrowth(JsonWriter& json, const AuditText& how) {
  if (!how.growth) return;
  json.Key("growth");
  json.BeginArray(JsonLayout::kLines);
  for (const audit::Growth& one : *how.growth) {
    json.BeginObject();
    json.Member("collective", one.route.first);
    json.Member("over", one.route.second);
    json.Member("before", one.before);
    json.Member("after", one.after);
    json.Member("what", one.cause.what);
    json.Member("shape", one.cause.shape);
    json.TextOrNull("function", one.cause.function);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string_view BoundName(const Report& report) {
  const bool ragged = std::ranges::any_of(
      report.traffic, [](const Traffic& one) { return one.at_most; });
  const bool most = ragged || !report.conditionals.empty();
  if (report.unknown_loops.empty()) return most ? "at_most" : "exact";
  return most ? "unknown" : "at_least";
}

std::string AuditReportText(const Report& report, const AuditText& how) {
  std::string out =
      Printable(report.program) + " on " + Counted(report.devices, "device");
  if (report.mesh) out += ", " + MeshText(*report.mesh);
  out += ": " + Counted(report.calls, "collective") + " per device\n";
  out += TableText(report, how.by) + DriftText(how) + GrowthText(how);
  if (how.compared) out += DifferenceText(*how.compared);
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
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", "shardc.audit/v1");
  json.Member("program", report.program);
  json.Member("devices", report.devices);
  json.Key("mesh");
  if (report.mesh) {
    WriteMesh(json, *report.mesh, MeshDetail::kSizes);
  } else {
    json.Null();
  }
  json.TextOrNull("profile",
                  report.profile == nullptr ? "" : report.profile->name);
  json.Key("total");
  json.BeginObject();
  json.Member("bytes_per_device", report.sent);
  json.Member("calls", report.calls);
  json.Member("seconds", report.seconds);
  json.Member("bound", BoundName(report));
  json.EndObject();
  json.Member("by", audit::kByNames[static_cast<size_t>(by)]);
  json.Key("rows");
  json.BeginArray(JsonLayout::kLines);
  // For By::kAll the member `rows` is an empty list, because the member
  // `collectives` already has each collective.
  const auto rows = by == By::kAll ? std::vector<Row>() : Tabulate(report, by);
  for (const Row& row : rows) {
    json.BeginObject();
    json.Member("key", row.key);
    json.Member("times", row.times);
    json.Member("calls", row.calls);
    json.Member("bytes_per_device", row.sent);
    json.Member("seconds", row.seconds);
    json.EndObject();
  }
  json.EndArray();
  json.Key("collectives");
  json.BeginArray(JsonLayout::kLines);
  for (const Traffic& one : report.traffic) WriteTraffic(json, report, one);
  json.EndArray();
  WriteRemarks(json, "unknown_loops", report.unknown_loops);
  WriteRemarks(json, "conditionals", report.conditionals);
  WriteRemarks(json, "host_transfers", report.host_transfers);
  json.Key("findings");
  WriteFindings(json, how.findings);
  WriteDrifts(json, how);
  WriteGrowth(json, how);
  if (how.compared) WriteDifferenceMembers(json, *how.compared);
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
