// Tests how the metadata of several ranks becomes that of one checkpoint.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "stored/dcp.h"

namespace shardc::stored {
namespace {

constexpr int64_t kPieceBytes = 8;

DcpPiece PieceAt(int64_t row, int64_t offset, uint32_t file = 0) {
  return {{{row, 0}, {2, 2}}, file, offset, kPieceBytes};
}

DcpTensor TensorOf(std::string name, std::vector<DcpPiece> pieces,
                   Shape shape = {4, 2}) {
  static const TorchDtype kType{};
  DcpTensor out;
  out.name = std::move(name);
  out.shape = std::move(shape);
  out.dtype = &kType;
  out.pieces = std::move(pieces);
  return out;
}

DcpValue ValueOf(std::string name, int64_t offset) {
  DcpValue out;
  out.name = std::move(name);
  out.piece.offset = offset;
  return out;
}

Place Anywhere() { return {MakeSource("__1.metadata", {})}; }

// Lists `name: row@offset in file` of each piece, and `name@offset in file` of
// each value.
std::string Text(const DcpMetadata& of) {
  std::string out;
  const auto add_place = [&](const DcpPiece& piece) {
    out += "@" + std::to_string(piece.offset) + " in " + of.files[piece.file];
  };
  for (const DcpTensor& tensor : of.tensors) {
    out += tensor.name + ":";
    for (const DcpPiece& piece : tensor.pieces) {
      out += " " + std::to_string(piece.box.offset[0]);
      add_place(piece);
    }
    out += "\n";
  }
  for (const DcpValue& value : of.others) {
    out += value.name;
    add_place(value.piece);
    out += "\n";
  }
  return out;
}

TEST_CASE("dcp merge: pieces and values that two ranks hold are there once") {
  DcpMetadata into{{TensorOf("w", {PieceAt(0, 10), PieceAt(2, 20)})},
                   {ValueOf("epoch", 1), ValueOf("step", 2)},
                   {"__0_0.distcp"}};
  DcpMetadata more{
      {TensorOf("w", {PieceAt(2, 30)}), TensorOf("v", {PieceAt(0, 40)})},
      {ValueOf("step", 3), ValueOf("lr", 4), ValueOf("lr", 5)},
      {"__1_0.distcp"}};
  Findings findings;
  REQUIRE(MergeDcpMetadata(std::move(more), Anywhere(), into, findings));
  CHECK(findings.empty());
  CHECK(Text(into) ==
        "w: 0@10 in __0_0.distcp 2@20 in __0_0.distcp\n"
        "v: 0@40 in __1_0.distcp\n"
        "epoch@1 in __0_0.distcp\n"
        "lr@4 in __1_0.distcp\n"
        "step@2 in __0_0.distcp\n");
}

TEST_CASE("dcp merge: pieces of a third rank refer to its own files") {
  DcpMetadata into{{TensorOf("w", {PieceAt(2, 1, 1)})}, {}, {"a", "b"}};
  Findings findings;
  REQUIRE(MergeDcpMetadata({{TensorOf("w", {PieceAt(0, 2)})}, {}, {"c"}},
                           Anywhere(), into, findings));
  REQUIRE(MergeDcpMetadata(
      {{TensorOf("w", {PieceAt(1, 3, 1)})}, {ValueOf("x", 4)}, {"d", "e"}},
      Anywhere(), into, findings));
  CHECK(Text(into) == "w: 0@2 in c 1@3 in e 2@1 in b\nx@4 in d\n");
}

TEST_CASE("dcp merge: a tensor of another shape or data type is refused") {
  DcpTensor other_shape = TensorOf("w", {PieceAt(0, 0)}, {4, 3});
  DcpTensor other_type = TensorOf("w", {PieceAt(0, 0)});
  static const TorchDtype kOther{};
  other_type.dtype = &kOther;
  for (const DcpTensor& tensor : {other_shape, other_type}) {
    DcpMetadata into{{TensorOf("w", {PieceAt(0, 10)})}, {}, {"a"}};
    Findings findings;
    CHECK_FALSE(
        MergeDcpMetadata({{tensor}, {}, {"b"}}, Anywhere(), into, findings));
    REQUIRE(findings.all().size() == 1);
    CHECK(findings.all()[0].code == &code::kSize);
    CHECK(findings.all()[0].message.starts_with("tensor `w` has shape "));
    CHECK(findings.all()[0].message.ends_with(
        "[4, 2] or another data type in the metadata of a rank before it"));
  }
}

}  // namespace
}  // namespace shardc::stored
