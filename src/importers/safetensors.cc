// Reads the headers of safetensors files. A file begins with the header's
// length N, an unsigned 64-bit little-endian integer. Then follow N bytes of
// JSON, which may end with spaces, and then the data. The tensors' ranges must
// cover the data without gaps or overlaps. Each tensor is first checked
// separately (types, numbers, dtype, size), and then all ranges together.
//
// For example, `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}` with 8
// bytes of data is one tensor. With 9 bytes of data the file is refused,
// because the last byte belongs to no tensor.
#include "importers/safetensors.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "model/manifest.h"
#include "model/name.h"
#include "source/file.h"
#include "source/input_file.h"
#include "source/json.h"
#include "source/plain_json.h"
#include "source/size.h"
#include "source/text_order.h"
#include "source/wording.h"

namespace shardc {
namespace {

// The limit on a header's bytes in Hugging Face's reader of safetensors.
constexpr int64_t kMaxHeader = 100'000'000;
constexpr int64_t kLengthBytes = 8;

std::string Quoted(std::string_view name) {
  constexpr size_t kShown = 200;
  return "`" + std::string(name.substr(0, kShown)) +
         (name.size() > kShown ? "...`" : "`");
}

// Returns a help text for a file that is not safetensors but was probably saved
// under this name by mistake, such as a Git LFS pointer.
std::string Guess(std::string_view text) {
  if (text.starts_with("version https://git-lfs")) {
    return "this is a Git LFS pointer: run `git lfs pull` to fetch the weights";
  }
  if (text.starts_with('<')) {
    return "this looks like a saved web page: download the file again";
  }
  if (text.starts_with('{')) return "this looks like bare JSON";
  if (text.starts_with("PK\x03\x04")) {
    return "this looks like a zip archive, such as a torch checkpoint";
  }
  if (text.starts_with('\x80')) {
    return "this looks like a pickle, such as a PyTorch checkpoint: convert it "
           "to safetensors with `safetensors.torch.save_file`";
  }
  if (text.starts_with("GGUF")) return "this is a GGUF file";
  return {};
}

// Checks and returns the header's length, before memory is allocated for the
// header. `available` is the number of bytes of the file, including the 8 bytes
// of the length. Returns nullopt after a finding.
std::optional<int64_t> HeaderLength(const SourceRef& source,
                                    std::string_view first, int64_t available,
                                    Findings& findings) {
  const Place place{source};
  const auto refuse = [&](std::string message, std::string help) {
    findings.Add(code::kHeader, place, std::move(message), std::move(help));
    return std::nullopt;
  };
  if (first.size() < AsIndex(kLengthBytes)) {
    return refuse(
        "a safetensors file begins with the header's length in 8 "
        "bytes, and this one holds " +
            Counted(available, "byte"),
        Guess(first));
  }
  const uint64_t length = LittleEndian(first.substr(0, kLengthBytes));
  if (length > uint64_t{kMaxHeader}) {
    std::string help = Guess(first);
    const uint64_t swapped = __builtin_bswap64(length);
    if (help.empty() && swapped < static_cast<uint64_t>(available)) {
      help = "the length is big-endian; the format is little-endian";
    }
    return refuse("the header would be " + std::to_string(length) +
                      " bytes long, and a safetensors header has at most " +
                      CountText(kMaxHeader),
                  std::move(help));
  }
  const auto count = static_cast<int64_t>(length);
  if (count > available - kLengthBytes) {
    return refuse("the header should be " + CountText(count) +
                      " bytes long, and the file holds only " +
                      CountText(available - kLengthBytes) +
                      " bytes after its length",
                  "the file is cut off: copy or download it again");
  }
  return count;
}

class HeaderReader {
 public:
  HeaderReader(Findings& findings, std::optional<int64_t> data_size)
      : findings_(findings), data_size_(data_size) {}

  std::optional<SafetensorsHeader> Read(const JsonValue& root) {
    const size_t before = findings_.errors();
    for (const JsonMember member : root.members()) {
      if (findings_.Full()) return std::nullopt;
      if (member.name() == "__metadata__") {
        ReadMetadata(member.value);
      } else {
        ReadEntry(member);
      }
    }
    if (findings_.errors() == before) CheckRanges(root.place());
    if (findings_.errors() > before) return std::nullopt;
    return std::move(header_);
  }

 private:
  void Refuse(const Code& code, const JsonValue& at, std::string message,
              std::string help = {}) {
    findings_.Add(code, at.place(), std::move(message), std::move(help));
  }

  void ReadMetadata(const JsonValue& value) {
    if (!value.IsObject()) {
      Refuse(code::kHeader, value, "`__metadata__` is not an object of texts");
      return;
    }
    for (const JsonMember member : value.members()) {
      if (!member.value.IsString()) {
        Refuse(code::kHeader, member.value,
               "the value of " + Quoted(member.name()) +
                   " in `__metadata__` is not a text");
        return;
      }
      header_.metadata.emplace_back(member.name(), member.value.string());
    }
  }

  // Reads a dimension or an offset: an integer from 0 to 2^63 - 1.
  std::optional<int64_t> Number(const JsonValue& value, const std::string& of) {
    if (value.kind() == JsonKind::kInteger && value.integer() >= 0) {
      return value.integer();
    }
    const Place place = value.place();
    std::string text(
        place.source->text().substr(place.begin, place.end - place.begin));
    if (text.size() > 40) text = text.substr(0, 40) + "...";
    Refuse(code::kNumber, value,
           "`" + text + "` in " + of + " is not an integer from 0 to 2^63 - 1");
    return std::nullopt;
  }

  std::optional<std::vector<int64_t>> Numbers(const JsonMember& tensor,
                                              std::string_view key) {
    const std::optional<JsonValue> list = tensor.value.Find(key);
    const std::string of =
        "`" + std::string(key) + "` of " + Quoted(tensor.name());
    if (!list || !list->IsArray()) {
      Refuse(code::kHeader, list ? *list : tensor.value,
             of + (list ? " is not a list of integers" : " is missing"));
      return std::nullopt;
    }
    std::vector<int64_t> out;
    for (const JsonValue item : list->items()) {
      if (item.IsString() || item.IsArray() || item.IsObject()) {
        Refuse(code::kHeader, item, of + " is not a list of integers");
        return std::nullopt;
      }
      const std::optional<int64_t> number = Number(item, of);
      if (!number) return std::nullopt;
      out.push_back(*number);
    }
    return out;
  }

  std::optional<Dtype> ReadDtype(const JsonMember& tensor) {
    const std::optional<JsonValue> value = tensor.value.Find("dtype");
    if (!value || !value->IsString()) {
      Refuse(code::kHeader, value ? *value : tensor.value,
             "`dtype` of " + Quoted(tensor.name()) +
                 (value ? " is not a text" : " is missing"));
      return std::nullopt;
    }
    for (const Dtype dtype : AllDtypes()) {
      if (DtypeName(dtype) == value->string()) return dtype;
    }
    const std::optional<Dtype> meant = ParseDtype(value->string());
    Refuse(
        code::kDtype, *value,
        "the data type " + Quoted(value->string()) + " of " +
            Quoted(tensor.name()) + " is not known",
        meant ? "safetensors spells it `" + std::string(DtypeName(*meant)) + "`"
              : std::string());
    return std::nullopt;
  }

  void ReadEntry(const JsonMember& tensor) {
    if (std::string fault = ParameterNameFault(tensor.name()); !fault.empty()) {
      Refuse(code::kName, tensor.value, std::move(fault));
      return;
    }
    if (!tensor.value.IsObject()) {
      Refuse(code::kHeader, tensor.value,
             "the entry of " + Quoted(tensor.name()) + " is not an object");
      return;
    }
    const std::optional<Dtype> dtype = ReadDtype(tensor);
    if (!dtype) return;
    auto shape = Numbers(tensor, "shape");
    if (!shape) return;
    const auto offsets = Numbers(tensor, "data_offsets");
    if (!offsets) return;
    if (offsets->size() != 2) {
      Refuse(code::kHeader, *tensor.value.Find("data_offsets"),
             "`data_offsets` of " + Quoted(tensor.name()) + " holds " +
                 Counted(static_cast<int64_t>(offsets->size()), "number") +
                 " and not a begin and an end");
      return;
    }
    SafetensorsEntry entry{std::string(tensor.name()), std::move(*shape),
                           *dtype, (*offsets)[0], (*offsets)[1]};
    if (!CheckSize(entry, tensor)) return;
    header_.entries.push_back(std::move(entry));
    places_.push_back(tensor.value);
  }

  bool CheckSize(const SafetensorsEntry& entry, const JsonMember& tensor) {
    const JsonValue offsets = *tensor.value.Find("data_offsets");
    if (entry.end < entry.begin) {
      Refuse(code::kOffsets, offsets,
             "the data of " + Quoted(entry.name) + " ends at " +
                 std::to_string(entry.end) + ", before it begins at " +
                 std::to_string(entry.begin));
      return false;
    }
    const std::optional<int64_t> elements = CheckedProduct(entry.shape);
    const std::optional<int64_t> bits =
        elements ? CheckedMul(*elements, DtypeBits(entry.dtype)) : std::nullopt;
    if (!bits) {
      Refuse(code::kOverflow, *tensor.value.Find("shape"),
             "the size of " + Quoted(entry.name) + " of shape " +
                 ShapeText(entry.shape) + " does not fit in 64 bits");
      return false;
    }
    const std::string what =
        ShapeText(entry.shape) + " of " + std::string(DtypeName(entry.dtype));
    if (*bits % 8 != 0) {
      Refuse(code::kSize, tensor.value,
             Quoted(entry.name) + ", " + what + ", does not end on a byte");
      return false;
    }
    if (*bits / 8 == entry.end - entry.begin) return true;
    Refuse(code::kSize, offsets,
           Quoted(entry.name) + ", " + what + ", takes " +
               CountText(*bits / 8) + " bytes, and its range holds " +
               CountText(entry.end - entry.begin));
    return false;
  }

  // Checks the ranges in ascending order. Each range must begin where the
  // previous range ended. A tensor without elements has a range of 0 bytes,
  // which may be between two other ranges, but not inside one.
  void CheckRanges(const Place& whole) {
    std::vector<size_t> order(header_.entries.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto& x = header_.entries[a];
      const auto& y = header_.entries[b];
      return std::tie(x.begin, x.end, a) < std::tie(y.begin, y.end, b);
    });
    int64_t end = 0;
    std::string last;
    for (const size_t index : order) {
      const SafetensorsEntry& entry = header_.entries[index];
      if (entry.begin != end) {
        const bool overlap = entry.begin < end;
        Refuse(code::kOffsets, places_[index],
               overlap ? "the data of " + Quoted(entry.name) + " begins at " +
                             CountText(entry.begin) + ", inside that of " +
                             Quoted(last) + ", which ends at " + CountText(end)
                       : CountText(entry.begin - end) + " bytes before " +
                             Quoted(entry.name) + " at " + CountText(end) +
                             " belong to no tensor");
        return;
      }
      end = entry.end;
      last = entry.name;
    }
    if (!data_size_ || end == *data_size_) return;
    findings_.Add(
        code::kOffsets, Place{whole.source},
        end > *data_size_
            ? "the tensors take " + CountText(end) +
                  " bytes of data, and the file holds " + CountText(*data_size_)
            : CountText(*data_size_ - end) +
                  " bytes at the end belong to no tensor",
        end > *data_size_ ? "the file is cut off: copy or download it again"
                          : "");
  }

  Findings& findings_;
  std::optional<int64_t> data_size_;
  SafetensorsHeader header_;
  // The JSON value of each entry, at which findings about the entry are placed.
  std::vector<JsonValue> places_;
};

SafetensorsHeader HeaderOf(const PlainHeader& plain, size_t data_offset) {
  SafetensorsHeader header;
  header.entries.reserve(plain.entries.size());
  for (const PlainHeader::Entry& entry : plain.entries) {
    const TensorType& type = plain.types[entry.type];
    header.entries.push_back({std::string(entry.name), *type.shape, *type.dtype,
                              entry.begin, entry.end});
  }
  for (const auto& [key, value] : plain.metadata) {
    header.metadata.emplace_back(key, value);
  }
  header.data_offset = static_cast<int64_t>(data_offset);
  header.by_name = plain.by_name;
  return header;
}

}  // namespace

std::optional<SafetensorsHeader> ParseSafetensorsHeader(
    SourceRef source, std::optional<int64_t> file_size, Findings& findings,
    bool plain) {
  const std::string_view text = source->text();
  const auto held = static_cast<int64_t>(text.size());
  const std::optional<int64_t> length =
      HeaderLength(source, text, file_size.value_or(held), findings);
  if (!length) return std::nullopt;
  const auto end = AsIndex(kLengthBytes + *length);
  const size_t begin = AsIndex(kLengthBytes);
  if (*length == 0 || text[begin] != '{') {
    findings.Add(code::kHeader, Place{source},
                 "the header is not a JSON object", Guess(text.substr(begin)));
    return std::nullopt;
  }
  std::optional<int64_t> data_size;
  if (file_size) data_size = *file_size - static_cast<int64_t>(end);
  if (plain) {
    const auto read =
        ReadPlainHeader(text.substr(begin, end - begin), data_size);
    if (read) return HeaderOf(*read, end);
  }
  const auto document = JsonDocument::Parse(source, findings, {}, begin, end);
  if (document == nullptr) return std::nullopt;
  auto header = HeaderReader(findings, data_size).Read(document->root());
  if (header) header->data_offset = static_cast<int64_t>(end);
  return header;
}

std::optional<SafetensorsHeader> ReadSafetensorsHeader(const std::string& path,
                                                       bool header_only,
                                                       Findings& findings) {
  header_only = header_only || path.ends_with(".safetensors.header");
  const std::optional<InputFile> file = InputFile::Open(path, findings);
  if (!file) return std::nullopt;
  const auto first = file->Head(4096, findings);
  if (!first) return std::nullopt;
  const std::optional<int64_t> length =
      HeaderLength(MakeSource(path, {}), *first, file->size(), findings);
  if (!length) return std::nullopt;
  auto head = file->Head(AsIndex(kLengthBytes + *length), findings);
  if (!head) return std::nullopt;
  std::optional<int64_t> size;
  if (!header_only) size = file->size();
  return ParseSafetensorsHeader(MakeSource(path, std::move(*head)), size,
                                findings);
}

// Reads common headers of safetensors files in one pass, which is faster than
// the full reader. If a header is uncommon or invalid, this reader stops, and
// the full reader reads the text again. Only the full reader reports errors:
//
//   {"a.w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   one tensor
//   ... "data_offsets":[0,9] ...   9 bytes, not 8: for the full reader
//
// The safetensors library writes tensors in the order of their data, so their
// ranges usually need no sorting.

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
