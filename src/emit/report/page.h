// The class Page, to which every section of the report writes. It has the
// report's input, the HTML written so far, and functions that write axes, specs
// and headings.
#ifndef SHARDC_EMIT_REPORT_PAGE_H_
#define SHARDC_EMIT_REPORT_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emit/report/report.h"
#include "emit/schedules/schedule_report.h"
#include "picture/array.h"
#include "source/sink.h"

namespace shardc::report {

class Html {
 public:
  explicit Html(Sink& out) : out_(out) {}

  Html& Raw(std::string_view markup);
  // Appends escaped text. Invisible characters are shown as escapes such as
  // `\u202e` (Printable).
  Html& Text(std::string_view text);
  // Appends a name or a path. The browser may break the line after separators,
  // and a very long name is shortened.
  Html& Name(std::string_view text);
  // Appends a message. Text between backticks becomes a `<code>` element.
  Html& Message(std::string_view text);
  Html& Bytes(int64_t bytes);
  Html& Bytes(const std::optional<int64_t>& bytes);  // nullopt: writes a dash
  Html& Count(int64_t count);
  Html& Number(int64_t number);
  Html& Fixed(double number);  // with at most two decimals

 private:
  void Escape(std::string_view text, bool breaks);

  Sink& out_;
};

// A column of a table.
struct Head {
  std::string name;     // If it is empty, the column has no heading.
  bool number = false;  // Numbers are aligned to the right.
};
// Opens a table in a frame that scrolls. `label` is what the table is about,
// `look` has the CSS classes of the table, and `id` is the id of its rows.
void BeginTable(Html& html, std::string_view label, std::string_view look,
                const std::vector<Head>& heads, std::string_view id = {});
void EndTable(Html& html);
// Opens a cell of a table of the look "by". Where the page is narrow, the cells
// of a row follow each other, and each begins with the name of its column.
Html& BeginNamedCell(Html& html, const Head& column);
// Writes "and 3 more rows" if fewer rows are shown than there are.
void WriteMore(Html& html, size_t shown, size_t all, std::string_view what);

// Opens a section of which only the heading is shown until a reader opens it,
// or prints the page. `summary` writes its most important figure next to the
// heading.
void BeginFold(Html& html, std::string_view id, std::string_view title,
               const std::function<void()>& summary);
void EndFold(Html& html);

// The largest numbers of items that the page shows.
struct Limits {
  size_t rows = 200;
  size_t figures = 12;
  int64_t tiles = 256;  // of one figure
  size_t findings = 100;
  size_t changes = 40;

  Limits Half() const {
    return {rows / 2, figures / 2, tiles / 2, findings / 2, changes / 2};
  }
};

// Maps the FigureKey() of a sharding to the index of its figure.
using FigureKeys = std::map<std::string, size_t>;

class Page {
 public:
  Page(const Input& input, const Limits& limits, Sink& out);

  const Input& in;
  const Limits limits;
  Html html;
  // The plan's modes in groups. Two modes are in one group if every parameter
  // has the same spec in both.
  const std::vector<std::vector<Mode>> groups;
  FigureKeys figures;

  const picture::FoldedPlan& plan() const { return *in.plan; }
  const Mesh& mesh() const { return in.plan->mesh(); }
  Mode First() const { return groups[0][0]; }

  // Axis() and Axes() write the names of axes in their colours. AxisClass()
  // returns the CSS class of an axis's colour, such as `a0`.
  void Axis(std::string_view axis);
  void Axes(const AxisGroup& axes);
  std::string AxisClass(std::string_view axis) const;
  void SpecOf(const Spec& spec);
  std::string SpecMarkup(const Spec& spec) const;
  void Group(const AxisGroup& axes);           // writes one dimension's axes
  void Modes(const std::vector<Mode>& modes);  // writes "train, prefill"

  // Opens a section with its heading; the navigation links to `id`.
  void Begin(std::string_view id, std::string_view title);
  // Opens a section that is folded, as BeginFold() does.
  void BeginFolded(std::string_view id, std::string_view title,
                   const std::function<void()>& summary);
  void End();
  // Returns the CSS classes that show an element only in the modes of the given
  // group. For group 1 they are `m m1s`.
  static std::string ModeClass(size_t group);
  // Calls `write(mode, html)` with the first mode of each group, and writes the
  // text of each group. If all groups get the same text, the text is written
  // only once.
  template <class Write>
  void ByMode(const Write& write) {
    std::vector<std::string> texts;
    for (const auto& group : groups) {
      texts.push_back(TextOf([&](Sink& sink) {
        Html inner(sink);
        write(group[0], inner);
      }));
    }
    Vary(texts);
  }

 private:
  void PutAxes(const AxisGroup& axes, Html& to) const;
  void PutGroup(const AxisGroup& axes, Html& to) const;
  void PutSpec(const Spec& spec, Html& to) const;
  void Vary(const std::vector<std::string>& texts);

  const std::vector<uint8_t> colors_;
  bool folded_ = false;  // whether the open section is folded
};

std::string ModesText(const std::vector<Mode>& modes);
// Returns the name of a cost report: the pipeline ranks that it describes or,
// if it is not about single ranks, its mode.
std::string NameOf(const cost::Report& report);
// Returns a key that is equal for two specs if they are drawn as one figure.
std::string FigureKey(const picture::FoldedPlan& plan,
                      const picture::ParamGroup& group, Mode mode);
// Writes `part` as a rounded percentage of `sum`: `36 %`, or `<1 %`.
void RoundShare(Html& html, double part, double sum);
// Writes a small bar that shows the fraction of `part` in `whole`.
void Bar(Html& html, int64_t part, int64_t whole, std::string_view look);

// These functions write the sections of the page. Each writes nothing if its
// section has no content.
void WriteChanges(Page& page);
// Returns the number of parameters that keep their spec but have other shards
// on the new mesh.
int64_t ShardChanges(const PlanDifference& diff);
void WriteFindings(Page& page);
void WriteUnknown(Page& page);
void WriteMesh(Page& page);
void WritePipeline(Page& page);
void WriteMemory(Page& page);
void WriteParameters(Page& page);
void WriteLayouts(Page& page);
void WriteRules(Page& page);
void WriteAttention(Page& page);
void WriteTime(Page& page);
void WriteCommunication(Page& page);
void WriteProgram(Page& page);
void WriteAssumptions(Page& page);
void WriteTables(Page& page);

// Writes the title, the mesh, and the row with the verdict, the memory, the
// time of a step, and what is not known.
void WriteHeader(Page& page);
// A fact that some figures need and that is not known.
struct Unknown {
  NotKnown fact;
  std::vector<std::string> figures;  // such as "memory"
  std::vector<std::string> places;   // the modes or ranks of these figures
};
// Returns what the figures of the page do not include, each fact once.
std::vector<Unknown> UnknownOf(const Page& page);

// WriteFinding() writes one finding. WriteProgramVerdict() writes the sentence
// on the compiled program in the page's header.
void WriteFinding(Page& page, const Finding& finding);
void WriteProgramVerdict(Page& page);

// Chooses the figures. It is called before the sections are written, because
// parameters in the sections link to figures.
void PlanFigures(Page& page);

// Returns the text of an embedded file, page.css or page.js.
std::string_view PageFile(std::string_view name);
// Returns `sha256-` and the digest of the text in base64. This is how a content
// security policy names an allowed source.
std::string PolicyHash(std::string_view text);
// Returns two SVG fill patterns: one for replicated parts in a treemap, and one
// for replicated arrays and for bubbles.
std::string_view FillPatterns();

// Writes the page; `body` writes its sections.
void WriteSheet(std::string_view title, std::string_view subtitle,
                const std::function<void(Html&)>& body, Sink& out);

// WriteArrayCaption() writes the dimensions of an array as text. DrawArray()
// draws the array. It adds a table of the shards if the array is sharded, or if
// only the devices at one coordinate of an axis hold it. DrawMesh() draws a
// mesh.
void WriteArrayCaption(Page& page, const picture::ArrayPicture& array);
void DrawArray(Page& page, const picture::ArrayPicture& array);
void DrawMesh(Page& page, const picture::MeshPicture& mesh);

// Draws the timeline of a pipeline's schedule as a page.

// The largest number of tasks that a page draws.
inline constexpr size_t kMostDrawnTasks = 20'000;

// Returns the number of tasks that a drawing of the schedule has. Two
// overlapped tasks are drawn as one.
size_t DrawnTasks(const ScheduleReport& report);
// Draws the tasks of each rank over time, with the bubbles between them, and a
// table of the ranks. The schedule must have at most kMostDrawnTasks tasks.
void WriteSchedulePage(const ScheduleReport& report, Sink& out);

// These functions write parts of the page of a schedule. They are also used for
// the page of a plan with pipeline stages. WriteTimeline() draws the tasks and
// states how long the step and its bubbles are. WriteRankTable() writes the
// table of the ranks.
void WriteTimeline(const ScheduleReport& report, Html& html);
void WriteRankTable(const ScheduleReport& report, Html& html);

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_PAGE_H_
