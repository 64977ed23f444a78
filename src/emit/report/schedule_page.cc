// Writes the page of a schedule: a drawing of its timeline, and a table of its
// ranks. Each rank is a row of the drawing. The background of a row has the
// pattern for idle time (the bubble). The tasks are drawn over it, so that the
// background remains visible only where the rank is idle:
//
//   rank 1  //// [1F0][1F1][1B0    ]////[1B1    ]
#include "emit/report/page.h"

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "source/wording.h"

namespace shardc::report {
namespace {

using schedule::Cell;

constexpr double kLabels = 56, kRow = 26, kBar = 20;  // px
constexpr double kLetterWidth = 6.7;                  // px
// The least widths in px of the time axis on a desk, on paper and on a phone.
constexpr double kDesk = 990, kPaper = 600, kPhone = 300;

// Returns the CSS class of a task's name, which hides it where the task is
// drawn narrower than the name: on all but a desk, or on a phone. Returns
// nullopt if the name fits nowhere. `share` is the task's part of the time
// axis.
std::optional<std::string_view> NameLook(std::string_view name, double share) {
  const double needs = static_cast<double>(name.size()) * kLetterWidth + 2;
  if (share * kPhone >= needs) return "mid";
  if (share * kPaper >= needs) return "mid paper";
  if (share * kDesk >= needs) return "mid desk";
  return std::nullopt;
}

struct TaskLook {
  std::string_view fill, text;
};
// The CSS classes and names of tasks, in the order of TaskKind. The last entry
// is for a pair of overlapped tasks.
constexpr std::array<TaskLook, 5> kTaskLooks = {
    {{"p1", "F, forward"},
     {"p4", "B, backward"},
     {"r2", "I, gradients of inputs"},
     {"p2", "W, gradients of weights"},
     {"p5", "F and B overlapped"}}};

const TaskLook& TaskLookOf(const Cell& cell) {
  return kTaskLooks[cell.overlapped ? kTaskLooks.size() - 1
                                    : static_cast<size_t>(cell.task.kind)];
}

std::string TenthsText(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * share);
  return text.data();
}

class Drawing {
 public:
  Drawing(const ScheduleReport& report, Html& html)
      : report_(report),
        html_(html),
        scale_(report.timeline.step > 0 ? 1 / report.timeline.step : 0) {}

  void Write() {
    const size_t rows = report_.table.rows.size();
    html_.Raw(
        "<div class=\"draw timeline\" tabindex=0 role=group "
        "aria-label=\"Timeline\"><div class=grid>");
    html_.Raw("<svg role=img aria-label=\"Tasks of ");
    html_.Text(Counted(static_cast<int64_t>(rows), "rank"));
    html_.Raw(" over time; hatched parts are bubbles\" height=");
    Number(kRow * static_cast<double>(rows) + 4).Raw(">\n");
    for (size_t rank = 0; rank < rows; ++rank) WriteRow(rank);
    html_.Raw("</svg></div></div>\n");
    WriteLegend();
  }

 private:
  Html& Number(double value) { return html_.Fixed(value); }

  void WriteRow(size_t rank) {
    const double top = kRow * static_cast<double>(rank) + 2;
    html_.Raw("<text x=");
    Number(-kLabels).Raw(" y=");
    Number(top + 14).Raw(">rank ").Number(static_cast<int64_t>(rank));
    html_.Raw("</text>");
    Bar(0, top, 1, "hatch");
    const auto& row = report_.table.rows[rank];
    for (size_t i = 0; i < row.size(); ++i) {
      const schedule::Interval& at = report_.timeline.cells[rank][i];
      const double begin = at.begin * scale_;
      const double width = (at.end - at.begin) * scale_;
      Bar(begin, top, width, std::string(TaskLookOf(row[i]).fill) + " part");
      const std::string name = schedule::TaskText(row[i].task);
      const auto look = NameLook(name, width);
      if (!look) continue;
      html_.Raw("<text class=\"").Raw(*look).Raw("\" x=\"");
      Number(100 * (begin + width / 2)).Raw("%\" y=");
      Number(top + 14).Raw(">").Text(name).Raw("</text>");
    }
    html_.Raw("\n");
  }

  // Draws a bar. `x` and `width` are parts of the time axis, `y` is in px.
  void Bar(double x, double y, double width, std::string_view look) {
    html_.Raw("<rect class=\"").Raw(look).Raw("\" x=\"");
    Number(100 * x).Raw("%\" y=\"");
    Number(y).Raw("\" width=\"");
    Number(100 * width).Raw("%\" height=\"");
    Number(kBar).Raw("\"/>");
  }

  void WriteLegend() {
    std::array<bool, kTaskLooks.size()> there{};
    for (const auto& row : report_.table.rows) {
      for (const Cell& cell : row) {
        there[static_cast<size_t>(&TaskLookOf(cell) - kTaskLooks.data())] =
            true;
      }
    }
    html_.Raw("<ul class=legend>");
    for (size_t i = 0; i < kTaskLooks.size(); ++i) {
      if (!there[i]) continue;
      html_.Raw("<li><svg aria-hidden=true><rect class=")
          .Raw(kTaskLooks[i].fill);
      html_.Raw(" width=10 height=10 /></svg>").Raw(kTaskLooks[i].text);
      html_.Raw("</li>");
    }
    html_.Raw(
        "<li><svg aria-hidden=true><rect class=hatch width=10 height=10 "
        "/></svg>bubble, in which a rank waits</li></ul>\n");
  }

  const ScheduleReport& report_;
  Html& html_;
  const double scale_;  // part of the time axis per unit of time
};

}  // namespace

size_t DrawnTasks(const ScheduleReport& report) {
  size_t out = 0;
  for (const auto& row : report.table.rows) out += row.size();
  return out;
}

void WriteTimeline(const ScheduleReport& report, Html& html) {
  html.Raw("<p>The step takes <b>");
  html.Fixed(report.timeline.step);
  html.Raw("</b>, of which ");
  html.Text(TenthsText(report.timeline.StepBubble()));
  html.Raw(
      " is bubble. From its own first to its last task the longest "
      "rank takes ");
  html.Fixed(report.timeline.LongestRank());
  html.Raw(", of which ");
  html.Text(TenthsText(report.timeline.RankBubble()));
  html.Raw(" is bubble.</p>\n");
  Drawing(report, html).Write();
}

void WriteRankTable(const ScheduleReport& report, Html& html) {
  const std::vector<Head> heads = {{"Rank"},
                                   {"Stages"},
                                   {"First task", true},
                                   {"Last task", true},
                                   {"Busy", true},
                                   {"Bubble of the step", true},
                                   {"Micro-batches held", true}};
  BeginTable(html, "Ranks", "by narrow", heads);
  // On a phone a row is a paragraph, and each cell begins with its heading.
  const auto cell = [&](size_t column) -> Html& {
    return BeginNamedCell(html, heads[column]);
  };
  for (size_t rank = 0; rank < report.table.rows.size(); ++rank) {
    const schedule::RankTime& time = report.timeline.ranks[rank];
    html.Raw("<tr><th scope=row>rank ").Number(static_cast<int64_t>(rank));
    html.Raw("</th>");
    cell(1);
    bool first = true;
    for (int32_t stage = 0; stage < report.table.stages; ++stage) {
      if (!report.table.Holds(static_cast<int32_t>(rank), stage)) continue;
      html.Raw(first ? "" : ", ").Number(stage);
      first = false;
    }
    html.Raw("</td>");
    cell(2).Fixed(time.first).Raw("</td>");
    cell(3).Fixed(time.last).Raw("</td>");
    cell(4).Fixed(time.busy).Raw("</td>");
    const double step = report.timeline.step;
    cell(5).Text(TenthsText(step > 0 ? 1 - time.busy / step : 0));
    html.Raw("</td>");
    cell(6).Number(report.held[rank]).Raw("</td></tr>\n");
  }
  EndTable(html);
}

void WriteSchedulePage(const ScheduleReport& report, Sink& out) {
  const schedule::Table& table = report.table;
  const std::string subtitle =
      Counted(table.ranks(), "rank") + ", " + Counted(table.stages, "stage") +
      ", " + Counted(table.microbatches, "micro-batch", "micro-batches");
  WriteSheet(
      "Schedule " + table.name, subtitle,
      [&](Html& html) {
        html.Raw("<section><h2>Timeline</h2>");
        WriteTimeline(report, html);
        html.Raw("</section>\n<section><h2>Ranks</h2>");
        WriteRankTable(report, html);
        html.Raw("</section>\n");
      },
      out);
}

}  // namespace shardc::report
