// Writes the section of the page about the compiled program of the step. It has
// the program's findings, a row for each collective and tensor, the difference
// from the plan's step program, and the arguments whose sharding differs from
// the plan. A script on the page sorts and filters the rows. Without the
// script, the row with the most bytes comes first.
//
// For example, this row has a source line, a collective, its axis, its phase,
// the tensor, how often the collective runs, and the bytes:
//
//   model.py:22 layer  all_gather  fsdp  forward  up f32[32,64]  4  32 KiB
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "audit/audit.h"
#include "emit/audits/audit_report.h"
#include "emit/costs/cost_report.h"
#include "emit/report/page.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

using audit::RouteCompared;
using audit::Row;
using audit::Traffic;
using audit::Unmatched;

// Lines below the table name the instructions that make the total inexact, for
// example loops with an unknown number of iterations. This is the largest
// number of instructions that one line names.
constexpr size_t kRemarks = 5;

// Returns the text of a source line, with the file's path in the repository. If
// the file is outside of the repository, only its name is returned. A program
// has the paths of the machine that compiled it, and the page must not show
// these paths.
std::string LineOf(const Page& page, const hlo::SourceLine& line) {
  if (line.file.empty()) return "–";
  std::string path = page.in.repository.PathOf(std::string(line.file));
  if (path.starts_with('/')) path = std::string(AfterLast(path, '/'));
  path += ":" + std::to_string(line.line);
  if (!line.function.empty()) path += " " + std::string(line.function);
  return path;
}

// Returns the words that are written before the total: "at least ", "at most "
// or "about ". Returns an empty text if the total is exact.
std::string_view BoundText(const audit::Report& report) {
  const std::string_view bound = BoundName(report);
  if (bound == "exact") return "";
  return bound == "at_least"  ? "at least "
         : bound == "at_most" ? "at most "
                              : "about ";
}

void WriteOver(Page& page, const audit::Members& members) {
  if (members.named) {
    page.Axes(members.axes);
  } else {
    page.html.Name(members.text);
  }
}

// Opens a table cell with the number by which the script sorts. On narrow
// pages, where the head of the table is hidden, the cell shows `label`.
Html& Number(Html& html, int64_t number, std::string_view label) {
  html.Raw("<td class=r data-v=").Number(number);
  return html.Raw(" data-m=\"").Raw(label).Raw("\">");
}

void WriteSentRow(Page& page, const Row& row, int64_t most, bool timed) {
  Html& html = page.html;
  const Traffic& one = *row.example;
  html.Raw("<tr><th scope=row class=n>").Name(LineOf(page, one.line));
  html.Raw("</th><td class=k>").Text(CollectiveName(one.kind));
  html.Raw("</td><td>");
  WriteOver(page, *one.members);
  html.Raw("</td><td class=k>").Text(audit::PhaseName(one.phase));
  html.Raw("</td><td class=n>").Name(audit::MovedText(one.moved));
  html.Raw(" <span class=q>").Name(one.moved.shape).Raw("</span></td>");
  Number(html, row.times, "times").Count(row.times).Raw("</td>");
  Number(html, row.sent, "sends per device");
  html.Raw(one.at_most ? "at most " : "").Bytes(row.sent).Raw("</td><td>");
  Bar(html, row.sent, std::max<int64_t>(1, most), "bar");
  html.Raw("</td>");
  if (timed) {
    const double seconds = row.seconds.value_or(0);
    Number(html, static_cast<int64_t>(seconds * 1e12), "takes");
    html.Text(row.seconds ? SecondsText(seconds) : "–").Raw("</td>");
  }
  html.Raw("</tr>\n");
}

void WriteSent(Page& page, const audit::Report& report) {
  Html& html = page.html;
  const std::vector<Row> rows = Tabulate(report, audit::By::kAll);
  if (rows.empty()) {
    html.Raw("<p>The program sends nothing.</p>\n");
    return;
  }
  html.Raw(
      "<div class=\"tools js\"><label class=v for=find-sent>Filter what the "
      "program sends</label><input type=search id=find-sent data-rows=sent "
      "placeholder=\"filter: line, axis, name\"> <span class=q role=status>"
      "</span></div>\n");
  const bool timed = report.profile != nullptr;
  std::vector<Head> heads = {{"Line"},
                             {"Collective"},
                             {"Over"},
                             {"Phase"},
                             {"What"},
                             {"Times", true},
                             {"Sent per device", true},
                             {""}};
  if (timed) heads.push_back({"Time", true});
  BeginTable(html, "What the program sends", "by sort", heads, "sent");
  const size_t shown = std::min(rows.size(), page.limits.rows);
  for (size_t i = 0; i < shown; ++i) {
    WriteSentRow(page, rows[i], rows[0].sent, timed);
  }
  html.Raw("</tbody><tfoot><tr><th scope=row colspan=6>Total</th><td class=r>");
  html.Raw(BoundText(report)).Bytes(report.sent).Raw("</td><td></td>");
  if (timed) {
    html.Raw("<td class=r>");
    html.Text(report.seconds ? SecondsText(*report.seconds) : "–");
    html.Raw("</td>");
  }
  html.Raw("</tr></tfoot></table></div>\n");
  WriteMore(html, shown, rows.size(), "more row");
}

void WriteRemarks(Page& page, std::string_view before,
                  const std::vector<audit::Remark>& all) {
  if (all.empty()) return;
  Html& html = page.html;
  html.Raw("<p class=q>").Raw(before).Raw(": ");
  for (size_t i = 0; i < std::min(all.size(), kRemarks); ++i) {
    html.Raw(i == 0 ? "<code>" : ", <code>").Name(all[i].name).Raw("</code>");
    if (all[i].line.file.empty()) continue;
    html.Raw(" at ").Name(LineOf(page, all[i].line));
  }
  if (all.size() > kRemarks) {
    html.Raw(" and ").Count(static_cast<int64_t>(all.size() - kRemarks));
    html.Raw(" more");
  }
  html.Raw(".</p>\n");
}

void WriteRoutes(Page& page, const StepCompared& compared) {
  Html& html = page.html;
  BeginTable(html, "Compared with the plan’s step", "by sort",
             {{"Collective"},
              {"Over"},
              {"Planned", true},
              {"Sent per device", true},
              {"Compiled", true},
              {"Sent per device", true},
              {"Result"},
              {"Rewritten"}});
  for (const RouteCompared& one : compared.difference.routes) {
    html.Raw("<tr><th scope=row class=k>").Text(CollectiveName(one.kind));
    html.Raw("</th><td>").Name(one.over).Raw("</td>");
    Number(html, one.planned_count, "planned").Count(one.planned_count);
    html.Raw("</td>");
    Number(html, one.planned_bytes, "planned to send");
    html.Bytes(one.planned_bytes).Raw("</td>");
    Number(html, one.count, "compiled").Count(one.count).Raw("</td>");
    Number(html, one.bytes, "sends").Bytes(one.bytes).Raw("</td><td>");
    html.Raw(one.same ? "<span class=ok>✓ " : "<b>≠ ");
    html.Text(StatusText(one)).Raw(one.same ? "</span>" : "</b>");
    html.Raw("</td><td>").Text(RewritesText(one.rewrites));
    html.Raw("</td></tr>\n");
  }
  EndTable(html);
}

void WriteUnmatched(Page& page, std::string_view title,
                    const std::vector<Unmatched>& all) {
  if (all.empty()) return;
  Html& html = page.html;
  html.Raw("<h3>").Raw(title).Raw("</h3>\n");
  const bool compiled = all.front().from != nullptr;
  std::vector<Head> heads = {{"What"},        {"Collective"},
                             {"Over"},        {"Phase"},
                             {"Times", true}, {"Sent per device", true},
                             {"Reason"}};
  if (compiled) heads.push_back({"Line"});
  BeginTable(html, title, "by sort", heads);
  const size_t shown = std::min(all.size(), page.limits.rows);
  for (size_t i = 0; i < shown; ++i) {
    const Unmatched& one = all[i];
    html.Raw("<tr><th scope=row class=n>").Name(one.what);
    html.Raw("</th><td class=k>").Text(CollectiveName(one.kind));
    html.Raw("</td><td>").Name(one.over).Raw("</td><td class=k>");
    html.Text(audit::PhaseName(one.phase)).Raw("</td>");
    Number(html, one.count, "times").Count(one.count).Raw("</td>");
    Number(html, one.bytes, "sends per device").Bytes(one.bytes);
    html.Raw("</td><td>").Message(one.reason).Raw("</td>");
    if (compiled) {
      html.Raw("<td class=n>");
      html.Name(one.from == nullptr ? "–" : LineOf(page, one.from->line));
      html.Raw("</td>");
    }
    html.Raw("</tr>\n");
  }
  EndTable(html);
  WriteMore(html, shown, all.size(), "more row");
}

void WriteDifference(Page& page, const StepCompared& compared) {
  Html& html = page.html;
  const auto& [step, difference] = compared;
  html.Raw("<h3>Compared with the plan’s step</h3>\n<p class=q>");
  html.Raw("The ").Text(step.mode).Raw(" step of ");
  html.Raw(Counted(step.batch, "row") + " of " + Counted(step.length, "token"));
  html.Raw(
      difference.empty()
          ? ": the program sends what is planned."
          : ", all layers added up. The program’s collectives are compared "
            "after the rewrites that compilers make.");
  if (difference.other_bits != 0) {
    html.Raw(" The program sends elements of ");
    html.Raw(Counted(difference.other_bits, "bit") + ", the step has ");
    html.Count(8 * step.element_bytes);
    html.Raw(": bytes are compared as if it sent those.");
  }
  html.Raw("</p>\n");
  WriteRoutes(page, compared);
  WriteUnmatched(page, "Compiled, not planned", difference.extra);
  WriteUnmatched(page, "Planned, not compiled", difference.missing);
}

void WriteDrifts(Page& page, const audit::Drifts& drifts) {
  if (drifts.all.empty()) return;
  Html& html = page.html;
  constexpr std::string_view kTitle = "Sharded in another way than planned";
  html.Raw("<h3>").Raw(kTitle).Raw("</h3>\n");
  BeginTable(html, kTitle, "by sort",
             {{"Argument"}, {"Planned"}, {"Compiled"}});
  const size_t shown = std::min(drifts.all.size(), page.limits.rows);
  for (size_t i = 0; i < shown; ++i) {
    const audit::Drift& one = drifts.all[i];
    html.Raw("<tr><th scope=row class=n>").Name(one.argument);
    html.Raw("</th><td>");
    page.SpecOf(one.planned);
    html.Raw("</td><td>");
    if (one.actual) {
      page.SpecOf(*one.actual);
    } else {
      html.Raw("<code>").Name(one.sharding).Raw("</code>");
    }
    html.Raw("</td></tr>\n");
  }
  EndTable(html);
  WriteMore(html, shown, drifts.all.size(), "more argument");
}

void WriteArguments(Page& page, const audit::Drifts& drifts) {
  Html& html = page.html;
  html.Raw(" ").Count(drifts.compared).Raw(" of ");
  html.Raw(Counted(drifts.compared + std::ssize(drifts.skipped), "argument") +
           " compared with the plan");
  if (drifts.compared == 0) {
    html.Raw(drifts.has_shardings
                 ? ": none has the name and the shape of a parameter."
                 : ": the text states no shardings of arguments.");
    return;
  }
  const auto same = drifts.compared - std::ssize(drifts.all);
  html.Raw(", ").Count(same).Raw(" sharded as planned.");
}

}  // namespace

void WriteProgram(Page& page) {
  if (!page.in.program) return;
  const Program& program = *page.in.program;
  const audit::Report& report = *program.report;
  Html& html = page.html;
  page.BeginFolded("program", "Compiled program", [&] {
    html.Raw("sends ").Raw(BoundText(report)).Bytes(report.sent);
    html.Raw(" per device in " + Counted(report.calls, "collective"));
  });
  html.Raw("<p class=q><code>").Name(report.program);
  html.Raw("</code>, from <code>").Name(program.from);
  html.Raw("</code>: " + Counted(report.calls, "collective") +
           " per device send ");
  html.Raw(BoundText(report)).Bytes(report.sent).Raw(" in one step.");
  if (program.compared->drifts) WriteArguments(page, *program.compared->drifts);
  html.Raw("</p>\n");
  WriteSent(page, report);
  WriteRemarks(page,
               "At least: a loop that runs an unknown number of times counts "
               "once",
               report.unknown_loops);
  WriteRemarks(page,
               "At most: of a conditional, the branch that sends most counts",
               report.conditionals);
  WriteRemarks(page, "Not counted, to or from the host", report.host_transfers);
  if (program.compared->compared) {
    WriteDifference(page, *program.compared->compared);
  }
  if (program.compared->drifts) WriteDrifts(page, *program.compared->drifts);
  page.End();
}

void WriteProgramVerdict(Page& page) {
  if (!page.in.program) return;
  const Program& program = *page.in.program;
  const AuditText& how = *program.compared;
  Html& html = page.html;
  const auto loud = std::ranges::count_if(
      program.findings,
      [](const Finding& one) { return one.level != Level::kNote; });
  std::vector<std::string> wrong;
  if (loud > 0) wrong.push_back(Counted(loud, "finding"));
  if (how.drifts && !how.drifts->all.empty()) {
    wrong.push_back(Counted(std::ssize(how.drifts->all), "argument") +
                    " sharded in another way");
  }
  if (how.drifts && how.drifts->compared == 0) {
    wrong.emplace_back("no argument compared with the plan");
  }
  const auto& compared = how.compared;
  if (compared && !compared->difference.extra.empty()) {
    wrong.emplace_back("sends what is not planned");
  }
  html.Raw("<div><dt>Compiled program</dt><dd class=\"big");
  html.Raw(!wrong.empty() ? " wa\">▲ " : compared ? " ok\">✓ " : "\">");
  html.Bytes(program.report->sent).Raw("</dd><dd>sent per device");
  for (const std::string& text : wrong) html.Raw("; ").Raw(text);
  if (wrong.empty() && compared) html.Raw(", as planned");
  html.Raw("</dd></div>");
}

}  // namespace shardc::report
