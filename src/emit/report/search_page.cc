// Writes the result of a search as a page. Some details are only in the JSON
// form, such as the parts of an alternative's time. The steps of the winner and
// of the runner-up are two bars on one scale, so that a reader sees which part
// of the step makes the difference. For example:
//
//   winner     [matmuls      |attention |head|collectives]      304 ms
//   runner-up  [matmuls      |attention |head|collectives   ]   312 ms
#include "emit/report/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emit/costs/cost_report.h"
#include "emit/costs/search_report.h"
#include "emit/report/page.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

// Draws the Pareto front of time and memory. The memory axis starts at zero, so
// that the bytes can be compared with a device's memory. The time axis starts
// just below the fastest point, so that small differences of time can be seen.
// The stairs between the points show the shortest time for each amount of
// memory:
//
//   340 ms |  o___
//          |      |__o______
//   300 ms |                |_o
//           13 GiB          54 GiB

using search::Sharding;

constexpr double kWidth = 760, kHeight = 380;
constexpr double kLeft = 72, kRight = 20, kTop = 26, kBottom = 44;
constexpr int kMostTicks = 8;
// The width of the margins between the points and the edges of the drawing. The
// margins above and below are this fraction of the span of times. The margin on
// the right is this fraction of the largest memory.
constexpr double kSpare = 0.04;

// Returns the distance of the ticks on the time axis: the smallest of 1, 2 and
// 5 times a power of ten that divides the span into at most `kMostTicks` parts.
double TimeStep(double span) {
  double step = std::pow(10.0, std::floor(std::log10(span / kMostTicks)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (span / (step * factor) <= kMostTicks) return step * factor;
  }
  return step * 10;
}

// Returns the distance of the ticks on the memory axis: the smallest power of
// two that divides the bytes into at most `kMostTicks` parts.
int64_t MemoryStep(int64_t bytes) {
  int64_t step = 1;
  while (bytes / step > kMostTicks) step *= 2;
  return step;
}

// Returns the time at a tick, with as many digits as are needed to distinguish
// it from the next tick.
std::string TickText(double seconds, double step) {
  const double unit = seconds >= 1 ? 1 : seconds >= 1e-3 ? 1e-3 : 1e-6;
  const char* const name = unit == 1 ? "s" : unit == 1e-3 ? "ms" : "us";
  const int digits = std::clamp(
      static_cast<int>(-std::floor(std::log10(step / unit) + 1e-9)), 0, 6);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s", digits, seconds / unit,
                name);
  return text.data();
}

enum class Mark : uint8_t { kPoint, kPipeline, kKnee, kRunnerUp, kWinner };
struct Look {
  std::string_view fill, text;
};
constexpr std::array<Look, 5> kLooks = {
    {{"p0", "a point of the front"},
     {"p4", "a pipeline of the front"},
     {"p6", "the knee: less memory costs most time from here"},
     {"fits", "the runner-up, on another mesh"},
     {"p3", "the winner"}}};

// Draws a mark around a centre. Marks differ in shape and in colour, so that
// colour-blind readers can distinguish them.
void WriteShape(Html& html, Mark mark, double x, double y) {
  const Look& look = kLooks[static_cast<size_t>(mark)];
  const auto path = [&](const std::vector<std::pair<double, double>>& corners) {
    html.Raw("<path class=\"").Raw(look.fill).Raw(" part\" d=\"");
    for (size_t i = 0; i < corners.size(); ++i) {
      html.Raw(i == 0 ? "M" : "L").Fixed(x + corners[i].first).Raw(" ");
      html.Fixed(y + corners[i].second);
    }
    html.Raw("Z\"/>");
  };
  switch (mark) {
    case Mark::kPoint:
      html.Raw("<circle class=\"").Raw(look.fill).Raw(" part\" r=4 cx=\"");
      html.Fixed(x).Raw("\" cy=\"").Fixed(y).Raw("\"/>");
      return;
    case Mark::kPipeline:
      return path({{0, 6}, {6, -5}, {-6, -5}});
    case Mark::kKnee:
      return path({{0, -6}, {6, 5}, {-6, 5}});
    case Mark::kRunnerUp:
      return path({{-5, -5}, {5, -5}, {5, 5}, {-5, 5}});
    case Mark::kWinner:
      return path({{0, -7}, {7, 0}, {0, 7}, {-7, 0}});
  }
}

class Plot {
 public:
  Plot(const search::Found& found, Html& html) : found_(found), html_(html) {
    capacity_ = found.winner->report.memory.capacity.value_or(0);
    least_ = most_ = found.winner->Seconds();
    bytes_ = std::max(capacity_, found.winner->Bytes());
    for (const Sharding& one : found.front) {
      Include(one);
      has_pipeline_ = has_pipeline_ || one.IsPipeline();
    }
    if (found.runner_up) Include(*found.runner_up);
    const double span = std::max(most_ - least_, least_ * 0.01);
    least_ -= kSpare * span;
    most_ += kSpare * span;
  }

  void Write() {
    html_.Raw("<div class=draw tabindex=0 role=group aria-label=Front>");
    html_.Raw("<svg role=img aria-label=\"");
    html_.Text(Label()).Raw("\" width=").Fixed(kWidth).Raw(" height=");
    html_.Fixed(kHeight).Raw(" viewBox=\"0 0 ").Fixed(kWidth).Raw(" ");
    html_.Fixed(kHeight).Raw("\">\n");
    WriteGrid();
    WriteStairs();
    for (size_t i = 0; i < found_.front.size(); ++i) {
      const Sharding& one = found_.front[i];
      WriteMark(one, one.IsPipeline()   ? Mark::kPipeline
                     : i == found_.knee ? Mark::kKnee
                                        : Mark::kPoint);
    }
    if (found_.runner_up) WriteMark(*found_.runner_up, Mark::kRunnerUp);
    WriteMark(*found_.winner, Mark::kWinner);
    html_.Raw("</svg></div>\n");
    WriteLegend();
  }

 private:
  void Include(const Sharding& one) {
    least_ = std::min(least_, one.Seconds());
    most_ = std::max(most_, one.Seconds());
    bytes_ = std::max(bytes_, one.Bytes());
  }

  std::string Label() const {
    const Sharding& fast = found_.front.front();
    const Sharding& slim = found_.front.back();
    return "Expected time of a step over the memory of a device: " +
           Counted(static_cast<int64_t>(found_.front.size()), "sharding") +
           ", from " + SecondsText(fast.Seconds()) + " with " +
           BytesText(fast.Bytes()) + " to " + SecondsText(slim.Seconds()) +
           " with " + BytesText(slim.Bytes()) + "; the winner takes " +
           SecondsText(found_.winner->Seconds()) + " with " +
           BytesText(found_.winner->Bytes());
  }

  double X(double bytes) const {
    const double whole = static_cast<double>(bytes_) * (1 + kSpare);
    return kLeft + bytes / whole * (kWidth - kLeft - kRight);
  }
  double Y(double seconds) const {
    const double height = kHeight - kTop - kBottom;
    return kTop + (most_ - seconds) / (most_ - least_) * height;
  }
  double X(const Sharding& one) const {
    return X(static_cast<double>(one.Bytes()));
  }
  double Y(const Sharding& one) const { return Y(one.Seconds()); }

  void Line(std::string_view look, double x0, double y0, double x1, double y1) {
    html_.Raw("<path class=").Raw(look).Raw(" d=\"M").Fixed(x0).Raw(" ");
    html_.Fixed(y0).Raw("L").Fixed(x1).Raw(" ").Fixed(y1).Raw("\"/>");
  }
  void Words(std::string_view look, double x, double y,
             const std::string& text) {
    html_.Raw("<text class=\"").Raw(look).Raw("\" x=\"").Fixed(x);
    html_.Raw("\" y=\"").Fixed(y).Raw("\">").Text(text).Raw("</text>");
  }

  void WriteGrid() {
    const double floor = kHeight - kBottom;
    const double step = TimeStep(most_ - least_);
    const auto first = static_cast<int64_t>(std::ceil(least_ / step));
    for (int64_t i = first; static_cast<double>(i) * step <= most_; ++i) {
      const double seconds = static_cast<double>(i) * step;
      Line("host", kLeft, Y(seconds), kWidth - kRight, Y(seconds));
      Words("end", kLeft - 8, Y(seconds) + 4, TickText(seconds, step));
    }
    const int64_t memory = MemoryStep(bytes_);
    for (int64_t bytes = 0; bytes <= bytes_ && bytes >= 0; bytes += memory) {
      const double x = X(static_cast<double>(bytes));
      Line("host", x, floor, x, floor + 5);
      Words("mid", x, floor + 19, bytes == 0 ? "0" : BytesText(bytes));
    }
    Line("between", kLeft, floor, kWidth - kRight, floor);
    Words("end m0", kWidth - kRight, kHeight - 6, "memory of a device");
    Words("m0", 0, 14, "time of a step");
    if (capacity_ == 0) return;
    const double x = X(static_cast<double>(capacity_));
    Line("line", x, kTop, x, floor);
    Words("end", x, kTop - 8, "a device has " + BytesText(capacity_));
  }

  // Draws the stairs through the points of the front that are not pipelines. A
  // sharding stays on the front even if a pipeline is better in both time and
  // memory. With pipelines, the line would therefore not always descend.
  void WriteStairs() {
    std::vector<const Sharding*> meshes;
    for (const Sharding& one : found_.front) {
      if (!one.IsPipeline()) meshes.push_back(&one);
    }
    if (meshes.size() < 2) return;
    html_.Raw("<path class=host d=\"M");
    html_.Fixed(X(*meshes[0])).Raw(" ").Fixed(Y(*meshes[0]));
    for (size_t i = 1; i < meshes.size(); ++i) {
      // For an amount of memory between two points, only the slower sharding
      // fits. So the step is drawn at the memory of the faster sharding.
      html_.Raw("V").Fixed(Y(*meshes[i]));
      html_.Raw("H").Fixed(X(*meshes[i]));
    }
    html_.Raw("\"/>\n");
  }

  void WriteMark(const Sharding& one, Mark mark) {
    html_.Raw("<g><title>").Text(SearchMeshText(one)).Raw(", ");
    html_.Text(SearchSettingsText(one.report.settings)).Raw(": ");
    html_.Text(SecondsText(one.Seconds())).Raw(", ");
    html_.Text(BytesText(one.Bytes())).Raw("</title>");
    WriteShape(html_, mark, X(one), Y(one));
    html_.Raw("</g>\n");
  }

  void WriteLegend() {
    html_.Raw("<ul class=legend>");
    for (size_t after = kLooks.size(); after > 0; --after) {
      const size_t i = after - 1;
      const Mark mark = static_cast<Mark>(i);
      if (mark == Mark::kKnee && found_.knee >= found_.front.size()) continue;
      if (mark == Mark::kRunnerUp && !found_.runner_up) continue;
      if (mark == Mark::kPipeline && !has_pipeline_) continue;
      html_.Raw("<li><svg aria-hidden=true viewBox=\"-8 -8 16 16\">");
      WriteShape(html_, mark, 0, 0);
      html_.Raw("</svg>").Raw(kLooks[i].text).Raw("</li>");
    }
    html_.Raw("</ul>\n");
  }

  const search::Found& found_;
  Html& html_;
  int64_t capacity_ = 0, bytes_ = 0;
  double least_ = 0, most_ = 0;
  bool has_pipeline_ = false;
};

// Draws the Pareto front of time and memory, the winner, the runner-up and the
// knee, with a legend. The knee is the point after which saving memory costs
// the most time per byte. `found` must have a winner.
void DrawFront(const search::Found& found, Html& html) {
  Plot(found, html).Write();
}

using search::Sharding;
using search::Verdict;
using search::WhyNot;

// A table that is only as wide as its contents. Its first column has the
// headings of the rows.
class SearchTable {
 public:
  SearchTable(Html& html, std::string_view label, std::vector<Head> heads)
      : html_(html), heads_(std::move(heads)) {
    BeginTable(html, label, "by narrow", heads_);
  }
  void Close() { EndTable(html_); }

  void Row(const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      const bool head = i == 0;
      if (head) {
        html_.Raw("<tr><th scope=row")
            .Raw(heads_[i].number ? " class=r>" : ">");
      } else {
        BeginNamedCell(html_, heads_[i]);
      }
      html_.Message(cells[i]).Raw(head ? "</th>" : "</td>");
    }
    html_.Raw("</tr>\n");
  }

 private:
  Html& html_;
  const std::vector<Head> heads_;
};

std::string Signed(double seconds) {
  if (seconds == 0) return "0";
  return (seconds < 0 ? "-" : "+") + SecondsText(std::abs(seconds));
}

std::string MeshCell(const Sharding& one) {
  return "`" + SearchMeshText(one.mesh) + "`" +
         (one.IsPipeline() ? ", " + one.schedule : "");
}

std::string RematText(const Sharding& one) {
  return "`" + one.report.settings.remat.text + "`";
}

std::string ShareOfDevice(const Sharding& one) {
  const int64_t capacity = one.report.memory.capacity.value_or(0);
  return capacity > 0 ? ShareText(one.Bytes(), capacity) : "–";
}

std::string MicrobatchesText(const Sharding& one) {
  return CountText(one.report.settings.microbatches);
}

std::string ZeroText(const Sharding& one) {
  return std::to_string(one.report.settings.zero);
}

// The parts of a step's time are drawn in these seven groups, because the page
// has seven colours for parts.
struct Group {
  std::string_view fill, name;
};
constexpr std::array<Group, 7> kGroups = {{{"p0", "matmuls"},
                                           {"p1", "attention"},
                                           {"p2", "other operations"},
                                           {"p4", "recomputation"},
                                           {"p5", "head and loss"},
                                           {"p3", "collectives"},
                                           {"p6", "optimizer and scale"}}};
size_t GroupOf(std::string_view part) {
  constexpr std::array<std::pair<std::string_view, size_t>, 7> kOwn = {
      {{"matmuls", 0},
       {"attention", 1},
       {"other_operations", 2},
       {"recomputation", 3},
       {"head_and_loss", 4},
       {"optimizer", 6},
       {"scale", 6}}};
  const auto* const at =
      std::find_if(kOwn.begin(), kOwn.end(),
                   [&](const auto& one) { return one.first == part; });
  return at == kOwn.end() ? 5 : at->second;
}

void WriteStep(Html& html, std::string_view name, const Sharding& one,
               double longest) {
  std::array<double, kGroups.size()> seconds{};
  for (const cost::TimePart& part : one.report.expected->parts) {
    seconds[GroupOf(part.name)] += part.seconds;
  }
  html.Raw("<div><span>").Text(name).Raw("</span><svg aria-hidden=true>");
  double before = 0;
  for (size_t i = 0; i < kGroups.size(); ++i) {
    const double width = 100 * seconds[i] / longest;
    if (width <= 0) continue;
    html.Raw("<rect class=\"part ").Raw(kGroups[i].fill);
    html.Raw("\" y=4 height=12 x=\"").Fixed(before);
    html.Raw("%\" width=\"").Fixed(width).Raw("%\"/>");
    before += width;
  }
  html.Raw("</svg><span class=r>").Text(SecondsText(one.Seconds()));
  html.Raw("</span><span class=\"r q\">");
  html.Text(ShareOfDevice(one)).Raw("</span></div>\n");
}

class SearchPage {
 public:
  SearchPage(const SearchReport& report, Html& html)
      : report_(report), found_(report.found), html_(html) {}

  void Write() {
    if (!found_.winner) {
      WriteMisfit();
    } else {
      WriteWinner();
      WriteSteps();
      WriteFront();
      WriteTies();
      WriteWhyNot();
    }
    if (found_.winner) {
      WritePipelines();
      WriteKnown();
    }
    WriteSpace();
  }

 private:
  void Begin(std::string_view title) {
    html_.Raw("<section><h2>").Text(title).Raw("</h2>\n");
  }
  void End() { html_.Raw("</section>\n"); }
  void Fold(std::string_view id, std::string_view title,
            const std::string& summary) {
    BeginFold(html_, id, title, [&] { html_.Message(summary); });
  }

  void Figure(std::string_view name, std::string_view look,
              const std::string& big, const std::string& more) {
    html_.Raw("<div><dt>").Text(name).Raw("</dt><dd class=\"big");
    html_.Raw(look.empty() ? "" : " ").Raw(look).Raw("\">").Text(big);
    html_.Raw("</dd><dd>").Message(more).Raw("</dd></div>\n");
  }

  // Returns what a reader of the winner does not know, the most important
  // first.
  std::vector<std::string> Doubts() const {
    std::vector<std::string> out;
    if (found_.counts.left > 0) {
      out.push_back("time was over with " + CountText(found_.counts.left) +
                    " left to evaluate");
    }
    if (!found_.winner->unmeasured.empty()) {
      out.push_back(found_.winner->unmeasured);
    }
    if (report_.proof.text.empty()) out.emplace_back("the proof was not run");
    for (const std::string& one : found_.unfinished) out.push_back(one);
    return out;
  }

  void WriteWinner() {
    const Sharding& winner = *found_.winner;
    const cost::ExpectedTime& time = *winner.report.expected;
    html_.Raw("<section><h2 class=v>Winner</h2>\n<dl class=strip>\n");
    Figure("Cheapest sharding", found_.may_fit ? "wa" : "ok",
           (found_.may_fit ? "▲ " : "✓ ") + SearchMeshText(winner.mesh),
           winner.rules + "; " +
               Counted(winner.report.settings.microbatches, "micro-batch",
                       "micro-batches") +
               ", ZeRO " + ZeroText(winner) + ", " + RematText(winner));
    Figure("Memory of a device", found_.may_fit ? "wa" : "",
           BytesText(winner.Bytes()),
           ShareOfDevice(winner) + " of a device" +
               (found_.may_fit ? ", may not fit" : ": fits"));
    Figure(
        "Time of a step", "", SecondsText(time.seconds),
        "from " + SecondsText(time.least) + " to " + SecondsText(time.most) +
            "; " +
            ShareText(std::llround(time.model_flops_share * 1e6), 1'000'000) +
            " of the peak rate, " +
            Counted(std::llround(time.tokens_per_second), "token") +
            " per second and device");
    const std::vector<std::string> doubts = Doubts();
    Figure("Not known", doubts.empty() ? "ok" : "wa",
           doubts.empty() ? "✓ nothing"
                          : "▲ " + Counted(std::ssize(doubts), "fact"),
           doubts.empty() ? "all was compared, and the winner is proven"
                          : Join(doubts, "; "));
    html_.Raw("</dl>\n");
    Sentence("Proof",
             report_.proof.text.empty() ? "not run" : report_.proof.text);
    Sentence("Accuracy", SearchAccuracyText(winner));
    if (!winner.unmeasured.empty()) Sentence("Evidence", winner.unmeasured);
    if (found_.without_stages) {
      const Sharding& other = *found_.without_stages;
      Sentence("Without stages",
               SearchMeshText(other.mesh) + ", " +
                   SearchSettingsText(other.report.settings) + ": " +
                   ChangeText(other.Seconds() / time.seconds));
    } else if (found_.fastest) {
      Sentence("Fastest",
               SearchMeshText(found_.fastest->mesh) + ", " +
                   SearchSettingsText(found_.fastest->report.settings) + ": " +
                   ChangeText(found_.fastest->Seconds() / time.seconds) + ", " +
                   SearchTieText(winner, *found_.fastest));
    }
    End();
  }

  void Sentence(std::string_view name, std::string_view text) {
    html_.Raw("<p><b>").Text(name).Raw("</b>: ").Message(text);
    html_.Raw(".</p>\n");
  }

  void WriteSteps() {
    const Sharding& winner = *found_.winner;
    const Sharding* const other = found_.runner_up && !found_.without_stages
                                      ? &*found_.runner_up
                                      : nullptr;
    Begin(other != nullptr ? "Winner and runner-up" : "Step of the winner");
    const double longest =
        std::max(winner.Seconds(), other != nullptr ? other->Seconds() : 0.0);
    html_.Raw(
        "<p class=q>Collectives count only as far as they delay the step. The "
        "last column is the share of a device’s memory.</p>\n"
        "<div class=bars>\n");
    WriteStep(html_, "winner", winner, longest);
    if (other != nullptr) WriteStep(html_, "runner-up", *other, longest);
    html_.Raw("</div>\n<ul class=legend>");
    for (const Group& group : kGroups) {
      html_.Raw("<li><svg aria-hidden=true><rect class=").Raw(group.fill);
      html_.Raw(" width=10 height=10 /></svg>").Raw(group.name).Raw("</li>");
    }
    html_.Raw("</ul>\n");
    html_.Raw("<details><summary>Choices and parts of the step</summary>\n");
    WriteComparison(winner, other);
    html_.Raw("</details>\n");
    End();
  }

  void WriteComparison(const Sharding& winner, const Sharding* other) {
    std::vector<Head> heads = {{"Choice or part"}, {"Winner", true}};
    if (other != nullptr) {
      heads.push_back({"Runner-up", true});
      heads.push_back({"Difference", true});
    }
    SearchTable table(html_, "Winner and runner-up", heads);
    const auto row = [&](const std::string& name, const auto& text,
                         const std::string& difference) {
      std::vector<std::string> cells = {name, text(winner)};
      if (other != nullptr) {
        cells.push_back(text(*other));
        cells.push_back(difference);
      }
      table.Row(cells);
    };
    const auto choice = [&](const std::string& name, const auto& text) {
      const bool same = other == nullptr || text(winner) == text(*other);
      row(name, text, same ? "same" : "differs");
    };
    choice("mesh", [](const Sharding& one) {
      return "`" + SearchMeshText(one.mesh) + "`";
    });
    choice("rules", [](const Sharding& one) { return one.rules; });
    choice("rematerialisation", RematText);
    choice("micro-batches", MicrobatchesText);
    choice("ZeRO stage", ZeroText);
    const auto memory = [](const Sharding& one) {
      return BytesText(one.Bytes());
    };
    const double ratio = other != nullptr && winner.Bytes() > 0
                             ? static_cast<double>(other->Bytes()) /
                                   static_cast<double>(winner.Bytes())
                             : 1;
    row("memory", memory, ChangeText(ratio));
    const auto& parts = winner.report.expected->parts;
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto seconds = [&](const Sharding& one) {
        return one.report.expected->parts[i].seconds;
      };
      const double more =
          other != nullptr ? seconds(*other) - parts[i].seconds : 0.0;
      if (parts[i].seconds == 0 && more == 0) continue;
      row(
          PartName(parts[i].name),
          [&](const Sharding& one) { return SecondsText(seconds(one)); },
          Signed(more));
    }
    const double whole =
        other != nullptr ? other->Seconds() - winner.Seconds() : 0;
    row(
        "step", [](const Sharding& one) { return SecondsText(one.Seconds()); },
        Signed(whole));
    table.Close();
  }

  void WriteFront() {
    if (found_.front.empty()) return;
    Fold("front", "Front of time and memory",
         Counted(std::ssize(found_.front), "sharding") +
             " that no other beats in both");
    html_.Raw(
        "<p>No other sharding beats one of these in both time and memory, but "
        "a pipeline may beat one without stages. The table below has the same "
        "points.</p>\n");
    DrawFront(found_, html_);
    SearchTable table(html_, "Points of the front",
                      {{"Time", true},
                       {"Memory", true},
                       {"Of a device", true},
                       {"Mesh"},
                       {"Rematerialisation"},
                       {"Micro-batches", true},
                       {"ZeRO", true},
                       {"Note"}});
    for (size_t i = 0; i < found_.front.size(); ++i) {
      const Sharding& one = found_.front[i];
      std::string note = i == 0 ? "fastest" : "";
      if (i == found_.knee) note += note.empty() ? "knee" : ", knee";
      if (!one.unmeasured.empty()) {
        AppendItem(note, "; ", one.unmeasured);
      }
      table.Row({SecondsText(one.Seconds()), BytesText(one.Bytes()),
                 ShareOfDevice(one), MeshCell(one), RematText(one),
                 MicrobatchesText(one), ZeroText(one), note});
    }
    table.Close();
    EndFold(html_);
  }

  void WriteTies() {
    if (found_.ties.size() < 2) return;
    Fold("ties", "Ties",
         Counted(std::ssize(found_.ties), "kind") +
             " of sharding within the error of the times");
    html_.Raw(
        "<p class=q>Less than 2 % apart, or 5 % where the axes differ: the "
        "expected times do not decide between these.</p>\n");
    SearchTable table(
        html_, "Ties",
        {{"Axes"}, {"Time", true}, {"Memory", true}, {"Mesh"}, {"Settings"}});
    for (const search::Tie& tie : found_.ties) {
      table.Row({tie.kind, SecondsText(tie.best.Seconds()),
                 BytesText(tie.best.Bytes()), MeshCell(tie.best),
                 SearchSettingsText(tie.best.report.settings)});
    }
    table.Close();
    EndFold(html_);
  }

  static std::string VerdictText(const WhyNot& one, double seconds) {
    if (one.verdict == Verdict::kExceeds) return "too large";
    if (one.verdict == Verdict::kIllegal) return "illegal";
    const std::string ratio = ChangeText(one.best->Seconds() / seconds);
    return one.verdict == Verdict::kTie ? ratio + ", a tie" : ratio;
  }

  void WriteWhyNot() {
    if (found_.why_not.empty()) return;
    Fold("why-not", "Why not",
         Counted(std::ssize(found_.why_not), "other choice") +
             ", and what each costs");
    html_.Raw(
        "<p class=q>Each line makes one choice otherwise and all others again "
        "for it.</p>\n");
    SearchTable table(html_, "Alternatives",
                      {{"Change"},
                       {"Time", true},
                       {"Because"},
                       {"Best mesh"},
                       {"Settings"},
                       {"Memory", true}});
    for (const WhyNot& one : found_.why_not) {
      std::string change = Join(one.changes, "; or ");
      table.Row({change, VerdictText(one, found_.Compared().Seconds()),
                 one.because, one.best ? MeshCell(*one.best) : "–",
                 one.best ? SearchSettingsText(one.best->report.settings) : "–",
                 one.best ? BytesText(one.best->Bytes()) : "–"});
    }
    table.Close();
    EndFold(html_);
  }

  void WriteMisfit() {
    Begin(!found_.not_known.empty() ? "Nothing was compared"
          : found_.counts.left > 0  ? "Nothing that fits was found in time"
                                    : "Nothing fits");
    for (const NotKnown& fact : found_.not_known) {
      Sentence("Not known", NotKnownText(fact));
    }
    if (found_.least) {
      Sentence("Least memory",
               SearchMeshText(found_.least->mesh) + ", " +
                   SearchSettingsText(found_.least->report.settings) + ": " +
                   BytesText(found_.least->Bytes()) + " of a device");
    }
    for (const std::string& reason : found_.reasons) {
      html_.Raw("<p>").Message(reason).Raw("</p>\n");
    }
    End();
  }

  void WritePipelines() {
    const search::Pipelines& pipelines = found_.pipelines;
    Fold("pipelines", "Pipelines",
         pipelines.fastest
             ? SecondsText(pipelines.fastest->seconds) + " at the fastest"
             : "none");
    if (pipelines.fastest) {
      const search::Pipeline& one = *pipelines.fastest;
      Sentence("Fastest", SearchPipelineText(one) + ": " +
                              SecondsText(one.seconds) + " a step, from " +
                              SecondsText(one.least) + " to " +
                              SecondsText(one.most));
      Sentence("Stages", SearchStagesText(pipelines));
    } else {
      Sentence("None",
               pipelines.why_not.empty() ? "none fits" : pipelines.why_not);
    }
    if (!pipelines.finished) {
      Sentence("Cut", CountText(pipelines.evaluated) + " of " +
                          CountText(pipelines.bounded) + " evaluated" +
                          SearchLeftText(pipelines.left_bound));
    }
    EndFold(html_);
  }

  void WriteKnown() {
    Fold("published", "What published runs support",
         Counted(std::ssize(found_.known), "choice"));
    for (const search::Known& one : found_.known) {
      Sentence(one.choice, one.text);
    }
    EndFold(html_);
  }

  void WriteSpace() {
    const search::Counts& counts = found_.counts;
    Fold("space", "What was searched",
         CountText(counts.evaluated) + " of " +
             CountText(counts.evaluated + counts.out_of_reach +
                       counts.too_large + counts.illegal + counts.left) +
             " evaluated");
    html_.Raw("<p>")
        .Count(counts.shardings)
        .Raw(" meshes and rules, each with ");
    html_.Raw("up to ").Count(counts.settings).Raw(" settings: ");
    html_.Count(counts.evaluated).Raw(" evaluated, ");
    html_.Count(counts.out_of_reach).Raw(" excluded by bounds, ");
    html_.Count(counts.too_large).Raw(" too large, ");
    html_.Count(counts.illegal).Raw(" illegal");
    if (counts.left > 0) {
      html_.Raw(", ").Count(counts.left).Raw(" left because time was over");
      html_.Raw(SearchLeftText(counts.left_bound));
    }
    html_.Raw(".</p>\n");
    for (const std::string& text : found_.unfinished) {
      Sentence("Unfinished because time was over", text);
    }
    for (const std::string& text : NotSearched()) {
      Sentence("Not searched", text);
    }
    std::string assumed;
    for (const std::string& flag : report_.assumed) {
      assumed += (assumed.empty() ? "`" : ", `") + flag + "`";
    }
    if (!assumed.empty()) Sentence("Assumed", assumed);
    EndFold(html_);
  }

  const SearchReport& report_;
  const search::Found& found_;
  Html& html_;
};

std::string Subtitle(const SearchReport& report) {
  const cost::Settings& settings = report.settings;
  std::string out = Counted(report.devices, "device");
  if (settings.profile != nullptr) {
    out += " of profile " + std::string(settings.profile->name);
  }
  if (settings.batch) {
    out += ", a batch of " + Counted(*settings.batch, "row");
  }
  if (settings.length) {
    out += " of " + Counted(*settings.length, "token");
  }
  return out;
}

}  // namespace

void WriteSearchPage(const SearchReport& report, Sink& out) {
  WriteSheet(
      report.target.empty() ? "The cheapest sharding"
                            : "The cheapest sharding of " + report.target,
      Subtitle(report), [&](Html& html) { SearchPage(report, html).Write(); },
      out);
}

}  // namespace shardc::report
