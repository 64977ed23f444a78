// Makes meshes as the reference systems do. NumPy's reshape finds the one
// unknown size by dividing the number of elements by the product of the other
// sizes; Python's int() reads the numbers of a text.
//
// Example: (2, -1, 1) on 8 devices is (2, 4, 1); on 7 devices it cannot be
// reshaped, and (-1, -1) is an error.
#include "reference/mesh.h"

#include <algorithm>
#include <limits>
#include <set>

#include "model/mesh_layout.h"
#include "source/size.h"

namespace shardc::reference {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

Error CannotReshape(int64_t total) {
  return {"ValueError", "cannot_reshape",
          "cannot reshape array of size " + std::to_string(total)};
}

std::string_view Strip(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\r\f\v";
  while (!text.empty() && kBlank.find(text.front()) != kBlank.npos) {
    text.remove_prefix(1);
  }
  while (!text.empty() && kBlank.find(text.back()) != kBlank.npos) {
    text.remove_suffix(1);
  }
  return text;
}

// Reads a number as Python's int() does: white space around it, a sign, single
// underscores between digits. A number that does not fit in 64 bits saturates;
// no mesh has so many devices.
Result<int64_t> PythonInt(std::string_view text) {
  const Error error{
      "ValueError", "invalid_integer",
      "invalid literal for int() with base 10: '" + std::string(text) + "'"};
  std::string_view digits = Strip(text);
  bool negative = false;
  if (!digits.empty() && (digits[0] == '+' || digits[0] == '-')) {
    negative = digits[0] == '-';
    digits.remove_prefix(1);
  }
  int64_t value = 0;
  bool after_digit = false;
  for (char c : digits) {
    if (c == '_' && after_digit) {
      after_digit = false;
      continue;
    }
    if (c < '0' || c > '9') return error;
    after_digit = true;
    auto next = CheckedMul(value, 10);
    if (next) next = CheckedAdd(*next, c - '0');
    value = next.value_or(kMax);
  }
  if (!after_digit) return error;  // nothing, or a trailing underscore
  return negative ? -value : value;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (;;) {
    const size_t at = text.find(separator);
    out.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

Result<MeshShape> Shaped(int64_t devices, const std::vector<int64_t>& sizes,
                         const std::vector<std::string>& names) {
  auto shape = Reshape(sizes, devices);
  if (const auto* error = Failure(shape)) return *error;
  if (sizes.size() != names.size()) {
    return Error{"ValueError", "axis_name_count_mismatch",
                 "Mesh requires the ndim of its first argument (`devices`) to"
                 " equal the length of its second argument (`axis_names`)"};
  }
  return MeshShape{names, std::get<std::vector<int64_t>>(std::move(shape))};
}

// Adds one entry `name:size` to `out`. Returns the error if it is malformed.
std::optional<Error> ReadEntry(const std::string& entry,
                               const std::vector<std::string>& names,
                               MeshShape& out) {
  const auto parts = Split(entry, ':');
  if (parts.size() != 2) {
    return Error{"ValueError", "malformed_entry",
                 parts.size() < 2
                     ? "not enough values to unpack (expected 2, got 1)"
                     : "too many values to unpack (expected 2)"};
  }
  if (std::find(names.begin(), names.end(), parts[0]) == names.end()) {
    return Error{"ValueError", "unknown_axis_name",
                 "Axis name '" + parts[0] + "' not found in provided names"};
  }
  auto size = PythonInt(parts[1]);
  if (const auto* error = Failure(size)) return *error;
  out.names.push_back(parts[0]);
  out.sizes.push_back(std::get<int64_t>(size));
  return std::nullopt;
}

}  // namespace

Result<std::vector<int64_t>> Reshape(std::span<const int64_t> sizes,
                                     int64_t total) {
  std::vector<int64_t> out(sizes.begin(), sizes.end());
  std::optional<size_t> unknown;
  std::optional<int64_t> known = 1;
  bool zero = false;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] < 0) {
      if (unknown) {
        return Error{"ValueError", "multiple_unknown_dims",
                     "can only specify one unknown dimension"};
      }
      unknown = i;
    } else {
      zero = zero || out[i] == 0;
      if (known) known = CheckedMul(*known, out[i]);
    }
  }
  if (zero) known = 0;
  if (!known) return CannotReshape(total);
  if (!unknown) {
    if (*known != total) return CannotReshape(total);
    return out;
  }
  if (*known == 0 || total % *known != 0) return CannotReshape(total);
  out[*unknown] = total / *known;
  return out;
}

std::vector<int64_t> MeshCache::DefaultSizes() { return {1, -1, 1, 1, 1}; }

std::vector<std::string> MeshCache::DefaultNames() {
  return {"dp", "fsdp", "ep", "tp", "sp"};
}

Result<MeshShape> MeshCache::CreateMesh(
    int64_t devices, const std::optional<std::vector<int64_t>>& sizes,
    const std::optional<std::vector<std::string>>& names) {
  Key key = {sizes.value_or(DefaultSizes()), names.value_or(DefaultNames())};
  auto it = made_.find(key);
  if (it != made_.end()) return it->second;
  auto mesh = Shaped(devices, key.first, key.second);
  if (const auto* made = Get<MeshShape>(mesh)) made_.emplace(key, *made);
  return mesh;
}

void MeshCache::Remember(const std::vector<int64_t>& sizes,
                         const MeshShape& mesh) {
  made_.insert_or_assign(Key{sizes, mesh.names}, mesh);
}

Result<MeshShape> MeshCache::ReadText(std::string_view text,
                                      const std::vector<std::string>& names) {
  MeshShape asked;
  const bool named = text.find(':') != std::string_view::npos;
  for (const std::string& entry : Split(text, ',')) {
    if (named) {
      if (auto error = ReadEntry(entry, names, asked)) return *error;
      continue;
    }
    auto size = PythonInt(entry);
    if (const auto* error = Failure(size)) return *error;
    asked.sizes.push_back(std::get<int64_t>(size));
  }
  if (!named) {
    asked.names = names;
  } else if (std::set(asked.names.begin(), asked.names.end()) !=
             std::set(names.begin(), names.end())) {
    return Error{"ValueError", "names_not_all_used",
                 "Not all axis names were used in 'axis_dims'"};
  }
  if (asked.sizes.size() != names.size()) {
    return Error{"ValueError", "dims_names_mismatch",
                 "Number of dimensions and names must match"};
  }
  return asked;
}

Result<MeshShape> MeshCache::ParseMeshFromString(
    int64_t devices, std::string_view text,
    const std::vector<std::string>& names) {
  auto asked = ReadText(text, names);
  const auto* mesh = Get<MeshShape>(asked);
  if (mesh == nullptr) return asked;
  return CreateMesh(devices, mesh->sizes, mesh->names);
}

Result<MeshShape> FjformerCreateMesh(
    int64_t devices, const std::optional<std::vector<int64_t>>& sizes,
    const std::optional<std::vector<std::string>>& names) {
  auto mesh = Shaped(
      devices, sizes.value_or(std::vector<int64_t>{1, -1, 1, 1}),
      names.value_or(std::vector<std::string>{"dp", "fsdp", "tp", "sp"}));
  const auto* error = Failure(mesh);
  if (error == nullptr || error->kind == "axis_name_count_mismatch") {
    return mesh;
  }
  return Error{"TypeError", "cannot_reshape", "cannot reshape array"};
}

Result<MeshShape> GetJaxMesh(int64_t devices, std::string_view text,
                             const std::vector<std::string>& names) {
  if (text.starts_with('!')) text.remove_prefix(1);
  auto asked = MeshCache::ReadText(text, names);
  if (const auto* error = Failure(asked)) {
    if (error->kind == "unknown_axis_name" ||
        error->kind == "names_not_all_used" ||
        error->kind == "dims_names_mismatch") {
      return Error{"AssertionError", "assertion", ""};
    }
    return asked;
  }
  const auto& mesh = std::get<MeshShape>(asked);
  return Shaped(devices, mesh.sizes, mesh.names);
}

Result<std::vector<int64_t>> HostMeshShape(std::span<const int64_t> global,
                                           int64_t local_devices,
                                           int64_t processes) {
  const auto total = CheckedProduct(global);
  const auto available = CheckedMul(local_devices, processes);
  if (!total || !available || *total != *available) {
    return Error{"ValueError", "mesh_size_mismatch",
                 "Mesh size doesn't match available devices"};
  }
  auto host = HostShape(global, local_devices, processes);
  if (!host) {
    return Error{"ValueError", "host_mesh_not_factorable",
                 "Host mesh shape doesn't match local devices"};
  }
  return std::move(*host);
}

Result<Ranks> RanksAndSize(const Mesh& mesh, int64_t local_devices,
                           int64_t processes, int64_t process) {
  for (std::string_view axis : {"tp", "sp"}) {
    if (!mesh.Find(axis)) {
      return Error{"KeyError", "key_error", std::string(axis)};
    }
  }
  const NodeRanks ranks = RanksOf(mesh.SizeOf("tp"), mesh.SizeOf("sp"),
                                  local_devices, processes, process);
  return Ranks{ranks.mp_nodes, ranks.dp_nodes, ranks.dp_rank, ranks.mp_rank};
}

}  // namespace shardc::reference
