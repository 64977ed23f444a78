// Reads, writes and applies baselines: lists of known findings that `check`
// accepts. A baseline lists names for each code. The names are the parameters
// of a finding or, for a finding without parameters, the first text that its
// message quotes. Layer and expert numbers in names are replaced by `*`, so one
// entry covers the tensors of all layers. Applying a baseline removes the known
// names from each finding. If no names remain, the finding is removed:
//
//   SHD207 of layers.0.a and layers.1.b, the baseline has SHD207: [layers.*.a]
//     ->  SHD207 of layers.1.b
#include "lint/baseline.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "model/name.h"
#include "source/file.h"
#include "source/json.h"
#include "source/json_members.h"
#include "source/json_writer.h"

namespace shardc {
namespace {

constexpr std::string_view kBaselineSchema = "shardc.baseline/v1";

// Returns the name of a finding without parameters: the first text that its
// message quotes. Returns an empty text if the message quotes nothing.
std::string Subject(const Finding& finding) {
  const size_t open = finding.message.find('`');
  if (open == std::string::npos) return {};
  const size_t close = finding.message.find('`', open + 1);
  if (close == std::string::npos) return {};
  return finding.message.substr(open + 1, close - open - 1);
}

// Returns the template `layers.*.up` for `layers.3.up`. The separator is
// inferred from the name.
std::string Folded(const std::string& name) {
  return NameTemplate(name, SeparatorOf(name));
}

std::vector<std::string> KeysOf(const Finding& finding) {
  if (finding.params.empty()) return {Subject(finding)};
  std::vector<std::string> out;
  for (const std::string& name : finding.params) out.push_back(Folded(name));
  return out;
}

// Returns whether the baseline has a name. Files of older versions have
// complete names in place of templates.
bool Knows(const std::set<std::string>& keys, const std::string& name) {
  return keys.contains(name) || keys.contains(Folded(name));
}

}  // namespace

void Baseline::Add(const Finding& finding) {
  std::set<std::string>& keys = known[finding.code->Id()];
  for (std::string& key : KeysOf(finding)) keys.insert(std::move(key));
}

int64_t Baseline::Apply(std::vector<Finding>& findings) const {
  const size_t before = findings.size();
  std::erase_if(findings, [&](Finding& finding) {
    const auto at = known.find(finding.code->Id());
    if (at == known.end()) return false;
    if (finding.params.empty()) {
      return at->second.count(Subject(finding)) > 0;
    }
    std::erase_if(finding.params, [&](const std::string& name) {
      return Knows(at->second, name);
    });
    return finding.params.empty();
  });
  return static_cast<int64_t>(before - findings.size());
}

void Baseline::Write(Sink& out) const {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", kBaselineSchema);
  json.Key("findings");
  json.BeginObject(JsonLayout::kLines);
  for (const auto& [code, keys] : known) {
    json.Key(code);
    json.BeginArray(JsonLayout::kLines);
    for (const std::string& key : keys) json.String(key);
    json.EndArray();
  }
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

std::optional<Baseline> ReadBaseline(const std::string& path,
                                     Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  const JsonValue root = document->root();
  const auto wrong = [&](const JsonValue& value) {
    findings.Add(code::kSchema, value.place(),
                 "this is not a baseline of `shardc check`",
                 "write a baseline with `--write-baseline`");
    return std::nullopt;
  };
  if (SchemaOf(root) != kBaselineSchema) return wrong(root);
  const auto by_code = root.Find("findings");
  if (!by_code || !by_code->IsObject()) return wrong(root);
  Baseline out;
  for (const JsonMember member : by_code->members()) {
    if (!member.value.IsArray()) return wrong(member.value);
    std::set<std::string>& keys = out.known[std::string(member.name())];
    for (const JsonValue key : member.value.items()) {
      if (!key.IsString()) return wrong(key);
      keys.emplace(key.string());
    }
  }
  return out;
}

}  // namespace shardc
