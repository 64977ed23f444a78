// Draws the time of a step as a waterfall: the bar of each part begins where
// the bar of the previous part ends, so that the last bar ends at the time of
// the step. If a mode has no expected time, the bars of computation, memory and
// collectives all begin at zero, because these can overlap:
//
//   products            ████████████              812 ms   62 %
//   weight collectives              ███           190 ms   14 %
//   optimizer                          █           48 ms    4 %
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "emit/costs/cost_report.h"
#include "emit/report/page.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

struct Span {
  std::string name;
  double begin = 0, seconds = 0;
};

void WriteSpans(Html& html, const std::vector<Span>& spans, double total) {
  const auto percent = [&](double seconds) {
    return total > 0 ? 100 * seconds / total : 0;
  };
  html.Raw("<div class=bars>\n");
  for (const Span& span : spans) {
    html.Raw("<div><span>")
        .Text(span.name)
        .Raw("</span><svg aria-hidden=true>");
    html.Raw("<rect class=track y=4 height=12 width=\"100%\"/>");
    html.Raw("<rect class=bar y=4 height=12 x=\"").Fixed(percent(span.begin));
    html.Raw("%\" width=\"").Fixed(std::max(0.2, percent(span.seconds)));
    html.Raw("%\"/></svg><span class=r>").Text(SecondsText(span.seconds));
    html.Raw("</span><span class=\"r q\">");
    RoundShare(html, span.seconds, total);
    html.Raw("</span></div>\n");
  }
  html.Raw("</div>\n");
}

void WriteExpected(Page& page, const cost::Report& report) {
  Html& html = page.html;
  const cost::ExpectedTime& time = *report.expected;
  html.Raw("<p>A step of ").Text(ModeName(report.mode)).Raw(" takes <b>");
  html.Text(SecondsText(time.seconds)).Raw("</b> as expected on ");
  html.Text(report.settings.profile->name).Raw(", from ");
  html.Text(SecondsText(time.least)).Raw(" to ");
  html.Text(SecondsText(time.most)).Raw(": ");
  html.Fixed(std::round(time.model_flops_share * 1000) / 10);
  html.Raw("\u00a0% of the peak rate, ");
  html.Raw(Counted(std::llround(time.tokens_per_second), "token"));
  html.Raw(" per second and device.");
  const std::string measured = cost::MeasuredText(report.settings.profile);
  if (!measured.empty()) {
    html.Raw(" The profile was ").Text(measured).Raw(".");
  } else if (time.has_experts && time.measured) {
    html.Raw(
        " Of published runs of models with experts, half are within 12\u00a0% "
        "and 90 of 100 within 32\u00a0%.");
  } else if (!time.calibrated) {
    html.Raw(
        " No published run covers this model on this device: the time is not "
        "calibrated.");
  }
  html.Raw(
      "</p>\n<p class=q>Each bar begins where the one above it ends. "
      "Collectives count only as far as they delay the step; what hides behind "
      "computation is left out.</p>\n");
  std::vector<Span> spans;
  double begin = 0;
  for (const cost::TimePart& part : time.parts) {
    if (part.seconds <= 0) continue;
    spans.push_back({PartName(part.name), begin, part.seconds});
    begin += part.seconds;
  }
  WriteSpans(html, spans, begin);
}

void WriteBounds(Page& page, const cost::Report& report) {
  Html& html = page.html;
  const cost::Time& time = *report.time;
  html.Raw("<p>A step of ").Text(ModeName(report.mode)).Raw(" takes <b>");
  html.Text(SecondsText(time.Least())).Raw(" to ");
  html.Text(SecondsText(time.Most())).Raw("</b> at the peak rates of ");
  html.Text(report.settings.profile->name).Raw(", bound by ");
  html.Text(cost::kBoundNames[static_cast<size_t>(time.bound)]);
  html.Raw(
      ".</p>\n<p class=q>All bars begin at zero: if all three overlap, the "
      "longest is the step; if none do, their sum is.</p>\n");
  WriteSpans(html,
             {{"compute", 0, time.compute},
              {"memory", 0, time.memory},
              {"communication", 0, time.communication}},
             time.Most());
}

// Writes the time of a pipeline's step. It consists of the tasks of the rank
// that computes the longest, the time for which this rank waits, and the work
// of all ranks after their tasks.
void WriteStagedTime(Page& page, const cost::PipelineCost& cost) {
  if (!cost.timed) return;
  const auto& ranks = cost.timeline.ranks;
  const auto longest = std::max_element(
      ranks.begin(), ranks.end(),
      [](const schedule::RankTime& a, const schedule::RankTime& b) {
        return a.busy < b.busy;
      });
  if (longest == ranks.end()) return;
  const auto rank = static_cast<size_t>(longest - ranks.begin());
  std::vector<Span> spans = {{"forward", 0, 0},
                             {"gradients of inputs", 0, 0},
                             {"gradients of weights", 0, 0},
                             {"waiting and sending", 0, 0},
                             {"gradients and update", 0, cost.after}};
  double tasks = 0;
  for (const schedule::Cell& cell : cost.table.rows[rank]) {
    schedule::ForEachTask(cell, [&](const schedule::Task& task) {
      const schedule::StageTimes& times =
          cost.stages[static_cast<size_t>(task.stage)].times;
      const bool both = task.kind == schedule::TaskKind::kBackward;
      if (task.kind == schedule::TaskKind::kForward) {
        spans[0].seconds += times.forward;
      }
      if (both || task.kind == schedule::TaskKind::kInput) {
        spans[1].seconds += times.input;
      }
      if (both || task.kind == schedule::TaskKind::kWeight) {
        spans[2].seconds += times.weight;
      }
    });
  }
  for (const Span& span : spans) tasks += span.seconds;
  spans[3].seconds = std::max(0.0, cost.Step() - tasks);
  double begin = 0;
  for (Span& span : spans) {
    span.begin = begin;
    begin += span.seconds;
  }
  Html& html = page.html;
  page.BeginFolded("time", "Time of a step", [&] {
    html.Text(SecondsText(cost.Step())).Raw(" in train");
  });
  html.Raw("<p>A step of train takes <b>").Text(SecondsText(cost.Step()));
  html.Raw("</b> as expected on ").Text(cost.settings.profile->name);
  html.Raw(", from ").Text(SecondsText(cost.least));
  html.Raw(" to ").Text(SecondsText(cost.most));
  html.Raw(": ").Text(SecondsText(cost.timeline.step));
  html.Raw(" by the schedule, of which ");
  html.Text(PercentText(cost.timeline.StepBubble()));
  const std::string measured = cost::MeasuredText(cost.settings.profile, true);
  html.Raw(" is the bubble. ");
  html.Text(measured.empty() ? "No time of a pipeline is calibrated"
                             : "The profile was " + measured);
  html.Raw(".</p>\n<p class=q>The tasks of rank ");
  html.Number(static_cast<int64_t>(rank));
  html.Raw(
      ", which computes the longest. Each bar begins where the one above it "
      "ends; a task contains its collectives as far as they delay it.</p>\n");
  WriteSpans(html, spans, begin);
  page.End();
}

}  // namespace

void WriteTime(Page& page) {
  if (page.in.pipeline) return WriteStagedTime(page, *page.in.pipeline);
  std::vector<const cost::Report*> timed;
  for (const cost::Report& report : page.in.costs) {
    if (report.time) timed.push_back(&report);
  }
  if (timed.empty()) return;
  page.BeginFolded("time", "Time of a step", [&] {
    page.html.Text(Join(timed, "; ", [](const cost::Report* one) {
      return (one->expected ? SecondsText(one->expected->seconds)
                            : "at most " + SecondsText(one->time->Most())) +
             " in " + std::string(ModeName(one->mode));
    }));
  });
  for (const cost::Report* one : timed) {
    const cost::Report& report = *one;
    page.html.Raw("<h3>").Text(ModeName(report.mode)).Raw("</h3>\n");
    if (report.expected) {
      WriteExpected(page, report);
    } else {
      WriteBounds(page, report);
    }
  }
  page.End();
}

void WriteAssumptions(Page& page) {
  if (page.in.costs.empty()) return;
  Html& html = page.html;
  // All ranks of a pipeline have the same settings, so only the first report is
  // used.
  const auto costs = std::span(page.in.costs)
                         .first(page.in.pipeline ? 1 : page.in.costs.size());
  page.BeginFolded("assumptions", "Assumptions", [&] {
    const cost::Settings& one = costs.front().settings;
    html.Raw("batch ").Text(one.batch ? CountText(*one.batch) : "–");
    html.Raw(", length ").Text(one.length ? CountText(*one.length) : "–");
    html.Raw(", device ");
    html.Text(one.profile != nullptr ? one.profile->name : "–");
  });
  html.Raw(
      "<p class=q>What memory, time and communication were computed with. A "
      "dash was not given, and the figures that need it are left out.</p>\n");
  std::vector<Head> heads = {{"Setting"}};
  for (const cost::Report& report : costs) {
    heads.push_back({std::string(ModeName(report.mode)), true});
  }
  BeginTable(html, "Assumptions", "by narrow", heads);
  const auto row = [&](std::string_view name, const auto& text) {
    html.Raw("<tr><th scope=row>").Raw(name).Raw("</th>");
    for (const cost::Report& report : costs) {
      html.Raw("<td class=r data-m=").Text(ModeName(report.mode)).Raw(">");
      html.Text(text(report)).Raw("</td>");
    }
    html.Raw("</tr>\n");
  };
  const auto count = [](const std::optional<int64_t>& value) {
    return value ? CountText(*value) : std::string("–");
  };
  row("batch", [&](const auto& one) { return count(one.settings.batch); });
  row("sequence length",
      [&](const auto& one) { return count(one.settings.length); });
  row("KV cache length",
      [&](const auto& one) { return count(one.settings.kv_length); });
  row("micro-batches",
      [&](const auto& one) { return CountText(one.settings.microbatches); });
  row("rematerialisation", [&](const auto& one) {
    return one.mode == Mode::kTrain ? one.settings.remat.text
                                    : std::string("–");
  });
  row("device profile", [&](const auto& one) {
    return one.settings.profile != nullptr
               ? std::string(one.settings.profile->name)
               : std::string("–");
  });
  row("device memory", [&](const auto& one) {
    return one.memory.capacity ? BytesText(*one.memory.capacity)
                               : std::string("–");
  });
  EndTable(html);
  for (const cost::Report& report : costs) {
    html.Raw("<details><summary>Assumed in ").Text(ModeName(report.mode));
    html.Raw("</summary><ul>");
    for (const std::string& text : report.assumptions) {
      html.Raw("<li>").Message(text).Raw("</li>");
    }
    html.Raw("</ul></details>\n");
  }
  page.End();
}

}  // namespace shardc::report
