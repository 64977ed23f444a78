#include "model/type_numbers.h"

namespace shardc {
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

}  // namespace shardc
