// Merges the settings of an operation. From the lowest to the highest
// precedence, they come from the model's configuration, the defaults in the
// settings file, the record of the operation in the settings file, and options.
// Settings that the operation does not use are then removed.
//
//   soft cap 30 of the model, `defaults: {soft_cap: 50}`, --soft-cap 0  ->  0
#include "cli/settings_flags.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "exec/operations/operation.h"
#include "parse/operations.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct SettingFlag {
  Setting setting;
  const char* name;
  const char* type;
  const char* help;
};

// The settings for which there is an option. Other settings can only be given
// in a file.
constexpr SettingFlag kFlags[] = {
    {Setting::kSoftmaxScale, "--softmax-scale", "X",
     "scale of the products of query and key (default: the model's, or "
     "1/sqrt(head_dim))"},
    {Setting::kSoftmaxDtype, "--softmax-dtype", "DTYPE",
     "dtype of the softmax (default: float32)"},
    {Setting::kSoftCap, "--soft-cap", "X",
     "soft cap of the logits, 0 for none (default: the model's)"},
    {Setting::kDropout, "--dropout", "P",
     "probability of dropping an attention weight"},
    {Setting::kBlocksizeQ, "--block-q", "N", "query rows per block"},
    {Setting::kBlocksizeK, "--block-k", "N", "keys per block"},
    {Setting::kPageSize, "--page-size", "N", "tokens per page of the cache"},
    {Setting::kSequenceAxis, "--sequence-axis", "AXIS", "axis of a ring"},
    {Setting::kOrder, "--order", "ORDER",
     "order of a ring's sequence: contiguous, zig_zag, striped"},
    {Setting::kDotBits, "--dot-bits", "N",
     "bits that operands of matrix products are quantised to: 8, 4, or 0 for "
     "none"},
};

std::string NumberText(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value,
                                 std::chars_format::general, 6);
  return std::string(text, end.ptr);
}

// Returns only those settings of `record` that the operation uses.
SettingsRecord TakenOf(const SettingsRecord& record,
                       const exec::Operation& operation) {
  SettingsRecord out = record;
  for (size_t i = 0; i < kSettingNames.size(); ++i) {
    const auto setting = static_cast<Setting>(i);
    if (!operation.Takes(setting)) out.Drop(setting);
  }
  return out;
}

std::string QuotedList(std::span<const std::string_view> names) {
  std::string out;
  for (std::string_view name : names) {
    out += (out.empty() ? "`" : ", `") + std::string(name) + "`";
  }
  return out;
}

bool ReadFlags(const SettingsFlags& flags,
               std::span<const KnownOperation> known,
               const verify::Request& request, SettingsRecord& record,
               Findings& findings) {
  bool good = true;
  for (const SettingFlag& flag : kFlags) {
    const auto& text = flags.texts[static_cast<size_t>(flag.setting)];
    if (!text) continue;
    if (!ReadSetting(flag.name, flag.setting, *text, record, findings)) {
      good = false;
      continue;
    }
    const bool taken =
        std::any_of(request.operations.begin(), request.operations.end(),
                    [&](const exec::Operation* operation) {
                      return operation->Takes(flag.setting);
                    });
    if (taken) continue;
    findings.Add(
        code::kUsage, {},
        "`" + std::string(flag.name) +
            "` does not apply to the requested operations",
        "it is a setting of " + QuotedList(TakenBy(flag.setting, known)));
    good = false;
  }
  return good;
}

SettingsRecord RecordOf(const ModelConfig* model) {
  SettingsRecord out;
  if (model == nullptr) return out;
  out.softmax_scale = model->softmax_scale;
  out.soft_cap = model->soft_cap;
  return out;
}

// Returns whether the request verifies an operation that generates tokens one
// by one with a KV cache. The keys in such a cache are rotated (RoPE).
bool HasCaches(const verify::Request& request) {
  const bool generates =
      std::any_of(request.modes.begin(), request.modes.end(), IsGeneration);
  return generates &&
         std::any_of(request.operations.begin(), request.operations.end(),
                     [](const exec::Operation* operation) {
                       return operation->trace == exec::StateTrace::kCache;
                     });
}

// If the request has operations with a KV cache, sets their rotation of keys
// (RoPE) to that of the model.
void AddRotation(const ModelConfig& model, verify::Request& request) {
  if (!model.rope || !HasCaches(request)) return;
  const RopeConfig& rope = *model.rope;
  std::string text = "rotary base " + NumberText(rope.base);
  request.rotation.base = rope.base;
  if (rope.scaling.empty()) {
    request.remarks.push_back(text + ", from the model's rope_theta");
    return;
  }
  const auto kind = exec::ParseRopeKind(rope.scaling);
  if (!kind || *kind == exec::RopeKind::kLongRope) {
    request.remarks.push_back(text + ", without the model's `" + rope.scaling +
                              "` scaling, which is not run");
    return;
  }
  exec::RopeScaling& scaling = request.rotation.scaling;
  scaling.kind = *kind;
  scaling.factor = rope.factor;
  scaling.original_length = static_cast<int64_t>(rope.original_length);
  scaling.beta_fast = rope.beta_fast;
  scaling.beta_slow = rope.beta_slow;
  scaling.truncate = rope.truncate;
  scaling.low_frequency_factor = rope.low_frequency_factor;
  scaling.high_frequency_factor = rope.high_frequency_factor;
  scaling.attention_factor = rope.attention_factor;
  request.remarks.push_back(text + " and " + rope.scaling + " scaling by " +
                            NumberText(rope.factor) +
                            ", from the model's rope_scaling");
}

// If an operation uses multi-head latent attention (MLA), adds a remark on the
// sizes of the latent vectors.
void AddLatentSizes(const ModelConfig& model, verify::Request& request) {
  const bool latent = std::any_of(
      request.operations.begin(), request.operations.end(),
      [](const exec::Operation* operation) { return operation->latent; });
  if (!latent || !model.latent_rank) return;
  std::string text = "a latent of " + std::to_string(*model.latent_rank);
  std::string keys = "kv_lora_rank";
  const auto add = [&](const std::optional<int64_t>& size, const char* what,
                       const char* key) {
    if (!size) return;
    text += std::string(", ") + what + " of " + std::to_string(*size);
    keys += std::string(", ") + key;
  };
  add(model.latent_rope_dim, "a rotated part", "qk_rope_head_dim");
  add(model.latent_value_dim, "values", "v_head_dim");
  request.remarks.push_back(text + ", from the model's " + keys);
}

// Sets the rotation of keys. Adds remarks that list the model's settings that
// are used, and those that have no effect.
void AddRemarks(const ModelConfig& model, const SettingsRecord& own,
                verify::Request& request) {
  bool scale = false, cap = false, dropout = false;
  for (const auto& [name, record] : request.records) {
    scale |= own.softmax_scale && record.softmax_scale == own.softmax_scale;
    cap |= own.soft_cap && record.soft_cap == own.soft_cap;
    dropout |= record.dropout.has_value();
  }
  if (scale) {
    request.remarks.push_back(
        "softmax scale " + NumberText(*own.softmax_scale) +
        ", from the model's " + model.softmax_scale_source);
  }
  if (cap) {
    request.remarks.push_back("soft cap " + NumberText(*own.soft_cap) +
                              ", from the model's attn_logit_softcapping");
  }
  if (model.attention_sinks) {
    request.remarks.push_back("a sink per head, from the model's model_type " +
                              model.model_type);
  }
  AddRotation(model, request);
  AddLatentSizes(model, request);
  if (model.attention_dropout && !dropout) {
    request.remarks.push_back("the model's attention dropout " +
                              NumberText(*model.attention_dropout) +
                              " is not applied: give --dropout to apply it");
  }
}

bool CheckAxis(Setting setting, const std::string& axis, const Place& place,
               const Mesh& mesh, Findings& findings) {
  std::vector<std::string> names;
  std::string list;
  for (const MeshAxis& known : mesh.axes) {
    if (known.name == axis) return true;
    names.push_back(known.name);
    list += (list.empty() ? "`" : ", `") + known.name + "`";
  }
  findings.Add(code::kReference, place,
               "`" + std::string(SettingName(setting)) + "` names `" + axis +
                   "`, which is not an axis of the mesh",
               DidYouMean(axis, names, "the axes are " + list));
  return false;
}

bool CheckAxes(const SettingsRecord& record, const Mesh& mesh,
               Findings& findings) {
  bool good = true;
  if (record.sequence_axis) {
    good = CheckAxis(Setting::kSequenceAxis, *record.sequence_axis,
                     record.sequence_axis_place, mesh, findings);
  }
  if (!record.ring_axes) return good;
  for (const std::string& axis : *record.ring_axes) {
    good &= CheckAxis(Setting::kRingAxes, axis, record.ring_axes_place, mesh,
                      findings);
  }
  return good;
}

}  // namespace

Options OptionsOf(SettingsFlags& flags) {
  Options options = {
      {.name = "--settings",
       .to = &flags.file,
       .value = "FILE",
       .help = "settings of operations (YAML, see shardc-operations(5))"}};
  for (const SettingFlag& flag : kFlags) {
    options.push_back({.name = flag.name,
                       .to = &flags.texts[static_cast<size_t>(flag.setting)],
                       .value = flag.type,
                       .help = flag.help});
  }
  return options;
}

std::optional<OperationsFile> TargetSettings(
    const VerifyInput& input, std::span<const KnownOperation> operations,
    Findings& findings) {
  if (input.inline_settings) {
    return ReadOperationsAt(*input.inline_settings, operations, findings);
  }
  if (input.settings.empty()) return OperationsFile{};
  return ReadOperations(input.settings, operations, findings);
}

bool ChooseSettings(const SettingsFlags& flags, const VerifyInput& input,
                    const ModelConfig* model, const Mesh& mesh,
                    verify::Request& request, Findings& findings) {
  const std::vector<KnownOperation> known = exec::KnownOperations();
  const auto file = flags.file.empty()
                        ? TargetSettings(input, known, findings)
                        : ReadOperations(flags.file, known, findings);
  SettingsRecord by_flags;
  const bool good = ReadFlags(flags, known, request, by_flags, findings);
  if (!file || !good) return false;
  const SettingsRecord own = RecordOf(model);
  for (const exec::Operation* operation : request.operations) {
    SettingsRecord record = own;
    record.Override(file->defaults);
    if (const auto* named = file->Find(operation->name))
      record.Override(*named);
    record.Override(by_flags);
    record = TakenOf(record, *operation);
    if (!CheckAxes(record, mesh, findings)) return false;
    request.records.emplace_back(operation->name, std::move(record));
  }
  if (model == nullptr) return true;
  if (model->attention_sinks) request.features.sinks_rank = 1;
  AddRemarks(*model, own, request);
  return true;
}

}  // namespace shardc::cli
