// Checks that the JSON schemas have exactly the keys that the readers accept.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collective.h"
#include "exec/operations/operation.h"
#include "model/axis_rules.h"
#include "model/operation_settings.h"
#include "parse/keys.h"
#include "source/file.h"
#include "source/json.h"
#include "verify/cases/case.h"

namespace shardc {
namespace {

// The place of a key table's mapping in the schemas: a file, and a definition
// in it (empty: the schema of the file itself).
struct Where {
  std::string_view table, file, definition;
};
constexpr std::array<Where, 50> kWhere = {{
    {"mesh", "mesh", ""},
    {"mesh.device", "mesh", "device"},
    {"rules", "rules", ""},
    {"rules.rules", "rules", "rule"},
    {"rules.like", "rules", "like"},
    {"rules.place", "rules", "place"},
    {"rules.register", "rules", "registration"},
    {"rules.forced_axis", "rules", "forcedAxis"},
    {"rules.bundle", "rules", "bundle"},
    {"rules.activation", "rules", "activation"},
    {"rules.policy", "rules", "policy"},
    {"rules.weight_decay", "rules", "weightDecay"},
    {"rules.stages", "rules", "stages"},
    {"rules.stages.stacked", "rules", "stackedLayers"},
    {"rules.stages.schedule", "rules", "scheduleFile"},
    {"rules.model", "rules", "model"},
    {"rules.model.options", "rules", "modelOptions"},
    {"rules.model.encoder", "rules", "modelEncoder"},
    {"rules.model.router", "rules", "modelRouter"},
    {"rules.model.rope", "rules", "modelRope"},
    {"rules.model.norm", "rules", "modelNorm"},
    {"rules.model.slopes", "rules", "modelSlopes"},
    {"project", "project", ""},
    {"project.target", "project", "target"},
    {"rules.model.loss", "rules", "modelLoss"},
    {"project.audit", "project", "audit"},
    {"project.budget", "project", "budget"},
    {"project.lint", "project", "lint"},
    {"operations", "operations", ""},
    {"operations.settings", "operations", "settings"},
    {"profile", "profile", ""},
    {"profile.peaks", "profile", "peaks"},
    {"profile.serving", "profile", "serving"},
    {"profile.rates", "profile", "rates"},
    {"engine", "engine", ""},
    {"engine.settings", "engine", "settings"},
    {"engine.setting", "engine", "setting"},
    {"engine.layout", "engine", "layout"},
    {"engine.padding", "engine", "padding"},
    {"profile.memory", "profile", "memory"},
    {"profile.efficiency", "profile", "efficiency"},
    {"profile.matmul", "profile", "matmul"},
    {"profile.attention", "profile", "attention"},
    {"profile.experts", "profile", "experts"},
    {"profile.links", "profile", "links"},
    {"profile.curve", "profile", "curve"},
    {"profile.link", "profile", "link"},
    {"profile.chips", "profile", "chips"},
    {"profile.sources", "profile", "sources"},
    {"run", "run", ""},
}};

std::unique_ptr<const JsonDocument> Load(std::string_view file) {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  Findings findings;
  const SourceRef source =
      ReadSource(std::string(root == nullptr ? "." : root) + "/schemas/" +
                     std::string(file) + ".schema.json",
                 findings);
  REQUIRE(source != nullptr);
  auto document = JsonDocument::Parse(source, findings);
  REQUIRE(document != nullptr);
  return document;
}

JsonValue Described(const JsonDocument& schema, std::string_view definition) {
  if (definition.empty()) return schema.root();
  const auto definitions = schema.root().Find("definitions");
  REQUIRE(definitions);
  const auto found = definitions->Find(definition);
  REQUIRE(found);
  return *found;
}

std::vector<std::string> Properties(const JsonValue& value) {
  std::vector<std::string> names;
  const auto properties = value.Find("properties");
  REQUIRE(properties);
  for (const JsonMember member : properties->members()) {
    names.emplace_back(member.name());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Sorted(std::span<const std::string_view> keys) {
  std::vector<std::string> names(keys.begin(), keys.end());
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("schemas and readers know the same keys") {
  size_t tables = 0;
  for (const KeyTable* table : AllKeyTables()) {
    CAPTURE(table->path);
    const auto where = std::find_if(
        kWhere.begin(), kWhere.end(),
        [&](const Where& entry) { return entry.table == table->path; });
    REQUIRE(where != kWhere.end());
    ++tables;
    const auto schema = Load(where->file);
    const JsonValue described = Described(*schema, where->definition);
    CHECK(Properties(described) == Sorted(table->keys));
    const auto additional = described.Find("additionalProperties");
    REQUIRE(additional);
    CHECK(additional->kind() == JsonKind::kBool);
    CHECK_FALSE(additional->boolean());
  }
  CHECK(tables == kWhere.size());
}

TEST_CASE("the schema of rules knows the axis rules") {
  const auto schema = Load("rules");
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    names.push_back(AxisRuleName(static_cast<AxisRule>(i)));
  }
  CHECK(Properties(Described(*schema, "axes")) == Sorted(names));
}

TEST_CASE("the schema of settings knows what each operation takes") {
  const auto schema = Load("operations");
  const JsonValue operations = Described(*schema, "operations");
  std::vector<std::string_view> names;
  for (const exec::Operation* operation : exec::Operations()) {
    CAPTURE(operation->name);
    names.push_back(operation->name);
    std::vector<std::string_view> taken;
    for (size_t i = 0; i < kSettingNames.size(); ++i) {
      if (operation->Takes(static_cast<Setting>(i))) {
        taken.push_back(kSettingNames[i]);
      }
    }
    const auto properties = operations.Find("properties");
    REQUIRE(properties);
    const auto described = properties->Find(operation->name);
    REQUIRE(described);
    const auto choices = described->Find("anyOf");
    REQUIRE(choices);
    size_t records = 0;
    for (const JsonValue choice : choices->items()) {
      if (!choice.Find("properties")) continue;
      ++records;
      CHECK(Properties(choice) == Sorted(taken));
    }
    CHECK(records == 1);
  }
  CHECK(Properties(operations) == Sorted(names));
}

std::vector<std::string> Choices(const JsonValue& value) {
  std::vector<std::string> names;
  const auto choices = value.Find("enum");
  REQUIRE(choices);
  for (const JsonValue choice : choices->items()) {
    names.emplace_back(choice.string());
  }
  return names;
}

TEST_CASE("the schema of verifications knows the names") {
  const auto schema = Load("verify");
  const auto choices = [&](std::string_view definition) {
    return Choices(Described(*schema, definition));
  };
  std::vector<std::string> names;
  for (const exec::Operation* operation : exec::Operations()) {
    names.emplace_back(operation->name);
  }
  CHECK(choices("operation") == names);
  names.clear();
  for (const verify::Feature feature : verify::AllFeatures()) {
    names.emplace_back(verify::FeatureName(feature));
  }
  names.emplace_back("long");
  CHECK(choices("feature") == names);
  names.clear();
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    names.emplace_back(CollectiveName(static_cast<Collective>(i)));
  }
  CHECK(choices("collective") == names);
  names.clear();
  for (size_t i = 0; i < verify::kCheckCount; ++i) {
    names.emplace_back(verify::CheckName(static_cast<verify::Check>(i)));
  }
  CHECK(
      Choices(*Described(*schema, "case").Find("properties")->Find("check")) ==
      names);
  CHECK(Choices(*Described(*schema, "settings").Find("propertyNames")) ==
        std::vector<std::string>(kSettingNames.begin(), kSettingNames.end()));
}

TEST_CASE("the manual pages name every key") {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  for (const KeyTable* table : AllKeyTables()) {
    const std::string file(table->path.substr(0, table->path.find('.')));
    Findings findings;
    const SourceRef page =
        ReadSource(std::string(root == nullptr ? "." : root) + "/man/shardc-" +
                       file + ".5",
                   findings);
    REQUIRE(page != nullptr);
    for (std::string_view key : table->keys) {
      CAPTURE(table->path);
      CAPTURE(key);
      const std::string word = " " + std::string(key);
      bool named = false;
      for (int line = 1; !named && page->LineStart(line) < page->text().size();
           ++line) {
        const std::string text = std::string(page->Line(line)) + " ";
        named =
            text.starts_with(".") && text.find(word + " ") != std::string::npos;
      }
      CHECK(named);
    }
  }
}

}  // namespace
}  // namespace shardc
