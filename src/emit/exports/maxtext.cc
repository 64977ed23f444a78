// Exports a plan as MaxText's logical axis rules: an ordered list of (logical
// name, mesh axis). The rules must give every parameter its spec from the
// logical names of its dimensions. MaxText applies the rules in order. A rule
// shards the dimension that has its name over its axis. It is skipped if an
// earlier rule has sharded the dimension, or has used the axis for another
// dimension of the same parameter. For example:
//
//   parameter A: names [embed, mlp], spec ["fsdp", "tp"]
//   parameter B: names [embed], spec ["tp"]
//     ->  (mlp, tp), (embed, tp), (embed, fsdp)
//
// The rules are the pairs of a name and axes that occur in the plan, so only
// their order must be found. In the example, the rule (embed, tp) must not
// apply to `embed` of A. It does not, because (mlp, tp) uses tp in A first.
//
// In general, a rule R must not apply to a dimension that has the name of R but
// is sharded over other axes. R is skipped there if one of two kinds of rules
// comes before R: the rule that shards this dimension as planned, or a rule
// that uses an axis of R for another dimension of the same parameter. The order
// is found greedily: the next rule is any rule whose requirements are met. If
// an order exists, this algorithm finds one.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emit/exports/exporter.h"
#include "model/rules.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

// The limit on the number of requirements. Each requirement states that one
// rule must not apply to one dimension.
constexpr size_t kMaxNeeds = 20'000'000;

// Parameters with the same logical names and spec.
struct ParameterGroup {
  const std::vector<AxisGroup>* names = nullptr;
  Spec spec;
  const ReadParam* first = nullptr;
  int64_t count = 0;
};

bool Shares(const AxisGroup& one, const AxisGroup& other) {
  return std::any_of(one.begin(), one.end(), [&](const std::string& axis) {
    return IsAmong(axis, other);
  });
}

// Finds an order of MaxText's rules that gives each parameter its spec. A
// requirement states that one rule must not apply to one dimension of a group
// of parameters. If no order meets all requirements, those of the groups with
// the fewest parameters are dropped.
class Ordering {
 public:
  explicit Ordering(const std::vector<ParameterGroup>& groups)
      : groups_(groups) {
    for (const ParameterGroup& group : groups) {
      for (size_t d = 0; d < group.spec.size(); ++d) {
        if (!group.spec[d].empty()) Wanted((*group.names)[d][0], group.spec[d]);
      }
    }
    watchers_.resize(rules_.size());
    open_.resize(rules_.size());
    needs_of_.resize(groups.size());
  }

  bool Gather() {
    for (size_t k = 0; k < groups_.size(); ++k) {
      const ParameterGroup& group = groups_[k];
      for (size_t d = 0; d < group.spec.size(); ++d) {
        if ((*group.names)[d].empty()) continue;
        const auto own = of_name_.find((*group.names)[d][0]);
        if (own == of_name_.end()) continue;
        for (const size_t rule : own->second) AddNeed(rule, k, d);
        if (needs_.size() > kMaxNeeds) return false;
      }
    }
    return true;
  }

  std::vector<LogicalRule> Take() {
    std::vector<size_t> victims(groups_.size());
    for (size_t k = 0; k < victims.size(); ++k) victims[k] = k;
    std::sort(victims.begin(), victims.end(), [&](size_t a, size_t b) {
      return std::pair(groups_[a].count, b) < std::pair(groups_[b].count, a);
    });
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
      if (open_[rule] == 0) ready_.insert(rule);
    }
    std::vector<LogicalRule> out;
    for (auto victim = victims.begin(); out.size() < rules_.size();) {
      if (ready_.empty()) {
        for (const size_t need : needs_of_[*victim]) Meet(need);
        ++victim;
        continue;
      }
      const size_t rule = *ready_.begin();
      ready_.erase(ready_.begin());
      out.push_back(rules_[rule]);
      for (const size_t need : watchers_[rule]) Meet(need);
    }
    return out;
  }

 private:
  struct Need {
    size_t rule = 0;
    bool met = false;
  };

  size_t Wanted(const std::string& name, const AxisGroup& axes) {
    const auto [at, fresh] = ids_.try_emplace({name, axes}, rules_.size());
    if (fresh) {
      rules_.push_back({name, axes});
      of_name_[name].push_back(at->second);
    }
    return at->second;
  }

  // Adds the requirement that `rule` does not apply to dimension `d` of group
  // `k`. Adds nothing if `rule` is the rule of that dimension.
  void AddNeed(size_t rule, size_t k, size_t d) {
    const ParameterGroup& group = groups_[k];
    const AxisGroup& axes = rules_[rule].axes;
    if (group.spec[d] == axes) return;
    const size_t need = needs_.size();
    needs_.push_back({rule});
    needs_of_[k].push_back(need);
    ++open_[rule];
    for (size_t other = 0; other < group.spec.size(); ++other) {
      const AxisGroup& other_axes = group.spec[other];
      if (other_axes.empty() || (other != d && !Shares(other_axes, axes))) {
        continue;
      }
      watchers_[Wanted((*group.names)[other][0], other_axes)].push_back(need);
    }
  }

  void Meet(size_t need) {
    if (std::exchange(needs_[need].met, true)) return;
    if (--open_[needs_[need].rule] == 0) ready_.insert(needs_[need].rule);
  }

  const std::vector<ParameterGroup>& groups_;
  std::vector<LogicalRule> rules_;
  std::map<std::pair<std::string, AxisGroup>, size_t> ids_;
  std::map<std::string, std::vector<size_t>> of_name_;
  std::vector<Need> needs_;
  // For each rule, the indices in needs_ of the requirements that are met if
  // this rule comes before the rule that must not apply.
  std::vector<std::vector<size_t>> watchers_;
  // For each group of parameters, the indices of its requirements in needs_.
  std::vector<std::vector<size_t>> needs_of_;
  // For each rule, the number of its unmet requirements.
  std::vector<size_t> open_;
  std::set<size_t> ready_;
};

class MaxtextWriter {
 public:
  MaxtextWriter(const Request& request, Findings& findings)
      : request_(request), findings_(findings) {}

  void Write(Sink& out) {
    if (!Gather()) return;
    Ordering ordering(groups_);
    if (!ordering.Gather()) {
      findings_.Add(code::kLimit, {},
                    "the plan shards the logical names in too many ways to "
                    "find an order of their rules");
      return;
    }
    rules_ = ordering.Take();
    ReportOthers();
    AddReplicated();
    request_.options.json ? WriteJson(out) : WriteYaml(out);
  }

 private:
  bool Gather() {
    std::map<std::string_view, const LogicalNames*> by_param;
    for (const LogicalNames& one : *request_.names) {
      by_param[one.param] = &one;
    }
    std::map<std::pair<std::vector<AxisGroup>, Spec>, size_t> seen;
    bool any = request_.plan.params.empty();
    for (const ReadParam& param : request_.plan.params) {
      const auto named = by_param.find(param.name);
      any = any || named != by_param.end();
      const Spec& spec = param.SpecOf(request_.options.mode);
      if (named == by_param.end()) {
        if (!IsReplicated(spec) || param.placement) {
          Leave(param, "`--names` does not list it");
        }
        continue;
      }
      const std::vector<AxisGroup>& names = named->second->dims;
      const std::string reason = WhyNot(param, spec, names);
      if (!reason.empty()) {
        Leave(param, reason);
        continue;
      }
      Spec padded = Padded(spec, names.size());
      const auto [at, fresh] =
          seen.try_emplace({names, padded}, groups_.size());
      if (fresh) groups_.push_back({&names, std::move(padded), &param, 0});
      ++groups_[at->second].count;
    }
    if (any) return true;
    findings_.Add(code::kInexpressible, request_.plan.params[0].place,
                  "`--names` lists none of the plan's parameters, such as " +
                      ShortQuote(request_.plan.params[0].name));
    return false;
  }

  static std::string WhyNot(const ReadParam& param, const Spec& spec,
                            const std::vector<AxisGroup>& names) {
    if (param.placement) return "it is placed at one coordinate of an axis";
    const size_t rank =
        param.type.shape ? param.type.shape->size() : names.size();
    if (rank != names.size() || spec.size() > names.size()) {
      return "`--names` lists " +
             Counted(static_cast<int64_t>(names.size()), "dimension") +
             " of it, and it has " +
             std::to_string(std::max(rank, spec.size()));
    }
    for (size_t d = 0; d < spec.size(); ++d) {
      if (spec[d].empty() || !names[d].empty()) continue;
      return "its dimension " + std::to_string(d) +
             " is sharded and has no logical name";
    }
    return {};
  }

  // Adds a warning that the exported rules do not give `param` and `count - 1`
  // other parameters the spec that they have in the plan.
  void Leave(const ReadParam& param, const std::string& reason,
             int64_t count = 1) {
    Finding finding;
    finding.code = &code::kInexpressible;
    finding.level = Level::kWarning;
    finding.place = param.place;
    finding.message =
        "`maxtext` does not shard " + ShortQuote(param.name) +
        (count > 1 ? " and " + CountText(count - 1) + " more" : "") +
        " as the plan does: " + reason;
    findings_.Add(std::move(finding));
  }

  void ReportOthers() {
    const LogicalRules rules(rules_);
    for (const ParameterGroup& group : groups_) {
      const Spec given = rules.Resolve(*group.names, request_.plan.mesh);
      if (given == group.spec) continue;
      Leave(*group.first,
            "the rules that other parameters need make it " + SpecText(given) +
                ", and the plan has " + SpecText(group.spec),
            group.count);
    }
  }

  // Adds rules that declare the names of unsharded dimensions as replicated.
  void AddReplicated() {
    std::set<std::string> known;
    for (const LogicalRule& rule : rules_) known.insert(rule.name);
    for (const ParameterGroup& group : groups_) {
      for (const AxisGroup& name : *group.names) {
        if (!name.empty() && known.insert(name[0]).second) {
          rules_.push_back({name[0], {}});
        }
      }
    }
  }

  void WriteRule(JsonWriter& json, const LogicalRule& rule) const {
    json.BeginArray();
    json.String(rule.name);
    json.Array(rule.axes);
    json.EndArray();
  }

  void WriteAxes(JsonWriter& json) const {
    json.Array(request_.plan.mesh.axes, &MeshAxis::name);
  }

  void WriteJson(Sink& out) const {
    JsonWriter json(out);
    json.BeginObject(JsonLayout::kLines);
    json.Key("mesh_axes");
    WriteAxes(json);
    json.Member("override_logical_axis_rules", true);
    json.Lines("logical_axis_rules", rules_,
               [&](const LogicalRule& rule) { WriteRule(json, rule); });
    json.EndObject();
    out.Put('\n');
  }

  void WriteYaml(Sink& out) const {
    const auto axes = [&](JsonWriter& json) { WriteAxes(json); };
    out.Append("mesh_axes: " + JsonText(axes) + "\n");
    out.Append("override_logical_axis_rules: true\nlogical_axis_rules:");
    out.Append(rules_.empty() ? " []\n" : "\n");
    for (const LogicalRule& rule : rules_) {
      const auto one = [&](JsonWriter& json) { WriteRule(json, rule); };
      out.Append("  - " + JsonText(one) + "\n");
    }
  }

  const Request& request_;
  Findings& findings_;
  std::vector<ParameterGroup> groups_;
  std::vector<LogicalRule> rules_;
};

void WriteMaxtext(const Request& request, Sink& out, Findings& findings) {
  if (!EvenShards(request.plan, {"maxtext", kEqualParts, request.options.mode},
                  findings)) {
    return;
  }
  if (request.names != nullptr) {
    MaxtextWriter(request, findings).Write(out);
    return;
  }
  findings.Add(code::kUsage, {},
               "logical axis rules need the logical names of dimensions, which "
               "a plan does not contain",
               "give `--names logical_shardings.json`");
}

}  // namespace

constexpr Exporter kMaxtext{
    "maxtext", "MaxText's logical_axis_rules over the names of `--names`",
    "text|json", "--mode --names", WriteMaxtext};

}  // namespace shardc::exports
