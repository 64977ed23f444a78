// Finds the names that a rules, mesh or project file uses, and the meaning of
// each. The key under which a name is written determines which kinds of names
// are possible there. A name in a spec can have several meanings. They are
// tried in the order of the resolver (resolve/resolve.cc): registered name,
// built-in logical axis, axis rule, mesh axis. For example, this rule uses a
// pattern, the built-in logical axis `BATCH` and the mesh axis `tp`:
//
//   {match: 'q$', spec: [BATCH, tp]}
#include "lsp/names.h"

#include <algorithm>
#include <utility>

#include "lsp/recover.h"
#include "model/axis_rules.h"
#include "parse/spec_read.h"

namespace shardc::lsp {
namespace {

using std::string_view;

class NameReader {
 public:
  NameReader(const YamlDocument& document, const RegisteredNames& registered)
      : root_(document.root()),
        text_(document.source()->text()),
        registered_(registered) {}

  std::vector<NameUse> Rules() {
    if (const YamlNode* map = Member(root_, "register")) AddRegistered(*map);
    for (const YamlMember& member : root_.members) {
      const string_view key = member.key.text;
      if (key == "axes") ReadAxes(member.value);
      if (key == "register") ReadRegister(member.value);
      if (key == "bundles") ReadBundles(member.value);
      if (key == "activations") ReadActivations(member.value);
      if (key == "stages") ReadStages(member.value);
      if (key == "model") ReadModel(member.value);
      if (key != "rules") continue;
      for (const YamlNode& rule : member.value.items) ReadRule(rule);
    }
    return Take();
  }

  std::vector<NameUse> Mesh() {
    ReadMesh(root_);
    return Take();
  }

  std::vector<NameUse> Project(const std::set<std::string>* targets) {
    const YamlNode* all = Member(root_, "targets");
    if (all == nullptr) return {};
    for (const YamlMember& target : all->members) {
      if (targets != nullptr && !targets->contains(target.key.text)) continue;
      if (const YamlNode* mesh = Member(target.value, "mesh")) ReadMesh(*mesh);
      if (const YamlNode* settings = Member(target.value, "settings")) {
        ReadSettings(*settings);
      }
      if (const YamlNode* stages = Member(target.value, "stages")) {
        ReadStages(*stages);
      }
      if (const YamlNode* audit = Member(target.value, "audit")) {
        if (const YamlNode* budget = Member(*audit, "budget")) {
          ReadBudget(*budget);
        }
      }
    }
    return Take();
  }

  std::vector<NameUse> Settings() {
    ReadSettings(root_);
    return Take();
  }

 private:
  // Returns the uses without duplicates. A duplicate arises from an alias in
  // YAML, which has the place of the node that it refers to.
  std::vector<NameUse> Take() {
    std::stable_sort(
        out_.begin(), out_.end(),
        [](const NameUse& a, const NameUse& b) { return a.begin < b.begin; });
    out_.erase(std::unique(out_.begin(), out_.end(),
                           [](const NameUse& a, const NameUse& b) {
                             return a.begin == b.begin;
                           }),
               out_.end());
    return std::move(out_);
  }

  struct Written {
    size_t begin, end;  // the range without quotes
    bool as_text;       // false if escapes make the value differ from the text
  };
  // Returns the range of a scalar without its quotes; nullopt if the node is
  // not a scalar or is empty.
  std::optional<Written> RangeOf(const YamlNode& node) const {
    if (!node.IsScalar() || node.text.empty() || node.end > text_.size()) {
      return std::nullopt;
    }
    size_t begin = node.begin;
    size_t end = node.end;
    if (end > begin + 1 && (text_[begin] == '\'' || text_[begin] == '"') &&
        text_[end - 1] == text_[begin]) {
      ++begin;
      --end;
    }
    return Written{begin, end, text_.substr(begin, end - begin) == node.text};
  }

  void Add(NameKind kind, const YamlNode& node, bool definition = false) {
    const auto range = RangeOf(node);
    // A name that is written with escapes ("\x74p") is skipped. Its range in
    // the text does not contain the name itself, so renaming could not replace
    // it.
    if (!range || (!range->as_text && kind != NameKind::kPattern)) return;
    const bool token =
        kind == NameKind::kLogicalAxis || kind == NameKind::kRegistered;
    out_.push_back({kind, token ? CanonicalToken(node.text) : node.text,
                    range->begin, range->end, definition});
  }

  // Adds the mesh axes of a group that is written as `dp+fsdp`.
  void AddGroup(const YamlNode& node) {
    const auto range = RangeOf(node);
    if (!range || !range->as_text) return;
    size_t begin = 0;
    while (begin <= node.text.size()) {
      const size_t end = std::min(node.text.find('+', begin), node.text.size());
      if (end > begin) {
        out_.push_back({NameKind::kMeshAxis,
                        node.text.substr(begin, end - begin),
                        range->begin + begin, range->begin + end, false});
      }
      begin = end + 1;
    }
  }

  void AddRegistered(const YamlNode& node) {
    for (const YamlNode& step : node.items) AddRegistered(step);
    for (const YamlMember& member : node.members) {
      registered_.insert(CanonicalToken(member.key.text));
    }
  }

  bool IsRegistered(string_view name) const {
    return registered_.contains(CanonicalToken(name));
  }

  // Reads a part of a spec: a name, or a list of names or lists.
  void ReadSpec(const YamlNode& node) {
    for (const YamlNode& item : node.items) ReadSpec(item);
    if (const YamlNode* axis = Member(node, "axis")) {
      Add(NameKind::kMeshAxis, *axis);
    }
    if (!node.IsScalar() || node.text == "_") return;
    if (IsRegistered(node.text)) {
      Add(NameKind::kRegistered, node);
    } else if (FindToken(node.text) != nullptr) {
      Add(NameKind::kLogicalAxis, node);
    } else if (ParseAxisRule(node.text)) {
      Add(NameKind::kAxisRule, node);
    } else {
      Add(NameKind::kMeshAxis, node);
    }
  }

  // Reads the value of `rule:` or `generation:` below a name in `register:`. In
  // contrast to specs, a name there is looked up as an axis rule before it is
  // looked up as a registered name.
  void ReadRegisteredRule(const YamlNode& node) {
    if (node.IsSequence()) {
      for (const YamlNode& item : node.items) ReadRegisteredRule(item);
    } else if (node.IsScalar() && ParseAxisRule(node.text)) {
      Add(NameKind::kAxisRule, node);
    } else {
      ReadSpec(node);
    }
  }

  void ReadAxisNames(const YamlNode& node) {
    for (const YamlNode& item : node.items) ReadAxisNames(item);
    Add(NameKind::kMeshAxis, node);
  }

  void ReadAxes(const YamlNode& node) {
    for (const YamlMember& member : node.members) {
      Add(NameKind::kAxisRule, member.key, true);
      ReadAxisNames(member.value);
    }
  }

  void ReadRegister(const YamlNode& node) {
    for (const YamlNode& step : node.items) ReadRegister(step);
    for (const YamlMember& member : node.members) {
      Add(NameKind::kRegistered, member.key, true);
      for (const char* key : {"rule", "generation"}) {
        if (const YamlNode* rule = Member(member.value, key)) {
          ReadRegisteredRule(*rule);
        }
      }
    }
  }

  void ReadBundles(const YamlNode& node) {
    for (const YamlMember& member : node.members) {
      Add(NameKind::kBundle, member.key, true);
      const YamlNode* axes = Member(member.value, "axes");
      ReadSpec(axes == nullptr ? member.value : *axes);
    }
  }

  void ReadActivations(const YamlNode& node) {
    for (const YamlMember& member : node.members) {
      if (!member.value.IsMapping()) {
        ReadSource(member.value);
        continue;
      }
      if (const YamlNode* spec = Member(member.value, "spec")) {
        ReadSource(*spec);
      }
      const YamlNode* modes = Member(member.value, "modes");
      if (modes == nullptr) continue;
      for (const YamlMember& mode : modes->members) ReadSource(mode.value);
    }
  }

  // Reads the complete spec of a rule or of a mode: the name of a bundle, or a
  // list.
  void ReadSource(const YamlNode& node) {
    if (node.IsScalar()) return Add(NameKind::kBundle, node);
    ReadSpec(node);
  }

  void ReadRule(const YamlNode& node) {
    for (const YamlMember& member : node.members) {
      const string_view key = member.key.text;
      if (key == "match") Add(NameKind::kPattern, member.value);
      if (key == "spec") ReadSource(member.value);
      if (key == "place") {
        if (const YamlNode* axis = Member(member.value, "axis")) {
          Add(NameKind::kMeshAxis, *axis);
        }
      }
      if (key != "modes") continue;
      for (const YamlMember& mode : member.value.members) {
        ReadSource(mode.value);
      }
    }
  }

  // Adds the axes of a mesh that is written as `dp:2,tp=4`.
  void AddMeshText(const YamlNode& node) {
    const auto range = RangeOf(node);
    if (!range || !range->as_text) return;
    const string_view text = node.text;
    size_t begin = text.starts_with('!') ? 1 : 0;
    while (begin <= text.size()) {
      const size_t end = std::min(text.find(',', begin), text.size());
      const string_view entry = text.substr(begin, end - begin);
      const size_t mark = entry.find_first_of(":=");
      const size_t first = entry.find_first_not_of(" \t");
      // The value may instead be the path of a mesh file. A part of a path does
      // not have the form NAME:SIZE or NAME=SIZE.
      const bool axis =
          mark != entry.npos && first < mark && mark + 1 < entry.size() &&
          entry.find_first_not_of("-0123456789 \t", mark + 1) == entry.npos;
      if (axis) {
        const size_t last = entry.find_last_not_of(" \t", mark - 1) + 1;
        out_.push_back({NameKind::kMeshAxis,
                        std::string(entry.substr(first, last - first)),
                        range->begin + begin + first,
                        range->begin + begin + last, true});
      }
      begin = end + 1;
    }
  }

  void ReadMesh(const YamlNode& node) {
    if (node.IsScalar()) return AddMeshText(node);
    for (const char* key : {"axes", "axis_types", "dcn"}) {
      const YamlNode* axes = Member(node, key);
      if (axes == nullptr) continue;
      for (const YamlMember& axis : axes->members) {
        Add(NameKind::kMeshAxis, axis.key, string_view(key) == "axes");
      }
    }
  }

  void ReadStages(const YamlNode& node) {
    if (const YamlNode* axis = Member(node, "axis")) {
      Add(NameKind::kMeshAxis, *axis);
    }
  }

  // Reads the logical axes of the dimensions of a model.
  void ReadModel(const YamlNode& node) {
    const YamlNode* axes = Member(node, "axes");
    if (axes == nullptr) return;
    for (const YamlMember& dim : axes->members) ReadSpec(dim.value);
  }

  // Reads limits on bytes. A limit is a number, or a mapping from groups of
  // axes to numbers.
  void ReadBudget(const YamlNode& node) {
    for (const YamlMember& kind : node.members) {
      for (const YamlMember& group : kind.value.members) AddGroup(group.key);
    }
  }

  // Reads settings of attention operations. The keys `sequence_axis` and
  // `ring_axes` may be inside any other keys.
  void ReadSettings(const YamlNode& node) {
    for (const YamlMember& member : node.members) {
      const string_view key = member.key.text;
      if (key == "sequence_axis" || key == "ring_axes") {
        ReadAxisNames(member.value);
      } else {
        ReadSettings(member.value);
      }
    }
  }

  const YamlNode& root_;
  string_view text_;
  RegisteredNames registered_;
  std::vector<NameUse> out_;
};

}  // namespace

const YamlNode* Member(const YamlNode& map, string_view key) {
  for (const YamlMember& member : map.members) {
    if (member.key.text == key) return &member.value;
  }
  return nullptr;
}

std::vector<NameUse> NamesIn(const YamlDocument& document, FileKind kind,
                             const RegisteredNames& registered,
                             const std::set<std::string>* targets) {
  NameReader reader(document, registered);
  switch (kind) {
    case FileKind::kRules:
      return reader.Rules();
    case FileKind::kMesh:
      return reader.Mesh();
    case FileKind::kProject:
      return reader.Project(targets);
    case FileKind::kOther:
      return reader.Settings();
  }
  return {};
}

std::optional<YamlDocument> TreeOf(const SourceRef& source) {
  Findings ignored;
  if (auto tree = YamlDocument::Parse(source, ignored)) return tree;
  const auto blanked = BlankEntries(source, {});
  if (!blanked) return std::nullopt;
  return YamlDocument::Parse(MakeSource(source->name(), blanked->text),
                             ignored);
}

RegisteredNames RegisteredIn(std::span<const NameScope> scopes) {
  RegisteredNames out;
  for (const NameScope& scope : scopes) {
    for (const Registration& one : scope.rules->registrations) {
      out.insert(CanonicalToken(one.name));
    }
  }
  return out;
}

std::optional<size_t> DashOf(const YamlNode& item, std::string_view text) {
  // An item without a value has the range of its dash.
  if (item.begin < text.size() && text[item.begin] == '-' && item.IsNull()) {
    return item.begin;
  }
  const size_t before = item.begin == 0
                            ? text.npos
                            : text.find_last_not_of(" \t\r\n", item.begin - 1);
  if (before == text.npos || text[before] != '-') return std::nullopt;
  return before;
}

std::string TargetNameAt(const YamlDocument& project, size_t offset) {
  const YamlNode* targets = Member(project.root(), "targets");
  if (targets == nullptr) return {};
  for (const YamlMember& member : targets->members) {
    const size_t end = std::max(member.key.end, member.value.end);
    if (member.key.begin <= offset && offset <= end) return member.key.text;
  }
  return {};
}

}  // namespace shardc::lsp
