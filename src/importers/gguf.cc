// Reads the header of GGUF files, versions 2 and 3. A file consists of a magic,
// the version, counts, key-value pairs, descriptions of tensors, padding, and
// the data. The length of the header is not stored, so the first bytes of the
// file (a prefix) are parsed. If the header is longer than the prefix, a prefix
// of twice the size is parsed from the start.
//
// Example: the fields `GGUF`, 3, 1 tensor, 0 pairs, `w`, 2 dimensions [4, 8],
// type 0, offset 0 describe one tensor `w` of shape [8, 4] in F32.
//
// Lengths and counts come from the file, so each is compared with the rest of
// the file before memory is allocated.
#include "importers/manifest.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include "importers/safetensors_set.h"
#include "importers/set_folder.h"
#include "model/dtype.h"
#include "model/manifest.h"
#include "model/name.h"
#include "source/file.h"
#include "source/input_file.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::gguf {
namespace {

// A data type and its number in ggml. The numbers 4, 5, 31 to 33 and 36 to 38
// are absent, because ggml has removed their types.
struct GgmlType {
  uint32_t id;
  Dtype dtype;
};

inline constexpr GgmlType kTypes[] = {
    {0, Dtype::kF32},    {1, Dtype::kF16},     {2, block::kQ4_0},
    {3, block::kQ4_1},   {6, block::kQ5_0},    {7, block::kQ5_1},
    {8, block::kQ8_0},   {9, block::kQ8_1},    {10, block::kQ2K},
    {11, block::kQ3K},   {12, block::kQ4K},    {13, block::kQ5K},
    {14, block::kQ6K},   {15, block::kQ8K},    {16, block::kIq2Xxs},
    {17, block::kIq2Xs}, {18, block::kIq3Xxs}, {19, block::kIq1S},
    {20, block::kIq4Nl}, {21, block::kIq3S},   {22, block::kIq2S},
    {23, block::kIq4Xs}, {24, Dtype::kI8},     {25, Dtype::kI16},
    {26, Dtype::kI32},   {27, Dtype::kI64},    {28, Dtype::kF64},
    {29, block::kIq1M},  {30, Dtype::kBF16},   {34, block::kTq1_0},
    {35, block::kTq2_0}, {39, block::kMxfp4},
};

// The types of metadata values that the reader of GGUF distinguishes.
enum ValueType : uint32_t {
  kUint32 = 4,
  kInt32 = 5,  // types 0 to 5 are integers of 8, 16 and 32 bits
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kValueTypes = 13,
};
// The number of bytes of a metadata value, indexed by ValueType. It is 0 for
// strings and arrays, which have no fixed size.
inline constexpr std::array<size_t, kValueTypes> kValueBytes = {
    1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

}  // namespace
}  // namespace shardc::gguf

// Translates metadata of GGUF files. Names of keys begin with the architecture:
//
//   general.architecture = llama       "model_type": "llama"
//   llama.attention.head_count = 32    "num_attention_heads": 32
//   llama.attention.head_count_kv = 8  "num_key_value_heads": 8
//
// Models whose layers differ (DeciLM, OpenELM) have an array of one number for
// each layer in place of a number.

namespace shardc {
namespace {

class GgufConfig {
 public:
  // Takes one pair of the metadata. `value` has the bytes of the value without
  // its type, which is `type`. Keys and types that are not translated are
  // ignored.
  void Take(std::string_view key, uint32_t type, std::string_view value);

  // Returns the text of a config.json, or an empty text if the file does not
  // state a number of heads, or if its attention keeps latent rows, whose keys
  // have other meanings in files of different ages.
  //
  // The number of layers is left out for models of which the keys do not say
  // which layers have full attention: those with windows, with state-space
  // blocks, or with layers without attention. Figures that need it, such as the
  // bytes of a KV cache, are then not known.
  std::string Json() const;

 private:
  std::string architecture_;
  // The integers of the translated keys by the key's name in a config.json. A
  // key with a value for each layer has several.
  std::map<std::string_view, std::vector<int64_t>> sizes_;
  bool latent_ = false;
  // Whether the layers have kinds that the keys do not assign to them.
  bool mixed_ = false;
};

using enum gguf::ValueType;

struct Translated {
  std::string_view key;   // without the architecture
  std::string_view name;  // in a config.json
};
constexpr Translated kTranslated[] = {
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.value_length", "v_head_dim"},
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"expert_count", "num_local_experts"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_used_count", "num_experts_per_tok"},
    {"feed_forward_length", "intermediate_size"},
    {"vocab_size", "vocab_size"},
};
constexpr std::string_view kLatent = "attention.kv_lora_rank";
// Keys of models that have several kinds of layers begin with these.
constexpr std::string_view kMixed[] = {"attention.sliding_window",
                                       "attention.chunk",
                                       "attention.shared_kv_layers",
                                       "ssm.",
                                       "shortconv.",
                                       "wkv.",
                                       "encoder.",
                                       "decoder_block_count",
                                       "nextn_predict_layers"};

// More layers than this are not read.
constexpr uint64_t kMaxLayers = 4096;
constexpr int64_t kMaxSize = (int64_t{1} << 31) - 1;

// Returns the integers of a value, which is one or an array of them; an empty
// list for other values and for integers that are no size.
std::vector<int64_t> SizesOf(uint32_t type, std::string_view value) {
  uint64_t count = 1;
  if (type == kArray) {
    if (value.size() < 12) return {};
    type = static_cast<uint32_t>(LittleEndian(value.substr(0, 4)));
    count = LittleEndian(value.substr(4, 8));
    value.remove_prefix(12);
  }
  const bool integer = type <= kInt32 || type == kUint64 || type == kInt64;
  if (!integer || count > kMaxLayers) return {};
  const size_t bytes = gguf::kValueBytes[type];
  if (value.size() != count * bytes) return {};
  std::vector<int64_t> out;
  for (; !value.empty(); value.remove_prefix(bytes)) {
    const uint64_t one = LittleEndian(value.substr(0, bytes));
    if (one > kMaxSize) return {};
    out.push_back(static_cast<int64_t>(one));
  }
  return out;
}

bool AllEqual(const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](int64_t one) { return one == values.front(); });
}

void GgufConfig::Take(std::string_view key, uint32_t type,
                      std::string_view value) {
  if (key == "general.architecture") {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyz0123456789_-";
    if (type != kString || value.size() < 8) return;
    value.remove_prefix(8);
    if (value.find_first_not_of(kPlain) == value.npos) architecture_ = value;
    return;
  }
  const size_t dot = key.find('.');
  if (dot == key.npos) return;
  const std::string_view rest = key.substr(dot + 1);
  latent_ |= rest == kLatent;
  mixed_ |= std::any_of(std::begin(kMixed), std::end(kMixed),
                        [&](auto& one) { return rest.starts_with(one); });
  for (const Translated& one : kTranslated) {
    if (one.key != rest) continue;
    if (auto sizes = SizesOf(type, value); !sizes.empty()) {
      sizes_[one.name] = std::move(sizes);
    }
  }
}

std::string GgufConfig::Json() const {
  if (latent_ || !sizes_.contains("num_attention_heads")) return {};
  bool mixed = mixed_;
  std::string out = "{\"model_type\": \"" + architecture_ + '"';
  for (const auto& [name, all] : sizes_) {
    std::vector<int64_t> sizes = all;
    // Layers without heads have no attention.
    mixed |= std::erase(sizes, 0) > 0;
    if (sizes.empty()) continue;
    if (name == "num_hidden_layers") continue;
    out += ", \"" + std::string(name) + "\": ";
    if (AllEqual(sizes)) {
      out += std::to_string(sizes.front());
      continue;
    }
    char before = '[';
    for (const int64_t one : sizes) {
      out += before + std::to_string(one);
      before = ',';
    }
    out += ']';
  }
  const auto layers = sizes_.find("num_hidden_layers");
  if (!mixed && layers != sizes_.end() && layers->second.size() == 1) {
    out += ", \"num_hidden_layers\": " + std::to_string(layers->second.front());
  }
  return out + '}';
}

using gguf::GgmlType;
using gguf::kTypes;
using gguf::kValueBytes;
using enum gguf::ValueType;

constexpr size_t kFirstPiece = size_t{1} << 20;
constexpr size_t kMaxGgufHeader = size_t{1} << 28;
constexpr int kMaxNesting = 16;
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kMaxSplit = (uint64_t{1} << 31) - 1;

struct Stored {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::kF32;
  int64_t offset = 0;
  int64_t bytes = 0;
};

enum class Need { kNothing, kMore };

class GgufHeaderReader {
 public:
  // `text` contains the first bytes of a file of `size` bytes.
  GgufHeaderReader(std::string_view text, int64_t size, Place place,
                   Findings& findings)
      : text_(text),
        size_(static_cast<uint64_t>(size)),
        place_(std::move(place)),
        findings_(findings) {}

  bool Read() { return ReadStart() && ReadKeys() && ReadTensors(); }
  // States why Read has returned false. The value is kMore if Read needs a
  // longer prefix of the file, and kNothing if Read has added a finding.
  Need need() const { return need_; }
  const GgufSplit& split() const { return split_; }

  bool CheckData(bool header_only) const;
  Manifest Take() const;

 private:
  bool Refuse(const Code& code, std::string message, std::string help = {}) {
    findings_.Add(code, place_, std::move(message), std::move(help));
    return false;
  }

  // Returns whether the prefix contains `count` more bytes. If not, sets
  // need(), or reports that the file is truncated.
  bool Has(uint64_t count) {
    if (count <= text_.size() - at_) return true;
    if (count <= size_ - at_) {
      need_ = Need::kMore;
      return false;
    }
    return Refuse(code::kHeader,
                  "the header is cut off at byte " +
                      CountText(static_cast<int64_t>(size_)),
                  "copy or download the file again");
  }

  template <typename T>
  bool Integer(T* out) {
    if (!Has(sizeof(T))) return false;
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<T>(
          static_cast<T>(static_cast<unsigned char>(text_[at_ + i])) << 8 * i);
    }
    *out = value;
    at_ += sizeof(T);
    return true;
  }

  // Reads the number of items of a list. Each item needs at least one byte, so
  // a number above the number of remaining bytes is refused. The number 1 is
  // accepted even if no byte remains. Reading the item then reports that the
  // file is truncated.
  bool Count(std::string_view what, uint64_t* out) {
    if (!Integer(out)) return false;
    const uint64_t left = size_ - at_;
    if (*out <= left || *out <= 1) return true;
    return Refuse(
        code::kLimit,
        std::string(what) + " is " + std::to_string(*out) + ", and " +
            Counted(static_cast<int64_t>(left), "byte is", "bytes are") +
            " left in the file",
        "copy or download the file again");
  }

  bool String(std::string_view what, std::string* out) {
    uint64_t length = 0;
    if (!Count(std::string("the length of ") + std::string(what), &length) ||
        !Has(length)) {
      return false;
    }
    *out = std::string(text_.substr(at_, length));
    at_ += length;
    if (!IsUtf8(*out)) {
      return Refuse(code::kEncoding, std::string(what) + " is not UTF-8");
    }
    // A text with a NUL is refused, because C programs would read only the
    // characters before the NUL.
    if (out->find('\0') == std::string::npos) return true;
    return Refuse(code::kName, std::string(what) + " holds a NUL");
  }

  bool ReadStart();
  bool ReadKeys();
  bool ReadAlignment(uint32_t type);
  bool ReadSplit(const std::string& key, uint32_t type);
  bool ReadConfig(const std::string& key, uint32_t type);
  bool SkipValue(uint32_t type, int depth);
  bool SkipText();
  bool SkipNumbers(uint32_t type, uint64_t bytes);
  bool ReadTensors();
  bool ReadTensor();
  bool ReadShape(Stored& tensor);
  bool MeasureTensor(Stored& tensor, uint32_t type);

  std::string_view text_;
  uint64_t size_;
  Place place_;
  Findings& findings_;
  Need need_ = Need::kNothing;
  size_t at_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  uint64_t alignment_ = 32;
  GgufSplit split_;
  GgufConfig config_;
  std::vector<Stored> tensors_;
  std::unordered_set<std::string> keys_;
  std::unordered_set<std::string> names_;
};

bool GgufHeaderReader::ReadStart() {
  if (text_.size() < 4) {
    return Refuse(code::kHeader,
                  "a GGUF file begins with `GGUF`, and this one"
                  " holds " +
                      Counted(static_cast<int64_t>(size_), "byte"));
  }
  if (text_.starts_with("FUGG")) {
    return Refuse(code::kHeader, "the file's bytes are swapped (`FUGG`)");
  }
  if (!text_.starts_with("GGUF")) {
    return Refuse(code::kHeader,
                  "a GGUF file begins with `GGUF`, and this one"
                  " does not");
  }
  at_ = 4;
  uint32_t version = 0;
  if (!Integer(&version)) return false;
  if (version != 2 && version != 3) {
    const uint32_t swapped = __builtin_bswap32(version);
    if (swapped == 2 || swapped == 3) {
      return Refuse(code::kHeader, "this is a big-endian GGUF file",
                    "convert it to little-endian first");
    }
    return Refuse(code::kHeader,
                  "GGUF version " + std::to_string(version) + " is not known",
                  "versions 2 and 3 are read");
  }
  return Count("the number of tensors", &tensor_count_) &&
         Count("the number of keys", &key_count_);
}

bool GgufHeaderReader::ReadKeys() {
  for (uint64_t i = 0; i < key_count_; ++i) {
    std::string key;
    if (!String("a key", &key)) return false;
    if (key.empty()) return Refuse(code::kHeader, "a key is empty");
    if (!keys_.insert(key).second) {
      return Refuse(code::kDuplicateKey,
                    "the key `" + key + "` is there twice");
    }
    uint32_t type = 0;
    if (!Integer(&type)) return false;
    const bool read = key == "general.alignment"  ? ReadAlignment(type)
                      : key.starts_with("split.") ? ReadSplit(key, type)
                                                  : ReadConfig(key, type);
    if (!read) return false;
  }
  return true;
}

bool GgufHeaderReader::ReadAlignment(uint32_t type) {
  if (type != kUint32) {
    return Refuse(code::kAlignment, "`general.alignment` is of type " +
                                        std::to_string(type) +
                                        " and not a 32-bit unsigned integer");
  }
  uint32_t value = 0;
  if (!Integer(&value)) return false;
  if (value == 0 || value % 8 != 0) {
    return Refuse(code::kAlignment, "`general.alignment` is " +
                                        std::to_string(value) +
                                        ", not a multiple of 8");
  }
  alignment_ = value;
  return true;
}

// Reads a metadata value `split.*`. llama.cpp writes UINT16 and INT32. Values
// of any integer type are accepted if they are from 0 to 2^31 - 1.
bool GgufHeaderReader::ReadSplit(const std::string& key, uint32_t type) {
  std::optional<int64_t>* out = key == "split.no"              ? &split_.number
                                : key == "split.count"         ? &split_.count
                                : key == "split.tensors.count" ? &split_.tensors
                                                               : nullptr;
  const size_t start = at_;
  if (!SkipValue(type, 0)) return false;
  if (out == nullptr) return true;
  const size_t bytes = type < kValueTypes ? kValueBytes[type] : 0;
  const bool integer = type <= kInt32 || type == kUint64 || type == kInt64;
  uint64_t value = 0;
  for (size_t i = bytes; i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(text_[start + i - 1]);
  }
  if (!integer || value > kMaxSplit) {
    return Refuse(code::kNumber,
                  "`" + key + "` is not an integer from 0 to 2^31 - 1");
  }
  *out = static_cast<int64_t>(value);
  return true;
}

bool GgufHeaderReader::ReadConfig(const std::string& key, uint32_t type) {
  const size_t start = at_;
  if (!SkipValue(type, 0)) return false;
  config_.Take(key, type, text_.substr(start, at_ - start));
  return true;
}

bool GgufHeaderReader::SkipText() {
  uint64_t length = 0;
  if (!Count("the length of a text", &length) || !Has(length)) return false;
  at_ += length;
  return true;
}

bool GgufHeaderReader::SkipNumbers(uint32_t type, uint64_t bytes) {
  if (!Has(bytes)) return false;
  const std::string_view values = text_.substr(at_, bytes);
  at_ += bytes;
  if (type != kBool) return true;
  const size_t wrong = values.find_first_not_of(std::string_view("\0\1", 2));
  if (wrong == std::string_view::npos) return true;
  return Refuse(code::kNumber,
                "a boolean is " +
                    std::to_string(static_cast<unsigned char>(values[wrong])) +
                    ", neither 0 nor 1");
}

bool GgufHeaderReader::SkipValue(uint32_t type, int depth) {
  if (type >= kValueTypes) {
    return Refuse(code::kHeader,
                  "the value type " + std::to_string(type) + " is not known");
  }
  if (type == kString) return SkipText();
  if (type != kArray) return SkipNumbers(type, kValueBytes[type]);
  if (depth >= kMaxNesting) {
    return Refuse(code::kLimit, "arrays are nested more than " +
                                    std::to_string(kMaxNesting) +
                                    " levels deep");
  }
  uint32_t element = 0;
  uint64_t count = 0;
  if (!Integer(&element) || !Count("the length of an array", &count)) {
    return false;
  }
  if (element >= kValueTypes) return SkipValue(element, depth);
  const size_t bytes = kValueBytes[element];
  if (bytes > 0) {
    if (count > (size_ - at_) / bytes) {
      return Refuse(code::kLimit,
                    "an array of " + std::to_string(count) +
                        " elements is longer than what is left of the file");
    }
    return SkipNumbers(element, count * bytes);
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (!SkipValue(element, depth + 1)) return false;
  }
  return true;
}

bool GgufHeaderReader::ReadTensors() {
  for (uint64_t i = 0; i < tensor_count_; ++i) {
    if (!ReadTensor()) return false;
  }
  return true;
}

bool GgufHeaderReader::ReadTensor() {
  Stored tensor;
  if (!String("a tensor's name", &tensor.name)) return false;
  if (std::string fault = ParameterNameFault(tensor.name); !fault.empty()) {
    return Refuse(code::kName, std::move(fault));
  }
  if (!names_.insert(tensor.name).second) {
    return Refuse(code::kDuplicateKey,
                  "the tensor `" + tensor.name + "` is described twice");
  }
  uint32_t type = 0;
  uint64_t offset = 0;
  if (!ReadShape(tensor) || !Integer(&type) || !Integer(&offset)) return false;
  if (offset > size_) {
    return Refuse(code::kOffsets, "the data of `" + tensor.name +
                                      "` begins at " + std::to_string(offset) +
                                      ", outside the file");
  }
  tensor.offset = static_cast<int64_t>(offset);
  if (!MeasureTensor(tensor, type)) return false;
  tensors_.push_back(std::move(tensor));
  return true;
}

bool GgufHeaderReader::ReadShape(Stored& tensor) {
  uint32_t rank = 0;
  if (!Integer(&rank)) return false;
  if (rank > kMaxDimensions) {
    return Refuse(
        code::kLimit,
        "`" + tensor.name + "` has " + std::to_string(rank) + " dimensions",
        "GGUF tensors have four at most");
  }
  for (uint32_t i = 0; i < rank; ++i) {
    uint64_t size = 0;
    if (!Integer(&size)) return false;
    if (size == 0) {
      return Refuse(code::kNumber, "a dimension of `" + tensor.name + "` is 0");
    }
    if (size > uint64_t{INT64_MAX}) {
      return Refuse(code::kOverflow, "a dimension of `" + tensor.name +
                                         "` is " + std::to_string(size));
    }
    tensor.shape.push_back(static_cast<int64_t>(size));
  }
  // GGUF stores the innermost dimension first. Manifests store the outermost
  // dimension first.
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  return true;
}

bool GgufHeaderReader::MeasureTensor(Stored& tensor, uint32_t type) {
  const auto known = std::find_if(
      std::begin(kTypes), std::end(kTypes),
      [&](const GgmlType& candidate) { return candidate.id == type; });
  if (known == std::end(kTypes)) {
    return Refuse(code::kDtype, "the data type " + std::to_string(type) +
                                    " of `" + tensor.name + "` is not known");
  }
  tensor.dtype = known->dtype;
  const int64_t innermost = tensor.shape.empty() ? 1 : tensor.shape.back();
  const std::optional<int64_t> elements = CheckedProduct(tensor.shape);
  const std::optional<int64_t> bytes =
      elements ? BytesOf(*elements, tensor.dtype) : std::nullopt;
  if (!bytes) {
    return Refuse(code::kOverflow, "the size of `" + tensor.name +
                                       "` of shape " + ShapeText(tensor.shape) +
                                       " does not fit in 64 bits");
  }
  const int64_t block = BlockElements(tensor.dtype);
  if (innermost % block != 0) {
    return Refuse(code::kSize,
                  "the last dimension of `" + tensor.name + "` is " +
                      std::to_string(innermost) + ", not a multiple of the " +
                      std::to_string(block) + " elements of a block of " +
                      std::string(DtypeName(tensor.dtype)));
  }
  tensor.bytes = *bytes;
  return true;
}

// Checks that the data ranges are aligned and disjoint. Also checks that they
// are inside the file, unless `header_only` is true.
bool GgufHeaderReader::CheckData(bool header_only) const {
  const auto refuse = [&](const Code& code, std::string message) {
    findings_.Add(code, place_, std::move(message));
    return false;
  };
  const auto align = static_cast<int64_t>(alignment_);
  const int64_t start = (static_cast<int64_t>(at_) + align - 1) / align * align;
  std::vector<const Stored*> order;
  for (const Stored& tensor : tensors_) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const Stored* a, const Stored* b) {
    return a->offset < b->offset;
  });
  int64_t end = 0;
  for (const Stored* tensor : order) {
    if (tensor->offset % align != 0) {
      return refuse(code::kOffsets, "the data of `" + tensor->name +
                                        "` begins at " +
                                        CountText(tensor->offset) +
                                        ", not a multiple of the alignment " +
                                        CountText(align));
    }
    if (tensor->offset < end) {
      return refuse(code::kOffsets, "the data of `" + tensor->name +
                                        "` overlaps that of another tensor");
    }
    const auto next = CheckedAdd(tensor->offset, tensor->bytes);
    const auto last = next ? CheckedAdd(start, *next) : std::nullopt;
    if (!last || (!header_only && *last > static_cast<int64_t>(size_))) {
      return refuse(code::kOffsets,
                    "the data of `" + tensor->name + "` ends outside the file");
    }
    end = *next;
  }
  return true;
}

Manifest GgufHeaderReader::Take() const {
  ManifestBuilder builder;
  for (const Stored& tensor : tensors_) {
    builder.Add(tensor.name, {tensor.shape, tensor.dtype});
  }
  Manifest manifest = builder.Take();
  manifest.source = place_.source;
  manifest.naming = "gguf";
  manifest.config = config_.Json();
  return manifest;
}

std::optional<Manifest> Finish(GgufHeaderReader& reader, bool header_only) {
  if (!reader.CheckData(header_only)) return std::nullopt;
  return reader.Take();
}

}  // namespace

bool IsGguf(std::string_view first_bytes) {
  return first_bytes.starts_with("GGUF") || first_bytes.starts_with("FUGG");
}

std::optional<Manifest> ReadGgufFile(const std::string& path, bool header_only,
                                     GgufSplit* split, Findings& findings) {
  const auto file = InputFile::Open(path, findings);
  if (!file) return std::nullopt;
  const Place place{MakeSource(path, {})};
  for (size_t piece = kFirstPiece; piece <= kMaxGgufHeader; piece *= 2) {
    const auto text = file->Head(piece, findings);
    if (!text) return std::nullopt;
    GgufHeaderReader reader(*text, file->size(), place, findings);
    if (reader.Read()) {
      *split = reader.split();
      return Finish(reader, header_only);
    }
    if (reader.need() == Need::kNothing) return std::nullopt;
  }
  findings.Add(code::kLimit, place,
               "the header is longer than " +
                   BytesText(static_cast<int64_t>(kMaxGgufHeader)));
  return std::nullopt;
}

std::optional<Manifest> ParseGguf(const SourceRef& source, bool header_only,
                                  Findings& findings) {
  GgufHeaderReader reader(source->text(),
                          static_cast<int64_t>(source->text().size()),
                          Place{MakeSource(source->name(), {})}, findings);
  if (!reader.Read()) return std::nullopt;
  if (const auto count = reader.split().count; count && *count > 1) {
    findings.Add(code::kUsage, Place{MakeSource(source->name(), {})},
                 "this is one of the " + CountText(*count) +
                     " files of a model, not all of it",
                 "give the path of one of the files: the others are read from "
                 "the same folder");
    return std::nullopt;
  }
  return Finish(reader, header_only);
}

// Reads a set of GGUF files. llama.cpp splits a model into files
// `NAME-00001-of-00003.gguf`, and loads the complete model if the user passes
// the name of one of them. shardc does the same, and the other files must be in
// the same folder. The metadata of a file may also state its number and the
// number of files. Both must then agree with the file's name:
//
//   llama-00001-of-00003.gguf, and 00002 is absent  ->  1 file is missing

namespace {

class GgufSetReader {
 public:
  // `name` is the name of one file of the set, which is in `folder`. `folder`
  // ends in a slash or is empty.
  GgufSetReader(std::string folder, const NumberedName& name, bool header_only,
                Findings& findings)
      : folder_(std::move(folder)),
        name_(name),
        header_only_(header_only),
        findings_(findings) {}

  std::optional<Manifest> Read() {
    const std::string place = folder_.empty() ? "." : folder_;
    std::error_code error;
    const auto names = NamesIn(place, error);
    if (!names) {
      findings_.Add(code::kUnreadable, Place{MakeSource(place, {})},
                    "cannot list `" + place + "`: " + error.message());
      return std::nullopt;
    }
    const auto files = FilesOfSeries(name_, *names);
    if (RefuseGaps(Place{MakeSource(place, {})}, files, findings_)) {
      return std::nullopt;
    }
    for (const std::string& file : files) {
      if (!IsInFolder(place, folder_ + file, findings_) || !Add(file)) {
        return std::nullopt;
      }
      ++number_;
    }
    return Finish();
  }

 private:
  bool Refuse(const std::string& file, const Code& code, std::string message) {
    findings_.Add(code, Place{MakeSource(folder_ + file, {})},
                  "`" + file + "` " + std::move(message),
                  "download the files again: they are not of one set");
    return false;
  }

  bool Add(const std::string& file) {
    GgufSplit split;
    const auto part =
        ReadGgufFile(folder_ + file, header_only_, &split, findings_);
    if (!part) return false;
    if (split.number.value_or(number_) != number_ ||
        split.count.value_or(name_.count) != name_.count) {
      return Refuse(file, code::kMissing,
                    "has the number " +
                        CountText(split.number.value_or(number_) + 1) + " of " +
                        CountText(split.count.value_or(name_.count)) +
                        " in its metadata");
    }
    if (number_ > 0 && split.tensors != tensors_) {
      return Refuse(file, code::kMissing,
                    "states another number of tensors than the first file");
    }
    // The metadata of the model is in the first file.
    if (number_ == 0) config_ = part->config;
    tensors_ = split.tensors;
    for (const Tensor& tensor : part->tensors) {
      if (!known_.emplace(tensor.name).second) {
        return Refuse(file, code::kDuplicateKey,
                      "holds `" + std::string(tensor.name) +
                          "`, which an earlier file holds, too");
      }
      builder_.Add(tensor.name, part->TypeOf(tensor));
    }
    last_ = file;
    return true;
  }

  std::optional<Manifest> Finish() {
    const auto count = static_cast<int64_t>(known_.size());
    if (tensors_ && *tensors_ != count) {
      Refuse(last_, code::kTensorMissing,
             "and the other files hold " + Counted(count, "tensor") + " of " +
                 CountText(*tensors_));
      return std::nullopt;
    }
    Manifest manifest = builder_.Take();
    manifest.source = MakeSource(folder_ + last_, {});
    manifest.naming = "gguf";
    manifest.config = std::move(config_);
    return manifest;
  }

  std::string folder_;
  const NumberedName& name_;
  bool header_only_;
  Findings& findings_;
  ManifestBuilder builder_;
  std::unordered_set<std::string> known_;
  // The number of tensors in all files, as the metadata of the last file that
  // was read states it.
  std::optional<int64_t> tensors_;
  std::string config_;
  int64_t number_ = 0;  // index of the next file, counted from 0
  std::string last_;
};

}  // namespace

std::optional<Manifest> ReadGguf(const std::string& path, bool header_only,
                                 Findings& findings) {
  GgufSplit split;
  auto alone = ReadGgufFile(path, header_only, &split, findings);
  if (!alone) return std::nullopt;
  const size_t slash = path.rfind('/');
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  const std::string base = path.substr(begin);
  const auto name = ParseNumberedName(base);
  const bool numbered = name && name->suffix == ".gguf";
  const int64_t stated = split.count.value_or(0);
  if (stated <= 1 && (!numbered || name->count == 1)) return alone;
  if (numbered) {
    return GgufSetReader(path.substr(0, begin), *name, header_only, findings)
        .Read();
  }
  findings.Add(code::kUsage, Place{MakeSource(path, {})},
               "`" + base + "` is one of the " + CountText(stated) +
                   " files of a model, and its name does not have the form "
                   "`NAME-00001-of-00005.gguf`",
               "rename the files as llama.cpp does, so that the others are "
               "found");
  return std::nullopt;
}

}  // namespace shardc
