// Reads the description of a system. Each section of the file is a table whose
// rows become structs. Expressions are those of families/README.md.
#include "systems/system.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "source/list.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "systems/config_text.h"
#include "yaml/yaml.h"

namespace shardc::keys {
namespace {
constexpr std::array<std::string_view, 29> kSystemKeys = {
    "schema",      "name",        "title",        "versions", "evidence",
    "commands",    "marks",       "words",        "keys",     "other",
    "unsupported", "model_files", "let",          "blocks",   "tree",
    "dtype",       "grids",       "splits",       "pads",     "stages",
    "checks",      "step",        "export",       "factors",  "launcher",
    "opaque",      "any_command", "other_models", "elsewhere"};
constexpr std::array<std::string_view, 3> kElsewhereKeys = {"does", "folders",
                                                            "but"};
constexpr std::array<std::string_view, 2> kUnsupportedKeys = {"does", "unless"};
constexpr std::array<std::string_view, 11> kCheckKeys = {
    "name", "when",    "level",  "silent",  "says", "help",
    "at",   "checked", "source", "example", "right"};
constexpr std::array<std::string_view, 13> kSplitKeys = {
    "match", "roles", "experts", "when", "dims", "out",     "in",
    "count", "units", "parts",   "why",  "flat", "gathered"};
constexpr std::array<std::string_view, 5> kPadKeys = {"match", "roles",
                                                      "experts", "when", "to"};
constexpr std::array<std::string_view, 2> kGridKeys = {"axes", "when"};
constexpr std::array<std::string_view, 11> kStagesKeys = {
    "axis",   "layers", "virtual", "microbatches", "schedule", "folded",
    "copies", "of",     "first",   "last",         "divide"};
constexpr std::array<std::string_view, 5> kStageRowKeys = {
    "method", "when", "value", "first", "last"};
constexpr std::array<std::string_view, 4> kExportKeys = {"form", "begin",
                                                         "keys", "cannot"};
constexpr std::array<std::string_view, 3> kCannotKeys = {"when", "says",
                                                         "help"};
}  // namespace

const KeyTable kSystem{"system", "a system", kSystemKeys};
const KeyTable kSystemCheck{"system.checks[]", "a check", kCheckKeys};
const KeyTable kSystemSplit{"system.splits[]", "a split", kSplitKeys};
const KeyTable kSystemPad{"system.pads[]", "a pad", kPadKeys};
const KeyTable kSystemGrid{"system.grids[]", "a grid", kGridKeys};
const KeyTable kSystemStages{"system.stages", "`stages`", kStagesKeys};
const KeyTable kSystemStageRow{"system.stages.divide[]", "a division",
                               kStageRowKeys};
const KeyTable kSystemExport{"system.export", "`export`", kExportKeys};
const KeyTable kSystemUnsupported{"system.unsupported[]",
                                  "a key of `unsupported`", kUnsupportedKeys};
const KeyTable kSystemElsewhere{"system.elsewhere[]", "a key of `elsewhere`",
                                kElsewhereKeys};
const KeyTable kSystemCannot{"system.export.cannot[]", "a row of `cannot`",
                             kCannotKeys};

}  // namespace shardc::keys

namespace shardc::systems {
namespace {

using families::Expression;

constexpr std::pair<std::string_view, Role> kNamedRoles[] = {
    {RoleName(Role::kEmbedding), Role::kEmbedding},
    {RoleName(Role::kHead), Role::kHead},
    {RoleName(Role::kPosition), Role::kPosition},
    {RoleName(Role::kQuery), Role::kQuery},
    {RoleName(Role::kKey), Role::kKey},
    {RoleName(Role::kValue), Role::kValue},
    {RoleName(Role::kFusedKeyValue), Role::kFusedKeyValue},
    {RoleName(Role::kFusedQkv), Role::kFusedQkv},
    {RoleName(Role::kOutput), Role::kOutput},
    {RoleName(Role::kLatentDown), Role::kLatentDown},
    {RoleName(Role::kLatentUp), Role::kLatentUp},
    {RoleName(Role::kRouter), Role::kRouter},
    {RoleName(Role::kGate), Role::kGate},
    {RoleName(Role::kUp), Role::kUp},
    {RoleName(Role::kFusedGateUp), Role::kFusedGateUp},
    {RoleName(Role::kDown), Role::kDown},
    {RoleName(Role::kNorm), Role::kNorm}};
constexpr std::pair<std::string_view, Division> kDivisions[] = {
    {"exact", Division::kExact},
    {"chunk", Division::kChunk},
    {"balanced", Division::kBalanced},
    {"units", Division::kUnits},
    {"replicate", Division::kReplicate}};
constexpr std::pair<std::string_view, StageMethod> kMethods[] = {
    {"layout", StageMethod::kLayout},
    {"listed", StageMethod::kListed},
    {"even", StageMethod::kEven},
    {"first", StageMethod::kFirst},
    {"last", StageMethod::kLast},
    {"before_last", StageMethod::kBeforeLast}};
constexpr std::pair<std::string_view, Level> kLevels[] = {
    {"error", Level::kError},
    {"warning", Level::kWarning},
    {"note", Level::kNote}};

class SystemReader {
 public:
  SystemReader(const YamlDocument& document, Findings& findings)
      : context_{document, findings} {}

  std::optional<System> Read() {
    const size_t before = context_.findings.errors();
    const YamlNode& root = context_.document.root();
    const auto fields = Fields::Read(context_, root, keys::kSystem);
    if (!fields) return std::nullopt;
    System out;
    out.source = context_.document.source();
    if (const YamlNode* schema = fields->Require(context_, root, "schema")) {
      if (schema->text != "shardc.system/v1") {
        context_.Add(code::kSchema, *schema,
                     "`schema` is " + ShortQuote(schema->text) +
                         ", not `shardc.system/v1`");
      }
    }
    out.name = Text(*fields, root, "name", true);
    out.title = Text(*fields, root, "title", true);
    out.versions = Text(*fields, root, "versions", true);
    out.evidence = Texts(*fields, "evidence");
    out.commands = Texts(*fields, "commands");
    out.marks = Texts(*fields, "marks");
    out.words = Texts(*fields, "words");
    if (const YamlNode* any = fields->Find("any_command")) {
      out.any_command =
          ReadBool(context_, *any, "`any_command`").value_or(false);
    }
    if (const YamlNode* others = fields->Find("other_models")) {
      for (const YamlMember& member : others->members) {
        out.other_models.emplace_back(member.key.text, member.value.text);
      }
    }
    if (const YamlNode* launcher = fields->Find("launcher")) {
      out.launcher =
          ReadBool(context_, *launcher, "`launcher`").value_or(false);
    }
    out.other = Texts(*fields, "other");
    out.model_files = Texts(*fields, "model_files");
    ReadKeys(*fields, out);
    ReadTree(*fields, out);
    out.dtype = Optional(*fields, "dtype");
    ForItems(*fields, "grids", keys::kSystemGrid,
             [&](const Fields& row, const YamlNode& node) {
               GridRow& grid = out.grids.emplace_back();
               grid.axes = Texts(row, "axes");
               grid.when = Optional(row, "when");
               row.Require(context_, node, "axes");
             });
    ForItems(*fields, "splits", keys::kSystemSplit,
             [&](const Fields& row, const YamlNode& node) {
               out.splits.push_back(ReadSplit(row, node));
             });
    ForItems(*fields, "pads", keys::kSystemPad,
             [&](const Fields& row, const YamlNode& node) {
               PadRow& pad = out.pads.emplace_back();
               pad.of = ReadSelector(row, node);
               pad.to = Required(row, node, "to");
             });
    ForItems(*fields, "opaque", keys::kSystemCannot,
             [&](const Fields& row, const YamlNode& node) {
               Check& opaque = out.opaque.emplace_back();
               opaque.when = Required(row, node, "when");
               opaque.says = ReadMessage(row.Require(context_, node, "says"));
             });
    ForItems(*fields, "checks", keys::kSystemCheck,
             [&](const Fields& row, const YamlNode& node) {
               out.checks.push_back(ReadCheck(row, node));
             });
    if (const YamlNode* stages = fields->Find("stages")) {
      ReadStagesSection(*stages, out);
    }
    if (const YamlNode* step = fields->Find("step")) {
      for (const YamlMember& member : step->members) {
        out.step.push_back({member.key.text, Parse(member.value)});
      }
    }
    if (const YamlNode* exported = fields->Find("export")) {
      ReadExport(*exported, out);
    }
    if (context_.findings.errors() > before) return std::nullopt;
    return out;
  }

 private:
  std::string Text(const Fields& fields, const YamlNode& node,
                   std::string_view key, bool required) {
    const YamlNode* found =
        required ? fields.Require(context_, node, key) : fields.Find(key);
    if (found == nullptr) return {};
    return ReadText(context_, *found, "`" + std::string(key) + "`")
        .value_or("");
  }

  std::vector<std::string> Texts(const Fields& fields, std::string_view key) {
    const YamlNode* found = fields.Find(key);
    if (found == nullptr) return {};
    return ReadTexts(context_, *found, "`" + std::string(key) + "`")
        .value_or(std::vector<std::string>{});
  }

  template <class Use>
  void ForItems(const Fields& fields, std::string_view key,
                const KeyTable& table, const Use& use) {
    const YamlNode* list = fields.Find(key);
    if (list == nullptr) return;
    if (!list->IsSequence()) {
      context_.Add(code::kSchema, *list,
                   "`" + std::string(key) + "` is not a list");
      return;
    }
    for (const YamlNode& item : list->items) {
      const auto row = Fields::Read(context_, item, table);
      if (row) use(*row, item);
    }
  }

  Expression Parse(const YamlNode& node) {
    return families::ParseExpression(node.text, context_.document.PlaceOf(node),
                                     context_.findings)
        .value_or(Expression());
  }
  std::optional<Expression> Optional(const Fields& fields,
                                     std::string_view key) {
    const YamlNode* node = fields.Find(key);
    if (node == nullptr) return std::nullopt;
    return Parse(*node);
  }
  Expression Required(const Fields& fields, const YamlNode& node,
                      std::string_view key) {
    const YamlNode* found = fields.Require(context_, node, key);
    return found == nullptr ? Expression() : Parse(*found);
  }

  // Reads `keys`: a name with one spelling, several, or null for its own name.
  void ReadKeys(const Fields& fields, System& out) {
    if (const YamlNode* node = fields.Find("keys")) {
      for (const YamlMember& member : node->members) {
        SystemKey& key = out.keys.emplace_back();
        key.name = member.key.text;
        if (!member.value.IsNull()) {
          key.spellings = ReadTexts(context_, member.value, "a spelling")
                              .value_or(std::vector<std::string>{});
        }
        for (std::string& spelling : key.spellings) {
          spelling = NormalKey(spelling);
        }
        if (key.spellings.empty()) key.spellings = {key.name};
      }
    }
    if (const YamlNode* node = fields.Find("unsupported")) {
      for (const YamlMember& member : node->members) {
        System::Unsupported& one = out.unsupported.emplace_back();
        one.key = NormalKey(member.key.text);
        one.what = member.value.text;
        if (!member.value.IsMapping()) continue;
        const auto row =
            Fields::Read(context_, member.value, keys::kSystemUnsupported);
        if (!row) continue;
        one.what = Text(*row, member.value, "does", true);
        one.unless = Texts(*row, "unless");
      }
    }
    if (const YamlNode* node = fields.Find("elsewhere")) {
      for (const YamlMember& member : node->members) {
        const auto row =
            Fields::Read(context_, member.value, keys::kSystemElsewhere);
        if (!row) continue;
        out.elsewhere.push_back({NormalKey(member.key.text),
                                 Text(*row, member.value, "does", true),
                                 Texts(*row, "folders"), Texts(*row, "but")});
      }
    }
    for (std::string& other : out.other) other = NormalKey(other);
  }

  void ReadTree(const Fields& fields, System& out) {
    out.tree.name = out.name;
    families::ReadDescription(context_,
                              {fields.Find("let"), fields.Find("factors"),
                               fields.Find("blocks"), fields.Find("tree")},
                              out.tree);
  }

  Selector ReadSelector(const Fields& row, const YamlNode& node) {
    Selector out;
    out.match = Text(row, node, "match", false);
    for (const std::string& word : Texts(row, "roles")) {
      const auto* found =
          std::find_if(std::begin(kNamedRoles), std::end(kNamedRoles),
                       [&](const auto& known) { return known.first == word; });
      if (found == std::end(kNamedRoles)) {
        context_.Add(code::kSchema, node,
                     "there is no role " + ShortQuote(word));
      } else {
        out.roles.push_back(found->second);
      }
    }
    if (const YamlNode* experts = row.Find("experts")) {
      out.experts = ReadBool(context_, *experts, "`experts`");
    }
    out.when = Optional(row, "when");
    return out;
  }

  // Reads divisions such as `tp dp_shard+cp:chunk`.
  std::vector<ShareRow> ReadShares(const YamlNode& node) {
    std::vector<ShareRow> out;
    if (node.IsNull()) return out;
    std::string_view rest = Trim(node.text);
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(' '), rest.size());
      std::string_view word = rest.substr(0, end);
      rest = Trim(rest.substr(end));
      ShareRow& share = out.emplace_back();
      const size_t colon = word.find(':');
      if (colon != std::string_view::npos) {
        const std::string_view name = word.substr(colon + 1);
        const auto* found = std::find_if(
            std::begin(kDivisions), std::end(kDivisions),
            [&](const auto& known) { return known.first == name; });
        if (found == std::end(kDivisions)) {
          context_.Add(code::kSchema, node,
                       "there is no division " + ShortQuote(name));
        } else {
          share.division = found->second;
        }
        word = word.substr(0, colon);
      }
      while (!word.empty()) {
        const size_t plus = std::min(word.find('+'), word.size());
        share.axes.emplace_back(word.substr(0, plus));
        word.remove_prefix(std::min(plus + 1, word.size()));
      }
    }
    return out;
  }

  SplitRow ReadSplit(const Fields& row, const YamlNode& node) {
    SplitRow out;
    out.of = ReadSelector(row, node);
    out.place = context_.document.PlaceOf(node);
    if (const YamlNode* dims = row.Find("dims")) {
      for (const YamlNode& item : dims->items) {
        out.dims.push_back(ReadShares(item));
      }
    }
    if (const YamlNode* one = row.Find("out")) out.out = ReadShares(*one);
    if (const YamlNode* one = row.Find("in")) out.in = ReadShares(*one);
    if (const YamlNode* one = row.Find("count")) out.count = ReadShares(*one);
    if (const YamlNode* one = row.Find("flat")) out.flat = ReadShares(*one);
    out.units = Optional(row, "units");
    out.gathered = Optional(row, "gathered");
    out.why = Text(row, node, "why", false);
    if (const YamlNode* parts = row.Find("parts")) {
      out.parts = ReadInteger(context_, *parts, "`parts`", {1, 64}).value_or(1);
    }
    return out;
  }

  Message ReadMessage(const YamlNode* node) {
    Message out;
    if (node == nullptr) return out;
    std::string_view rest = node->text;
    while (!rest.empty()) {
      const size_t open = std::min(rest.find('{'), rest.size());
      if (open > 0) {
        out.parts.push_back({std::string(rest.substr(0, open)), std::nullopt});
      }
      rest.remove_prefix(open);
      if (rest.empty()) break;
      const size_t close = std::min(rest.find('}'), rest.size());
      out.parts.push_back(
          {{},
           families::ParseExpression(rest.substr(1, close - 1),
                                     context_.document.PlaceOf(*node),
                                     context_.findings)});
      rest.remove_prefix(std::min(close + 1, rest.size()));
    }
    return out;
  }

  Check ReadCheck(const Fields& row, const YamlNode& node) {
    Check out;
    out.name = Text(row, node, "name", true);
    out.when = Required(row, node, "when");
    if (const YamlNode* silent = row.Find("silent")) {
      out.silent = ReadBool(context_, *silent, "`silent`").value_or(false);
    }
    out.level = out.silent ? Level::kWarning : Level::kError;
    const std::string level = Text(row, node, "level", false);
    for (const auto& [word, value] : kLevels) {
      if (word == level) out.level = value;
    }
    out.says = ReadMessage(row.Require(context_, node, "says"));
    out.help = ReadMessage(row.Find("help"));
    out.at = Texts(row, "at");
    out.checked = Text(row, node, "checked", false);
    out.source = Text(row, node, "source", true);
    out.example = Text(row, node, "example", true);
    out.right = Text(row, node, "right", true);
    return out;
  }

  void ReadStagesSection(const YamlNode& node, System& out) {
    const auto fields = Fields::Read(context_, node, keys::kSystemStages);
    if (!fields) return;
    StagesSection& stages = out.stages.emplace();
    stages.axis = Text(*fields, node, "axis", true);
    stages.layers = Required(*fields, node, "layers");
    stages.virtual_stages = Required(*fields, node, "virtual");
    stages.microbatches = Optional(*fields, "microbatches");
    stages.schedule = Optional(*fields, "schedule");
    stages.folded = Optional(*fields, "folded");
    stages.copies = Optional(*fields, "copies");
    stages.pattern = Text(*fields, node, "of", true);
    stages.first = Texts(*fields, "first");
    stages.last = Texts(*fields, "last");
    ForItems(*fields, "divide", keys::kSystemStageRow,
             [&](const Fields& row, const YamlNode& item) {
               StageRow& one = stages.rows.emplace_back();
               const std::string method = Text(row, item, "method", true);
               const auto* found = std::find_if(
                   std::begin(kMethods), std::end(kMethods),
                   [&](const auto& known) { return known.first == method; });
               if (found == std::end(kMethods)) {
                 context_.Add(code::kSchema, item,
                              "there is no method " + ShortQuote(method));
               } else {
                 one.method = found->second;
               }
               one.when = Optional(row, "when");
               one.value = Optional(row, "value");
               one.first = Optional(row, "first");
               one.last = Optional(row, "last");
             });
  }

  // Reads `export`: keys with their values. A value may begin with a condition:
  // `tp if tp > 1`.
  void ReadExport(const YamlNode& node, System& out) {
    const auto fields = Fields::Read(context_, node, keys::kSystemExport);
    if (!fields) return;
    ExportSection& exported = out.exported.emplace();
    exported.form = Text(*fields, node, "form", true);
    exported.begin = Text(*fields, node, "begin", false);
    ForItems(*fields, "cannot", keys::kSystemCannot,
             [&](const Fields& row, const YamlNode& item) {
               Check& cannot = exported.cannot.emplace_back();
               cannot.when = Required(row, item, "when");
               cannot.says = ReadMessage(row.Require(context_, item, "says"));
               cannot.help = ReadMessage(row.Find("help"));
             });
    const YamlNode* rows = fields->Require(context_, node, "keys");
    if (rows == nullptr) return;
    for (const YamlMember& member : rows->members) {
      ExportRow& row = exported.rows.emplace_back();
      std::string_view key = member.key.text;
      if (const size_t at = key.find(" if "); at != key.npos) {
        row.when = families::ParseExpression(
            key.substr(at + 4), context_.document.PlaceOf(member.key),
            context_.findings);
        key = key.substr(0, at);
      }
      row.key = key;
      row.value = Parse(member.value);
    }
  }

  YamlContext context_;
};

struct KnownSystems {
  std::vector<System> systems;

  KnownSystems() {
    for (const EmbeddedFile& file : EmbeddedSystems()) {
      Findings findings;
      auto one = ParseSystem(MakeSource("system:" + std::string(file.name),
                                        std::string(file.text)),
                             findings);
      if (one) systems.push_back(std::move(*one));
    }
  }
};

}  // namespace

bool FitsGlob(std::string_view pattern, std::string_view text) {
  // The usual greedy match: on a mismatch, the last `*` takes one byte more.
  size_t p = 0, t = 0, star = std::string_view::npos, back = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      back = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++back;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

const SystemKey* System::FindKey(std::string_view key) const {
  for (const SystemKey& one : keys) {
    for (const std::string& spelling : one.spellings) {
      if (spelling == key) return &one;
      if (!spelling.starts_with("*.")) continue;
      const std::string_view rest = std::string_view(spelling).substr(2);
      if (key == rest || (key.ends_with(rest) && key.size() > rest.size() &&
                          key[key.size() - rest.size() - 1] == '.')) {
        return &one;
      }
    }
  }
  return nullptr;
}

bool System::IsOther(std::string_view key) const {
  // A key may be below sections of a launcher: `MODEL_ARGS.seed`.
  const size_t dot = key.find('.');
  if (dot != std::string_view::npos && IsOther(key.substr(dot + 1))) {
    return true;
  }
  return std::any_of(other.begin(), other.end(), [&](const std::string& one) {
    return FitsGlob(one, key);
  });
}

std::span<const System> Systems() {
  static const KnownSystems known;
  return known.systems;
}

const System* FindSystem(std::string_view name) {
  for (const System& system : Systems()) {
    if (system.name == name) return &system;
  }
  return nullptr;
}

std::optional<System> ParseSystem(SourceRef source, Findings& findings) {
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return std::nullopt;
  return SystemReader(*document, findings).Read();
}

}  // namespace shardc::systems
