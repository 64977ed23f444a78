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
#include "emit/report/front_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emit/costs/figures.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

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

}  // namespace

void DrawFront(const search::Found& found, Html& html) {
  Plot(found, html).Write();
}

}  // namespace shardc::report
