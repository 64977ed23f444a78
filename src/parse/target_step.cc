#include "parse/target_step.h"

#include "source/file.h"
#include "source/finding.h"
#include "yaml/yaml.h"

namespace shardc {
namespace {

const YamlNode* MemberOf(const YamlNode& node, std::string_view key) {
  for (const YamlMember& member : node.members) {
    if (member.key.text == key) return &member.value;
  }
  return nullptr;
}

}  // namespace

std::string StepPathOf(const Target& target) {
  const SourceRef& source = target.place.source;
  if (source == nullptr) return {};
  Findings told;  // when the project was read
  const auto document = YamlDocument::Parse(source, told);
  if (!document) return {};
  const YamlNode* const targets = MemberOf(document->root(), "targets");
  const YamlNode* const own =
      targets == nullptr ? nullptr : MemberOf(*targets, target.name);
  const YamlNode* const step =
      own == nullptr ? nullptr : MemberOf(*own, "step");
  if (step == nullptr || !step->IsScalar()) return {};
  return PathBeside(source->name(), step->text);
}

}  // namespace shardc
