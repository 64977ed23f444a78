// Computes what the drawing of a mesh shows. Of the axes with more than one
// device, the last is drawn as columns and the one before it as rows. Each
// combination of coordinates on the other axes is drawn as a panel. This header
// also finds the axes whose devices are on several hosts.
#ifndef SHARDC_PICTURE_MESH_H_
#define SHARDC_PICTURE_MESH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/mesh.h"
#include "picture/device_set.h"

namespace shardc::picture {

// The form in which the cells of one host's devices are arranged in a panel.
enum class HostForm : uint8_t {
  // Another form, or the form is unknown: the hosts are unknown, or the panel
  // is too large to be checked.
  kNone,
  kRows,   // `host_cells` full rows, one below the other
  kInRow,  // `host_cells` neighbours in one row
};

struct AxisLine {
  size_t axis = 0;  // index of the axis in the mesh
  // The devices that differ only along this axis and have coordinate 0 on all
  // other axes.
  DeviceSet group;
  // The number of the group's devices on each host, and the number of these
  // hosts. They are nullopt if the hosts have different numbers of devices, if
  // the hosts are unknown, or if the axis is too long to search.
  std::optional<int64_t> per_host, hosts;
};

class MeshPicture {
 public:
  explicit MeshPicture(const Mesh& mesh);

  const Mesh& mesh() const { return mesh_; }
  // The indices of the axes that are drawn as rows, as columns and as panels.
  // Axes of size 1 are not drawn.
  std::optional<size_t> rows() const { return rows_; }
  std::optional<size_t> columns() const { return columns_; }
  const std::vector<size_t>& panels() const { return panels_; }
  int64_t RowCount() const;
  int64_t ColumnCount() const;
  int64_t PanelCount() const;
  // Returns the coordinates of a panel, one for each axis in panels().
  std::vector<int64_t> PanelCoordinates(int64_t panel) const;

  // Returns the number of the device in a cell.
  int64_t At(int64_t panel, int64_t row, int64_t column) const;
  bool knows_hosts() const { return mesh_.processes > 1; }
  int64_t PerHost() const { return mesh_.devices / mesh_.processes; }
  int64_t HostOf(int64_t device) const { return device / PerHost(); }
  HostForm host_form() const { return host_form_; }
  // The number of rows that a host fills (kRows), or the number of cells that
  // it has in a row (kInRow); 0 for kNone.
  int64_t host_cells() const { return host_cells_; }
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
