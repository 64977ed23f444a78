#include "records.h"

#include <cstdlib>

#include "doctest/doctest.h"
#include "source/file.h"

namespace shardc {

std::unique_ptr<const JsonDocument> LoadRecord(const std::string& name) {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  const std::string path = std::string(root ? root : ".") +
                           "/testdata/runtimes/" + name + ".json.gz";
  Findings findings;
  const SourceRef source = ReadSource(path, findings);
  REQUIRE_MESSAGE(source, path, ": unreadable");
  auto document = JsonDocument::Parse(source, findings);
  REQUIRE_MESSAGE(document, path, ": not JSON");
  return document;
}

JsonValue Member(JsonValue object, std::string_view key) {
  const auto value = object.Find(key);
  REQUIRE_MESSAGE(value, "no member ", std::string(key));
  return *value;
}

std::vector<int64_t> Integers(JsonValue list) {
  std::vector<int64_t> integers;
  for (JsonValue number : list.items()) integers.push_back(number.integer());
  return integers;
}

Mesh RecordedMesh(JsonValue axes) {
  Mesh mesh;
  for (JsonMember axis : axes.members()) {
    mesh.axes.push_back({std::string(axis.name()), axis.value.integer()});
    mesh.devices *= axis.value.integer();
  }
  return mesh;
}

Spec RecordedSpec(JsonValue spec) {
  Spec groups;
  for (JsonValue entry : spec.items()) {
    AxisGroup& group = groups.emplace_back();
    if (entry.IsString()) group.emplace_back(entry.string());
    if (!entry.IsArray()) continue;
    for (JsonValue axis : entry.items()) group.emplace_back(axis.string());
  }
  return groups;
}

ShardingCase RecordedCase(JsonValue entry) {
  ShardingCase asked{RecordedMesh(Member(entry, "mesh")),
                     Integers(Member(entry, "shape")),
                     RecordedSpec(Member(entry, "spec")),
                     {}};
  asked.text = MeshText(asked.mesh) + ", " + ShapeText(asked.shape) + ", " +
               SpecText(asked.spec);
  return asked;
}

}  // namespace shardc
