// Defines how doctest prints the values that a failed check compared.
//
// doctest by itself prints `{?}` for a structure, an address for a pointer to
// text and a number for an enumerator. Every value that a check stringifies is
// printed by Text() below instead: enumerators by name, containers by element,
// aggregates by field, pointers by what they point to. A type that none of the
// cases covers does not compile, so no check can fail with `{?}`. Examples:
// CHECK(x == y) of two axes prints `{"tp", 4, kAuto} == {"tp", 8, kAuto}`;
// CHECK(found == nullptr) prints `&{"tp", 4, kAuto} == nullptr`.
//
// For a class with private members, define `std::string Printed(const T&)` in
// the namespace of the class, or add the class to the list at the end of this
// file.
#ifndef SHARDC_TESTS_PRINTING_H_
#define SHARDC_TESTS_PRINTING_H_

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace doctest {
class String;
}  // namespace doctest

namespace printing {
template <typename T>
doctest::String Text(const T& value);
template <size_t kSize>
doctest::String Text(const char (&value)[kSize]);
}  // namespace printing

// This must be defined before doctest's header is included, because its
// templates use it.
#define DOCTEST_STRINGIFY(...) ::printing::Text(__VA_ARGS__)
#include <doctest/doctest.h>

namespace printing {

// Appends the value to the text. Nested texts are quoted.
template <typename T>
void Print(std::string* out, const T& value, bool nested);

// The compiler's own description of this function ends in the names of the
// values: "... [with auto ...kValues = {shardc::Mode::kDecode,
// (shardc::Mode)9}]", where the enumeration has no enumerator of value 9. One
// function for all values takes a fraction of the compiler's time that a
// function for each takes.
template <auto... kValues>
std::string_view Described() {
  return __PRETTY_FUNCTION__;
}

// Returns the name of the value at the index; empty if it has no enumerator.
inline std::string_view NameIn(std::string_view described, size_t index) {
  const std::string_view list =
      described.substr(described.find("kValues = ") + 11);
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < list.size() && depth >= 0; ++i) {
    const bool closes = list[i] == '>' || list[i] == ')' || list[i] == '}';
    depth += list[i] == '<' || list[i] == '(' || list[i] == '{';
    depth -= closes;
    if (depth > 0 || (list[i] != ',' && depth == 0)) continue;
    if (index == 0) {
      const std::string_view value = list.substr(begin, i - begin);
      const std::string_view name = value.substr(value.rfind(':') + 1);
      return name.find(')') == name.npos ? name : std::string_view();
    }
    --index;
    begin = i + 2;
  }
  return {};
}

// Returns the enumerator's name; empty if the value is not among the first 128.
template <typename E>
std::string_view EnumeratorName(E value) {
  const std::string_view described =
      []<size_t... kI>(std::index_sequence<kI...>) {
    return Described<static_cast<E>(kI)...>();
  }
  (std::make_index_sequence<128>());
  return NameIn(described, static_cast<size_t>(value));
}

// Stands for a value of any type but T, in an attempt to initialise T with it.
template <typename T>
struct AnyBut {
  template <typename U>
  requires(!std::same_as<std::remove_cvref_t<U>, T>) operator U()
      const;  // NOLINT(google-explicit-constructor)
};

template <typename T, size_t... kI>
constexpr bool TakesFields(std::index_sequence<kI...>) {
  return requires { T{((void)kI, AnyBut<T>())...}; };
}

// Returns the number of fields of an aggregate without arrays, at most 16.
template <typename T, size_t kTried = 16>
constexpr size_t FieldCount() {
  if constexpr (TakesFields<T>(std::make_index_sequence<kTried>())) {
    return kTried;
  } else {
    static_assert(kTried > 0, "not an aggregate whose fields can be counted");
    return FieldCount<T, kTried - 1>();
  }
}

// Calls f(field...) with the fields of an aggregate.
template <typename T, typename F>
void WithFields(const T& x, F&& f) {
  constexpr size_t kCount = FieldCount<T>();
#define SHARDC_FIELDS(count, ...)    \
  if constexpr (kCount == (count)) { \
    const auto& [__VA_ARGS__] = x;   \
    f(__VA_ARGS__);                  \
  }
  SHARDC_FIELDS(1, a)
  SHARDC_FIELDS(2, a, b)
  SHARDC_FIELDS(3, a, b, c)
  SHARDC_FIELDS(4, a, b, c, d)
  SHARDC_FIELDS(5, a, b, c, d, e)
  SHARDC_FIELDS(6, a, b, c, d, e, g)
  SHARDC_FIELDS(7, a, b, c, d, e, g, h)
  SHARDC_FIELDS(8, a, b, c, d, e, g, h, i)
  SHARDC_FIELDS(9, a, b, c, d, e, g, h, i, j)
  SHARDC_FIELDS(10, a, b, c, d, e, g, h, i, j, k)
  SHARDC_FIELDS(11, a, b, c, d, e, g, h, i, j, k, l)
  SHARDC_FIELDS(12, a, b, c, d, e, g, h, i, j, k, l, m)
  SHARDC_FIELDS(13, a, b, c, d, e, g, h, i, j, k, l, m, n)
  SHARDC_FIELDS(14, a, b, c, d, e, g, h, i, j, k, l, m, n, o)
  SHARDC_FIELDS(15, a, b, c, d, e, g, h, i, j, k, l, m, n, o, p)
  SHARDC_FIELDS(16, a, b, c, d, e, g, h, i, j, k, l, m, n, o, p, q)
#undef SHARDC_FIELDS
}

// Appends values, separated by commas, between brackets.
class List {
 public:
  List(std::string* out, const char* brackets)
      : out_(*out), close_(brackets[1]) {
    out_ += brackets[0];
  }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  ~List() { out_ += close_; }

  template <typename T>
  void Add(const T& value) {
    Comma();
    Print(&out_, value, true);
  }
  template <typename K, typename V>
  void Add(const K& key, const V& value) {
    Add(key);
    out_ += ": ";
    Print(&out_, value, true);
  }

 private:
  void Comma() {
    if (!first_) out_ += ", ";
    first_ = false;
  }

  std::string& out_;
  char close_;
  bool first_ = true;
};

inline void PrintString(std::string* out, std::string_view text, bool nested) {
  if (nested) *out += '"';
  *out += text;
  if (nested) *out += '"';
}

template <typename T>
concept HasPrinted = requires(const T& x) {
  { Printed(x) } -> std::convertible_to<std::string>;
};
template <typename T>
concept IsMap = requires {
  typename T::mapped_type;
};
template <typename T>
concept IsOptional = requires(const T& x) {
  x.has_value();
  *x;
};
template <typename T>
concept IsTuple = requires {
  std::tuple_size<T>::value;
};
template <typename T>
concept IsVariant = requires {
  std::variant_size<T>::value;
};
template <typename T>
concept IsSmartPointer = requires(const T& x) {
  typename T::element_type;
  { x.get() } -> std::convertible_to<const void*>;
};

// Prints values that doctest itself prints well: numbers, its own types, and
// types that can be streamed.
template <typename T>
void PrintByDoctest(std::string* out, const T& value) {
  using doctest::toString;
  *out += toString(value).c_str();
}

template <typename T>
concept IsComplete = requires {
  sizeof(T);
};
template <typename T>
concept HasNameField = requires(const T& x) {
  { x.name } -> std::convertible_to<std::string_view>;
};
template <typename T>
concept HasNameFunction = requires(const T& x) {
  { x.name() } -> std::convertible_to<std::string_view>;
};
// An aggregate that can be compared is printed by its fields, which are counted
// up to 16.
template <typename T>
concept IsPrintedByFields =
    std::is_aggregate_v<T> && std::equality_comparable<T> &&
    !std::is_array_v<T> &&
    !std::ranges::range<const T>;
template <typename T>
concept IsPlain = std::is_arithmetic_v<T> || std::is_enum_v<T> ||
    std::is_convertible_v<const T&, std::string_view>;

// Prints a pointer, other than one to text, by its object, such as `&3` or
// `&{"tp", 4, kAuto}`: an address would differ in each run and show nothing. An
// object that is not printed by fields has its name after the `&`, or else its
// type. So has an aggregate in another value, because its own pointers may lead
// back to that value.
template <typename Pointed>
void PrintPointee(std::string* out, Pointed* pointer, bool nested) {
  using T = std::remove_cv_t<Pointed>;
  if (pointer == nullptr) {
    *out += "nullptr";
    return;
  }
  *out += '&';
  if constexpr (std::is_void_v<T> || std::is_function_v<T>) {
    *out += doctest::toString<T>().c_str();
  } else if constexpr (!IsComplete<T>) {
    *out += doctest::toString<T>().c_str();
  } else if constexpr (HasPrinted<T> || IsPlain<T>) {
    Print(out, *pointer, true);
  } else {
    if constexpr (IsPrintedByFields<T>) {
      if (!nested) {
        Print(out, *pointer, true);
        return;
      }
    }
    if constexpr (HasNameField<T>) {
      *out += std::string_view(pointer->name);
    } else if constexpr (HasNameFunction<T>) {
      *out += std::string_view(pointer->name());
    } else {
      *out += doctest::toString<T>().c_str();
    }
  }
}

template <typename T>
void PrintRange(std::string* out, const T& value) {
  List list(out, IsMap<T> ? "{}" : "[]");
  for (const auto& element : value) {
    if constexpr (IsMap<T>) {
      list.Add(element.first, element.second);
    } else {
      list.Add(static_cast<const std::ranges::range_value_t<T>&>(element));
    }
  }
}

template <typename T>
void PrintFields(std::string* out, const T& value) {
  List list(out, "{}");
  WithFields(value, [&](const auto&... fields) { (list.Add(fields), ...); });
}

template <typename T>
void Print(std::string* out, const T& value, bool nested) {
  if constexpr (HasPrinted<T>) {
    *out += Printed(value);
  } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
    *out += "nullptr";
  } else if constexpr (std::is_array_v<T> &&
                       std::is_same_v<std::remove_extent_t<T>, char>) {
    PrintString(out, {value, strnlen(value, sizeof(value))}, nested);
  } else if constexpr (std::is_same_v<T, const char*> ||
                       std::is_same_v<T, char*>) {
    if (value == nullptr) {
      *out += "nullptr";
    } else {
      PrintString(out, value, nested);
    }
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    PrintString(out, value.string(), nested);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    PrintString(out, value, nested);
  } else if constexpr (std::is_enum_v<T> && !std::is_convertible_v<T, int>) {
    const std::string_view name = EnumeratorName(value);
    if (!name.empty()) {
      *out += name;
    } else {
      PrintByDoctest(out, value);
    }
  } else if constexpr (std::is_same_v<T, char>) {
    *out += value;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    PrintByDoctest(out, value);
  } else if constexpr (std::is_same_v<T, std::nullopt_t>) {
    *out += "nullopt";
  } else if constexpr (std::is_same_v<T, std::monostate>) {
    *out += "monostate";
  } else if constexpr (IsOptional<T>) {
    if (!value.has_value()) {
      *out += "nullopt";
    } else {
      Print(out, *value, nested);
    }
  } else if constexpr (IsVariant<T>) {
    std::visit([&](const auto& x) { Print(out, x, nested); }, value);
  } else if constexpr (std::ranges::range<const T>) {
    PrintRange(out, value);
  } else if constexpr (IsTuple<T>) {
    List list(out, "()");
    std::apply([&](const auto&... x) { (list.Add(x), ...); }, value);
  } else if constexpr (std::is_pointer_v<T>) {
    PrintPointee(out, value, nested);
  } else if constexpr (IsSmartPointer<T>) {
    PrintPointee(out, value.get(), nested);
  } else if constexpr (doctest::detail::has_insertion_operator<T>::value ||
                       std::is_same_v<T, doctest::String> ||
                       std::is_same_v<T, doctest::Approx>) {
    PrintByDoctest(out, value);
  } else if constexpr (std::is_convertible_v<const T&, int64_t>) {
    Print(out, static_cast<int64_t>(value), nested);
  } else if constexpr (!std::equality_comparable<T> || std::input_iterator<T>) {
    // Such values cannot be compared, so a check can only be about their
    // presence or position.
    *out += doctest::toString<T>().c_str();
  } else {
    static_assert(std::is_aggregate_v<T>,
                  "doctest cannot print this type: see printing.h");
    PrintFields(out, value);
  }
}

inline doctest::String StringOf(std::string_view text) {
  return {text.data(), static_cast<doctest::String::size_type>(text.size())};
}

// Literals have as many types as lengths, and need nothing of Print.
template <size_t kSize>
doctest::String Text(const char (&value)[kSize]) {
  return StringOf({value, strnlen(value, kSize)});
}

template <typename T>
doctest::String Text(const T& value) {
  std::string out;
  Print(&out, value, false);
  return StringOf(out);
}

}  // namespace printing

#endif  // SHARDC_TESTS_PRINTING_H_
