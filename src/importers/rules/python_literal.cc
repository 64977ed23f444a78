// Makes the values of Python expressions, compares them, and decides which are
// true. Two values are the same if their content is equal, wherever they are in
// the text. As in Python, zero and an empty text, sequence, dict or partition
// spec are false. For example:
//
//   Same(("a", 1), ["a", 1])  ->  true     TruthOf(())  ->  false
#include "importers/rules/python_literal.h"

#include <cctype>
#include <charconv>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

namespace shardc::imports {
namespace {

// Returns whether a number in Python's notation is zero, such as `0`, `0.0e1`
// or `0x_0`.
bool IsZero(std::string_view number) {
  const bool prefixed = number.size() > 1 && number[0] == '0' &&
                        std::isalpha(static_cast<unsigned char>(number[1])) &&
                        number[1] != 'e' && number[1] != 'E' &&
                        number[1] != 'j' && number[1] != 'J';
  if (prefixed) return number.find_first_not_of("0_", 2) == number.npos;
  const std::string_view digits = number.substr(0, number.find_first_of("eE"));
  return digits.find_first_of("123456789") == digits.npos;
}

}  // namespace

PyValue Simple(PyIs is, const PyNode& node, std::string text) {
  PyValue value;
  value.is = is;
  value.begin = node.begin;
  value.end = node.end;
  value.text = std::move(text);
  return value;
}

PyValue Unknown(const PyNode& node, std::string why, std::string flag) {
  PyValue value = Simple(PyIs::kUnknown, node);
  value.why = std::move(why);
  value.flag = std::move(flag);
  value.why_begin = node.begin;
  value.why_end = node.end;
  return value;
}

PyValue Truth(const PyNode& node, bool truth) {
  PyValue value = Simple(PyIs::kBool, node);
  value.truth = truth;
  return value;
}

PyValue FromFlag(const std::string& text, const PyNode& node) {
  if (text == "true" || text == "True") {
    PyValue value = Simple(PyIs::kBool, node);
    value.truth = true;
    return value;
  }
  if (text == "false" || text == "False") return Simple(PyIs::kBool, node);
  if (text == "none" || text == "None") return Simple(PyIs::kNone, node);
  const bool digits = !text.empty() && text.size() < 16 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  return Simple(digits ? PyIs::kNumber : PyIs::kText, node, text);
}

std::string DecimalText(std::string_view number) {
  const char letter = number.size() > 2 && number[0] == '0' ? number[1] : '0';
  const int base = letter == 'x' || letter == 'X'   ? 16
                   : letter == 'o' || letter == 'O' ? 8
                   : letter == 'b' || letter == 'B' ? 2
                                                    : 10;
  std::string digits;
  for (const char c : number.substr(base == 10 ? 0 : 2)) {
    if (c != '_') digits += c;
  }
  int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value, base);
  return read.ec == std::errc() && read.ptr == end ? std::to_string(value)
                                                   : std::string(number);
}

bool IsDecimal(const PyValue& value) {
  return value.is == PyIs::kNumber &&
         value.text.find_first_not_of("0123456789") == std::string::npos;
}

std::optional<int64_t> WholeNumber(const PyValue& value) {
  if (value.is != PyIs::kNumber) return std::nullopt;
  int64_t out = 0;
  size_t digits = 0;
  for (const char c : value.text) {
    if (c == '_') continue;
    if (c < '0' || c > '9' || ++digits > 15) return std::nullopt;
    out = out * 10 + (c - '0');
  }
  if (digits == 0) return std::nullopt;
  return out;
}

bool Same(const PyValue& a, const PyValue& b) {
  if (a.is != b.is || a.text != b.text || a.truth != b.truth ||
      a.items.size() != b.items.size()) {
    return false;
  }
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!Same(a.items[i], b.items[i])) return false;
  }
  return true;
}

std::optional<bool> TruthOf(const PyValue& value) {
  switch (value.is) {
    case PyIs::kBool:
      return value.truth;
    case PyIs::kNone:
      return false;
    case PyIs::kNumber:
      return !IsZero(value.text);
    case PyIs::kText:
      return !value.text.empty();
    case PyIs::kSequence:
    case PyIs::kDict:
    case PyIs::kSpec:
      return !value.items.empty();
    default:
      return std::nullopt;
  }
}

int64_t BytesOf(const PyValue& value) {
  return static_cast<int64_t>(sizeof(PyValue) + value.text.size() +
                              value.why.size() + value.flag.size());
}

int64_t BytesOf(const PyList<PyValue>& values) {
  int64_t out = 0;
  for (const PyValue& one : values) out += BytesOf(one);
  return out;
}

PyValue Sized(PyValue value, const PyNode& node) {
  value.size = 1;
  for (const PyValue& item : value.items) value.size += item.size;
  for (const PyField& field : value.fields) value.size += field.second.size;
  if (value.size <= kPySizeLimit) return value;
  return Unknown(node, "a value of more than a million parts");
}

bool IsSpecName(std::string_view name) {
  return name == "PartitionSpec" || name == "PS" || name == "P" ||
         name == "Ps" || name == "PSpec";
}

bool KeepsItsArgument(std::string_view function) {
  return function == "tuple" || function == "list" || function == "freeze" ||
         function == "dict" || function == "OrderedDict" ||
         function == "FrozenDict" || function == "compile";
}

PyValue ResolvedOf(const PyValue& given, const PyNode& node) {
  constexpr std::string_view kNames[] = {"axes", "mode", "dynamic_axes",
                                         "shape"};
  std::map<std::string, PyValue, std::less<>> named;
  for (size_t i = 0; i < given.items.size() && i < std::size(kNames); ++i) {
    named.emplace(kNames[i], given.items[i]);
  }
  for (const auto& [keyword, field] : given.fields) {
    named.emplace(keyword, field);
  }
  std::erase_if(named, [](const auto& one) {
    return one.second.is == PyIs::kSymbol && one.second.text == "NOT_GIVEN";
  });
  PyValue value = Simple(PyIs::kResolved, node);
  const bool list = named.contains("axes") &&
                    named["axes"].is != PyIs::kSymbol &&
                    named["axes"].is != PyIs::kResolved;
  const bool dynamic =
      named.contains("dynamic_axes") &&
      (!named.contains("axes") || (list && !named.contains("mode")));
  if (!dynamic && named.contains("mode")) {
    value.fields.push_back({"mode", std::move(named["mode"])});
  }
  const char* chosen = dynamic ? "dynamic_axes" : "axes";
  if (named.contains(chosen)) {
    value.items.push_back(std::move(named[chosen]));
  }
  return Sized(std::move(value), node);
}

}  // namespace shardc::imports
