// One table: a row is a word, the systems that write it, and what is written
// here for the same. For example:
//
//   --remat full            ->  write `nothing_saveable`
//   --optimizer adamw_8bit  ->  write `adamw` with `--moments-dtype int8`
#include "source/other_words.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "source/wording.h"

namespace shardc {
namespace {

// The texts are arrays: a pointer would be relocated at each start.
struct OtherWord {
  char setting[14];
  char word[36];     // in lower case, with `-` between parts
  char systems[48];  // the systems that have the word
  char write[200];   // what to write here, as the end of a sentence
};

constexpr OtherWord kOtherWords[] = {
    {"dtype", "bf16", "", "write `bfloat16`"},
    {"dtype", "f16", "", "write `float16`"},
    {"dtype", "fp16", "", "write `float16`"},
    {"dtype", "half", "", "write `float16`"},
    {"dtype", "f32", "", "write `float32`"},
    {"dtype", "fp32", "", "write `float32`"},
    {"dtype", "float", "", "write `float32`"},
    {"dtype", "f8", "", "write `float8_e4m3fn`"},
    {"dtype", "fp8", "", "write `float8_e4m3fn`"},
    {"dtype", "fp8-e4m3", "vLLM", "write `float8_e4m3fn`"},
    {"dtype", "fp8-e5m2", "vLLM", "write `float8_e5m2`"},
    {"dtype", "i8", "", "write `int8`"},

    {"remat", "full", "MaxText, Megatron-LM and torchtitan",
     "write `nothing_saveable`, which keeps only the input of each layer"},
    {"remat", "minimal", "MaxText",
     "write `dots_with_no_batch_dims_saveable`, or name the tensors: "
     "`save_only_these_names(q_proj,k_proj,v_proj,out_proj,gate_proj,up_proj,"
     "down_proj)`"},
    {"remat", "minimal-with-context", "MaxText",
     "write `save_only_these_names(q_proj,k_proj,v_proj,context,out_proj,"
     "gate_proj,up_proj,down_proj)`"},
    {"remat", "minimal-flash", "MaxText",
     "write `save_only_these_names(q_proj,k_proj,v_proj,context,out_proj,"
     "gate_proj,up_proj,down_proj)`"},
    {"remat", "save-dot-except-mlp", "MaxText",
     "write `save_only_these_names(q_proj,k_proj,v_proj,out_proj)`"},
    {"remat", "save-dot-except-mlpwi", "MaxText",
     "write `save_only_these_names(q_proj,k_proj,v_proj,out_proj,down_proj)`"},
    {"remat", "save-dot-with-context-except-mlp", "MaxText",
     "write `save_only_these_names(q_proj,k_proj,v_proj,context,out_proj)`"},
    {"remat", "save-qkv-proj", "MaxText",
     "write `save_only_these_names(q_proj,k_proj,v_proj)`"},
    {"remat", "save-out-proj", "MaxText",
     "write `save_only_these_names(out_proj)`"},
    {"remat", "selective", "Megatron-LM and torchtitan",
     "Megatron-LM repeats the modules that it lists, by default attention: "
     "write `save_anything_except_these_names(context)`; torchtitan keeps "
     "products of matrices: write `dots_saveable`"},
    {"remat", "uniform", "Megatron-LM",
     "it divides the layers into groups; for groups of one layer write "
     "`nothing_saveable`"},
    {"remat", "block", "Megatron-LM",
     "it repeats some layers and not others, which is not supported; for all "
     "layers write `nothing_saveable`"},
    {"remat", "none", "MaxText and torchtitan",
     "write `everything_saveable`, which repeats nothing"},
    {"remat", "off", "", "write `everything_saveable`, which repeats nothing"},
    {"remat", "false", "transformers",
     "write `everything_saveable`, which repeats nothing"},
    {"remat", "true", "transformers",
     "write `nothing_saveable`, which keeps only the input of each layer"},
    {"remat", "gradient-checkpointing", "transformers",
     "write `nothing_saveable`, which keeps only the input of each layer"},

    {"optimizer", "adam", "Megatron-LM and MaxText",
     "write `adamw`: its states are the same"},
    {"optimizer", "adamw-torch", "transformers", "write `adamw`"},
    {"optimizer", "adamw-torch-fused", "transformers", "write `adamw`"},
    {"optimizer", "adamw-hf", "transformers", "write `adamw`"},
    {"optimizer", "fusedadam", "DeepSpeed", "write `adamw`"},
    {"optimizer", "fused-adam", "DeepSpeed", "write `adamw`"},
    {"optimizer", "adam-pax", "MaxText", "write `adamw`"},
    {"optimizer", "lamb", "", "write `adamw`: its states are the same"},
    {"optimizer", "adamw-8bit", "transformers",
     "write `adamw` with `--moments-dtype int8`"},
    {"optimizer", "adamw8bit", "bitsandbytes",
     "write `adamw` with `--moments-dtype int8`"},
    {"optimizer", "adam-8bit", "bitsandbytes",
     "write `adamw` with `--moments-dtype int8`"},
    {"optimizer", "adam8bit", "bitsandbytes",
     "write `adamw` with `--moments-dtype int8`"},
    {"optimizer", "adamw-bnb-8bit", "transformers",
     "write `adamw` with `--moments-dtype int8`"},
    {"optimizer", "paged-adamw-8bit", "transformers",
     "write `adamw` with `--moments-dtype int8`, and with "
     "`--offload-optimizer` for states in the memory of the host"},
    {"optimizer", "paged-adamw-32bit", "transformers",
     "write `adamw`, with `--offload-optimizer` for states in the memory of "
     "the host"},
    {"optimizer", "lion-8bit", "transformers",
     "write `lion` with `--moments-dtype int8`"},
    {"optimizer", "cpuadam", "DeepSpeed",
     "write `adamw` with `--offload-optimizer`"},
    {"optimizer", "deepspeedcpuadam", "DeepSpeed",
     "write `adamw` with `--offload-optimizer`"},
    {"optimizer", "adagrad", "",
     "it has one state of a parameter's size: write `momentum`"},
    {"optimizer", "rmsprop", "",
     "it has one state of a parameter's size: write `momentum`"},
    {"optimizer", "sgd-momentum", "", "write `momentum`"},

    {"stack", "torch.compile", "", "write `compiled`"},
    {"stack", "pytorch", "", "write `compiled`, or `eager` without a compiler"},
    {"stack", "torch", "", "write `compiled`, or `eager` without a compiler"},
    {"stack", "fsdp", "", "write `compiled`, or `eager` without a compiler"},
    {"stack", "transformers", "", "write `hf`"},
    {"stack", "huggingface", "", "write `hf`"},
    {"stack", "trl", "", "write `hf`"},
    {"stack", "accelerate", "", "write `hf`"},
    {"stack", "megatron-lm", "", "write `megatron`"},
    {"stack", "megatron-core", "", "write `megatron`"},
    {"stack", "nemo", "", "write `megatron`"},
    {"stack", "deepspeed", "", "write `deepspeed-2021` or `eager`"},
    {"stack", "maxtext", "", "write `xla`"},
    {"stack", "jax", "", "write `xla`"},
    {"stack", "flax", "", "write `xla`"},
    {"stack", "easydel", "", "write `xla`"},

    {"engine", "trt-llm", "", "write `tensorrt-llm`"},
    {"engine", "tensorrt", "", "write `tensorrt-llm`"},
    {"engine", "jetstream", "", "write `tpu`"},
    {"engine", "tgi", "",
     "it is not known; describe it in a file, or take `vllm`"},

    {"served-dtype", "fp8-e4m3", "vLLM", "write `fp8`"},
    {"served-dtype", "float8-e4m3fn", "", "write `fp8`"},
    {"served-dtype", "fp8-per-block", "", "write `fp8_block`"},
    {"served-dtype", "bfloat16", "", "write `bf16`"},
    {"served-dtype", "awq", "vLLM", "write `int4`"},
    {"served-dtype", "gptq", "vLLM", "write `int4`"},
    {"served-dtype", "w4a16", "vLLM", "write `int4`"},
    {"served-dtype", "w8a8", "vLLM",
     "for weights in eight-bit floats write `fp8`"},

    {"served-dtype", "q4-k-m", "llama.cpp", "write `int4`, the nearest"},
    {"served-dtype", "q4-0", "llama.cpp", "write `int4`, the nearest"},
    {"served-dtype", "q8-0", "llama.cpp", "write `fp8`, the nearest"},
    {"served-dtype", "gguf", "llama.cpp",
     "name the format of its tensors: `int4` for four bits, `fp8` for eight"},

    {"set", "max-num-seqs", "vLLM", "write `max_requests=N`"},
    {"set", "max-num-batched-tokens", "vLLM", "write `max_batched_tokens=N`"},
    {"set", "max-running-requests", "SGLang", "write `max_requests=N`"},
    {"set", "chunked-prefill-size", "SGLang", "write `max_batched_tokens=N`"},

    {"profile", "hopper", "", "write `h100-sxm` or `h200-sxm`"},
    {"profile", "ampere", "", "write `a100-80-sxm` or `a100-40-sxm`"},
    {"profile", "blackwell", "", "write `b200-hgx`, `gb200` or `gb300`"},
    {"profile", "a2-highgpu-8g", "Google Cloud", "write `a100-40-sxm`"},
    {"profile", "a3-highgpu-8g", "Google Cloud", "write `h100-sxm`"},
    {"profile", "a3-ultragpu-8g", "Google Cloud", "write `h200-sxm`"},
    {"profile", "a4-highgpu-8g", "Google Cloud", "write `b200-hgx`"},
    {"profile", "p4d.24xlarge", "AWS", "write `a100-40-sxm`"},
    {"profile", "p4de.24xlarge", "AWS", "write `a100-80-sxm`"},
    {"profile", "p5.48xlarge", "AWS", "write `h100-sxm`"},
    {"profile", "p5e.48xlarge", "AWS", "write `h200-sxm`"},
    {"profile", "trn2.48xlarge", "AWS", "write `trn2`"},
    {"profile", "tpu-v5litepod", "Google Cloud", "write `tpu-v5e`"},
    {"profile", "v5litepod", "Google Cloud", "write `tpu-v5e`"},
    {"profile", "v5lite", "JAX", "write `tpu-v5e`"},
    {"profile", "ironwood", "", "write `tpu-7x`"},
    {"profile", "trillium", "", "write `tpu-v6e`"},

    {"zero", "stage1", "DeepSpeed", "write `1`"},
    {"zero", "stage2", "DeepSpeed", "write `2`"},
    {"zero", "stage3", "DeepSpeed", "write `3`"},
    {"zero", "offload", "DeepSpeed",
     "write `3`, with `--offload-optimizer` for states in the memory of the "
     "host"},
    {"zero", "full-shard", "FSDP", "write `3`"},
    {"zero", "shard-grad-op", "FSDP", "write `2`"},
    {"zero", "no-shard", "FSDP", "write `0`"},
    {"zero", "none", "", "write `0`"},
    {"zero", "fsdp", "", "write `3`"},
    {"zero", "zero1", "", "write `1`"},
    {"zero", "zero2", "", "write `2`"},
    {"zero", "zero3", "", "write `3`"},

    {"schedule", "interleaved1f1b", "PyTorch", "write `interleaved`"},
    {"schedule", "interleaved-1f1b", "", "write `interleaved`"},
    {"schedule", "loopedbfs", "PyTorch", "write `looped-bfs`"},
    {"schedule", "interleavedzerobubble", "PyTorch", "write `interleaved-zb`"},
    {"schedule", "zbvzerobubble", "PyTorch", "write `zbv`"},
    {"schedule", "zero-bubble", "", "write `zb-h1`, `zb-h2` or `zbv`"},
    {"schedule", "dualpipe-v", "", "write `dualpipev`"},
    {"schedule", "dapple", "", "write `1f1b`"},
    {"schedule", "pipedream-flush", "", "write `1f1b`"},

    {"mode", "training", "", "write `train`"},
    {"mode", "fit", "", "write `train`"},
    {"mode", "backward", "", "write `train`, whose step has both passes"},
    {"mode", "forward", "", "write `prefill`, which has no backward pass"},
    {"mode", "eval", "", "write `prefill`, which has no backward pass"},
    {"mode", "prompt", "", "write `prefill`"},
    {"mode", "context", "TensorRT-LLM", "write `prefill`"},
    {"mode", "generate", "", "write `prefill` or `decode`"},
    {"mode", "generation", "", "write `decode`"},
    {"mode", "inference", "", "write `prefill` or `decode`"},
    {"mode", "serve", "", "write `prefill` or `decode`"},
    {"mode", "autoregressive", "MaxText", "write `decode`"},

    {"illegal", "ignore", "", "write `drop`, which replicates the dimension"},
    {"illegal", "warn", "", "write `drop`, which replicates the dimension"},
    {"illegal", "replicate", "", "write `drop`"},
    {"unmatched", "warn", "",
     "write `replicate`; `shardc check` lists the parameters"},
    {"unmatched", "ignore", "", "write `replicate`"},

    {"dtype", "mixed", "", "name the dtype of activations, such as `bfloat16`"},
    {"dtype", "auto", "vLLM", "leave the option out"},
    {"color", "yes", "", "write `always`"},
    {"color", "on", "", "write `always`"},
    {"color", "true", "", "write `always`"},
    {"color", "no", "", "write `never`"},
    {"color", "off", "", "write `never`"},
    {"color", "false", "", "write `never`"},

    {"export", "pytorch", "", "write `dtensor`, or `hf-tp-plan`"},
    {"export", "torch", "", "write `dtensor`, or `hf-tp-plan`"},
    {"export", "fsdp", "", "write `dtensor`"},
    {"export", "transformers", "", "write `hf-tp-plan`"},
    {"export", "huggingface", "", "write `hf-tp-plan`"},
    {"export", "hf", "", "write `hf-tp-plan`"},
    {"export", "flax", "", "write `jax`"},
    {"export", "python", "", "write `jax`"},
    {"export", "yaml", "", "YAML reads JSON: write `jax-json`"},
    {"export", "xla", "", "write `hlo`"},
    {"export", "mermaid", "", "write `dot`"},
    {"export", "graphviz", "", "write `dot`"},
    {"import", "transformers", "", "write `hf-tp-plan`"},
    {"import", "hf", "", "write `hf-tp-plan`"},
    {"import", "pytorch", "", "write `dtensor`, or `hf-tp-plan`"},
    {"import", "xla", "", "write `hlo`"},
    {"import", "haliax", "", "write `levanter`"},

    {"file", "illegal", "",
     "write `policy: {illegal: pad}`, or `illegal: pad` in a rule"},
    {"file", "unmatched", "", "write `policy: {unmatched: replicate}`"},
    {"file", "min-size", "",
     "write `policy: {min_size: 1024}`, or `min_size: 1024` in a rule"},
    {"file", "compat", "", "write `policy: {compat: eformer}`"},

    {"rule", "pattern", "", "write `match`"},
    {"rule", "regex", "", "write `match`"},
    {"rule", "path", "", "write `match`"},
    {"rule", "name", "", "write `match`"},
    {"rule", "param", "", "write `match`"},
    {"rule", "parameter", "", "write `match`"},
    {"rule", "sharding", "", "write `spec`"},
    {"rule", "partition-spec", "", "write `spec`"},
    {"rule", "partition", "", "write `spec`"},
    {"rule", "axes", "", "write `spec`"},
    {"rule", "shard", "", "write `spec`"},
    {"rule", "layout", "", "write `spec`"},

    {"file", "partition-rules", "EasyDeL", "write `rules`"},
    {"file", "partition-rule", "", "write `rules`"},
    {"file", "sharding-rules", "", "write `rules`"},
    {"file", "logical-axis-rules", "MaxText",
     "`shardc import maxtext` converts such rules; axis rules are `axes: "
     "{head: "
     "tp}` here"},
    {"file", "base-model-tp-plan", "transformers",
     "`shardc import hf-tp-plan` converts it"},
    {"file", "tp-plan", "transformers",
     "`shardc import hf-tp-plan` converts it"},
    {"file", "mesh", "",
     "a mesh is given by `--mesh`, or in a project by a target: `targets: "
     "{train: {mesh: FILE}}`"},
    {"file", "manifest", "",
     "a manifest is given by `--manifest`, or in a project by a target: "
     "`targets: {train: {manifest: FILE}}`"},
    {"file", "target", "", "write `targets: {NAME: {mesh: FILE, ...}}`"},
    {"mesh", "mesh-shape", "JAX",
     "write each axis with its size: `axes: {fsdp: 4, tp: 2}`"},
    {"mesh", "shape", "JAX",
     "write each axis with its size: `axes: {fsdp: 4, tp: 2}`"},
    {"mesh", "axis-names", "JAX",
     "write each axis with its size: `axes: {fsdp: 4, tp: 2}`"},
    {"mesh", "mesh-axes", "MaxText",
     "write each axis with its size: `axes: {fsdp: 4, tp: 2}`"},
    {"mesh", "mesh-dim-names", "PyTorch",
     "write each axis with its size: `axes: {fsdp: 4, tp: 2}`"},
    {"mesh", "device-mesh", "PyTorch",
     "write each axis with its size: `axes: {fsdp: 4, tp: 2}`"},
    {"mesh", "tensor-parallel-size", "vLLM",
     "write it as an axis: `axes: {tp: 4}`"},
    {"mesh", "num-devices", "", "write `devices`"},
    {"mesh", "num-slices", "MaxText", "write `slices`"},
    {"mesh", "hosts", "", "write `processes`"},
    {"mesh", "nodes", "", "write `processes`"},
    {"mesh", "accelerator", "", "write `device`"},
    {"mesh", "gpu", "", "write `device`"},
    {"mesh", "profile", "", "write `device`"},

    {"bundle", "colwise", "transformers", "write `ColumnWise`"},
    {"bundle", "colwise-rep", "transformers", "write `ColumnWise`"},
    {"bundle", "colwiseparallel", "PyTorch", "write `ColumnWise`"},
    {"bundle", "columnparallel", "Megatron-LM", "write `ColumnWise`"},
    {"bundle", "column-parallel", "Megatron-LM", "write `ColumnWise`"},
    {"bundle", "rowwise", "transformers", "write `RowWise`"},
    {"bundle", "rowwise-rep", "transformers", "write `RowWise`"},
    {"bundle", "rowwiseparallel", "PyTorch", "write `RowWise`"},
    {"bundle", "rowparallel", "Megatron-LM", "write `RowWise`"},
    {"bundle", "row-parallel", "Megatron-LM", "write `RowWise`"},
    {"bundle", "replicate", "", "write `Replicated`"},
    {"bundle", "replicate()", "PyTorch", "write `Replicated`"},
    {"bundle", "none", "", "write `Replicated`"},
    {"bundle", "shard(0)", "PyTorch",
     "write a list with the axis of the mesh at dimension 0, such as `[tp]`"},
    {"bundle", "shard(1)", "PyTorch",
     "write a list with the axis of the mesh at dimension 1, such as `[null, "
     "tp]`"},
    {"axis", "tensor", "MaxText",
     "write `tp`, or the name that the mesh gives this axis"},
    {"axis", "model", "",
     "write `tp`, or the name that the mesh gives this axis"},
    {"axis", "mp", "", "write `tp`, or the name that the mesh gives this axis"},
    {"axis", "data", "",
     "write `dp`, or `fsdp` for parameters that are sharded over the data"},
    {"axis", "expert", "MaxText",
     "write `ep`, or the name that the mesh gives this axis"},
    {"axis", "context", "MaxText",
     "write `sp`, or the name that the mesh gives this axis"},
    {"axis", "cp", "Megatron-LM",
     "write `sp`, or the name that the mesh gives this axis"},
    {"axis", "sequence", "MaxText",
     "write `sp`, or the name that the mesh gives this axis"},
    {"axis", "pp", "",
     "the stages of a pipeline are in no spec: declare `stages: {axis: pp}`"},
    {"axis", "stage", "MaxText",
     "the stages of a pipeline are in no spec: declare `stages: {axis: "
     "stage}`"},

    {"option", "--micro-batch-size", "Megatron-LM",
     "`--batch` is the batch of all devices, and `--microbatches` the number "
     "of parts that a step divides it into"},
    {"option", "--per-device-train-batch-size", "transformers",
     "write `--batch`, which counts the rows of all devices"},
    {"option", "--per-device-batch-size", "MaxText",
     "write `--batch`, which counts the rows of all devices"},
    {"option", "--train-micro-batch-size-per-gpu", "DeepSpeed",
     "write `--batch`, which counts the rows of all devices"},
    {"option", "--local-batch-size", "torchtitan",
     "write `--batch`, which counts the rows of all devices"},
    {"option", "--max-num-batched-tokens", "vLLM",
     "write `--set max_batched_tokens=N`, with `--engine vllm`"},
    {"option", "--gpu-memory-utilization", "vLLM",
     "write the bytes of a device that may be used as `--memory`, such as "
     "`--memory 72GiB`"},
    {"option", "--mem-fraction-static", "SGLang",
     "write the bytes of a device that may be used as `--memory`, such as "
     "`--memory 72GiB`"},
    {"option", "--stages", "",
     "`schedule` has them as `--ranks N` and `--virtual N`; `cost` and "
     "`search` "
     "take the axis of the stages, `--stages AXIS`"},
    {"option", "--schedule", "",
     "`schedule` takes it without an option: `shardc schedule 1f1b --ranks 4`; "
     "`cost` and `search` take `--schedule NAME`"},
    {"option", "--port", "",
     "an editor starts the program and connects to its standard input and "
     "output"},
    {"option", "--heads", "",
     "write it in `--attention`: `--attention "
     "heads=32,kv_heads=8,head_dim=128`"},
    {"option", "--num-heads", "",
     "write it in `--attention`: `--attention "
     "heads=32,kv_heads=8,head_dim=128`"},
    {"option", "--num-attention-heads", "Megatron-LM",
     "write it in `--attention`: `--attention "
     "heads=32,kv_heads=8,head_dim=128`"},
    {"option", "--kv-heads", "",
     "write it in `--attention`: `--attention "
     "heads=32,kv_heads=8,head_dim=128`"},
    {"option", "--head-dim", "",
     "write it in `--attention`: `--attention "
     "heads=32,kv_heads=8,head_dim=128`"},

    {"format", "html", "", "`shardc report` writes a page in HTML"},
    {"format", "yaml", "", "YAML reads JSON: write `json`"},
    {"format", "md", "", "write `markdown`"},
    {"format", "plain", "", "write `text`"},
    {"format", "table", "", "write `text`"},
    {"format", "xml", "", "JUnit's form is XML: write `junit`"},
};

// The advice for a word that neither this program nor the table has.
struct Otherwise {
  char setting[14];
  char write[220];
};

constexpr Otherwise kOtherwise[] = {
    {"profile",
     "describe it in a file with `base:` of the nearest one, and write "
     "`--profile FILE`: `man shardc-profile` has the keys; `shardc cost "
     "--profiles` lists the figures of these"},
    {"optimizer",
     "write the one whose states have the same size: `adamw` has two of a "
     "parameter's size, `momentum`, `lion` and `muon` one, `sgd` none"},
    {"stack",
     "write the nearest one: `xla` for JAX, TPUs and Neuron, `compiled` or "
     "`eager` for PyTorch, `megatron` for Transformer Engine"},
    {"engine",
     "describe it in a file, and write `--engine FILE`: `man shardc-engine` "
     "has the keys"},
    {"served-dtype",
     "write the format with as many bits: `fp8` has 8, `int4` 4"},
    {"shell",
     "source the script of `shardc completion bash` in a shell that "
     "reads it"},
};

// Returns the name without the module of Python before it, if it is a dtype:
// `torch.bfloat16` -> `bfloat16`.
std::string_view DtypeInModule(std::string_view word) {
  constexpr std::string_view kDtypes[] = {
      "bfloat16", "float16", "float32",       "float64",
      "int8",     "half",    "float8_e4m3fn", "float8_e5m2"};
  const size_t dot = word.rfind('.');
  if (dot == std::string_view::npos) return {};
  word.remove_prefix(dot + 1);
  return std::find(std::begin(kDtypes), std::end(kDtypes), word) ==
                 std::end(kDtypes)
             ? std::string_view()
             : word;
}

}  // namespace

std::string HelpForOtherWord(std::string_view setting, std::string_view word) {
  std::string folded = FoldCase(word);
  std::replace(folded.begin(), folded.end(), '_', '-');
  for (const OtherWord& row : kOtherWords) {
    if (row.setting != setting || row.word != folded) continue;
    const std::string_view systems = row.systems;
    if (systems.empty()) return row.write;
    return ShortQuote(word) + " is a word of " + std::string(systems) + ": " +
           row.write;
  }
  const std::string_view dtype = DtypeInModule(word);
  if (setting.ends_with("dtype") && !dtype.empty()) {
    return "write `" + std::string(dtype) + "`";
  }
  return {};
}

std::string HelpForUnknownWord(std::string_view setting) {
  for (const Otherwise& row : kOtherwise) {
    if (row.setting == setting) return row.write;
  }
  return {};
}

void RefuseWord(Place place, std::string_view flag, const std::string& word,
                std::span<const std::string_view> known, Findings& findings) {
  std::string setting(
      flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
  std::replace(setting.begin(), setting.end(), '_', '-');
  std::string help = HelpForOtherWord(setting, word);
  if (help.empty()) help = DidYouMean(word, known, HelpForUnknownWord(setting));
  findings.Add(code::kUsage, std::move(place),
               ShortQuote(word) + " is none of: " + Join(known, ", "),
               std::move(help));
}

}  // namespace shardc
