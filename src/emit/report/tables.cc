// Writes the tables of the page: the rules in their order, the specs of
// attention's tensors in each mode, the devices that own parts of the KV cache,
// the communication, and the results of other commands. In the table of
// attention's specs, modes with equal values share a column. A bar to the left
// of a value marks a value that differs from the first column. For example, the
// query is sharded over fsdp only in the first column:
//
//   query   [[dp, fsdp], null, tp, null]   | [dp, null, tp, null]
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/collective.h"
#include "emit/pictures/line.h"
#include "emit/report/page.h"
#include "model/mesh_layout.h"
#include "picture/array.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

// Draws which devices exchange the bytes of a step. Collectives over the same
// set of mesh axes send to the same devices, so each set has one row. The row
// begins with the names of the axes. A strip with one cell for each device
// follows, in which lines separate the hosts. Device 0 and the devices that
// exchange bytes with device 0 are filled. If there are more than kMostDrawn
// devices, their numbers replace the strip. The row ends with the bytes and
// their fraction of all bytes sent. For example:
//
//   fsdp      ■···■···|■···■···   4 devices, 2 hosts   4.77 GiB   80 %
//   tp        ■■■■····|········   4 devices, 1 host     1.2 GiB   20 %

constexpr int64_t kMostDrawn = 128;  // limit on the devices in a strip

struct Destination {
  AxisGroup axes;
  int64_t sent = 0;
};

std::vector<Destination> DestinationsOf(const cost::Communication& all) {
  std::vector<Destination> out;
  for (const cost::Transfer& one : all.transfers) {
    AxisGroup axes = one.axes;
    std::sort(axes.begin(), axes.end());
    const auto same = std::find_if(
        out.begin(), out.end(),
        [&](const Destination& other) { return other.axes == axes; });
    Destination& to =
        same == out.end() ? out.emplace_back(Destination{axes, 0}) : *same;
    to.sent = CheckedAdd(to.sent, one.sent).value_or(INT64_MAX);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Destination& a, const Destination& b) {
                     return a.sent > b.sent;
                   });
  return out;
}

// Returns device 0 together with the devices whose coordinates differ from
// those of device 0 only along the axes.
picture::DeviceSet GroupOf(const Mesh& mesh, const AxisGroup& axes) {
  std::vector<bool> free;
  const Spec spec = {axes};
  const Mesh refined = RefinedMesh(mesh, {&spec, 1}).value_or(mesh);
  for (const MeshAxis& axis : refined.axes) {
    free.push_back(IsAmong(axis.name, axes));
  }
  return picture::MeshDigits(refined).Along(free, 0);
}

int64_t HostsOf(const Mesh& mesh, const picture::DeviceSet& group) {
  const int64_t per_host = mesh.devices / mesh.processes;
  std::set<int64_t> hosts;
  for (int64_t i = 0; i < group.count(); ++i) {
    hosts.insert(group.At(i) / per_host);
  }
  return static_cast<int64_t>(hosts.size());
}

void WriteStrip(Html& html, const Mesh& mesh, const picture::DeviceSet& group) {
  const auto share = [&](int64_t device) {
    return 100.0 * static_cast<double>(device) /
           static_cast<double>(mesh.devices);
  };
  html.Raw("<svg class=devices aria-hidden=true>");
  html.Raw("<rect class=track y=4 height=12 width=\"100%\"/>");
  for (int64_t i = 0; i < group.count(); ++i) {
    html.Raw("<rect class=\"bar part\" y=4 height=12 x=\"");
    html.Fixed(share(group.At(i))).Raw("%\" width=\"").Fixed(share(1));
    html.Raw("%\"/>");
  }
  const int64_t per_host = mesh.devices / mesh.processes;
  for (int64_t at = per_host; mesh.processes > 1 && at < mesh.devices;
       at += per_host) {
    html.Raw("<line class=between y1=0 y2=20 x1=\"").Fixed(share(at));
    html.Raw("%\" x2=\"").Fixed(share(at)).Raw("%\"/>");
  }
  html.Raw("</svg>");
}

// Writes one row for each set of axes. Writes nothing if a step sends no bytes.
void WriteDestinations(Page& page, const cost::Report& report) {
  const Mesh& mesh = page.mesh();
  const std::vector<Destination> all = DestinationsOf(report.communication);
  if (all.empty()) return;
  Html& html = page.html;
  const bool drawn = mesh.devices <= kMostDrawn;
  html.Raw("<h3>Where the bytes go</h3>\n<p class=q>");
  html.Raw(drawn ? "Each strip is the mesh, device 0 at the left; the devices "
                   "that device 0 exchanges these bytes with are filled"
                 : "The devices that device 0 exchanges bytes with");
  if (drawn && mesh.processes > 1) html.Raw(", lines separate hosts");
  if (!report.ranks.empty()) {
    html.Raw("; devices of other ranks have groups of the same sizes");
  }
  html.Raw(".</p>\n<div class=\"bars to\">\n");
  const int64_t total = std::max<int64_t>(1, report.communication.Sent());
  for (const Destination& one : all) {
    const picture::DeviceSet group = GroupOf(mesh, one.axes);
    html.Raw("<div><span>");
    page.Axes(one.axes);
    html.Raw("</span>");
    if (drawn) {
      WriteStrip(html, mesh, group);
    } else {
      html.Raw("<span>devices ").Text(DevicesText(group, "–"));
      html.Raw("</span>");
    }
    html.Raw("<span class=q>" + Counted(group.count(), "device"));
    if (mesh.processes > 1) {
      html.Raw(", " + Counted(HostsOf(mesh, group), "host"));
    }
    html.Raw("</span><span class=r>").Bytes(one.sent).Raw("</span>");
    html.Raw("<span class=\"r q\">");
    RoundShare(html, static_cast<double>(one.sent), static_cast<double>(total));
    html.Raw("</span></div>\n");
  }
  html.Raw("</div>\n");
}

void WriteState(Html& html, const picture::RuleLine& rule) {
  if (rule.won > 0) return;
  html.Raw(" <span class=tag>");
  if (!rule.found) {
    html.Raw("wins nothing");
  } else if (*rule.found == 0) {
    html.Raw("matches nothing");
  } else if (rule.shadowed_by) {
    html.Raw("shadowed by ").Number(static_cast<int64_t>(*rule.shadowed_by));
  } else {
    html.Raw("shadowed");
  }
  html.Raw("</span>");
}

// The tensors of attention in the plan's order, with their specs in each mode.
struct Tensors {
  std::vector<std::string> names;
  std::map<std::pair<std::string, Mode>, Spec> specs;
  std::vector<Mode> modes;
  const Spec* Find(const std::string& name, Mode mode) const {
    const auto at = specs.find({name, mode});
    return at == specs.end() ? nullptr : &at->second;
  }
  bool Agree(Mode a, Mode b) const {
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) {
                         const Spec* one = Find(name, a);
                         const Spec* other = Find(name, b);
                         return (one == nullptr) == (other == nullptr) &&
                                (one == nullptr || *one == *other);
                       });
  }
};

Tensors TensorsOf(const Page& page) {
  Tensors out;
  for (const ReadActivation& one : page.plan().table().classes.attention) {
    AddOnce(out.names, one.tensor);
    AddOnce(out.modes, one.mode);
    out.specs[{one.tensor, one.mode}] = one.spec;
  }
  return out;
}

void WriteTensors(Page& page, const Tensors& tensors) {
  std::vector<std::vector<Mode>> columns;
  for (Mode mode : tensors.modes) {
    const auto at = std::find_if(columns.begin(), columns.end(),
                                 [&](const std::vector<Mode>& column) {
                                   return tensors.Agree(column[0], mode);
                                 });
    if (at == columns.end()) {
      columns.push_back({mode});
    } else {
      at->push_back(mode);
    }
  }
  Html& html = page.html;
  html.Raw(
      "<div class=s tabindex=0 role=group aria-label=\"Specs of attention\">"
      "<table><thead><tr><th scope=col>Tensor</th>");
  for (const auto& column : columns) {
    html.Raw("<th scope=col>");
    page.Modes(column);
    html.Raw("</th>");
  }
  html.Raw("</tr></thead><tbody>\n");
  for (const std::string& name : tensors.names) {
    html.Raw("<tr><th scope=row class=n>").Name(name).Raw("</th>");
    const Spec* first = tensors.Find(name, columns[0][0]);
    for (const auto& column : columns) {
      const Spec* spec = tensors.Find(name, column[0]);
      const bool differs =
          first == nullptr || spec == nullptr ? first != spec : *first != *spec;
      html.Raw(differs ? "<td class=diff>" : "<td>");
      if (spec == nullptr) {
        html.Raw("–");
      } else {
        page.SpecOf(*spec);
      }
      html.Raw("</td>");
    }
    html.Raw("</tr>\n");
  }
  EndTable(html);
}

void WriteCaches(Page& page) {
  if (page.in.caches.empty()) return;
  Html& html = page.html;
  html.Raw("<h3>Owners of the KV cache</h3>\n<div class=figs>\n");
  for (const Cache& cache : page.in.caches) {
    const picture::ArrayPicture array(cache.input);
    html.Raw("<figure><figcaption>");
    page.SpecOf(cache.input.spec);
    html.Raw(" <span class=q>").Text(cache.title).Raw(" of each layer, ");
    page.Modes(cache.modes);
    html.Raw("</span>");
    WriteArrayCaption(page, array);
    html.Raw("</figcaption>");
    DrawArray(page, array);
    html.Raw("</figure>\n");
  }
  html.Raw("</div>\n");
}

void WriteTransfers(Page& page, const cost::Report& report) {
  Html& html = page.html;
  const auto& transfers = report.communication.transfers;
  const bool at_least = !report.communication.unknown.empty();
  if (transfers.empty()) {
    html.Raw(at_least ? "<p>What is sent is not known.</p>\n"
                      : "<p>No communication.</p>");
    return;
  }
  int64_t most = 1;
  for (const cost::Transfer& one : transfers) most = std::max(most, one.sent);
  BeginTable(html, "Sent in " + NameOf(report), "by",
             {{"Part"},
              {"Collective"},
              {"Over"},
              {"Count", true},
              {"Sent per device", true},
              {}});
  for (const cost::Transfer& one : transfers) {
    html.Raw("<tr><th scope=row>").Text(one.part);
    html.Raw(one.backward ? ", backward" : "").Raw("</th><td class=k>");
    html.Text(CollectiveName(one.kind)).Raw("</td><td>");
    page.Axes(one.axes);
    html.Raw("</td><td class=r data-m=times>").Count(one.count);
    html.Raw("</td><td class=r data-m=\"sends per device\">");
    html.Bytes(one.sent).Raw("</td><td>");
    Bar(html, one.sent, most, "bar");
    html.Raw("</td></tr>\n");
  }
  html.Raw("</tbody><tfoot><tr><th scope=row colspan=4>Total");
  html.Raw(at_least ? ", at least" : "").Raw("</th><td class=r>");
  html.Bytes(report.communication.Sent());
  html.Raw("</td><td></td></tr></tfoot></table></div>\n");
}

void WriteSteps(Page& page, const cost::Report& report) {
  WriteDestinations(page, report);
  WriteTransfers(page, report);
}

void WriteTable(Page& page, const Table& table) {
  Html& html = page.html;
  html.Raw("<h3>").Text(table.title).Raw("</h3>\n<p class=q>");
  html.Message(table.about).Raw("</p>\n");
  std::vector<Head> heads;
  for (size_t i = 0; i < table.heads.size(); ++i) {
    heads.push_back(
        {table.heads[i], i < table.numbers.size() && table.numbers[i]});
  }
  BeginTable(html, table.title, "", heads);
  const size_t shown = std::min(table.rows.size(), page.limits.rows);
  for (size_t r = 0; r < shown; ++r) {
    html.Raw("<tr>");
    for (size_t i = 0; i < table.rows[r].size(); ++i) {
      html.Raw(heads[i].number ? "<td class=r>" : "<td>");
      html.Name(table.rows[r][i]).Raw("</td>");
    }
    html.Raw("</tr>\n");
  }
  EndTable(html);
  WriteMore(html, shown, table.rows.size(), "more row");
}

}  // namespace

void WriteRules(Page& page) {
  const picture::Coverage& coverage = page.in.coverage;
  if (coverage.rules.empty()) return;
  Html& html = page.html;
  page.BeginFolded("rules", "Rules", [&] {
    html.Raw(Counted(std::ssize(coverage.rules), "rule"));
    const int64_t idle = coverage.Dead() + coverage.Shadowed();
    if (idle > 0) html.Raw(", ").Count(idle).Raw(" without effect");
  });
  html.Raw(
      "<p class=q>Rules are tried in order; the first match wins. Bars are "
      "shares of the model’s bytes.");
  if (coverage.Dead() > 0) {
    html.Raw(" " + Counted(coverage.Dead(), "rule") +
             (coverage.Dead() == 1 ? " matches nothing or wins nothing."
                                   : " match nothing or win nothing."));
  }
  if (coverage.Shadowed() > 0) {
    html.Raw(" " + Counted(coverage.Shadowed(), "rule") +
             (coverage.Shadowed() == 1 ? " is" : " are") +
             " shadowed by earlier rules.");
  }
  html.Raw("</p>\n");
  BeginTable(
      html, "Rules", "",
      {{"#", true}, {"Pattern"}, {"From"}, {"Won", true}, {"Bytes", true}, {}});
  const size_t shown = std::min(coverage.rules.size(), page.limits.rows);
  for (size_t i = 0; i < shown; ++i) {
    const picture::RuleLine& rule = coverage.rules[i];
    html.Raw("<tr><td class=r>").Number(static_cast<int64_t>(i));
    html.Raw("</td><th scope=row><code>").Name(rule.match).Raw("</code>");
    WriteState(html, rule);
    html.Raw("</th><td class=q>").Name(rule.source).Raw("</td><td class=r>");
    html.Count(rule.won).Raw("</td><td class=r>");
    if (rule.won > 0) {
      html.Bytes(rule.bytes);
    } else {
      html.Raw("–");
    }
    html.Raw("</td><td>");
    Bar(html, rule.bytes, std::max<int64_t>(1, coverage.bytes), "bar");
    html.Raw("</td></tr>\n");
  }
  EndTable(html);
  WriteMore(html, shown, coverage.rules.size(), "more rule");
  if (coverage.no_rule > 0) {
    html.Raw("<p>" + Counted(coverage.no_rule, "parameter") +
             " without a rule, ");
    html.Bytes(coverage.no_rule_bytes).Raw(".</p>\n");
  }
  page.End();
}

void WriteAttention(Page& page) {
  const Tensors tensors = TensorsOf(page);
  if (tensors.names.empty()) return;
  page.BeginFolded("attention", "Attention", [&] {
    page.html.Raw("specs of " + Counted(std::ssize(tensors.names), "tensor"));
    page.html.Raw(page.in.caches.empty() ? "" : ", owners of the KV cache");
  });
  page.html.Raw(
      "<p class=q>Specs of attention’s tensors by mode; modes that "
      "agree share a column, a bar at the left marks what differs "
      "from the first.</p>\n");
  WriteTensors(page, tensors);
  WriteCaches(page);
  page.End();
}

void WriteCommunication(Page& page) {
  if (page.in.costs.empty() || page.mesh().devices == 1) return;
  std::vector<cost::Report> of_ranks;
  if (page.in.pipeline) {
    of_ranks = cost::ReportsOfTraffic(*page.in.pipeline, page.mesh());
  }
  const auto& reports = page.in.pipeline ? of_ranks : page.in.costs;
  Html& html = page.html;
  page.BeginFolded("communication", "Communication", [&] {
    const cost::Communication& own = reports[0].communication;
    if (own.transfers.empty() && !own.unknown.empty()) {
      html.Raw("not known");
    } else {
      html.Raw(own.unknown.empty() ? "" : "at least ").Bytes(own.Sent());
      html.Raw(" per device");
    }
    html.Raw(page.in.pipeline ? " on " : " in ").Text(NameOf(reports[0]));
  });
  html.Raw("<p class=q>Bytes that the busiest device sends in one step: ");
  html.Raw(page.in.pipeline ? "" : "in ").Text(NameOf(reports[0]));
  html.Raw(".</p>\n");
  WriteSteps(page, reports[0]);
  for (size_t i = 1; i < reports.size(); ++i) {
    const cost::Communication& own = reports[i].communication;
    html.Raw("<details><summary>").Text(NameOf(reports[i])).Raw(": ");
    if (own.transfers.empty() && !own.unknown.empty()) {
      html.Raw("not known</summary>\n");
    } else {
      html.Raw(own.unknown.empty() ? "" : "at least ");
      html.Bytes(own.Sent()).Raw("</summary>\n");
    }
    WriteSteps(page, reports[i]);
    html.Raw("</details>\n");
  }
  page.End();
}

void WriteTables(Page& page) {
  if (page.in.tables.empty()) return;
  page.BeginFolded("verified", "Verified", [&] {
    page.html.Text(Join(page.in.tables, "; ", [](const Table& table) {
      return std::string_view(table.title);
    }));
  });
  for (const Table& table : page.in.tables) WriteTable(page, table);
  page.End();
}

}  // namespace shardc::report
