// Writes a table of parameter groups, from the largest to the smallest. If a
// value differs by mode, its cell has the value of each mode. The page's script
// filters rows by their text:
//
//   model.layers.{0..31}.mlp.up_proj.weight  ×32  [tp, fsdp]  3.5 MiB
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "emit/report/page.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

using picture::ParamGroup;

struct ParameterRow {
  const ParamGroup* group = nullptr;
  // Bytes in the first mode, on the device that holds the most bytes of the
  // group.
  int64_t bytes = 0;
  bool replicated = false, by_mode = false, corrected = false, changed = false;
};

std::set<std::string> ChangedNames(const Page& page) {
  std::set<std::string> out;
  if (!page.in.base) return out;
  for (const SpecChange& one : page.in.base->diff->specs) {
    out.insert(one.shown);
  }
  for (const NamedGroup& one : page.in.base->diff->added) out.insert(one.shown);
  for (const TypeChange& one : page.in.base->diff->reshaped) {
    out.insert(one.shown);
  }
  return out;
}

std::vector<ParameterRow> RowsOf(const Page& page) {
  const std::set<std::string> changed = ChangedNames(page);
  const picture::FoldedPlan& plan = page.plan();
  std::vector<ParameterRow> out;
  for (const ParamGroup& group : plan.groups()) {
    ParameterRow row;
    row.group = &group;
    row.bytes = plan.OnFullest(group, page.First()).value_or(0);
    row.by_mode = !plan.ParamOf(group).modes.empty();
    row.corrected = plan.IsCorrected(group);
    row.changed =
        changed.contains(group.folded) ||
        changed.contains(std::string(plan.table().names[group.first]));
    for (const auto& modes : page.groups) {
      row.replicated = row.replicated || plan.IsReplicated(group, modes[0]);
    }
    out.push_back(row);
  }
  std::sort(out.begin(), out.end(),
            [](const ParameterRow& a, const ParameterRow& b) {
              return a.bytes != b.bytes ? a.bytes > b.bytes
                                        : a.group->shown < b.group->shown;
            });
  return out;
}

void WriteFilters(Page& page, const std::vector<ParameterRow>& rows) {
  struct Filter {
    std::string_view name;
    bool ParameterRow::*of;
  };
  constexpr Filter kFilters[] = {{"replicated", &ParameterRow::replicated},
                                 {"differ by mode", &ParameterRow::by_mode},
                                 {"corrected", &ParameterRow::corrected},
                                 {"changed", &ParameterRow::changed}};
  Html& html = page.html;
  html.Raw(
      "<div class=tools><fieldset class=pick><legend class=v>Show</legend>"
      "<input type=radio name=show id=f0 checked><label for=f0>all ");
  html.Count(static_cast<int64_t>(rows.size())).Raw("</label>");
  for (size_t i = 0; i < std::size(kFilters); ++i) {
    const auto count = std::count_if(
        rows.begin(), rows.end(),
        [&](const ParameterRow& row) { return row.*kFilters[i].of; });
    if (count == 0) continue;
    const std::string id = "f" + std::to_string(i + 1);
    html.Raw("<input type=radio name=show id=" + id + "><label for=" + id);
    html.Raw(">").Raw(kFilters[i].name).Raw(" ").Count(count).Raw("</label>");
  }
  html.Raw(
      "</fieldset><span class=js><label class=v for=find>Filter</label>"
      "<input type=search id=find data-rows=rows placeholder=\"filter: name, "
      "shape, axis"
      "\"> <span id=found class=q role=status></span></span></div>\n");
}

void WriteTags(Page& page, const ParameterRow& row) {
  Html& html = page.html;
  const ParamGroup& group = *row.group;
  if (group.possible > group.count) {
    html.Raw(" <span class=tag>").Count(group.count).Raw(" of ");
    html.Count(group.possible).Raw("</span>");
  }
  if (!group.placed_along.empty()) {
    html.Raw(" <span class=tag>placed along ").Name(group.placed_along);
    html.Raw("</span>");
  }
  if (row.by_mode) html.Raw(" <span class=tag>by mode</span>");
  if (row.changed) html.Raw(" <span class=tag>changed</span>");
  if (!row.corrected) return;
  const auto& first =
      page.plan().table().classes.params[group.of_class].corrections.front();
  html.Raw(" <span class=tag>corrected: ").Text(first.reason);
  if (!first.from.empty()) html.Raw(" ").Text(GroupText(first.from));
  html.Raw("</span>");
}

void WriteRow(Page& page, const ParameterRow& row, int64_t most) {
  Html& html = page.html;
  const picture::FoldedPlan& plan = page.plan();
  const ParamGroup& group = *row.group;
  const ReadParam& param = plan.ParamOf(group);
  std::string look;
  if (row.replicated) look += " fw";
  if (row.by_mode) look += " fm";
  if (row.corrected) look += " fc";
  if (row.changed) look += " fd";
  html.Raw("<tr role=row");
  if (!look.empty()) html.Raw(" class=\"" + look.substr(1) + "\"");
  html.Raw("><th role=rowheader scope=row class=one><span class=n>");
  html.Name(group.shown).Raw("</span>");
  WriteTags(page, row);
  html.Raw("</th><td role=cell class=r>");
  if (group.count > 1) html.Raw("×").Count(group.count);
  html.Raw("</td><td role=cell><span class=n>");
  html.Raw(param.type.shape ? ShapeText(*param.type.shape) : "?");
  if (param.type.dtype) {
    html.Raw(" <span class=q>").Text(DtypeName(*param.type.dtype));
    html.Raw("</span>");
  }
  html.Raw("</span></td><td role=cell>");
  page.ByMode([&](Mode mode, Html& inner) {
    const auto figure = page.figures.find(FigureKey(plan, group, mode));
    const bool linked = figure != page.figures.end() && page.mesh().devices > 1;
    if (linked) {
      inner.Raw("<a href=\"#l").Number(static_cast<int64_t>(figure->second));
      inner.Raw("\">");
    }
    inner.Raw(page.SpecMarkup(plan.SpecOf(group, mode)));
    inner.Text(InPartsText(plan.PartsOf(group, mode)));
    if (linked) inner.Raw("</a>");
  });
  html.Raw("</td><td role=cell class=r>");
  page.ByMode(
      [&](Mode mode, Html& inner) { inner.Bytes(plan.Each(group, mode)); });
  html.Raw("</td><td role=cell class=r>");
  page.ByMode([&](Mode mode, Html& inner) {
    inner.Bytes(plan.OnFullest(group, mode));
  });
  html.Raw("</td><td role=cell>");
  page.ByMode([&](Mode mode, Html& inner) {
    const int64_t copies = plan.Copies(group, mode);
    const std::string_view ink = plan.IsReplicated(group, mode) ? "rw"
                                 : copies <= 1                  ? "bar"
                                 : copies <= 2                  ? "r2"
                                 : copies <= 8                  ? "r8"
                                                                : "rn";
    Bar(inner, plan.OnFullest(group, mode).value_or(0), most, ink);
  });
  html.Raw("</td><td role=cell class=r>");
  const int32_t rule = plan.RuleOf(group);
  if (rule >= 0) html.Number(rule);
  html.Raw("</td></tr>\n");
}

}  // namespace

void WriteParameters(Page& page) {
  Html& html = page.html;
  const std::vector<ParameterRow> rows = RowsOf(page);
  if (rows.empty()) return;
  page.BeginFolded("parameters", "Parameters", [&] {
    html.Raw(Counted(std::ssize(page.plan().table().names), "parameter"));
    html.Raw(" in " + Counted(std::ssize(rows), "group"));
  });
  html.Raw("<p class=q>");
  html.Raw(Counted(static_cast<int64_t>(page.plan().table().names.size()),
                   "parameter") +
           " in " + Counted(static_cast<int64_t>(rows.size()), "group"));
  html.Raw(
      " with equal specs, largest first. <code>{0..31}</code> stands "
      "for each number; a spec links to its figure.</p>\n");
  WriteFilters(page, rows);
  int64_t most = 1;
  for (const ParamGroup& group : page.plan().groups()) {
    for (const auto& modes : page.groups) {
      most = std::max(most, page.plan().OnFullest(group, modes[0]).value_or(0));
    }
  }
  constexpr std::string_view kHeads[] = {
      "Parameters", "Count", "Shape", "Spec", "Each", "Per device", "", "Rule"};
  html.Raw(
      "<table class=stack role=table aria-label=Parameters>"
      "<thead role=rowgroup><tr role=row>");
  for (std::string_view head : kHeads) {
    const bool right = head == "Count" || head == "Each" ||
                       head == "Per device" || head == "Rule";
    if (head.empty()) {
      html.Raw("<td role=cell></td>");
      continue;
    }
    html.Raw("<th role=columnheader scope=col");
    html.Raw(right ? " class=r>" : ">").Raw(head).Raw("</th>");
  }
  html.Raw("</tr></thead><tbody role=rowgroup id=rows>\n");
  const size_t shown = std::min(rows.size(), page.limits.rows);
  for (size_t i = 0; i < shown; ++i) WriteRow(page, rows[i], most);
  html.Raw("</tbody></table>\n");
  int64_t params = 0, bytes = 0;
  for (size_t i = shown; i < rows.size(); ++i) {
    params += rows[i].group->count;
    bytes = CheckedAdd(bytes, rows[i].bytes).value_or(INT64_MAX);
  }
  if (shown < rows.size()) {
    html.Raw("<p class=q>and " +
             Counted(static_cast<int64_t>(rows.size() - shown), "more group") +
             ", " + Counted(params, "parameter") + ", ");
    html.Bytes(bytes).Raw(" per device.</p>\n");
  }
  page.End();
}

}  // namespace shardc::report
