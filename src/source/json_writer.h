// The one place where JSON is written: values in their order onto a sink,
// commas, indentation, escapes and numbers in the one way we have.
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
// The caller keeps to the grammar: a key before each value of an object, each
// container ended.
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
  kSpaced,     // {"a": 1, "b": [1, 2]}
  kCompact,    // {"a":1,"b":[1,2]}
  kCanonical,  // compact, and RFC 8785's numbers; the caller sorts members
};

enum class JsonLayout : uint8_t {
  kInline,  // members side by side
  kLines,   // each on a line, indented by two for each container of lines
};

class JsonWriter {
 public:
  explicit JsonWriter(Sink& out, JsonStyle style = JsonStyle::kSpaced)
      : out_(out), style_(style) {}
  // A writer of members only, as inside the braces of an object on one line:
  // what it writes can be given to Members() any number of times.
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
  // `plain`: the key is known to be plain text (source/plain_text.h).
  void Key(std::string_view key, bool plain);

  void Null();
  void Bool(bool value);
  void Integer(int64_t value);
  void Unsigned(uint64_t value);
  // The shortest digits that read back the same; null where not finite, as
  // JSON has no such number.
  void Real(double value);
  // Invalid UTF-8 becomes U+FFFD.
  void String(std::string_view value);

  // Any of the above by its type, or an array of numbers; nothing is null.
  template <class T>
  void Value(const T& value);
  template <class T>
  void Member(std::string_view key, const T& value) {
    Key(key);
    Value(value);
  }
  // Plain values side by side, or what `project` makes of each.
  template <class Range, class Project = std::identity>
  void Array(const Range& values, Project project = {}) {
    BeginArray();
    for (const auto& value : values) Value(std::invoke(project, value));
    EndArray();
  }

  // Members that OfMembers has written, as they are.
  void Members(std::string_view members);
  // A value that was written in this style before, as it is.
  void Written(std::string_view value);

  // What comes next, a member or the end of the container, begins a line,
  // after `indent` spaces.
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
  // Comma and white space before a member or an array's element.
  void Separate();
  void NewLine();

  Sink& out_;
  JsonStyle style_;
  bool after_key_ = false;
  int indent_ = 0;  // of the lines of the innermost container of lines
  int break_ = -1;  // asked for by Break
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

// What `write(JsonWriter&)` writes, as a string.
template <class Write>
std::string JsonText(const Write& write) {
  return TextOf([&](Sink& out) {
    JsonWriter json(out);
    write(json);
  });
}

// A JSON string literal with its quotes.
std::string JsonString(std::string_view text);

}  // namespace shardc

#endif  // SHARDC_SOURCE_JSON_WRITER_H_
