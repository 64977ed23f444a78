// Compares the text forms of meshes, types and bundles with expected texts.
#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "model/axis_rules.h"
#include "model/dtype.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "source/json_writer.h"
#include "source/sink.h"

namespace shardc {
namespace {

std::string Written(const Mesh& mesh, JsonStyle style, MeshDetail detail) {
  return TextOf([&](Sink& out) {
    JsonWriter json(out, style);
    WriteMesh(json, mesh, detail);
  });
}

TEST_CASE("a mesh is written with what differs from a plain one") {
  Mesh mesh;
  mesh.axes = {{"dp", 2}, {"tp", 4, AxisType::kManual}};
  mesh.devices = 8;
  constexpr auto kCompact = JsonStyle::kCompact;
  CHECK(Written(mesh, kCompact, MeshDetail::kAll) ==
        R"({"axes":[{"name":"dp","size":2,"type":"auto"},)"
        R"({"name":"tp","size":4,"type":"manual"}],"devices":8})");
  mesh.processes = 4;
  mesh.slices = 2;
  mesh.dcn = {2, 1};
  CHECK(Written(mesh, kCompact, MeshDetail::kAll) ==
        R"({"axes":[{"name":"dp","size":2,"type":"auto"},)"
        R"({"name":"tp","size":4,"type":"manual"}],"devices":8,)"
        R"("processes":4,"slices":2,"dcn":[2,1]})");
  CHECK(Written(mesh, kCompact, MeshDetail::kSizes) ==
        R"({"axes":[{"name":"dp","size":2},{"name":"tp","size":4}],)"
        R"("devices":8,"processes":4})");
  // Canonical JSON (RFC 8785) has sorted members.
  CHECK(Written(mesh, JsonStyle::kCanonical, MeshDetail::kAll) ==
        R"({"axes":[{"name":"dp","size":2,"type":"auto"},)"
        R"({"name":"tp","size":4,"type":"manual"}],"dcn":[2,1],"devices":8,)"
        R"("processes":4,"slices":2})");
}

TEST_CASE("a type is written with nulls for what is not known") {
  const auto text = [](const TensorType& type) {
    return JsonText([&](JsonWriter& json) {
      json.BeginObject();
      WriteTypeMembers(json, type);
      json.EndObject();
    });
  };
  CHECK(text({Shape{2, 3}, Dtype::kBF16}) ==
        R"({"shape": [2, 3], "dtype": "BF16"})");
  CHECK(text({}) == R"({"shape": null, "dtype": null})");
  CHECK(text({Shape{}, std::nullopt}) == R"({"shape": [], "dtype": null})");
}

// Compares the dtypes with numpy, extended by ml_dtypes: their bits and names.
TEST_CASE("dtypes have the bits and names that numpy and ml_dtypes give them") {
  struct Row {
    std::string_view name;
    int bits;
    std::vector<std::string_view> others;
  };
  const std::vector<Row> rows = {
      {"BOOL", 8, {"bool", "bool_", "?", "b1", "|b1"}},
      {"U8", 8, {"uint8", "u1", "|u1"}},
      {"I8", 8, {"int8", "i1", "|i1"}},
      {"I16", 16, {"int16", "i2", "<i2"}},
      {"U16", 16, {"uint16", "u2", "<u2"}},
      {"I32", 32, {"int32", "i4", "<i4", "=i4"}},
      {"U32", 32, {"uint32", "u4", "<u4"}},
      {"I64", 64, {"int64", "i8", "<i8"}},
      {"U64", 64, {"uint64", "u8", "<u8"}},
      {"F16", 16, {"float16", "half", "f2", "<f2"}},
      {"BF16", 16, {"bfloat16"}},
      {"F32", 32, {"float32", "single", "f4", "<f4"}},
      {"F64", 64, {"float64", "double", "f8", "<f8"}},
      {"C64", 64, {"complex64", "c8", "<c8"}},
      {"F8_E4M3", 8, {"float8_e4m3fn", "float8_e4m3", "F8_E4M3FN"}},
      {"F8_E5M2", 8, {"float8_e5m2"}},
      {"F8_E8M0", 8, {"float8_e8m0fnu", "float8_e8m0", "F8_E8M0FNU"}},
      {"F4", 4, {"float4_e2m1fn", "float4_e2m1", "F4_E2M1"}},
      {"F6_E2M3", 6, {"float6_e2m3fn", "float6_e2m3"}},
      {"F6_E3M2", 6, {"float6_e3m2fn", "float6_e3m2"}},
      {"I4", 4, {"int4"}},
      {"U4", 4, {"uint4"}},
      {"F8_E4M3FNUZ", 8, {"float8_e4m3fnuz"}},
      {"F8_E5M2FNUZ", 8, {"float8_e5m2fnuz"}},
  };
  REQUIRE(rows.size() == AllDtypes().size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    CAPTURE(row.name);
    const Dtype dtype = AllDtypes()[i];
    CHECK(DtypeName(dtype) == row.name);
    CHECK(DtypeBits(dtype) == row.bits);
    CHECK(BlockElements(dtype) == 1);
    CHECK(BytesOf(8, dtype) == row.bits);
    for (const std::string_view other : row.others) {
      CAPTURE(other);
      CHECK(ParseDtype(other) == dtype);
      CHECK(ParseStoredDtype(other) == dtype);
    }
  }
}

// Compares block types with the structs of ggml (its header of common types):
// the elements of a block, and sizeof of its struct.
TEST_CASE("blocks have the sizes of ggml's structs") {
  struct Row {
    std::string_view name;
    int64_t elements, bytes;
  };
  const std::vector<Row> rows = {
      {"Q4_0", 32, 18},     {"Q4_1", 32, 20},     {"Q5_0", 32, 22},
      {"Q5_1", 32, 24},     {"Q8_0", 32, 34},     {"Q8_1", 32, 36},
      {"Q2_K", 256, 84},    {"Q3_K", 256, 110},   {"Q4_K", 256, 144},
      {"Q5_K", 256, 176},   {"Q6_K", 256, 210},   {"Q8_K", 256, 292},
      {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74},  {"IQ3_XXS", 256, 98},
      {"IQ1_S", 256, 50},   {"IQ4_NL", 32, 18},   {"IQ3_S", 256, 110},
      {"IQ2_S", 256, 82},   {"IQ4_XS", 256, 136}, {"IQ1_M", 256, 56},
      {"TQ1_0", 256, 54},   {"TQ2_0", 256, 66},   {"MXFP4", 32, 17},
  };
  REQUIRE(rows.size() == BlockDtypes().size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    CAPTURE(row.name);
    const Dtype dtype = BlockDtypes()[i];
    CHECK(DtypeName(dtype) == row.name);
    CHECK(BlockElements(dtype) == row.elements);
    CHECK(BytesOf(0, dtype) == 0);
    CHECK(BytesOf(1, dtype) == row.bytes);
    CHECK(BytesOf(row.elements, dtype) == row.bytes);
    CHECK(BytesOf(row.elements + 1, dtype) == 2 * row.bytes);
  }
}

TEST_CASE("only the last dimension of a tensor is stored in blocks") {
  const TensorType type = {Shape{4, 512}, block::kQ4K};
  CHECK(BlockAlong(type, 0) == 1);
  CHECK(BlockAlong(type, 1) == 256);
  CHECK(BlockAlong(type, 2) == 1);
  CHECK(BlockAlong({Shape{4, 512}, Dtype::kF32}, 1) == 1);
  CHECK(BlockAlong({Shape{4, 512}, std::nullopt}, 1) == 1);
  CHECK(BlockAlong({std::nullopt, block::kQ4K}, 0) == 1);
}

std::string BundleText(const Bundle& bundle) {
  std::string out = bundle.name + ":";
  for (const SpecEntry& entry : bundle.axes.entries) {
    out += ' ';
    for (size_t i = 0; i < entry.names.size(); ++i) {
      out += (i > 0 ? "+" : "") + entry.names[i].text;
    }
    if (entry.names.empty()) out += '_';
  }
  if (const auto* dim = std::get_if<int>(&bundle.mode)) {
    return out + ", decode where dimension " + std::to_string(*dim) + " is 1";
  }
  return out + ", " + std::string(ModeName(std::get<Mode>(bundle.mode)));
}

// Compares the bundles with the classes of eformer's sharding.py, whose names
// are those of the bundles followed by "Sharding".
TEST_CASE("built-in bundles have the axes of the reference's classes") {
  const std::vector<std::string> expected = {
      "HiddenState: BATCH QUERY_LENGTH EMBED, decode where dimension 1 is 1",
      "AttnQ: BATCH QUERY_LENGTH HEAD HEAD_DIM, decode where dimension 1 is 1",
      "AttnKV: BATCH KV_LENGTH KV_HEAD KV_HEAD_DIM, decode where dimension 1 "
      "is 1",
      "RowWise: TP FSDP+SP, train",
      "SRowWise: TP, train",
      "ColumnWise: FSDP+SP TP, train",
      "SColumnWise: FSDP+SP, train",
      "Replicated: _, train",
      "ExpertColumnWise: EP FSDP TP, train",
      "ExpertRowWise: EP TP FSDP, train",
      "ExpertColumnWiseAlt: EP FSDP+SP TP, train",
      "ExpertRowWiseAlt: EP TP FSDP+SP, train",
      "UnifiedExpertColumnWise: FSDP+SP+EP _ TP, train",
      "UnifiedExpertRowWise: FSDP+SP+EP TP _, train",
      "ExpertActivations: DP SP EP TP, train",
      "ExpertActivationsAlt: DP SP TP+FSDP, train",
      "ExpertTensorParallel: TP _ _, train",
  };
  std::vector<std::string> found;
  for (const Bundle& bundle : BuiltinBundles()) {
    found.push_back(BundleText(bundle));
  }
  CHECK(found == expected);
}

TEST_CASE("layouts have two names") {
  for (const Layout layout : kAllLayouts) {
    CHECK(ParseLayout(LayoutName(layout)) == layout);
  }
  CHECK_FALSE(ParseLayout(""));
  CHECK_FALSE(ParseLayout("BTHD"));
}

}  // namespace
}  // namespace shardc
