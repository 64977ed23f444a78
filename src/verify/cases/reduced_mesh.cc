// Finds smaller meshes on which cases can be simulated. A mesh is reduced by
// shortening its longest axis repeatedly, until the mesh has few enough
// devices. An even length is halved, and an odd length becomes 2. No axis is
// removed:
//
//   fsdp 16, tp 4, at most 8 devices  ->  fsdp 2, tp 4
//
// Sizes are reduced as well. If axes of the given mesh divide a given size, the
// same axes of the smaller mesh must divide the reduced size. If they do not
// divide the given size, they must not divide the reduced size. On some smaller
// meshes no size has both properties, and another mesh must be tried.
//
// For example, let the given mesh be fsdp 16, tp 4, with 8 KV heads. tp divides
// 8, with 2 heads for each device, but fsdp * tp = 64 does not. On the mesh
// fsdp 2, tp 4, a device has 2 heads only if there are 8 heads, but fsdp * tp =
// 8 divides 8. The mesh fsdp 4, tp 2 is then tried.
#include "verify/cases/reduced_mesh.h"

#include <algorithm>
#include <utility>

namespace shardc::verify {

namespace {

constexpr size_t kMostMeshes = 24;

int64_t DevicesOf(const Mesh& mesh) {
  int64_t devices = 1;
  for (const MeshAxis& axis : mesh.axes) devices *= axis.size;
  return devices;
}

// Returns the next shorter length of an axis. Half of an even length divides
// all dimensions that the length divides. An odd length becomes 2.
int64_t Shortened(int64_t length) { return length % 2 == 0 ? length / 2 : 2; }

Mesh OnOneHost(Mesh mesh) {
  mesh.devices = DevicesOf(mesh);
  mesh.processes = 1;
  mesh.slices = 1;
  mesh.dcn.clear();
  return mesh;
}

// Shortens the axes with index `axis` and above in all possible ways. Appends
// each resulting mesh that has at least `least_devices` devices.
void AppendShortened(Mesh& mesh, size_t axis, int64_t least_devices,
                     std::vector<Mesh>& out) {
  if (axis == mesh.axes.size()) {
    out.push_back(OnOneHost(mesh));
    return;
  }
  const int64_t given = mesh.axes[axis].size;
  int64_t length = given;
  for (;;) {
    mesh.axes[axis].size = length;
    if (DevicesOf(mesh) < least_devices) break;
    AppendShortened(mesh, axis + 1, least_devices, out);
    if (length <= 2) break;
    length = Shortened(length);
  }
  mesh.axes[axis].size = given;
}

}  // namespace

Mesh ReducedMesh(const Mesh& mesh, int64_t most_devices) {
  Mesh out = mesh;
  while (DevicesOf(out) > most_devices) {
    auto longest = std::max_element(
        out.axes.begin(), out.axes.end(),
        [](const MeshAxis& a, const MeshAxis& b) { return a.size < b.size; });
    if (longest->size <= 2) break;
    longest->size = Shortened(longest->size);
  }
  return OnOneHost(std::move(out));
}

std::vector<Mesh> ReducedMeshes(const Mesh& mesh, int64_t least_devices) {
  std::vector<Mesh> out = {ReducedMesh(mesh, least_devices)};
  Mesh shortened = mesh;
  AppendShortened(shortened, 0, least_devices, out);
  std::stable_sort(
      out.begin() + 1, out.end(),
      [](const Mesh& a, const Mesh& b) { return a.devices < b.devices; });
  std::erase_if(out,
                [&](const Mesh& one) { return one.devices >= mesh.devices; });
  if (out.size() > kMostMeshes) out.resize(kMostMeshes);
  return out;
}

}  // namespace shardc::verify
