// Folds the parameters of a plan into groups, so that a picture shows one line
// for many layers. The parameters of a group have the same name except for
// numbers. Their entries in the plan are equal except for bytes, pipeline
// stages, and the coordinate at which a parameter is placed (an expert may be
// only on the devices at one coordinate of ep). Numbers that differ are printed
// as a range or a list:
//
//   h.0.up, h.1.up, h.2.up, one spec  ->  `h.{0..2}.up`, 3
#include "picture/fold.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>
#include <utility>

#include "facts/parameters.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "plan/plan_parameters.h"
#include "roles/classify.h"
#include "roles/role.h"
#include "source/size.h"

namespace shardc::picture {
namespace {

// A list of more numbers than this is shortened.
constexpr size_t kWrittenOut = 6;

// Returns the separator that occurs in more names; `/` if both occur in equally
// many.
char SeparatorIn(const PlanTable& table) {
  int64_t slashes = 0, dots = 0;
  for (std::string_view name : table.names) {
    slashes += name.find('/') != std::string_view::npos ? 1 : 0;
    dots += name.find('.') != std::string_view::npos ? 1 : 0;
  }
  return dots > slashes ? '.' : '/';
}

std::string WithBraces(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '{' || c == '}') out += '\\';
    out += c;
  }
  return out;
}

// The different numbers that the names of a group have at one place. For the
// names `layers.0.w` and `layers.1.w` they are "0" and "1", stored as texts.
class Numbers {
 public:
  // Adds a number. A group of a million names has few distinct numbers.
  // Duplicates are therefore removed whenever the list has doubled in size.
  void Add(std::string_view digits) {
    if (!texts_.empty() && texts_.back() == digits) return;
    texts_.push_back(digits);
    if (texts_.size() < most_) return;
    Sort();
    most_ = std::max(kFewest, 2 * texts_.size());
  }

  void Sort() {
    std::sort(texts_.begin(), texts_.end(),
              [](std::string_view a, std::string_view b) {
                return a.size() != b.size() ? a.size() < b.size() : a < b;
              });
    texts_.erase(std::unique(texts_.begin(), texts_.end()), texts_.end());
  }
  int64_t count() const { return static_cast<int64_t>(texts_.size()); }

  std::string Text() const {
    if (texts_.size() == 1) return std::string(texts_[0]);
    const auto step = Step();
    if (texts_.size() > 2 && step) {
      return "{" + std::string(texts_.front()) + ".." +
             std::string(texts_.back()) +
             (*step == 1 ? "}" : ".." + std::to_string(*step) + "}");
    }
    std::string out = "{";
    const bool all = texts_.size() <= kWrittenOut;
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (!all && i == 2) {
        out += ",…";
        i = texts_.size() - 1;
      }
      out += (i == 0 ? "" : ",") + std::string(texts_[i]);
    }
    return out + "}";
  }

 private:
  // Returns the difference between neighbouring numbers. Returns nullopt if it
  // is not constant, if a number has a leading zero or does not fit in 64 bits,
  // or if there are fewer than two numbers.
  std::optional<int64_t> Step() const {
    std::optional<int64_t> step;
    int64_t before = 0;
    for (size_t i = 0; i < texts_.size(); ++i) {
      int64_t value = 0;
      const std::string_view text = texts_[i];
      const auto read =
          std::from_chars(text.data(), text.data() + text.size(), value);
      if (read.ec != std::errc() || (text.size() > 1 && text[0] == '0')) {
        return std::nullopt;
      }
      if (i == 1) step = value - before;
      if (i > 1 && value - before != step) return std::nullopt;
      before = value;
    }
    return step;
  }

  static constexpr size_t kFewest = 64;
  std::vector<std::string_view> texts_;
  size_t most_ = kFewest;
};

// A class consists of the parameters with the same entry in the plan. Returns a
// text made of the type, the specs, the rule and the corrections of illegal
// specs of a class, and the mesh axis along which its parameters are placed, if
// any. Parameters of classes with equal texts may be in one group.
std::string KeyOf(const ReadPlan& view, size_t of_class) {
  const ReadParam& param = view.params[of_class];
  std::string out =
      (param.type.shape ? ShapeText(*param.type.shape) : "?") + " " +
      (param.type.dtype ? std::string(DtypeName(*param.type.dtype)) : "?") +
      " " + SpecText(param.spec) + " " + std::to_string(param.rule);
  for (const auto& [mode, spec] : param.modes) {
    out += " " + std::string(ModeName(mode)) + SpecText(spec);
  }
  for (const ReadCorrection& one : param.corrections) {
    out += " " + std::string(ModeName(one.mode)) + one.reason +
           GroupText(one.from) + std::to_string(one.dim.value_or(-1));
  }
  out += InPartsText(param.parts);
  if (param.placement) out += "\n" + param.placement->axis;
  return out;
}

Kind KindOf(const facts::Group& of) {
  const ParameterRole& role = of.RoleBy(facts::Evidence::kShapes);
  if (role.leaf == Leaf::kScale || role.leaf == Leaf::kZeroPoint) {
    return Kind::kScales;
  }
  if (role.shared_expert) return Kind::kSharedExperts;
  if (role.expert) return Kind::kExperts;
  const Role module = role.module_role;
  if (module == Role::kEmbedding) return Kind::kEmbedding;
  if (module == Role::kHead) return Kind::kHead;
  if (module == Role::kRouter) return Kind::kRouter;
  if (IsNorm(module)) return Kind::kNorms;
  if (IsAttention(module)) return Kind::kAttention;
  if (IsMlp(module)) return Kind::kMlp;
  return role.attention || NamesAttention(of.name) ? Kind::kAttention
                                                   : Kind::kOther;
}

class Folder {
 public:
  explicit Folder(const PlanTable& table)
      : table_(table),
        separator_(SeparatorIn(table)),
        parameters_(ParametersOf(table, separator_)) {
    std::unordered_map<std::string, uint32_t> seen;
    for (size_t i = 0; i < table.classes.params.size(); ++i) {
      const auto next = static_cast<uint32_t>(seen.size());
      kind_of_class_.push_back(
          seen.try_emplace(KeyOf(table.classes, i), next).first->second);
    }
  }

  std::vector<ParamGroup> Fold() {
    for (uint32_t i = 0; i < table_.names.size(); ++i) Add(i);
    for (size_t i = 0; i < groups_.size(); ++i) Finish(i);
    return std::move(groups_);
  }

 private:
  void Add(uint32_t param) {
    const std::string_view name = table_.names[param];
    template_.clear();
    AppendTemplate(name, separator_, template_);
    const auto next = static_cast<uint32_t>(templates_.size());
    const uint64_t shown =
        templates_.try_emplace(template_, next).first->second;
    const uint32_t of_class = table_.class_of[param];
    const auto [at, fresh] = index_.try_emplace(
        shown << 32 | kind_of_class_[of_class], groups_.size());
    if (fresh) {
      ParamGroup group;
      group.folded = template_;
      group.first = param;
      group.of_class = of_class;
      groups_.push_back(std::move(group));
      numbers_.emplace_back();
    }
    ParamGroup& group = groups_[at->second];
    ++group.count;
    const auto& placement = table_.classes.params[of_class].placement;
    if (placement) {
      group.placed_along = placement->axis;
      ++group.placed[placement->coordinate];
    } else if (const auto& stages = table_.classes.stages) {
      AddRanks(*stages, table_.classes.params[of_class].stages, group);
    }
    Gather(name, numbers_[at->second]);
  }

  // Adds the pipeline ranks that hold the parameter. A rank is stored as a
  // placement with a coordinate on the axis of stages.
  static void AddRanks(const PlanStages& stages, const ParamStages& param,
                       ParamGroup& group) {
    group.placed_along = stages.axis;
    if (param.dim) group.layers = std::max<int64_t>(1, param.layers);
    for (const int32_t rank : RanksOf(stages, param)) {
      group.placed[rank] += LayersOnRank(stages, param, rank);
    }
  }

  void Gather(std::string_view name, std::vector<Numbers>& numbers) const {
    size_t at = 0;
    ForTemplatePieces(
        name, separator_, [](std::string_view) {},
        [&](std::string_view number) {
          if (at == numbers.size()) numbers.emplace_back();
          numbers[at++].Add(number);
        });
  }

  void Finish(size_t index) {
    ParamGroup& group = groups_[index];
    group.kind = KindOf(parameters_.Of(group.first));
    group.possible = 1;
    for (Numbers& numbers : numbers_[index]) {
      numbers.Sort();
      group.possible =
          CheckedMul(group.possible, numbers.count()).value_or(INT64_MAX);
    }
    const std::string_view name = table_.names[group.first];
    size_t at = 0;
    ForTemplatePieces(
        name, separator_,
        [&](std::string_view text) { group.shown += WithBraces(text); },
        [&](std::string_view) { group.shown += numbers_[index][at++].Text(); });
  }

  const PlanTable& table_;
  char separator_;
  facts::ParameterTable parameters_;
  std::string template_;
  std::vector<uint32_t> kind_of_class_;
  std::unordered_map<std::string, uint32_t> templates_;
  std::unordered_map<uint64_t, size_t> index_;
  std::vector<ParamGroup> groups_;
  std::vector<std::vector<Numbers>> numbers_;
};

// Returns, for each mesh axis along which parameters are placed, the coordinate
// whose devices hold the most bytes of these parameters.
std::map<std::string, int64_t> FullestOf(const HeldBytes& held) {
  std::map<std::string, int64_t> out;
  for (const auto& [axis, bytes] : held.placed()) {
    const auto most = std::max_element(
        bytes.begin(), bytes.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    out[axis] = most->first;
  }
  return out;
}

}  // namespace

FoldedPlan::FoldedPlan(const PlanTable& table)
    : table_(table), groups_(Folder(table).Fold()) {
  for (Mode mode : kAllModes) fullest_[mode] = FullestOf(Held(mode));
}

DrawnParam FoldedPlan::WithoutStages(const ParamGroup& group) const {
  const ReadParam& param = ParamOf(group);
  const auto& stages = table_.classes.stages;
  if (!stages) return {param, std::nullopt};
  return DrawnWithoutStages(*stages, param);
}

Spec FoldedPlan::SpecOf(const ParamGroup& group, Mode mode) const {
  const ReadParam& param = ParamOf(group);
  Spec out = param.SpecOf(mode);
  if (param.type.shape) out.resize(param.type.shape->size());
  return out;
}

DimParts FoldedPlan::PartsOf(const ParamGroup& group, Mode mode) const {
  const ReadParam& param = ParamOf(group);
  return ShardedParts(param.parts, param.SpecOf(mode));
}

std::optional<int64_t> FoldedPlan::Each(const ParamGroup& group,
                                        Mode mode) const {
  const TensorType& type = ParamOf(group).type;
  if (!type.shape) return std::nullopt;
  return TensorType{ShardShape(mesh(), *type.shape, SpecOf(group, mode)),
                    type.dtype}
      .Bytes();
}

std::optional<int64_t> FoldedPlan::OnFullest(const ParamGroup& group,
                                             Mode mode) const {
  const auto each = Each(group, mode);
  if (!each) return std::nullopt;
  int64_t count = group.count;
  if (!group.placed_along.empty()) {
    const auto& fullest = Fullest(mode);
    const auto axis = fullest.find(group.placed_along);
    const auto at = axis == fullest.end() ? group.placed.end()
                                          : group.placed.find(axis->second);
    count = at == group.placed.end() ? 0 : at->second;
  }
  return CheckedMul(*each / group.layers, count);
}

HeldBytes FoldedPlan::Held(Mode mode) const {
  HeldBytes out;
  for (const ParamGroup& group : groups_) {
    const auto each = Each(group, mode);
    if (!each) continue;
    if (ParamOf(group).uneven) out.MarkUneven();
    if (group.placed_along.empty()) {
      out.Add(CheckedMul(*each, group.count).value_or(INT64_MAX));
    }
    for (const auto& [coordinate, count] : group.placed) {
      out.AddAt(group.placed_along, coordinate,
                CheckedMul(*each / group.layers, count).value_or(INT64_MAX));
    }
  }
  return out;
}

int64_t FoldedPlan::UnknownSizes() const {
  int64_t out = 0;
  for (const ParamGroup& group : groups_) {
    if (!ParamOf(group).type.Bytes()) out += group.count;
  }
  return out;
}

std::optional<int64_t> FoldedPlan::Total(const ParamGroup& group) const {
  const auto bytes = ParamOf(group).type.Bytes();
  return bytes ? CheckedMul(*bytes, group.count) : std::nullopt;
}

std::optional<int64_t> FoldedPlan::TotalBytes() const {
  int64_t out = 0;
  for (const ParamGroup& group : groups_) {
    const auto bytes = Total(group);
    const auto sum = bytes ? CheckedAdd(out, *bytes) : std::nullopt;
    if (!sum) return std::nullopt;
    out = *sum;
  }
  return out;
}

std::optional<int64_t> FoldedPlan::TotalElements() const {
  int64_t out = 0;
  for (const ParamGroup& group : groups_) {
    const auto each = ParamOf(group).type.Elements();
    const auto all = each ? CheckedMul(*each, group.count) : std::nullopt;
    const auto sum = all ? CheckedAdd(out, *all) : std::nullopt;
    if (!sum) return std::nullopt;
    out = *sum;
  }
  return out;
}

int64_t FoldedPlan::Copies(const ParamGroup& group, Mode mode) const {
  std::set<std::string> used;
  for (const AxisGroup& axes : SpecOf(group, mode)) {
    used.insert(axes.begin(), axes.end());
  }
  if (!group.placed_along.empty()) used.insert(group.placed_along);
  int64_t out = mesh().devices;
  for (const std::string& axis : used) out /= mesh().SizeOf(axis);
  return out;
}

const std::map<std::string, int64_t>& FoldedPlan::Fullest(Mode mode) const {
  return fullest_.at(mode);
}

std::vector<std::vector<Mode>> ModeGroups(const ReadPlan& classes) {
  const auto same = [&](Mode a, Mode b) {
    for (const ReadParam& param : classes.params) {
      if (param.SpecOf(a) != param.SpecOf(b)) return false;
    }
    return true;
  };
  std::vector<std::vector<Mode>> out;
  for (Mode mode : classes.modes) {
    const auto at = std::find_if(
        out.begin(), out.end(),
        [&](const std::vector<Mode>& group) { return same(group[0], mode); });
    if (at == out.end()) {
      out.push_back({mode});
    } else {
      at->push_back(mode);
    }
  }
  return out;
}

int64_t Coverage::Dead() const {
  return std::count_if(rules.begin(), rules.end(), [](const RuleLine& rule) {
    return rule.won == 0 && rule.found.value_or(0) == 0;
  });
}

int64_t Coverage::Shadowed() const {
  return std::count_if(rules.begin(), rules.end(), [](const RuleLine& rule) {
    return rule.won == 0 && rule.found.value_or(0) > 0;
  });
}

Coverage CoverageOf(const FoldedPlan& plan) {
  const ReadPlan& view = plan.table().classes;
  Coverage out;
  for (size_t i = 0; i < view.rules.size(); ++i) {
    RuleLine line;
    line.match = view.rules[i].match;
    line.source = view.rules[i].source;
    out.rules.push_back(std::move(line));
  }
  const auto add = [](int64_t& sum, int64_t bytes) {
    sum = CheckedAdd(sum, bytes).value_or(INT64_MAX);
  };
  for (const ParamGroup& group : plan.groups()) {
    const int64_t bytes = plan.Total(group).value_or(0);
    const int32_t rule = plan.RuleOf(group);
    add(out.bytes, bytes);
    if (rule < 0) {
      out.no_rule += group.count;
      add(out.no_rule_bytes, bytes);
      continue;
    }
    RuleLine& line = out.rules[AsIndex(rule)];
    line.won += group.count;
    add(line.bytes, bytes);
    out.most = std::max(out.most, line.bytes);
  }
  return out;
}

}  // namespace shardc::picture
