// Writes the section of the page that shows the mesh and the shardings of
// parameters. Each distinct sharding has one figure, which draws a parameter of
// the largest group with this sharding. The figures are in descending order of
// bytes, and at most Limits::figures are drawn. All replicated parameters share
// one figure, even if their ranks differ. For example, a plan with these three
// shardings has three figures:
//
//   ["tp", "fsdp"] of 162 parameters, [null, "tp"] of 32, replicated: 65
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emit/pictures/line.h"
#include "emit/report/page.h"
#include "picture/array.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

struct DrawnSharding {
  const picture::ParamGroup* largest = nullptr;
  // The first mode in which at least one parameter has this sharding.
  Mode mode = Mode::kTrain;
  int64_t bytes = 0;  // bytes of the parameters with this sharding in `mode`
  // The number of parameters with this sharding. If every parameter has the
  // same spec in two modes, the modes are in one group. If the number differs
  // between the groups, the largest number is stored.
  int64_t params = 0;
  // The indices of the groups of modes (Page::groups) in which a parameter has
  // this sharding.
  std::set<size_t> groups;
  std::string key;
};

std::vector<DrawnSharding> DrawnShardings(const Page& page) {
  std::vector<DrawnSharding> out;
  std::map<std::string, size_t> index;
  for (size_t g = 0; g < page.groups.size(); ++g) {
    const Mode mode = page.groups[g][0];
    std::map<size_t, int64_t> params;
    for (const picture::ParamGroup& group : page.plan().groups()) {
      const std::string key = FigureKey(page.plan(), group, mode);
      const auto [at, fresh] = index.try_emplace(key, out.size());
      if (fresh) out.push_back({nullptr, mode, 0, 0, {}, key});
      DrawnSharding& one = out[at->second];
      const int64_t bytes = page.plan().Total(group).value_or(0);
      if (one.mode == mode) {
        one.bytes = CheckedAdd(one.bytes, bytes).value_or(INT64_MAX);
        if (one.largest == nullptr ||
            bytes > page.plan().Total(*one.largest).value_or(0)) {
          one.largest = &group;
        }
      }
      params[at->second] += group.count;
      one.groups.insert(g);
    }
    for (const auto& [one, count] : params) {
      out[one].params = std::max(out[one].params, count);
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const DrawnSharding& a, const DrawnSharding& b) {
                     return a.bytes > b.bytes;
                   });
  return out;
}

void WriteSharding(Page& page, const DrawnSharding& one, size_t number) {
  Html& html = page.html;
  const picture::ParamGroup& group = *one.largest;
  const DrawnParam drawn = page.plan().WithoutStages(group);
  const ReadParam& param = drawn.param;
  picture::ArrayInput input;
  input.mesh = page.mesh();
  const Spec& spec = param.SpecOf(one.mode);
  const DimParts parts = ShardedParts(param.parts, spec);
  const auto equal = EqualPartsOf(parts);
  if (equal) {
    input.spec = SplitSpec(spec, *equal);
    input.dims = picture::DimsOf(param.type.shape, spec, *equal);
  }
  input.placement = param.placement;
  input.rank = drawn.rank;
  // The CSS classes that show the figure only in the modes with this sharding.
  std::string look;
  if (one.groups.size() < page.groups.size()) {
    look = "m";
    for (size_t g : one.groups) look += " m" + std::to_string(g) + "s";
  }
  html.Raw("<figure id=l").Number(static_cast<int64_t>(number));
  html.Raw(" class=\"" + look + "\"><figcaption>");
  if (one.key == "replicated") {
    html.Raw("<b>Replicated on every device</b>");
  } else {
    page.SpecOf(page.plan().SpecOf(group, one.mode));
    html.Text(InPartsText(parts));
  }
  if (!look.empty()) {
    std::vector<Mode> modes;
    for (size_t g : one.groups) {
      modes.insert(modes.end(), page.groups[g].begin(), page.groups[g].end());
    }
    html.Raw(" <span class=tag>");
    page.Modes(modes);
    html.Raw(" only</span>");
  }
  html.Raw("<br><span class=n>").Name(group.shown).Raw("</span>");
  if (one.params > group.count) {
    html.Raw(" <span class=q>and " +
             Counted(one.params - group.count, "more parameter") + "</span>");
  }
  if (equal) {
    const picture::ArrayPicture array(std::move(input));
    WriteArrayCaption(page, array);
    html.Raw("</figcaption>");
    DrawArray(page, array);
  } else {
    html.Raw("<br>Not drawn: the parts have different sizes.</figcaption>");
  }
  html.Raw("</figure>\n");
}

void WriteAxisTable(Page& page, const picture::MeshPicture& mesh) {
  Html& html = page.html;
  BeginTable(
      html, "Axes", "narrow",
      {{"Axis"}, {"Size", true}, {"Stride", true}, {"First group"}, {"Hosts"}});
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
  EndTable(html);
}

}  // namespace

void PlanFigures(Page& page) {
  const std::vector<DrawnSharding> shardings = DrawnShardings(page);
  for (size_t i = 0; i < shardings.size() && i < page.limits.figures; ++i) {
    page.figures[shardings[i].key] = i;
  }
}

void WriteLayouts(Page& page) {
  const std::vector<DrawnSharding> shardings = DrawnShardings(page);
  if (shardings.empty() || page.mesh().devices == 1) return;
  Html& html = page.html;
  page.BeginFolded("layouts", "Layouts", [&] {
    html.Raw("drawings of " + Counted(std::ssize(shardings), "sharding"));
  });
  html.Raw(
      "<p class=q>Each distinct sharding in this plan, drawn for its largest "
      "parameter. A tile is one shard, the numbers in it are its devices; "
      "stacked tiles are copies. Numbers along the edges are coordinates on "
      "the mesh axis of that colour.</p>\n<div class=figs>\n");
  const size_t shown = std::min(shardings.size(), page.limits.figures);
  for (size_t i = 0; i < shown; ++i) WriteSharding(page, shardings[i], i);
  html.Raw("</div>\n");
  if (shown < shardings.size()) {
    html.Raw("<p class=q>and " +
             Counted(static_cast<int64_t>(shardings.size() - shown),
                     "more sharding") +
             " of fewer bytes.</p>");
  }
  page.End();
}

void WriteMesh(Page& page) {
  Html& html = page.html;
  const picture::MeshPicture mesh(page.mesh());
  page.BeginFolded("mesh", "Mesh", [&] {
    html.Raw(Counted(page.mesh().devices, "device"));
    if (mesh.knows_hosts()) {
      html.Raw(" on " + Counted(page.mesh().processes, "host"));
    }
  });
  html.Raw("<p class=q>" + Counted(page.mesh().devices, "device"));
  if (mesh.knows_hosts()) {
    html.Raw(" on " + Counted(page.mesh().processes, "host") + ", ");
    html.Count(mesh.PerHost()).Raw(" on each");
  }
  html.Raw(". Devices are numbered row by row, the last axis fastest");
  if (!mesh.knows_hosts()) {
    html.Raw("; the number of hosts is not given");
  } else if (mesh.host_form() == picture::HostForm::kNone) {
    html.Raw("; hosts are neither complete rows nor parts of one row");
  } else {
    html.Raw("; an outline is one host");
  }
  html.Raw(".</p>\n");
  html.Raw("<div class=band>");
  WriteAxisTable(page, mesh);
  html.Raw("<div class=devices>");
  DrawMesh(page, mesh);
  html.Raw("</div></div>");
  page.End();
}

// Writes the section of the page about a pipeline: the layers of each stage,
// and a drawing of the schedule's tasks over time. All tasks are drawn with the
// same length. The page's section about memory has the bytes of each rank. The
// page has no section about memory if the sizes of a step are unknown. In this
// case the section about the pipeline states the parameters' bytes instead. For
// example:
//
//   stage 1 on rank 1: layers 8-15    3.25 GiB on a device of rank 1

namespace {

// The timeline of the schedule is drawn if it has at most this number of tasks
// times Limits::rows. With 200 rows, the limit is 4000 tasks. A page that
// becomes too large is written again with fewer rows, and so with a smaller
// limit.
constexpr size_t kTasksOfRow = 20;

std::string PartsText(const PlanStage& stage) {
  std::string out = LayersText(stage.layers);
  if (stage.first) out = "what is before the layers, " + out;
  if (stage.last) out += ", what is after the layers";
  return out;
}

void WriteStages(Page& page, const PlanStages& stages) {
  Html& html = page.html;
  const HeldBytes held = page.plan().Held(page.First());
  const auto along = held.placed().find(stages.axis);
  const bool bytes = !page.in.pipeline;
  std::vector<Head> heads = {{"Stage"}, {"Ranks"}, {"Has"}};
  if (bytes) heads.push_back({"Parameters on a device of the rank", true});
  BeginTable(html, "Stages", "narrow", heads);
  for (size_t s = 0; s < stages.of.size(); ++s) {
    const PlanStage& stage = stages.of[s];
    html.Raw("<tr><th scope=row>").Number(static_cast<int64_t>(s));
    html.Raw("</th><td>").Text(RanksText(stage.ranks));
    html.Raw("</td><td>").Text(PartsText(stage));
    html.Raw(bytes ? "</td><td class=r>" : "");
    if (bytes && along != held.placed().end() && !stage.ranks.empty()) {
      const auto at = along->second.find(stage.ranks.front());
      if (at != along->second.end()) html.Bytes(at->second);
    }
    html.Raw("</td></tr>\n");
  }
  EndTable(html);
}

}  // namespace

void WritePipeline(Page& page) {
  const auto& stages = page.plan().table().classes.stages;
  if (!stages) return;
  Html& html = page.html;
  page.BeginFolded("pipeline", "Pipeline", [&] {
    html.Text(Counted(std::ssize(stages->of), "stage")).Raw(" over ");
    html.Name(stages->axis).Raw(", ").Name(stages->schedule);
  });
  html.Raw("<p>The layers are divided into ");
  html.Text(Counted(std::ssize(stages->of), "stage")).Raw(" over ");
  page.Axis(stages->axis);
  html.Raw(" by the schedule ").Name(stages->schedule).Raw(", with ");
  html.Text(Counted(stages->microbatches, "micro-batch", "micro-batches"));
  html.Raw(page.in.pipeline
               ? "; the sections on memory, time and communication have the "
                 "figures of each rank.</p>\n"
               : ". <code>shardc cost</code> has the memory and the time of "
                 "each rank.</p>\n");
  if (stages->of.size() <= page.limits.rows) WriteStages(page, *stages);
  const auto& schedule = page.in.schedule;
  if (schedule && DrawnTasks(*schedule) <= page.limits.rows * kTasksOfRow) {
    html.Raw("<h3>The schedule, with tasks of one length</h3>");
    WriteTimeline(*schedule, html);
    WriteRankTable(*schedule, html);
  }
  page.End();
}

}  // namespace shardc::report
