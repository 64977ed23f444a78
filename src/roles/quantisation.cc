#include "roles/quantisation.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "source/json.h"

namespace shardc {
namespace {

// Returns the first of the two sizes of a block such as [128, 128].
int64_t RowsOf(JsonValue of, std::string_view key) {
  const auto block = of.Find(key);
  if (!block || !block->IsArray() || block->size() != 2) return 1;
  const JsonValue first = *block->items().begin();
  return first.kind() == JsonKind::kInteger
             ? std::max<int64_t>(1, first.integer())
             : 1;
}

}  // namespace

bool MayPack(Dtype dtype) {
  constexpr std::array<Dtype, 7> kPacking = {
      Dtype::kU8,  Dtype::kI16, Dtype::kU16, Dtype::kI32,
      Dtype::kU32, Dtype::kI64, Dtype::kU64};
  return std::find(kPacking.begin(), kPacking.end(), dtype) != kPacking.end();
}

int64_t BlockOf(int64_t size, int64_t scales) {
  if (scales <= 0 || scales >= size) return 1;
  for (int64_t block = 2; block <= size; block *= 2) {
    if ((size + block - 1) / block == scales) return block;
    if (block > size / 2) break;
  }
  // No power of two fits. The block may be another size, such as 100 elements,
  // or all elements may share one scale.
  return size % scales == 0 ? size / scales : 1;
}

int64_t QuantisedRows(const ModelConfig& model) {
  if (model.source == nullptr) return 1;
  Findings reported;  // the errors of a document that was already read
  const auto document = JsonDocument::Parse(model.source, reported);
  if (!document || !document->root().IsObject()) return 1;
  const auto config = document->root().Find("quantization_config");
  if (!config || !config->IsObject()) return 1;
  const auto groups = config->Find("config_groups");
  if (!groups || !groups->IsObject()) {
    return RowsOf(*config, "weight_block_size");
  }
  std::set<int64_t> rows;
  for (const JsonMember group : groups->members()) {
    const auto weights =
        group.value.IsObject() ? group.value.Find("weights") : std::nullopt;
    if (weights && weights->IsObject()) {
      rows.insert(RowsOf(*weights, "block_structure"));
    }
  }
  return rows.size() == 1 ? *rows.begin() : 1;
}

}  // namespace shardc
