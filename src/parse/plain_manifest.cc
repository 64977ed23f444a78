// One pass, with nothing between the text and the manifest. What is unusual
// ends it, so that there is no error to word here:
//
//   {"schema": "shardc.manifest/v1", "params": [
//     {"name": "a/b", "shape": [8, 4], "dtype": "F32"}]}   one tensor
//   ... {"name": "\u0061/b", ...                           not for this reader
//
// Plain are names of printable ASCII without `"` and `\`, which no writer of
// JSON has to look at again.
#include "parse/plain_manifest.h"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "source/plain_text.h"
#include "source/text_order.h"

namespace shardc {
namespace {

constexpr std::string_view kSchemaName = "shardc.manifest/v1";
constexpr size_t kMostDimensions = 8;
// Of a parameter: `"a":{"shape":[],"dtype":null}`.
constexpr size_t kLeastBytes = 30;

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// A type as it is read, without memory of its own.
struct FlatType {
  std::array<int64_t, kMostDimensions> shape{};
  uint8_t rank = 0;
  bool has_shape = false;
  std::optional<Dtype> dtype;

  bool operator==(const FlatType&) const = default;

  size_t Hash() const {
    uint64_t hash = dtype ? static_cast<uint64_t>(*dtype) + 1 : 0;
    hash = hash * 16 + rank;
    for (size_t i = 0; i < rank; ++i) {
      hash = (hash ^ static_cast<uint64_t>(shape[i])) * 0x9E3779B97F4A7C15u;
    }
    return static_cast<size_t>(hash ^ hash >> 32);
  }

  TensorType Type() const {
    TensorType type{{}, dtype};
    if (has_shape) type.shape.emplace(shape.begin(), shape.begin() + rank);
    return type;
  }
};

// The numbers of the types met, first come first.
class TypeNumbers {
 public:
  TypeNumbers() : slots_(kLeastSlots, kFree) {}

  // Nothing where the type's size does not fit.
  std::optional<uint32_t> Of(const FlatType& type) {
    if (!types_.empty() && types_[last_] == type) return last_;
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

  std::vector<TensorType> Take() const {
    std::vector<TensorType> out;
    out.reserve(types_.size());
    for (const FlatType& type : types_) out.push_back(type.Type());
    return out;
  }

 private:
  static constexpr size_t kLeastSlots = 256;
  static constexpr uint32_t kFree = UINT32_MAX;

  static bool Fits(const TensorType& type) {
    if (!type.shape) return true;
    return type.Elements() && (!type.dtype || type.Bytes());
  }

  void Grow() {
    slots_.assign(slots_.size() * 4, kFree);
    for (uint32_t i = 0; i < types_.size(); ++i) {
      size_t at = types_[i].Hash() & (slots_.size() - 1);
      while (slots_[at] != kFree) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = i;
    }
  }

  std::vector<FlatType> types_;
  std::vector<uint32_t> slots_;
  uint32_t last_ = 0;
};

// Each reads what it is called after, and the white space before it; false
// where something else stands there.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool Read(Manifest& manifest) {
    if (!Take('{') || !Members(manifest)) return false;
    SkipSpace();
    return at_ == text_.size() && has_params_ && has_schema_;
  }

  void Reserve(size_t count) {
    names.reserve(count);
    types.reserve(count);
  }

  std::vector<std::string_view> names;
  std::vector<uint32_t> types;
  TypeNumbers numbers;

 private:
  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
  bool Take(char c) {
    if (at_ < text_.size() && text_[at_] != c) SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool TakeWord(std::string_view word) {
    SkipSpace();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  bool Next(char c) {
    SkipSpace();
    return at_ < text_.size() && text_[at_] == c;
  }

  bool String(std::string_view& out) {
    if (!Take('"')) return false;
    const size_t end = EndOfPlain(text_, at_);
    if (end >= text_.size() || text_[end] != '"') return false;
    out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }

  // Up to 18 digits, so that there is nothing to overflow.
  bool Number(int64_t& out) {
    SkipSpace();
    const size_t begin = at_;
    out = 0;
    for (; at_ < text_.size(); ++at_) {
      const auto digit = static_cast<unsigned>(text_[at_] - '0');
      if (digit > 9) break;
      out = out * 10 + static_cast<int64_t>(digit);
      if (at_ - begin >= 18) return false;
    }
    const bool padded = text_[begin] == '0' && at_ - begin > 1;
    return at_ > begin && at_ < text_.size() && !padded;
  }

  bool Members(Manifest& manifest) {
    enum : unsigned {
      kSchema = 1,
      kParams = 2,
      kModel = 4,
      kNaming = 8,
      kSeparator = 16
    };
    unsigned seen = 0;
    const auto first = [&](unsigned key) { return (seen ^= key) & key; };
    std::string_view key, value;
    do {
      if (!String(key) || !Take(':')) return false;
      bool good = false;
      if (key == "params") {
        good = first(kParams) && Params();
      } else if (!String(value)) {
        return false;
      } else if (key == "schema") {
        good = first(kSchema) && value == kSchemaName;
        has_schema_ = true;
      } else if (key == "model") {
        good = first(kModel);
        manifest.model = value;
      } else if (key == "naming") {
        good = first(kNaming);
        manifest.naming = value;
      } else if (key == "separator" && (value == "/" || value == ".")) {
        good = first(kSeparator);
        manifest.separator = value[0];
      }
      if (!good) return false;
    } while (Take(','));
    return Take('}');
  }

  bool Params() {
    has_params_ = true;
    if (Take('[')) {
      // Without a schema its first one tells a list of ours.
      return Take(']') || (Items() && Take(']'));
    }
    return Take('{') && (Take('}') || (NamedItems() && Take('}')));
  }

  bool Items() {
    has_schema_ = true;
    do {
      std::string_view name;
      if (!Take('{') || !Fields(name, kName) || name.empty()) return false;
      names.push_back(name);
    } while (Take(','));
    return true;
  }

  bool NamedItems() {
    do {
      std::string_view name;
      if (!String(name) || name.empty() || !Take(':') || !Take('{') ||
          !Fields(name, 0)) {
        return false;
      }
      names.push_back(name);
    } while (Take(','));
    return true;
  }

  enum : unsigned { kName = 1, kShape = 2, kDtype = 4 };

  // With its last quote and the colon.
  bool TakeKey(std::string_view key) {
    if (text_.substr(at_, key.size()) != key) return false;
    at_ += key.size();
    return Take(':');
  }

  // The members of an object, each once, and its end; its type is kept.
  bool Fields(std::string_view& name, unsigned wanted) {
    wanted |= kShape | kDtype;
    FlatType type;
    unsigned seen = 0;
    do {
      if (!Take('"')) return false;
      unsigned field = 0;
      bool good = false;
      if (TakeKey("name\"")) {
        field = kName;
        good = String(name);
      } else if (TakeKey("shape\"")) {
        field = kShape;
        good = Shape(type);
      } else if (TakeKey("dtype\"")) {
        field = kDtype;
        good = DtypeOf(type);
      }
      if (!good || (seen & field) != 0) return false;
      seen |= field;
    } while (Take(','));
    if (seen != wanted || !Take('}')) return false;
    const auto number = numbers.Of(type);
    if (number) types.push_back(*number);
    return number.has_value();
  }

  bool Shape(FlatType& type) {
    if (Next('n')) return TakeWord("null");
    type.has_shape = true;
    if (!Take('[')) return false;
    if (Take(']')) return true;
    do {
      if (type.rank == kMostDimensions || !Number(type.shape[type.rank++])) {
        return false;
      }
    } while (Take(','));
    return Take(']');
  }

  bool DtypeOf(FlatType& type) {
    if (Next('n')) return TakeWord("null");
    std::string_view text;
    if (!String(text)) return false;
    if (last_dtype_.empty() || text != last_dtype_) {
      const auto dtype = ParseDtype(text);
      if (!dtype) return false;
      last_dtype_ = text;
      dtype_ = *dtype;
    }
    type.dtype = dtype_;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool has_params_ = false;
  bool has_schema_ = false;
  std::string_view last_dtype_;  // empty: none yet
  Dtype dtype_ = Dtype::kF32;
};

}  // namespace

std::optional<Manifest> ReadPlainManifest(const SourceRef& source) {
  Manifest manifest;
  Reader reader(source->text());
  // What is not used of the memory is never touched.
  reader.Reserve(source->text().size() / kLeastBytes);
  if (!reader.Read(manifest)) return std::nullopt;
  TextOrder sorted = OrderOf(reader.names);
  if (!sorted.distinct) return std::nullopt;
  manifest.by_name = std::move(sorted.order);
  manifest.types = reader.numbers.Take();
  manifest.tensors.reserve(reader.names.size());
  for (size_t i = 0; i < reader.names.size(); ++i) {
    manifest.tensors.push_back({reader.names[i], reader.types[i]});
  }
  manifest.source = source;
  return manifest;
}

}  // namespace shardc
