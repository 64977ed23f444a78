// Fuzz targets for readers of text: YAML, meshes, rules, specs, settings,
// schedules, measured runs, device profiles, model families, compiled programs.
#include <array>

#include "audit/audit.h"
#include "audit/growth.h"
#include "devices/profiles.h"
#include "emit/audits/audit_report.h"
#include "emit/plans/input_text.h"
#include "families/description.h"
#include "families/families.h"
#include "fuzz/reading.h"
#include "hlo/program.h"
#include "match/match.h"
#include "parse/mesh.h"
#include "parse/operations.h"
#include "parse/project.h"
#include "parse/rules.h"
#include "schedule/table.h"
#include "source/size.h"
#include "temporary_folder.h"
#include "yaml/yaml.h"

namespace shardc::fuzz {
namespace {

void CheckNode(const YamlNode& node, size_t size) {
  Require(node.begin <= node.end && node.end <= size, "a node in the text");
  for (const YamlNode& item : node.items) CheckNode(item, size);
  for (const YamlMember& member : node.members) {
    CheckNode(member.key, size);
    CheckNode(member.value, size);
  }
}

void Yaml(std::string_view bytes) {
  const SourceRef source = MakeSource("fuzz", std::string(bytes));
  Findings findings;
  const auto document = YamlDocument::Parse(source, findings);
  CheckFindings(findings);
  if (!document) {
    Require(findings.HasErrors(), "an error where there is no document");
    return;
  }
  for (const Finding& finding : findings.all()) {
    Require(finding.code == &code::kDuplicateKey,
            "a document despite duplicate keys only");
  }
  CheckNode(document->root(), source->text().size());
}

void CheckMesh(const Mesh& mesh) {
  int64_t devices = 1;
  for (const MeshAxis& axis : mesh.axes) {
    Require(axis.size >= 1 && !axis.name.empty(), "an axis");
    Require(!__builtin_mul_overflow(devices, axis.size, &devices),
            "a product in 64 bits");
  }
  Require(devices == mesh.devices, "as many devices as the axes say");
  if (devices <= 4096) MeshDetailsText(mesh, {}, true);
}

void MeshFile(std::string_view bytes) {
  CheckReader(bytes, [](const SourceRef& source, Findings& findings) {
    const auto mesh = ParseMesh(source, 64, findings);
    if (mesh) CheckMesh(*mesh);
    return mesh.has_value();
  });
}

void MeshString(std::string_view bytes) {
  CheckReader(bytes, [](const SourceRef& source, Findings& findings) {
    const auto mesh = ParseMeshString(source, 64, findings);
    if (mesh) CheckMesh(*mesh);
    return mesh.has_value();
  });
}

void Rules(std::string_view bytes) {
  const SourceRef source = MakeSource("fuzz", std::string(bytes));
  Findings findings;
  const auto file = ParseRuleFile(source, findings);
  Require(file.has_value() || findings.HasErrors(), "rules or an error");
  if (file) {
    std::vector<Pattern> patterns;
    for (const Rule& rule : file->rules) {
      patterns.push_back({rule.match, rule.match_place, 0});
    }
    Matcher::Compile(patterns, findings);
  }
  CheckFindings(findings);
}

void Spec(std::string_view bytes) {
  CheckReader(bytes, [](const SourceRef& source, Findings& findings) {
    return ParseSpec(source, findings).has_value();
  });
}

void Settings(std::string_view bytes) {
  CheckReader(bytes, [](const SourceRef& source, Findings& findings) {
    const std::array<KnownOperation, 2> known = {
        {{"vanilla", kCommonSettings}, {"ring", kCommonSettings}}};
    return ParseOperations(source, known, findings).has_value();
  });
}

void ProjectFile(std::string_view bytes) {
  const MemoryFile file(bytes);
  Findings findings;
  const auto project = ReadProject(file.path(), findings);
  Require(project.has_value() != findings.HasErrors(), "a project or an error");
  CheckFindings(findings);
}

void Size(std::string_view bytes) {
  const auto size = ParseByteSize(bytes);
  Require(!size || *size >= 1, "at least a byte");
}

// Checks that a schedule does not change if it is read, written and read again.
void Schedule(std::string_view bytes) {
  CheckReader(bytes, [](const SourceRef& source, Findings& findings) {
    const auto table = schedule::ReadCsv(source, {}, findings);
    if (!table) return false;
    const std::string first = schedule::CsvText(*table);
    Findings none;
    const auto again = schedule::ReadCsv(MakeSource("again", first), {}, none);
    Require(again && schedule::CsvText(*again) == first,
            "what is written is read");
    return true;
  });
}

void MeasuredRunFile(std::string_view bytes) {
  CheckReader(bytes, [](const SourceRef& source, Findings& findings) {
    const auto run = ParseMeasuredRun(source, findings);
    Require(!run || run->step_s.has_value() !=
                        run->tokens_per_second_per_device.has_value(),
            "one measured time");
    return run.has_value();
  });
}

void Profile(std::string_view bytes) {
  CheckReader(bytes, [](const SourceRef& source, Findings& findings) {
    return ParseProfile(source, findings) != nullptr;
  });
}

// Reads the bytes as the description of a family, and builds a small model's
// tree with it.
void Family(std::string_view bytes) {
  static const TemporaryFolder folder;
  static const std::string config = folder.Write(
      "config.json",
      R"({"model_type": "own", "hidden_size": 16, "intermediate_size": 32,
          "vocab_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "num_experts": 2, "list": [1, 0]})");
  folder.Write("families/own.yaml", bytes);
  Findings findings;
  const auto tree =
      families::BuildTree(config, "hf", findings, folder / "families");
  Require(tree.has_value() != findings.HasErrors(), "a tree or an error");
  CheckFindings(findings);
}

void Expression(std::string_view bytes) {
  CheckReader(bytes, [](const SourceRef& source, Findings& findings) {
    return families::ParseExpression(
               source->text(), {source, 0, source->text().size()}, findings)
        .has_value();
  });
}

void Program(std::string_view bytes) {
  CheckReader(bytes, [](const SourceRef& source, Findings& findings) {
    const auto program = hlo::ReadProgram(source, findings);
    if (!program) return false;
    const auto report = audit::Audit(*program, {}, findings);
    if (!report) return false;
    const audit::Sent sent = audit::SentOf(*report);
    Require(audit::GrowthOf(sent, sent).empty(), "no growth against itself");
    // If the written report is read again, the sums are the same.
    Findings none;
    const auto document = JsonDocument::Parse(
        MakeSource("json", TextOf([&](Sink& out) {
                     WriteAuditJson(*report, {audit::By::kLine}, out);
                   })),
        none);
    const auto read =
        document == nullptr ? std::nullopt : audit::ReadSent(*document, none);
    Require(read.has_value(), "an audit that is read back");
    for (const auto by : {audit::By::kAll, audit::By::kScope}) {
      Require(!AuditReportText(*report, {by}).empty(), "a text");
    }
    return true;
  });
}

}  // namespace

std::span<const NamedTarget> TextTargets() {
  static constexpr std::array<NamedTarget, 14> kTargets = {{
      {"yaml", Yaml},
      {"mesh_file", MeshFile},
      {"mesh_string", MeshString},
      {"rules", Rules},
      {"spec", Spec},
      {"settings", Settings},
      {"project", ProjectFile},
      {"size", Size},
      {"schedule", Schedule},
      {"run", MeasuredRunFile},
      {"profile", Profile},
      {"family", Family},
      {"expression", Expression},
      {"program", Program},
  }};
  return kTargets;
}

}  // namespace shardc::fuzz
