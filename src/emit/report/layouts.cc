// One figure per distinct sharding of the plan's arrays, drawn for the largest
// parameter with it. All replicated parameters share one figure, whatever their
// rank:
//
//   ["tp", "fsdp"] of 162 parameters, [null, "tp"] of 32, replicated: 65
//
//   ["tp", "fsdp"] of 162 parameters, [null, "tp"] of 32, whole of 65
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emit/pictures/words.h"
#include "emit/report/figures.h"
#include "picture/mesh.h"
#include "source/checked.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

struct Way {
  const picture::ParamGroup* largest = nullptr;
  // of the first group of modes that has this sharding
  Mode mode = Mode::kTrain;
  int64_t bytes = 0;  // of all parameters with this sharding
  int64_t params = 0;
  std::set<size_t> groups;  // groups of modes with this sharding
  std::string key;
};

std::vector<Way> WaysOf(const Page& page) {
  std::vector<Way> out;
  std::map<std::string, size_t> index;
  for (size_t g = 0; g < page.groups.size(); ++g) {
    const Mode mode = page.groups[g][0];
    std::map<size_t, int64_t> params;
    for (const picture::ParamGroup& group : page.plan().groups()) {
      const std::string key = FigureKey(page.plan(), group, mode);
      const auto [at, fresh] = index.try_emplace(key, out.size());
      if (fresh) out.push_back({nullptr, mode, 0, 0, {}, key});
      Way& way = out[at->second];
      const int64_t bytes = page.plan().Total(group).value_or(0);
      if (way.mode == mode) {
        way.bytes = CheckedAdd(way.bytes, bytes).value_or(INT64_MAX);
        if (way.largest == nullptr ||
            bytes > page.plan().Total(*way.largest).value_or(0)) {
          way.largest = &group;
        }
      }
      params[at->second] += group.count;
      way.groups.insert(g);
    }
    for (const auto& [way, count] : params) {
      out[way].params = std::max(out[way].params, count);
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Way& a, const Way& b) {
    return a.bytes > b.bytes;
  });
  return out;
}

void WriteWay(Page& page, const Way& way, size_t number) {
  Html& html = page.html;
  const picture::ParamGroup& group = *way.largest;
  const ReadParam& param = page.plan().ParamOf(group);
  picture::ArrayInput input;
  input.mesh = page.mesh();
  input.spec = page.plan().SpecOf(group, way.mode);
  input.dims = picture::DimsOf(param.type.shape, input.spec);
  input.placement = param.placement;
  const picture::ArrayPicture array(std::move(input));
  // The style class of the modes that have this sharding.
  std::string look;
  if (way.groups.size() < page.groups.size()) {
    look = "m";
    for (size_t g : way.groups) look += " m" + std::to_string(g) + "s";
  }
  html.Raw("<figure id=l").Number(static_cast<int64_t>(number));
  html.Raw(" class=\"" + look + "\"><figcaption>");
  if (way.key == "whole") {
    html.Raw("<b>Whole on every device</b>");
  } else {
    page.SpecOf(page.plan().SpecOf(group, way.mode));
  }
  if (!look.empty()) {
    std::vector<Mode> modes;
    for (size_t g : way.groups) {
      modes.insert(modes.end(), page.groups[g].begin(), page.groups[g].end());
    }
    html.Raw(" <span class=tag>");
    page.Modes(modes);
    html.Raw(" only</span>");
  }
  html.Raw("<br><span class=n>").Name(group.shown).Raw("</span>");
  if (way.params > group.count) {
    html.Raw(" <span class=q>and ").Count(way.params - group.count);
    html.Raw(" parameters alike</span>");
  }
  WriteArrayCaption(page, array);
  html.Raw("</figcaption>");
  DrawArray(page, array);
  html.Raw("</figure>\n");
}

void WriteAxisTable(Page& page, const picture::MeshPicture& mesh) {
  Html& html = page.html;
  html.Raw(
      "<div class=s tabindex=0 role=group aria-label=Axes><table class=narrow>"
      "<thead><tr><th scope=col>Axis</th><th scope=col class=r>Size</th>"
      "<th scope=col class=r>Stride</th><th scope=col>First group</th>"
      "<th scope=col>Lies</th></tr></thead><tbody>");
  for (const picture::AxisLine& line : mesh.axes()) {
    const MeshAxis& axis = page.mesh().axes[line.axis];
    const auto step = line.group.Step();
    html.Raw("<tr><th scope=row>");
    page.Axis(axis.name);
    html.Raw("</th><td class=r>").Count(axis.size).Raw("</td><td class=r>");
    html.Raw(axis.size == 1 ? "–" : step ? CountText(*step) : "uneven");
    html.Raw("</td><td>").Text(DevicesText(line.group, "–"));
    html.Raw("</td><td>").Text(HostSpanText(line)).Raw("</td></tr>");
  }
  html.Raw("</tbody></table></div>\n");
}

}  // namespace

void PlanFigures(Page& page) {
  const std::vector<Way> ways = WaysOf(page);
  for (size_t i = 0; i < ways.size() && i < page.limits.figures; ++i) {
    page.figures[ways[i].key] = i;
  }
}

void WriteLayouts(Page& page) {
  const std::vector<Way> ways = WaysOf(page);
  if (ways.empty() || page.mesh().devices == 1) return;
  Html& html = page.html;
  page.Begin("layouts", "Layouts");
  html.Raw(
      "<p class=q>Each way in which this plan cuts an array, drawn for its "
      "largest parameter. A tile is one piece, the number in it the device; "
      "stacked tiles are copies. Numbers along the edges are coordinates on "
      "the mesh axis of that colour.</p>\n<div class=figs>\n");
  const size_t shown = std::min(ways.size(), page.limits.figures);
  for (size_t i = 0; i < shown; ++i) WriteWay(page, ways[i], i);
  html.Raw("</div>\n");
  if (shown < ways.size()) {
    html.Raw("<p class=q>and ")
        .Count(static_cast<int64_t>(ways.size() - shown));
    html.Raw(" ways more, of fewer bytes.</p>");
  }
  page.End();
}

void WriteMesh(Page& page) {
  Html& html = page.html;
  const picture::MeshPicture mesh(page.mesh());
  page.Begin("mesh", "Mesh");
  html.Raw("<p class=q>").Count(page.mesh().devices).Raw(" devices");
  if (mesh.knows_hosts()) {
    html.Raw(" on ").Count(page.mesh().processes).Raw(" hosts, ");
    html.Count(mesh.PerHost()).Raw(" on each");
  }
  html.Raw(". Numbers run row by row, the last axis fastest");
  if (!mesh.knows_hosts()) {
    html.Raw("; the mesh does not say how many hosts");
  } else if (mesh.host_form() == picture::HostForm::kNone) {
    html.Raw("; hosts are neither rows nor parts of a row");
  } else {
    html.Raw("; an outline is one host");
  }
  html.Raw(".</p>\n");
  DrawMesh(page, mesh);
  WriteAxisTable(page, mesh);
  page.End();
}

}  // namespace shardc::report
