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
#include "emit/report/traffic.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emit/pictures/words.h"
#include "model/sub_axis.h"
#include "picture/device_set.h"
#include "source/checked.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

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
    free.push_back(std::find(axes.begin(), axes.end(), axis.name) !=
                   axes.end());
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

}  // namespace

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

}  // namespace shardc::report
