// The project file: what to compile, and how to lint it.
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

// A mesh given in place is carried as the text of its mapping's source range.
struct MeshInput {
  std::string file;                   // or
  std::string text;                   // `dp:2,tp:4`, or
  std::optional<Place> inline_place;  // a mapping inside the project file
};

// What `verify` runs for a target; empty where nothing is said.
struct VerifyInput {
  // An operation of one mode, or of all.
  struct Named {
    std::string operation;
    std::optional<Mode> mode;
    Place place;
  };
  std::vector<Named> operations;
  std::vector<Layout> layouts;
  std::vector<Dtype> dtypes;
  std::optional<Dtype> kv_dtype;
  std::string settings;                  // a file, or
  std::optional<Place> inline_settings;  // a mapping inside the project file
};

// Paths are already relative to the working directory.
struct Target {
  std::string name;
  Place place;
  std::string project_dir;  // folder of the project file; empty without one
  MeshInput mesh;
  std::vector<std::string> rules;  // paths and `builtin:NAME`
  std::string manifest;
  std::string model;        // config.json
  std::vector<Mode> modes;  // empty: all
  VerifyInput verify;
  std::optional<int64_t> batch;
  std::optional<int64_t> kv_len;
  std::optional<int64_t> memory_bytes;
  std::string plan;                            // the committed plan
  std::string step;                            // and step program
  WeightDecayExclusions weight_decay_exclude;  // over the rules files'
};

struct LintSettings {
  std::vector<std::string> select;  // codes or names
  std::vector<std::string> ignore;
  std::map<std::string, Level> severity;
  std::string fail_on = "error";  // error | warning | note | never
  std::string baseline;           // a file; empty: none
};

struct Project {
  std::string path;  // of the file
  std::vector<Target> targets;
  LintSettings lint;
};

// How a model turns queries and keys by their positions.
struct RopeConfig {
  double base = 10000;
  // "linear", "dynamic", "yarn", "llama3" or what else the file has; empty: the
  // frequencies are not stretched.
  std::string scaling;
  double factor = 1;
  double original_length = 0;  // that the model was trained on
  std::optional<double> attention_factor;
  double beta_fast = 32, beta_slow = 1;                        // yarn
  bool truncate = true;                                        // yarn
  double low_frequency_factor = 1, high_frequency_factor = 4;  // llama3
};

// What a model's config.json says of its structure; absent keys stay empty.
struct ModelConfig {
  std::string model_type;
  std::optional<int64_t> heads, kv_heads, head_dim, hidden, intermediate,
      layers, vocab, experts, experts_per_token, moe_intermediate,
      sliding_window, max_positions;
  bool tied_embeddings = false;
  // Layers that have attention, where not all have; and those of them that see
  // only the last `sliding_window` tokens.
  std::optional<int64_t> attention_layers, windowed_layers;
  bool has_encoder = false;              // `layers` are not all that there are
  std::optional<double> hidden_dropout;  // of a layer's two outputs
  // Where it is not 1/sqrt(head_dim); and what the file says of it.
  std::optional<double> softmax_scale;
  std::string softmax_scale_source;         // "query_pre_attn_scalar 224"
  std::optional<double> soft_cap;           // of attention's logits
  std::optional<double> attention_dropout;  // where above 0
  bool attention_sinks = false;             // a learned logit per head
  std::optional<int64_t> state_groups;      // of a mixer's B and C
  // Of a latent row that keys and values of all heads come from, its part that
  // is rotated, and a head's values.
  std::optional<int64_t> latent_rank, latent_rope_dim, latent_value_dim;
  std::optional<RopeConfig> rope;
  // Quantisation group along the input dimension, if any.
  std::optional<int64_t> quant_group;
  SourceRef source;
};

}  // namespace shardc

#endif  // SHARDC_MODEL_PROJECT_H_
