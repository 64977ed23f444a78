// Fuzz targets for readers of JSON: manifests, indices, plans, configs, other
// systems' axes, audits, steps, traced programs, inputs of functions.
#include <array>
#include <string>

#include "audit/difference.h"
#include "audit/growth.h"
#include "checkpoint/shards_index.h"
#include "emit/emit.h"
#include "eval/call.h"
#include "fuzz/reading.h"
#include "importers/eformer.h"
#include "importers/safetensors.h"
#include "lint/baseline.h"
#include "parse/manifest.h"
#include "parse/project.h"
#include "plan/read.h"
#include "program/facts.h"
#include "program/read.h"
#include "same_json.h"
#include "same_manifest.h"

namespace shardc::fuzz {
namespace {

// Compares the fast JSON scanner with the reader that reports errors, and the
// fast reader of ordinary manifests with the full one.
void Manifest(std::string_view bytes) {
  const SourceRef source = MakeSource("fuzz", std::string(bytes));
  const auto plain = ReadPlainManifest(source);
  Findings other;
  JsonLimits worded;
  worded.scan = false;
  const auto judged = JsonDocument::Parse(source, other, worded);
  bool read = false;
  CheckJsonReader(bytes, [&](const JsonDocument& document, Findings& findings) {
    read = true;
    Require(judged && SameJson(document.root(), judged->root()),
            "two readings of JSON are one");
    auto manifest = ParseManifest(document, findings);
    Require(!plain || (manifest && SameManifest(*plain, *manifest)),
            "two readings of a manifest are one");
    if (!manifest) return false;
    Findings separator;
    SettleSeparator(*manifest, separator);
    CheckFindings(separator);
    return true;
  });
  Require(read == (judged != nullptr) && (read || !plain),
          "what one reader takes the others take");
}

void Index(std::string_view bytes) {
  const std::string path = "folder/index.json";
  const auto plain = ReadPlainIndex(bytes, path);
  bool read = false;
  CheckJsonReader(bytes, [&](const JsonDocument& document, Findings& findings) {
    read = true;
    const auto index = ParseHfIndex(document, path, findings);
    Require(!plain || (index && plain->weight_map == index->weight_map &&
                       plain->directory == index->directory),
            "two readings of an index are one");
    if (!index) return false;
    for (const auto& [tensor, file] : index->weight_map) {
      Require(file.find('/') == std::string::npos && file != "..",
              "files of the index's own folder");
    }
    return true;
  });
  Require(read || !plain, "what is no JSON is no index");
}

void PlanFile(std::string_view bytes) {
  CheckJsonReader(bytes, [](const JsonDocument& document, Findings& findings) {
    return ParsePlan(document, EditedPlan::kAllowed, findings).has_value();
  });
}

// Checks that a shards index does not change if it is read, written and read
// again.
void Shards(std::string_view bytes) {
  CheckJsonReader(bytes, [](const JsonDocument& document, Findings& findings) {
    const auto index = ParseShardsIndex(document, findings);
    if (!index) return false;
    const auto text = [](const ShardsIndex& one) {
      return TextOf([&](Sink& out) { WriteShardsIndex(one, out); });
    };
    for (const IndexedFile& file : index->files) {
      Require(file.name.find('/') == std::string::npos && file.name != "..",
              "files of the set's own folder");
    }
    const std::string first = text(*index);
    Findings none;
    const auto again = JsonDocument::Parse(MakeSource("again", first), none);
    Require(again != nullptr, "what is written is JSON");
    const auto second = ParseShardsIndex(*again, none);
    Require(second && text(*second) == first, "what is written is read");
    return true;
  });
}

void Config(std::string_view bytes) {
  const MemoryFile file(bytes);
  Findings findings;
  const auto config = ReadModelConfig(file.path(), findings);
  Require(config.has_value() != findings.HasErrors(), "a config or an error");
  CheckFindings(findings);
}

void Eformer(std::string_view bytes) {
  CheckJsonReader(bytes, [](const JsonDocument& document, Findings& findings) {
    IsEformerAxes(document);
    return ImportEformerAxes(document, findings).has_value();
  });
}

void BaselineFile(std::string_view bytes) {
  const MemoryFile file(bytes);
  Findings findings;
  const auto baseline = ReadBaseline(file.path(), findings);
  Require(baseline.has_value() != findings.HasErrors(),
          "a baseline or an error");
  CheckFindings(findings);
}

// Reads the bytes as a document of `audit`, as a committed summary of one, and
// as the step program of a plan.
void AuditFile(std::string_view bytes) {
  CheckJsonReader(bytes, [](const JsonDocument& document, Findings& findings) {
    const auto sent = audit::ReadSent(document, findings);
    Require(!sent || audit::GrowthOf(*sent, *sent).empty(),
            "no growth against itself");
    return sent.has_value();
  });
  CheckJsonReader(bytes, [](const JsonDocument& document, Findings& findings) {
    const auto lock = audit::ReadLock(document, findings);
    Require(!lock || audit::ChangesOf(*lock, *lock).empty(),
            "no change against itself");
    return lock.has_value();
  });
}

void StepFile(std::string_view bytes) {
  CheckJsonReader(bytes, [](const JsonDocument& document, Findings& findings) {
    return audit::ReadPlannedStep(document, "train", findings).has_value();
  });
}

void Traced(std::string_view bytes) {
  CheckReader(bytes, [](const SourceRef& source, Findings& findings) {
    const auto program = program::ReadProgram(source, findings);
    if (!program) return false;
    const auto facts = program::FindFacts(*program);
    for (const auto& param : facts.params) {
      for (const auto& dim : param.dims) facts.Text(dim);
    }
    program::RunFault(*program);
    return true;
  });
}

// Reads the bytes as the name of a function of `shardc eval`, a space and its
// input.
void Eval(std::string_view bytes) {
  const size_t space = std::min(bytes.find(' '), bytes.size());
  const auto* function = eval::FindFunction(bytes.substr(0, space));
  if (function == nullptr) return;
  CheckJsonReader(bytes.substr(std::min(space + 1, bytes.size())),
                  [&](const JsonDocument& document, Findings& findings) {
                    bool good = false;
                    JsonText([&](JsonWriter& json) {
                      good = eval::Evaluate(*function, document.root(), nullptr,
                                            nullptr, json, findings);
                    });
                    return good;
                  });
}

}  // namespace

std::span<const NamedTarget> JsonTargets() {
  static constexpr std::array<NamedTarget, 11> kTargets = {{
      {"manifest", Manifest},
      {"index", Index},
      {"plan", PlanFile},
      {"shards", Shards},
      {"config", Config},
      {"eformer", Eformer},
      {"baseline", BaselineFile},
      {"audit", AuditFile},
      {"step", StepFile},
      {"traced", Traced},
      {"eval", Eval},
  }};
  return kTargets;
}

}  // namespace shardc::fuzz
