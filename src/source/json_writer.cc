// Writes JSON. A stack holds the open containers. The innermost one decides
// which text separates a value from the value before it: a comma, and in the
// spaced style a new line (kLines) or a space. The first value of a container
// has no comma, and neither has a value after its key:
//
//   BeginArray, 1, 2, EndArray  ->  `[`, `1`, `, 2`, `]`
//
// Strings are copied in runs of characters that need no escape, as nearly all
// names are plain.
#include "source/json_writer.h"

#include <charconv>
#include <cmath>

#include "source/plain_json.h"
#include "source/utf8.h"

namespace shardc {
namespace {

// Writes the escape of a code point: `\n`, `\u001b`, or two `\uXXXX` for a code
// point above U+FFFF.
void PutEscape(Sink& out, uint32_t point) {
  static constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  static constexpr std::string_view kLetters = "\"\\bfnrt";
  static constexpr std::string_view kHex = "0123456789abcdef";
  const size_t known =
      point < 0x80 ? kShort.find(static_cast<char>(point)) : kShort.npos;
  if (known != std::string_view::npos) {
    out.Put('\\');
    out.Put(kLetters[known]);
    return;
  }
  if (point > 0xFFFF) {  // JSON escapes it as a UTF-16 surrogate pair
    PutEscape(out, 0xD800 + ((point - 0x10000) >> 10));
    PutEscape(out, 0xDC00 + ((point - 0x10000) & 0x3FF));
    return;
  }
  out.Append("\\u");
  for (int shift = 12; shift >= 0; shift -= 4) {
    out.Put(kHex[point >> shift & 15]);
  }
}

// Escapes invisible and control characters (utf8.h). Canonical JSON has only
// the escapes that RFC 8785 requires.
void PutString(Sink& out, std::string_view text, bool canonical = false) {
  out.Put('"');
  for (size_t at = 0;;) {
    const size_t plain = EndOfPlain(text, at);
    out.Append(text.substr(at, plain - at));
    at = plain;
    if (at == text.size()) break;
    const CodePoint point = DecodeUtf8(text, at);
    const bool must =
        point.value < 0x20 || point.value == '"' || point.value == '\\';
    if (point.length == 0) {
      out.Append("\xEF\xBF\xBD");
    } else if (must || (!canonical && IsHidden(point.value))) {
      PutEscape(out, point.value);
    } else {
      out.Append(text.substr(at, point.length));
    }
    at += point.length == 0 ? 1 : point.length;
  }
  out.Put('"');
}

constexpr uint64_t kExactDoubles = uint64_t{1} << 53;

// Writes an integral double below 1e21 as ECMAScript does: shortest digits,
// padded with zeros.
void PutLargeDouble(Sink& out, double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value,
                                 std::chars_format::scientific)
                       .ptr;
  size_t exponent = 0;
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  const size_t e = text.find('e');
  std::from_chars(text.data() + e + 2, end, exponent);
  size_t places = 0;
  for (const char c : text.substr(0, e)) {
    if (c == '.') continue;
    out.Put(c);
    places += c == '-' ? 0 : 1;
  }
  if (exponent + 1 > places) out.Fill(exponent + 1 - places, '0');
}

template <class T>
void PutNumber(Sink& out, T value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  out.Append({text, static_cast<size_t>(end - text)});
}

}  // namespace

JsonWriter JsonWriter::OfMembers(Sink& out, JsonStyle style) {
  JsonWriter writer(out, style);
  writer.frames_.push_back({'}', false, true});
  return writer;
}

void JsonWriter::NewLine() {
  out_.Put('\n');
  const int indent = break_ >= 0 ? break_ : indent_;
  break_ = -1;
  constexpr std::string_view kSpaces = "                ";
  const auto spaces = static_cast<size_t>(indent);
  if (spaces <= kSpaces.size()) {
    out_.Append(kSpaces.substr(0, spaces));
  } else {
    out_.Fill(spaces, ' ');
  }
}

void JsonWriter::Separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (frames_.empty()) return;
  Frame& frame = frames_.back();
  if (!frame.empty) out_.Put(',');
  if (frame.lines || break_ >= 0) {
    NewLine();
  } else if (!frame.empty && style_ == JsonStyle::kSpaced) {
    out_.Put(' ');
  }
  frame.empty = false;
}

void JsonWriter::Begin(char open, char close, JsonLayout layout) {
  Separate();
  out_.Put(open);
  const bool lines =
      layout == JsonLayout::kLines && style_ == JsonStyle::kSpaced;
  frames_.push_back({close, lines, true});
  if (lines) indent_ += 2;
}

void JsonWriter::End() {
  const Frame frame = frames_.back();
  frames_.pop_back();
  if (frame.lines) indent_ -= 2;
  if ((frame.lines && !frame.empty) || break_ >= 0) NewLine();
  out_.Put(frame.close);
}

void JsonWriter::Key(std::string_view key) { Key(key, false); }

void JsonWriter::Key(std::string_view key, bool plain) {
  Separate();
  if (plain) {
    out_.Put('"');
    out_.Append(key);
    out_.Put('"');
  } else {
    PutString(out_, key, style_ == JsonStyle::kCanonical);
  }
  out_.Put(':');
  if (style_ == JsonStyle::kSpaced) out_.Put(' ');
  after_key_ = true;
}

void JsonWriter::Null() {
  Separate();
  out_.Append("null");
}

void JsonWriter::Bool(bool value) {
  Separate();
  out_.Append(value ? "true" : "false");
}

void JsonWriter::Integer(int64_t value) {
  Separate();
  const auto magnitude = value < 0 ? ~static_cast<uint64_t>(value) + 1
                                   : static_cast<uint64_t>(value);
  if (style_ == JsonStyle::kCanonical && magnitude > kExactDoubles) {
    PutLargeDouble(out_, static_cast<double>(value));
  } else {
    PutNumber(out_, value);
  }
}

void JsonWriter::Unsigned(uint64_t value) {
  Separate();
  if (style_ == JsonStyle::kCanonical && value > kExactDoubles) {
    PutLargeDouble(out_, static_cast<double>(value));
  } else {
    PutNumber(out_, value);
  }
}

void JsonWriter::Real(double value) {
  if (!std::isfinite(value)) {
    Null();
    return;
  }
  Separate();
  PutNumber(out_, value);
}

void JsonWriter::String(std::string_view value) {
  Separate();
  PutString(out_, value, style_ == JsonStyle::kCanonical);
}

void JsonWriter::Members(std::string_view members) {
  if (members.empty()) return;
  Separate();
  out_.Append(members);
}

void JsonWriter::Written(std::string_view value) {
  Separate();
  out_.Append(value);
}

std::string_view JsonWriter::EndOfKey(JsonStyle style) {
  return style == JsonStyle::kSpaced ? "\": " : "\":";
}

void JsonWriter::WrittenMember(std::string_view key, bool plain,
                               std::string_view value) {
  if (!plain) {
    Key(key);
    Written(value.substr(EndOfKey(style_).size()));
    return;
  }
  Separate();
  out_.Put('"');
  out_.Append(key);
  out_.Append(value);
}

std::string JsonString(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  StringSink sink(out);
  PutString(sink, text);
  sink.Flush();
  return out;
}

}  // namespace shardc
