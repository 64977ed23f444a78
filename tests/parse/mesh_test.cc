#include "parse/mesh.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>

#include "parse/project.h"
#include "parse/render.h"

namespace shardc {
namespace {

// Returns "dp=2/auto tp=4/auto devices=8 slices=2 x1 x2": the axes with their
// sizes and types, and the other members of the mesh.
std::string Show(const std::optional<Mesh>& mesh) {
  if (!mesh) return "none";
  std::string out;
  for (const MeshAxis& axis : mesh->axes) {
    out += axis.name + "=" + std::to_string(axis.size) + "/" +
           std::string(AxisTypeName(axis.type)) + " ";
  }
  out += "devices=" + std::to_string(mesh->devices);
  if (mesh->processes != 1) {
    out += " processes=" + std::to_string(mesh->processes);
  }
  if (mesh->slices != 1) out += " slices=" + std::to_string(mesh->slices);
  for (int64_t factor : mesh->dcn) out += " x" + std::to_string(factor);
  if (mesh->device) {
    out += " device=" + mesh->device->profile + ":" +
           std::to_string(mesh->device->memory_bytes.value_or(0));
  }
  return out;
}

TEST_CASE("mesh files") {
  struct Case {
    std::string_view text;
    int64_t devices;  // the flag; 0: not given
    std::string_view mesh;
  };
  constexpr Case kCases[] = {
      {"axes: {dp: 2, tp: 4}\n", 0, "dp=2/auto tp=4/auto devices=8"},
      {"axes: {tp: 4, dp: 2}\n", 8, "tp=4/auto dp=2/auto devices=8"},
      {"axes: {dp: 2, fsdp: -1, ep: 1}\ndevices: 64\n", 0,
       "dp=2/auto fsdp=32/auto ep=1/auto devices=64"},
      {"axes: {dp: 2, fsdp: -1}\ndevices: 64\n", 16,
       "dp=2/auto fsdp=8/auto devices=16"},
      {"axes: {dp: -1}\n", 1, "dp=1/auto devices=1"},
      {"axes: {dp: 2, tp: 2}\naxis_types: manual\n", 0,
       "dp=2/manual tp=2/manual devices=4"},
      {"axes: {dp: 2, tp: 2}\naxis_types: {tp: explicit}\n", 0,
       "dp=2/auto tp=2/explicit devices=4"},
      {"axes: {dp: 4, tp: 2}\nprocesses: 2\n", 0,
       "dp=4/auto tp=2/auto devices=8 processes=2"},
      // Slices are along the first axis whose size their number divides.
      {"axes: {sp: 3, dp: 4, tp: 2}\nslices: 2\n", 0,
       "sp=3/auto dp=4/auto tp=2/auto devices=24 slices=2 x1 x2 x1"},
      {"axes: {dp: 4, tp: 4}\nslices: 4\ndcn: {dp: 2, tp: -1}\n", 0,
       "dp=4/auto tp=4/auto devices=16 slices=4 x2 x2"},
      {"axes: {dp: 4}\nslices: 1\ndcn: {dp: 1}\n", 0, "dp=4/auto devices=4"},
      // -1 is replaced by the number of slices divided by the other factors.
      {"axes: {dp: 4, tp: 2}\nslices: 2\ndcn: {dp: -1}\n", 0,
       "dp=4/auto tp=2/auto devices=8 slices=2 x2 x1"},
      {"axes: {dp: 4, tp: 2}\nslices: 2\ndcn: {dp: -1, tp: 2}\n", 0,
       "dp=4/auto tp=2/auto devices=8 slices=2 x1 x2"},
      {"axes: {dp: 8, tp: 2}\nslices: 8\ndcn: {dp: -1, tp: 2}\n", 0,
       "dp=8/auto tp=2/auto devices=16 slices=8 x4 x2"},
      {"axes: {dp: 6, tp: 2}\nslices: 3\ndcn: {dp: -1, tp: 2}\n", 0, "none"},
      {"axes: {dp: 4, tp: 2}\nslices: 8\ndcn: {dp: -1}\n", 0, "none"},
      {"axes: {dp: 4}\ndevice: h100-80gb\n", 0,
       "dp=4/auto devices=4 device=h100-sxm:85520809984"},
      {"axes: {dp: 4}\ndevice: {profile: tpu-7x}\n", 0,
       "dp=4/auto devices=4 device=tpu-7x:103079215104"},
      {"axes: {dp: 4}\ndevice: {profile: v5e, memory: 1.5GiB}\n", 0,
       "dp=4/auto devices=4 device=tpu-v5e:1610612736"},
      {"axes: {dp: 4}\ndevice: nope\n", 0, "none"},
      {"axes: {no: 2, on: 2, data-parallel.0: 2}\n", 0,
       "no=2/auto on=2/auto data-parallel.0=2/auto devices=8"},
      {"axes: {a: 4611686018427387904}\n", 0,
       "a=4611686018427387904/auto devices=4611686018427387904"},
      {"axes: {dp: 4, tp: 4}\nslices: 8\ndcn: {dp: 8}\n", 0, "none"},
      {"axes: {dp: 4, tp: 4}\nslices: 8\ndcn: {dp: -1, tp: -1}\n", 0, "none"},
      {"axes: {dp: 2}\n", 4, "none"},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.text);
    Findings findings;
    std::optional<int64_t> devices;
    if (test.devices > 0) devices = test.devices;
    const auto mesh = ParseMesh(MakeSource("mesh.yaml", std::string(test.text)),
                                devices, findings);
    CHECK(Show(mesh) == test.mesh);
    CHECK(findings.HasErrors() == !mesh.has_value());
  }
}

TEST_CASE("mesh strings") {
  struct Case {
    std::string_view text, mesh;
  };
  constexpr Case kCases[] = {
      {"dp:2,tp:4", "dp=2/auto tp=4/auto devices=8"},
      {"dp=2,tp:4", "dp=2/auto tp=4/auto devices=8"},
      {" dp : 2 , tp = -1 ", "dp=2/auto tp=8/auto devices=16"},
      {"!dp:16", "dp=16/auto devices=16"},
      {"dp:2,tp:4,", "none"},
      {"dp:-1,tp:-1", "none"},
      {"dp:-2", "none"},
      {"dp:+2", "none"},
      {"2,4", "none"},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.text);
    Findings findings;
    std::optional<int64_t> devices;
    if (test.mesh.ends_with("16")) devices = 16;
    const auto mesh = ParseMeshString(
        MakeSource("--mesh", std::string(test.text)), devices, findings);
    CHECK(Show(mesh) == test.mesh);
    CHECK(findings.HasErrors() == !mesh.has_value());
  }
}

TEST_CASE("a text with a colon that is no file is a mesh string") {
  Findings findings;
  CHECK(Show(ReadMesh("dp:2", std::nullopt, findings)) ==
        "dp=2/auto devices=2");
  CHECK(findings.empty());
  CHECK_FALSE(ReadMesh("no-such-file.yaml", std::nullopt, findings));
  CHECK(findings.all()[0].code->name == code::kMissing.name);
}

TEST_CASE("a mesh inside another file keeps its places") {
  const auto source = MakeSource(
      "shardc.yaml", "targets:\n  t:\n    mesh: {axes: {dp: 2, tp: x}}\n");
  MeshInput input;
  const size_t begin = source->text().find("{axes");
  input.inline_place = Place{source, begin, source->text().size() - 1};
  Findings findings;
  CHECK_FALSE(ReadMesh(input, std::nullopt, findings));
  CHECK(Render(findings) ==
        "3:30: error: the size of axis `tp` is `x`, which is not a decimal "
        "integer [number]\n    write plain decimal digits, such as 16\n");
}

TEST_CASE("the text of a mesh inside another file keeps its places") {
  const std::pair<const char*, const char*> cases[] = {
      {"dp:2,tp:x", "3:19"},
      {"'dp:2,tp:x'", "3:20"},
      // Written with an escape: the complete scalar.
      {"\"dp\\x3a2,tp:x\"", "3:11"},
  };
  for (const auto& [value, place] : cases) {
    const auto source =
        MakeSource("shardc.yaml",
                   std::string("targets:\n  t:\n    mesh: ") + value + "\n");
    MeshInput input;
    input.text = "dp:2,tp:x";
    const size_t begin = source->text().find("mesh: ") + 6;
    input.text_place = Place{source, begin, source->text().size() - 1};
    Findings findings;
    CHECK_FALSE(ReadMesh(input, std::nullopt, findings));
    REQUIRE(findings.all().size() == 1);
    CHECK(findings.all()[0].place.ToString() ==
          std::string("shardc.yaml:") + place);
  }
}

TEST_CASE("more axes than any mesh has") {
  std::string file = "axes:\n";
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "a" + std::to_string(i);
    file += "  " + name + ": 1\n";
    text += (i > 0 ? "," : "") + name + ":1";
  }
  for (const bool is_file : {true, false}) {
    Findings findings;
    const auto mesh =
        is_file ? ParseMesh(MakeSource("m.yaml", file), {}, findings)
                : ParseMeshString(MakeSource("--mesh", text), {}, findings);
    CHECK_FALSE(mesh.has_value());
    REQUIRE(findings.errors() == 1);
    CHECK(findings.all()[0].code->name == code::kLimit.name);
  }
}

}  // namespace
}  // namespace shardc
