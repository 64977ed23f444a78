// Resolves the names in the spec of a rule to mesh axes. A name is looked up as
// a registered logical axis, then as a built-in one, then as an axis rule, and
// then as a mesh axis. An unknown name is a finding. Three things change the
// result:
//
// - A name may be an axis of the mesh as well as an axis rule (`batch`) or a
//   built-in logical axis. If the mesh has none of the rule's axes, the name is
//   the mesh axis. If the mesh has one of them, the name is an error, unless
//   the mesh axis is the rule's only axis. `{axis: batch}` is always the mesh
//   axis, and the logical axis BATCH always the rule. Under `compat`, and in
//   packs and built-in bundles, the name is always the rule.
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
// A name in a registration is an axis rule first. Only if the mesh has none of
// the rule's axes, and has an axis of the name, the name is that axis.
//
// Registrations may refer to each other. Cycles are reported when the resolver
// is made, so that the lookup of a name always ends.
#include "resolve/resolve.h"

#include <algorithm>
#include <utility>

#include "model/name.h"
#include "source/list.h"
#include "source/other_words.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Returns the list that stands for a spec in Python's form: `[tp, null]` for
// `P("tp", None)`, and for entries that are written as one text, such as `"tp,
// fsdp"`. Returns nullopt for any other text.
std::optional<std::string> ListOfPartitionSpec(std::string_view text) {
  const size_t open = text.find('(');
  const std::string_view name = text.substr(0, open);
  const bool is_call = open != std::string_view::npos && text.ends_with(')') &&
                       (name.empty() || name == "P" || name == "PS" ||
                        name.ends_with("PartitionSpec"));
  // A list in quotes, or the entries of a list without brackets.
  const bool is_list = text.starts_with('[') && text.ends_with(']');
  const bool is_bare =
      text.find(',') != text.npos && text.find_first_of("()[]{}") == text.npos;
  if (!is_call && !is_list && !is_bare) return std::nullopt;
  std::string out = is_bare ? "[" : "";
  for (const char c : text.substr(is_call ? open : 0)) {
    if (c == '"' || c == '\'') continue;
    out += c == '(' ? '[' : c == ')' ? ']' : c;
  }
  if (is_bare) out += ']';
  constexpr std::string_view kNone = "None";
  for (size_t at = out.find(kNone); at != std::string::npos;
       at = out.find(kNone, at)) {
    out.replace(at, kNone.size(), "null");
  }
  return out;
}

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

bool HasAny(const Mesh& mesh, const AxisGroup& axes) {
  return std::any_of(axes.begin(), axes.end(), [&](const std::string& axis) {
    return mesh.Find(axis).has_value();
  });
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

void KeepExpertsWhole(Resolved& out) {
  const std::string_view expert = AxisRuleName(AxisRule::kExpert);
  // The axes of dimensions with EXPERT, and the first such dimension of each.
  std::map<std::string, size_t> whole;
  for (size_t dim = 0; dim < out.spec.size(); ++dim) {
    for (const NameTrace& trace : out.traces[dim]) {
      if (trace.rule != expert) continue;
      for (const std::string& axis : trace.axes) whole.emplace(axis, dim);
    }
  }
  if (whole.empty()) return;
  for (size_t dim = 0; dim < out.spec.size(); ++dim) {
    const auto by_other_rule = [&](const std::string& axis) {
      return std::any_of(out.traces[dim].begin(), out.traces[dim].end(),
                         [&](const NameTrace& trace) {
                           return trace.rule != expert &&
                                  trace.kind != kMeshAxis &&
                                  IsAmong(axis, trace.axes);
                         });
    };
    std::erase_if(out.spec[dim], [&](const std::string& axis) {
      const auto at = whole.find(axis);
      return at != whole.end() && at->second != dim && by_other_rule(axis);
    });
  }
}

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
  resolver.compat_ = rules.policy.compat.value_or(Compat::kNone);
  for (AxisRule rule : ParallelismRules()) {
    for (const std::string& axis : rules.axes.Value(rule).axes) {
      if (!mesh.Find(axis)) resolver.absent_parallelism_.insert(axis);
    }
  }
  for (const Registration& registration : rules.registrations) {
    resolver.Register(registration, findings);
  }
  resolver.activations_ = rules.activations;
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

namespace {

// Returns the key under which a registration is found. The name of a field of
// PartitionAxis, such as `head_axis`, is that of its axis rule, `head`. The
// compatible modes keep names as they are, as their systems do.
std::string RegisteredKey(std::string_view name, Compat compat) {
  const auto field =
      compat == Compat::kNone ? ParseAxisField(name) : std::nullopt;
  return LongForm(field ? AxisRuleName(*field) : name);
}

}  // namespace

void Resolver::Register(const Registration& registration, Findings& findings) {
  const std::string& name = registration.name;
  if (IsBlank(name)) {
    findings.Add(code::kSchema, registration.place,
                 "a registered logical axis has an empty name",
                 "give it a name");
    return;
  }
  const Token* const built_in = FindToken(name);
  if (built_in != nullptr && !built_in->rule) {
    findings.Add(code::kSchema, registration.place,
                 "`" + name +
                     "` always means unsharded and cannot be "
                     "registered",
                 "choose another name");
    return;
  }
  if (built_in != nullptr && !registration.override_existing) {
    findings.Add(code::kDuplicateKey, registration.place,
                 "logical axis `" + name + "` is built in",
                 "choose another name, or write `override: true`");
    return;
  }
  auto [it, added] =
      registered_.try_emplace(RegisteredKey(name, compat_), registration);
  // Two files may register the same name. The list of registrations begins with
  // those of the file that takes precedence, so the first one is used.
  if (!added && it->second.place.source == registration.place.source) {
    findings.Add(
        code::kDuplicateKey, registration.place,
        "logical axis `" + name + "` is registered twice",
        "`" + it->second.name + "` is the same logical axis: keep one");
  }
}

const Registration* Resolver::FindRegistered(std::string_view name) const {
  if (registered_.empty()) return nullptr;
  auto it = registered_.find(RegisteredKey(name, compat_));
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
  if (auto twin = InferredGeneration(rule)) {
    const std::string& name = rule.names[0].text;
    if (!IsAxisInstead(name, *ParseAxisRule(name))) {
      return axes_.Value(*twin).axes;
    }
  }
  return OfRegisteredRule(rule);
}

AxisGroup Resolver::OfRegisteredRule(const RegisteredRule& rule) const {
  AxisGroup out;
  auto append = [&out](const AxisGroup& axes) {
    out.insert(out.end(), axes.begin(), axes.end());
  };
  for (const auto& name : rule.names) {
    const Registration* other = nullptr;
    auto axis_rule = ParseAxisRule(name.text);
    if (!axis_rule && !name.forced_axis) {
      other = FindRegistered(name.text);
      const Token* token = FindToken(name.text);
      if (other == nullptr && token != nullptr) {
        if (!token->rule) continue;
        axis_rule = token->rule;
      }
    }
    if (other != nullptr) {
      append(OfRegisteredRule(other->rule));
    } else if (!axis_rule || name.forced_axis ||
               IsAxisInstead(name.text, *axis_rule)) {
      out.push_back(name.text);
    } else {
      append(axes_.Value(*axis_rule).axes);
    }
  }
  return out;
}

bool Resolver::IsAxisInstead(const std::string& name, AxisRule rule) const {
  if (compat_ != Compat::kNone || !mesh_.Find(name)) return false;
  return !HasAny(mesh_, OfRule(rule, Mode::kTrain).axes) &&
         !HasAny(mesh_, OfRule(rule, Mode::kDecode).axes);
}

NameTrace Resolver::LookupLogical(const std::string& name, Mode mode) const {
  NameTrace trace;
  if (const auto* registration = FindRegistered(name)) {
    trace.kind = kRegistered;
    trace.axes = OfRegistration(*registration, mode);
  } else if (const Token* token = FindToken(name)) {
    if (token->rule) trace = OfRule(*token->rule, mode);
    trace.kind = kToken;
  } else {
    trace = OfRule(*ParseAxisRule(name), mode);
    trace.kind = kAxisRuleKind;
  }
  return trace;
}

bool Resolver::IsLogical(std::string_view name) const {
  return FindToken(name) != nullptr || ParseAxisRule(name) ||
         FindRegistered(name) != nullptr;
}

Resolver::Reading Resolver::ReadingOf(const SpecName& name) const {
  if (name.is_mesh_axis || !IsLogical(name.text)) return Reading::kMeshAxis;
  const Source* const source = name.place.source.get();
  const bool of_user = source != nullptr && !IsPackName(source->name());
  if (compat_ != Compat::kNone || !of_user || !mesh_.Find(name.text)) {
    return Reading::kLogical;
  }
  const NameTrace train = LookupLogical(name.text, Mode::kTrain);
  const AxisGroup decode = LookupLogical(name.text, Mode::kDecode).axes;
  const AxisGroup own = {name.text};
  if (train.axes == own && decode == own) return Reading::kLogical;
  const bool any = HasAny(mesh_, train.axes) || HasAny(mesh_, decode);
  // A registration is the user's own definition of the name, so it applies
  // where it has axes, and is never replaced without a finding.
  if (train.kind == kRegistered) {
    return any ? Reading::kLogical : Reading::kEither;
  }
  // The long form, `__BATCH__`, is written for nothing but the logical axis.
  if (any && LongForm(name.text) == name.text) return Reading::kLogical;
  return any ? Reading::kEither : Reading::kMeshAxis;
}

std::string Resolver::PlacementAxis(const std::string& name) const {
  if (mesh_.Find(name)) return name;
  const Token* const token = FindToken(name);
  for (const AxisRule rule : ParallelismRules()) {
    const bool named = AxisRules().Value(rule).axes.front() == name ||
                       (token != nullptr && token->rule == rule);
    const AxisGroup axes = axes_.Value(rule).axes;
    if (named && axes.size() == 1) return axes.front();
  }
  return name;
}

bool Resolver::MeansMeshAxis(const SpecName& name) const {
  return ReadingOf(name) == Reading::kMeshAxis;
}

std::optional<NameTrace> Resolver::Lookup(const SpecName& name, Mode mode,
                                          Findings& findings) const {
  NameTrace trace;
  switch (ReadingOf(name)) {
    case Reading::kEither:
      ReportEither(name, findings);
      return std::nullopt;
    case Reading::kLogical:
      trace = LookupLogical(name.text, mode);
      break;
    case Reading::kMeshAxis:
      if (!mesh_.Find(name.text) && !IsAbsentParallelism(name.text)) {
        ReportUnknown(name, findings);
        return std::nullopt;
      }
      trace.kind = kMeshAxis;
      trace.axes = {name.text};
      break;
  }
  trace.name = name.text;
  return trace;
}

void Resolver::ReportEither(const SpecName& name, Findings& findings) const {
  const NameTrace trace = LookupLogical(name.text, Mode::kTrain);
  const Token* const token = FindToken(name.text);
  const bool registered = trace.kind == kRegistered;
  const std::string what = registered         ? "a registered logical axis"
                           : token != nullptr ? "a logical axis"
                                              : "an axis rule";
  // The other spelling of the same logical axis or axis rule.
  std::string other;
  if (registered) {
    const std::string full = LongForm(name.text);
    other = full == name.text ? full.substr(2, full.size() - 4) : full;
  } else if (token != nullptr) {
    other =
        token->long_name == name.text ? token->short_name : token->long_name;
  } else {
    const AxisRule rule = *ParseAxisRule(name.text);
    other = AxisRuleName(rule) == name.text ? AxisFieldName(rule)
                                            : std::string(AxisRuleName(rule));
    for (const Token& one : BuiltinTokens()) {
      if (one.rule == rule) other = one.short_name;
    }
  }
  const std::string axes = GroupText(trace.axes);
  findings.Add(code::kSpec, name.place,
               "`" + name.text + "` is an axis of the mesh and " + what + " (" +
                   axes + "): both could be meant",
               "write `{axis: " + name.text + "}` for the mesh axis, or `" +
                   other + "` for " + axes);
}

void Resolver::ReportUnknown(const SpecName& name, Findings& findings) const {
  if (!name.is_mesh_axis && FindBundle(name.text) != nullptr) {
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
  const std::string other = HelpForOtherWord("axis", name.text);
  std::string axes =
      mesh_.axes.empty() ? "the mesh has no axes" : "the mesh's axes are ";
  axes += Join(mesh_.axes, ", ",
               [](const MeshAxis& axis) { return Quote(axis.name); });
  findings.Add(
      code::kUnknownName, name.place,
      name.is_mesh_axis
          ? "the mesh has no axis `" + name.text + "`"
          : "`" + name.text +
                "` is neither a logical axis nor an axis rule nor a mesh axis",
      other.empty() ? DidYouMean(name.text, known,
                                 axes + "; logical axes are BATCH, HEAD, EMBED "
                                        "and so on")
                    : other);
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
      if (findings.errors() - errors >= Findings::kErrorLimit) {
        return std::nullopt;
      }
      if (!trace) continue;
      for (const std::string& axis : trace->axes) {
        if (compat_ == Compat::kEformer || !IsAbsentParallelism(axis))
          group.push_back(axis);
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
    const std::string other = HelpForOtherWord("bundle", written.name);
    const bool axis = mesh_.Find(written.name) || IsLogical(written.name) ||
                      IsAbsentParallelism(written.name);
    findings.Add(
        code::kUnknownName, written.place,
        "there is no bundle " + ShortQuote(written.name),
        axis ? "to shard the first dimension, write `[" + written.name + "]`"
        : !other.empty() ? other
                         : DidYouMean(written.name, BundleNames(),
                                      "write the spec as a list, such as `" +
                                          ListOfPartitionSpec(written.name)
                                              .value_or("[[FSDP, SP], TP]") +
                                          "`"));
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

// Computes the specs of the tensors of an attention operation (query, key,
// value, output, bias and so on). Each tensor has a list of logical axes, one
// for each dimension. Like the spec of a rule, the list is then resolved to
// mesh axes. For example, the query in the dimension order bhtd (batch, heads,
// time, head dimension) has these logical axes, and this spec in the mode
// decode:
//
//   BATCH, HEAD, QUERY_LENGTH, HEAD_DIM
//   [["fsdp", "dp"], "tp", "sp", null]

namespace {

using Tokens = std::vector<std::string_view>;

// Returns the logical axes of a tensor, in the order of the layout. The
// dimensions are batch, length, heads and dim. The layout thd packs batch and
// length into one dimension, which is sharded as BATCH.
Tokens InLayout(Layout layout, std::string_view length, std::string_view heads,
                std::string_view dim) {
  switch (layout) {
    case Layout::kBthd:
      return {"BATCH", length, heads, dim};
    case Layout::kBhtd:
      return {"BATCH", heads, length, dim};
    case Layout::kThd:
      return {"BATCH", heads, dim};
  }
  return {};
}

Tokens Segments(Layout layout, std::string_view length) {
  if (layout == Layout::kThd) return {"BATCH"};
  return {"BATCH", length};
}

SpecList ListOf(const Tokens& tokens) {
  SpecList list;
  for (std::string_view token : tokens) {
    SpecEntry entry;
    if (token != "_") entry.names.push_back({std::string(token), {}});
    list.entries.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::vector<AttentionTensor> AttentionSpecs(const Resolver& resolver, Mode mode,
                                            const AttentionOptions& options) {
  const Layout layout = options.layout;
  const std::string_view kv_head = options.mni ? "HEAD" : "KV_HEAD";
  const std::string_view kv_dim = options.mni ? "HEAD_DIM" : "KV_HEAD_DIM";
  const Tokens query = InLayout(layout, "QUERY_LENGTH", "HEAD", "HEAD_DIM");
  const Tokens kv = InLayout(layout, "KV_LENGTH", kv_head, kv_dim);

  std::vector<std::pair<std::string_view, Tokens>> rows = {
      {"query3d", {"BATCH", "HEAD", "HEAD_DIM"}},
      {"query", query},
      {"key", kv},
      {"value", kv},
      {"bias", {"BATCH", "BIAS_HEAD_SEQ", "QUERY_LENGTH", "BIAS_KV_SEQ"}},
      {"mask", {"BATCH", "_", "QUERY_LENGTH", "BIAS_KV_SEQ"}},
      {"output", query},
      {"q_segment_ids", Segments(layout, "QUERY_LENGTH")},
      {"kv_segment_ids", Segments(layout, "KV_LENGTH")},
  };
  if (options.softmax_aux_rank) {
    rows.push_back({"softmax_aux", *options.softmax_aux_rank == 2
                                       ? Tokens{"_", "KV_HEAD"}
                                       : Tokens{"HEAD"}});
  }
  // cu_seqlens (the cumulative lengths of packed sequences) is replicated,
  // because every device reads all of it.
  if (layout == Layout::kThd) rows.push_back({"cu_seqlens", {"_"}});

  std::vector<AttentionTensor> out;
  out.reserve(rows.size());
  Findings none;  // stays empty, because built-in logical axes always resolve
  for (auto& [name, tokens] : rows) {
    auto resolved = resolver.Resolve(ListOf(tokens), mode, none);
    out.push_back({name, std::move(tokens),
                   resolved ? std::move(*resolved) : Resolved{}});
  }
  return out;
}

namespace {

// The logical axes of the activations that every plan has.
const std::pair<std::string_view, Tokens> kActivations[] = {
    {"hidden", {"BATCH", "QUERY_LENGTH", "EMBED"}},
    {"mlp", {"BATCH", "QUERY_LENGTH", "MLP_INTERMEDIATE"}},
    {"logits", {"BATCH", "QUERY_LENGTH", "VOCAB"}},
    {"experts", {"BATCH", "EXPERT", "_", "_"}},
};

// A queue of an expert has rows of all devices whose tokens it may receive, so
// the axes of the experts shard no other dimension of it.
void KeepQueuesWhole(Resolved& out) {
  const AxisGroup experts = out.spec[kExpertsExpertDim];
  std::erase_if(out.spec[0], [&](const std::string& axis) {
    return IsAmong(axis, experts);
  });
}

}  // namespace

std::optional<std::vector<ActivationSpec>> ActivationSpecs(
    const Resolver& resolver, Mode mode, Findings& findings) {
  std::vector<ActivationSpec> out;
  Findings none;  // stays empty, because built-in logical axes always resolve
  for (const auto& [name, tokens] : kActivations) {
    auto resolved = resolver.Resolve(ListOf(tokens), mode, none);
    if (!resolved) continue;
    if (name == "experts") KeepQueuesWhole(*resolved);
    out.push_back({std::string(name), std::move(*resolved), false, {}});
  }
  const size_t errors = findings.errors();
  for (const ActivationRule& rule : resolver.activations()) {
    const auto own = rule.modes.find(mode);
    auto resolved = resolver.Resolve(
        own == rule.modes.end() ? rule.spec : own->second, mode, findings);
    if (!resolved) continue;
    auto at = std::find_if(
        out.begin(), out.end(),
        [&](const ActivationSpec& one) { return one.name == rule.name; });
    if (at == out.end())
      at = out.insert(at, ActivationSpec{rule.name, {}, {}, {}});
    at->resolved = std::move(*resolved);
    at->stated = true;
    at->place = rule.place;
  }
  if (findings.errors() > errors) return std::nullopt;
  return out;
}

}  // namespace shardc
