// Writes the section of the page about a pipeline: the layers of each stage,
// and a drawing of the schedule's tasks over time. All tasks are drawn with the
// same length. The page's section about memory has the bytes of each rank. The
// page has no section about memory if the sizes of a step are unknown. In this
// case the section about the pipeline states the parameters' bytes instead. For
// example:
//
//   stage 1 on rank 1: layers 8-15    3.25 GiB on a device of rank 1
#include <string>

#include "emit/report/page.h"
#include "emit/report/schedule_page.h"
#include "source/index.h"
#include "source/wording.h"

namespace shardc::report {
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
  html.Raw(
      "<div class=s tabindex=0 role=group aria-label=Stages><table "
      "class=narrow><thead><tr><th scope=col>Stage</th><th scope=col>Ranks</th>"
      "<th scope=col>Has</th>");
  html.Raw(bytes ? "<th scope=col class=r>Parameters on a device of the "
                   "rank</th></tr></thead><tbody>\n"
                 : "</tr></thead><tbody>\n");
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
  html.Raw("</tbody></table></div>\n");
}

}  // namespace

void WritePipeline(Page& page) {
  const auto& stages = page.plan().table().classes.plan.stages;
  if (!stages) return;
  Html& html = page.html;
  page.Begin("pipeline", "Pipeline");
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
