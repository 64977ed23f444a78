// Scans a JSON text once and builds the nodes of its values. A node is added at
// the beginning of its value. The number of children of a container, and the
// index after its last descendant (`next`), are set at its end:
//
//   [8, {"a": "x"}]  ->  0: array, 2 children, next 5   1: 8
//                        2: object, 1 child, next 5     3: "a"   4: "x"
#include "source/json_scanner.h"

#include <charconv>
#include <system_error>
#include <utility>

#include "source/plain_text.h"
#include "source/text_order.h"
#include "source/utf8.h"

namespace shardc {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Duplicate keys are found by comparing every two keys if an object has at most
// this many keys, and else by sorting the keys.
constexpr size_t kFewKeys = 8;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

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

}  // namespace shardc
