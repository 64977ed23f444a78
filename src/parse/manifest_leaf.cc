// Reads the shape and the dtype of a parameter. An error in one of them does
// not prevent reading the other, so errors in both are found in one run. Then
// the numbers of elements and bytes are checked for overflow:
//
//   {"shape": [4, 8], "dtype": "bfloat16"}  ->  BF16 [4, 8], 64 bytes
//   {"shape": [4611686018427387904, 4], ...}  ->  finding `overflow`
#include "parse/manifest_leaf.h"

#include <array>
#include <vector>

#include "model/block_types.h"
#include "model/name_fault.h"
#include "source/checked.h"
#include "source/wording.h"
#include "yaml/error.h"

namespace shardc {
namespace {

// Returns the number in quotes, as it is written in the file.
std::string Written(const JsonValue& value) {
  const Place place = value.place();
  return ShortQuote(
      place.source->text().substr(place.begin, place.end - place.begin));
}

std::optional<int64_t> ReadSize(const JsonValue& item, std::string_view name,
                                Findings& findings) {
  if (item.kind() == JsonKind::kInteger && item.integer() >= 0) {
    return item.integer();
  }
  const std::string subject = "a dimension of " + ShortQuote(name) + " is ";
  std::string fault;
  switch (item.kind()) {
    case JsonKind::kInteger:
      fault = Written(item) + ", less than 0";
      break;
    case JsonKind::kUnsigned:
      fault = Written(item) + ", which does not fit in 64 bits";
      break;
    case JsonKind::kReal:
      fault = Written(item) + ", which is not a decimal integer";
      break;
    default:
      fault = DescribeJson(item) + ", not an integer";
  }
  findings.Add(code::kNumber, item.place(), subject + fault);
  return std::nullopt;
}

std::optional<Shape> ReadShape(const JsonValue& value, std::string_view name,
                               Findings& findings) {
  Shape shape;
  bool good = true;
  for (const JsonValue item : value.items()) {
    const auto size = ReadSize(item, name, findings);
    good &= size.has_value();
    if (size) shape.push_back(*size);
    if (findings.Full()) return std::nullopt;
  }
  if (!good) return std::nullopt;
  return shape;
}

// Returns whether the numbers of elements and bytes fit in int64_t. If the
// dtype is stored in blocks, such as Q4_K, the size of the last dimension must
// also be a multiple of the block size. If not, adds a finding.
bool Fits(const TensorType& type, std::string_view name, const JsonValue& shape,
          Findings& findings) {
  if (!type.shape) return true;
  const auto elements = CheckedProduct(*type.shape);
  if (!elements) {
    findings.Add(code::kOverflow, shape.place(),
                 "the elements of " + ShortQuote(name) + " with shape " +
                     ShapeText(*type.shape) + " do not fit in 64 bits");
    return false;
  }
  if (type.dtype && !BytesOf(*elements, *type.dtype)) {
    findings.Add(code::kOverflow, shape.place(),
                 "the bytes of " + ShortQuote(name) + " with " +
                     CountText(*elements) + " elements of " +
                     std::string(DtypeName(*type.dtype)) +
                     " do not fit in 64 bits");
    return false;
  }
  const int64_t block = type.dtype ? BlockElements(*type.dtype) : 1;
  const int64_t innermost = type.shape->empty() ? 1 : type.shape->back();
  if (innermost % block == 0) return true;
  findings.Add(code::kSize, shape.place(),
               "the last dimension of " + ShortQuote(name) + " is " +
                   std::to_string(innermost) + ", not a multiple of the " +
                   std::to_string(block) + " elements of a block of " +
                   std::string(DtypeName(*type.dtype)));
  return false;
}

void AddMissing(std::string_view key, std::string_view name,
                const JsonValue& leaf, const JsonValue& at,
                Findings& findings) {
  std::vector<std::string> keys;
  for (const JsonMember member : leaf.members()) {
    keys.emplace_back(member.name());
  }
  const auto near = Nearest(key, keys);
  findings.Add(
      code::kSchema, at.place(),
      "parameter " + ShortQuote(name) + " has no `" + std::string(key) + "`",
      near ? "is `" + Printable(*near) + "` meant?"
           : "write null where it is not known");
}

}  // namespace

std::string DescribeJson(const JsonValue& value) {
  switch (value.kind()) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return value.boolean() ? "the boolean `true`" : "the boolean `false`";
    case JsonKind::kInteger:
    case JsonKind::kUnsigned:
    case JsonKind::kReal:
      return "the number " + Written(value);
    case JsonKind::kString:
      return "the string " + ShortQuote(value.string());
    case JsonKind::kArray:
      return "a list";
    case JsonKind::kObject:
      return "an object";
  }
  return "unknown";
}

bool CheckParameterName(std::string_view name, const JsonValue& at,
                        Findings& findings) {
  std::string fault = name.empty() ? "the name of a parameter is empty"
                                   : ParameterNameFault(name);
  if (fault.empty()) return true;
  findings.Add(code::kName, at.place(), std::move(fault));
  return false;
}

std::optional<TensorType> ReadTensorType(const JsonValue& leaf,
                                         std::string_view name,
                                         const JsonValue& at,
                                         Findings& findings) {
  std::optional<JsonValue> shape;
  std::optional<JsonValue> dtype;
  for (const JsonMember member : leaf.members()) {
    if (member.name() == "shape") shape = member.value;
    if (member.name() == "dtype") dtype = member.value;
  }
  TensorType type;
  bool good = true;
  if (!shape) {
    AddMissing("shape", name, leaf, at, findings);
    good = false;
  } else if (shape->IsArray()) {
    type.shape = ReadShape(*shape, name, findings);
    good = type.shape.has_value();
  } else if (!shape->IsNull()) {
    findings.Add(code::kSchema, shape->place(),
                 "the shape of " + ShortQuote(name) + " is " +
                     DescribeJson(*shape) + ", not a list of integers");
    good = false;
  }
  if (!dtype) {
    AddMissing("dtype", name, leaf, at, findings);
    good = false;
  } else if (dtype->IsString()) {
    type.dtype = ParseStoredDtype(dtype->string());
    if (!type.dtype) {
      findings.Add(code::kDtype, dtype->place(),
                   "the dtype of " + ShortQuote(name) + " is " +
                       ShortQuote(dtype->string()) + ", which is not known",
                   "write it as safetensors or numpy do: `BF16`, `float32`");
      good = false;
    }
  } else if (!dtype->IsNull()) {
    findings.Add(code::kSchema, dtype->place(),
                 "the dtype of " + ShortQuote(name) + " is " +
                     DescribeJson(*dtype) + ", not a string");
    good = false;
  }
  if (!good || !Fits(type, name, *shape, findings)) return std::nullopt;
  return type;
}

}  // namespace shardc
