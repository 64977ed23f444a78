// The structs of a project file (targets and lint settings) and of a
// config.json.
#ifndef SHARDC_MODEL_PROJECT_H_
#define SHARDC_MODEL_PROJECT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/axis_rules.h"
#include "model/dtype.h"
#include "model/layout.h"
#include "model/rules.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// The mesh of a target as the project file or a flag gives it, before it is
// read. At most one of the first three members is set.
struct MeshInput {
  std::string file;                   // path or, from `--mesh`, `dp:2,tp:4`
  std::string text;                   // `dp:2,tp:4`
  std::optional<Place> inline_place;  // a mapping inside the project file
  std::optional<Place> text_place;    // of `text`, inside the project file
};

// Options of `verify` for a target; empty if the file gives none.
struct VerifyInput {
  // An attention operation to verify in the mode `mode`, or in all modes if
  // `mode` is absent.
  struct Named {
    std::string operation;
    std::optional<Mode> mode;
    Place place;
  };
  std::vector<Named> operations;
  std::vector<Layout> layouts;
  std::vector<Dtype> dtypes;
  std::optional<Dtype> kv_dtype;
  std::string settings;                  // path of a settings file; or empty
  std::optional<Place> inline_settings;  // a mapping in the project file
};

// A target of a project, or the inputs that flags name. Paths are relative to
// the working directory.
struct Target {
  std::string name;
  Place place;
  // The folder of the project file; empty if there is none.
  std::string project_dir;
  MeshInput mesh;
  std::vector<std::string> rules;  // paths, `builtin:NAME` or `auto`
  std::string manifest;
  std::string model;        // config.json
  std::vector<Mode> modes;  // empty: all
  VerifyInput verify;
  std::optional<int64_t> batch;
  std::optional<int64_t> kv_len;
  std::optional<int64_t> memory_bytes;
  std::string plan;  // path of the committed plan
  std::string step;  // path of the committed step program
  // If given, replaces the rules files' exclusions from weight decay.
  WeightDecayExclusions weight_decay_exclude;
};

struct LintSettings {
  std::vector<std::string> select;  // codes or names
  std::vector<std::string> ignore;
  std::map<std::string, Level> severity;
  // From flags; overrides `severity`.
  std::map<std::string, Level> flag_severity;
  std::string fail_on = "error";  // error | warning | note | never
  std::string baseline;           // path of a baseline file; or empty
  // The places in the project file of the entries of `select`, `ignore` and
  // `severity`.
  std::map<std::string, Place> places = {};
};

struct Project {
  std::string path;  // the path of the file
  std::vector<Target> targets;
  LintSettings lint;
};

// Rotary position embedding of queries and keys.
struct RopeConfig {
  double base = 10000;
  // "linear", "dynamic", "yarn", "llama3" or any other word of the file; empty:
  // frequencies are not scaled.
  std::string scaling;
  double factor = 1;
  double original_length = 0;  // context length before scaling
  std::optional<double> attention_factor;
  double beta_fast = 32, beta_slow = 1;                        // yarn
  bool truncate = true;                                        // yarn
  double low_frequency_factor = 1, high_frequency_factor = 4;  // llama3
};

// The structure of a model from its config.json. Absent keys stay empty, unless
// their value follows from other keys or from the family.
struct ModelConfig {
  std::string model_type;
  std::optional<int64_t> heads, kv_heads, head_dim, hidden, intermediate,
      layers, vocab, experts, experts_per_token, moe_intermediate,
      sliding_window, max_positions;
  bool tied_embeddings = false;
  // `attention_layers` is the number of layers with attention (in
  // LongCat-Flash, twice the number of layers). It is absent if all layers have
  // attention, or if it is unknown. `windowed_layers` is the number of layers
  // whose attention has a window or chunks.
  std::optional<int64_t> attention_layers, windowed_layers;
  // The number of layers with attention that keep no keys and values because
  // they attend to those of another layer, and how many of these have a window.
  std::optional<int64_t> borrowing_layers, borrowing_windowed;
  // Gemma 4: the head size and the number of KV heads in layers without a
  // window, if they differ from `head_dim` and `kv_heads`.
  std::optional<int64_t> full_head_dim, full_kv_heads;
  // The size of a head's value if it differs from `head_dim`, which is then
  // that of its query and key; absent with latent attention, which has
  // `latent_value_dim`.
  std::optional<int64_t> value_dim;
  // MiMo-V2: the sizes of the layers with a window, where they differ from
  // those of the other layers.
  std::optional<int64_t> windowed_kv_heads, windowed_head_dim,
      windowed_value_dim;
  // Llama 4: the tokens of a chunk, within which windowed layers attend.
  std::optional<int64_t> attention_chunk;
  bool has_encoder = false;              // `layers` counts the decoder's only
  bool causal = true;                    // no token attends to later tokens
  std::optional<double> hidden_dropout;  // dropout of a layer's two outputs
  // The scale of attention logits if it is not 1/sqrt(head_dim), and the key
  // and value of config.json that give it.
  std::optional<double> softmax_scale;
  std::string softmax_scale_source;         // "query_pre_attn_scalar 224"
  std::optional<double> soft_cap;           // soft cap of attention logits
  std::optional<double> attention_dropout;  // absent if 0
  bool attention_sinks = false;  // one learned logit per head in the softmax
  // The number of groups of a state-space mixer's B and C.
  std::optional<int64_t> state_groups;
  // Multi-head latent attention: the widths of the latent vector, of the
  // rotated part of a key, and of a head's value.
  std::optional<int64_t> latent_rank, latent_rope_dim, latent_value_dim;
  // DeepSeek-V3.2 has an indexer, which chooses the tokens that attention reads
  // by one key for each token. This is the width of that key.
  std::optional<int64_t> index_dim;
  std::optional<RopeConfig> rope;
  // The number of weights along the input dimension that share a quantisation
  // scale; absent if the weights are not quantised in groups.
  std::optional<int64_t> quant_group;
  SourceRef source;
};

}  // namespace shardc

#endif  // SHARDC_MODEL_PROJECT_H_
