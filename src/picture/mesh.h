// Computes what the drawing of a mesh shows. Of the axes with more than one
// device, the last is drawn as columns and the one before it as rows. Each
// combination of coordinates on the other axes is drawn as a panel. This header
// also finds the axes whose devices are on several hosts.
#ifndef SHARDC_PICTURE_MESH_H_
#define SHARDC_PICTURE_MESH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/mesh.h"
#include "picture/array.h"

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

// The number of colours.
inline constexpr uint8_t kAxisColors = 8;

// Returns the colour of each axis of the mesh. dp, fsdp, tp, ep and sp always
// have the colours 0 to 4. The other axes get the remaining colours in the
// order of the mesh. If there are too few colours, all further axes have the
// last one.
inline std::vector<uint8_t> AxisColorsOf(const Mesh& mesh) {
  constexpr std::array<std::string_view, 5> kKnown = {"dp", "fsdp", "tp", "ep",
                                                      "sp"};
  std::vector<uint8_t> out(mesh.axes.size(), kAxisColors);
  std::array<bool, kAxisColors> taken = {};
  for (size_t i = 0; i < out.size(); ++i) {
    for (uint8_t k = 0; k < kKnown.size(); ++k) {
      if (mesh.axes[i].name != kKnown[k]) continue;
      out[i] = k;
      taken[k] = true;
    }
  }
  for (uint8_t& color : out) {
    if (color < kAxisColors) continue;
    // Colours from 5 on belong to no known axis, and are used first. Then the
    // colours of known axes that this mesh lacks are used.
    uint8_t free = kKnown.size();
    while (free < kAxisColors && taken[free]) ++free;
    if (free == kAxisColors) {
      free = 0;
      while (free + 1 < kAxisColors && taken[free]) ++free;
    }
    taken[free] = true;
    color = free;
  }
  return out;
}

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_MESH_H_
