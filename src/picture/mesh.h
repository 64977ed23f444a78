// The mesh as a grid: the last axis across, the one before down, the others a
// panel for each coordinate; and how each axis lies to the hosts.
#ifndef SHARDC_PICTURE_MESH_H_
#define SHARDC_PICTURE_MESH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/mesh.h"
#include "picture/device_set.h"

namespace shardc::picture {

// How a host's devices lie in a panel's rows.
enum class HostForm : uint8_t {
  kNone,   // in no form that a frame could show, or hosts are not known
  kRows,   // `host_cells` whole rows, one after the other
  kInRow,  // so many neighbours of a row
};

struct AxisLine {
  size_t axis = 0;  // of the mesh
  DeviceSet group;  // the first
  // Of the group's devices how many share a host, and how many hosts there are;
  // nothing where they lie unevenly or hosts are not known.
  std::optional<int64_t> per_host, hosts;
};

class MeshPicture {
 public:
  explicit MeshPicture(const Mesh& mesh);

  const Mesh& mesh() const { return mesh_; }
  // Axes of more than one device.
  std::optional<size_t> rows() const { return rows_; }
  std::optional<size_t> columns() const { return columns_; }
  const std::vector<size_t>& panels() const { return panels_; }
  int64_t RowCount() const;
  int64_t ColumnCount() const;
  int64_t PanelCount() const;
  // The coordinates of `panels()` in a panel.
  std::vector<int64_t> PanelCoordinates(int64_t panel) const;

  int64_t At(int64_t panel, int64_t row, int64_t column) const;  // its number
  bool knows_hosts() const { return mesh_.processes > 1; }
  int64_t PerHost() const { return mesh_.devices / mesh_.processes; }
  int64_t HostOf(int64_t device) const { return device / PerHost(); }
  HostForm host_form() const { return host_form_; }
  int64_t host_cells() const { return host_cells_; }  // rows, or cells of a row
  const std::vector<AxisLine>& axes() const { return axes_; }

 private:
  int64_t SizeAt(const std::optional<size_t>& axis) const {
    return axis ? mesh_.axes[*axis].size : 1;
  }
  void FindHosts();
  AxisLine LineOf(size_t axis) const;

  Mesh mesh_;
  MeshDigits digits_;
  std::optional<size_t> rows_, columns_;
  std::vector<size_t> panels_;
  HostForm host_form_ = HostForm::kNone;
  int64_t host_cells_ = 0;
  std::vector<AxisLine> axes_;
};

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_MESH_H_
