// Reads the settings of rotary embeddings. Older config.json files state the
// base of the rotation (`rope_theta`) and its scaling in separate members.
// Recent files have all settings in the object `rope_parameters`:
//
//   {"rope_theta": 500000, "rope_scaling": {"rope_type": "llama3", ...}}
//   {"rope_parameters": {"rope_theta": 500000, "rope_type": "llama3", ...}}
#include "parse/rope_config.h"

#include <array>
#include <cmath>
#include <string>

#include "parse/manifest_leaf.h"

namespace shardc {
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

}  // namespace shardc
