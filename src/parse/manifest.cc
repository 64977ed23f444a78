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

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "parse/manifest_leaf.h"
#include "source/wording.h"
#include "yaml/error.h"

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

}  // namespace shardc
