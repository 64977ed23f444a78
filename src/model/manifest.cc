// Builds manifests. A model has many tensors but few distinct types (shape and
// dtype). Each type is therefore stored once, and a tensor stores the type's
// index:
//
//   q [8, 8] F32, k [8, 8] F32, b [8] F32  ->  2 types, with indices 0 0 1
#include "model/manifest.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "source/json_writer.h"
#include "source/size.h"

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
  json.Members(
      "shape", type.shape, "dtype",
      type.dtype ? std::optional(DtypeName(*type.dtype)) : std::nullopt);
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

namespace {

bool Fits(const TensorType& type) {
  if (!type.shape) return true;
  return type.Elements() && (!type.dtype || type.Bytes());
}

}  // namespace

size_t FlatType::Hash() const {
  uint64_t hash = dtype ? static_cast<uint64_t>(*dtype) + 1 : 0;
  hash = hash * 16 + rank;
  for (size_t i = 0; i < rank; ++i) {
    hash = (hash ^ static_cast<uint64_t>(shape[i])) * 0x9E3779B97F4A7C15u;
  }
  return static_cast<size_t>(hash ^ hash >> 32);
}

TensorType FlatType::Type() const {
  TensorType type{{}, dtype};
  if (has_shape) type.shape.emplace(shape.begin(), shape.begin() + rank);
  return type;
}

std::optional<uint32_t> TypeNumbers::Search(const FlatType& type) {
  size_t at = type.Hash() & (slots_.size() - 1);
  for (; slots_[at] != kFree; at = (at + 1) & (slots_.size() - 1)) {
    if (types_[slots_[at]] == type) return last_ = slots_[at];
  }
  if (!Fits(type.Type())) return std::nullopt;
  last_ = static_cast<uint32_t>(types_.size());
  slots_[at] = last_;
  types_.push_back(type);
  if (types_.size() * 2 > slots_.size()) Grow();
  return last_;
}

std::vector<TensorType> TypeNumbers::Take() const {
  std::vector<TensorType> out;
  out.reserve(types_.size());
  for (const FlatType& type : types_) out.push_back(type.Type());
  return out;
}

void TypeNumbers::Grow() {
  slots_.assign(slots_.size() * 4, kFree);
  for (uint32_t i = 0; i < types_.size(); ++i) {
    size_t at = types_[i].Hash() & (slots_.size() - 1);
    while (slots_[at] != kFree) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = i;
  }
}

// Writes the header of a safetensors file: eight bytes with the length of the
// rest, JSON text, and spaces up to the alignment of the data. The length
// includes the spaces. The offsets of tensors in the JSON follow from the
// tensors' sizes. For example, with 61 bytes of JSON and an alignment of 8:
//
//   8 + 61 = 69, so 3 spaces follow, and the length is 61 + 3 = 64

namespace {

void WriteHeader(
    const std::vector<HeaderEntry>& entries,
    const std::vector<std::pair<std::string, std::string>>& metadata,
    Sink& out) {
  JsonWriter json(out, JsonStyle::kCompact);
  json.BeginObject();
  if (!metadata.empty()) {
    json.Key("__metadata__");
    json.BeginObject();
    for (const auto& [key, value] : metadata) json.Member(key, value);
    json.EndObject();
  }
  int64_t offset = 0;
  for (const HeaderEntry& entry : entries) {
    json.Member(entry.name,
                Record("dtype", DtypeName(entry.dtype), "shape", entry.shape,
                       "data_offsets", Shape{offset, offset + entry.bytes}));
    offset += entry.bytes;
  }
  json.EndObject();
}

}  // namespace

std::string SafetensorsHeaderText(
    const std::vector<HeaderEntry>& entries,
    const std::vector<std::pair<std::string, std::string>>& metadata,
    size_t alignment) {
  std::string out(8, '\0');
  StringSink sink(out);
  WriteHeader(entries, metadata, sink);
  sink.Flush();
  out.append((alignment - out.size() % alignment) % alignment, ' ');
  const uint64_t size = out.size() - 8;
  for (size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<char>(size >> (8 * i) & 0xFF);
  }
  return out;
}

}  // namespace shardc
