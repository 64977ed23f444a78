// Completes a mesh. An axis of size -1 gets the number of devices divided by
// the product of the other sizes. If `dcn` does not state the number of slices
// (pods) along each axis, all slices are placed on the first axis whose size is
// divisible by their number. In this example both slices are placed on `dp`:
//
//   {dp: -1, tp: 4}, 16 devices, 2 slices  ->  dp 16 / 4 = 4, dcn [2, 1]
#include "parse/mesh_finish.h"

#include <utility>

#include "source/checked.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr std::string_view kOneFree = "one size at most can be -1";

// The product of the sizes other than -1, and the index of the axis of size -1.
struct Sizes {
  int64_t product = 1;
  std::optional<size_t> free;
};

std::optional<Sizes> Multiply(const MeshDraft& draft, Findings& findings) {
  Sizes sizes;
  bool good = true;
  for (size_t i = 0; i < draft.axes.size(); ++i) {
    const MeshDraft::Axis& axis = draft.axes[i];
    if (axis.size == -1) {
      if (sizes.free) {
        findings
            .Add(code::kNumber, axis.place,
                 "the sizes of both `" + draft.axes[*sizes.free].name +
                     "` and `" + axis.name + "` are -1",
                 std::string(kOneFree))
            .labels.push_back(
                {draft.axes[*sizes.free].place, "the first is here"});
        good = false;
        continue;
      }
      sizes.free = i;
      continue;
    }
    const auto product = CheckedMul(sizes.product, axis.size);
    if (!product) {
      findings.Add(code::kOverflow, axis.place,
                   "with axis `" + axis.name + "` of size " +
                       CountText(axis.size) +
                       " the device count does not fit in 64 bits");
      return std::nullopt;
    }
    sizes.product = *product;
  }
  if (!good) return std::nullopt;
  return sizes;
}

// Returns the sizes other than -1 and their product as a text, such as "2 * 4 =
// 8". For a single size, the product is omitted.
std::string SizesText(const MeshDraft& draft, int64_t product) {
  std::string out;
  size_t count = 0;

  for (const MeshDraft::Axis& axis : draft.axes) {
    if (axis.size == -1) continue;
    if (!out.empty()) out += " * ";
    out += CountText(axis.size);
    ++count;
  }
  if (count != 1) out += (count > 1 ? " = " : "") + CountText(product);
  return out;
}

// Returns advice on how to make the sizes agree with the number of devices. The
// text names an axis that may be -1, because the product of the other sizes
// divides the number of devices. If there is no such axis, the text requests
// sizes with the right product.
std::string DevicesHelp(const MeshDraft& draft, int64_t product,
                        int64_t devices) {
  std::string first;
  bool all = !draft.axes.empty();
  for (const MeshDraft::Axis& axis : draft.axes) {
    if (axis.size < 1 || devices % (product / axis.size) != 0) {
      all = false;
    } else if (first.empty()) {
      first = axis.name;
    }
  }
  if (all) return "make one axis -1 to let it take what remains";
  if (first.empty()) {
    return "give sizes whose product is " + CountText(devices);
  }
  return "make `" + first + "` -1 to let it take what remains";
}

// Computes the size that is written as -1, and returns the number of devices.
// Returns nullopt after a finding.
std::optional<int64_t> SettleDevices(const MeshDraft& draft, const Sizes& sizes,
                                     Mesh& mesh, Findings& findings) {
  if (!sizes.free) {
    if (draft.devices && draft.devices->value != sizes.product) {
      findings.Add(code::kDeviceCount, draft.devices->place,
                   "the axes make " + SizesText(draft, sizes.product) +
                       " devices, not " + CountText(draft.devices->value),
                   DevicesHelp(draft, sizes.product, draft.devices->value));
      return std::nullopt;
    }
    return sizes.product;
  }
  const MeshDraft::Axis& free = draft.axes[*sizes.free];
  if (!draft.devices) {
    findings.Add(code::kDeviceCount, free.place,
                 "the size of axis `" + free.name +
                     "` is -1, and the device count is not given",
                 "give `devices` in the mesh, or --devices");
    return std::nullopt;
  }
  const int64_t devices = draft.devices->value;
  if (devices % sizes.product != 0) {
    findings.Add(code::kDeviceCount, draft.devices->place,
                 CountText(devices) + " devices cannot be divided by " +
                     SizesText(draft, sizes.product) + " to give axis `" +
                     free.name + "` its size");
    return std::nullopt;
  }
  mesh.axes[*sizes.free].size = devices / sizes.product;
  return devices;
}

bool SettleProcesses(const MeshDraft& draft, Mesh& mesh, Findings& findings) {
  if (!draft.processes) return true;
  mesh.processes = draft.processes->value;
  if (mesh.devices % mesh.processes == 0) return true;
  findings.Add(code::kDeviceCount, draft.processes->place,
               CountText(mesh.devices) + " devices cannot be divided among " +
                   CountText(mesh.processes) + " processes");
  return false;
}

// Places all slices (pods) on the first axis whose size is divisible by the
// number of slices. Adds a finding and returns false if there is no such axis.
bool InferSlices(const MeshDraft& draft, Mesh& mesh, Findings& findings) {
  mesh.dcn.assign(mesh.axes.size(), 1);
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (mesh.axes[i].size % mesh.slices != 0) continue;
    mesh.dcn[i] = mesh.slices;
    return true;
  }
  if (mesh.devices % mesh.slices != 0) {
    findings.Add(code::kDeviceCount, draft.slices->place,
                 CountText(mesh.devices) + " devices cannot be divided among " +
                     CountText(mesh.slices) + " slices");
    return false;
  }
  findings.Add(
      code::kDeviceCount, draft.slices->place,
      "no axis can be divided among " + CountText(mesh.slices) + " slices",
      "divide the slices among several axes, such as `dcn: {dp: 2, fsdp: 2}` "
      "for 4 slices");
  return false;
}

bool SettleDcn(const MeshDraft& draft, Mesh& mesh, Findings& findings) {
  mesh.dcn = draft.dcn;
  std::optional<size_t> free;
  int64_t product = 1;
  for (size_t i = 0; i < mesh.dcn.size(); ++i) {
    if (mesh.dcn[i] == -1) {
      if (free) {
        findings.Add(code::kNumber, draft.dcn_place,
                     "two factors of `dcn` are -1",
                     "one factor at most can be -1");
        return false;
      }
      free = i;
      continue;
    }
    const auto next = CheckedMul(product, mesh.dcn[i]);
    if (!next) {
      findings.Add(code::kOverflow, draft.dcn_place,
                   "the product of `dcn` does not fit in 64 bits");
      return false;
    }
    product = *next;
  }
  if (free && mesh.slices % product == 0) {
    mesh.dcn[*free] = mesh.slices / product;
    product = mesh.slices;
  }
  if (product != mesh.slices) {
    findings.Add(code::kDeviceCount, draft.dcn_place,
                 "the factors of `dcn` make " + CountText(product) +
                     ", and there are " + Counted(mesh.slices, "slice"),
                 "the product of the factors is the number of slices");
    return false;
  }
  for (size_t i = 0; i < mesh.dcn.size(); ++i) {
    if (mesh.axes[i].size % mesh.dcn[i] == 0) continue;
    findings.Add(code::kDeviceCount, draft.dcn_place,
                 "axis `" + mesh.axes[i].name + "` of size " +
                     CountText(mesh.axes[i].size) +
                     " cannot be divided by its factor " +
                     CountText(mesh.dcn[i]));
    return false;
  }
  if (mesh.slices == 1) mesh.dcn.clear();
  return true;
}

bool SettleSlices(const MeshDraft& draft, Mesh& mesh, Findings& findings) {
  if (draft.slices) mesh.slices = draft.slices->value;
  if (!draft.dcn.empty()) return SettleDcn(draft, mesh, findings);
  if (mesh.slices == 1) return true;
  return InferSlices(draft, mesh, findings);
}

}  // namespace

std::optional<Mesh> FinishMesh(const MeshDraft& draft, Findings& findings) {
  const auto sizes = Multiply(draft, findings);
  if (!sizes) return std::nullopt;
  Mesh mesh;
  for (const MeshDraft::Axis& axis : draft.axes) {
    mesh.axes.push_back({axis.name, axis.size, axis.type});
  }
  mesh.device = draft.device;
  const auto devices = SettleDevices(draft, *sizes, mesh, findings);
  if (!devices) return std::nullopt;
  mesh.devices = *devices;
  const bool processes = SettleProcesses(draft, mesh, findings);
  const bool slices = SettleSlices(draft, mesh, findings);
  if (!processes || !slices) return std::nullopt;
  return mesh;
}

}  // namespace shardc
