// Reads fields of a config.json. Numbers are checked against limits when they
// are read, so that the product of any two sizes cannot overflow:
//
//   {"num_attention_heads": 9007199254740992}  ->  a finding, no value
//   {"sliding_window": -1}                     ->  no value: there is no window
#include "parse/config_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "model/legal_sizes.h"
#include "parse/manifest.h"
#include "source/file.h"
#include "source/json.h"
#include "source/list.h"

namespace shardc {
namespace {

constexpr std::array<std::string_view, 3> kNested = {
    "text_config", "llm_config", "language_config"};

// Returns the member with this key. The key `outer.inner` selects the member
// `inner` of the member `outer`.
std::optional<JsonValue> MemberOf(const JsonValue& object,
                                  std::string_view key) {
  const size_t dot = key.find('.');
  auto member = object.Find(key.substr(0, dot));
  if (member && dot != std::string_view::npos) {
    member = member->IsObject() ? MemberOf(*member, key.substr(dot + 1))
                                : std::nullopt;
  }
  if (member && member->IsNull()) return std::nullopt;
  return member;
}

}  // namespace

ConfigFields::ConfigFields(JsonValue root, Findings& findings)
    : root_(root), findings_(findings) {
  for (const std::string_view key : kNested) {
    const auto nested = root_.Find(key);
    if (nested && nested->IsObject()) {
      nested_ = nested;
      break;
    }
  }
}

std::optional<JsonValue> ConfigFields::Find(std::string_view key) const {
  if (nested_) {
    if (auto inner = MemberOf(*nested_, key)) return inner;
  }
  return MemberOf(root_, key);
}

bool ConfigFields::Has(std::string_view key) const {
  return (nested_ && nested_->Find(key)) || root_.Find(key);
}

bool ConfigFields::IsA(std::span<const std::string_view> families) const {
  const auto named = [&](const JsonValue& config) {
    const auto type = config.Find("model_type");
    return type && type->IsString() && IsAmong(type->string(), families);
  };
  return named(root_) || (nested_ && named(*nested_));
}

std::optional<bool> ConfigFields::IsTrue(std::string_view key) {
  const auto value = Find(key);
  if (!value) return std::nullopt;
  if (value->kind() == JsonKind::kBool) return value->boolean();
  Report(code::kSchema, *value,
         "`" + std::string(key) + "` is " + DescribeJson(*value) +
             ", not a boolean",
         "write `true` or `false`");
  return std::nullopt;
}

ConfigField ConfigFields::Size(std::span<const std::string_view> names) {
  return First(names, Least::kSize);
}

ConfigField ConfigFields::Count(std::span<const std::string_view> names) {
  return First(names, Least::kCount);
}

ConfigField ConfigFields::Number(std::span<const std::string_view> names) {
  return First(names, Least::kNumber);
}

ConfigField ConfigFields::LargestInLayers(
    std::span<const std::string_view> names, bool equal) {
  for (const std::string_view name : names) {
    const auto list = Find(name);
    if (!list || !list->IsArray() || list->size() == 0) continue;
    int64_t least = kLargestModelSize, most = 0;
    for (const JsonValue item : list->items()) {
      const bool integer = item.kind() == JsonKind::kInteger;
      least = std::min(least, integer ? item.integer() : -1);
      most = std::max(most, integer ? item.integer() : 0);
    }
    if (least < 0 || most < 1 || most > kLargestModelSize ||
        (equal && least != most)) {
      continue;
    }
    return {most, list->place(), false};
  }
  return {};
}

ConfigField ConfigFields::EqualInLayers(
    std::span<const std::string_view> names) {
  return LargestInLayers(names, true);
}

std::optional<int64_t> ConfigFields::CountOf(const JsonValue& value,
                                             std::string_view key) {
  return Integer(value, key, Least::kCount);
}

ConfigField ConfigFields::First(std::span<const std::string_view> names,
                                Least least) {
  for (const std::string_view name : names) {
    const auto value = Find(name);
    if (!value) continue;
    const auto number = Integer(*value, name, least);
    if (!number) continue;
    const Place place = value->place();
    const bool nested = nested_ && nested_->place().begin <= place.begin &&
                        place.end <= nested_->place().end;
    return {number, place, nested};
  }
  return {};
}

std::optional<int64_t> ConfigFields::Integer(const JsonValue& value,
                                             std::string_view key,
                                             Least least) {
  const std::string name = "`" + std::string(key) + "`";
  switch (value.kind()) {
    case JsonKind::kInteger:
      if (value.integer() > kLargestModelSize) break;
      if (value.integer() > 0) return value.integer();
      if (least == Least::kCount) return std::nullopt;
      if (least == Least::kNumber && value.integer() == 0) return 0;
      Report(code::kNumber, value,
             name + " is " + std::to_string(value.integer()) +
                 (least == Least::kSize ? ", and a size is at least 1"
                                        : ", which is below 0"));
      return std::nullopt;
    case JsonKind::kUnsigned:
      break;
    case JsonKind::kArray:
    case JsonKind::kNull:
      return std::nullopt;
    case JsonKind::kBool:
      if (least == Least::kCount) return std::nullopt;
      [[fallthrough]];
    default:
      Report(code::kNumber, value,
             name + " is " + DescribeJson(value) + ", not an integer");
      return std::nullopt;
  }
  Report(code::kLimit, value, name + " is larger than in any model",
         "at most " + std::to_string(kLargestModelSize) + " is read");
  return std::nullopt;
}

std::optional<double> ConfigFields::Real(std::string_view key) {
  const auto value = Find(key);
  return value ? RealOf(*value, key) : std::nullopt;
}

std::optional<double> ConfigFields::RealOf(const JsonValue& value,
                                           std::string_view key) {
  const std::string name = "`" + std::string(key) + "`";
  switch (value.kind()) {
    case JsonKind::kInteger:
    case JsonKind::kUnsigned:
    case JsonKind::kReal:
      if (std::abs(value.real()) > kLargestModelNumber) {
        Report(code::kLimit, value, name + " is larger than in any model",
               "numbers from -1e12 to 1e12 are read");
        return std::nullopt;
      }
      if (value.real() > 0) return value.real();
      return std::nullopt;
    case JsonKind::kString:
    case JsonKind::kObject:
      Report(code::kNumber, value,
             name + " is " + DescribeJson(value) + ", not a number");
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

void ConfigFields::Report(const Code& code, const JsonValue& value,
                          std::string message, std::string help) {
  if (!reported_.insert(value.place().begin).second) return;
  findings_.Add(code, value.place(), std::move(message), std::move(help));
}

// Reads the settings of rotary embeddings. Older config.json files state the
// base of the rotation (`rope_theta`) and its scaling in separate members.
// Recent files have all settings in the object `rope_parameters`:
//
//   {"rope_theta": 500000, "rope_scaling": {"rope_type": "llama3", ...}}
//   {"rope_parameters": {"rope_theta": 500000, "rope_type": "llama3", ...}}

namespace {

using Key = std::string_view;

constexpr std::array<Key, 3> kRopeBase = {"rope_theta", "rotary_emb_base",
                                          "attn_config.rope_theta"};

class RopeReader {
 public:
  RopeReader(ConfigFields& fields, std::optional<int64_t> positions,
             Findings& findings)
      : fields_(fields), positions_(positions), findings_(findings) {}

  // Reads the settings of rotary embeddings. Recent files have all settings in
  // the object `rope_parameters`.
  std::optional<RopeConfig> Read() {
    auto scaling = fields_.Find("rope_scaling");
    auto all = fields_.Find("rope_parameters");
    if (all && !all->IsObject()) all.reset();
    // If layers of different kinds rotate differently, `rope_parameters` has
    // one object for each kind of layer.
    const auto full = all ? all->Find("full_attention") : std::nullopt;
    if (full && full->IsObject()) all = full;
    if (!scaling && all) scaling = all;
    if (scaling && !scaling->IsObject()) {
      RefuseType("rope_scaling", *scaling, "an object", findings_);
      scaling.reset();
    }
    RopeConfig rope;
    std::optional<double> base = RealIn(all, "rope_theta");
    for (Key key : kRopeBase) {
      if (!base) base = fields_.Real(key);
    }
    if (!base && !scaling) return std::nullopt;
    rope.base = base.value_or(rope.base);
    if (scaling) ReadScaling(*scaling, rope);
    if (rope.base > 1 && std::isfinite(rope.base)) return rope;
    const auto said = fields_.Find("rope_theta");
    findings_.Add(code::kNumber, (said ? *said : fields_.root()).place(),
                  "the model's rotary base is not above 1",
                  "`rope_theta` is 10000 or more");
    return std::nullopt;
  }

 private:
  // Returns the number `key` of the object `from`. Returns nullopt if there is
  // no such object or no such number.
  std::optional<double> RealIn(const std::optional<JsonValue>& from, Key key) {
    const auto value = from ? from->Find(key) : std::nullopt;
    return value ? fields_.RealOf(*value, key) : std::nullopt;
  }

  void ReadScaling(const JsonValue& scaling, RopeConfig& rope) {
    for (Key key : {Key("rope_type"), Key("type")}) {
      const auto kind = scaling.Find(key);
      if (kind && kind->IsString() && rope.scaling.empty()) {
        rope.scaling = kind->string();
      }
      if (kind && !kind->IsString())
        RefuseType(key, *kind, "a string", findings_);
    }
    if (rope.scaling == "default") rope.scaling.clear();
    const auto set = [&](Key key, double& to) {
      if (const auto value = RealIn(scaling, key)) to = *value;
    };
    set("factor", rope.factor);
    rope.original_length = static_cast<double>(positions_.value_or(0));
    set("original_max_position_embeddings", rope.original_length);
    set("beta_fast", rope.beta_fast);
    set("beta_slow", rope.beta_slow);
    set("low_freq_factor", rope.low_frequency_factor);
    set("high_freq_factor", rope.high_frequency_factor);
    rope.attention_factor = RealIn(scaling, "attention_factor");
    if (const auto truncate = scaling.Find("truncate")) {
      if (truncate->kind() == JsonKind::kBool) {
        rope.truncate = truncate->boolean();
      } else {
        RefuseType("truncate", *truncate, "a boolean", findings_);
      }
    }
    // DeepSeek multiplies the rotated part by the quotient of two scales, which
    // are computed from `mscale` and `mscale_all_dim`.
    const auto one = RealIn(scaling, "mscale");
    const auto every = RealIn(scaling, "mscale_all_dim");
    if (one && every && !rope.attention_factor) {
      const double log = rope.factor > 1 ? 0.1 * std::log(rope.factor) : 0;
      rope.attention_factor = (*one * log + 1) / (*every * log + 1);
    }
  }

  ConfigFields& fields_;
  const std::optional<int64_t> positions_;
  Findings& findings_;
};

}  // namespace

std::optional<RopeConfig> ReadRope(ConfigFields& fields,
                                   std::optional<int64_t> positions,
                                   Findings& findings) {
  return RopeReader(fields, positions, findings).Read();
}

void RefuseType(std::string_view key, const JsonValue& value,
                std::string_view wanted, Findings& findings) {
  if (value.IsNull()) return;
  findings.Add(code::kSchema, value.place(),
               "`" + std::string(key) + "` is " + DescribeJson(value) +
                   ", not " + std::string(wanted));
}

// Checks the sizes in a config.json. One of them is the rotary dimension, which
// is the number of elements of a head that are rotated. `rotary_dim` states
// this number. `partial_rotary_factor`, or an older name of this field, states
// it as a fraction of the head. Latent attention states it as
// `qk_rope_head_dim`. Without these fields, a model with rotary embeddings
// rotates the full head.
//
//   head_dim 80, partial_rotary_factor 0.4  ->  32 elements
//   head_dim 63, rope_theta 10000           ->  63: odd, refused at head_dim

namespace {

constexpr std::array<std::string_view, 4> kRotaryPart = {
    "rotary_dim", "partial_rotary_factor", "rotary_pct", "rope_percent"};

// Returns the rotary dimension and the place of the field that sets it. Returns
// an empty field if the model has no rotary embeddings or if the size of its
// heads is unknown.
ConfigField RotaryField(const ModelConfig& config, const SizeFields& read,
                        bool rotates, ConfigFields& fields) {
  if (config.latent_rank) return fields.Size("qk_rope_head_dim");
  if (!config.head_dim) return {};
  auto parameters = fields.Find("rope_parameters");
  if (parameters && !parameters->IsObject()) parameters.reset();
  for (const std::string_view key : kRotaryPart) {
    auto json = parameters ? parameters->Find(key) : std::nullopt;
    if (!json) json = fields.Find(key);
    const auto part = json ? fields.RealOf(*json, key) : std::nullopt;
    if (!part) continue;
    // A value above 1 is a number of elements, not a fraction.
    const int64_t rotated = *part > 1 ? static_cast<int64_t>(*part)
                                      : RotaryDim(*config.head_dim, *part);
    return {rotated, json->place(), false};
  }
  rotates = rotates || config.rope;
  if (!rotates || fields.IsTrue("alibi").value_or(false)) return {};
  ConfigField out = read.head_dim.value ? read.head_dim : read.heads;
  out.value = config.head_dim;
  return out;
}

// Checks that the number of heads divides the hidden size, unless the config
// states the size of a head.
void CheckHeadDim(const ModelConfig& config, const SizeFields& read,
                  Findings& findings) {
  // Only sizes of the same config are compared. In a multimodal model the outer
  // config may describe the image encoder.
  const bool known = read.hidden.value && read.heads.value &&
                     read.hidden.nested == read.heads.nested;
  if (config.head_dim || !known) return;
  findings.Add(code::kNumber, read.heads.place,
               "a hidden size of " + std::to_string(*read.hidden.value) +
                   " does not divide into " +
                   std::to_string(*read.heads.value) + " attention heads",
               "write a divisor, or the width of a head as `head_dim`");
}

// Checks that the config states both parts of a head of latent attention, the
// rotated and the unrotated part. The unrotated part does not follow from
// `head_dim`, because transformers writes the rotated part under this name.
void CheckLatentHead(const ModelConfig& config, ConfigFields& fields,
                     Findings& findings) {
  if (!config.latent_rank || !config.latent_rope_dim) return;
  if (fields.Find("qk_nope_head_dim")) return;
  findings.Add(code::kNumber, fields.Find("qk_rope_head_dim")->place(),
               "latent attention has `qk_rope_head_dim` but no "
               "`qk_nope_head_dim`",
               "add `qk_nope_head_dim`, the part of a head that is not rotated "
               "(128 in DeepSeek-V3)");
}

}  // namespace

void CheckModelSizes(const ModelConfig& config, const SizeFields& read,
                     bool rotates, ConfigFields& fields, Findings& findings) {
  CheckHeadDim(config, read, findings);
  CheckLatentHead(config, fields, findings);
  const ConfigField rotary = RotaryField(config, read, rotates, fields);
  ModelSizes sizes;
  sizes.heads = config.heads;
  if (read.heads.nested == read.kv_heads.nested) {
    sizes.kv_heads = read.kv_heads.value;
  }
  sizes.head_dim = config.latent_rank ? rotary.value : config.head_dim;
  sizes.rotary_dim = rotary.value;
  sizes.experts = config.experts;
  sizes.experts_per_token = read.experts_per_token.value;
  for (IllegalSize& one : IllegalSizes(sizes)) {
    const ConfigField* field = &rotary;
    if (one.which == IllegalSize::Which::kKvHeads) field = &read.kv_heads;
    if (one.which == IllegalSize::Which::kExpertsPerToken) {
      field = &read.experts_per_token;
    }
    findings.Add(code::kNumber, field->place, std::move(one.message),
                 std::move(one.help));
  }
}

// Reads a config.json. Python writes values that JSON does not allow. They are
// replaced: NaN by 0.0, Infinity and -Infinity by null:
//
//   {"rope_theta": 1e4, "eos_token_id": NaN}  ->  "eos_token_id": 0.0
//
// Messages quote the file as it is written.

namespace {

// Replaces NaN, Infinity and -Infinity, which Python writes and JSON does not
// allow. Each replacement has the same length, so the places of all other
// values stay the same.
SourceRef ReplacePythonNumbers(const SourceRef& source) {
  struct Word {
    std::string_view word;
    std::string_view value;
  };
  constexpr std::array<Word, 3> kWords = {
      {{"-Infinity", "null     "}, {"Infinity", "null    "}, {"NaN", "0.0"}}};
  std::string text(source->text());
  bool changed = false;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (in_string && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      for (const Word& word : kWords) {
        if (text.compare(at, word.word.size(), word.word) != 0) continue;
        text.replace(at, word.value.size(), word.value);
        changed = true;
      }
    }
  }
  return changed ? MakeSource(source->name(), std::move(text)) : source;
}

}  // namespace

std::unique_ptr<const JsonDocument> ReadModelDocument(const std::string& path,
                                                      Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return nullptr;
  auto document = JsonDocument::Parse(ReplacePythonNumbers(source), findings,
                                      {.shown = source});
  if (document == nullptr || document->root().IsObject()) return document;
  findings.Add(code::kSchema, document->root().place(),
               "a model's configuration is " + DescribeJson(document->root()) +
                   ", not an object");
  return nullptr;
}

}  // namespace shardc
