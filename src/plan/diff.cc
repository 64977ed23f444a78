// Both plans are walked by name. Each way in which a parameter differs has a
// key of its template and of what differs; the first parameter with a key makes
// the entry, and the others add their names:
//
//   layers.0.up, layers.1.up: ["tp"] -> [null]  ->  one entry `layers.*.up`
//
// What a move costs is worked out once for an entry.
#include "plan/diff.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

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

char SeparatorOf(const ReadPlan& plan) {
  for (const ReadParam& param : plan.params) {
    if (param.name.find('/') != std::string::npos) return '/';
  }
  return '.';
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

// Entries by their key, in the order in which they were first seen.
template <class Entry>
class Folder {
 public:
  // The entry of the key, made where it is the first.
  Entry& At(const std::string& shown, const std::string& name,
            const std::string& key, const std::function<Entry()>& make) {
    const auto [at, fresh] =
        index_.try_emplace(shown + "\n" + key, entries_.size());
    if (fresh) {
      entries_.push_back(make());
      entries_.back().shown = shown;
    }
    Entry& entry = entries_[at->second];
    entry.names.push_back(name);
    return entry;
  }

  std::vector<Entry> Take() {
    for (Entry& entry : entries_) {
      if (entry.names.size() == 1) entry.shown = entry.names.front();
    }
    return std::move(entries_);
  }

 private:
  std::unordered_map<std::string, size_t> index_;
  std::vector<Entry> entries_;
};

std::string PlaceKey(const std::optional<ReadPlacement>& placement) {
  return placement ? placement->axis : "";
}

class Differ {
 public:
  Differ(const ReadPlan& before, const ReadPlan& after)
      : before_(before),
        after_(after),
        separator_(SeparatorOf(after.params.empty() ? before : after)) {
    out_.mesh_before = before.mesh;
    out_.mesh_after = after.mesh;
    out_.other_mesh = !SameMesh(before.mesh, after.mesh);
  }

  void Params(const PlanView& before, const PlanView& after) {
    std::unordered_map<std::string_view, size_t> by_name;
    for (size_t i = 0; i < before_.params.size(); ++i) {
      by_name.emplace(before_.params[i].name, i);
    }
    std::vector<bool> seen(before_.params.size());
    for (size_t i = 0; i < after_.params.size(); ++i) {
      const ReadParam& now = after_.params[i];
      const auto at = by_name.find(now.name);
      if (at == by_name.end()) {
        Named(added_, now);
        continue;
      }
      seen[at->second] = true;
      const ReadParam& was = before_.params[at->second];
      Type(was, now);
      Rule(before, at->second, after, i);
      for (Mode mode : after_.modes) {
        Specs(was, was.SpecOf(mode), now, now.SpecOf(mode), mode);
      }
    }
    for (size_t i = 0; i < seen.size(); ++i) {
      if (!seen[i]) Named(removed_, before_.params[i]);
    }
  }

  void Modes(Mode before, Mode after) {
    for (const ReadParam& param : after_.params) {
      Specs(param, param.SpecOf(before), param, param.SpecOf(after), after);
    }
  }

  void Attention(const PlanView& before, const PlanView& after,
                 const std::function<Mode(Mode)>& mode_before) {
    std::map<std::pair<Mode, std::string_view>, const Spec*> known;
    for (const PlanView::Attention& one : before.attention) {
      known[{one.mode, one.tensor}] = &one.spec;
    }
    for (const PlanView::Attention& now : after.attention) {
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
    out_.added = added_.Take();
    out_.removed = removed_.Take();
    out_.reshaped = reshaped_.Take();
    out_.rules = rules_.Take();
    out_.specs = specs_.Take();
    JoinModes();
    if (!out_.other_mesh) CostMoves();
    return std::move(out_);
  }

 private:
  std::string Shown(const ReadParam& param) const {
    return NameTemplate(param.name, separator_);
  }

  void Named(Folder<NamedGroup>& folder, const ReadParam& param) {
    folder.At(Shown(param), param.name, TypeText(param.type), [&] {
      return NamedGroup{{}, {}, param.type};
    });
  }

  void Type(const ReadParam& was, const ReadParam& now) {
    if (was.type == now.type) return;
    reshaped_.At(Shown(now), now.name,
                 TypeText(was.type) + "\n" + TypeText(now.type), [&] {
                   TypeChange out;
                   out.type = now.type;
                   out.before = was.type;
                   return out;
                 });
  }

  void Rule(const PlanView& before, size_t was, const PlanView& after,
            size_t now) {
    const auto pattern = [](const PlanView& view, size_t param) {
      const int32_t rule = view.rule_of[param];
      return rule < 0 ? std::string() : view.rules[static_cast<size_t>(rule)];
    };
    const std::string a = pattern(before, was), b = pattern(after, now);
    if (a == b) return;
    const ReadParam& param = after_.params[now];
    rules_.At(Shown(param), param.name, a + "\n" + b, [&] {
      RuleChange out;
      out.type = param.type;
      out.before = a;
      out.after = b;
      return out;
    });
  }

  void Specs(const ReadParam& was, const Spec& before, const ReadParam& now,
             const Spec& after, Mode mode) {
    const Spec a = Padded(before, was.type), b = Padded(after, now.type);
    const bool moved = was.placement != now.placement;
    if (a == b && !moved) return;
    std::string key = std::to_string(static_cast<int>(mode)) + SpecText(a) +
                      "\n" + SpecText(b) + "\n" + TypeText(now.type);
    if (moved) {
      key += "\n" + PlaceKey(was.placement) + ">" + PlaceKey(now.placement);
    }
    specs_.At(Shown(now), now.name, key, [&] {
      SpecChange out;
      out.type = now.type;
      out.modes = {mode};
      out.before = a;
      out.after = b;
      out.placed_before = was.placement;
      out.placed_after = now.placement;
      out.held_before = BytesHeld(before_.mesh, was.type, a);
      out.held_after = BytesHeld(after_.mesh, now.type, b);
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
        at->second =
            CostOf(after_.mesh, change.type, change.before, change.after);
      }
      change.move = at->second.move;
      change.sent_bytes_per_device = at->second.sent_bytes_per_device;
    }
  }

  // Of the same parameters, what is so in several modes is one entry.
  void JoinModes() {
    std::unordered_map<std::string, size_t> index;
    std::vector<SpecChange> joined;
    for (SpecChange& change : out_.specs) {
      const std::string key = change.names.front() + "\n" +
                              std::to_string(change.names.size()) +
                              SpecText(change.before) + SpecText(change.after);
      const auto [at, fresh] = index.try_emplace(key, joined.size());
      if (fresh) {
        joined.push_back(std::move(change));
      } else {
        joined[at->second].modes.push_back(change.modes.front());
      }
    }
    out_.specs = std::move(joined);
  }

  static std::string TypeText(const TensorType& type) {
    return (type.shape ? ShapeText(*type.shape) : "?") + " " +
           (type.dtype ? std::string(DtypeName(*type.dtype)) : "?");
  }

  const ReadPlan& before_;
  const ReadPlan& after_;
  char separator_;
  PlanDiff out_;
  Folder<NamedGroup> added_, removed_;
  Folder<TypeChange> reshaped_;
  Folder<RuleChange> rules_;
  Folder<SpecChange> specs_;
};

bool Refuse(const JsonValue& at, std::string message, Findings& findings) {
  findings.Add(code::kSchema, at.place(), std::move(message));
  return false;
}

bool ReadRules(const JsonValue& root, PlanView& view, Findings& findings) {
  const auto rules = RequiredMember(root, "rules", JsonKind::kArray, findings);
  if (!rules) return false;
  for (const JsonValue rule : rules->items()) {
    const auto match =
        RequiredMember(rule, "match", JsonKind::kString, findings);
    if (!match) return false;
    view.rules.emplace_back(match->string());
  }
  const auto params =
      RequiredMember(root, "params", JsonKind::kObject, findings);
  if (!params) return false;
  for (const JsonMember param : params->members()) {
    const auto rule = param.value.Find("rule");
    if (!rule || rule->IsNull()) {
      view.rule_of.push_back(-1);
      continue;
    }
    if (rule->kind() != JsonKind::kInteger || rule->integer() < 0 ||
        rule->integer() >= static_cast<int64_t>(view.rules.size())) {
      return Refuse(*rule, "the plan has no such rule", findings);
    }
    view.rule_of.push_back(static_cast<int32_t>(rule->integer()));
  }
  return true;
}

bool ReadAttentionSpec(const JsonValue& value, Spec& spec, Findings& findings) {
  if (!value.IsArray()) return Refuse(value, "a spec is a list", findings);
  for (const JsonValue entry : value.items()) {
    AxisGroup group;
    if (entry.IsString()) group.emplace_back(entry.string());
    if (entry.IsArray()) {
      for (const JsonValue axis : entry.items()) {
        group.emplace_back(axis.string());
      }
    }
    spec.push_back(std::move(group));
  }
  return true;
}

bool ReadAttention(const JsonValue& root, PlanView& view, Findings& findings) {
  const auto attention =
      RequiredMember(root, "attention", JsonKind::kObject, findings);
  if (!attention) return false;
  for (const JsonMember mode : attention->members()) {
    const auto parsed = ParseMode(mode.name());
    if (!parsed || !mode.value.IsObject()) {
      return Refuse(mode.key, "this is no mode", findings);
    }
    for (const JsonMember tensor : mode.value.members()) {
      PlanView::Attention one{*parsed, std::string(tensor.name()), {}};
      if (!ReadAttentionSpec(tensor.value, one.spec, findings)) return false;
      view.attention.push_back(std::move(one));
    }
  }
  return true;
}

}  // namespace

std::optional<PlanView> ViewPlan(const JsonDocument& document,
                                 Findings& findings) {
  auto plan = ParsePlan(document, findings);
  if (!plan) return std::nullopt;
  PlanView out;
  out.plan = std::move(*plan);
  if (!ReadRules(document.root(), out, findings) ||
      !ReadAttention(document.root(), out, findings)) {
    return std::nullopt;
  }
  return out;
}

PlanDiff DiffPlans(const PlanView& before, const PlanView& after) {
  Differ differ(before.plan, after.plan);
  differ.Params(before, after);
  differ.Attention(before, after, [](Mode mode) { return mode; });
  return differ.Take();
}

PlanDiff DiffModes(const PlanView& plan, Mode before, Mode after) {
  PlanView now = plan;
  std::erase_if(now.attention,
                [&](const auto& one) { return one.mode != after; });
  Differ differ(plan.plan, plan.plan);
  differ.Modes(before, after);
  differ.Attention(plan, now, [&](Mode) { return before; });
  return differ.Take();
}

}  // namespace shardc
