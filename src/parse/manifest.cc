// Reads manifests, which list the parameters of a model in one of two forms.
// shardc's own form is a list of records with names, or an object with a record
// for each name. The other form is a tree. A record with `shape` or `dtype` in
// the tree is a parameter, and the path to the record is its name:
//
//   {"a": {"b": {"shape": [2], "dtype": "F32"}}}  ->  `a/b`, separator `/`
//
// Names in a list are not changed. If the manifest does not state the separator
// of names, it is `/` or `.`, whichever more names contain.
#include "parse/manifest.h"

#include <array>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/manifest.h"
#include "model/name.h"
#include "source/size.h"
#include "source/wording.h"
#include "yaml/scan.h"

namespace shardc {
namespace {

constexpr std::string_view kSchemaName = "shardc.manifest/v1";

// Returns whether the name has a dot that separates two parts. A dot at the
// beginning or at the end, and the dots of `..`, separate no parts.
bool HoldsDot(std::string_view name) {
  const auto separates = [](char c) { return c != '.' && c != '/'; };
  for (size_t at = name.find('.'); at != std::string_view::npos;
       at = name.find('.', at + 1)) {
    if (at > 0 && at + 1 < name.size() && separates(name[at - 1]) &&
        separates(name[at + 1])) {
      return true;
    }
  }
  return false;
}

class ManifestReader {
 public:
  ManifestReader(const JsonDocument& document, Findings& findings)
      : document_(document), findings_(findings) {}

  std::optional<Manifest> Read() {
    const JsonValue root = document_.root();
    builder_.manifest().source = document_.source();
    if (!root.IsObject()) {
      Add(code::kSchema, root.place(),
          "a manifest is " + Describe(root) + ", not an object",
          "write an object of parameters, or `{\"schema\": "
          "\"shardc.manifest/v1\", \"params\": [...]}`");
      return std::nullopt;
    }
    if (IsModelConfig(root)) {
      Add(code::kSchema, root.place(),
          "this is a config.json: pass it as `--model`",
          "a manifest names parameters: a safetensors file, an index, a "
          "directory of them, or JSON");
      return std::nullopt;
    }
    const size_t before = findings_.errors();
    if (IsOurs(root)) {
      ReadOurs(root);
    } else {
      ReadTree(root, {});
      // This class joined the parts of the names with `/`.
      if (joined_) builder_.manifest().separator = '/';
    }
    if (findings_.errors() > before) return std::nullopt;
    return builder_.Take();
  }

 private:
  void Add(const Code& code, Place place, std::string message,
           std::string help = {}) {
    findings_.Add(code, std::move(place), std::move(message), std::move(help));
  }

  // Returns whether the file is a config.json of Hugging Face, which a user may
  // pass as the manifest by mistake. Such a file has keys that parameter trees
  // do not have.
  static bool IsModelConfig(const JsonValue& root) {
    const auto type = root.Find("model_type");
    const auto classes = root.Find("architectures");
    return (type && type->IsString()) || (classes && classes->IsArray());
  }

  // Returns whether the file has shardc's own form. Such a file has the key
  // `schema`, or a list `params` that is empty or whose first item has a name.
  // The key `params` is not sufficient, because a tree may have a branch of
  // that name.
  static bool IsOurs(const JsonValue& root) {
    const auto schema = root.Find("schema");
    if (schema && schema->IsString()) return true;
    const auto params = root.Find("params");
    if (!params || !params->IsArray()) return false;
    for (const JsonValue item : params->items()) {
      if (!item.IsObject()) return false;
      const auto name = item.Find("name");
      return name && name->IsString();
    }
    return true;
  }

  void ReadOurs(const JsonValue& root) {
    std::optional<JsonValue> params;
    for (const JsonMember member : root.members()) {
      const JsonValue& value = member.value;
      if (member.name() == "schema") {
        CheckSchema(value);
      } else if (member.name() == "params") {
        params = value;
      } else if (member.name() == "model") {
        ReadText(value, "model", builder_.manifest().model);
      } else if (member.name() == "naming") {
        ReadText(value, "naming", builder_.manifest().naming);
      } else if (member.name() == "separator") {
        ReadSeparator(value);
      }
    }
    if (!params) {
      Add(code::kSchema, root.place(), "a manifest has no `params`",
          "write `\"params\": [{\"name\": ..., \"shape\": ..., \"dtype\": "
          "...}]`");
    } else if (params->IsArray()) {
      seen_.reserve(params->size());
      builder_.manifest().tensors.reserve(params->size());
      for (const JsonValue item : params->items()) ReadItem(item);
    } else if (params->IsObject()) {
      for (const JsonMember member : params->members()) {
        if (findings_.Full()) return;
        ReadParameter(member.name(), member.key, member.value);
      }
    } else {
      Add(code::kSchema, params->place(),
          "`params` is " + Describe(*params) +
              ", neither a list nor an object");
    }
  }

  void CheckSchema(const JsonValue& value) {
    if (value.IsString() && value.string() == kSchemaName) return;
    Add(code::kSchema, value.place(),
        "`schema` is " + Describe(value) + ", not `" +
            std::string(kSchemaName) + "`");
  }

  void ReadText(const JsonValue& value, std::string_view key,
                std::string& out) {
    if (value.IsString()) {
      out = value.string();
    } else if (!value.IsNull()) {
      Add(code::kSchema, value.place(),
          "`" + std::string(key) + "` is " + Describe(value) +
              ", not a string");
    }
  }

  void ReadSeparator(const JsonValue& value) {
    if (value.IsString() && (value.string() == "/" || value.string() == ".")) {
      builder_.manifest().separator = value.string()[0];
    } else if (!value.IsNull()) {
      Add(code::kSchema, value.place(), "`separator` is " + Describe(value),
          "it can be `/` or `.`");
    }
  }

  // Reads a record {"name": ..., "shape": ..., "dtype": ...}.
  void ReadItem(const JsonValue& item) {
    if (findings_.Full()) return;
    if (!item.IsObject()) {
      Add(code::kSchema, item.place(),
          "a parameter is " + Describe(item) + ", not an object");
      return;
    }
    const auto name = item.Find("name");
    if (!name || !name->IsString()) {
      Add(code::kSchema, item.place(),
          name ? "the name of a parameter is " + Describe(*name) +
                     ", not a string"
               : "a parameter has no `name`");
      return;
    }
    // The set stores views of the names, because the document owns the strings
    // and outlives the set.
    if (!seen_.insert(name->string()).second) {
      AddRepeated(name->string(), *name);
      return;
    }
    ReadParameter(name->string(), *name, item);
  }

  void AddRepeated(std::string_view name, const JsonValue& at) {
    Add(code::kDuplicateKey, at.place(),
        "parameter " + ShortQuote(name) + " is given twice",
        "remove one of the two");
  }

  // Reads a parameter. `at` is the place of the parameter's name, or of the
  // last part of the name.
  void ReadParameter(std::string_view name, const JsonValue& at,
                     const JsonValue& leaf) {
    if (!CheckParameterName(name, at, findings_)) return;
    if (!leaf.IsObject()) {
      Add(code::kSchema, leaf.place(),
          "parameter " + ShortQuote(name) + " is " + Describe(leaf) +
              ", not an object");
      return;
    }
    auto type = ReadTensorType(leaf, name, at, findings_);
    if (type) builder_.Add(name, std::move(*type));
  }

  // Returns whether the value is a parameter. A branch of a tree may have a
  // child named `shape` or `dtype`, so the types of these children are checked
  // too.
  static bool IsLeaf(const JsonValue& value) {
    if (!value.IsObject()) return false;
    const auto dtype = value.Find("dtype");
    if (dtype && (dtype->IsString() || dtype->IsNull())) return true;
    const auto shape = value.Find("shape");
    return shape && !shape->IsObject();
  }

  void ReadTree(const JsonValue& node, const std::string& prefix) {
    size_t index = 0;
    if (node.IsArray()) {
      for (const JsonValue item : node.items()) {
        ReadBranch(std::to_string(index++), item, item, prefix);
      }
      return;
    }
    for (const JsonMember member : node.members()) {
      ReadBranch(std::string(member.name()), member.key, member.value, prefix);
    }
  }

  void ReadBranch(const std::string& part, const JsonValue& at,
                  const JsonValue& value, const std::string& prefix) {
    if (findings_.Full()) return;
    if (value.IsNull()) return;  // a branch of the tree without parameters
    if (!CheckParameterName(part, at, findings_)) return;
    std::string name = prefix.empty() ? part : prefix + "/" + part;
    if (IsLeaf(value)) {
      joined_ |= !prefix.empty();
      // A name may occur twice, because `a/b` may be a single key, or the key
      // `b` inside `a`.
      if (joined_names_.insert(name).second) {
        ReadParameter(name, at, value);
      } else {
        AddRepeated(name, at);
      }
    } else if (value.IsObject() || value.IsArray()) {
      ReadTree(value, name);
    } else {
      Add(code::kSchema, value.place(),
          ShortQuote(name) + " is " + Describe(value) +
              ", neither a parameter nor a tree of them",
          "a parameter is `{\"shape\": [...], \"dtype\": \"BF16\"}`");
    }
  }

  static std::string Describe(const JsonValue& value) {
    return DescribeJson(value);
  }

  const JsonDocument& document_;
  Findings& findings_;
  ManifestBuilder builder_;
  // The names of a manifest in list form that were read so far, to report
  // duplicates.
  std::unordered_set<std::string_view> seen_;
  // The names of a manifest in tree form that were read so far, to report
  // duplicates.
  std::unordered_set<std::string> joined_names_;
  bool joined_ = false;
};

}  // namespace

std::optional<Manifest> ParseManifest(const JsonDocument& document,
                                      Findings& findings) {
  return ManifestReader(document, findings).Read();
}

void SettleSeparator(Manifest& manifest, Findings& findings) {
  if (manifest.separator != 0) return;
  int64_t slashes = 0;
  int64_t dots = 0;
  for (const Tensor& tensor : manifest.tensors) {
    slashes += tensor.name.find('/') != std::string::npos ? 1 : 0;
    dots += HoldsDot(tensor.name) ? 1 : 0;
  }
  if (slashes == 0 && dots == 0) return;
  if (slashes == dots) {
    findings.Add(
        code::kSeparator,
        {manifest.source, Place::kEntireFile, Place::kEntireFile},
        "as many names hold `/` as hold `.`: " + CountText(slashes) + " of " +
            Counted(static_cast<int64_t>(manifest.tensors.size()), "parameter"),
        "write `\"separator\": \"/\"` or `\".\"` in the manifest; only "
        "shardc's "
        "own JSON can have it: list the names, shapes and dtypes of another "
        "file in a manifest of that format (`man shardc-manifest`)");
    return;
  }
  manifest.separator = slashes > dots ? '/' : '.';
}

// Reads the shape and the dtype of a parameter. An error in one of them does
// not prevent reading the other, so errors in both are found in one run. Then
// the numbers of elements and bytes are checked for overflow:
//
//   {"shape": [4, 8], "dtype": "bfloat16"}  ->  BF16 [4, 8], 64 bytes
//   {"shape": [4611686018427387904, 4], ...}  ->  finding `overflow`

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
