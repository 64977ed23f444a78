// Reads the sections `stages`, which declare the stages of a pipeline. RuleSet
// and Target (in src/model) do not contain these sections. DeclaredStages
// therefore parses the texts of the rules file and of the project again:
//
//   rules    stages: {axis: pp, schedule: 1f1b, microbatches: 16}
//   target   stages: {schedule: zbv}
//   ->       zbv over pp, with 16 micro-batches
#include "parse/rules.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parse/keys.h"
#include "source/file.h"
#include "source/wording.h"
#include "yaml/read.h"
#include "yaml/scan.h"

namespace shardc {
namespace {

// The limit on the numbers of layers, stages and micro-batches. A larger number
// is a mistake, and a schedule with so many entries would not fit in memory.
constexpr int64_t kMostSize = 1 << 20;
constexpr int64_t kMostDims = 64;

class StagesReader {
 public:
  explicit StagesReader(const YamlContext& context) : context_(context) {}

  std::optional<StageDeclaration> Read(const YamlNode& node,
                                       bool requires_axis) {
    const size_t before = context_.findings.errors();
    const auto fields = Fields::Read(context_, node, keys::kStages);
    if (!fields) return std::nullopt;
    out_.place = PlaceOf(node);
    const bool known = context_.findings.errors() == before;
    if (known && requires_axis && fields->Find("axis") == nullptr) {
      context_.Add(code::kSchema, node, "`stages` has no `axis`",
                   "name the mesh axis whose ranks have the stages: `stages: "
                   "{axis: pp}`");
    }
    ReadAxis(fields->Find("axis"));
    ReadNames(*fields);
    ReadAssign(fields->Find("assign"));
    ReadSchedule(fields->Find("schedule"));
    ReadSize(fields->Find("virtual"), "`virtual`", out_.virtual_stages,
             &out_.virtual_place);
    ReadSize(fields->Find("microbatches"), "`microbatches`", out_.microbatches,
             nullptr);
    if (const YamlNode* tied = fields->Find("tied")) {
      static constexpr std::array<std::string_view, 2> kChoices = {"copies",
                                                                   "error"};
      const auto choice = ReadChoice(context_, *tied, "`tied`", kChoices);
      if (choice) out_.copies = *choice == 0;
      out_.tied_place = PlaceOf(*tied);
    }
    if (context_.findings.errors() > before) return std::nullopt;
    return std::move(out_);
  }

 private:
  Place PlaceOf(const YamlNode& node) const {
    return context_.document.PlaceOf(node);
  }

  void ReadAxis(const YamlNode* node) {
    if (node == nullptr) return;
    auto axis = ReadText(context_, *node, "`axis`", true);
    if (!axis) return;
    if (const std::string fault = AxisNameFault(*axis); !fault.empty()) {
      context_.Add(code::kAxisName, *node,
                   "axis name " + ShortQuote(*axis) + " " + fault);
      return;
    }
    out_.axis = std::move(*axis);
    out_.axis_place = PlaceOf(*node);
  }

  void ReadSize(const YamlNode* node, std::string_view what,
                std::optional<int32_t>& out, Place* place) {
    if (node == nullptr) return;
    const auto size = ReadInteger(context_, *node, what, {1, kMostSize});
    if (size) out = static_cast<int32_t>(*size);
    if (place != nullptr) *place = PlaceOf(*node);
  }

  // Reads the patterns that determine the stage of a parameter from its name:
  // the values of `layers` or `stacked`, and of `first` and `last`.
  void ReadNames(const Fields& fields) {
    const YamlNode* layers = fields.Find("layers");
    const YamlNode* stacked = fields.Find("stacked");
    if (layers != nullptr && stacked != nullptr) {
      context_.Add(code::kSchema, *stacked,
                   "`stages` has both `layers` and `stacked`",
                   "`layers` is for names with the number of a layer, "
                   "`stacked` for tensors that hold all layers: keep one");
      return;
    }
    if (layers != nullptr) out_.layers = ReadPattern(*layers, "`layers`");
    if (stacked != nullptr) ReadStacks(*stacked);
    ReadPatterns(fields.Find("first"), "`first`", out_.first);
    ReadPatterns(fields.Find("last"), "`last`", out_.last);
  }

  std::optional<NamePattern> ReadPattern(const YamlNode& node,
                                         std::string_view what) {
    auto text = ReadText(context_, node, what, true);
    if (!text) return std::nullopt;
    if (text->empty()) {
      context_.Add(code::kSchema, node, std::string(what) + " is empty",
                   "write an RE2 pattern");
      return std::nullopt;
    }
    return NamePattern{std::move(*text), PlaceOf(node)};
  }

  void ReadPatterns(const YamlNode* node, std::string_view what,
                    std::optional<std::vector<NamePattern>>& out) {
    if (node == nullptr) return;
    out.emplace();
    if (node->IsScalar() && !node->IsNull()) {
      if (auto one = ReadPattern(*node, what)) out->push_back(std::move(*one));
      return;
    }
    if (!node->IsSequence()) {
      context_.Add(code::kSchema, *node,
                   std::string(what) + " is " + Describe(*node) +
                       ", not a list of patterns",
                   "write `[]` for none");
      return;
    }
    const std::string entry = "an entry of " + std::string(what);
    for (const YamlNode& item : node->items) {
      if (context_.findings.Full()) return;
      if (auto one = ReadPattern(item, entry)) out->push_back(std::move(*one));
    }
  }

  void ReadStacks(const YamlNode& node) {
    if (!node.IsSequence() || node.items.empty()) {
      context_.Add(
          code::kSchema, node,
          "`stacked` is " + Describe(node) + ", not a list of stacks of layers",
          "write `stacked: [{match: '^layers/', dim: 0}]`");
      return;
    }
    out_.stacked.emplace();
    for (const YamlNode& item : node.items) {
      if (context_.findings.Full()) return;
      const size_t before = context_.findings.errors();
      const auto fields = Fields::Read(context_, item, keys::kStacked);
      if (!fields || context_.findings.errors() > before) continue;
      const YamlNode* match = fields->Require(context_, item, "match");
      if (match == nullptr) continue;
      auto pattern = ReadPattern(*match, "`match`");
      if (!pattern) continue;
      StackedLayers stack{std::move(*pattern)};
      if (const YamlNode* dim = fields->Find("dim")) {
        const auto at =
            ReadInteger(context_, *dim, "`dim`", {0, kMostDims - 1});
        if (!at) continue;
        stack.dim = static_cast<int>(*at);
      }
      out_.stacked->push_back(std::move(stack));
    }
  }

  void ReadAssign(const YamlNode* node) {
    if (node == nullptr) return;
    out_.assign_place = PlaceOf(*node);
    if (node->IsScalar() && node->text == "cost") {
      out_.assign = StageAssignment::kCost;
    } else if (node->IsScalar() && node->text == "even") {
      out_.assign = StageAssignment::kEven;
    } else if (node->IsSequence() && !node->items.empty()) {
      out_.assign = StageAssignment::kListed;
      for (const YamlNode& item : node->items) {
        if (context_.findings.Full()) return;
        const auto layers = ReadInteger(context_, item, "the layers of a stage",
                                        {0, kMostSize});
        if (layers) out_.listed.push_back(*layers);
      }
    } else {
      context_.Add(code::kSchema, *node, "`assign` is " + Describe(*node),
                   "write `even`, `cost`, or the layers of each stage, such as "
                   "`[9, 9, 8, 6]`");
    }
  }

  // Reads the schedule, which is a name or `{file: schedule.csv}`.
  void ReadSchedule(const YamlNode* node) {
    if (node == nullptr) return;
    if (!node->IsMapping()) {
      auto name = ReadText(context_, *node, "`schedule`", true);
      if (!name) return;
      if (name->empty()) {
        context_.Add(code::kSchema, *node, "`schedule` is empty",
                     "write the name of a schedule, which `shardc schedule` "
                     "lists, or `{file: schedule.csv}`");
      }
      out_.schedule = std::move(*name);
      out_.schedule_place = PlaceOf(*node);
      return;
    }
    const size_t before = context_.findings.errors();
    const auto fields = Fields::Read(context_, *node, keys::kSchedule);
    if (!fields || context_.findings.errors() > before) return;
    const YamlNode* file = fields->Require(context_, *node, "file");
    if (file == nullptr) return;
    const auto path = ReadText(context_, *file, "`file`", true);
    if (!path) return;
    if (path->empty()) {
      context_.Add(code::kSchema, *file, "`file` is empty", "name a file");
    }
    out_.schedule = PathNextTo(context_.document.source()->name(), *path);
    out_.schedule_is_file = true;
    out_.schedule_place = PlaceOf(*file);
  }

  const YamlContext& context_;
  StageDeclaration out_;
};

// Reads the section `stages` at `path`, a list of nested keys. The file has
// been read before, and its errors have been reported.
std::optional<StageDeclaration> ReadAgain(
    const SourceRef& source, const std::vector<std::string_view>& path) {
  // Most files have no `stages` section and need not be parsed again.
  if (source == nullptr ||
      source->text().find("stages") == std::string_view::npos) {
    return std::nullopt;
  }
  Findings reported;
  const auto document = YamlDocument::Parse(source, reported);
  if (!document) return std::nullopt;
  const YamlNode* node = &document->root();
  for (const std::string_view key : path) {
    node = MemberOf(*node, key);
    if (node == nullptr) return std::nullopt;
  }
  return ReadStages({*document, reported}, *node);
}

}  // namespace

std::optional<StageDeclaration> ReadStages(const YamlContext& context,
                                           const YamlNode& node) {
  if (node.IsNull()) return std::nullopt;
  return StagesReader(context).Read(node, false);
}

bool ScheduleIsInside(const StageDeclaration& stages, const Boundary& boundary,
                      Findings& findings) {
  if (!stages.schedule_is_file || boundary.Holds(stages.schedule)) return true;
  findings.Add(
      code::kPath, stages.schedule_place,
      "`file` leads out of the project's repository: `" + stages.schedule + "`",
      std::string(kOutsideHelp));
  return false;
}

std::optional<StageDeclaration> ReadRulesStages(const YamlContext& context,
                                                const YamlNode& node) {
  if (node.IsNull()) return std::nullopt;
  return StagesReader(context).Read(node, true);
}

std::optional<StageDeclaration> DeclaredStages(const Target& target,
                                               const RuleSet& rules,
                                               const Boundary& boundary,
                                               Findings& findings) {
  std::optional<StageDeclaration> out =
      ReadAgain(target.place.source, {"targets", target.name, "stages"});
  for (const SourceRef& source : rules.sources) {
    const auto of_rules = ReadAgain(source, {"stages"});
    if (!of_rules) continue;
    if (!ScheduleIsInside(*of_rules, boundary, findings)) return std::nullopt;
    if (out) {
      CompleteStages(*out, *of_rules);
    } else {
      out = of_rules;
    }
    break;
  }
  if (!out || !out->axis.empty()) return out;
  findings.Add(code::kSchema, out->place,
               "`stages` has no `axis`, and neither have the rules files",
               "name the mesh axis whose ranks have the stages: `stages: "
               "{axis: pp}`");
  return std::nullopt;
}

}  // namespace shardc
