// A model has few distinct types for many names, so a type is kept once and
// a tensor has its number:
//
//   q [8, 8] F32, k [8, 8] F32, b [8] F32  ->  2 types, 0 0 1
#include "model/manifest.h"

#include <utility>

#include "source/checked.h"
#include "source/json_writer.h"

namespace shardc {

std::string ShapeText(const Shape& shape) {
  return JsonText([&](JsonWriter& json) { json.Value(shape); });
}

std::optional<int64_t> TensorType::Elements() const {
  if (!shape) return std::nullopt;
  return CheckedProduct(*shape);
}

std::optional<int64_t> TensorType::Bytes() const {
  auto elements = Elements();
  if (!elements || !dtype) return std::nullopt;
  return BytesOf(*elements, *dtype);
}

void WriteTypeMembers(JsonWriter& json, const TensorType& type) {
  json.Member("shape", type.shape);
  json.Key("dtype");
  if (type.dtype) {
    json.String(DtypeName(*type.dtype));
  } else {
    json.Null();
  }
}

void ManifestBuilder::Add(std::string name, TensorType type) {
  auto [it, added] = ids_.try_emplace(
      std::move(type), static_cast<uint32_t>(manifest_.types.size()));
  if (added) manifest_.types.push_back(it->first);
  manifest_.tensors.push_back({std::move(name), it->second});
}

Manifest ManifestBuilder::Take() {
  ids_.clear();
  return std::exchange(manifest_, Manifest{});
}

}  // namespace shardc
