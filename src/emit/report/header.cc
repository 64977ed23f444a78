// Writes the top of the page: the title, the mesh, and one row with the four
// answers that a reader came for. Each answer is a large figure with a
// sentence. If the page compares with a base plan or a compiled program, a
// second row has the result. For example, the first row is:
//
//   Verdict     Memory of a device   Time of a step    Not known
//   ✓ Passes    28.9 GiB             1.35 s            ✓ nothing
//   2 notes     of 79.7 GiB, 36 %    0.66 s to 2.5 s
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/pipeline.h"
#include "cost/report.h"
#include "emit/costs/cost_report.h"
#include "emit/report/page.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

// Opens a cell of a row: its name, and its large figure in the look of a CSS
// class. The figure and then its sentence follow.
void BeginCell(Html& html, std::string_view name, std::string_view look) {
  html.Raw("<div><dt>").Raw(name).Raw("</dt><dd class=\"big");
  html.Raw(look.empty() ? "" : " ").Raw(look).Raw("\">");
}

// Returns the mode of a report and, for a pipeline, its ranks: "train", or
// "train on rank 0".
std::string PlaceOf(const cost::Report& report) {
  std::string out(ModeName(report.mode));
  return report.ranks.empty() ? out : out + " on " + report.ranks;
}

// Writes the numbers of findings by level, such as "1 error, 0 warnings".
void WriteCounts(Page& page) {
  if (!page.in.checked) {
    page.html.Raw(
        "not checked: the page was made from a plan file, without its inputs");
    return;
  }
  int64_t counts[3] = {0, 0, 0};
  for (const Finding& finding : page.in.findings) {
    ++counts[static_cast<size_t>(finding.level)];
  }
  page.html.Raw("<code>check</code>: " + Counted(counts[0], "error") + ", " +
                Counted(counts[1], "warning") + ", " +
                Counted(counts[2], "note"));
}

void WriteVerdict(Page& page) {
  Html& html = page.html;
  const std::vector<std::string>& failures = page.in.failures;
  if (!failures.empty()) {
    BeginCell(html, "Verdict", "e");
    html.Raw("✕ Fails</dd><dd>").Text(Join(failures, "; ")).Raw("; ");
  } else if (!page.in.checked) {
    BeginCell(html, "Verdict", "");
    html.Raw("–</dd><dd>");
  } else {
    BeginCell(html, "Verdict", "ok");
    html.Raw("✓ Passes</dd><dd>");
  }
  WriteCounts(page);
  html.Raw("</dd></div>\n");
}

// Returns how bad the news of a report is: 2 if the step exceeds a device, 1 if
// it may, else 0.
int BadnessOf(const cost::Report& report) {
  const auto verdict = report.memory.Verdict();
  return verdict == cost::Fit::kExceeds  ? 2
         : verdict == cost::Fit::kMayFit ? 1
                                         : 0;
}

// Returns the report whose memory the page begins with: of those with the worst
// verdict, the one that needs the most. Returns null if no memory is known.
const cost::Report* FullestOf(const Page& page) {
  const cost::Report* out = nullptr;
  for (const cost::Report& report : page.in.costs) {
    const auto total = report.memory.Expected();
    if (!total) continue;
    if (out == nullptr ||
        std::pair(BadnessOf(report), *total) >
            std::pair(BadnessOf(*out), *out->memory.Expected())) {
      out = &report;
    }
  }
  return out;
}

// Returns the modes or ranks of which it is not known whether they fit.
std::vector<std::string> OpenVerdicts(const Page& page,
                                      const cost::Report* shown) {
  std::vector<std::string> out;
  for (const cost::Report& report : page.in.costs) {
    if (&report != shown && report.memory.capacity &&
        !report.memory.Verdict()) {
      out.push_back(NameOf(report));
    }
  }
  return out;
}

std::string ShareOfMemory(int64_t needs, int64_t has) {
  const double share = static_cast<double>(needs) / static_cast<double>(has);
  return share < 0.001 ? "less than 0.1 %" : PercentText(share);
}

void WriteMemoryCell(Page& page) {
  Html& html = page.html;
  constexpr std::string_view kName = "Memory of a device";
  const cost::Report* fullest = FullestOf(page);
  if (fullest == nullptr) {
    BeginCell(html, kName, "");
    html.Raw("–</dd><dd>not known</dd></div>\n");
    return;
  }
  const cost::Memory& memory = fullest->memory;
  const int64_t needs = *memory.Expected();
  const auto& has = memory.capacity;
  const auto verdict = memory.Verdict();
  const std::vector<std::string> open = OpenVerdicts(page, fullest);
  // A budget is of one mode, and so are the figures that it limits.
  std::optional<int64_t> budget;
  if (page.in.budget.memory && page.in.budget.mode == fullest->mode) {
    budget = std::llround(page.in.budget.memory->value);
  }
  const bool over_budget = budget && needs > *budget;
  const bool over = verdict == cost::Fit::kExceeds || over_budget;
  const bool may_fit = verdict == cost::Fit::kMayFit;
  const bool fits = verdict == cost::Fit::kFits && open.empty();
  BeginCell(html, kName, over ? "e" : may_fit ? "wa" : fits ? "ok" : "");
  html.Raw(over ? "✕ " : may_fit ? "▲ " : fits ? "✓ " : "");
  html.Raw(memory.Complete() ? "" : "≥ ").Bytes(needs).Raw("</dd><dd>");
  if (has && *has > 0) {
    html.Raw("of ").Bytes(*has).Raw(", ").Text(ShareOfMemory(needs, *has));
    html.Raw(verdict == cost::Fit::kFits      ? ": fits"
             : may_fit                        ? ": may not fit"
             : verdict == cost::Fit::kExceeds ? ": does not fit"
                                              : ", without what is not known");
  } else {
    html.Raw("no device memory was given");
  }
  html.Raw(", in ").Text(PlaceOf(*fullest));
  if (memory.HasPeak()) {
    const cost::TakenBytes& taken = *memory.taken;
    html.Raw(", between ").Bytes(taken.least).Raw(" and ").Bytes(taken.most);
  }
  if (!open.empty()) html.Raw("; not known in ").Text(Join(open, ", "));
  if (budget) {
    html.Raw(over_budget ? "; over the budget of " : "; the budget is ");
    html.Bytes(*budget);
  }
  if (const auto most = over_budget ? budget : has ? has : budget) {
    Bar(html, std::min(needs, *most), *most,
        over      ? "over"
        : may_fit ? "may"
                  : "fits");
  }
  html.Raw("</dd></div>\n");
}

// Writes the time of a pipeline's step. Returns false if it is not known.
bool WriteStagedSeconds(Page& page) {
  Html& html = page.html;
  const auto& pipeline = page.in.pipeline;
  if (!pipeline || !pipeline->timed || pipeline->timeline.step <= 0) {
    return false;
  }
  const auto& limit = page.in.budget.time;
  const bool over = limit && pipeline->Step() > limit->value;
  BeginCell(html, "Time of a step", over ? "e" : "");
  html.Raw(over ? "✕ " : "").Text(SecondsText(pipeline->Step()));
  html.Raw("</dd><dd>from ").Text(SecondsText(pipeline->least)).Raw(" to ");
  html.Text(SecondsText(pipeline->most)).Raw(", in train; the bubble is ");
  html.Text(PercentText(pipeline->timeline.StepBubble()));
  if (limit) html.Raw("; the budget is ").Text(SecondsText(limit->value));
  html.Raw("</dd></div>\n");
  return true;
}

void WriteSeconds(Page& page, const cost::Report& report) {
  Html& html = page.html;
  const auto& expected = report.expected;
  const double seconds = expected ? expected->seconds : report.time->Most();
  const StepBudget& budget = page.in.budget;
  const bool limited = budget.time && budget.mode == report.mode;
  const bool over = limited && seconds > budget.time->value;
  BeginCell(html, "Time of a step", over ? "e" : "");
  html.Raw(over ? "✕ " : "");
  if (expected) {
    html.Text(SecondsText(seconds)).Raw("</dd><dd>from ");
    html.Text(SecondsText(expected->least)).Raw(" to ");
    html.Text(SecondsText(expected->most)).Raw(", in ");
    html.Text(ModeName(report.mode)).Raw("; ");
    html.Text(PercentText(expected->model_flops_share));
    html.Raw(" of the peak rate");
    if (!expected->calibrated && !expected->measured) {
      html.Raw("; not calibrated");
    }
  } else {
    html.Raw("≤ ").Text(SecondsText(seconds)).Raw("</dd><dd>at least ");
    html.Text(SecondsText(report.time->Least())).Raw(", in ");
    html.Text(ModeName(report.mode)).Raw(", at peak rates");
  }
  if (limited) {
    html.Raw("; the budget is ").Text(SecondsText(budget.time->value));
  }
  html.Raw("</dd></div>\n");
}

// Writes what settles an unknown figure. Its options are not broken over lines.
void WriteSettled(Html& html, std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.size(), text.find(' ', at));
    std::string_view word = text.substr(at, end - at);
    const bool comma = word.ends_with(',');
    if (comma) word.remove_suffix(1);
    if (word.starts_with("--")) {
      html.Raw("<code class=k>").Text(word).Raw("</code>");
    } else {
      html.Message(word);
    }
    html.Raw(comma ? "," : "");
    html.Raw(end < text.size() ? " " : "");
    at = end + 1;
  }
}

// Writes the time in the plan's first mode, which is training if it has that.
void WriteTimeCell(Page& page) {
  if (WriteStagedSeconds(page)) return;
  const auto& costs = page.in.costs;
  if (!costs.empty() && costs.front().time && !page.in.pipeline) {
    return WriteSeconds(page, costs.front());
  }
  Html& html = page.html;
  BeginCell(html, "Time of a step", "");
  html.Raw("–</dd><dd>not known");
  if (!costs.empty()) {
    html.Raw(" in ").Text(ModeName(costs.front().mode));
    const cost::StepFigures figures = cost::FiguresOf(costs.front());
    const auto& why =
        figures[static_cast<size_t>(cost::BudgetFigure::kTime)].unknown;
    if (!why.empty()) {
      html.Raw(": ").Message(why.front().what);
      if (!why.front().settled_by.empty()) {
        html.Raw("; settled by ");
        WriteSettled(html, why.front().settled_by);
      }
    }
  }
  html.Raw("</dd></div>\n");
}

void WriteUnknownCell(Page& page) {
  Html& html = page.html;
  const std::vector<Unknown> unknown = UnknownOf(page);
  if (unknown.empty()) {
    BeginCell(html, "Not known", "ok");
    html.Raw("✓ nothing</dd><dd>every figure has all its parts</dd></div>\n");
    return;
  }
  BeginCell(html, "Not known", "wa");
  html.Raw("▲ " + Counted(std::ssize(unknown), "fact"));
  html.Raw("</dd><dd><a href=\"#unknown\">");
  html.Message(unknown.front().fact.what).Raw("</a>");
  if (unknown.size() > 1) {
    html.Raw(" and " + Counted(std::ssize(unknown) - 1, "more", "more"));
  }
  html.Raw("</dd></div>\n");
}

void WriteBaseVerdict(Page& page) {
  if (!page.in.base) return;
  Html& html = page.html;
  const PlanDifference& diff = *page.in.base->diff;
  int64_t changed = 0;
  for (const SpecChange& one : diff.specs) {
    changed += static_cast<int64_t>(one.names.size());
  }
  BeginCell(html, "Against the base plan", "");
  html.Raw(diff.empty() ? "=" : "~ ")
      .Raw(diff.empty() ? "" : CountText(changed));
  html.Raw(diff.empty() ? "</dd><dd>no changes" : "</dd><dd>");
  if (!diff.empty()) {
    const int64_t shards = ShardChanges(diff);
    // A difference may be outside of the parameters, such as in the stages or
    // in the specs of attention.
    html.Raw(changed == 0 ? "no change of a parameter’s spec, but others"
                          : Counted(changed, "change") + " of " +
                                (shards == 0         ? "specs"
                                 : shards == changed ? "shards"
                                                     : "specs and shards"));
    for (const HeldChange& held : diff.held) {
      const bool first = IsAmong(page.First(), held.modes);
      if (!first || !held.before || !held.after) continue;
      const int64_t was = *held.before, now = *held.after;
      html.Raw(", ").Raw(now >= was ? "+" : "−");
      html.Bytes(now >= was ? now - was : was - now);
      html.Raw(" per device");
    }
  }
  html.Raw("</dd></div>\n");
}

}  // namespace

std::vector<std::string> FailuresOf(std::span<const cost::Report> costs) {
  bool missing = false, over = false, may_be_over = false;
  for (const cost::Report& one : costs) {
    const auto fit = one.memory.Verdict();
    missing = missing || (!one.communication.roles_known && one.LacksVerdict());
    over = over || fit == cost::Fit::kExceeds;
    may_be_over = may_be_over || fit == cost::Fit::kMayFit;
  }
  std::vector<std::string> out;
  if (over) {
    out.emplace_back("a device is too small");
  } else if (may_be_over) {
    out.emplace_back("a device may be too small");
  }
  if (missing) out.emplace_back("whether a step fits is not known");
  return out;
}

void WriteHeader(Page& page) {
  Html& html = page.html;
  html.Raw("<header class=w><p class=q>Sharding plan</p><h1>");
  html.Name(page.in.title).Raw("</h1>\n<p class=axes>");
  bool first = true;
  for (const MeshAxis& axis : page.mesh().axes) {
    if (!first) html.Raw(" × ");
    first = false;
    page.Axis(axis.name);
    html.Raw(" <b>").Count(axis.size).Raw("</b>");
  }
  html.Raw(" = <b>").Count(page.mesh().devices).Raw("</b> ");
  html.Raw(page.mesh().devices == 1 ? "device" : "devices");
  const auto bytes = page.plan().TotalBytes();
  const auto elements = page.plan().TotalElements();
  html.Raw("<span class=q>");
  if (bytes) html.Raw(" · ").Bytes(*bytes);
  html.Raw(" · " +
           Counted(static_cast<int64_t>(page.plan().table().names.size()),
                   "parameter"));
  if (elements) html.Raw(" · ").Count(*elements).Raw(" elements");
  html.Raw("</span></p>\n<dl class=strip>\n");
  WriteVerdict(page);
  WriteMemoryCell(page);
  WriteTimeCell(page);
  WriteUnknownCell(page);
  html.Raw("</dl>\n");
  if (page.in.base || page.in.program) {
    html.Raw("<dl class=strip>\n");
    WriteBaseVerdict(page);
    WriteProgramVerdict(page);
    html.Raw("</dl>\n");
  }
  html.Raw("</header>\n");
}

// Lists what is not known, with what settles it.

namespace {

void AddUnknown(const NotKnown& fact, std::string_view figure,
                const std::string& place, std::vector<Unknown>& out) {
  const auto same =
      std::find_if(out.begin(), out.end(),
                   [&](const Unknown& one) { return one.fact == fact; });
  Unknown& to =
      same == out.end() ? out.emplace_back(Unknown{fact, {}, {}}) : *same;
  AddOnce(to.figures, std::string(figure));
  AddOnce(to.places, place);
}

}  // namespace

std::vector<Unknown> UnknownOf(const Page& page) {
  constexpr std::array<std::string_view, cost::kBudgetFigureNames.size()>
      kFigures = {"memory", "bytes sent", "time"};
  std::vector<Unknown> out;
  for (const cost::Report& report : page.in.costs) {
    const std::string place = NameOf(report);
    const cost::StepFigures figures = cost::FiguresOf(report);
    for (size_t i = 0; i < figures.size(); ++i) {
      // The reports of a pipeline's ranks have no time of their own.
      const bool time = i == static_cast<size_t>(cost::BudgetFigure::kTime);
      if (time && page.in.pipeline && page.in.pipeline->timed) continue;
      for (const NotKnown& fact : figures[i].unknown) {
        AddUnknown(fact, kFigures[i], place, out);
      }
    }
    if (!report.memory.capacity) {
      AddUnknown({.what = "the memory of a device",
                  .settled_by = "--memory or --profile"},
                 "whether a step fits", place, out);
    }
  }
  if (page.in.costs.empty()) {
    AddUnknown({.what = "the batch and the length of a step",
                .settled_by = "--batch and --seq"},
               "memory, bytes sent and time", "train", out);
  }
  return out;
}

void WriteUnknown(Page& page) {
  const std::vector<Unknown> all = UnknownOf(page);
  if (all.empty()) return;
  Html& html = page.html;
  page.Begin("unknown", "Not known");
  html.Raw(
      "<p class=q>Figures that need one of these facts are left out, or are at "
      "least what is shown.</p>\n<ul class=facts>");
  for (const Unknown& one : all) {
    NotKnown fact = one.fact;
    fact.settled_by.clear();
    html.Raw("<li>").Message(NotKnownText(fact));
    if (!one.fact.settled_by.empty()) {
      html.Raw("; settled by ");
      WriteSettled(html, one.fact.settled_by);
    }
    html.Raw(" <span class=q>(").Text(ListInWords(one.figures)).Raw(" in ");
    html.Text(Join(one.places, ", ")).Raw(")</span></li>\n");
  }
  html.Raw("</ul>\n");
  page.End();
}

}  // namespace shardc::report
