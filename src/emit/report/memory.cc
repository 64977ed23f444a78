// Draws the memory of the device that holds the most bytes. First, each mode
// has one bar, and all bars have the same scale. Then a treemap shows the
// parameters: its areas are proportional to bytes, and the box of each part of
// the model, such as `mlp`, contains the parameter groups of this part. A group
// whose fraction of the bytes is below kLeast is left out. For example:
//
//   mlp 336 MiB [down ×32 | gate ×32 | up ×32] | head 250 MiB | ...
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "emit/report/page.h"
#include "picture/bars.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

using picture::Box;
using picture::ParamGroup;

constexpr double kMapWidth = 1056, kMapHeight = 300;
// A box with a smaller fraction of a device's bytes is not drawn.
constexpr double kLeast = 0.0004;
// The smallest width in px at which a box gets a vertical label. The first
// value is for a wide screen. The second value is for a phone, where the map is
// drawn at a third of its full width.
constexpr double kUpright = 18, kUprightOnPhone = 52;

// The part of a bar after the components: the expected bytes of a step include
// what the allocator reserves, and no component does.
constexpr size_t kReserve = cost::kComponentCount;

std::string ComponentName(size_t component) {
  if (component == kReserve) return "allocator’s reserve";
  std::string out(cost::kComponentNames[component]);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

std::optional<int64_t> Capacity(const Page& page) {
  for (const cost::Report& report : page.in.costs) {
    if (report.memory.capacity) return report.memory.capacity;
  }
  return std::nullopt;
}

// Returns the bytes of a part of a bar: of a component, or of kReserve.
int64_t BytesOf(const cost::Memory& memory, size_t part) {
  if (part < kReserve) return memory.most.KnownOf(part);
  const int64_t held = memory.most.total.value_or(0);
  return std::max<int64_t>(0, memory.Expected().value_or(held) - held);
}

// Returns the bytes of the device that holds the fewest, with the same share of
// reserve as the fullest.
std::optional<int64_t> Emptiest(const cost::Memory& memory) {
  const auto& least = memory.least.total;
  const auto& most = memory.most.total;
  const auto expected = memory.Expected();
  if (!least || !most || !expected || *most <= 0) return least;
  if (*least == *most) return expected;
  return std::llround(
      static_cast<double>(*least) *
      (static_cast<double>(*expected) / static_cast<double>(*most)));
}

double Percent(int64_t part, int64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

// Writes the name of a part under it where it has room: on a wide screen, where
// a bar is about 800 px wide, and on a phone, where it is about 340.
void WriteWord(const std::string& name, double at, double width, Html& html) {
  const double needed = 6.6 * static_cast<double>(name.size()) + 4;
  if (width * 8 < needed) return;
  html.Raw(width * 3.4 < needed ? "<text class=desk x=\"" : "<text x=\"");
  html.Fixed(at).Raw("%\" y=28>").Text(name).Raw("</text>");
}

void WriteBar(Page& page, const cost::Report& report, int64_t scale) {
  Html& html = page.html;
  const auto& capacity = report.memory.capacity;
  const int64_t total = report.memory.Expected().value_or(0);
  html.Raw("<div><span>").Text(NameOf(report)).Raw("</span>");
  html.Raw("<svg aria-hidden=true><rect class=track y=4 height=12 width=\"");
  html.Fixed(Percent(capacity.value_or(scale), scale)).Raw("%\"/>");
  int64_t before = 0;
  for (size_t i = 0; i <= kReserve; ++i) {
    const int64_t bytes = BytesOf(report.memory, i);
    if (bytes == 0) continue;
    html.Raw("<rect class=\"part p").Number(static_cast<int64_t>(i));
    html.Raw("\" y=4 height=12 x=\"").Fixed(Percent(before, scale));
    html.Raw("%\" width=\"").Fixed(Percent(bytes, scale)).Raw("%\"/>");
    WriteWord(ComponentName(i), Percent(before, scale), Percent(bytes, scale),
              html);
    before = CheckedAdd(before, bytes).value_or(INT64_MAX);
  }
  if (capacity && total > *capacity) {
    html.Raw("<rect class=over y=17 height=2 x=\"");
    html.Fixed(Percent(*capacity, scale)).Raw("%\" width=\"");
    html.Fixed(Percent(total - *capacity, scale)).Raw("%\"/>");
  }
  if (capacity) {
    html.Raw("<line class=line y1=0 y2=20 x1=\"");
    html.Fixed(Percent(*capacity, scale)).Raw("%\" x2=\"");
    html.Fixed(Percent(*capacity, scale)).Raw("%\"/>");
  }
  html.Raw("</svg><span class=r>");
  // Without a component, the total is a lower bound and its share is not known.
  const bool complete = report.memory.Complete();
  if (!complete) html.Raw("at least ");
  html.Bytes(total).Raw("</span><span class=r>");
  if (capacity && *capacity > 0 && (complete || total > *capacity)) {
    const bool over = total > *capacity;
    html.Raw(over ? "<span class=e>✕ " : "<span class=q>");
    html.Number(std::llround(Percent(total, *capacity)));
    html.Raw("\u00a0%</span>");
  }
  html.Raw("</span></div>\n");
}

void WriteLegend(Page& page, const std::set<size_t>& there) {
  Html& html = page.html;
  html.Raw("<ul class=legend>");
  for (size_t i : there) {
    html.Raw("<li><svg aria-hidden=true><rect class=p");
    html.Number(static_cast<int64_t>(i)).Raw(" width=10 height=10 /></svg>");
    html.Text(ComponentName(i)).Raw("</li>");
  }
  if (const auto capacity = Capacity(page)) {
    html.Raw(
        "<li><svg aria-hidden=true><line class=line x1=5 x2=5 y1=0 y2=10 "
        "/></svg>a device’s memory, ");
    html.Bytes(*capacity).Raw("</li>");
  }
  html.Raw("</ul>\n");
}

void WriteTable(Page& page, const std::set<size_t>& there) {
  Html& html = page.html;
  html.Raw("<details><summary>As a table</summary>");
  std::vector<Head> heads = {{"Component"}};
  for (const cost::Report& report : page.in.costs) {
    heads.push_back({NameOf(report), true});
  }
  BeginTable(html, "memory by mode or rank", "by", heads);
  const auto row = [&](std::string_view name, const auto& bytes) {
    html.Raw("<tr><th scope=row>").Text(name).Raw("</th>");
    for (const cost::Report& report : page.in.costs) {
      html.Raw("<td class=r data-m=\"").Text(NameOf(report)).Raw("\">");
      html.Bytes(bytes(report.memory)).Raw("</td>");
    }
    html.Raw("</tr>");
  };
  for (size_t i : there) {
    if (i == kReserve) {
      row("tensors", [](const cost::Memory& of) { return of.most.total; });
    }
    row(ComponentName(i), [&](const cost::Memory& of) {
      return i == kReserve ? std::optional(BytesOf(of, i)) : of.most.by[i];
    });
  }
  const bool at_least = std::any_of(
      page.in.costs.begin(), page.in.costs.end(),
      [](const cost::Report& report) { return !report.memory.Complete(); });
  row(at_least ? "total, at least" : "total",
      [](const cost::Memory& of) { return of.Expected(); });
  if (page.in.pipeline) {
    row("at most of a device", [](const cost::Memory& of) {
      return of.HasPeak() ? std::optional(of.taken->most) : std::nullopt;
    });
  } else {
    row("the emptiest device",
        [](const cost::Memory& of) { return Emptiest(of); });
  }
  EndTable(html);
  html.Raw("</details>\n");
}

void WriteBars(Page& page) {
  int64_t peak = 0;
  std::set<size_t> there;
  for (const cost::Report& report : page.in.costs) {
    peak = std::max(peak, report.memory.Expected().value_or(0));
    for (size_t i = 0; i <= kReserve; ++i) {
      if (BytesOf(report.memory, i) > 0) there.insert(i);
    }
  }
  const int64_t scale = picture::ScaleOf(Capacity(page).value_or(0), peak);
  page.html.Raw("<div class=bars>\n");
  for (const cost::Report& report : page.in.costs) {
    WriteBar(page, report, scale);
  }
  page.html.Raw("</div>\n");
  WriteLegend(page, there);
  WriteTable(page, there);
}

int64_t SumOnFullest(const Page& page, bool replicated_only) {
  int64_t out = 0;
  for (const ParamGroup& group : page.plan().groups()) {
    if (replicated_only && !page.plan().IsReplicated(group, page.First())) {
      continue;
    }
    out =
        CheckedAdd(out, page.plan().OnFullest(group, page.First()).value_or(0))
            .value_or(INT64_MAX);
  }
  return out;
}

std::string ShareOf(int64_t part, int64_t whole) {
  const double percent = whole > 0 ? Percent(part, whole) : 0;
  if (part > 0 && percent < 0.1) return "less than 0.1\u00a0%";
  const auto tenths = std::llround(percent * 10);
  return std::to_string(tenths / 10) +
         (percent < 10 ? "." + std::to_string(tenths % 10) : "") + "\u00a0%";
}

// Writes how much of the parameters each device holds a copy of.
void WriteReplicated(Page& page) {
  const int64_t held = SumOnFullest(page, false);
  const int64_t replicated = SumOnFullest(page, true);
  const auto total = page.plan().TotalBytes();
  if (page.mesh().devices == 1 || held == 0) return;
  Html& html = page.html;
  html.Raw(" ");
  if (replicated == 0) {
    html.Raw("None of them");
  } else {
    html.Bytes(replicated).Raw(" of them (" + ShareOf(replicated, held) + ")");
  }
  html.Raw(" are replicated on every device");
  if (total && *total > 0) {
    html.Raw("; all devices together hold ");
    html.Fixed(static_cast<double>(held) *
               static_cast<double>(page.mesh().devices) /
               static_cast<double>(*total));
    html.Raw(" times the model");
  }
  html.Raw(".");
}

// Writes how evenly the parameters are distributed over the devices.
void WriteDevices(Page& page) {
  page.html.Raw("<h3>Devices</h3>\n<p>");
  page.ByMode([&](Mode mode, Html& html) {
    const HeldBytes held = page.plan().Held(mode);
    const auto most = held.Fullest(), least = held.Emptiest(page.mesh());
    if (most == least) {
      if (page.mesh().devices == 1) {
        html.Raw("The device holds all parameters: ");
      } else {
        html.Raw("Each of ").Count(page.mesh().devices);
        html.Raw(" devices holds the same bytes of parameters: ");
      }
      html.Bytes(most).Raw(".");
    } else {
      html.Raw("The fullest device holds ").Bytes(most);
      html.Raw(" of the parameters");
      if (least) {
        html.Raw(", the emptiest ").Bytes(least);
      } else {
        html.Raw(", and other devices less: some shards are uneven");
      }
      html.Raw(".");
    }
    for (const auto& [axis, bytes] : held.placed()) {
      int64_t fullest = 0;
      for (const auto& [coordinate, one] : bytes) {
        fullest = std::max(fullest, one);
      }
      html.Raw(" ")
          .Bytes(fullest)
          .Raw(" of these are placed along ")
          .Name(axis);
      html.Raw(".");
    }
  });
  WriteReplicated(page);
  if (const int64_t unknown = page.plan().UnknownSizes(); unknown > 0) {
    page.html.Raw(" " + Counted(unknown, "parameter") + " of unknown size " +
                  (unknown == 1 ? "is" : "are") + " left out.");
  }
  page.html.Raw("</p>\n");
}

struct MemoryCell {
  const ParamGroup* group = nullptr;
  int64_t bytes = 0;
};

struct Region {
  picture::Kind kind = picture::Kind::kOther;
  int64_t bytes = 0;
  std::vector<MemoryCell> cells;
};

std::vector<Region> RegionsOf(const Page& page, Mode mode) {
  std::vector<Region> out(std::size(picture::kKindNames));
  int64_t all = 0;
  for (const ParamGroup& group : page.plan().groups()) {
    const int64_t bytes = page.plan().OnFullest(group, mode).value_or(0);
    all = CheckedAdd(all, bytes).value_or(INT64_MAX);
    Region& region = out[static_cast<size_t>(group.kind)];
    region.kind = group.kind;
    region.cells.push_back({&group, bytes});
  }
  for (Region& region : out) {
    std::erase_if(region.cells, [&](const MemoryCell& cell) {
      return static_cast<double>(cell.bytes) <=
             kLeast * static_cast<double>(all);
    });
    std::sort(region.cells.begin(), region.cells.end(),
              [](const MemoryCell& a, const MemoryCell& b) {
                return a.bytes != b.bytes ? a.bytes > b.bytes
                                          : a.group->shown < b.group->shown;
              });
    if (region.cells.size() > page.limits.rows / 4) {
      region.cells.resize(page.limits.rows / 4);
    }
    for (const MemoryCell& cell : region.cells) {
      region.bytes = CheckedAdd(region.bytes, cell.bytes).value_or(INT64_MAX);
    }
  }
  std::erase_if(out, [](const Region& region) { return region.bytes == 0; });
  std::stable_sort(
      out.begin(), out.end(),
      [](const Region& a, const Region& b) { return a.bytes > b.bytes; });
  return out;
}

// Returns the longest of `mlp.up_proj ×32`, `mlp.up_proj` and `up_proj` that
// fits the width. Returns an empty text if none of them fits.
std::string LabelOf(const ParamGroup& group, double width) {
  std::vector<std::string> parts = {""};
  for (char c : group.folded) {
    if (c == '.' || c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() > 1 &&
      (parts.back() == "weight" || parts.back() == "kernel")) {
    parts.pop_back();
  }
  const std::string last = parts.back();
  parts.pop_back();
  // A `*` before the last part is dropped, so that `experts.*.down_proj`
  // becomes `experts.down_proj`.
  while (!parts.empty() && parts.back() == "*") parts.pop_back();
  const std::string both = parts.empty() ? last : parts.back() + "." + last;
  std::vector<std::string> labels = {both, last};
  if (group.count > 1) {
    labels.insert(labels.begin(), both + " ×" + std::to_string(group.count));
  }
  for (const std::string& label : labels) {
    if (static_cast<double>(label.size()) * 7.4 < width * 0.84) return label;
  }
  return "";
}

std::string_view InkOf(const Page& page, const ParamGroup& group, Mode mode) {
  if (page.plan().IsReplicated(group, mode)) return "rw";
  const int64_t copies = page.plan().Copies(group, mode);
  if (copies <= 1) return "r1";
  if (copies <= 2) return "r2";
  return copies <= 8 ? "r8" : "rn";
}

std::string CopiesText(const Page& page, const ParamGroup& group, Mode mode) {
  if (page.plan().IsReplicated(group, mode)) return "on all devices";
  return Counted(page.plan().Copies(group, mode), "copy", "copies");
}

// Writes a vertical label in a narrow box: the name, and the bytes and the
// number of copies if they fit too. `place` has the CSS classes of the media
// (wide screen, phone, paper) on which the label is shown.
void WriteUpright(const Page& page, const MemoryCell& cell, const Box& box,
                  Mode mode, std::string_view place, Html& html) {
  std::string label = LabelOf(*cell.group, box.height);
  if (label.empty()) return;
  for (const std::string& more :
       {BytesText(cell.bytes), CopiesText(page, *cell.group, mode)}) {
    const std::string longer = label + ", " + more;
    if (static_cast<double>(longer.size()) * 7.4 > box.height - 12) break;
    label = longer;
  }
  html.Raw("<text class=\"up").Raw(place).Raw("\" x=\"");
  html.Fixed((box.x + box.width / 2) / kMapWidth * 100);
  html.Raw("%\" y=\"").Fixed(box.y + 6).Raw("\">").Text(label);
  html.Raw("</text>");
}

void WriteCell(const Page& page, const MemoryCell& cell, const Box& box,
               Mode mode, Html& html) {
  const auto percent = [](double x) { return x / kMapWidth * 100; };
  html.Raw("<g><title>").Name(cell.group->shown).Raw(": ").Bytes(cell.bytes);
  html.Raw(", copies ").Count(page.plan().Copies(*cell.group, mode));
  html.Raw("</title><rect class=\"part ").Raw(InkOf(page, *cell.group, mode));
  html.Raw("\" x=\"").Fixed(percent(box.x)).Raw("%\" y=\"").Fixed(box.y);
  html.Raw("\" width=\"").Fixed(percent(box.width)).Raw("%\" height=\"");
  html.Fixed(box.height).Raw("\"/>");
  const std::string label = LabelOf(*cell.group, box.width);
  const bool shown = !label.empty() && box.height > 18;
  std::vector<std::string> lines = {label};
  if (shown && box.height > 34 && box.width > 76) {
    lines.push_back(BytesText(cell.bytes));
  }
  // The colours show the number of copies. It is also written in words, for
  // readers who cannot see colours.
  if (shown && box.height > 48 && box.width > 96) {
    lines.push_back(CopiesText(page, *cell.group, mode));
  }
  size_t longest = 0;
  for (const std::string& line : lines) {
    longest = std::max(longest, line.size());
  }
  // Check whether the texts also fit at half of the map's width, as on paper,
  // or at a third, as on a phone.
  const double needed = static_cast<double>(longest) * 7.4 + 6;
  const bool third = shown && needed < box.width / 3;
  const bool half = shown && needed < box.width / 2;
  for (size_t i = 0; shown && i < lines.size(); ++i) {
    html.Raw("<text class=\"").Raw(i == 0 ? "a" : "b");
    html.Raw(third ? " wide" : half ? " half" : "");
    html.Raw("\" dx=6 x=\"").Fixed(percent(box.x)).Raw("%\" y=\"");
    html.Fixed(box.y + 15 + 14 * static_cast<double>(i)).Raw("\">");
    html.Text(lines[i]).Raw("</text>");
  }
  if (box.width >= kUprightOnPhone && !third) {
    WriteUpright(page, cell, box, mode,
                 !shown ? " all"
                 : half ? " narrow half"
                        : " narrow",
                 html);
  } else if (box.width >= kUpright && !shown) {
    WriteUpright(page, cell, box, mode, " desk", html);
  }
  html.Raw("</g>\n");
}

void WriteMap(const Page& page, Mode mode, Html& html) {
  const std::vector<Region> regions = RegionsOf(page, mode);
  std::vector<int64_t> weights;
  for (const Region& region : regions) weights.push_back(region.bytes);
  const auto boxes = picture::Squarify(weights, {0, 0, kMapWidth, kMapHeight});
  html.Raw(
      "<svg class=map role=img aria-label=\"Parameters of the fullest device "
      "in ");
  html.Text(ModeName(mode));
  html.Raw("; the parameters below have the figures\">\n");
  for (size_t i = 0; i < regions.size(); ++i) {
    std::vector<int64_t> inner;
    for (const MemoryCell& cell : regions[i].cells) inner.push_back(cell.bytes);
    // The box of each part of the model is made smaller, so that the gap
    // between parts is wider than the gap between the groups of a part.
    Box box = boxes[i];
    box.width = std::max(0.0, box.width - 2);
    box.height = std::max(0.0, box.height - 2);
    const auto cells = picture::Squarify(inner, box);
    for (size_t k = 0; k < cells.size(); ++k) {
      WriteCell(page, regions[i].cells[k], cells[k], mode, html);
    }
  }
  html.Raw("</svg>\n");
}

void WriteInks(Html& html) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kInks =
      {{{"r1", "sharded over all devices"},
        {"r2", "2 copies"},
        {"r8", "up to 8"},
        {"rn", "more"},
        {"rw", "replicated on every device"}}};
  html.Raw("<ul class=legend>");
  for (const auto& [look, text] : kInks) {
    html.Raw("<li><svg aria-hidden=true><rect class=").Raw(look);
    html.Raw(" width=10 height=10 /></svg>").Raw(text).Raw("</li>");
  }
  html.Raw("</ul>\n");
}

}  // namespace

void WriteMemory(Page& page) {
  Html& html = page.html;
  page.Begin("memory", "Memory");
  html.Raw(page.in.pipeline
               ? "<p class=q>The bytes of a device of each rank in training"
               : "<p class=q>A device’s bytes by mode");
  html.Raw(Capacity(page) ? ", against its memory"
                          : "; no device memory was given");
  html.Raw(
      ". In the map below, areas are bytes and darkness is replication: pale "
      "boxes are sharded over all devices, dark boxes have many copies, "
      "hatched boxes are replicated on every device.</p>\n");
  if (!page.in.costs.empty()) WriteBars(page);
  WriteDevices(page);
  html.Raw("<h3>Parameters of the fullest device</h3>\n");
  page.ByMode([&](Mode mode, Html& inner) { WriteMap(page, mode, inner); });
  WriteInks(html);
  page.End();
}

}  // namespace shardc::report
