// Compares the cells of arrays and of the mesh with coordinates computed one
// device at a time.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "draws.h"
#include "model/mesh_layout.h"
#include "picture/array.h"
#include "picture/bars.h"

namespace shardc::picture {
namespace {

Mesh MeshOf(std::vector<std::pair<std::string, int64_t>> axes) {
  Mesh out;
  for (auto& [name, size] : axes) {
    out.axes.push_back({std::move(name), size});
    out.devices *= size;
  }
  return out;
}

Mesh RandomMesh(Draws& draws) {
  std::vector<std::pair<std::string, int64_t>> axes;
  const int64_t count = 1 + static_cast<int64_t>(draws() % 5);
  for (int64_t i = 0; i < count; ++i) {
    axes.emplace_back("a" + std::to_string(i),
                      1 + static_cast<int64_t>(draws() % 6));
  }
  Mesh out = MeshOf(std::move(axes));
  for (int64_t hosts : {2, 4, 8}) {
    if (out.devices % hosts == 0 && draws() % 2 == 0) out.processes = hosts;
  }
  if (draws() % 3 == 0) {
    for (const MeshAxis& axis : out.axes) {
      out.dcn.push_back(axis.size % 2 == 0 && draws() % 2 == 0 ? 2 : 1);
      out.slices *= out.dcn.back();
    }
    if (out.slices == 1) out.dcn.clear();
  }
  return out;
}

std::set<int64_t> Numbers(const DeviceSet& devices) {
  std::set<int64_t> out;
  for (int64_t i = 0; i < devices.count(); ++i) out.insert(devices.At(i));
  CHECK(static_cast<int64_t>(out.size()) == devices.count());
  return out;
}

// Returns the number of the piece of a dimension that a device holds.
int64_t PieceOf(const Mesh& mesh, const DevicePlace& place,
                const ArrayDim& dim) {
  return IndexAlong(mesh, place.coordinates, dim.axes);
}

TEST_CASE("each device is in the cell of its shards and in no other") {
  Draws draws(7);
  for (int round = 0; round < 300; ++round) {
    ArrayInput input;
    input.mesh = RandomMesh(draws);
    Shape shape(draws() % 5);
    input.spec.resize(shape.size());
    for (const MeshAxis& axis : input.mesh.axes) {
      if (shape.empty() || draws() % 3 == 0) continue;
      input.spec[draws() % shape.size()].push_back(axis.name);
    }
    for (int64_t& size : shape) size = static_cast<int64_t>(draws() % 100);
    input.dims = DimsOf(shape, input.spec);
    if (shape.size() > 1 && draws() % 2 == 0) {
      input.drawn = std::pair(size_t{0}, 1 + draws() % (shape.size() - 1));
    }
    const Mesh mesh = input.mesh;
    const ArrayPicture array(std::move(input));
    std::set<int64_t> seen;
    for (int64_t panel = 0; panel < array.PanelCount(); ++panel) {
      for (int64_t row = 0; row < array.RowCount(); ++row) {
        for (int64_t column = 0; column < array.ColumnCount(); ++column) {
          const auto cell = Numbers(array.At(panel, row, column));
          CHECK(static_cast<int64_t>(cell.size()) == array.copies());
          seen.insert(cell.begin(), cell.end());
          for (int64_t device : cell) {
            const DevicePlace place = PlaceOfDevice(mesh, device);
            if (array.rows()) {
              CHECK(PieceOf(mesh, place, array.dims()[*array.rows()]) == row);
            }
            if (array.columns()) {
              CHECK(PieceOf(mesh, place, array.dims()[*array.columns()]) ==
                    column);
            }
            const auto pieces = array.PanelPieces(panel);
            for (size_t i = 0; i < pieces.size(); ++i) {
              CHECK(PieceOf(mesh, place, array.dims()[array.panels()[i]]) ==
                    pieces[i]);
            }
          }
        }
      }
    }
    CHECK(static_cast<int64_t>(seen.size()) == mesh.devices);
    CHECK(array.PanelCount() * array.RowCount() * array.ColumnCount() *
              array.copies() ==
          mesh.devices);
  }
}

TEST_CASE("the grid has each device once, and hosts in their order") {
  Draws draws(8);
  for (int round = 0; round < 300; ++round) {
    const Mesh mesh = RandomMesh(draws);
    const MeshPicture picture(mesh);
    std::set<int64_t> seen;
    for (int64_t panel = 0; panel < picture.PanelCount(); ++panel) {
      for (int64_t row = 0; row < picture.RowCount(); ++row) {
        for (int64_t column = 0; column < picture.ColumnCount(); ++column) {
          const int64_t device = picture.At(panel, row, column);
          seen.insert(device);
          const DevicePlace place = PlaceOfDevice(mesh, device);
          CHECK(picture.HostOf(device) == place.process);
          if (picture.columns()) {
            CHECK(place.coordinates[*picture.columns()] == column);
          }
          if (picture.rows()) {
            CHECK(place.coordinates[*picture.rows()] == row);
          }
        }
      }
    }
    CHECK(static_cast<int64_t>(seen.size()) == mesh.devices);
    for (const AxisLine& line : picture.axes()) {
      std::set<int64_t> hosts;
      for (int64_t device : Numbers(line.group)) {
        hosts.insert(PlaceOfDevice(mesh, device).process);
      }
      if (!line.hosts) continue;
      CHECK(static_cast<int64_t>(hosts.size()) == *line.hosts);
      CHECK(*line.hosts * *line.per_host == line.group.count());
    }
  }
}

TEST_CASE("hosts are drawn as full rows, parts of rows, or not at all") {
  Mesh mesh = MeshOf({{"dp", 2}, {"fsdp", 8}, {"tp", 4}});
  mesh.processes = 8;
  CHECK(MeshPicture(mesh).host_form() == HostForm::kRows);
  CHECK(MeshPicture(mesh).host_cells() == 2);
  mesh.processes = 32;
  CHECK(MeshPicture(mesh).host_form() == HostForm::kInRow);
  CHECK(MeshPicture(mesh).host_cells() == 2);
  mesh.processes = 1;
  CHECK(MeshPicture(mesh).host_form() == HostForm::kNone);
  // The six devices of a host are neither complete rows of four nor a part of
  // one row.
  Mesh odd = MeshOf({{"fsdp", 3}, {"tp", 4}});
  odd.processes = 2;
  CHECK(MeshPicture(odd).host_form() == HostForm::kNone);
}

TEST_CASE("a placed array is on the devices at its coordinate") {
  ArrayInput input;
  input.mesh = MeshOf({{"ep", 4}, {"tp", 2}});
  input.spec = {{}, {"tp"}};
  input.dims = DimsOf(Shape{8, 8}, input.spec);
  input.placement = ReadPlacement{"ep", 3};
  const ArrayPicture array(std::move(input));
  CHECK(array.copies() == 1);
  CHECK_FALSE(array.whole());
  CHECK(array.At(0, 0, 1).first == 7);
}

TEST_CASE("a replicated array is on every device") {
  ArrayInput input;
  input.mesh = MeshOf({{"dp", 4}, {"tp", 2}});
  input.spec = {{}};
  input.dims = DimsOf(Shape{8}, input.spec);
  const ArrayPicture array(std::move(input));
  CHECK(array.whole());
  CHECK(array.copies() == 8);
  CHECK(array.At(0, 0, 0).Step() == 1);
}

TEST_CASE("the last of uneven shards ends at the size") {
  const ArrayDim dim = {
      .name = "d", .size = 10, .axes = {"tp"}, .axis_sizes = {4}, .parts = 4};
  CHECK(dim.Piece() == 3);
  CHECK(dim.Range(3) == std::pair<int64_t, int64_t>(9, 10));
  const ArrayDim few = {
      .name = "d", .size = 2, .axes = {"tp"}, .axis_sizes = {4}, .parts = 4};
  CHECK(few.Range(3) == std::pair<int64_t, int64_t>(2, 2));
}

TEST_CASE("long rows are drawn with their beginning and their end") {
  CHECK(Shown(3, 4) == std::vector<int64_t>{0, 1, 2});
  CHECK(Shown(5, 4) == std::vector<int64_t>{0, 1, kGap, 4});
  CHECK(Shown(100, 16) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, kGap, 99});
}

TEST_CASE(
    "known axes keep their colours, and colours repeat only when all are "
    "used") {
  CHECK(AxisColorsOf(MeshOf({{"tp", 1}, {"x", 1}, {"dp", 1}})) ==
        std::vector<uint8_t>{2, 5, 0});
  std::vector<std::pair<std::string, int64_t>> many;
  for (int i = 0; i < 8; ++i) many.emplace_back("m" + std::to_string(i), 1);
  const auto colors = AxisColorsOf(MeshOf(many));
  CHECK(std::set<uint8_t>(colors.begin(), colors.end()).size() == 8);
}

}  // namespace
}  // namespace shardc::picture
