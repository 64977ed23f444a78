// A fast reader of manifests in the usual syntax. It builds the manifest in one
// pass over the text. At any other syntax it stops, and the full parser reads
// the file instead. This reader therefore never has to report an error. It
// reads only names of printable ASCII without `"` and `\`, which JSON writes
// without escapes. For example:
//
//   {"schema": "shardc.manifest/v1", "params": [
//     {"name": "a/b", "shape": [8, 4], "dtype": "F32"}]}   one tensor
//   ... {"name": "\u0061/b", ...      an escape: the full parser reads the file
//
// A large file is read through a window (a buffer that moves through the file).
// If a parameter or a member continues after the end of the window, the window
// is moved to the beginning of the parameter or member. The parameter or member
// is then read again.
//
// The text between a name and the next name is called a tail:
//
//   ", "shape": [8, 4], "dtype": "F32"}, {"name": "
//
// Most tails repeat an earlier tail, because many parameters have the same
// shape and dtype. The reader keeps the last few tails together with the type
// (dtype and shape) that each contains. It compares the text with these tails
// before it parses the text.
#include "parse/manifest.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "model/name.h"
#include "source/plain_json.h"
#include "source/source.h"
#include "source/text_order.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Reads one parameter of a manifest: an object with the members `dtype` and
// `shape`. In the list form of a manifest, the object also has the member
// `name`. The members may be in any order, and each must occur exactly once. A
// pair of dtype and shape is called a type, and each distinct type gets a
// number:
//
//   {"dtype": "F32", "shape": [8, 4]}  ->  type 0, if this is the first type
//                                          that the manifest contains

// Collects the parameters of a manifest. Each distinct type (dtype and shape)
// gets a number.
class PlainLeaves {
 public:
  // Reserves space for as many parameters as a text of `text_bytes` bytes can
  // contain. The operating system assigns no physical memory to the unused
  // part.
  void ReserveFor(size_t text_bytes);

  // Reads the rest of an object after its opening brace and sets `type` to the
  // number of the parameter's type. Returns false in these cases: a member is
  // missing, unknown or repeated, ParseDtype cannot parse the dtype, FlatType
  // cannot parse the shape, or a size overflows.
  bool Take(PlainJson& json, uint32_t& type) {
    return Fields(json, nullptr, type);
  }
  bool TakeNamed(PlainJson& json, std::string_view& name, uint32_t& type) {
    return Fields(json, &name, type);
  }

  std::vector<Tensor> tensors;
  TypeNumbers numbers;

 private:
  bool Fields(PlainJson& json, std::string_view* name, uint32_t& type);
  bool DtypeOf(PlainJson& json, FlatType& type);

  // The text of the dtype that was read last; empty at first. It is a copy,
  // because the text's buffer is overwritten when more of the file is read.
  std::string last_dtype_;
  Dtype dtype_ = Dtype::kF32;
};

bool TakeShape(PlainJson& json, FlatType& type) {
  if (json.Next('n')) return json.TakeWord("null");
  return type.TakeShape(json);
}

void PlainLeaves::ReserveFor(size_t text_bytes) {
  // The length of the shortest possible parameter,
  // `"a":{"shape":[],"dtype":null},`.
  constexpr size_t kLeastBytes = 30;
  tensors.reserve(text_bytes / kLeastBytes);
}

bool PlainLeaves::Fields(PlainJson& json, std::string_view* name,
                         uint32_t& number) {
  enum : unsigned { kName = 1, kShape = 2, kDtype = 4 };
  const unsigned wanted = (name == nullptr ? 0U : kName) | kShape | kDtype;
  FlatType type;
  unsigned seen = 0;
  do {
    if (!json.Take('"')) return false;
    unsigned field = 0;
    bool good = false;
    if (name != nullptr && json.TakeKey("name\"")) {
      field = kName;
      good = json.String(*name);
    } else if (json.TakeKey("shape\"")) {
      field = kShape;
      good = TakeShape(json, type);
    } else if (json.TakeKey("dtype\"")) {
      field = kDtype;
      good = DtypeOf(json, type);
    }
    if (!good || (seen & field) != 0) return false;
    seen |= field;
  } while (json.Take(','));
  if (seen != wanted || !json.Take('}')) return false;
  const auto known = numbers.Of(type);
  number = known.value_or(0);
  return known.has_value();
}

bool PlainLeaves::DtypeOf(PlainJson& json, FlatType& type) {
  if (json.Next('n')) return json.TakeWord("null");
  std::string_view text;
  if (!json.String(text)) return false;
  if (last_dtype_.empty() || text != last_dtype_) {
    const auto dtype = ParseDtype(text);
    if (!dtype) return false;
    last_dtype_ = text;
    dtype_ = *dtype;
  }
  type.dtype = dtype_;
  return true;
}

// Moves the tensors and types into `manifest` and sets its `by_name`. Returns
// false if a name occurs twice.
bool TakeTensors(PlainLeaves leaves, Manifest& manifest) {
  manifest.tensors = std::move(leaves.tensors);
  TextOrder sorted = OrderOf(NamesOf(manifest.tensors));
  if (!sorted.distinct) return false;
  manifest.by_name = std::move(sorted.order);
  manifest.plain_names = true;
  manifest.types = leaves.numbers.Take();
  return true;
}

// A fast reader of parameter trees in the usual syntax, in one pass. An object
// is a leaf (a parameter) if its first key is `shape` or `dtype`, and the value
// of this key is not an object. Outside of leaves, the reader stops at a value
// that is not an object, and at a duplicate key. The full parser then reads the
// file instead. If a name consists of several keys, the joined name is stored:
//
//   {"a": {"b": {"shape": [2], "dtype": "F32"}}}  ->  `a/b`, joined and stored
//   {"a.b": {"shape": [2], "dtype": "F32"}}       ->  `a.b`, a view into the
//                                                     text

constexpr int kDeepest = 64;

class TreeReader {
 public:
  TreeReader(std::string_view text, TextStore& texts)
      : json_(text), texts_(texts) {
    leaves.ReserveFor(text.size());
  }

  bool Read() {
    return json_.Take('{') && Branch(0) && json_.End() &&
           !leaves.tensors.empty();
  }

  PlainLeaves leaves;
  bool joined = false;  // whether a name was joined from several keys

 private:
  // Reads the members of an object after its opening brace.
  bool Branch(int depth) {
    if (depth == kDeepest) return false;
    if (json_.Take('}')) return true;
    const size_t first_key = keys_.size();
    const size_t first_name = leaves.tensors.size();
    const size_t prefix = path_.empty() ? 0 : path_.size() + 1;
    bool branches = false;
    do {
      std::string_view key;
      if (!json_.String(key) || key.empty() || !json_.Take(':') ||
          !json_.Take('{')) {
        return false;
      }
      const size_t above = path_.size();
      AppendItem(path_, "/", key);
      if (AtLeaf()) {
        uint32_t type = 0;
        if (!leaves.Take(json_, type)) return false;
        Add(key, depth, type);
      } else {
        if (!branches) KeepKeys(first_name, prefix);
        branches = true;
        if (!Branch(depth + 1)) return false;
      }
      if (branches) keys_.push_back(key);
      path_.resize(above);
    } while (json_.Take(','));
    // Keys are compared only in an object that contains branches. If all
    // members are leaves, a duplicate key causes a duplicate name, which
    // TakeTensors detects.
    if (!AreDistinct(std::span(keys_).subspan(first_key))) return false;
    keys_.resize(first_key);
    return json_.Take('}');
  }

  // Stores the keys of the members that precede an object's first branch. These
  // members are leaves, so each key is the last part of a leaf's name.
  void KeepKeys(size_t first_name, size_t prefix) {
    for (size_t i = first_name; i < leaves.tensors.size(); ++i) {
      keys_.push_back(leaves.tensors[i].name.substr(prefix));
    }
  }

  // Returns whether the object is a leaf: its first key is `shape` or `dtype`,
  // and the value of this key is not an object. Otherwise the key may name a
  // branch.
  bool AtLeaf() const {
    PlainJson ahead = json_;
    if (!ahead.Take('"')) return false;
    const bool typed = ahead.TakeKey("shape\"") || ahead.TakeKey("dtype\"");
    return typed && !ahead.Next('{');
  }

  void Add(std::string_view key, int depth, uint32_t type) {
    joined = joined || depth > 0;
    leaves.tensors.push_back({depth > 0 ? texts_.Keep(path_) : key, type});
  }

  PlainJson json_;
  TextStore& texts_;
  std::string path_;
  // The keys read so far in each open object that has at least one branch.
  std::vector<std::string_view> keys_;
};

// Returns the manifest that ParseManifest would return, with `by_name` set, if
// the text is a tree in the usual syntax. The leaves of the tree are objects
// with `shape` and `dtype`. Returns nullopt for any other text, even if it is
// valid.
std::optional<Manifest> ReadPlainTree(const SourceRef& source) {
  auto texts = std::make_shared<TextStore>();
  TreeReader reader(source->text(), *texts);
  if (!reader.Read()) return std::nullopt;
  Manifest manifest;
  if (!TakeTensors(std::move(reader.leaves), manifest)) return std::nullopt;
  if (reader.joined) {
    manifest.separator = '/';
    manifest.texts = std::move(texts);
  }
  manifest.source = source;
  return manifest;
}

constexpr std::string_view kPlainSchema = "shardc.manifest/v1";

// A tail: the text between a name and the next name. Equal tails have equal
// types.
struct Tail {
  std::string text;
  uint32_t type = 0;  // index of the dtype and shape that the text states
  size_t next = 0;    // index in Tails of the tail that last followed this one
};

// The last few distinct tails. A tail is the text between two names.
class Tails {
 public:
  // Returns the tail with which `text` begins, or nullptr. The first tail to be
  // compared is the one that followed the current tail the last time.
  // Parameters repeat in the same order in each layer, so this tail is the most
  // likely one.
  const Tail* Find(std::string_view text) {
    size_t at = tails_[last_].next;
    for (size_t i = 0; i < size_; ++i, at = at + 1 < size_ ? at + 1 : 0) {
      if (text.starts_with(tails_[at].text)) {
        tails_[last_].next = at;
        last_ = at;
        return &tails_[at];
      }
    }
    return nullptr;
  }
  // Adds a tail. If all places are in use, the tail replaces the oldest tail. A
  // text of more than kMostBytes bytes is not added.
  void Add(std::string_view text, uint32_t type) {
    if (text.size() > kMostBytes) return;
    Tail& tail = tails_[oldest_];
    tail.text = text;
    tail.type = type;
    tails_[last_].next = oldest_;
    last_ = oldest_;
    oldest_ = (oldest_ + 1) % tails_.size();
    size_ = std::min(size_ + 1, tails_.size());
  }

 private:
  static constexpr size_t kMostBytes = 256;

  std::array<Tail, 16> tails_;
  size_t size_ = 0;
  size_t oldest_ = 0;
  size_t last_ = 0;
};

// The two ways in which a manifest lists its parameters.
enum class Form : uint8_t {
  kList,    // {"name": "a", "shape": ..., "dtype": ...} in an array
  kObject,  // "a": {"shape": ..., "dtype": ...} in an object
};

class PlainManifest {
 public:
  // `bytes` is the size of the file. Names are copied into `names`. If `names`
  // is null, names are views into the text.
  PlainManifest(TextWindow window, size_t bytes, TextStore* names)
      : window_(std::move(window)),
        json_(window_.text()),
        bytes_(bytes),
        names_(names) {
    if (names_ == nullptr) leaves.ReserveFor(bytes);
  }

  bool Read(Manifest& manifest) {
    if (!json_.Take('{') || !Members(manifest)) return false;
    do {
      if (!json_.End()) return false;
    } while (Advance(json_.at()));
    return window_.AtEnd() && has_params_ && has_schema_;
  }

  PlainLeaves leaves;

 private:
  // Moves the window to the byte `from` of its text and continues to read
  // there. Returns false if the window reads no more bytes of the file
  // (TextWindow::Advance).
  bool Advance(size_t from) {
    if (!window_.Advance(from)) return false;
    if (names_ != nullptr && !reserved_) Reserve();
    json_ = PlainJson(window_.text());
    return true;
  }

  // Reserves space for the parameters of the file. Their number is estimated
  // from the first window.
  void Reserve() {
    constexpr double kMargin = 1.1;
    const auto read =
        static_cast<double>(std::max<int64_t>(window_.dropped(), 1));
    const double windows = static_cast<double>(bytes_) / read;
    leaves.tensors.reserve(static_cast<size_t>(
        kMargin * windows * static_cast<double>(leaves.tensors.size())));
    reserved_ = true;
  }

  bool Members(Manifest& manifest) {
    for (;;) {
      const size_t begin = json_.at();
      std::string_view key, value;
      if (!json_.String(key) || !json_.Take(':') ||
          (key != "params" && !json_.String(value))) {
        if (!Advance(begin)) return false;
        continue;
      }
      if (!Member(manifest, key, value)) return false;
      while (!json_.Take(',')) {
        if (json_.Take('}')) return true;
        if (!Advance(json_.at())) return false;
      }
    }
  }

  bool Member(Manifest& manifest, std::string_view key,
              std::string_view value) {
    enum : unsigned {
      kSchema = 1,
      kParams = 2,
      kModel = 4,
      kNaming = 8,
      kSeparator = 16
    };
    const auto first = [&](unsigned member) {
      return ((seen_ ^= member) & member) != 0;
    };
    if (key == "params") return first(kParams) && Params();
    if (key == "schema") {
      has_schema_ = true;
      return first(kSchema) && value == kPlainSchema;
    }
    if (key == "model") {
      manifest.model = value;
      return first(kModel);
    }
    if (key == "naming") {
      manifest.naming = value;
      return first(kNaming);
    }
    if (key != "separator" || (value != "/" && value != ".")) return false;
    manifest.separator = value[0];
    return first(kSeparator);
  }

  bool Params() {
    has_params_ = true;
    if (json_.Take('[')) {
      if (json_.Take(']')) return true;
      // Parameters() accepts only items with a name. Such a list shows that the
      // file is a manifest of shardc, even if the file has no key `schema`.
      has_schema_ = true;
      return Parameters(Form::kList);
    }
    return json_.Take('{') && (json_.Take('}') || Parameters(Form::kObject));
  }

  // What follows the text that has been read so far.
  enum class Next : uint8_t {
    kName,       // the first byte of a name
    kParameter,  // a parameter
    kEnd,        // nothing, because the list or object was closed
    kUnread,     // something else, or the end of the window
  };

  // Reads parameters up to the end of the list or object.
  bool Parameters(Form form) {
    Next next = Next::kParameter;
    while (next != Next::kEnd) {
      const size_t begin = json_.at();
      const Next after = next == Next::kName ? FromName(form) : Parameter(form);
      if (after != Next::kUnread) {
        next = after;
      } else if (!Advance(begin)) {
        return false;
      }
    }
    return true;
  }

  // If the name is the parameter's first member, reads up to the first byte of
  // the name. Otherwise reads the complete parameter.
  Next Parameter(Form form) {
    PlainJson ahead = json_;
    if (TakeNameBegin(ahead, form)) {
      json_ = ahead;
      return Next::kName;
    }
    std::string_view name;
    uint32_t type = 0;
    if (form == Form::kObject || !json_.Take('{') ||
        !leaves.TakeNamed(json_, name, type) || name.empty()) {
      return Next::kUnread;
    }
    const Next next = Separator(form);
    if (next != Next::kUnread) Keep(name, type);
    return next;
  }

  // Reads the text before the first byte of a name, such as `{"name": "`.
  // Returns false if other text follows.
  static bool TakeNameBegin(PlainJson& json, Form form) {
    return (form == Form::kObject ||
            (json.Take('{') && json.Take('"') && json.TakeKey("name\""))) &&
           json.Take('"');
  }

  Next Separator(Form form) {
    if (json_.Take(',')) return Next::kParameter;
    return json_.Take(form == Form::kList ? ']' : '}') ? Next::kEnd
                                                       : Next::kUnread;
  }

  // Continues at the first byte of a name. Reads parameters while the text from
  // the end of a name to the next name (the tail) is in tails_. If the first
  // tail is not in tails_, reads one parameter with OtherParameter.
  Next FromName(Form form) {
    const std::string_view text = window_.text();
    size_t begin = json_.at();
    size_t end = EndOfPlain(text, begin);
    for (; end > begin; end = EndOfPlain(text, begin)) {
      const Tail* tail = tails_.Find(text.substr(end));
      if (tail == nullptr) break;
      Keep(text.substr(begin, end - begin), tail->type);
      begin = end + tail->text.size();
    }
    if (begin != json_.at()) {
      json_ = PlainJson(text, begin);
      return Next::kName;
    }
    return end > begin ? OtherParameter(form, begin, end) : Next::kUnread;
  }

  // Parses the rest of a parameter if the text after the name is not in tails_.
  // The parameter's name is the text from `begin` to `end`.
  Next OtherParameter(Form form, size_t begin, size_t end) {
    const std::string_view text = window_.text();
    uint32_t type = 0;
    json_ = PlainJson(text, end);
    const bool typed =
        json_.TakeHere("\"") &&
        (form == Form::kList ? json_.Take(',')
                             : json_.Take(':') && json_.Take('{')) &&
        leaves.Take(json_, type);
    Next next = typed ? Separator(form) : Next::kUnread;
    if (next == Next::kUnread) return next;
    PlainJson ahead = json_;
    if (next == Next::kParameter && TakeNameBegin(ahead, form)) {
      tails_.Add(text.substr(end, ahead.at() - end), type);
      json_ = ahead;
      next = Next::kName;
    }
    Keep(text.substr(begin, end - begin), type);
    return next;
  }

  void Keep(std::string_view name, uint32_t type) {
    leaves.tensors.push_back(
        {names_ == nullptr ? name : names_->Keep(name), type});
  }

  TextWindow window_;
  PlainJson json_;
  size_t bytes_;
  TextStore* names_;
  Tails tails_;
  // The members of the manifest that were read, as bits that Member() defines.
  unsigned seen_ = 0;
  bool reserved_ = false;
  bool has_params_ = false;
  bool has_schema_ = false;
};

std::optional<Manifest> ReadBy(PlainManifest reader) {
  Manifest manifest;
  if (!reader.Read(manifest) ||
      !TakeTensors(std::move(reader.leaves), manifest)) {
    return std::nullopt;
  }
  return manifest;
}

}  // namespace

std::optional<Manifest> ReadPlainManifest(const SourceRef& source) {
  const std::string_view text = source->text();
  auto manifest = ReadBy(PlainManifest(TextWindow(text), text.size(), nullptr));
  if (!manifest) return ReadPlainTree(source);
  manifest->source = source;
  return manifest;
}

std::optional<Manifest> StreamPlainManifest(const InputFile& file,
                                            size_t window_bytes) {
  auto names = std::make_shared<TextStore>();
  auto manifest =
      ReadBy(PlainManifest(TextWindow(file, window_bytes),
                           static_cast<size_t>(file.size()), names.get()));
  if (!manifest) return std::nullopt;
  manifest->texts = std::move(names);
  manifest->source = MakeSource(file.path(), {});
  return manifest;
}

}  // namespace shardc
