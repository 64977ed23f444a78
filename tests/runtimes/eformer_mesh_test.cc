// Compares meshes with eformer's own, in cases in which the recorded vectors
// have a mesh that eformer remembered from another number of devices.
#include <optional>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "records.h"
#include "reference/mesh.h"

namespace shardc {
namespace {

using reference::MeshCache;
using reference::MeshShape;

std::vector<std::string> Strings(JsonValue list) {
  std::vector<std::string> strings;
  for (JsonValue text : list.items()) strings.emplace_back(text.string());
  return strings;
}

reference::Result<MeshShape> Made(JsonValue input) {
  const int64_t devices = Member(input, "device_count").integer();
  if (Member(input, "op").string() == "parse_mesh_from_string") {
    return MeshCache().ParseMeshFromString(devices,
                                           Member(input, "axis_dims").string(),
                                           Strings(Member(input, "names")));
  }
  std::optional<std::vector<int64_t>> sizes;
  std::optional<std::vector<std::string>> names;
  if (const auto given = input.Find("axis_dims")) sizes = Integers(*given);
  if (const auto given = input.Find("axis_names")) names = Strings(*given);
  return MeshCache().CreateMesh(devices, sizes, names);
}

TEST_CASE("meshes are those that eformer makes for the devices at hand") {
  const auto record = LoadRecord("eformer/vectors");
  int made = 0, refused = 0;
  for (JsonValue entry : Member(record->root(), "differences").items()) {
    REQUIRE(Member(entry, "family").string() == "mesh");
    CAPTURE(std::string(Member(entry, "id").string()));
    const auto ours = Made(Member(entry, "input"));
    const auto* mesh = std::get_if<MeshShape>(&ours);
    if (const auto expected = entry.Find("expect")) {
      REQUIRE(mesh != nullptr);
      CHECK(mesh->names == Strings(Member(*expected, "axis_names")));
      CHECK(mesh->sizes == Integers(Member(*expected, "shape")));
      ++made;
    } else {
      CHECK(mesh == nullptr);
      ++refused;
    }
  }
  CHECK(made > 20);
  CHECK(refused > 20);
}

}  // namespace
}  // namespace shardc
