// What the sections of the page share.
#ifndef SHARDC_EMIT_REPORT_PAGE_H_
#define SHARDC_EMIT_REPORT_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "emit/report/html.h"
#include "emit/report/report.h"

namespace shardc::report {

// How much of each kind is shown.
struct Limits {
  size_t rows = 200;
  size_t figures = 12;
  int64_t tiles = 256;  // of a figure
  size_t findings = 100;
  size_t changes = 40;

  Limits Half() const {
    return {rows / 2, figures / 2, tiles / 2, findings / 2, changes / 2};
  }
};

// Where a spec's figure stands: by how it cuts, in a group of modes.
using FigureKeys = std::map<std::string, size_t>;

class Page {
 public:
  Page(const Input& input, const Limits& limits, Sink& out);

  const Input& in;
  const Limits limits;
  Html html;
  // Modes in which every parameter lies alike, in the plan's order.
  const std::vector<std::vector<Mode>> groups;
  FigureKeys figures;

  const picture::FoldedPlan& plan() const { return *in.plan; }
  const Mesh& mesh() const { return in.plan->mesh(); }
  Mode First() const { return groups[0][0]; }

  // `dp` in its colour; nothing but the class, `a0`.
  void Axis(std::string_view axis);
  void Axes(const AxisGroup& axes);
  std::string AxisClass(std::string_view axis) const;
  void SpecOf(const Spec& spec);
  std::string SpecMarkup(const Spec& spec) const;
  void Group(const AxisGroup& axes);           // of one dimension
  void Modes(const std::vector<Mode>& modes);  // "train, prefill"

  // Opens a section with its heading; the nav leads to `id`.
  void Begin(std::string_view id, std::string_view title);
  void End() { html.Raw("</section>\n"); }
  // `class="m m1s"` of what is shown in that group only, as the attribute's
  // inside.
  static std::string ModeClass(size_t group);
  // `write(mode)` once where each group gets the same, else once for each.
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
};

std::string ModesText(const std::vector<Mode>& modes);
// `x`: how a mode's spec cuts, told apart by figures.
std::string FigureKey(const picture::FoldedPlan& plan,
                      const picture::ParamGroup& group, Mode mode);
// Bytes of a bar of so many, as a small picture.
void Bar(Html& html, int64_t part, int64_t whole, std::string_view look);

// The sections, each of which writes nothing where there is nothing to say.
void WriteChanges(Page& page);
void WriteFindings(Page& page);
void WriteMesh(Page& page);
void WriteMemory(Page& page);
void WriteParameters(Page& page);
void WriteLayouts(Page& page);
void WriteRules(Page& page);
void WriteAttention(Page& page);
void WriteCommunication(Page& page);
void WriteTables(Page& page);

// Which figures there will be; parameters link to them.
void PlanFigures(Page& page);

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_PAGE_H_
