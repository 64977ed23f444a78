#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"

namespace shardc {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST_CASE("every dtype reads its own name") {
  std::set<std::string_view> names;
  for (Dtype dtype : AllDtypes()) {
    CHECK(ParseDtype(DtypeName(dtype)) == dtype);
    CHECK(names.insert(DtypeName(dtype)).second);
    CHECK(DtypeBits(dtype) >= 4);
  }
  CHECK(names.size() == 24);
}

TEST_CASE("types of blocks are found by ggml's names alone") {
  std::set<std::string_view> names;
  for (Dtype dtype : BlockDtypes()) {
    CHECK(ParseStoredDtype(DtypeName(dtype)) == dtype);
    CHECK_FALSE(ParseDtype(DtypeName(dtype)));
    CHECK(names.insert(DtypeName(dtype)).second);
    CHECK(256 % BlockElements(dtype) == 0);
    // DtypeBits rounds the average size of an element up to a whole number of
    // bits.
    const int64_t bits = *BytesOf(256, dtype) * 8;
    CHECK(DtypeBits(dtype) == (bits + 255) / 256);
  }
  CHECK(names.size() == 24);
  CHECK(ParseStoredDtype("BF16") == Dtype::kBF16);
  CHECK(BlockElements(Dtype::kI4) == 1);
  CHECK(BytesOf(64, block::kQ4_0) == 36);
  CHECK(BytesOf(512, block::kQ4K) == 288);
  CHECK(BytesOf(257, block::kQ6K) == 420);
  CHECK_FALSE(BytesOf(INT64_MAX, block::kQ8K));
}

TEST_CASE("numpy spellings") {
  struct {
    std::string_view text;
    Dtype dtype;
  } const cases[] = {
      {"bfloat16", Dtype::kBF16},
      {"<f4", Dtype::kF32},
      {"float32", Dtype::kF32},
      {"f8", Dtype::kF64},
      {"|u1", Dtype::kU8},
      {"|b1", Dtype::kBool},
      {"bool", Dtype::kBool},
      {"<c8", Dtype::kC64},
      {"float8_e4m3fn", Dtype::kF8E4M3},
      {"int4", Dtype::kI4},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    CHECK(ParseDtype(c.text) == c.dtype);
  }
  for (std::string_view bad :
       {"", "<", "f3", "Float32", ">f4", "<float32", "complex128", "object"}) {
    CAPTURE(bad);
    CHECK_FALSE(ParseDtype(bad));
  }
}

TEST_CASE("bytes round up and do not overflow") {
  CHECK(BytesOf(0, Dtype::kF32) == 0);
  CHECK(BytesOf(3, Dtype::kBF16) == 6);
  CHECK(BytesOf(3, Dtype::kI4) == 2);
  CHECK(BytesOf(1, Dtype::kF6E2M3) == 1);
  CHECK(BytesOf(4, Dtype::kF6E2M3) == 3);
  CHECK(BytesOf(9, Dtype::kF6E3M2) == 7);
  CHECK(BytesOf(kMax, Dtype::kU8) == kMax);
  CHECK(BytesOf(kMax, Dtype::kI4) == kMax / 2 + 1);
  CHECK_FALSE(BytesOf(kMax, Dtype::kBF16));
  CHECK_FALSE(BytesOf(kMax / 8 + 1, Dtype::kF64));
}

TEST_CASE("specs as text") {
  CHECK(SpecText({}) == "[]");
  CHECK(SpecText({{"fsdp", "sp"}, {"tp"}, {}}) ==
        R"([["fsdp", "sp"], "tp", null])");
  CHECK(GroupText({}) == "null");
  CHECK(IsReplicated({}));
  CHECK(IsReplicated({{}, {}}));
  CHECK_FALSE(IsReplicated({{}, {"tp"}}));
}

TEST_CASE("mesh sizes and parts") {
  Mesh mesh;
  mesh.axes = {{"dp", 2}, {"tp", 4, AxisType::kManual}, {"x", kMax / 2}};
  CHECK(MeshText(mesh) == "dp=2 tp=4 x=" + std::to_string(kMax / 2));
  CHECK(mesh.Find("tp") == 1);
  CHECK_FALSE(mesh.Find("sp"));
  CHECK(mesh.SizeOf("sp") == 1);
  CHECK(mesh.Parts({"dp", "tp", "sp"}) == 8);
  CHECK(mesh.Parts({}) == 1);
  CHECK(mesh.Parts({"dp", "x"}) == kMax - 1);
  CHECK_FALSE(mesh.Parts({"tp", "x"}));
  CHECK(AxisTypeName(AxisType::kAuto) == "auto");
  CHECK(AxisTypeName(AxisType::kExplicit) == "explicit");
  CHECK(AxisTypeName(AxisType::kManual) == "manual");
}

TEST_CASE("a manifest keeps each type once") {
  ManifestBuilder builder;
  builder.Add("a", {Shape{2, 3}, Dtype::kF32});
  builder.Add("b", {Shape{2, 3}, Dtype::kBF16});
  builder.Add("c", {Shape{2, 3}, Dtype::kF32});
  builder.Add("d", {std::nullopt, Dtype::kF32});
  const Manifest manifest = builder.Take();
  REQUIRE(manifest.tensors.size() == 4);
  CHECK(manifest.types.size() == 3);
  CHECK(manifest.tensors[0].type == manifest.tensors[2].type);
  CHECK(manifest.TypeOf(manifest.tensors[1]).Bytes() == 12);
  CHECK(manifest.TypeOf(manifest.tensors[2]).Elements() == 6);
  CHECK_FALSE(manifest.TypeOf(manifest.tensors[3]).Bytes());
  CHECK(builder.manifest().tensors.empty());
  builder.Add("e", {Shape{2, 3}, Dtype::kF32});
  CHECK(builder.Take().tensors[0].type == 0);
  CHECK(ShapeText({4096, 11008}) == "[4096, 11008]");
  CHECK(ShapeText({}) == "[]");
}

TEST_CASE("sizes that do not fit are nothing") {
  const TensorType type{Shape{kMax, 2}, Dtype::kU8};
  CHECK_FALSE(type.Elements());
  CHECK_FALSE(type.Bytes());
  const TensorType scalar{Shape{}, Dtype::kF64};
  CHECK(scalar.Elements() == 1);
  CHECK(scalar.Bytes() == 8);
}

TEST_CASE("built-in bundles name tokens only") {
  CHECK(BuiltinBundles().size() == 17);
  std::set<std::string> names;
  for (const Bundle& bundle : BuiltinBundles()) {
    CAPTURE(bundle.name);
    CHECK(names.insert(bundle.name).second);
    CHECK_FALSE(bundle.axes.entries.empty());
    for (const SpecEntry& entry : bundle.axes.entries) {
      CHECK(entry.is_group == (entry.names.size() > 1));
      for (const SpecName& name : entry.names) {
        const Token* token = FindToken(name.text);
        REQUIRE(token != nullptr);
        CHECK(token->rule.has_value());
      }
    }
  }
  CHECK(std::get<int>(BuiltinBundles()[0].mode) == 1);
  CHECK(std::get<Mode>(BuiltinBundles()[7].mode) == Mode::kTrain);
  CHECK(BuiltinBundles()[7].axes.entries.size() == 1);
  CHECK(BuiltinBundles()[7].axes.entries[0].names.empty());
}

TEST_CASE("a built-in bundle is found by its name, with the suffix too") {
  const std::span<const Bundle> bundles = BuiltinBundles();
  for (size_t i = 0; i < bundles.size(); ++i) {
    for (const std::string suffix : {"", "Sharding"}) {
      const std::string name = bundles[i].name + suffix;
      CAPTURE(name);
      const Bundle* found = FindBuiltinBundle(name);
      REQUIRE(found != nullptr);
      CHECK(static_cast<size_t>(found - bundles.data()) == i);
    }
  }
  CHECK(FindBuiltinBundle("") == nullptr);
  CHECK(FindBuiltinBundle("Sharding") == nullptr);
  CHECK(FindBuiltinBundle("columnwise") == nullptr);
}

TEST_CASE("dimensions behind the end of a spec have no axes") {
  const Spec spec = {{"tp"}, {}};
  CHECK(AxesAt(spec, 0) == AxisGroup{"tp"});
  CHECK(AxesAt(spec, 1).empty());
  CHECK(AxesAt(spec, 2).empty());
  CHECK(AxesAt({}, 0).empty());
}

TEST_CASE("many types keep their numbers") {
  TypeNumbers numbers;
  const auto type_of = [](int64_t i) {
    FlatType type;
    type.has_shape = i % 7 != 0;
    type.rank = static_cast<uint8_t>(type.has_shape ? 1 + i % 8 : 0);
    type.dtype = i % 2 == 0 ? Dtype::kF32 : Dtype::kBF16;
    if (type.has_shape) type.shape[0] = i;
    for (size_t d = 1; d < type.rank; ++d) type.shape[d] = 1;
    return type;
  };
  std::vector<uint32_t> known;
  for (int64_t i = 1; i <= 3000; ++i) {
    const auto number = numbers.Of(type_of(i));
    REQUIRE(number);
    known.push_back(*number);
    REQUIRE(*number < numbers.size());
  }
  const std::vector<TensorType> types = numbers.Take();
  CHECK(types.size() == numbers.size());
  for (int64_t i = 1; i <= 3000; ++i) {
    const uint32_t number = known[static_cast<size_t>(i - 1)];
    REQUIRE(numbers.Of(type_of(i)) == number);
    REQUIRE(types[number] == type_of(i).Type());
  }
  FlatType huge = type_of(1);
  huge.rank = 2;
  huge.shape = {kMax, kMax};
  CHECK_FALSE(numbers.Of(huge));
}

TEST_CASE("policy names") {
  CHECK(IllegalPolicyName(IllegalPolicy::kError) == "error");
  CHECK(IllegalPolicyName(IllegalPolicy::kDrop) == "drop");
  CHECK(IllegalPolicyName(IllegalPolicy::kShrink) == "shrink");
  CHECK(IllegalPolicyName(IllegalPolicy::kPad) == "pad");
  CHECK(UnmatchedPolicyName(UnmatchedPolicy::kError) == "error");
  CHECK(UnmatchedPolicyName(UnmatchedPolicy::kReplicate) == "replicate");
  CHECK(CompatName(Compat::kNone) == "none");
  CHECK(CompatName(Compat::kEformer) == "eformer");
  CHECK(CompatName(Compat::kFjformer) == "fjformer");
}

}  // namespace
}  // namespace shardc
