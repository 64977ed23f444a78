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
#include "model/rules.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// The mesh of a target as the project file or a flag gives it, before it is
// parsed. At most one of the members `file`, `text` and `inline_place` is set.
struct MeshInput {
  // The path of a mesh file, or the text of `--mesh`, such as `dp:2,tp:4`.
  std::string file;
  // The text of the mesh in the project file, such as `dp:2,tp:4`.
  std::string text;
  // If the project file gives the mesh as a YAML mapping, its place.
  std::optional<Place> inline_place;
  // The place of `text` in the project file.
  std::optional<Place> text_place;
};

// Options of `verify` for a target. Members that the file does not give are
// empty.
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
  // The path of a settings file; or empty.
  std::string settings;
  // If the project file gives the settings as a YAML mapping, its place.
  std::optional<Place> inline_settings;
};

// A key of a target that sets an option of `cost`, such as `seq: 4096`.
struct StepOption {
  std::string name;   // the name of the option, such as "--seq"
  std::string value;  // the value as the option takes it, such as "4096"
  Place place;        // the place of the value in the project file
};

// One limit of a target's `budget`: bytes, seconds or, for `growth`, a fraction
// such as 0.05 for 5 %.
struct BudgetLimit {
  double value = 0;
  Place place;
};

// The limits of the figures that `cost` computes for a step of the target.
struct StepBudget {
  Mode mode = Mode::kTrain;  // the mode of the step
  // The bytes of the device that uses the most memory, and the bytes that the
  // busiest device sends.
  std::optional<BudgetLimit> memory, sent;
  std::optional<BudgetLimit> time;  // the seconds of the step
  // The largest growth of each figure over the committed one.
  std::optional<BudgetLimit> growth;

  bool IsEmpty() const { return !memory && !sent && !time && !growth; }
};

// The inputs of a command: a target of a project file, or what the flags name.
// Paths are relative to the working directory.
struct Target {
  std::string name;
  Place place;
  // The folder of the project file; empty if there is none.
  std::string project_dir;
  MeshInput mesh;
  // The rules: each is a path, `builtin:NAME`, or `auto`, which selects the
  // built-in rules that match the names of the parameters.
  std::vector<std::string> rules;
  std::string manifest;
  std::string model;  // The path of the model's config.json.
  // The folder with the user's own descriptions of model families; or empty.
  std::string families;
  std::vector<Mode> modes;  // The modes of the target; empty means all modes.
  VerifyInput verify;
  std::optional<int64_t> batch;
  std::optional<int64_t> kv_len;
  std::optional<int64_t> memory_bytes;
  std::vector<StepOption> step_options = {};
  StepBudget budget = {};
  std::string plan;  // path of the committed plan
  std::string step;  // path of the committed step program
  // Maps the path of an input to its place in the project file, for messages.
  std::map<std::string, Place> named_at = {};
  // If set, these exclusions from weight decay replace those of the rules
  // files.
  WeightDecayExclusions weight_decay_exclude;
};

struct LintSettings {
  // The diagnostics to report, by code (SHD101), family (SHD1) or name. An
  // empty list selects all of them.
  std::vector<std::string> select;
  std::vector<std::string> ignore;
  std::map<std::string, Level> severity;
  // Severities from flags, which override those in `severity`.
  std::map<std::string, Level> flag_severity;
  // The lowest level at which a finding makes a command fail: error, warning,
  // note or never.
  std::string fail_on = "error";
  // The path of a baseline file, which lists accepted findings; or empty.
  std::string baseline;
  // The place in the project file of each entry of `select`, `ignore` and
  // `severity`, by the entry's text.
  std::map<std::string, Place> places = {};
};

struct Project {
  std::string path;  // The path of the project file.
  std::vector<Target> targets;
  // The folder with descriptions of model families; empty if there is none.
  std::string families;
  LintSettings lint;
};

// Rotary position embedding of queries and keys.
struct RopeConfig {
  double base = 10000;
  // How frequencies are scaled: "linear", "dynamic", "yarn", "llama3" or
  // another name that the file gives. Empty if frequencies are not scaled.
  std::string scaling;
  double factor = 1;
  double original_length = 0;  // The context length before scaling, in tokens.
  std::optional<double> attention_factor;
  // Used by yarn only.
  double beta_fast = 32, beta_slow = 1;
  // Used by yarn only.
  bool truncate = true;
  // Used by llama3 only.
  double low_frequency_factor = 1, high_frequency_factor = 4;
};

// What a layer keeps of the tokens of a request while tokens are generated.
enum class KeptTokens : uint8_t {
  kAll,     // keys and values, or latent rows, of all tokens
  kWindow,  // those of the last tokens (of a window or a chunk)
  kState,   // the state of a state-space mixer or of linear attention
  kNone,    // nothing, because it attends to what another layer keeps
};

// The sizes of linear attention with a gated delta rule (Qwen3-Next, Qwen3.5).
// A value head has a state of key_dim * value_dim numbers. Before it, a
// convolution over `kernel` tokens reads queries, keys and values, so a layer
// also keeps the last kernel - 1 inputs of the convolution.
struct LinearAttention {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int64_t kernel = 0;
  bool operator==(const LinearAttention&) const = default;
};

// The block of weights that share a quantisation scale, in some modules.
struct QuantisedBlock {
  // The modules, as the config lists them: names, patterns that begin with
  // `re:`, and classes such as "Linear". Empty for all modules.
  std::vector<std::string> targets;
  int64_t columns = 1, rows = 1;  // along the input and the output dimension
};

// The structure of a model from its config.json. A member is empty if its key
// is absent and its value does not follow from other keys or from the model
// family.
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
  // The number of layers with attention that store no keys and values because
  // they attend to the keys and values of another layer. `borrowing_windowed`
  // is the number of these layers whose attention has a window.
  std::optional<int64_t> borrowing_layers, borrowing_windowed;
  // What each layer keeps, indexed by layer. Empty if the config does not state
  // it for each layer, or if the list would not have the numbers of layers
  // above.
  std::vector<KeptTokens> kept;
  // The sizes of layers with linear attention, if the config states them.
  std::optional<LinearAttention> linear_attention;
  // Gemma 4: the head size and the number of KV heads in layers without a
  // window, if they differ from `head_dim` and `kv_heads`.
  std::optional<int64_t> full_head_dim, full_kv_heads;
  // The size of a head's value vector if it differs from `head_dim`, which is
  // then the size of the head's query and key. Absent with latent attention,
  // for which `latent_value_dim` is set.
  std::optional<int64_t> value_dim;
  // MiMo-V2: the sizes of the layers with a window, where they differ from
  // those of the other layers.
  std::optional<int64_t> windowed_heads, windowed_kv_heads, windowed_head_dim,
      windowed_value_dim;
  // Llama 4: the number of tokens of a chunk. In a layer with chunks, a token
  // attends only to tokens of its own chunk.
  std::optional<int64_t> attention_chunk;
  // If true, `layers` excludes the encoder's layers.
  bool has_encoder = false;
  // True if no token attends to later tokens.
  bool causal = true;
  // The dropout rate after the attention and after the MLP of a layer.
  std::optional<double> hidden_dropout;
  // The factor by which attention logits are multiplied before the softmax.
  // Absent means 1/sqrt(head_dim).
  std::optional<double> softmax_scale;
  // The setting that gives the scale, such as "query_pre_attn_scalar 224".
  std::string softmax_scale_source;
  std::optional<double> soft_cap;  // The soft cap of attention logits.
  // The dropout rate of attention weights; nullopt if it is 0.
  std::optional<double> attention_dropout;
  // True if the softmax has one more learned logit per head.
  bool attention_sinks = false;
  // The number of groups of the matrices B and C of a state-space mixer
  // (Mamba).
  std::optional<int64_t> state_groups;
  // Multi-head latent attention: the widths of the latent vector, of the
  // rotated part of a key, and of a head's value.
  std::optional<int64_t> latent_rank, latent_rope_dim, latent_value_dim;
  // The width of an indexer's key. DeepSeek-V3.2 has an indexer, which chooses
  // the tokens that attention reads. It stores one key for each token.
  std::optional<int64_t> index_dim;
  std::optional<RopeConfig> rope;
  // The number of weights along the input dimension that share a quantisation
  // scale; absent if the weights are not quantised in groups.
  std::optional<int64_t> quant_group;
  // The number of weights along the output dimension that share a scale: 128
  // for a `weight_block_size` of [128, 64]. It is 1 if no block is stated.
  int64_t quant_rows = 1;
  SourceRef source;
  // The blocks of each group of modules, if the config has such groups. Then
  // `quant_group` and `quant_rows` are set only if the groups agree.
  std::vector<QuantisedBlock> quant_blocks;
  // The modules that are not quantised, as the config lists them.
  std::vector<std::string> unquantised;
};

// One limit of an audit's budget. It bounds the bytes that one device sends in
// some of the program's collectives.
struct AuditLimit {
  // Which collectives are limited: "total" (all), "activations_gathered"
  // (all-gathers of activations), or one kind of collective such as
  // "all_gather".
  std::string of;
  // The mesh axes of the limited collectives, joined by `+`; empty if the limit
  // covers collectives over any axes.
  std::string over;
  int64_t bytes = 0;  // The largest number of bytes that one device may send.
  Place place;        // Where the project file gives `bytes`, for messages.
};

struct AuditInput {
  std::string program;  // The path of the file with the program's text.
  // The path of the committed summary; empty if the target has none.
  std::string locked;
  std::vector<AuditLimit> limits;
};

// The `stages:` section of rules and project files: how the layers of a model
// are divided into the stages of a pipeline.
//
//   stages: {axis: pp, virtual: 2, schedule: interleaved, microbatches: 32}

// How the number of layers of each stage is chosen.
enum class StageAssignment : uint8_t {
  kCost,    // The time of the longest stage is minimised.
  kEven,    // The numbers of layers of two stages differ by at most one.
  kListed,  // The number of layers of each stage is listed.
  // The cost model searches for the numbers (`--assign cost`), which needs the
  // batch and the length of a step.
  kSearched,
};

// A pattern for parameters that hold scanned layers: all layers of the model,
// or all layers of one of its layer stacks.
struct StackedLayers {
  NamePattern match;
  // The dimension that counts the layers, or the first of three that count
  // them: [virtual stages, ranks, layers of a stage].
  int dim = 0;
};

// The keys of a `stages:` section. A key that the file leaves out is empty. The
// members `*_place` are the places of the keys' values.
struct StageDeclaration {
  // The mesh axis of the pipeline, whose size is the number of ranks.
  std::string axis;
  // A pattern for the names of layers' parameters, whose first group is the
  // number of the layer.
  std::optional<NamePattern> layers;
  // Patterns for the parameters that belong before the first layer, such as the
  // embedding, or after the last layer.
  std::optional<std::vector<NamePattern>> first, last;
  std::optional<int32_t> virtual_stages;  // The number of stages on each rank.
  std::optional<StageAssignment> assign;
  // With kListed, the number of layers of each stage.
  std::vector<int64_t> listed;
  // Whether the rank of the output head may hold a copy of the embedding table
  // that the head shares with the first stage.
  std::optional<bool> copies;
  // The name of a schedule, or the path of a schedule file relative to the
  // working directory.
  std::string schedule;
  bool schedule_is_file = false;
  std::optional<int32_t> microbatches;
  // The layer stacks, in the order in which the model runs them.
  std::optional<std::vector<StackedLayers>> stacked;

  Place place;  // place of the section
  Place axis_place, virtual_place, assign_place, tied_place, schedule_place;

  // Returns whether a file has the section. Otherwise all values are from
  // options of the command line.
  bool IsInFile() const { return place.source != nullptr; }
};

// Copies each key that `nearer` lacks from `farther`. `layers` and `stacked`
// are copied only if `nearer` has neither. A project file is nearer than its
// rules files, and a rules file nearer than the files that it extends.
void CompleteStages(StageDeclaration& nearer, const StageDeclaration& farther);

}  // namespace shardc

#endif  // SHARDC_MODEL_PROJECT_H_
