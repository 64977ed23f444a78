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
#include "parse/plain_manifest.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "parse/plain_leaf.h"
#include "parse/plain_tree.h"
#include "source/plain_json.h"
#include "source/plain_text.h"
#include "source/text_window.h"

namespace shardc {
namespace {

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
