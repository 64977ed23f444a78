// Finds which parameters cannot be sharded by a runtime that runs the code of a
// model on each device's part, because a line of it gives a size as a number.
// For example, with heads 8 x head_dim 64 as the factors of a projection:
//
//   view(batch, length, 8, 64)    fixes both factors: an axis that shards the
//                                 heads leaves a device with 4 of them
//   split([32, 32], dim=-1)       fixes the size of a head, which an axis of
//                                 8 devices or fewer does not shard
#include "program/fixed_sizes.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "program/ties.h"
#include "source/size.h"

namespace shardc::program {
namespace {

bool Refuse(const JsonValue& at, const std::string& message,
            Findings& findings) {
  findings.Add(code::kSchema, at.place(), message);
  return false;
}

// Reads a number from 0 to before `end`.
bool ReadIndex(const std::optional<JsonValue>& value, const JsonValue& item,
               std::string_view key, int64_t end, int64_t& out,
               Findings& findings) {
  if (value && value->kind() == JsonKind::kInteger && value->integer() >= 0 &&
      value->integer() < end) {
    out = value->integer();
    return true;
  }
  return Refuse(value.value_or(item),
                "`" + std::string(key) + "` of `literals` must be a number " +
                    "from 0 to " + std::to_string(end - 1),
                findings);
}

bool ReadOne(const JsonValue& item, const Program& program, FixedSizes& out,
             Findings& findings) {
  if (!item.IsObject()) {
    return Refuse(item, "an entry of `literals` must be an object", findings);
  }
  int64_t number = 0;
  if (!ReadIndex(item.Find("value"), item, "value", std::ssize(program.values),
                 number, findings)) {
    return false;
  }
  out.value = static_cast<ValueId>(number);
  const auto dims = item.Find("dims");
  if (!dims || !dims->IsArray()) {
    return Refuse(dims.value_or(item),
                  "`dims` of `literals` must be a list of dimensions",
                  findings);
  }
  for (const JsonValue dim : dims->items()) {
    if (!ReadIndex(dim, item, "dims", std::ssize(program.ShapeOf(out.value)),
                   number, findings)) {
      return false;
    }
    out.dims.push_back(number);
  }
  const auto at = item.Find("at");
  if (!at) return true;
  if (!at->IsArray() || at->size() != 2) {
    return Refuse(*at, "`at` must be the index of a file and a line", findings);
  }
  int64_t line = 0;
  constexpr int64_t kMostLine = int64_t{1} << 30;
  auto part = at->items().begin();
  if (!ReadIndex(*part, item, "at", std::ssize(program.files), number,
                 findings)) {
    return false;
  }
  ++part;
  if (!ReadIndex(*part, item, "at", kMostLine, line, findings)) return false;
  out.at = {static_cast<int32_t>(number), static_cast<int32_t>(line)};
  return true;
}

// Adds the factors of a dimension, and those of its parts. With `parts`, adds
// only the leading ones, which an axis of this size shards.
void AddFactors(const FactorTable& table, const Factors& dim, int64_t parts,
                std::set<FactorId>& out, int depth = 0) {
  int64_t size = 1;
  for (const FactorId factor : table.Resolve(dim)) {
    out.insert(factor);
    if (depth < kPartDepth) {
      for (const Factors& part : table.PartsOf(factor)) {
        AddFactors(table, part, parts, out, depth + 1);
      }
    }
    size *= table.SizeOf(factor);
    if (parts > 0 && size % parts == 0) break;
  }
}

}  // namespace

std::optional<std::vector<FixedSizes>> ReadFixedSizes(
    const JsonDocument& document, const Program& program, Findings& findings) {
  std::vector<FixedSizes> out;
  const JsonValue root = document.root();
  const auto list = root.IsObject() ? root.Find("literals") : std::nullopt;
  if (!list) return out;
  if (!list->IsArray()) {
    Refuse(*list, "`literals` must be a list", findings);
    return std::nullopt;
  }
  for (const JsonValue item : list->items()) {
    if (!ReadOne(item, program, out.emplace_back(), findings)) {
      return std::nullopt;
    }
  }
  return out;
}

std::map<std::string, std::vector<std::string>, std::less<>> FixedBy(
    const Program& program, const std::vector<FixedSizes>& sizes,
    int64_t parts) {
  std::map<std::string, std::vector<std::string>, std::less<>> out;
  if (sizes.empty()) return out;
  const Ties ties = TieDimensions(program);
  // The first line that fixes the size of each factor.
  std::map<FactorId, Line> lines;
  for (const FixedSizes& one : sizes) {
    for (const int64_t dim : one.dims) {
      std::set<FactorId> factors;
      AddFactors(ties.table, ties.dims[one.value][AsIndex(dim)], 0, factors);
      for (const FactorId factor : factors) lines.emplace(factor, one.at);
    }
  }
  for (const Input& input : program.inputs) {
    if (input.kind != InputKind::kParam) continue;
    std::vector<std::string> of_dims;
    for (const Factors& dim : ties.dims[input.value]) {
      std::set<FactorId> sharded;
      AddFactors(ties.table, dim, parts, sharded);
      std::string& line = of_dims.emplace_back();
      for (const FactorId factor : sharded) {
        const auto fixed = lines.find(factor);
        if (fixed == lines.end()) continue;
        line = program.LineText(fixed->second);
        if (line.empty()) line = "a line that is not known";
        break;
      }
    }
    if (std::ranges::any_of(
            of_dims, [](const std::string& line) { return !line.empty(); })) {
      out.emplace(input.name, std::move(of_dims));
    }
  }
  return out;
}

}  // namespace shardc::program
