// Writes JSON to a sink: commas, indentation, escapes and numbers.
//
//   json.Block("name", "wte", "shape", shape);
//
// writes
//
//   {
//     "name": "wte",
//     "shape": [50257, 768]
//   }
//
// Members() takes keys and values in turn, so that a record lists its members
// once. A value may be a Record() or Block() of further members, and Given() of
// a value leaves out the member if the value is empty. With the other functions
// the caller must write a key before each value of an object and end each
// container that it begins.
#ifndef SHARDC_SOURCE_JSON_WRITER_H_
#define SHARDC_SOURCE_JSON_WRITER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "source/sink.h"

namespace shardc {

class JsonWriter;

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

// The members of an object, as a value: keys and values in turn. It refers to
// its arguments, and must be written in the expression that makes it.
template <JsonLayout kLayout, class... T>
struct JsonRecord {
  std::tuple<const T&...> members;
};
// Returns an object that is written on one line.
template <class... T>
JsonRecord<JsonLayout::kInline, T...> Record(const T&... members) {
  return {{members...}};
}
// Returns an object with a member on each line.
template <class... T>
JsonRecord<JsonLayout::kLines, T...> Block(const T&... members) {
  return {{members...}};
}

// A value whose member is left out if the value is empty: an empty text or
// list, no value of an optional, false, or a number that is not positive. It
// refers to its argument.
template <class T>
struct Given {
  explicit Given(const T& of) : value(of) {}
  const T& value;
};

// Returns a function of a writer that calls `write(json, arguments...)`, for
// Member() and lists: `json.Member("spec", WrittenBy(WriteSpec, spec))`. It
// refers to `write` and to the arguments, which must outlive it.
template <class Write, class... T>
auto WrittenBy(const Write& write, const T&... arguments) {
  return
      [&write, &arguments...](JsonWriter& json) { write(json, arguments...); };
}

// Returns the text, or nullopt, which is written as null, if it is empty.
inline std::optional<std::string_view> TextOrNull(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

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
  // String(). Writes an array on one line for a list, an object for a record,
  // and null for an empty optional and nullptr. Calls a function of a writer,
  // which must write one value.
  template <class T>
  void Value(const T& value);
  template <JsonLayout kLayout, class... T>
  void Value(const JsonRecord<kLayout, T...>& record);
  template <class T>
  void Member(std::string_view key, const T& value) {
    Key(key);
    Value(value);
  }
  template <class T>
  void Member(std::string_view key, const Given<T>& given);
  // Writes members: keys and values in turn.
  template <class T, class... Rest>
  void Members(std::string_view key, const T& value, const Rest&... rest) {
    Member(key, value);
    if constexpr (sizeof...(rest) > 0) Members(rest...);
  }
  // Writes an object on one line, and one with a member on each line.
  template <class... T>
  void Object(const T&... members) {
    Value(Record(members...));
  }
  template <class... T>
  void Block(const T&... members) {
    Value(shardc::Block(members...));
  }
  // Writes an array on one line. `project` maps each element to the value that
  // is written, or writes it.
  template <class Range, class Project = std::identity>
  void Array(const Range& values, Project project = {}) {
    List(JsonLayout::kInline, values, project);
  }
  template <class Range, class Project>
  void Array(std::string_view key, const Range& values, Project project) {
    Key(key);
    List(JsonLayout::kInline, values, project);
  }
  // Writes an array with an element on each line.
  template <class Range, class Project = std::identity>
  void Lines(std::string_view key, const Range& values, Project project = {}) {
    Key(key);
    List(JsonLayout::kLines, values, project);
  }
  // Writes an array of objects, whose members `write(element)` writes. Rows()
  // writes each object on a line of its own, Blocks() each member of an object,
  // and Records() the entire array on one line.
  template <class Range, class Write>
  void Rows(std::string_view key, const Range& values, const Write& write) {
    Objects(key, JsonLayout::kLines, JsonLayout::kInline, values, write);
  }
  template <class Range, class Write>
  void Blocks(std::string_view key, const Range& values, const Write& write) {
    Objects(key, JsonLayout::kLines, JsonLayout::kLines, values, write);
  }
  template <class Range, class Write>
  void Records(std::string_view key, const Range& values, const Write& write) {
    Objects(key, JsonLayout::kInline, JsonLayout::kInline, values, write);
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
  template <class Range, class Project>
  void List(JsonLayout layout, const Range& values, const Project& project);
  template <class Range, class Write>
  void Objects(std::string_view key, JsonLayout list, JsonLayout object,
               const Range& values, const Write& write);
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
  } else if constexpr (std::is_null_pointer_v<T>) {
    Null();
  } else if constexpr (std::is_floating_point_v<T>) {
    Real(value);
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    Integer(value);
  } else if constexpr (std::is_integral_v<T>) {
    Unsigned(value);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    String(value);
  } else if constexpr (std::is_invocable_v<const T&, JsonWriter&>) {
    value(*this);
  } else if constexpr (requires { value.begin(); }) {
    Array(value);
  } else if (value) {
    Value(*value);
  } else {
    Null();
  }
}

template <JsonLayout kLayout, class... T>
void JsonWriter::Value(const JsonRecord<kLayout, T...>& record) {
  BeginObject(kLayout);
  std::apply([&](const T&... members) { Members(members...); }, record.members);
  EndObject();
}

template <class T>
void JsonWriter::Member(std::string_view key, const Given<T>& given) {
  const T& value = given.value;
  bool has = false;
  if constexpr (std::is_arithmetic_v<T>) {
    has = value > 0;
  } else if constexpr (requires { value.empty(); }) {
    has = !value.empty();
  } else {
    has = value.has_value();
  }
  if (has) Member(key, value);
}

template <class Range, class Project>
void JsonWriter::List(JsonLayout layout, const Range& values,
                      const Project& project) {
  BeginArray(layout);
  for (const auto& value : values) {
    using Result = std::invoke_result_t<const Project&, decltype(value)>;
    if constexpr (std::is_void_v<Result>) {
      std::invoke(project, value);
    } else {
      Value(std::invoke(project, value));
    }
  }
  EndArray();
}

template <class Range, class Write>
void JsonWriter::Objects(std::string_view key, JsonLayout list,
                         JsonLayout object, const Range& values,
                         const Write& write) {
  Key(key);
  List(list, values, [&](const auto& value) {
    BeginObject(object);
    write(value);
    EndObject();
  });
}

// Writes a document: an object with a member on each line, which begins with
// its schema, and a line's end. `write(JsonWriter&)` writes the other members.
template <class Write>
void WriteDocument(Sink& out, std::string_view schema, const Write& write) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", schema);
  write(json);
  json.EndObject();
  out.Put('\n');
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
