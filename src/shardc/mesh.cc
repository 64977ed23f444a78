#include "shardc/inside.h"
// inside.h comes first, because it defines SHARDC_V1 for the headers below.
#include <filesystem>

#include "parse/mesh.h"
#include "shardc/mesh.h"

namespace shardc::v1 {

Mesh::Mesh(std::shared_ptr<const Inside> inside) : inside_(std::move(inside)) {}

std::vector<MeshAxis> Mesh::axes() const {
  std::vector<MeshAxis> out;
  for (const shardc::MeshAxis& axis : inside_->mesh.axes) {
    out.push_back({axis.name, axis.size});
  }
  return out;
}

int64_t Mesh::devices() const { return inside_->mesh.devices; }

std::optional<Mesh> ReadMesh(const std::string& file_or_axes,
                             Findings& findings,
                             std::optional<int64_t> devices) {
  auto mesh = shardc::ReadMesh(file_or_axes, devices, findings.inside().all);
  if (!mesh) return std::nullopt;
  std::error_code error;
  const bool file = std::filesystem::exists(file_or_axes, error);
  SourceRef source =
      file ? MakeSource(file_or_axes, "") : MakeSource("mesh", file_or_axes);
  return Mesh(std::make_shared<const Mesh::Inside>(
      Mesh::Inside{std::move(*mesh), {std::move(source)}}));
}

}  // namespace shardc::v1
