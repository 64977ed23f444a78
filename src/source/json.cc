// Parses JSON. The scanner of plain_json.h handles nearly all well-formed text.
// If it rejects the text, nlohmann's SAX parser parses it again from the start,
// because it has a message for every error.
//
// nlohmann does not report where a value is. Each of its events comes after the
// parser has accepted the complete token. JsonReader therefore moves a cursor
// of its own over the same text, one token for each event, so that the cursor
// is at the token of the event. Before each token the cursor skips white space,
// `,` and `:`. It finds the end of a token without validation: a string ends at
// the next unescaped quote, a number at the first byte that no number contains.
//
// Example: for `[1, "a"]` the events are start_array, number, string,
// end_array, and the cursor moves over `[`, `1`, `"a"`, `]`.
//
// simdjson 3.0.1 does not replace these parsers: its DOM keeps duplicate keys,
// and has no offsets for the places of diagnostics. For a manifest of a million
// parameters it takes 310 ms, and the readers that use PlainJson take 255 ms.
//
// nlohmann ends at a NUL byte, so Finish checks that only white space follows.
#include "source/json.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "source/file.h"
#include "source/json_writer.h"
#include "source/plain_json.h"
#include "source/text_order.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {

// Scans a JSON text once and builds the nodes of its values. A node is added at
// the beginning of its value. The number of children of a container, and the
// index after its last descendant (`next`), are set at its end:
//
//   [8, {"a": "x"}]  ->  0: array, 2 children, next 5   1: 8
//                        2: object, 1 child, next 5     3: "a"   4: "x"

class JsonScanner {
 public:
  // `text` is the document's text up to the end of the JSON value. It is read
  // from `begin` on, and is well-formed UTF-8 from there.
  JsonScanner(JsonDocument& document, std::string_view text, size_t begin,
              const JsonLimits& limits, size_t most_nodes);

  // Returns false at the first problem. The document's content is then
  // unusable, and the caller runs JsonReader, which reports the error.
  bool Scan();

 private:
  void SkipSpace();
  bool Take(char c);
  void Push(JsonKind kind);
  bool Value();
  bool Word(std::string_view word, JsonKind kind);
  bool Digits();
  bool Number();
  bool String();
  bool Unescape(size_t plain_end);
  bool Escape(std::string& out);
  bool CodeUnit(uint32_t& out);
  void Open(JsonKind kind);
  bool CloseHere();
  bool KeysDiffer(uint32_t object);

  JsonDocument& document_;
  std::string_view text_;
  size_t at_;
  size_t depth_;
  size_t most_nodes_;
  bool good_ = true;
  bool just_opened_ = false;
  std::vector<uint32_t> open_;  // nodes of containers that are not closed yet
  std::vector<std::string_view> keys_;
};

namespace {

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Duplicate keys are found by comparing every two keys if an object has at most
// this many keys, and else by sorting the keys.
constexpr size_t kFewKeys = 8;

template <class T>
bool Fits(std::string_view digits) {
  T value{};
  const auto read =
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return read.ec == std::errc();
}

JsonKind KindOf(std::string_view integer) {
  if (integer == "-0") return JsonKind::kReal;
  if (Fits<int64_t>(integer)) return JsonKind::kInteger;
  return Fits<uint64_t>(integer) ? JsonKind::kUnsigned : JsonKind::kReal;
}

}  // namespace

JsonScanner::JsonScanner(JsonDocument& document, std::string_view text,
                         size_t begin, const JsonLimits& limits,
                         size_t most_nodes)
    : document_(document),
      text_(text),
      at_(begin),
      depth_(static_cast<size_t>(limits.depth)),
      most_nodes_(most_nodes) {
  if (text.substr(begin).starts_with(kByteOrderMark)) {
    at_ += kByteOrderMark.size();
  }
}

bool JsonScanner::Scan() {
  if (!Value()) return false;
  while (!open_.empty() && good_) {
    const bool first = std::exchange(just_opened_, false);
    if (CloseHere()) continue;
    if (!first && !Take(',')) return false;
    const bool in_object =
        document_.nodes_[open_.back()].kind == JsonKind::kObject;
    if (in_object && (!Take('"') || !String() || !Take(':'))) return false;
    if (!Value()) return false;
  }
  SkipSpace();
  return good_ && at_ == text_.size();
}

void JsonScanner::SkipSpace() {
  while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
}

bool JsonScanner::Take(char c) {
  SkipSpace();
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void JsonScanner::Push(JsonKind kind) {
  auto& nodes = document_.nodes_;
  good_ = good_ && nodes.size() < most_nodes_;
  if (!open_.empty()) ++nodes[open_.back()].length;
  nodes.push_back({static_cast<uint32_t>(at_), 0, 0, kind, false});
}

bool JsonScanner::Value() {
  SkipSpace();
  if (at_ == text_.size() || !good_) return false;
  switch (text_[at_]) {
    case '"':
      ++at_;
      return String();
    case '{':
      Open(JsonKind::kObject);
      return true;
    case '[':
      Open(JsonKind::kArray);
      return true;
    case 'n':
      return Word("null", JsonKind::kNull);
    case 't':
      return Word("true", JsonKind::kBool);
    case 'f':
      return Word("false", JsonKind::kBool);
    default:
      return Number();
  }
}

bool JsonScanner::Word(std::string_view word, JsonKind kind) {
  if (text_.substr(at_, word.size()) != word) return false;
  Push(kind);
  at_ += word.size();
  return true;
}

bool JsonScanner::Digits() {
  const size_t begin = at_;
  while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
  return at_ > begin;
}

bool JsonScanner::Number() {
  const size_t begin = at_;
  const auto next_is = [&](char c) {
    return at_ < text_.size() && text_[at_] == c;
  };
  Push(JsonKind::kReal);
  if (next_is('-')) ++at_;
  const bool zero = next_is('0');
  const size_t first = at_;
  if (!Digits() || (zero && at_ > first + 1)) return false;
  bool integer = true;
  if (next_is('.')) {
    ++at_;
    integer = false;
    if (!Digits()) return false;
  }
  if (next_is('e') || next_is('E')) {
    ++at_;
    integer = false;
    if (next_is('+') || next_is('-')) ++at_;
    if (!Digits()) return false;
  }
  const std::string_view text = text_.substr(begin, at_ - begin);
  const JsonKind kind = integer ? KindOf(text) : JsonKind::kReal;
  document_.nodes_.back().kind = kind;
  // Reject reals that from_chars cannot represent: JsonReader decides whether
  // such a number overflows or rounds to zero.
  return kind != JsonKind::kReal || Fits<double>(text);
}

// Scans a string, after its opening quote was read.
bool JsonScanner::String() {
  --at_;
  Push(JsonKind::kString);
  const size_t begin = ++at_;
  for (;;) {
    at_ = EndOfPlain(text_, at_);
    if (at_ == text_.size()) return false;
    const char c = text_[at_];
    if (c == '"') break;
    if (c == '\\') return Unescape(begin);
    if (static_cast<unsigned char>(c) < 0x20) return false;
    ++at_;
  }
  document_.nodes_.back().length = static_cast<uint32_t>(at_ - begin);
  ++at_;
  return true;
}

// Stores the unescaped value of the string whose first character is at `begin`.
bool JsonScanner::Unescape(size_t begin) {
  std::string& kept = document_.strings_;
  const size_t where = kept.size();
  kept.append(text_.substr(begin, at_ - begin));
  for (;;) {
    const size_t plain = at_;
    at_ = EndOfPlain(text_, at_);
    kept.append(text_.substr(plain, at_ - plain));
    if (at_ == text_.size()) return false;
    const char c = text_[at_++];
    if (c == '"') break;
    if (c == '\\') {
      if (!Escape(kept)) return false;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      return false;
    } else {
      kept += c;
    }
  }
  auto& node = document_.nodes_.back();
  node.escaped = true;
  node.next = static_cast<uint32_t>(where);
  node.length = static_cast<uint32_t>(kept.size() - where);
  return kept.size() < UINT32_MAX;
}

bool JsonScanner::Escape(std::string& out) {
  static constexpr std::string_view kLetters = "\"\\/bfnrt";
  static constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
  if (at_ == text_.size()) return false;
  const char letter = text_[at_++];
  const size_t known = kLetters.find(letter);
  if (known != kLetters.npos) {
    out += kMeant[known];
    return true;
  }
  uint32_t point = 0;
  if (letter != 'u' || !CodeUnit(point)) return false;
  if (point >= 0xD800 && point <= 0xDBFF) {
    uint32_t low = 0;
    if (text_.substr(at_, 2) != "\\u") return false;
    at_ += 2;
    if (!CodeUnit(low) || low < 0xDC00 || low > 0xDFFF) return false;
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  } else if (point >= 0xDC00 && point <= 0xDFFF) {
    return false;
  }
  AppendUtf8(out, point);
  return true;
}

bool JsonScanner::CodeUnit(uint32_t& out) {
  const std::string_view digits = text_.substr(at_, 4);
  const auto read =
      std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  at_ += 4;
  return digits.size() == 4 && read.ec == std::errc() &&
         read.ptr == digits.data() + digits.size();
}

void JsonScanner::Open(JsonKind kind) {
  good_ = good_ && open_.size() < depth_;
  Push(kind);
  open_.push_back(static_cast<uint32_t>(document_.nodes_.size() - 1));
  just_opened_ = true;
  ++at_;
}

bool JsonScanner::CloseHere() {
  const uint32_t container = open_.back();
  auto& node = document_.nodes_[container];
  const bool object = node.kind == JsonKind::kObject;
  if (!Take(object ? '}' : ']')) return false;
  node.next = static_cast<uint32_t>(document_.nodes_.size());
  if (object) {
    node.length /= 2;
    good_ = good_ && KeysDiffer(container);
  }
  open_.pop_back();
  return true;
}

bool JsonScanner::KeysDiffer(uint32_t object) {
  const size_t count = document_.nodes_[object].length;
  if (count < 2) return true;
  keys_.clear();
  for (uint32_t at = object + 1; keys_.size() < count;) {
    keys_.push_back(document_.StringAt(at));
    at = document_.NextOf(at + 1);
  }
  if (count > kFewKeys) return OrderOf(keys_).distinct;
  for (size_t i = 1; i < count; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (keys_[i] == keys_[j]) return false;
    }
  }
  return true;
}

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxNodes = size_t{1} << 26;  // 1 GiB, at 16 bytes a node

bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool IsNumberByte(char c) {
  return IsDigit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// Returns the offset after the string whose opening quote is at `at`.
size_t SkipString(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

// Returns the offset after the scalar or the single bracket at `at`.
size_t SkipToken(std::string_view text, size_t at) {
  if (at >= text.size()) return text.size();
  const char first = text[at];
  if (first == '"') return SkipString(text, at);
  const auto run = [&](auto holds) {
    while (at < text.size() && holds(text[at])) ++at;
    return at;
  };
  if (IsNumberByte(first)) return run(IsNumberByte);
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return letter(first) ? run(letter) : at + 1;
}

// Returns the offset after the array or object at `at`.
size_t SkipContainer(std::string_view text, size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = SkipString(text, at);
      continue;
    }
    ++at;
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && --depth == 0) break;
  }
  return at;
}

// Returns the value of a number, whose range the parser has checked. A real
// that underflows is 0.
template <class T>
T NumberOf(std::string_view text) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Returns an upper bound on the number of values, for reserving memory: each
// value is at the start or after one of the characters below. Reserved memory
// that is not used costs nothing.
size_t MostValues(std::string_view text) {
  size_t count = 1;
  for (const char c : text) {
    count +=
        static_cast<size_t>((c == ',') | (c == ':') | (c == '[') | (c == '{'));
  }
  return count;
}

// Returns the part "while parsing value - unexpected end of input" of
// nlohmann's message. The message also quotes the token read last, which may be
// long and is left out.
std::string SyntaxErrorText(std::string_view what) {
  const size_t colon = what.find(": ");
  if (colon != std::string_view::npos) what.remove_prefix(colon + 2);
  constexpr std::string_view kPrefix = "syntax error ";
  if (what.starts_with(kPrefix)) what.remove_prefix(kPrefix.size());
  const size_t last = what.find("; last read: ");
  if (last != std::string_view::npos) {
    const size_t expected = what.rfind("; expected ");
    std::string out(what.substr(0, last));
    if (expected != std::string_view::npos && expected > last) {
      out += what.substr(expected);
    }
    return out;
  }
  return std::string(what);
}

}  // namespace

// The SAX handler; nlohmann requires these member names.
// Returns the advice for a text that is not JSON at the byte `at`, where it has
// a habit of Python, JavaScript or YAML.
std::string HelpForSyntax(std::string_view text, size_t at) {
  constexpr std::string_view kBlank = " \t\r\n";
  if (text.find_first_not_of(kBlank, at) == text.npos) {
    return "the text ends before its value does: a `}`, a `]` or the rest of "
           "the file is missing";
  }
  const char c = text[at];
  if (c == '\'') return "JSON has double quotes around texts";
  if (c == '#' || (c == '/' && text.substr(at, 2) == "//")) {
    return "JSON has no comments";
  }
  const size_t before = text.find_last_not_of(" \t\r\n", at == 0 ? 0 : at - 1);
  if ((c == '}' || c == ']') && at > 0 && before < at && text[before] == ',') {
    return "remove the comma before it";
  }
  for (const std::string_view word : {"True", "False", "None"}) {
    // The reader stops inside of the word.
    const size_t begin = at >= word.size() ? at - word.size() : 0;
    if (text.substr(begin, 2 * word.size()).find(word) != text.npos) {
      return "JSON writes `true`, `false` and `null`";
    }
  }
  const size_t colon = text.find(": ");
  if (at <= 1 && colon < text.find('\n') && c >= 'a' && c <= 'z') {
    return "this may be YAML, and JSON is expected here";
  }
  return {};
}

class JsonReader : public nlohmann::json_sax<Json> {
 public:
  JsonReader(JsonDocument& document, size_t begin, size_t end,
             const JsonLimits& limits, Findings& findings)
      : document_(document),
        text_(document.source_->text().substr(0, end)),
        cursor_(begin),
        begin_(begin),
        limits_(limits),
        findings_(findings) {
    if (text_.substr(begin).starts_with(kByteOrderMark)) {
      cursor_ += kByteOrderMark.size();
    }
  }

  bool null() override { return Add(JsonKind::kNull); }
  bool boolean(bool) override { return Add(JsonKind::kBool); }
  bool number_integer(number_integer_t value) override {
    // nlohmann passes "0" to number_unsigned, so a zero in this function is
    // "-0", which is a real.
    return Add(value == 0 ? JsonKind::kReal : JsonKind::kInteger);
  }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= uint64_t{INT64_MAX};
    return Add(fits ? JsonKind::kInteger : JsonKind::kUnsigned);
  }
  bool number_float(number_float_t, const string_t&) override {
    return Add(JsonKind::kReal);
  }
  bool string(string_t& value) override { return AddString(value); }
  bool key(string_t& value) override { return AddString(value); }
  bool binary(binary_t&) override { return false; }

  bool start_object(size_t) override { return Open(JsonKind::kObject); }
  bool start_array(size_t) override { return Open(JsonKind::kArray); }
  bool end_object() override {
    CheckKeys(open_.back());
    return Close();
  }
  bool end_array() override { return Close(); }

  bool parse_error(size_t position, const std::string&,
                   const Json::exception& error) override {
    // Error 406 of nlohmann: a well-formed number is too large for a double.
    if (error.id == 406) {
      SkipSeparators();
      findings_.Add(code::kNumber, PlaceOf(cursor_, SkipToken(text_, cursor_)),
                    "a number is too large even for a double");
      return false;
    }
    // ReportOtherText() recognises, for example, a pickle by its first bytes.
    // Those of a safetensors file (begin_ is 8) are a length and prove nothing.
    if (begin_ == 0 && ReportOtherText(document_.source_, findings_)) {
      return false;
    }
    // `position` counts the bytes consumed, including the offending one.
    size_t at = begin_ + (position > 0 ? position - 1 : 0);
    at = std::min(at, text_.size());
    while (at > begin_ && at < text_.size() &&
           (static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80) {
      --at;
    }
    findings_.Add(code::kJsonSyntax, PlaceOf(at, at + 1),
                  "not well-formed JSON " + SyntaxErrorText(error.what()),
                  HelpForSyntax(text_, at));
    return false;
  }

  // Checks, after a successful parse, that only white space follows the value
  // and that no object has a duplicate key.
  bool Finish() {
    while (cursor_ < text_.size() && IsBlank(text_[cursor_])) ++cursor_;
    if (cursor_ < text_.size()) {
      findings_.Add(code::kJsonSyntax, PlaceOf(cursor_, cursor_ + 1),
                    text_[cursor_] == '\0'
                        ? "a NUL byte follows the JSON value"
                        : "something follows the JSON value");
      return false;
    }
    return !duplicates_;
  }

 private:
  Place PlaceOf(size_t begin, size_t end) const {
    return {document_.source_, begin, std::min(end, text_.size())};
  }

  void SkipSeparators() {
    while (cursor_ < text_.size() &&
           (IsBlank(text_[cursor_]) || text_[cursor_] == ',' ||
            text_[cursor_] == ':')) {
      ++cursor_;
    }
  }

  bool Push(JsonKind kind) {
    auto& nodes = document_.nodes_;
    if (nodes.size() >= kMaxNodes) {
      findings_.Add(code::kLimit, PlaceOf(cursor_, cursor_ + 1),
                    "the JSON holds more than " +
                        CountText(static_cast<int64_t>(kMaxNodes)) + " values");
      return false;
    }
    if (!open_.empty()) ++nodes[open_.back()].length;
    nodes.push_back({static_cast<uint32_t>(cursor_), 0, 0, kind, false});
    return true;
  }

  bool Add(JsonKind kind) {
    SkipSeparators();
    if (!Push(kind)) return false;
    cursor_ = SkipToken(text_, cursor_);
    return true;
  }

  bool AddString(const std::string& value) {
    SkipSeparators();
    const size_t end = SkipString(text_, cursor_);
    if (!Push(JsonKind::kString)) return false;
    auto& node = document_.nodes_.back();
    node.length = static_cast<uint32_t>(value.size());
    // A token that is longer than its value and two quotes has escapes, because
    // an escape is always longer than the character that it encodes.
    if (end - cursor_ != value.size() + 2) {
      node.escaped = true;
      node.next = static_cast<uint32_t>(document_.strings_.size());
      document_.strings_ += value;
    }
    cursor_ = end;
    return true;
  }

  bool Open(JsonKind kind) {
    SkipSeparators();
    if (open_.size() >= static_cast<size_t>(limits_.depth)) {
      findings_.Add(code::kJsonDepth, PlaceOf(cursor_, cursor_ + 1),
                    "the JSON is nested more than " +
                        std::to_string(limits_.depth) + " levels deep");
      return false;
    }
    if (!Push(kind)) return false;
    open_.push_back(static_cast<uint32_t>(document_.nodes_.size() - 1));
    ++cursor_;
    return true;
  }

  bool Close() {
    SkipSeparators();
    ++cursor_;
    auto& node = document_.nodes_[open_.back()];
    node.next = static_cast<uint32_t>(document_.nodes_.size());
    if (node.kind == JsonKind::kObject) node.length /= 2;
    open_.pop_back();
    return true;
  }

  // Reports duplicate keys of an object. The keys are sorted by (hash, text)
  // instead of inserted into a hash table, so that an input with colliding keys
  // cannot make the check slow.
  void CheckKeys(uint32_t object) {
    const auto& nodes = document_.nodes_;
    keys_.clear();
    for (uint32_t at = object + 1; at < nodes.size();
         at = document_.NextOf(at + 1)) {
      keys_.emplace_back(std::hash<std::string_view>{}(document_.StringAt(at)),
                         at);
    }
    if (keys_.size() < 2) return;
    const auto less = [&](const auto& a, const auto& b) {
      if (a.first != b.first) return a.first < b.first;
      const int order =
          document_.StringAt(a.second).compare(document_.StringAt(b.second));
      return order != 0 ? order < 0 : a.second < b.second;
    };
    std::sort(keys_.begin(), keys_.end(), less);
    // Pairs of nodes with equal keys: the later node, then the earlier node.
    std::vector<std::pair<uint32_t, uint32_t>> twice;
    for (size_t i = 1; i < keys_.size(); ++i) {
      const auto [hash, node] = keys_[i];
      const auto [last_hash, last] = keys_[i - 1];
      if (hash == last_hash &&
          document_.StringAt(node) == document_.StringAt(last)) {
        twice.emplace_back(node, last);
      }
    }
    std::sort(twice.begin(), twice.end());
    for (const auto& [second, first] : twice) Report(second, first);
  }

  void Report(uint32_t second, uint32_t first) {
    duplicates_ = true;
    if (findings_.Full()) return;
    constexpr size_t kShown = 100;
    const std::string_view name = document_.StringAt(second);
    const std::string shown(name.substr(0, kShown));
    const auto place = [&](uint32_t node) {
      return PlaceOf(document_.nodes_[node].offset, document_.EndOf(node));
    };
    Finding& finding = findings_.Add(
        code::kDuplicateKey, place(second),
        "the key `" + shown + (name.size() > kShown ? "...` is" : "` is") +
            " given twice in one object",
        "keep one of the two");
    finding.labels.push_back({place(first), "first given here"});
  }

  JsonDocument& document_;
  std::string_view text_;
  size_t cursor_;
  size_t begin_;
  JsonLimits limits_;
  Findings& findings_;
  std::vector<uint32_t> open_;  // nodes of containers that are not closed yet
  std::vector<std::pair<size_t, uint32_t>> keys_;  // hash and node of each key
  bool duplicates_ = false;
};

std::unique_ptr<const JsonDocument> JsonDocument::Parse(SourceRef source,
                                                        Findings& findings,
                                                        JsonLimits limits,
                                                        size_t begin,
                                                        size_t end) {
  const std::string_view whole = source->text();
  end = std::min(end, whole.size());
  begin = std::min(begin, end);
  const std::string_view text = whole.substr(begin, end - begin);
  if (end >= UINT32_MAX) {
    findings.Add(code::kLimit, Place{source}, "the JSON is over 4 GiB long");
    return nullptr;
  }
  size_t bad = 0;
  if (!IsUtf8(text, &bad)) {
    if (begin == 0 && ReportOtherText(source, findings)) return nullptr;
    findings.Add(code::kEncoding, Place{source, begin + bad, begin + bad + 1},
                 "byte " + HexByte(static_cast<unsigned char>(text[bad])) +
                     " is not UTF-8",
                 "save the file as UTF-8");
    return nullptr;
  }
  auto document = std::make_unique<JsonDocument>();
  document->source_ = source;
  document->shown_ = limits.shown ? limits.shown : source;
  document->nodes_.reserve(std::min(MostValues(text), kMaxNodes));
  const bool scanned =
      limits.scan &&
      JsonScanner(*document, whole.substr(0, end), begin, limits, kMaxNodes)
          .Scan();
  if (!scanned && !Read(*document, begin, end, limits, findings)) {
    return nullptr;
  }
  if (document->root().IsNull() && !limits.allow_null_root) {
    findings.Add(code::kSchema, document->root().place(),
                 "the whole document is `null`");
    return nullptr;
  }
  return document;
}

bool JsonDocument::Read(JsonDocument& document, size_t begin, size_t end,
                        const JsonLimits& limits, Findings& findings) {
  const std::string_view text =
      document.source_->text().substr(begin, end - begin);
  document.nodes_.clear();
  document.strings_.clear();
  JsonReader reader(document, begin, end, limits, findings);
  bool content = false;
  try {
    content = Json::sax_parse(text.begin(), text.end(), &reader,
                              Json::input_format_t::json, /*strict=*/true);
  } catch (const Json::exception& error) {
    findings.Add(code::kJsonSyntax, Place{document.source_},
                 "not well-formed JSON: " + SyntaxErrorText(error.what()));
  }
  return content && reader.Finish();
}

std::string_view JsonDocument::StringAt(uint32_t index) const {
  const Node& node = nodes_[index];
  if (node.escaped) {
    return std::string_view(strings_).substr(node.next, node.length);
  }
  return source_->text().substr(node.offset + size_t{1}, node.length);
}

std::string_view JsonDocument::TokenAt(uint32_t index) const {
  const size_t begin = nodes_[index].offset;
  return source_->text().substr(begin, EndOf(index) - begin);
}

size_t JsonDocument::EndOf(uint32_t index) const {
  const Node& node = nodes_[index];
  const std::string_view text = source_->text();
  const bool container =
      node.kind == JsonKind::kArray || node.kind == JsonKind::kObject;
  return container ? SkipContainer(text, node.offset)
                   : SkipToken(text, node.offset);
}

JsonKind JsonValue::kind() const {
  return document_ == nullptr ? JsonKind::kNull : document_->nodes_[node_].kind;
}

bool JsonValue::boolean() const {
  return kind() == JsonKind::kBool && document_->TokenAt(node_)[0] == 't';
}

int64_t JsonValue::integer() const {
  if (kind() != JsonKind::kInteger) return 0;
  return NumberOf<int64_t>(document_->TokenAt(node_));
}

uint64_t JsonValue::unsigned_() const {
  if (kind() != JsonKind::kUnsigned) return 0;
  return NumberOf<uint64_t>(document_->TokenAt(node_));
}

double JsonValue::real() const {
  switch (kind()) {
    case JsonKind::kInteger:
      return static_cast<double>(integer());
    case JsonKind::kUnsigned:
      return static_cast<double>(unsigned_());
    case JsonKind::kReal:
      return NumberOf<double>(document_->TokenAt(node_));
    default:
      return 0.0;
  }
}

std::string_view JsonValue::string() const {
  return IsString() ? document_->StringAt(node_) : std::string_view{};
}

size_t JsonValue::size() const {
  const bool container = IsArray() || IsObject();
  return container ? document_->nodes_[node_].length : 0;
}

Place JsonValue::place() const {
  if (document_ == nullptr) return {};
  return {document_->shown_,
          static_cast<size_t>(document_->nodes_[node_].offset),
          document_->EndOf(node_)};
}

JsonValue::Iterator& JsonValue::Iterator::operator++() {
  node_ = document_->NextOf(node_);
  return *this;
}

JsonValue::ItemRange JsonValue::items() const {
  if (!IsArray() && !IsObject()) return {{nullptr, 0}, {nullptr, 0}};
  return {{document_, node_ + 1}, {document_, document_->NextOf(node_)}};
}

JsonValue::MemberRange JsonValue::members() const {
  return MemberRange(IsObject() ? items()
                                : ItemRange({nullptr, 0}, {nullptr, 0}));
}

std::optional<JsonValue> JsonValue::Find(std::string_view key) const {
  for (const JsonMember member : members()) {
    if (member.name() == key) return member.value;
  }
  return std::nullopt;
}

// Renders a JSON value as a text for comparisons: members are sorted by name
// and spacing is uniform. Numbers keep their text. For example, an object is
// rendered as follows:
//
//   {"b":1, "a":[ 2 ]}  ->  {"a": [2], "b": 1}

std::string NormalText(const JsonValue& value) {
  std::string out;
  switch (value.kind()) {
    case JsonKind::kString:
      return JsonString(value.string());
    case JsonKind::kArray:
      for (const JsonValue item : value.items()) {
        out += (out.empty() ? "[" : ", ") + NormalText(item);
      }
      return out.empty() ? "[]" : out + "]";
    case JsonKind::kObject: {
      std::map<std::string_view, JsonValue> sorted;
      for (const JsonMember member : value.members()) {
        sorted.emplace(member.name(), member.value);
      }
      for (const auto& [name, member] : sorted) {
        out += (out.empty() ? "{" : ", ") + JsonString(name) + ": " +
               NormalText(member);
      }
      return out.empty() ? "{}" : out + "}";
    }
    default: {
      const Place place = value.place();
      return std::string(
          place.source->text().substr(place.begin, place.end - place.begin));
    }
  }
}

JsonMembers MembersOf(const std::optional<JsonValue>& value) {
  JsonMembers out;
  if (!value || !value->IsObject()) return out;
  for (const JsonMember member : value->members()) {
    out.emplace(member.name(), member.value);
  }
  return out;
}

std::optional<JsonValue> MemberAt(const JsonMembers& members,
                                  std::string_view name) {
  const auto at = members.find(name);
  return at == members.end() ? std::nullopt : std::optional(at->second);
}

std::string_view SchemaOf(const JsonValue& root) {
  if (!root.IsObject()) return {};
  const auto schema = root.Find("schema");
  return schema && schema->IsString() ? schema->string() : std::string_view();
}

std::string MemberText(const JsonMembers& members, std::string_view name,
                       std::string_view absent) {
  const auto value = MemberAt(members, name);
  return value ? NormalText(*value) : std::string(absent);
}

std::vector<std::string_view> NamesOfEither(
    const std::optional<JsonValue>& first,
    const std::optional<JsonValue>& second) {
  std::vector<std::string_view> out;
  std::set<std::string_view> seen;
  for (const auto& value : {first, second}) {
    if (!value || !value->IsObject()) continue;
    for (const JsonMember member : value->members()) {
      if (seen.insert(member.name()).second) out.push_back(member.name());
    }
  }
  return out;
}

}  // namespace shardc
