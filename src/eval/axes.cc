// Implements the functions of `shardc eval` that correspond to eformer's
// classes PartitionAxis and PartitionManager. They resolve logical axes to mesh
// axes in a given mode. They also return the registered logical axes, the
// bundles, the specs of attention's tensors, and the fields of a PartitionAxis.
// For example:
//
//   resolve {"axes": ["BATCH", "HEAD"], "mode": "decode"}
//     ->  {"mode": "decode", "spec": [["fsdp", "dp"], "tp"]}
#include <algorithm>

#include "eval/call.h"
#include "importers/eformer.h"
#include "resolve/resolve.h"
#include "source/digest.h"

namespace shardc::eval {
namespace {

// Writes an axis group as eformer does: as null, a name, or a list of names.
void WriteGroupValue(JsonWriter& json, bool is_null, const AxisGroup& axes) {
  if (is_null) {
    json.Null();
  } else if (axes.size() == 1) {
    json.String(axes[0]);
  } else {
    json.Array(axes);
  }
}

// Returns the mode in which a call is evaluated; nullopt after a finding. The
// mode is that of `bundle`, or the call's member `mode` if `bundle` is null. If
// a number is given instead of a mode, it is the index of a dimension of
// `shape`. The mode is then inferred from the size of this dimension
// (ModeFromShape).
std::optional<Mode> EffectiveMode(Call& call, const Bundle* bundle) {
  const auto by_shape = [&](int64_t dim) {
    const Shape shape = call.Has("shape") ? call.Integers("shape") : Shape();
    const auto mode = ModeFromShape(dim, shape);
    if (!mode) {
      call.Fail("the mode depends on dimension " + std::to_string(dim) +
                " of `shape`, which has rank " + std::to_string(shape.size()));
    }
    return mode;
  };
  call.Find("shape");
  const auto given = call.Find("mode");
  if (bundle != nullptr) {
    // The call's own mode is ignored, as in eformer.
    const auto* mode = std::get_if<Mode>(&bundle->mode);
    return mode ? std::optional(*mode) : by_shape(std::get<int>(bundle->mode));
  }
  if (given && given->kind() == JsonKind::kInteger) {
    return by_shape(given->integer());
  }
  return ModeOf(call, "mode");
}

bool ResolveAxes(Call& call, Reply& reply) {
  const auto rules = RulesOf(call);
  const auto axes = SpecOf(call, "axes");
  if (!rules || !axes) return false;
  const Mesh mesh = MeshFor(call, rules->axes);
  const auto resolver = Resolver::Make(*rules, mesh, call.findings());
  if (!resolver) return false;
  const auto* named = std::get_if<SpecBundle>(&*axes);
  const auto mode =
      EffectiveMode(call, named ? resolver->FindBundle(named->name) : nullptr);
  if (!mode || !call.Finish()) return false;
  const auto resolved = resolver->Resolve(*axes, *mode, call.findings());
  if (!resolved) return false;
  reply.json().Member("mode", ModeName(*mode));
  reply.json().Key("spec");
  WriteSpec(reply.json(), resolved->spec);
  return true;
}

bool NamedBundle(Call& call, Reply& reply) {
  const std::string name = call.Text("bundle");
  if (!call.Finish()) return false;
  const Bundle* bundle = FindBuiltinBundle(name);
  if (bundle == nullptr) {
    call.Fail("there is no built-in bundle `" + name + "`");
    return false;
  }
  JsonWriter& json = reply.json();
  json.Key("axes");
  json.BeginArray();
  for (const SpecEntry& entry : bundle->axes.entries) {
    AxisGroup tokens;
    for (const SpecName& token : entry.names) {
      tokens.emplace_back(FindToken(token.text)->long_name);
    }
    if (tokens.empty()) tokens.emplace_back("_");
    WriteGroupValue(json, false, tokens);
  }
  json.EndArray();
  json.Key("mode");
  if (const auto* mode = std::get_if<Mode>(&bundle->mode)) {
    json.String(ModeLongName(*mode));
  } else {
    json.Integer(std::get<int>(bundle->mode));
  }
  return true;
}

void WriteRegisteredRule(JsonWriter& json, const RegisteredRule& rule) {
  // As in eformer, a list of one name stays a list, and a rule that is only a
  // name is not a list.
  const bool list = !rule.is_null && (rule.is_list || rule.names.size() != 1);
  if (rule.is_null) json.Null();
  if (list) json.BeginArray();
  for (const auto& name : rule.names) {
    const auto field = ParseAxisRule(name.text);
    if (!name.forced_axis) {
      json.String(field ? AxisFieldName(*field) : name.text);
    } else if (!ParseAxisField(name.text)) {
      json.String(name.text);
    } else {
      // The name alone would be the field, and not a mesh axis.
      json.Object("axis", name.text);
    }
  }
  if (list) json.EndArray();
}

bool Registered(Call& call, Reply& reply) {
  const auto rules = RulesOf(call);
  if (!rules) return false;
  const Mesh mesh = MeshFor(call, rules->axes);
  if (!call.Finish()) return false;
  if (!Resolver::Make(*rules, mesh, call.findings())) return false;
  JsonWriter& json = reply.json();
  json.Key("registered");
  json.BeginObject();
  for (const Registration& one : rules->registrations) {
    json.Key(one.name);
    json.BeginObject();
    json.Member("axis_rule", WrittenBy(WriteRegisteredRule, one.rule));
    if (one.generation) {
      json.Member("generation_axis_rule",
                  WrittenBy(WriteRegisteredRule, *one.generation));
    } else if (const auto twin = InferredGeneration(one.rule)) {
      json.Member("generation_axis_rule", AxisFieldName(*twin));
    }
    json.EndObject();
  }
  json.EndObject();
  return true;
}

bool AttentionShardings(Call& call, Reply& reply) {
  const auto rules = RulesOf(call);
  if (!rules) return false;
  const Mesh mesh = MeshFor(call, rules->axes);
  const auto mode = ModeOf(call, "mode");
  const std::string layout = call.TextOr("layout", "bthd");
  AttentionOptions options;
  options.mni = call.Flag("qkv_mni_sharding", false);
  if (call.Has("softmax_aux_ndim")) {
    options.softmax_aux_rank = static_cast<int>(
        std::clamp<int64_t>(call.Integer("softmax_aux_ndim"), 0, 1000));
  }
  const auto known = ParseLayout(layout);
  if (!known || *known == Layout::kThd) {
    call.Fail("layout `" + layout + "` is not one of the reference's",
              "the layouts are bthd and bhtd");
  } else {
    options.layout = *known;
  }
  if (!mode || !call.Finish()) return false;
  const auto resolver = Resolver::Make(*rules, mesh, call.findings());
  if (!resolver) return false;
  for (const auto& tensor : AttentionSpecs(*resolver, *mode, options)) {
    reply.json().Key(tensor.name);
    WriteSpec(reply.json(), tensor.resolved.spec);
  }
  return true;
}

// Writes the value of every axis rule, and a fingerprint: a digest of all
// values, which takes the place of eformer's hash_fn. The values are those of
// the PartitionAxis in the JSON, which may be inside a PartitionManager. If the
// JSON has no PartitionAxis, the default values are written.
bool PartitionAxisFields(Call& call, Reply& reply) {
  const SourceRef source = call.Source("partition_axis", "partition_axis");
  if (source == nullptr) call.Fail("member `partition_axis` is missing");
  if (!call.Finish()) return false;
  const auto document = JsonDocument::Parse(source, call.findings());
  if (document == nullptr) return false;
  AxisRules axes;
  if (IsEformerAxes(*document)) {
    const auto read = ImportEformerAxes(*document, call.findings());
    if (!read) return false;
    axes = *read;
  }
  const std::string fields = JsonText([&](JsonWriter& json) {
    json.BeginObject();
    for (size_t i = 0; i < kAxisRuleCount; ++i) {
      const auto rule = static_cast<AxisRule>(i);
      const AxisValue value = axes.Value(rule);
      json.Member(AxisFieldName(rule),
                  WrittenBy(WriteGroupValue, value.is_null, value.axes));
    }
    json.EndObject();
  });
  reply.json().Key("fields");
  reply.json().Written(fields);
  reply.json().Member("fingerprint", "sha256:" + Sha256(fields));
  return true;
}

constexpr Function kOfAxes[] = {
    {"attention_shardings",
     "specs of attention's tensors: mode, layout, qkv_mni_sharding, "
     "softmax_aux_ndim, rules, mesh",
     AttentionShardings},
    {"bundle", "axes and mode of a built-in bundle: bundle", NamedBundle},
    {"partition_axis",
     "all fields of a PartitionAxis and their fingerprint, of those that are "
     "given: partition_axis",
     PartitionAxisFields},
    {"registered",
     "registered logical axes after the steps of a rules file: rules",
     Registered},
    {"resolve", "semantic axes to a spec: axes, mode, shape, rules, mesh",
     ResolveAxes},
};

}  // namespace

std::span<const Function> AxisFunctions() { return kOfAxes; }

}  // namespace shardc::eval
