// Directory: model. The structs that all directories share: meshes, specs,
// manifests, rules, projects and configurations.
// Its files include headers of these directories: source.
//
// A device mesh: named axes, the major axis first. model/mesh_layout.h numbers
// its devices.
#ifndef SHARDC_MODEL_MESH_H_
#define SHARDC_MODEL_MESH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardc {

class JsonWriter;

// The axes that shard one dimension, the most significant first. An empty group
// means that the dimension is unsharded.
using AxisGroup = std::vector<std::string>;

// The axes of each dimension. Dimensions after the last entry are unsharded, so
// an empty spec means replicated. Empty groups at the end are kept as written.
using Spec = std::vector<AxisGroup>;

// Returns the spec in the notation of plans and messages, such as `[["fsdp",
// "sp"], "tp", null]`.
std::string SpecText(const Spec& spec);
// Returns the axes of dimension `dim`. Returns an empty group if the spec has
// no entry for the dimension.
AxisGroup AxesAt(const Spec& spec, size_t dim);
// Returns `["fsdp", "sp"]`, or `null` for an empty group.
std::string GroupText(const AxisGroup& group);
void WriteSpec(JsonWriter& json, const Spec& spec);
void WriteGroup(JsonWriter& json, const AxisGroup& group);

// Returns true if the spec has no axis in any dimension.
bool IsReplicated(const Spec& spec);

class JsonWriter;

enum class AxisType : uint8_t { kAuto, kExplicit, kManual };
// Returns the name of an axis type, such as "auto".
std::string_view AxisTypeName(AxisType type);

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  AxisType type = AxisType::kAuto;
  bool operator==(const MeshAxis&) const = default;
};

// The accelerator that a mesh file describes.
struct Device {
  // The name of a hardware profile; empty if the file names none.
  std::string profile;
  // The bytes of memory that the file states, or else those of the profile.
  std::optional<int64_t> memory_bytes;
  bool operator==(const Device&) const = default;
};

struct Mesh {
  std::vector<MeshAxis> axes;  // The axes, the major axis first.
  // The number of devices: the product of the axes' sizes.
  int64_t devices = 1;
  // The number of processes, one for each host. The devices of a process have
  // consecutive device numbers (model/mesh_layout.h).
  int64_t processes = 1;
  int64_t slices = 1;
  // The number of slices along each axis. Slices are parts of the mesh that are
  // connected by a data-center network (DCN). The product of the numbers is
  // `slices`. The list is empty if there is one slice.
  std::vector<int64_t> dcn;
  std::optional<Device> device;

  std::optional<size_t> Find(std::string_view axis) const;
  // A device's coordinate on an axis or on a sub-axis (model/mesh_layout.h) is
  // its coordinate on axes[`axis`], divided by `below`, modulo `size`.
  struct Digit {
    size_t axis = 0;
    int64_t below = 1, size = 1;
    int64_t Of(int64_t coordinate) const { return coordinate / below % size; }
  };
  // Returns nullopt if the mesh lacks the axis, or if the sub-axis is not a
  // factor of it.
  std::optional<Digit> FindDigit(std::string_view name) const;
  // Returns the size of an axis or sub-axis; 1 if the mesh lacks it.
  int64_t SizeOf(std::string_view axis) const;
  // Returns the product of the sizes of a group's axes, where an absent axis
  // has size 1. Returns nullopt on overflow, which only a group with repeated
  // axes can cause.
  std::optional<int64_t> Parts(const AxisGroup& group) const;
};

// Returns the axes and sizes as text, such as `dp=2 fsdp=8 tp=4`.
std::string MeshText(const Mesh& mesh);

// Writes {"axes": [{"name", "size", "type"}], "devices": 64}. The member
// `processes` is added only if there are several processes, and `slices` and
// `dcn` only if there are several slices. kSizes writes only the members that
// locate a device in the grid: names and sizes of axes, devices and processes.
enum class MeshDetail : uint8_t { kAll, kSizes };
void WriteMesh(JsonWriter& json, const Mesh& mesh,
               MeshDetail detail = MeshDetail::kAll);
// Writes the members that WriteMesh writes, without braces, so that the caller
// can add more.
void WriteMeshMembers(JsonWriter& json, const Mesh& mesh,
                      MeshDetail detail = MeshDetail::kAll);

}  // namespace shardc

#endif  // SHARDC_MODEL_MESH_H_
