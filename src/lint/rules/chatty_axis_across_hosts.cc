// Reports tensor-parallel axes whose groups cross hosts although another order
// of the mesh's axes would keep them inside a host. Devices are numbered with
// the last axis fastest, and each host has consecutive numbers. A group along
// an axis therefore is in a block of consecutive numbers. The length of the
// block is the product of the axis's size and the sizes of all later axes. The
// group crosses hosts if this length does not divide the number of devices of a
// host. It would stay inside a host if the axis came after the axes that are
// not tensor parallel.
//
//   tp 4, fsdp 4, 4 devices a host         a block of 16 numbers, on four hosts
//   tp 3, fsdp 6, 27 devices a host        the block 18 to 35 is on two hosts
//   tp 4, fsdp 2, tq 4, 4 devices a host   not reported: tp and tq together are
//                                          larger than a host in any order
#include <cstdint>
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/hosts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {

void CheckChattyAxisAcrossHosts(const Facts& facts, FindingSink& sink) {
  const Mesh& mesh = facts.mesh();
  const int64_t per_host = DevicesPerHost(mesh);
  if (mesh.processes <= 1 || per_host <= 1) return;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const MeshAxis& axis = mesh.axes[i];
    if (facts.TensorAxes({axis.name}).empty()) continue;
    if (!CrossesHosts(mesh, i)) continue;
    // Another lint reports an axis that spans slices.
    if (SlicesAlong(mesh, i) > 1) continue;
    std::string inner;
    // If `axis` came after the axes of `inner` in the mesh, each of its groups
    // would be in a block of this many consecutive device numbers.
    int64_t block = axis.size;
    for (size_t j = i + 1; j < mesh.axes.size(); ++j) {
      const int64_t size = mesh.axes[j].size / SlicesAlong(mesh, j);
      if (size <= 1) continue;
      if (!facts.TensorAxes({mesh.axes[j].name}).empty()) {
        block *= size;
        continue;
      }
      inner += (inner.empty() ? "" : ", ") + Quoted(mesh.axes[j].name);
    }
    if (inner.empty() || per_host % block != 0) continue;
    LintFinding finding =
        FindingAt(kChattyAxisAcrossHosts.code, facts.MeshPlace());
    const std::string host = std::to_string(per_host);
    const std::string span =
        std::to_string(SpanOf(mesh, i)) + " device numbers";
    finding.message =
        SpanOf(mesh, i) > per_host
            ? "a group along tensor parallel axis " + Quoted(axis.name) +
                  " spans " + span + ", and a host has " + host +
                  ": its collectives, several in each layer, cross hosts"
            : "groups along tensor parallel axis " + Quoted(axis.name) +
                  " are in blocks of " + span + ", and a host has " + host +
                  ", no multiple of that: the collectives of some groups, "
                  "several in each layer, cross hosts";
    finding.help = "write " + Quoted(axis.name) + " after " + inner +
                   " in the mesh, so that its groups stay within a host";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
