// Writes a manifest as text or as JSON. The text is shortened: tensors of the
// same dtype and shape whose names have the same template share one line.
// This line begins with the number of these tensors, and stands where the first
// of them would stand. For example, two tensors share a line:
//
//   model.layers.0.mlp.up [8, 8], model.layers.1.mlp.up [8, 8]
//     ->  2  model.layers.*.mlp.up  [8, 8]
#include "emit/plans/manifest_text.h"

#include <map>

#include "model/name.h"
#include "source/checked.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string TypeText(const TensorType& type) {
  std::string out = type.shape ? ShapeText(*type.shape) : "shape unknown";
  if (type.dtype) out += " " + std::string(DtypeName(*type.dtype));
  return out;
}

std::optional<int64_t> Sum(const Manifest& manifest,
                           std::optional<int64_t> (TensorType::*get)() const) {
  std::optional<int64_t> sum = 0;
  for (const Tensor& tensor : manifest.tensors) {
    const auto value = (manifest.TypeOf(tensor).*get)();
    sum = sum && value ? CheckedAdd(*sum, *value) : std::nullopt;
  }
  return sum;
}

}  // namespace

std::string ManifestText(const Manifest& manifest) {
  struct Group {
    std::string name;
    uint32_t type;
    int64_t count;
  };
  std::vector<Group> groups;
  std::map<std::pair<std::string, uint32_t>, size_t> by_name;
  for (const Tensor& tensor : manifest.tensors) {
    std::string name = NameTemplate(tensor.name, manifest.separator);
    const auto [at, inserted] =
        by_name.try_emplace({name, tensor.type}, groups.size());
    if (inserted) groups.push_back({std::move(name), tensor.type, 0});
    ++groups[at->second].count;
  }
  std::string out;
  if (!manifest.model.empty()) {
    out += "model       " + Printable(manifest.model) + "\n";
  }
  out += "parameters  " +
         CountText(static_cast<int64_t>(manifest.tensors.size())) + "\n";
  const auto elements = Sum(manifest, &TensorType::Elements);
  const auto bytes = Sum(manifest, &TensorType::Bytes);
  out += "elements    " + (elements ? CountText(*elements) : "unknown") + "\n";
  out += "bytes       " + (bytes ? BytesText(*bytes) : "unknown") + "\n";
  out += "separator   ";
  out += manifest.separator == 0 ? std::string("none")
                                 : std::string(1, manifest.separator);
  out += "\n";
  for (const std::string& note : manifest.notes) {
    out += "note        " + Printable(note) + "\n";
  }
  if (!groups.empty()) out += "\n";
  for (const Group& group : groups) {
    out += PadLeft(CountText(group.count), 7) + "  " + Printable(group.name) +
           "  " + TypeText(manifest.types[group.type]) + "\n";
  }
  return out;
}

void WriteManifestJson(const Manifest& manifest, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", "shardc.manifest/v1");
  if (!manifest.model.empty()) json.Member("model", manifest.model);
  if (!manifest.naming.empty()) json.Member("naming", manifest.naming);
  if (manifest.separator != 0) {
    json.Member("separator", std::string_view(&manifest.separator, 1));
  }
  json.Key("params");
  json.BeginArray(JsonLayout::kLines);
  for (const Tensor& tensor : manifest.tensors) {
    json.BeginObject();
    json.Member("name", tensor.name);
    WriteTypeMembers(json, manifest.TypeOf(tensor));
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
