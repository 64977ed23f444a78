// Makes meshes as eformer and fjformer do, with NumPy's reshape rules for the
// unknown size, Python's int() for numbers, and their string forms.
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

// A mesh. Its device numbers are 0, 1 and so on in row-major order.
struct MeshShape {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  bool operator==(const MeshShape&) const = default;
};

// Replaces one negative size by the number that makes the product `total`.
// Errors: `multiple_unknown_dims`, `cannot_reshape`.
Result<std::vector<int64_t>> Reshape(std::span<const int64_t> sizes,
                                     int64_t total);

// eformer keeps the first mesh made for a list of sizes and names and returns
// it for every later request, even if the number of devices has changed. Errors
// are not kept.
class MeshCache {
 public:
  // Makes a mesh. The default is (1, -1, 1, 1, 1) over dp, fsdp, ep, tp, sp.
  // Errors: those of Reshape, and `axis_name_count_mismatch`.
  Result<MeshShape> CreateMesh(
      int64_t devices,
      const std::optional<std::vector<int64_t>>& sizes = std::nullopt,
      const std::optional<std::vector<std::string>>& names = std::nullopt);
  // Reads a text such as `dp:2,tp:4` or `2,4`, and makes the mesh. Errors:
  // `unknown_axis_name`, `malformed_entry`, `invalid_integer`,
  // `names_not_all_used`, `dims_names_mismatch`.
  Result<MeshShape> ParseMeshFromString(int64_t devices, std::string_view text,
                                        const std::vector<std::string>& names);
  // Stores a mesh as an earlier call in the same process would.
  void Remember(const std::vector<int64_t>& sizes, const MeshShape& mesh);
  // Returns the sizes and names in a text, before a mesh is made.
  static Result<MeshShape> ReadText(std::string_view text,
                                    const std::vector<std::string>& names);
  static std::vector<int64_t> DefaultSizes();
  static std::vector<std::string> DefaultNames();

 private:
  using Key = std::pair<std::vector<int64_t>, std::vector<std::string>>;
  std::map<Key, MeshShape> made_;
};

// Makes a mesh as fjformer does. The default is (1, -1, 1, 1) over dp, fsdp,
// tp, sp. Errors are JAX's TypeError.
Result<MeshShape> FjformerCreateMesh(
    int64_t devices,
    const std::optional<std::vector<int64_t>>& sizes = std::nullopt,
    const std::optional<std::vector<std::string>>& names = std::nullopt);
// Reads a mesh as the older get_jax_mesh does: a leading `!` is dropped, and
// checks are bare assertions.
Result<MeshShape> GetJaxMesh(int64_t devices, std::string_view text,
                             const std::vector<std::string>& names);

// Returns the part of a global mesh that one process holds. Processes are taken
// from the leading axes. Errors: `mesh_size_mismatch`,
// `host_mesh_not_factorable`.
Result<std::vector<int64_t>> HostMeshShape(std::span<const int64_t> global,
                                           int64_t local_devices,
                                           int64_t processes);

// The numbers of nodes for model and data parallelism. The error is `key_error`
// if the mesh lacks tp or sp.
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
