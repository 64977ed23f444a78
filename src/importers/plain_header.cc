// Reads common headers of safetensors files in one pass, which is faster than
// the full reader. If a header is uncommon or invalid, this reader stops, and
// the full reader reads the text again. Only the full reader reports errors:
//
//   {"a.w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   one tensor
//   ... "data_offsets":[0,9] ...   9 bytes, not 8: for the full reader
//
// The safetensors library writes tensors in the order of their data, so their
// ranges usually need no sorting.
#include "importers/plain_header.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "model/type_numbers.h"
#include "source/checked.h"
#include "source/plain_json.h"
#include "source/text_order.h"

namespace shardc {
namespace {

// A lower bound of the length of a tensor's entry in the header, such as
// `"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}`.
constexpr size_t kLeastBytes = 50;

class PlainHeaderReader {
 public:
  PlainHeaderReader(std::string_view text, PlainHeader& header)
      : json_(text), header_(header) {
    // Reserving too much costs no memory, because the operating system provides
    // memory only for pages that are written.
    header_.entries.reserve(text.size() / kLeastBytes);
  }

  bool Read() {
    if (!json_.TakeHere("{")) return false;
    if (!json_.Take('}')) {
      do {
        if (!Member()) return false;
      } while (json_.Take(','));
      if (!json_.Take('}')) return false;
    }
    header_.types = numbers_.Take();
    return json_.End();
  }

 private:
  bool Member() {
    std::string_view name;
    if (!json_.String(name) || name.empty() || !json_.Take(':') ||
        !json_.Take('{')) {
      return false;
    }
    if (name == "__metadata__") return Metadata();
    PlainHeader::Entry& entry = header_.entries.emplace_back();
    entry.name = name;
    return Fields(entry);
  }

  // Reads `__metadata__`. Returns false for a second member with this name,
  // because names must be distinct.
  bool Metadata() {
    if (has_metadata_) return false;
    has_metadata_ = true;
    if (json_.Take('}')) return true;
    std::vector<std::string_view> keys;
    do {
      std::string_view key, value;
      if (!json_.String(key) || !json_.Take(':') || !json_.String(value)) {
        return false;
      }
      keys.push_back(key);
      header_.metadata.emplace_back(key, value);
    } while (json_.Take(','));
    return json_.Take('}') && AreDistinct(keys);
  }

  bool Fields(PlainHeader::Entry& entry) {
    enum : unsigned { kDtype = 1, kShape = 2, kOffsets = 4 };
    FlatType type;
    unsigned seen = 0;
    do {
      if (!json_.Take('"')) return false;
      unsigned field = 0;
      bool good = false;
      if (json_.TakeKey("dtype\"")) {
        field = kDtype;
        good = DtypeOf(type);
      } else if (json_.TakeKey("shape\"")) {
        field = kShape;
        good = type.TakeShape(json_);
      } else if (json_.TakeKey("data_offsets\"")) {
        field = kOffsets;
        good = json_.Take('[') && json_.Number(entry.begin) &&
               json_.Take(',') && json_.Number(entry.end) && json_.Take(']');
      }
      if (!good || (seen & field) != 0) return false;
      seen |= field;
    } while (json_.Take(','));
    if (seen != (kDtype | kShape | kOffsets) || !json_.Take('}')) return false;
    return HasType(type, entry);
  }

  // Reads a dtype. Returns false if the dtype is not spelled as safetensors
  // spells it.
  bool DtypeOf(FlatType& type) {
    std::string_view text;
    if (!json_.String(text)) return false;
    if (dtype_ && text == DtypeName(*dtype_)) {
      type.dtype = dtype_;
      return true;
    }
    type.dtype = dtype_ = ParseDtype(text);
    return dtype_ && text == DtypeName(*dtype_);
  }

  // Sets the entry's type. Returns whether the number of bytes of the type
  // equals the length of the entry's data range.
  bool HasType(const FlatType& flat, PlainHeader::Entry& entry) {
    const auto number = numbers_.Of(flat);
    if (!number) return false;
    if (*number == bytes_.size()) {
      const TensorType type = flat.Type();
      const auto bits = CheckedMul(*type.Elements(), DtypeBits(*type.dtype));
      if (!bits || *bits % 8 != 0) return false;
      bytes_.push_back(*bits / 8);
    }
    entry.type = *number;
    return entry.end >= entry.begin &&
           entry.end - entry.begin == bytes_[*number];
  }

  PlainJson json_;
  PlainHeader& header_;
  TypeNumbers numbers_;
  // The bytes of a tensor of each type, indexed by Entry::type.
  std::vector<int64_t> bytes_;
  std::optional<Dtype> dtype_;
  bool has_metadata_ = false;
};

// Returns the end of the last range. `at(i)` returns the i-th range. Returns
// nullopt unless each range begins where the previous range ends.
template <typename At>
std::optional<int64_t> EndOf(size_t count, const At& at) {
  int64_t end = 0;
  for (size_t i = 0; i < count; ++i) {
    if (at(i).begin != end) return std::nullopt;
    end = at(i).end;
  }
  return end;
}

std::optional<int64_t> EndOf(const std::vector<PlainHeader::Entry>& entries) {
  const auto written = EndOf(
      entries.size(), [&](size_t i) -> const auto& { return entries[i]; });
  if (written) return written;
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(entries[a].begin, entries[a].end, a) <
           std::tie(entries[b].begin, entries[b].end, b);
  });
  return EndOf(
      entries.size(), [&](size_t i) -> const auto& {
        return entries[order[i]];
      });
}

}  // namespace

std::optional<PlainHeader> ReadPlainHeader(std::string_view json,
                                           std::optional<int64_t> data_size) {
  PlainHeader header;
  if (!PlainHeaderReader(json, header).Read()) return std::nullopt;
  const auto end = EndOf(header.entries);
  if (!end || (data_size && *end != *data_size)) return std::nullopt;
  std::vector<std::string_view> names;
  names.reserve(header.entries.size());
  for (const auto& entry : header.entries) names.push_back(entry.name);
  TextOrder sorted = OrderOf(names);
  if (!sorted.distinct) return std::nullopt;
  header.by_name = std::move(sorted.order);
  return header;
}

}  // namespace shardc
