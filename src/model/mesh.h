// A device mesh: named axes in order, devices in row-major order over them.
#ifndef SHARDC_MODEL_MESH_H_
#define SHARDC_MODEL_MESH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"

namespace shardc {

class JsonWriter;

enum class AxisType : uint8_t { kAuto, kExplicit, kManual };
std::string_view AxisTypeName(AxisType type);  // "auto"

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  AxisType type = AxisType::kAuto;
  bool operator==(const MeshAxis&) const = default;
};

// What a mesh file says of its accelerator; sizes in bytes.
struct Device {
  std::string profile;  // name of a profile, or empty
  // Its own, or else the profile's.
  std::optional<int64_t> memory_bytes;
  bool operator==(const Device&) const = default;
};

struct Mesh {
  std::vector<MeshAxis> axes;  // major axis first
  int64_t devices = 1;         // product of the sizes
  int64_t processes = 1;       // hosts; device ids run through one first
  int64_t slices = 1;
  // One factor per axis, product = slices; empty with one slice.
  std::vector<int64_t> dcn;
  std::optional<Device> device;

  // Index of an axis, or nothing.
  std::optional<size_t> Find(std::string_view axis) const;
  // Size of an axis; 1 for one that the mesh lacks.
  int64_t SizeOf(std::string_view axis) const;
  // Product of the sizes of a group's axes (absent ones count 1); nothing on
  // overflow, which needs a group that names an axis more than once.
  std::optional<int64_t> Parts(const AxisGroup& group) const;
};

// `dp=2 fsdp=8 tp=4`
std::string MeshText(const Mesh& mesh);

// {"axes": [{"name", "size", "type"}], "devices": 64}, with processes, slices
// and dcn where there are several. kSizes: axes by name and size, devices and
// processes, all that a place in the grid needs.
enum class MeshDetail : uint8_t { kAll, kSizes };
void WriteMesh(JsonWriter& json, const Mesh& mesh,
               MeshDetail detail = MeshDetail::kAll);
// The same without the braces, for an object that says more of the mesh.
void WriteMeshMembers(JsonWriter& json, const Mesh& mesh,
                      MeshDetail detail = MeshDetail::kAll);

}  // namespace shardc

#endif  // SHARDC_MODEL_MESH_H_
