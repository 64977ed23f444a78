// Parses the metadata of zarr arrays. If shardc cannot read the elements of an
// array, for example because of an unknown codec or big-endian order, the
// reason is recorded. The array can then still be listed with its shape:
//
//   {"shape": [10, 7], "chunks": [4, 4], "dtype": "<f4", "order": "C",
//    "compressor": {"id": "bz2"}, ...}
//     ->  [10, 7] of F32; unreadable: is stored by the codec `bz2`, ...
//
// All sizes are checked here: the bytes of the array, of a chunk and of a
// shard's index must fit in 64 bits.
#include "stored/zarr.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "floats/convert.h"
#include "source/input_file.h"
#include "source/json.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "stored/checksum.h"
#include "stored/codecs.h"
#include "stored/ocdbt.h"
#include "stored/store.h"
#include "stored/tree.h"
#include "stored/write_ocdbt.h"

namespace shardc::stored {
namespace {

// Returns the bytes of one element of an integer type. Returns an empty text if
// the number does not fit in the type.
std::string IntegerBytes(int64_t number, size_t bytes, bool is_signed) {
  if (bytes < 8) {
    const int64_t range = int64_t{1} << (8 * bytes);
    const int64_t least = is_signed ? -range / 2 : 0;
    if (number < least || number >= least + range) return {};
  } else if (!is_signed && number < 0) {
    return {};
  }
  std::string out;
  AppendLittle(out, static_cast<uint64_t>(number), bytes);
  return out;
}

std::string FloatBytes(double number, Dtype dtype) {
  std::string out(AsIndex(DtypeBits(dtype) / 8), '\0');
  if (dtype == Dtype::kF64) {
    std::memcpy(out.data(), &number, sizeof(number));
  } else {
    ConvertFloats(Dtype::kF64, dtype, &number, out.data(), 1);
  }
  return out;
}

// Returns whether the dtype is a float type to which FloatBytes() can convert a
// double.
bool IsWide(Dtype dtype) {
  return CanConvert(Dtype::kF64, dtype) || dtype == Dtype::kF64;
}

// Returns whether the dtype is a float type whose elements have whole bytes.
bool IsByteFloat(Dtype dtype) {
  return IsWide(dtype) || dtype == Dtype::kF8E4M3 || dtype == Dtype::kF8E5M2 ||
         dtype == Dtype::kF8E8M0 || dtype == Dtype::kF8E4M3Fnuz ||
         dtype == Dtype::kF8E5M2Fnuz;
}

// Returns the number for a fill value that zarr stores as a text, because JSON
// cannot represent the number. Returns nullopt for other texts.
std::optional<double> NamedFloat(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

// Returns the bytes of a float that zarr version 3 stores as a text of its
// bits: "0x" and two hexadecimal digits for each byte, the most significant
// byte first. Returns an empty text for other texts.
//   "0x7fc00001" of F32 -> 01 00 c0 7f, a NaN
std::string HexBytes(std::string_view text, Dtype dtype) {
  const size_t size = AsIndex(DtypeBits(dtype) / 8);
  if (!IsByteFloat(dtype) || !text.starts_with("0x") ||
      text.size() != 2 + 2 * size) {
    return {};
  }
  uint64_t bits = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + 2, end, bits, 16);
  if (read.ec != std::errc() || read.ptr != end) return {};
  std::string out;
  AppendLittle(out, bits, size);
  return out;
}

// Returns the bytes of one element that has the fill value. The fill value is a
// number, a truth value, the name of a float that JSON cannot represent or, in
// version 3, the bits of a float. Returns an empty text for other values and
// types.
std::string FillBytes(const JsonValue& fill, Dtype dtype, bool version3) {
  const auto size = AsIndex((DtypeBits(dtype) + 7) / 8);
  if (fill.kind() == JsonKind::kBool) {
    if (!fill.boolean()) return std::string(size, '\0');
    return dtype == Dtype::kBool ? std::string(1, '\1') : std::string();
  }
  double number = 0;
  if (fill.kind() == JsonKind::kInteger) {
    switch (dtype) {
      case Dtype::kI8:
      case Dtype::kI16:
      case Dtype::kI32:
      case Dtype::kI64:
        return IntegerBytes(fill.integer(), size, true);
      case Dtype::kU8:
      case Dtype::kU16:
      case Dtype::kU32:
      case Dtype::kU64:
        return IntegerBytes(fill.integer(), size, false);
      default:
        number = static_cast<double>(fill.integer());
    }
  } else if (fill.kind() == JsonKind::kReal) {
    number = fill.real();
  } else if (fill.IsString()) {
    const auto named = NamedFloat(fill.string());
    if (!named)
      return version3 ? HexBytes(fill.string(), dtype) : std::string();
    number = *named;
  } else {
    return {};
  }
  if (IsWide(dtype)) {
    return FloatBytes(number, dtype);
  }
  const bool zero = number == 0 && !std::signbit(number);
  return zero ? std::string(size, '\0') : std::string();
}

class ZarrParser {
 public:
  ZarrParser(const JsonDocument& document, Findings& findings)
      : root_(document.root()), findings_(findings) {}

  std::optional<ZarrArray> Version2() {
    if (!root_.IsObject()) return Malformed(root_, "is not an object");
    const auto shape = Member(root_, "shape");
    const auto chunks = Member(root_, "chunks");
    const auto dtype = Member(root_, "dtype");
    if (!shape || !chunks || !dtype) return std::nullopt;
    if (!ReadShape(*shape, 0, out_.shape) ||
        !ReadShape(*chunks, 1, out_.outer)) {
      return std::nullopt;
    }
    out_.chunk = out_.outer;
    if (dtype->IsString()) {
      ReadType(dtype->string());
    } else {
      SetUnreadable("has a structured data type");
    }
    const auto order = root_.Find("order");
    if (order && order->IsString() && order->string() == "F" &&
        out_.shape.size() > 1) {
      SetUnreadable("is stored in column-major order");
    }
    const auto filters = root_.Find("filters");
    if (filters && !filters->IsNull() &&
        !(filters->IsArray() && filters->size() == 0)) {
      SetUnreadable("is stored through filters");
    }
    const auto compressor = root_.Find("compressor");
    if (compressor && !compressor->IsNull()) {
      const auto id = compressor->IsObject() ? compressor->Find("id")
                                             : std::optional<JsonValue>();
      if (!id || !id->IsString()) {
        return Malformed(*compressor, "has no `id`");
      }
      AddCodec(id->string());
    }
    const auto separator = root_.Find("dimension_separator");
    if (separator && !separator->IsNull()) {
      if (!ReadSeparator(*separator)) return std::nullopt;
    }
    ReadFill(false);
    return Finish();
  }

  std::optional<ZarrArray> Version3(bool* group) {
    if (!root_.IsObject()) return Malformed(root_, "is not an object");
    const auto type = root_.Find("node_type");
    if (type && type->IsString() && type->string() == "group") {
      *group = true;
      return std::nullopt;
    }
    const auto shape = Member(root_, "shape");
    const auto dtype = Member(root_, "data_type");
    const auto grid = Configuration("chunk_grid", "regular");
    const auto codecs = Member(root_, "codecs");
    if (!shape || !dtype || !grid || !codecs) return std::nullopt;
    const auto chunks = Member(*grid, "chunk_shape");
    if (!chunks || !ReadShape(*shape, 0, out_.shape) ||
        !ReadShape(*chunks, 1, out_.outer)) {
      return std::nullopt;
    }
    out_.chunk = out_.outer;
    if (dtype->IsString()) {
      ReadType(dtype->string());
    } else {
      SetUnreadable("has a data type with a configuration");
    }
    if (!ReadEncoding() || !ReadCodecs(*codecs, true)) return std::nullopt;
    ReadFill(true);
    return Finish();
  }

 private:
  std::optional<ZarrArray> Malformed(const JsonValue& value,
                                     const std::string& why) {
    findings_.Add(code::kSchema, value.place(),
                  "the zarr metadata cannot be read: a value " + why);
    return std::nullopt;
  }

  std::optional<JsonValue> Member(const JsonValue& object,
                                  std::string_view name) {
    auto out =
        object.IsObject() ? object.Find(name) : std::optional<JsonValue>();
    if (!out) {
      findings_.Add(code::kSchema, object.place(),
                    "the zarr metadata lacks " + Quote(name));
    }
    return out;
  }

  // Records why the elements of the array cannot be read. Only the first reason
  // is kept.
  void SetUnreadable(std::string why) {
    if (out_.unreadable.empty()) out_.unreadable = std::move(why);
  }

  bool ReadShape(const JsonValue& value, int64_t least, Shape& out) {
    if (!value.IsArray() || value.size() > kMostZarrDims) {
      Malformed(value, "is not a list of at most " +
                           std::to_string(kMostZarrDims) + " sizes");
      return false;
    }
    for (const JsonValue& size : value.items()) {
      if (size.kind() != JsonKind::kInteger || size.integer() < least) {
        findings_.Add(code::kNumber, size.place(),
                      "a size of a shape must be an integer of at least " +
                          std::to_string(least));
        return false;
      }
      out.push_back(size.integer());
    }
    return true;
  }

  void ReadType(std::string_view text) {
    const std::string shown = ShortQuote(text);
    if (text.starts_with('>')) SetUnreadable("is stored big-endian");
    if (text.starts_with('<') || text.starts_with('>') ||
        text.starts_with('|')) {
      text.remove_prefix(1);
    }
    out_.dtype = ParseDtype(text);
    if (!out_.dtype) {
      SetUnreadable("has the data type " + shown +
                    ", which shardc does not know");
      return;
    }
    // In zarr each element of a packed type takes one byte.
    out_.element_bytes = (DtypeBits(*out_.dtype) + 7) / 8;
  }

  bool ReadSeparator(const JsonValue& value) {
    if (!value.IsString() || (value.string() != "." && value.string() != "/")) {
      Malformed(value, "is no separator of chunk keys");
      return false;
    }
    out_.separator = value.string()[0];
    return true;
  }

  void AddCodec(std::string_view name) {
    if (name == "zstd") {
      out_.codecs.push_back(Codec::kZstd);
    } else if (name == "gzip" || name == "zlib") {
      out_.codecs.push_back(Codec::kDeflate);
    } else if (name == "blosc") {
      out_.codecs.push_back(Codec::kBlosc);
    } else if (name == "crc32c") {
      out_.codecs.push_back(Codec::kCrc32c);
    } else {
      SetUnreadable("is stored by the codec " + ShortQuote(name) +
                    ", which shardc does not read");
    }
  }

  // The member `member` is an object with a `name` and a `configuration`.
  // Returns the configuration. Returns nullopt after a finding if the name is
  // not `wanted` or if the object is malformed.
  std::optional<JsonValue> Configuration(std::string_view member,
                                         std::string_view wanted) {
    const auto value = Member(root_, member);
    if (!value) return std::nullopt;
    const auto name = Member(*value, "name");
    if (!name) return std::nullopt;
    if (!name->IsString() || name->string() != wanted) {
      Malformed(*name, "is not `" + std::string(wanted) + "`");
      return std::nullopt;
    }
    return Member(*value, "configuration");
  }

  bool ReadEncoding() {
    out_.separator = '/';
    out_.prefix = "c";
    const auto encoding = root_.Find("chunk_key_encoding");
    if (!encoding) return true;
    const auto name = Member(*encoding, "name");
    if (!name) return false;
    const std::string_view text = name->IsString() ? name->string() : "";
    if (text == "v2") {
      out_.separator = '.';
      out_.prefix.clear();
    } else if (text != "default") {
      Malformed(*name, "is no known encoding of chunk keys");
      return false;
    }
    const auto more = encoding->Find("configuration");
    const auto separator = more && more->IsObject()
                               ? more->Find("separator")
                               : std::optional<JsonValue>();
    return !separator || ReadSeparator(*separator);
  }

  // Reads a list of codecs: those of the array if `outermost` is true,
  // otherwise those of the inner chunks. Returns false after a finding.
  bool ReadCodecs(const JsonValue& codecs, bool outermost) {
    if (!codecs.IsArray()) return Malformed(codecs, "is not a list"), false;
    bool last = false;
    for (const JsonValue& codec : codecs.items()) {
      if (last) {
        SetUnreadable("is stored by a codec after `sharding_indexed`");
        return true;
      }
      const auto name = codec.IsString() ? codec : Member(codec, "name");
      if (!name) return false;
      if (!name->IsString()) return Malformed(*name, "is not a name"), false;
      const auto more = codec.IsObject() ? codec.Find("configuration")
                                         : std::optional<JsonValue>();
      if (name->string() == "bytes") {
        ReadEndian(more);
      } else if (name->string() == "sharding_indexed" && outermost &&
                 out_.codecs.empty()) {
        last = true;
        if (!more) return Malformed(codec, "lacks its configuration"), false;
        if (!ReadSharding(*more)) return false;
      } else {
        AddCodec(name->string());
      }
    }
    return true;
  }

  void ReadEndian(const std::optional<JsonValue>& more) {
    const auto endian = more && more->IsObject() ? more->Find("endian")
                                                 : std::optional<JsonValue>();
    if (endian && endian->IsString() && endian->string() == "big" &&
        out_.element_bytes > 1) {
      SetUnreadable("is stored big-endian");
    }
  }

  bool ReadSharding(const JsonValue& more) {
    const auto chunk = Member(more, "chunk_shape");
    const auto inner = Member(more, "codecs");
    const auto index = Member(more, "index_codecs");
    if (!chunk || !inner || !index) return false;
    out_.indexed = true;
    out_.chunk.clear();
    if (!ReadShape(*chunk, 1, out_.chunk)) return false;
    const auto location = more.Find("index_location");
    out_.index_at_start =
        location && location->IsString() && location->string() == "start";
    if (!index->IsArray()) return Malformed(*index, "is not a list"), false;
    for (const JsonValue& codec : index->items()) {
      const auto name = codec.IsString() ? codec : Member(codec, "name");
      if (!name) return false;
      const std::string_view text = name->IsString() ? name->string() : "";
      if (text == "crc32c") {
        out_.index_has_checksum = true;
      } else if (text != "bytes") {
        SetUnreadable("has an index of inner chunks that is stored by " +
                      ShortQuote(text));
      }
    }
    return ReadCodecs(*inner, false);
  }

  void ReadFill(bool version3) {
    const auto fill = root_.Find("fill_value");
    if (!fill || fill->IsNull()) {
      out_.fill.assign(AsIndex(out_.element_bytes), '\0');
    } else if (out_.dtype) {
      out_.fill = FillBytes(*fill, *out_.dtype, version3);
    }
  }

  std::optional<ZarrArray> Finish() {
    const auto overflow = [&](std::string_view what) {
      findings_.Add(code::kOverflow, root_.place(),
                    "the bytes of the array's " + std::string(what) +
                        " do not fit in 64 bits");
      return std::nullopt;
    };
    if (out_.outer.size() != out_.shape.size() ||
        out_.chunk.size() != out_.shape.size()) {
      return Malformed(root_,
                       "has a chunk shape of another rank than the "
                       "array's");
    }
    const auto bytes_of = [&](const Shape& shape) {
      const auto count = CheckedProduct(shape);
      // The index has 16 bytes for each inner chunk, so the size of the index
      // is checked too.
      return count
                 ? CheckedMul(*count, std::max<int64_t>(out_.element_bytes, 16))
                 : std::nullopt;
    };
    if (!bytes_of(out_.shape)) return overflow("shape");
    if (!bytes_of(out_.outer) || !bytes_of(out_.chunk)) {
      return overflow("chunks");
    }
    for (size_t i = 0; i < out_.chunk.size(); ++i) {
      if (out_.outer[i] % out_.chunk[i] == 0) continue;
      return Malformed(root_,
                       "is an inner chunk shape that does not divide "
                       "the shape of the chunks");
    }
    return std::move(out_);
  }

  JsonValue root_;
  Findings& findings_;
  ZarrArray out_;
};

}  // namespace

std::string ZarrArray::KeyOf(const std::vector<int64_t>& place) const {
  std::string out = prefix;
  for (const int64_t index : place) {
    if (!out.empty()) out += separator;
    out += std::to_string(index);
  }
  return out.empty() ? "0" : out;
}

std::optional<ZarrArray> ParseZarr(const SourceRef& source, bool* group,
                                   Findings& findings) {
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  ZarrParser parser(*document, findings);
  return source->name().ends_with(".zarray") ? parser.Version2()
                                             : parser.Version3(group);
}

namespace {

// Reads the chunks of zarr arrays. A chunk's number determines its place in the
// array's grid, and the place determines a key of the store. Without inner
// chunks, the value of this key is the chunk. With inner chunks, the value is a
// shard that contains several of them. The shard's index has an offset and a
// length for each inner chunk in row-major order:
//
//   shape [7, 6], shards of [4, 4], inner chunks of [2, 2] in a grid of [4, 3]
//   Chunk 5 is at (1, 2) in this grid. It is in shard (0, 1), key `c/0/1`, at
//   (1, 0) inside the shard, so entry 2 of the shard's index states its place.

constexpr int64_t kMetadataLimitBytes = int64_t{1} << 20;
// The limit on the bytes of an absent chunk. Such a chunk is filled with the
// fill value, so it needs memory although no file has bytes for it.
constexpr int64_t kFillLimitBytes = int64_t{1} << 30;
constexpr int64_t kEntryBytes = 16;
constexpr uint64_t kNoChunk = UINT64_MAX;

}  // namespace

class ZarrTree::Chunks : public ChunkReader {
 public:
  struct Member {
    std::string key;
    ZarrArray zarr;
  };

  Chunks(std::string root, std::shared_ptr<const Store> store,
         AbsentChunks absent)
      : root_(std::move(root)), store_(std::move(store)), absent_(absent) {}

  void Add(Member member) { members_.push_back(std::move(member)); }

  std::optional<std::string> Read(size_t array, int64_t chunk,
                                  Findings& findings) const override {
    const Member& member = members_[array];
    const ZarrArray& zarr = member.zarr;
    const auto part = Locate(member, chunk, findings);
    if (!part) return std::nullopt;
    const int64_t elements = FullBox(zarr.chunk).Elements();
    const int64_t bytes = elements * zarr.element_bytes;
    if (bytes > kValueLimitBytes) {
      Refuse(member, *part, code::kLimit,
             "decodes to " + BytesText(bytes) + ", more than " +
                 BytesText(kValueLimitBytes),
             findings);
      return std::nullopt;
    }
    if (part->absent) return Filled(member, *part, elements, findings);
    if (zarr.codecs.empty() && part->bytes != bytes) {
      Refuse(member, *part, code::kSize,
             "has " + CountText(part->bytes) + " bytes, and " +
                 CountText(bytes) + " are expected",
             findings);
      return std::nullopt;
    }
    auto stored = ReadValue(part->value, part->offset, part->bytes, findings);
    if (!stored) return std::nullopt;
    std::string why;
    auto out = Decode(std::move(*stored), zarr.codecs, bytes, &why);
    if (!out) {
      Refuse(member, *part, code::kSize, "cannot be decoded: " + why, findings);
    }
    return out;
  }

  std::optional<ChunkPlace> Find(size_t array, int64_t chunk,
                                 Findings& findings) const override {
    const Member& member = members_[array];
    const auto part = Locate(member, chunk, findings);
    if (!part) return std::nullopt;
    ChunkPlace out;
    out.file = part->value.file;
    out.offset = part->value.offset + part->offset;
    out.bytes = part->bytes;
    out.raw = member.zarr.codecs.empty() && !part->absent &&
              !part->value.file.empty();
    return out;
  }

 private:
  // The place of a chunk: a range of bytes in a value of the store.
  struct Part {
    Value value;
    std::string key;
    int64_t offset = 0;
    int64_t bytes = 0;
    bool absent = false;
  };
  // The index of one shard. `entries` has the offset and the length of each
  // inner chunk.
  struct Index {
    std::string key;
    std::string entries;
  };

  void Refuse(const Member& member, const Part& part, const Code& code,
              const std::string& what, Findings& findings) const {
    const std::string& file = part.value.file;
    findings.Add(code, {MakeSource(file.empty() ? root_ : file, {})},
                 "the chunk " + ShortQuote(part.key) + " of " +
                     ShortQuote(member.key) + ", at byte " +
                     CountText(part.value.offset + part.offset) + ", " + what,
                 "copy or save the checkpoint again");
  }

  std::optional<Part> Locate(const Member& member, int64_t chunk,
                             Findings& findings) const {
    const ZarrArray& zarr = member.zarr;
    const size_t rank = zarr.shape.size();
    std::vector<int64_t> place(rank);
    int64_t entry = 0, weight = 1;
    for (size_t dim = rank; dim > 0;) {
      --dim;
      const int64_t count = CeilDiv(zarr.shape[dim], zarr.chunk[dim]);
      const int64_t inner = zarr.outer[dim] / zarr.chunk[dim];
      const int64_t at = chunk % count;
      chunk /= count;
      place[dim] = at / inner;
      entry += at % inner * weight;
      weight *= inner;
    }
    Part out;
    out.key = member.key.empty() ? "" : member.key + "/";
    out.key += zarr.KeyOf(place);
    auto value = store_->Find(out.key, findings);
    if (!value) return std::nullopt;
    if (!value->found && absent_ == AbsentChunks::kFilled) {
      out.absent = true;
      return out;
    }
    if (!value->found) {
      findings.Add(code::kMissing, {MakeSource(root_, {})},
                   "the chunk " + ShortQuote(out.key) + " of " +
                       ShortQuote(member.key) + " is missing",
                   "copy or save the checkpoint again");
      return std::nullopt;
    }
    out.value = std::move(*value);
    out.bytes = out.value.bytes;
    if (!zarr.indexed) return out;
    if (!LocateInner(member, entry, weight, out, findings)) {
      return std::nullopt;
    }
    return out;
  }

  bool LocateInner(const Member& member, int64_t entry, int64_t count,
                   Part& part, Findings& findings) const {
    const auto index = IndexOf(member, count, part, findings);
    if (index == nullptr) return false;
    const std::string_view bytes =
        std::string_view(index->entries)
            .substr(AsIndex(entry * kEntryBytes), AsIndex(kEntryBytes));
    const uint64_t offset = LittleEndian(bytes.substr(0, 8));
    const uint64_t length = LittleEndian(bytes.substr(8));
    if (offset == kNoChunk && length == kNoChunk) {
      part.absent = true;
      part.bytes = 0;
      return true;
    }
    const auto size = static_cast<uint64_t>(part.value.bytes);
    if (offset > size || length > size - offset) {
      Refuse(member, part, code::kOffsets,
             "has an inner chunk of " + std::to_string(length) +
                 " bytes at its byte " + std::to_string(offset) +
                 ", beyond its end",
             findings);
      return false;
    }
    part.offset = static_cast<int64_t>(offset);
    part.bytes = static_cast<int64_t>(length);
    return true;
  }

  // Returns the index of a shard; null after a finding. The last index is kept
  // in memory, because the chunks of a shard are usually read one after
  // another.
  std::shared_ptr<const Index> IndexOf(const Member& member, int64_t count,
                                       const Part& part,
                                       Findings& findings) const {
    {
      const std::scoped_lock lock(mutex_);
      if (last_ != nullptr && last_->key == part.key) return last_;
    }
    const ZarrArray& zarr = member.zarr;
    const int64_t bytes = count * kEntryBytes +
                          (zarr.index_has_checksum ? int64_t{kCrc32cBytes} : 0);
    if (bytes > part.value.bytes) {
      Refuse(member, part, code::kSize,
             "has " + CountText(part.value.bytes) +
                 " bytes, too few for its index of " + CountText(bytes),
             findings);
      return nullptr;
    }
    auto stored = ReadValue(part.value,
                            zarr.index_at_start ? 0 : part.value.bytes - bytes,
                            bytes, findings);
    if (!stored) return nullptr;
    std::string why;
    std::vector<Codec> codecs;
    if (zarr.index_has_checksum) codecs.push_back(Codec::kCrc32c);
    auto entries =
        Decode(std::move(*stored), codecs, count * kEntryBytes, &why);
    if (!entries) {
      Refuse(member, part, code::kSize,
             "has an index that cannot be read: " + why, findings);
      return nullptr;
    }
    auto index =
        std::make_shared<const Index>(Index{part.key, std::move(*entries)});
    const std::scoped_lock lock(mutex_);
    last_ = index;
    return index;
  }

  std::optional<std::string> Filled(const Member& member, const Part& part,
                                    int64_t elements,
                                    Findings& findings) const {
    const std::string& fill = member.zarr.fill;
    if (elements * member.zarr.element_bytes > kFillLimitBytes) {
      Refuse(member, part, code::kLimit,
             "is absent, and is larger than " + BytesText(kFillLimitBytes),
             findings);
      return std::nullopt;
    }
    if (fill.empty()) {
      Refuse(member, part, code::kInexpressible,
             "is absent, and shardc cannot write the array's fill value",
             findings);
      return std::nullopt;
    }
    std::string out;
    out.reserve(AsIndex(elements) * fill.size());
    for (int64_t i = 0; i < elements; ++i) out += fill;
    return out;
  }

  std::string root_;
  std::shared_ptr<const Store> store_;
  AbsentChunks absent_;
  std::vector<Member> members_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Index> last_;
};

ZarrTree::ZarrTree(std::string root, std::shared_ptr<const Store> store,
                   AbsentChunks absent)
    : root_(std::move(root)),
      store_(std::move(store)),
      chunks_(std::make_shared<Chunks>(root_, store_, absent)) {}

ZarrTree::~ZarrTree() = default;

std::shared_ptr<const ChunkReader> ZarrTree::Reader() const { return chunks_; }

std::optional<Array> ZarrTree::Add(const std::string& name, bool* found,
                                   Findings& findings) {
  *found = false;
  std::string key;
  std::optional<Value> value;
  for (const std::string_view file : {".zarray", "zarr.json"}) {
    key = name.empty() ? std::string(file) : name + "/" + std::string(file);
    value = store_->Find(key, findings);
    if (!value) return std::nullopt;
    if (value->found) break;
  }
  if (!value->found) return std::nullopt;
  const std::string shown = root_ + "/" + key;
  if (value->bytes > kMetadataLimitBytes) {
    findings.Add(code::kLimit, {MakeSource(shown, {})},
                 "zarr metadata of " + BytesText(value->bytes) +
                     " is larger than " + BytesText(kMetadataLimitBytes));
    return std::nullopt;
  }
  auto text = ReadValue(*value, 0, value->bytes, findings);
  if (!text) return std::nullopt;
  bool group = false;
  auto zarr = ParseZarr(MakeSource(shown, std::move(*text)), &group, findings);
  if (!zarr) return std::nullopt;
  *found = true;
  Array out;
  out.name = name;
  out.key = name;
  out.shape = zarr->shape;
  out.dtype = zarr->dtype;
  out.element_bytes = zarr->element_bytes;
  out.chunk = zarr->chunk;
  if (!zarr->unreadable.empty()) {
    out.unreadable = "the array " + ShortQuote(name) + " " + zarr->unreadable;
  }
  chunks_->Add({name, std::move(*zarr)});
  return out;
}

bool ZarrTree::AddAll(Tree& tree, Findings& findings) {
  const auto keys = store_->MetadataKeys(findings);
  if (!keys) return false;
  const size_t before = findings.errors();
  for (const std::string& key : *keys) {
    const size_t slash = key.rfind('/');
    const std::string name =
        slash == std::string::npos ? "" : key.substr(0, slash);
    if (!tree.arrays.empty() && tree.arrays.back().key == name) continue;
    if (!IsUtf8(name)) {
      findings.Add(
          code::kEncoding, {MakeSource(root_, {})},
          "the name of an array, " + ShortQuote(name) + ", is not UTF-8");
      return false;
    }
    bool found = false;
    auto array = Add(name, &found, findings);
    if (findings.errors() > before) return false;
    if (!array) continue;  // the metadata describes a group, not an array
    array->path = {name};
    if (name.empty()) array->name = ".";
    tree.arrays.push_back(std::move(*array));
  }
  tree.reader = Reader();
  return true;
}

// Opens zarr arrays that are in an OCDBT database or in nested folders, if no
// file describes a tree of the arrays. The arrays are named by their keys.
//
//   w/.zarray, blocks/0/k/zarr.json  ->  `blocks/0/k`, `w`

namespace {

// The largest number of names that are examined in the search for an array's
// metadata.
constexpr size_t kNamesTried = 1000;
constexpr int kDepthTried = 8;

std::optional<Tree> OpenAll(const Folder& folder, std::string_view form,
                            std::shared_ptr<const Store> store,
                            Findings& findings) {
  Tree tree;
  tree.path = folder.path;
  tree.form = form;
  // In zarr, a chunk without a value in the store consists of fill values. In
  // these folders nothing shows whether such a chunk was lost, so its absence
  // is an error.
  ZarrTree zarr(folder.path, std::move(store), AbsentChunks::kLost);
  if (!zarr.AddAll(tree, findings)) return std::nullopt;
  return tree;
}

bool IsDatabase(const Folder& folder) { return folder.Has(kOcdbtManifest); }

std::optional<Tree> OpenDatabase(const Folder& folder, Findings& findings) {
  auto store = OcdbtStore::Open(folder.path, {""}, findings);
  if (store == nullptr) return std::nullopt;
  return OpenAll(folder, "OCDBT", std::move(store), findings);
}

// Returns whether any folder inside this folder has zarr metadata. The search
// examines at most kNamesTried names, and does not enter deeply nested folders.
bool HoldsZarr(const Folder& folder, int depth, size_t& tried) {
  for (const std::string& name : folder.names) {
    if (++tried > kNamesTried) return false;
    const std::string path = folder.PathOf(name);
    std::error_code error;
    // Links are not followed, because a link could refer to a parent folder.
    const auto status = std::filesystem::symlink_status(path, error);
    if (status.type() != std::filesystem::file_type::directory) continue;
    const auto below = ReadFolder(path);
    if (!below) continue;
    if (below->Has(".zarray") || below->Has("zarr.json")) return true;
    if (depth < kDepthTried && HoldsZarr(*below, depth + 1, tried)) return true;
  }
  return false;
}

bool IsZarr(const Folder& folder) {
  if (folder.Has(".zarray") || folder.Has("zarr.json") ||
      folder.Has(".zgroup")) {
    return true;
  }
  // A folder that contains safetensors files is opened as safetensors files,
  // even if it also contains zarr folders.
  if (HasEnding(folder, ".safetensors")) return false;
  size_t tried = 0;
  return HoldsZarr(folder, 0, tried);
}

std::optional<Tree> OpenZarr(const Folder& folder, Findings& findings) {
  return OpenAll(folder, "zarr", std::make_shared<FolderStore>(folder.path),
                 findings);
}

}  // namespace

extern const Format kOcdbtDatabase;
extern const Format kZarrFolder;
const Format kOcdbtDatabase{"OCDBT", IsDatabase, OpenDatabase};
const Format kZarrFolder{"zarr", IsZarr, OpenZarr};

}  // namespace shardc::stored
