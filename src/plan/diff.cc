// How two classes of parameters differ is worked out once for each pair of
// classes that a name has. The first parameter of a template that differs in
// one way makes the entry, and the others add their names:
//
//   layers.0.up, layers.1.up: ["tp"] -> [null]  ->  one entry `layers.*.up`
//
// What a move costs is worked out once for an entry.
#include "plan/diff.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/memory.h"
#include "model/name.h"
#include "source/checked.h"

namespace shardc {
namespace {

bool SameMesh(const Mesh& a, const Mesh& b) {
  if (a.devices != b.devices || a.axes.size() != b.axes.size()) return false;
  for (size_t i = 0; i < a.axes.size(); ++i) {
    if (a.axes[i].name != b.axes[i].name || a.axes[i].size != b.axes[i].size) {
      return false;
    }
  }
  return true;
}

Spec Padded(Spec spec, const TensorType& type) {
  if (type.shape && spec.size() < type.shape->size()) {
    spec.resize(type.shape->size());
  }
  return spec;
}

std::optional<int64_t> BytesHeld(const Mesh& mesh, const TensorType& type,
                                 const Spec& spec) {
  if (!type.shape || !type.dtype) return std::nullopt;
  const auto elements = CheckedProduct(ShardShape(mesh, *type.shape, spec));
  return elements ? BytesOf(*elements, *type.dtype) : std::nullopt;
}

bool Divides(const Mesh& mesh, const Shape& shape, const Spec& spec) {
  for (size_t i = 0; i < shape.size() && i < spec.size(); ++i) {
    const auto parts = mesh.Parts(spec[i]);
    if (!parts || shape[i] % *parts != 0) return false;
  }
  return spec.size() <= shape.size();
}

struct Cost {
  std::optional<SpecMove> move;
  std::optional<int64_t> sent_bytes_per_device;
};

Cost CostOf(const Mesh& mesh, const TensorType& type, const Spec& before,
            const Spec& after) {
  Cost out;
  if (!type.shape || !Divides(mesh, *type.shape, before) ||
      !Divides(mesh, *type.shape, after)) {
    return out;
  }
  out.move = ClassifyMove(mesh, before, after);
  if (!out.move || !type.dtype) return out;
  const std::vector<int64_t> sent =
      SentElements(mesh, *type.shape, before, after);
  out.sent_bytes_per_device =
      BytesOf(*std::max_element(sent.begin(), sent.end()), *type.dtype);
  return out;
}

// Texts by number, so that what many parameters share is compared as one.
class Numbers {
 public:
  uint32_t Of(const std::string& text) {
    const auto next = static_cast<uint32_t>(texts_.size());
    const auto [at, fresh] = numbers_.try_emplace(text, next);
    if (fresh) texts_.push_back(&at->first);
    return at->second;
  }
  const std::string& operator[](uint32_t number) const {
    return *texts_[number];
  }

 private:
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<const std::string*> texts_;
};

// Where a parameter's entry is found: its template, and what differs.
struct EntryKey {
  uint32_t shown = 0;
  uint32_t difference = 0;
};

// Entries by their key, in the order in which they were first seen.
template <class Entry>
class Folder {
 public:
  template <class Make>
  void Add(EntryKey key, std::string_view name, const Make& make) {
    const uint64_t number = uint64_t{key.shown} << 32 | key.difference;
    const auto [at, fresh] = index_.try_emplace(number, entries_.size());
    if (fresh) {
      entries_.push_back(make());
      shown_.push_back(key.shown);
    }
    entries_[at->second].names.push_back(name);
  }

  std::vector<Entry> Take(const Numbers& templates) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      entry.shown = entry.names.size() == 1 ? std::string(entry.names.front())
                                            : templates[shown_[i]];
    }
    return std::move(entries_);
  }

 private:
  std::unordered_map<uint64_t, size_t> index_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> shown_;
};

std::string PlaceKey(const std::optional<ReadPlacement>& placement) {
  return placement ? placement->axis : "";
}

// How the parameters of one class became those of another; the numbers are
// those of the differences.
struct ClassChange {
  struct Specs {
    uint32_t difference = 0;
    std::vector<Mode> modes;
    Spec before, after;
  };
  std::optional<uint32_t> type, rule;
  std::vector<Specs> specs;

  bool none() const { return !type && !rule && specs.empty(); }
};

class Differ {
 public:
  Differ(const PlanTable& before, const PlanTable& after)
      : before_(before),
        after_(after),
        separator_(SeparatorOf(after.names.empty() ? before : after)) {
    const Mesh& was = before.classes.plan.mesh;
    const Mesh& now = after.classes.plan.mesh;
    out_.mesh_before = was;
    out_.mesh_after = now;
    out_.other_mesh = !SameMesh(was, now);
  }

  void Params() {
    // The same names in the same order need no looking up.
    const bool aligned = before_.names == after_.names;
    std::unordered_map<std::string_view, size_t> by_name;
    for (size_t i = 0; i < before_.names.size() && !aligned; ++i) {
      by_name.emplace(before_.names[i], i);
    }
    std::vector<bool> seen(before_.names.size(), aligned);
    for (size_t i = 0; i < after_.names.size(); ++i) {
      size_t was = i;
      if (!aligned) {
        const auto at = by_name.find(after_.names[i]);
        if (at == by_name.end()) {
          Named(added_, after_, i);
          continue;
        }
        was = at->second;
        seen[was] = true;
      }
      Change(was, i);
    }
    for (size_t i = 0; i < seen.size(); ++i) {
      if (!seen[i]) Named(removed_, before_, i);
    }
  }

  void Modes(Mode before, Mode after) {
    const auto& classes = after_.classes.plan.params;
    for (size_t c = 0; c < classes.size(); ++c) {
      ClassChange& change = changes_[{c, c}];
      AddSpecs(classes[c], classes[c], before, after, change);
      for (ClassChange::Specs& specs : change.specs) {
        Number(classes[c], classes[c], specs);
      }
    }
    for (size_t i = 0; i < after_.names.size(); ++i) Change(i, i);
  }

  void Attention(std::span<const PlanView::Attention> before,
                 std::span<const PlanView::Attention> after,
                 const std::function<Mode(Mode)>& mode_before) {
    std::map<std::pair<Mode, std::string_view>, const Spec*> known;
    for (const PlanView::Attention& one : before) {
      known[{one.mode, one.tensor}] = &one.spec;
    }
    for (const PlanView::Attention& now : after) {
      const auto at = known.find({mode_before(now.mode), now.tensor});
      if (at == known.end() || *at->second == now.spec) continue;
      const auto same = std::find_if(
          out_.attention.begin(), out_.attention.end(),
          [&](const AttentionChange& change) {
            return change.tensor == now.tensor &&
                   change.before == *at->second && change.after == now.spec;
          });
      if (same != out_.attention.end()) {
        same->modes.push_back(now.mode);
      } else {
        out_.attention.push_back(
            {now.tensor, {now.mode}, *at->second, now.spec});
      }
    }
  }

  PlanDiff Take() {
    out_.added = added_.Take(templates_);
    out_.removed = removed_.Take(templates_);
    out_.reshaped = reshaped_.Take(templates_);
    out_.rules = rules_.Take(templates_);
    out_.specs = specs_.Take(templates_);
    if (!out_.other_mesh) CostMoves();
    return std::move(out_);
  }

 private:
  static char SeparatorOf(const PlanTable& table) {
    const auto slashed = [](std::string_view name) {
      return name.find('/') != std::string_view::npos;
    };
    return std::any_of(table.names.begin(), table.names.end(), slashed) ? '/'
                                                                        : '.';
  }

  static const ReadParam& ClassOf(const PlanTable& table, size_t param) {
    return table.classes.plan.params[table.class_of[param]];
  }

  uint32_t Shown(std::string_view name) {
    template_.clear();
    AppendTemplate(name, separator_, template_);
    return templates_.Of(template_);
  }

  void Named(Folder<NamedGroup>& folder, const PlanTable& table, size_t param) {
    const TensorType& type = ClassOf(table, param).type;
    const std::string_view name = table.names[param];
    folder.Add({Shown(name), differences_.Of(TypeText(type))}, name, [&] {
      return NamedGroup{{}, {}, type};
    });
  }

  // Parameter `was` of the first plan is `now` of the second.
  void Change(size_t was, size_t now) {
    const std::pair<size_t, size_t> classes = {before_.class_of[was],
                                               after_.class_of[now]};
    if (last_ == nullptr || classes != last_classes_) {
      const auto [at, fresh] = changes_.try_emplace(classes);
      if (fresh) at->second = ChangeOf(classes.first, classes.second);
      last_classes_ = classes;
      last_ = &at->second;
    }
    if (last_->none()) return;
    const std::string_view name = after_.names[now];
    const uint32_t shown = Shown(name);
    if (last_->type) Type({shown, *last_->type}, name, was, now);
    if (last_->rule) Rule({shown, *last_->rule}, name, was, now);
    for (const ClassChange::Specs& specs : last_->specs) {
      Specs({shown, specs.difference}, name, specs, was, now);
    }
  }

  ClassChange ChangeOf(size_t before, size_t after) {
    const ReadParam& was = before_.classes.plan.params[before];
    const ReadParam& now = after_.classes.plan.params[after];
    ClassChange out;
    if (was.type != now.type) {
      out.type =
          differences_.Of(TypeText(was.type) + "\n" + TypeText(now.type));
    }
    const std::string_view a = PatternOf(before_, before);
    const std::string_view b = PatternOf(after_, after);
    if (a != b) {
      out.rule = differences_.Of(std::string(a) + "\n" + std::string(b));
    }
    for (Mode mode : after_.classes.plan.modes) {
      AddSpecs(was, now, mode, mode, out);
    }
    for (ClassChange::Specs& specs : out.specs) Number(was, now, specs);
    return out;
  }

  static std::string_view PatternOf(const PlanTable& table, size_t of_class) {
    const int32_t rule = table.classes.rule_of[of_class];
    if (rule < 0) return {};
    return table.classes.rules[static_cast<size_t>(rule)];
  }

  // Modes with the same specs before and after are told together.
  static void AddSpecs(const ReadParam& was, const ReadParam& now,
                       Mode mode_before, Mode mode, ClassChange& out) {
    Spec a = Padded(was.SpecOf(mode_before), was.type);
    Spec b = Padded(now.SpecOf(mode), now.type);
    if (a == b && was.placement == now.placement) return;
    const auto same =
        std::find_if(out.specs.begin(), out.specs.end(),
                     [&](const ClassChange::Specs& specs) {
                       return specs.before == a && specs.after == b;
                     });
    if (same != out.specs.end()) {
      same->modes.push_back(mode);
    } else {
      out.specs.push_back({0, {mode}, std::move(a), std::move(b)});
    }
  }

  void Number(const ReadParam& was, const ReadParam& now,
              ClassChange::Specs& specs) {
    std::string key;
    for (Mode mode : specs.modes) key += std::to_string(static_cast<int>(mode));
    key += SpecText(specs.before) + "\n" + SpecText(specs.after) + "\n" +
           TypeText(now.type);
    if (was.placement != now.placement) {
      key += "\n" + PlaceKey(was.placement) + ">" + PlaceKey(now.placement);
    }
    specs.difference = differences_.Of(key);
  }

  void Type(EntryKey key, std::string_view name, size_t was, size_t now) {
    reshaped_.Add(key, name, [&] {
      TypeChange out;
      out.type = ClassOf(after_, now).type;
      out.before = ClassOf(before_, was).type;
      return out;
    });
  }

  void Rule(EntryKey key, std::string_view name, size_t was, size_t now) {
    rules_.Add(key, name, [&] {
      RuleChange out;
      out.type = ClassOf(after_, now).type;
      out.before = PatternOf(before_, before_.class_of[was]);
      out.after = PatternOf(after_, after_.class_of[now]);
      return out;
    });
  }

  void Specs(EntryKey key, std::string_view name,
             const ClassChange::Specs& specs, size_t before, size_t after) {
    specs_.Add(key, name, [&] {
      const ReadParam& was = ClassOf(before_, before);
      const ReadParam& now = ClassOf(after_, after);
      SpecChange out;
      out.type = now.type;
      out.modes = specs.modes;
      out.before = specs.before;
      out.after = specs.after;
      out.placed_before = was.placement;
      out.placed_after = now.placement;
      out.held_before =
          BytesHeld(before_.classes.plan.mesh, was.type, specs.before);
      out.held_after =
          BytesHeld(after_.classes.plan.mesh, now.type, specs.after);
      return out;
    });
  }

  // Layers of many templates share few types and specs.
  void CostMoves() {
    std::unordered_map<std::string, Cost> known;
    for (SpecChange& change : out_.specs) {
      if (change.placed_before || change.placed_after) continue;
      const std::string key = TypeText(change.type) + SpecText(change.before) +
                              SpecText(change.after);
      const auto [at, fresh] = known.try_emplace(key);
      if (fresh) {
        at->second = CostOf(after_.classes.plan.mesh, change.type,
                            change.before, change.after);
      }
      change.move = at->second.move;
      change.sent_bytes_per_device = at->second.sent_bytes_per_device;
    }
  }

  static std::string TypeText(const TensorType& type) {
    return (type.shape ? ShapeText(*type.shape) : "?") + " " +
           (type.dtype ? std::string(DtypeName(*type.dtype)) : "?");
  }

  const PlanTable& before_;
  const PlanTable& after_;
  char separator_;
  PlanDiff out_;
  std::string template_;
  Numbers templates_, differences_;
  std::map<std::pair<size_t, size_t>, ClassChange> changes_;
  std::pair<size_t, size_t> last_classes_;
  const ClassChange* last_ = nullptr;
  Folder<NamedGroup> added_, removed_;
  Folder<TypeChange> reshaped_;
  Folder<RuleChange> rules_;
  Folder<SpecChange> specs_;
};

}  // namespace

PlanDiff DiffPlans(const PlanTable& before, const PlanTable& after) {
  Differ differ(before, after);
  differ.Params();
  differ.Attention(before.classes.attention, after.classes.attention,
                   [](Mode mode) { return mode; });
  return differ.Take();
}

PlanDiff DiffModes(const PlanTable& plan, Mode before, Mode after) {
  std::vector<PlanView::Attention> now;
  for (const PlanView::Attention& one : plan.classes.attention) {
    if (one.mode == after) now.push_back(one);
  }
  Differ differ(plan, plan);
  differ.Modes(before, after);
  differ.Attention(plan.classes.attention, now, [&](Mode) { return before; });
  return differ.Take();
}

}  // namespace shardc
