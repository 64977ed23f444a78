#include "emit/plans/input_text.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

std::string JsonOf(const Mesh& mesh, const AxisRules& axes, bool ranks) {
  return TextOf([&](Sink& out) { WriteMeshGridJson(mesh, axes, ranks, out); });
}

TEST_CASE("processes and ranks") {
  Mesh mesh;
  mesh.axes = {{"dp", 2}, {"one", 1}, {"fsdp", 2}, {"tp", 3}};
  mesh.devices = 12;
  mesh.processes = 2;
  CHECK(MeshDetailsText(mesh, {}, true) ==
        "\n12 devices, 2 processes, 1 slice\n"
        "host mesh: [1, 1, 2, 3]\n"
        "\n"
        "process 0: devices 0-5, dp rank 0 of 2, mp rank 0 of 1\n"
        "process 1: devices 6-11, dp rank 1 of 2, mp rank 0 of 1\n");
}

TEST_CASE("slices in text and JSON") {
  Mesh mesh;
  mesh.axes = {{"dp", 2, AxisType::kExplicit}, {"tp", 4}};
  mesh.devices = 8;
  mesh.slices = 2;
  mesh.processes = 2;
  mesh.dcn = {1, 2};
  CHECK(MeshDetailsText(mesh, {}, false) ==
        "\n8 devices, 2 processes, 2 slices\n"
        "dp: explicit\n"
        "tp: auto, 2 over the slices\n"
        "host mesh: [1, 4]\n");
  CHECK(JsonOf(mesh, {}, true) ==
        "{\"axes\": [{\"name\": \"dp\", \"size\": 2, \"type\": \"explicit\"}, "
        "{\"name\": \"tp\", \"size\": 4, \"type\": \"auto\"}], "
        "\"devices\": 8, \"processes\": 2, \"slices\": 2, \"dcn\": [1, 2],\n"
        " \"host_mesh\": [1, 4],\n"
        " \"grid\": [[0, 1, 4, 5], [2, 3, 6, 7]],\n"
        " \"ranks\": [\n"
        "  {\"process\": 0, \"slice\": 0, \"devices\": [0, 1, 2, 3], "
        "\"mp_node_size\": 1, \"dp_node_size\": 2, \"dp_node_rank\": 0, "
        "\"mp_node_rank\": 0},\n"
        "  {\"process\": 1, \"slice\": 1, \"devices\": [4, 5, 6, 7], "
        "\"mp_node_size\": 1, \"dp_node_size\": 2, \"dp_node_rank\": 1, "
        "\"mp_node_rank\": 0}\n"
        "]}\n");
}

TEST_CASE("small and large grids") {
  Mesh mesh;
  CHECK(JsonOf(mesh, {}, false).find("\"grid\": 0") != std::string::npos);
  mesh.axes = {{"x", int64_t{1} << 20}};
  mesh.devices = int64_t{1} << 20;
  mesh.processes = 3;
  CHECK(JsonOf(mesh, {}, false).find("\"host_mesh\": null") !=
        std::string::npos);
  CHECK(JsonOf(mesh, {}, false).find("\"grid\": null") != std::string::npos);
}

}  // namespace
}  // namespace shardc
