// Meshes as eformer and fjformer make them: NumPy's reshape rules for the
// unknown size, Python's int() for numbers, their string forms.
#ifndef SHARDC_TESTS_REFERENCE_MESH_H_
#define SHARDC_TESTS_REFERENCE_MESH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/mesh.h"
#include "reference/values.h"

namespace shardc::reference {

// Device numbers are 0, 1 ... in row-major order.
struct MeshShape {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  bool operator==(const MeshShape&) const = default;
};

// Sizes with any one negative number as what remains of `total`. Errors:
// `multiple_unknown_dims`, `cannot_reshape`.
Result<std::vector<int64_t>> Reshape(std::span<const int64_t> sizes,
                                     int64_t total);

// eformer keeps the first mesh made for a list of sizes and names and returns
// it for every later request, even if the number of devices has changed. Errors
// are not kept.
class MeshCache {
 public:
  // Default: (1, -1, 1, 1, 1) over dp, fsdp, ep, tp, sp. Errors: also
  // `axis_name_count_mismatch`.
  Result<MeshShape> CreateMesh(
      int64_t devices,
      const std::optional<std::vector<int64_t>>& sizes = std::nullopt,
      const std::optional<std::vector<std::string>>& names = std::nullopt);
  // `dp:2,tp:4` or `2,4`. Errors: `unknown_axis_name`, `malformed_entry`,
  // `invalid_integer`, `names_not_all_used`, `dims_names_mismatch`.
  Result<MeshShape> ParseMeshFromString(int64_t devices, std::string_view text,
                                        const std::vector<std::string>& names);
  // Stores a mesh as an earlier call in the same process would.
  void Remember(const std::vector<int64_t>& sizes, const MeshShape& mesh);
  // The sizes and names in a text, before any mesh is made.
  static Result<MeshShape> ReadText(std::string_view text,
                                    const std::vector<std::string>& names);
  static std::vector<int64_t> DefaultSizes();
  static std::vector<std::string> DefaultNames();

 private:
  using Key = std::pair<std::vector<int64_t>, std::vector<std::string>>;
  std::map<Key, MeshShape> made_;
};

// fjformer: default (1, -1, 1, 1) over dp, fsdp, tp, sp; errors are JAX's
// TypeError.
Result<MeshShape> FjformerCreateMesh(
    int64_t devices,
    const std::optional<std::vector<int64_t>>& sizes = std::nullopt,
    const std::optional<std::vector<std::string>>& names = std::nullopt);
// The older reader: a leading `!` is dropped, checks are bare assertions.
Result<MeshShape> GetJaxMesh(int64_t devices, std::string_view text,
                             const std::vector<std::string>& names);

// The part of a global mesh that one process holds: processes are taken from
// the leading axes. Errors: `mesh_size_mismatch`, `host_mesh_not_factorable`.
Result<std::vector<int64_t>> HostMeshShape(std::span<const int64_t> global,
                                           int64_t local_devices,
                                           int64_t processes);

// Nodes of model and data parallelism. `key_error` without tp or sp.
struct Ranks {
  int64_t mp_node_size = 1;
  int64_t dp_node_size = 1;
  int64_t dp_node_rank = 0;
  int64_t mp_node_rank = 0;
  bool operator==(const Ranks&) const = default;
};
Result<Ranks> RanksAndSize(const Mesh& mesh, int64_t local_devices,
                           int64_t processes, int64_t process);

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_MESH_H_
