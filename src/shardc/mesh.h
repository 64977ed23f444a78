// A device mesh: named axes, the major axis first. Devices are numbered in
// row-major order over the axes.
#ifndef SHARDC_SHARDC_MESH_H_
#define SHARDC_SHARDC_MESH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardc/findings.h"

namespace shardc::SHARDC_V1 {

struct MeshAxis {
  std::string name;
  int64_t size = 1;  // number of devices along the axis
};

class Mesh {
 public:
  std::vector<MeshAxis> axes() const;  // major axis first
  int64_t devices() const;             // product of the axis sizes

  struct Inside;  // private to the library
  explicit Mesh(std::shared_ptr<const Inside> inside);
  const Inside& inside() const { return *inside_; }

 private:
  std::shared_ptr<const Inside> inside_;
};

// Reads a mesh file (shardc-mesh(5)), or axes such as `dp:2,fsdp:-1,tp:4`. One
// size may be -1 and becomes `devices` divided by the product of the other
// sizes. Errors include a file that cannot be read, and sizes whose product is
// not `devices`.
std::optional<Mesh> ReadMesh(const std::string& file_or_axes,
                             Findings& findings,
                             std::optional<int64_t> devices = std::nullopt);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_MESH_H_
