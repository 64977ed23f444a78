// Writes JSON to a sink: commas, indentation, escapes and numbers.
//
//   json.BeginObject(JsonLayout::kLines);
//   json.Member("name", "wte");
//   json.Key("shape");
//   json.Array(shape);
//   json.EndObject();
//
// writes
//
//   {
//     "name": "wte",
//     "shape": [50257, 768]
//   }
//
// The caller must write a key before each value of an object and end each
// container that it begins.
#ifndef SHARDC_SOURCE_JSON_WRITER_H_
#define SHARDC_SOURCE_JSON_WRITER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "source/sink.h"

namespace shardc {

enum class JsonStyle : uint8_t {
  kSpaced,   // {"a": 1, "b": [1, 2]}
  kCompact,  // {"a":1,"b":[1,2]}
  // For kCanonical, the caller sorts the members.
  kCanonical,  // kCompact, with the escapes and numbers of RFC 8785
};

enum class JsonLayout : uint8_t {
  kInline,  // members on one line
  // One member on each line, indented by two spaces for this container and each
  // kLines container around it. Other styles than kSpaced ignore kLines.
  kLines,
};

class JsonWriter {
 public:
  explicit JsonWriter(Sink& out, JsonStyle style = JsonStyle::kSpaced)
      : out_(out), style_(style) {}
  // Returns a writer of members without the braces of the object. Its output
  // can be passed to Members() any number of times.
  static JsonWriter OfMembers(Sink& out, JsonStyle style = JsonStyle::kSpaced);

  void BeginObject(JsonLayout layout = JsonLayout::kInline) {
    Begin('{', '}', layout);
  }
  void EndObject() { End(); }
  void BeginArray(JsonLayout layout = JsonLayout::kInline) {
    Begin('[', ']', layout);
  }
  void EndArray() { End(); }

  void Key(std::string_view key);
  // Writes a key. `plain` is true if the key needs no escapes
  // (source/plain_json.h).
  void Key(std::string_view key, bool plain);

  void Null();
  void Bool(bool value);
  void Integer(int64_t value);
  void Unsigned(uint64_t value);
  // Writes the shortest digits that parse to the same double, or null for
  // infinities and NaN, which JSON lacks.
  void Real(double value);
  // Writes a string. Invalid UTF-8 is replaced by U+FFFD.
  void String(std::string_view value);

  // Writes a value with the function for its type, such as Integer() or
  // String(). Writes an array for a list of numbers, and null for an empty
  // optional.
  template <class T>
  void Value(const T& value);
  template <class T>
  void Member(std::string_view key, const T& value) {
    Key(key);
    Value(value);
  }
  // Writes a member with the text, or null if the text is empty.
  void TextOrNull(std::string_view key, std::string_view text);
  // Writes an array on one line. `project` maps each element to the value that
  // is written.
  template <class Range, class Project = std::identity>
  void Array(const Range& values, Project project = {}) {
    BeginArray();
    for (const auto& value : values) Value(std::invoke(project, value));
    EndArray();
  }

  // Writes the members that an OfMembers() writer produced, unchanged.
  void Members(std::string_view members);
  // Writes `value`, which is the JSON text of a value in this style, unchanged.
  void Written(std::string_view value);
  // Returns the text between a key and its value: the quote, the colon and, in
  // the spaced style, a space.
  static std::string_view EndOfKey(JsonStyle style);
  // Writes a member as Key() and Written() do, but in less time if the key is
  // plain (source/plain_json.h). `value` is EndOfKey() followed by the JSON
  // text of a value in this style: `": [8]`.
  void WrittenMember(std::string_view key, bool plain, std::string_view value);

  // Makes the next member, element or end of a container start on a new line,
  // indented by `indent` spaces.
  void Break(int indent) { break_ = indent; }

  JsonStyle style() const { return style_; }

 private:
  struct Frame {
    char close;
    bool lines;
    bool empty;
  };

  void Begin(char open, char close, JsonLayout layout);
  void End();
  // Writes the comma and white space before a member or an array's element.
  void Separate();
  void NewLine();

  Sink& out_;
  JsonStyle style_;
  bool after_key_ = false;
  // The number of spaces before a line of the innermost kLines container.
  int indent_ = 0;
  // After Break(), the number of spaces before the next member, element or end
  // of a container, which starts on a new line. Otherwise -1.
  int break_ = -1;
  std::vector<Frame> frames_;
};

template <class T>
void JsonWriter::Value(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    Bool(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    Real(value);
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    Integer(value);
  } else if constexpr (std::is_integral_v<T>) {
    Unsigned(value);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    String(value);
  } else if constexpr (requires {
                         requires std::is_arithmetic_v<typename T::value_type>;
                         value.size();
                       }) {
    Array(value);
  } else if (value) {
    Value(*value);
  } else {
    Null();
  }
}

// Returns the text that `write(JsonWriter&)` writes.
template <class Write>
std::string JsonText(const Write& write) {
  return TextOf([&](Sink& out) {
    JsonWriter json(out);
    write(json);
  });
}

// Returns a JSON string literal with its quotes.
std::string JsonString(std::string_view text);

}  // namespace shardc

#endif  // SHARDC_SOURCE_JSON_WRITER_H_
