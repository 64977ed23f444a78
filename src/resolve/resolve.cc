// Resolves the names in the spec of a rule to mesh axes. A name is looked up as
// a registered logical axis, then as a built-in one, then as an axis rule, and
// then as a mesh axis. An unknown name is a finding. Two things change the
// result:
//
// - Some axis rules have a decode twin: the twin of head is decode_head. If the
//   twin is not null, it replaces the axis rule in the modes decode and insert.
// - Parallelism axes (dp, fsdp and so on) that the mesh lacks are left out,
//   unless the policy has `compat: eformer`.
//
// For example, a spec is resolved on a mesh that has only the axes dp and fsdp.
// The axis sp of the logical axis SP is left out:
//
//   [BATCH, [FSDP, SP], _]  ->  [["fsdp", "dp"], "fsdp", null]
//
// A registration (`register:` in a rules file) adds a logical axis. The names
// in the registration's rule are resolved by the standard axis rules in every
// mode, and not by decode twins. There is one exception: the rule is only the
// name of an axis rule, and the registration has no `generation` rule. Then the
// decode twin is used in decode and insert. In this example, `head` is tp and
// `decode_head` is ep:
//
//   X: {rule: head}    ->  tp, and ep in decode and insert
//   X: {rule: [head]}  ->  tp in every mode, because the rule is a list
//   X: {rule: HEAD}    ->  tp in every mode, because HEAD is a logical axis
//   X: {rule: Y}       ->  tp in every mode, even if Y is {rule: head}
//
// Registrations may refer to each other. Cycles are reported when the resolver
// is made, so that the lookup of a name always ends.
#include "resolve/resolve.h"

#include <algorithm>
#include <utility>

#include "source/index.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr std::string_view kToken = "token";
constexpr std::string_view kRegistered = "registered";
constexpr std::string_view kAxisRuleKind = "axis rule";
constexpr std::string_view kMeshAxis = "mesh axis";

// Returns the spelling under which a logical axis is stored: `__BATCH__` for
// the built-in BATCH, and `__X__` for a registered X.
std::string LongForm(std::string_view name) {
  if (const Token* token = FindToken(name)) {
    return std::string(token->long_name);
  }
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) {
    return std::string(name);
  }
  return "__" + std::string(name) + "__";
}

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Reports a mesh axis that is written twice in a spec. Other repetitions occur
// only after the names are resolved, as in [FSDP, fsdp]; legalize reports them.
void CheckWrittenTwice(const SpecList& list, const Resolved& resolved,
                       Findings& findings) {
  std::set<std::string_view> seen;
  for (size_t i = 0; i < resolved.traces.size(); ++i) {
    for (size_t j = 0; j < resolved.traces[i].size(); ++j) {
      const NameTrace& trace = resolved.traces[i][j];
      if (trace.kind != kMeshAxis || seen.insert(trace.name).second) continue;
      findings.Add(code::kSpec, list.entries[i].names[j].place,
                   "axis `" + trace.name + "` is written twice in one spec",
                   "a mesh axis can split one dimension only: leave one out");
    }
  }
}

}  // namespace

std::optional<AxisRule> InferredGeneration(const RegisteredRule& rule) {
  if (rule.is_list || rule.names.size() != 1 || rule.names[0].forced_axis) {
    return std::nullopt;
  }
  const auto named = ParseAxisRule(rule.names[0].text);
  return named ? DecodeTwin(*named) : std::nullopt;
}

std::optional<Mode> ModeFromShape(int64_t dim, std::span<const int64_t> shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t at = dim < 0 ? dim + rank : dim;
  if (at < 0 || at >= rank) return std::nullopt;
  return shape[AsIndex(at)] == 1 ? Mode::kDecode : Mode::kTrain;
}

std::optional<Resolver> Resolver::Make(const RuleSet& rules, const Mesh& mesh,
                                       Findings& findings) {
  const size_t errors = findings.errors();
  Resolver resolver;
  resolver.axes_ = rules.axes;
  resolver.mesh_ = mesh;
  resolver.keep_absent_ = rules.policy.compat == Compat::kEformer;
  for (AxisRule rule : ParallelismRules()) {
    for (const std::string& axis : rules.axes.Value(rule).axes) {
      if (!mesh.Find(axis)) resolver.absent_parallelism_.insert(axis);
    }
  }
  for (const Registration& registration : rules.registrations) {
    resolver.Register(registration, findings);
  }
  for (const Bundle& bundle : rules.bundles) {
    if (IsBlank(bundle.name)) {
      findings.Add(code::kSchema, bundle.place, "a bundle has an empty name",
                   "give it a name that rules can use as their spec");
      continue;
    }
    resolver.bundles_.try_emplace(bundle.name, bundle);
  }
  for (const Bundle& bundle : BuiltinBundles()) {
    resolver.bundles_.try_emplace(bundle.name, bundle);
  }
  if (findings.errors() > errors) return std::nullopt;
  if (!resolver.CheckCircles(findings)) return std::nullopt;
  return resolver;
}

void Resolver::Register(const Registration& registration, Findings& findings) {
  const std::string& name = registration.name;
  if (IsBlank(name)) {
    findings.Add(code::kSchema, registration.place,
                 "a registered token has an empty name", "give it a name");
    return;
  }
  if (name == "_") {
    findings.Add(code::kSchema, registration.place,
                 "`_` always means unsharded and cannot be registered",
                 "choose another name");
    return;
  }
  if (FindToken(name) != nullptr && !registration.override_existing) {
    findings.Add(code::kDuplicateKey, registration.place,
                 "token `" + name + "` is built in",
                 "choose another name, or write `override: true`");
    return;
  }
  auto [it, added] = registered_.try_emplace(LongForm(name), registration);
  // Two files may register the same name. The list of registrations begins with
  // those of the file that takes precedence, so the first one is used.
  if (!added && it->second.place.source == registration.place.source) {
    findings.Add(code::kDuplicateKey, registration.place,
                 "token `" + name + "` is registered twice",
                 "`" + it->second.name + "` is the same token: keep one");
  }
}

const Registration* Resolver::FindRegistered(std::string_view name) const {
  if (registered_.empty()) return nullptr;
  auto it = registered_.find(LongForm(name));
  return it == registered_.end() ? nullptr : &it->second;
}

// Reports cycles of registrations, in which each one's `rule` refers to the
// next. Follows these references by a depth-first search. A registration may
// also have a second rule, `generation`, for the modes decode and insert. A
// reference to a registration always means its first rule, so a `generation`
// cannot be part of a cycle.
bool Resolver::CheckCircles(Findings& findings) const {
  std::set<const Registration*> done;
  bool ok = true;
  struct Frame {
    const Registration* registration;
    std::vector<const Registration*> next;
  };
  auto references = [this](const Registration& registration) {
    std::vector<const Registration*> out;
    for (const auto& name : registration.rule.names) {
      if (name.forced_axis || ParseAxisRule(name.text)) continue;
      if (const auto* other = FindRegistered(name.text)) out.push_back(other);
    }
    return out;
  };
  for (const auto& [key, start] : registered_) {
    if (done.contains(&start)) continue;
    std::vector<Frame> path = {{&start, references(start)}};
    while (!path.empty()) {
      if (path.back().next.empty()) {
        done.insert(path.back().registration);
        path.pop_back();
        continue;
      }
      const Registration* next = path.back().next.back();
      path.back().next.pop_back();
      if (done.contains(next)) continue;
      auto at = std::find_if(path.begin(), path.end(), [&](const Frame& f) {
        return f.registration == next;
      });
      if (at == path.end()) {
        path.push_back({next, references(*next)});
        continue;
      }
      ok = false;
      std::string circle;
      for (; at != path.end(); ++at) {
        circle += "`" + at->registration->name + "` -> ";
      }
      findings.Add(code::kCycle, next->place,
                   "registrations refer to each other in a circle: " + circle +
                       "`" + next->name + "`",
                   "`{axis: NAME}` means the mesh axis of that name");
    }
  }
  return ok;
}

NameTrace Resolver::OfRule(AxisRule rule, Mode mode) const {
  NameTrace trace;
  AxisValue value = axes_.Value(rule);
  AxisRule used = rule;
  if (auto twin = DecodeTwin(rule); twin && IsGeneration(mode)) {
    AxisValue decode = axes_.Value(*twin);
    if (decode.is_null) {
      trace.decode_fallback = !value.axes.empty();
    } else {
      value = std::move(decode);
      used = *twin;
    }
  }
  trace.rule = AxisRuleName(used);
  trace.axes = std::move(value.axes);
  return trace;
}

AxisGroup Resolver::OfRegistration(const Registration& registration,
                                   Mode mode) const {
  const RegisteredRule& rule = registration.rule;
  if (!IsGeneration(mode)) return OfRegisteredRule(rule);
  if (registration.generation) {
    return OfRegisteredRule(*registration.generation);
  }
  // A decode twin (decode_head of head) replaces the rule even if the twin is
  // null. In OfRule(), a twin that is null is ignored.
  if (auto twin = InferredGeneration(rule)) return axes_.Value(*twin).axes;
  return OfRegisteredRule(rule);
}

AxisGroup Resolver::OfRegisteredRule(const RegisteredRule& rule) const {
  AxisGroup out;
  auto append = [&out](const AxisGroup& axes) {
    out.insert(out.end(), axes.begin(), axes.end());
  };
  for (const auto& name : rule.names) {
    if (name.forced_axis) {
      out.push_back(name.text);
    } else if (name.text == "_") {
      continue;
    } else if (auto axis_rule = ParseAxisRule(name.text)) {
      append(axes_.Value(*axis_rule).axes);
    } else if (const auto* other = FindRegistered(name.text)) {
      append(OfRegisteredRule(other->rule));
    } else if (const Token* token = FindToken(name.text)) {
      append(axes_.Value(*token->rule).axes);
    } else {
      out.push_back(name.text);
    }
  }
  return out;
}

std::optional<NameTrace> Resolver::Lookup(const SpecName& name, Mode mode,
                                          Findings& findings) const {
  NameTrace trace;
  if (name.text == "_") {
    trace.kind = kToken;
  } else if (const auto* registration = FindRegistered(name.text)) {
    trace.kind = kRegistered;
    trace.axes = OfRegistration(*registration, mode);
  } else if (const Token* token = FindToken(name.text)) {
    trace = OfRule(*token->rule, mode);
    trace.kind = kToken;
  } else if (auto rule = ParseAxisRule(name.text)) {
    trace = OfRule(*rule, mode);
    trace.kind = kAxisRuleKind;
  } else if (mesh_.Find(name.text) || IsAbsentParallelism(name.text)) {
    trace.kind = kMeshAxis;
    trace.axes = {name.text};
  } else {
    ReportUnknown(name, findings);
    return std::nullopt;
  }
  trace.name = name.text;
  return trace;
}

void Resolver::ReportUnknown(const SpecName& name, Findings& findings) const {
  if (FindBundle(name.text) != nullptr) {
    findings.Add(code::kUnknownName, name.place,
                 "bundle `" + name.text + "` cannot stand inside a list",
                 "a bundle is a whole spec: write `spec: " + name.text + "`");
    return;
  }
  std::vector<std::string> known;
  for (const MeshAxis& axis : mesh_.axes) known.push_back(axis.name);
  const bool long_form = name.text.starts_with("__");
  for (const Token& token : BuiltinTokens()) {
    known.emplace_back(long_form ? token.long_name : token.short_name);
  }
  for (const auto& [key, registration] : registered_) {
    known.push_back(registration.name);
  }
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    known.emplace_back(AxisRuleName(static_cast<AxisRule>(i)));
  }
  std::string axes =
      mesh_.axes.empty() ? "the mesh has no axes" : "the mesh's axes are";
  for (size_t i = 0; i < mesh_.axes.size(); ++i) {
    axes += (i > 0 ? ", `" : " `") + mesh_.axes[i].name + "`";
  }
  findings.Add(
      code::kUnknownName, name.place,
      "`" + name.text + "` is neither a token nor an axis rule nor a mesh axis",
      DidYouMean(name.text, known,
                 axes + "; tokens are BATCH, HEAD, EMBED and so on"));
}

std::optional<Resolved> Resolver::Resolve(const SpecList& list, Mode mode,
                                          Findings& findings) const {
  const size_t errors = findings.errors();
  Resolved out;
  out.spec.reserve(list.entries.size());
  out.traces.reserve(list.entries.size());
  for (const SpecEntry& entry : list.entries) {
    AxisGroup group;
    std::vector<NameTrace> traces;
    for (const SpecName& name : entry.names) {
      auto trace = Lookup(name, mode, findings);
      if (!trace) continue;
      for (const std::string& axis : trace->axes) {
        if (keep_absent_ || !IsAbsentParallelism(axis)) group.push_back(axis);
      }
      traces.push_back(std::move(*trace));
    }
    out.spec.push_back(std::move(group));
    out.traces.push_back(std::move(traces));
  }
  if (findings.errors() > errors) return std::nullopt;
  CheckWrittenTwice(list, out, findings);
  if (findings.errors() > errors) return std::nullopt;
  return out;
}

std::optional<Resolved> Resolver::Resolve(const SpecSource& source, Mode mode,
                                          Findings& findings) const {
  if (const auto* list = std::get_if<SpecList>(&source)) {
    return Resolve(*list, mode, findings);
  }
  if (const auto* like = std::get_if<SpecLike>(&source)) {
    findings.Add(code::kReference, like->place,
                 "`like` names a parameter, and there is none here",
                 "write the spec as a list or as a bundle's name");
    return std::nullopt;
  }
  const auto& written = std::get<SpecBundle>(source);
  const Bundle* bundle = FindBundle(written.name);
  if (bundle == nullptr) {
    const bool axis = mesh_.Find(written.name) || FindToken(written.name) ||
                      ParseAxisRule(written.name) ||
                      FindRegistered(written.name) != nullptr ||
                      IsAbsentParallelism(written.name);
    findings.Add(
        code::kUnknownName, written.place,
        "there is no bundle " + ShortQuote(written.name),
        axis ? "to shard the first dimension, write `[" + written.name + "]`"
             : DidYouMean(
                   written.name, BundleNames(),
                   "write the spec as a list, such as `[[FSDP, SP], TP]`"));
    return std::nullopt;
  }
  auto resolved = Resolve(bundle->axes, mode, findings);
  if (resolved) resolved->bundle = bundle->name;
  return resolved;
}

const Bundle* Resolver::FindBundle(std::string_view name) const {
  auto it = bundles_.find(name);
  // A built-in bundle has a second name, the name of its class in eformer: the
  // bundle AttnQ is also AttnQSharding. `bundles_` has only the first name, so
  // FindBuiltinBundle looks up the second.
  return it == bundles_.end() ? FindBuiltinBundle(name) : &it->second;
}

std::vector<std::string> Resolver::BundleNames() const {
  std::vector<std::string> names;
  names.reserve(bundles_.size());
  for (const auto& [name, bundle] : bundles_) names.push_back(name);
  return names;
}

bool Resolver::IsAbsentParallelism(std::string_view axis) const {
  return absent_parallelism_.contains(axis);
}

}  // namespace shardc
