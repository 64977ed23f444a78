// Numbers the distinct types of many tensors in the order of first use. A model
// has few distinct types, so most lookups find a known type and allocate no
// memory.
#ifndef SHARDC_MODEL_TYPE_NUMBERS_H_
#define SHARDC_MODEL_TYPE_NUMBERS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/manifest.h"
#include "source/plain_json.h"

namespace shardc {

// A tensor's type while it is parsed. It is stored without an allocation, so it
// has at most kMostDimensions dimensions.
struct FlatType {
  static constexpr size_t kMostDimensions = 8;

  std::array<int64_t, kMostDimensions> shape{};
  uint8_t rank = 0;
  bool has_shape = false;
  std::optional<Dtype> dtype;

  bool operator==(const FlatType&) const = default;
  size_t Hash() const;
  TensorType Type() const;
  // Parses a shape such as `[8, 4]`. Returns false for any other text and for
  // more than kMostDimensions dimensions.
  bool TakeShape(PlainJson& json) {
    has_shape = true;
    if (!json.Take('[')) return false;
    if (json.Take(']')) return true;
    do {
      if (rank == kMostDimensions || !json.Number(shape[rank++])) return false;
    } while (json.Take(','));
    return json.Take(']');
  }
};

class TypeNumbers {
 public:
  TypeNumbers() : slots_(kLeastSlots, kFree) {}

  // Returns the type's number, or nullopt if its number of elements or of bytes
  // overflows.
  std::optional<uint32_t> Of(const FlatType& type) {
    if (!types_.empty() && types_[last_] == type) return last_;
    return Search(type);
  }
  size_t size() const { return types_.size(); }
  std::vector<TensorType> Take() const;

 private:
  static constexpr size_t kLeastSlots = 256;
  static constexpr uint32_t kFree = UINT32_MAX;

  std::optional<uint32_t> Search(const FlatType& type);
  void Grow();

  std::vector<FlatType> types_;
  std::vector<uint32_t> slots_;
  uint32_t last_ = 0;
};

}  // namespace shardc

#endif  // SHARDC_MODEL_TYPE_NUMBERS_H_
