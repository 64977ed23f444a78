// Writes a plan as JSON, one parameter per line. The schema is shardc.plan/v1,
// or v2 for a plan with pipeline stages. Many parameters have the same layout
// (rule, type and specs). The JSON text of a layout is therefore made once and
// copied for each of its parameters. The parameters are written to the sink one
// after the other, so the complete text is never in memory.
#include <cstddef>
#include <string>
#include <vector>

#include "emit/emit.h"
#include "emit/findings/formats.h"
#include "plan/compile.h"
#include "plan/fingerprint.h"
#include "plan/plan_table.h"
#include "source/json_writer.h"
#include "source/process.h"
#include "source/sink.h"
#include "source/size.h"

namespace shardc {
namespace {

void WriteSizes(JsonWriter& json, const ModeLayout& mode) {
  json.Members("shard_shape", mode.shard_shape, "bytes_per_device",
               mode.bytes_per_device);
}

void WriteSpecMember(JsonWriter& json, const Spec& spec) {
  json.Member("spec", WrittenBy(WriteSpec, spec));
}

// Writes the value before or after a correction: the axes of the corrected
// dimension, or `whole` if the entire spec was corrected.
void WriteSide(JsonWriter& json, std::string_view key, const Edit& edit,
               const AxisGroup& group, const Spec& whole) {
  json.Key(key);
  if (edit.dim) {
    WriteGroup(json, group);
  } else {
    WriteSpec(json, whole);
  }
}

void WriteEditMembers(JsonWriter& json, const Edit& edit, const Spec& resolved,
                      const Spec& spec) {
  json.Member("dim", edit.dim);
  WriteSide(json, "from", edit, edit.from, resolved);
  WriteSide(json, "to", edit, edit.to, spec);
  json.Member("reason", ReasonName(edit.reason));
}

void WriteCorrection(JsonWriter& json, const Edit& edit, const ModeLayout& mode,
                     bool last) {
  json.BeginObject();
  WriteEditMembers(json, edit, mode.resolved, mode.spec);
  // The added bytes are known only for all corrections of a mode together. They
  // are written with the last correction, and 0 is written with the others.
  std::optional<int64_t> added = 0;
  if (last) {
    added = std::nullopt;
    if (mode.bytes_per_device && mode.uncorrected_bytes_per_device) {
      added = *mode.bytes_per_device - *mode.uncorrected_bytes_per_device;
    }
  }
  json.Member("bytes_per_device_added", added);
  if (mode.mode != Mode::kTrain) json.Member("mode", ModeName(mode.mode));
  json.EndObject();
}

void WriteCorrections(JsonWriter& json,
                      std::span<const ModeLayout* const> modes) {
  bool any = false;
  for (const ModeLayout* mode : modes) {
    for (size_t i = 0; i < mode->edits.size(); ++i) {
      if (!any) {
        json.Key("corrections");
        json.BeginArray();
        any = true;
      }
      WriteCorrection(json, mode->edits[i], *mode, i + 1 == mode->edits.size());
    }
  }
  if (any) json.EndArray();
}

// `rules` has the names of the plan's rules.
void WriteLayout(JsonWriter& json, const Plan& plan, const ParamLayout& layout,
                 std::span<const std::string> rules) {
  const ModeLayout& train = layout.modes[0];
  WriteTypeMembers(json, plan.types[layout.type]);
  WriteSpecMember(json, train.spec);
  json.Member("rule", layout.rule < 0
                          ? std::nullopt
                          : std::optional(rules[AsIndex(layout.rule)]));
  WriteSizes(json, train);
  if (!layout.parts.empty()) {
    json.Member("parts", WrittenBy(WriteDimParts, layout.parts));
  }
  if (layout.uneven) json.Member("uneven", true);
  WriteKvReplicas(json, train.kv);
  std::vector<const ModeLayout*> modes = DifferingModes(plan, layout);
  if (!modes.empty()) {
    json.Key("modes");
    json.BeginObject();
    for (const ModeLayout* mode : modes) {
      json.Key(ModeName(mode->mode));
      json.BeginObject();
      WriteSpecMember(json, mode->spec);
      WriteSizes(json, *mode);
      WriteKvReplicas(json, mode->kv);
      json.EndObject();
    }
    json.EndObject();
  }
  modes.insert(modes.begin(), &train);
  WriteCorrections(json, modes);
}

void WriteRules(JsonWriter& json, const Plan& plan) {
  json.Rows("rules", plan.rules, [&](const PlannedRule& rule) {
    json.Members("match", rule.match, "source", rule.source, "params",
                 rule.params, "matched", rule.matched);
  });
}

void WriteParams(JsonWriter& json, const Plan& plan) {
  const std::string_view end_of_key = JsonWriter::EndOfKey(json.style());
  // For each layout, the text that follows a parameter's name: its closing
  // quote and a colon (EndOfKey), and the JSON object of the layout.
  std::vector<std::string> layouts;
  // For each layout, the members of its JSON object, without the braces.
  std::vector<std::string_view> members;
  layouts.reserve(plan.layouts.size());
  std::vector<std::string_view> patterns;
  for (const PlannedRule& rule : plan.rules) patterns.push_back(rule.match);
  const std::vector<std::string> rules = RuleNames(patterns);
  for (const ParamLayout& layout : plan.layouts) {
    layouts.push_back(std::string(end_of_key) + JsonText([&](JsonWriter& text) {
                        text.BeginObject();
                        WriteLayout(text, plan, layout, rules);
                        text.EndObject();
                      }));
    const std::string_view whole =
        std::string_view(layouts.back()).substr(end_of_key.size());
    members.push_back(whole.substr(1, whole.size() - 2));
  }
  json.Key("params");
  json.BeginObject(JsonLayout::kLines);
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const PlannedParam& param = plan.params[i];
    if (!HasOwnMembers(plan, i)) {
      json.WrittenMember(plan.names[i], plan.plain_names,
                         layouts[param.layout]);
      continue;
    }
    json.Key(plan.names[i], plan.plain_names);
    json.BeginObject();
    json.Members(members[param.layout]);
    WritePlacement(json, plan, param);
    const ParamStages* stages = plan.StagesOf(i);
    if (stages != nullptr && stages->dim) {
      WriteSlices(json, *plan.stages, *stages);
    } else if (stages != nullptr) {
      WriteStageNumbers(json, *stages);
    }
    if (plan.has_weight_decay) {
      json.Member("weight_decay", plan.WeightDecayOf(i));
    }
    json.EndObject();
  }
  json.EndObject();
}

void WriteActivations(JsonWriter& json, std::string_view key,
                      const std::vector<ModeActivations>& modes) {
  json.Key(key);
  json.BeginObject(JsonLayout::kLines);
  for (const ModeActivations& mode : modes) {
    json.Key(ModeName(mode.mode));
    json.BeginObject();
    for (const ActivationLayout& layout : mode.tensors) {
      json.Member(layout.tensor, WrittenBy(WriteSpec, layout.spec));
    }
    json.EndObject();
  }
  json.EndObject();
}

// Writes the corrections of these specs. The member is omitted if there are no
// corrections.
void WriteActivationCorrections(JsonWriter& json, std::string_view key,
                                const std::vector<ModeActivations>& modes) {
  bool any = false;
  for (const ModeActivations& mode : modes) {
    for (const ActivationLayout& layout : mode.tensors) {
      for (const Edit& edit : layout.edits) {
        if (!any) {
          json.Key(key);
          json.BeginArray(JsonLayout::kLines);
          any = true;
        }
        json.BeginObject();
        json.Members("mode", ModeName(mode.mode), "tensor", layout.tensor);
        WriteEditMembers(json, edit, layout.why.spec, layout.spec);
        json.EndObject();
      }
    }
  }
  if (any) json.EndArray();
}

void WriteSummary(JsonWriter& json, const PlanSummary& summary) {
  json.Key("summary");
  json.BeginObject();
  json.Members("params", summary.params, "elements", summary.elements, "bytes",
               summary.bytes, "bytes_per_device", summary.bytes_per_device);
  if (!summary.bytes_by_rank.empty()) {
    json.Member("bytes_by_rank",
                WrittenBy(WriteBytesByRank, summary.bytes_by_rank));
  }
  json.Members("unmatched", summary.unmatched, "corrected", summary.corrected);
  json.EndObject();
}

// Writes the plan. `put_fingerprint(json)` writes the value of the member
// `fingerprint`.
template <class PutFingerprint>
void WritePlan(const Plan& plan, std::span<const Finding> diagnostics,
               Sink& out, const PutFingerprint& put_fingerprint) {
  WriteDocument(
      out, plan.stages ? "shardc.plan/v2" : "shardc.plan/v1",
      [&](JsonWriter& json) {
        json.Key("fingerprint");
        put_fingerprint(json);
        json.Member("mesh", WrittenBy(WriteMesh, plan.mesh, MeshDetail::kAll));
        json.Key("modes");
        json.Array(plan.modes, ModeName);
        if (plan.stages) {
          json.Member("stages", WrittenBy(WritePlanStages, *plan.stages,
                                          ScheduleName::kWritten));
        }
        WriteRules(json, plan);
        WriteParams(json, plan);
        WriteActivations(json, "attention", plan.attention);
        WriteActivationCorrections(json, "attention_corrections",
                                   plan.attention);
        if (!plan.activations.empty()) {
          WriteActivations(json, "activations", plan.activations);
          WriteStatedActivations(json, plan);
          json.Member("axes", WrittenBy(WritePlanAxes, plan.axes));
          json.Member("activations_digest", ActivationsDigest(plan));
          WriteActivationCorrections(json, "activation_corrections",
                                     plan.activations);
        }
        if (!plan.kv.empty()) {
          json.Member("kv", WrittenBy(WriteKv, plan.kv));
        }
        WriteSummary(json, plan.summary);
        if (!diagnostics.empty()) {
          json.Member("diagnostics", WrittenBy(WriteFindings, diagnostics));
        }
      });
}

// The smallest number of parameters for which a thread computes the
// fingerprint. For fewer parameters, starting a thread takes longer than
// computing the fingerprint.
constexpr size_t kManyParams = 10'000;
// The length of a fingerprint in JSON: "sha256:", 64 digits and two quotes.
constexpr size_t kFingerprintBytes = 73;

std::string Quoted(const std::string& fingerprint) {
  return '"' + fingerprint + '"';
}

}  // namespace

void WritePlanJson(const Plan& plan, std::span<const Finding> diagnostics,
                   Sink& out) {
  WritePlan(plan, diagnostics, out,
            [&](JsonWriter& json) { json.Written(Quoted(Fingerprint(plan))); });
}

void WritePlanJson(const Plan& plan, std::span<const Finding> diagnostics,
                   FileSink& out, int threads) {
  if (threads < 2 || plan.params.size() < kManyParams || !out.amendable()) {
    return WritePlanJson(plan, diagnostics, static_cast<Sink&>(out));
  }
  std::string fingerprint;
  int64_t offset = 0;
  const auto write_around = [&] {
    WritePlan(plan, diagnostics, out, [&](JsonWriter& json) {
      json.Written({});
      offset = out.Leave(kFingerprintBytes);
    });
  };
  ParallelFor(2, 2, [&](int64_t task) {
    if (task == 0) {
      write_around();
    } else {
      fingerprint = Quoted(Fingerprint(plan));
    }
  });
  out.Amend(offset, fingerprint);
}

}  // namespace shardc
