// Builds manifests. A model has many tensors but few distinct types (shape and
// dtype). Each type is therefore stored once, and a tensor stores the type's
// index:
//
//   q [8, 8] F32, k [8, 8] F32, b [8] F32  ->  2 types, with indices 0 0 1
#include "model/manifest.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "source/checked.h"
#include "source/json_writer.h"

namespace shardc {

namespace {

bool IsPartOf(std::string_view text, const SourceRef& source) {
  if (source == nullptr) return false;
  const std::string_view whole = source->text();
  const std::less_equal<const char*> ordered;
  return ordered(whole.data(), text.data()) &&
         ordered(text.data() + text.size(), whole.data() + whole.size());
}

}  // namespace

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

std::string_view TextStore::Keep(std::string_view text) {
  if (text.size() > left_) {
    left_ = std::max(text.size(), size_t{1} << 16);
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(left_));
    next_ = chunks_.back().get();
  }
  std::copy(text.begin(), text.end(), next_);
  const std::string_view kept(next_, text.size());
  next_ += text.size();
  left_ -= text.size();
  return kept;
}

void ManifestBuilder::Add(std::string_view name, TensorType type) {
  if (!IsPartOf(name, manifest_.source)) {
    if (manifest_.texts == nullptr) {
      manifest_.texts = std::make_shared<TextStore>();
    }
    name = manifest_.texts->Keep(name);
  }
  // The type is first compared with the previous tensor's type, because
  // neighbours often have the same type.
  if (!manifest_.tensors.empty()) {
    const uint32_t last = manifest_.tensors.back().type;
    if (manifest_.types[last] == type) {
      manifest_.tensors.push_back({name, last});
      return;
    }
  }
  auto [it, added] = ids_.try_emplace(
      std::move(type), static_cast<uint32_t>(manifest_.types.size()));
  if (added) manifest_.types.push_back(it->first);
  manifest_.tensors.push_back({name, it->second});
}

Manifest ManifestBuilder::Take() {
  ids_.clear();
  return std::exchange(manifest_, Manifest{});
}

}  // namespace shardc
