// Implements the functions of `shardc eval` that compute arrays: rotary
// embedding, repetition of heads, quantisation of rows to int8, updates of the
// KV cache, and attention. Attention is computed by the dense reference. The
// other functions run the kernels that `shardc verify` runs. For example:
//
//   rotate_half {"x": [1, 2, 3, 4]}  ->  {"y": [-3, -4, 1, 2]}
#include <algorithm>

#include "dense/attention.h"
#include "eval/call.h"
#include "exec/attention/rotary.h"
#include "exec/cache/kv_cache.h"
#include "exec/kernels/quantize.h"
#include "source/index.h"

namespace shardc::eval {
namespace {

std::vector<float> Floats(const dense::Array& x) {
  return {x.data.begin(), x.data.end()};
}

std::vector<double> Doubles(std::span<const float> x) {
  return {x.begin(), x.end()};
}

// Returns the number of elements in a row, which is the size of the last
// dimension. The result is at least 1, so that an array without elements is
// valid and has no rows.
size_t RowOf(const dense::Array& x) {
  return x.shape.empty() ? 1 : std::max<size_t>(1, AsIndex(x.shape.back()));
}

bool RotateHalf(Call& call, Reply& reply) {
  const dense::Array x = call.Array("x");
  if (!call.Finish()) return false;
  const std::vector<float> in = Floats(x);
  std::vector<float> out(in.size());
  const size_t row = RowOf(x);
  for (size_t at = 0; at < in.size(); at += row) {
    exec::RotateHalf(std::span(in).subspan(at, row),
                     std::span(out).subspan(at, row));
  }
  reply.Array("y", x.shape, Doubles(out));
  return true;
}

bool Frequencies(Call& call, Reply& reply) {
  exec::RopeScaling scaling;
  const int64_t dim = call.Integer("dim");
  const int64_t length = call.Integer("max_position_embeddings");
  const double base = call.Number("base");
  const std::string name = call.TextOr("rope_type", "default");
  const auto kind = exec::ParseRopeKind(name);
  if (!kind) call.Fail("there is no rope type `" + name + "`");
  scaling.kind = kind.value_or(exec::RopeKind::kNone);
  scaling.factor = call.NumberOr("scaling_factor", 1);
  scaling.original_length =
      call.IntegerOr("original_max_position_embeddings", 0);
  if (call.Has("short_factor")) {
    scaling.short_factors = call.Array("short_factor", 1, true).data;
  }
  if (call.Has("long_factor")) {
    scaling.long_factors = call.Array("long_factor", 1, true).data;
  }
  scaling.beta_fast = call.NumberOr("beta_fast", scaling.beta_fast);
  scaling.beta_slow = call.NumberOr("beta_slow", scaling.beta_slow);
  scaling.low_frequency_factor =
      call.NumberOr("low_freq_factor", scaling.low_frequency_factor);
  scaling.high_frequency_factor =
      call.NumberOr("high_freq_factor", scaling.high_frequency_factor);
  if (length < 0 || length > (int64_t{1} << 24)) {
    call.Fail("`max_position_embeddings` is not between 0 and 16777216");
  }
  if (!call.Finish()) return false;
  std::string why;
  const auto found = exec::Frequencies(dim, base, length, scaling, why);
  if (!found) {
    call.Fail(why);
    return false;
  }
  std::vector<double> sin, cos;
  for (int64_t p = 0; p < length; ++p) {
    const exec::RopeRow row = exec::RowAt(*found, p);
    sin.insert(sin.end(), row.sin.begin(), row.sin.end());
    cos.insert(cos.end(), row.cos.begin(), row.cos.end());
  }
  const Shape shape = {
      length, length > 0 ? static_cast<int64_t>(sin.size()) / length : 0};
  reply.Array("sin", shape, sin);
  reply.Array("cos", shape, cos);
  return true;
}

// Applies a rotary embedding to `tensor` [b, h, s, d]. `sin` and `cos` must
// have the shape [b or 1, 1, s or more, d].
bool ApplyRotary(Call& call, Reply& reply) {
  const dense::Array x = call.Array("tensor", 4);
  const dense::Array sine = call.Array("sin", 4);
  const dense::Array cosine = call.Array("cos", 4);
  if (!call.Finish()) return false;
  if (sine.shape != cosine.shape || sine.shape[1] != 1 ||
      sine.shape[3] != x.shape[3] || sine.shape[2] < x.shape[2] ||
      (sine.shape[0] != 1 && sine.shape[0] != x.shape[0])) {
    call.Fail("`sin` and `cos` do not fit `tensor`",
              "they have shape [b or 1, 1, s or more, d]");
    return false;
  }
  const std::vector<float> sin = Floats(sine), cos = Floats(cosine);
  std::vector<float> out = Floats(x);
  const size_t dim = RowOf(x);
  const size_t length = AsIndex(x.shape[2]);
  const size_t rows = AsIndex(x.shape[1]) * length;
  for (size_t row = 0; row * dim < out.size(); ++row) {
    const size_t b = sine.shape[0] == 1 ? 0 : row / rows;
    const size_t at = (b * AsIndex(sine.shape[2]) + row % length) * dim;
    exec::ApplyRotary(std::span(out).subspan(row * dim, dim),
                      std::span(sin).subspan(at, dim),
                      std::span(cos).subspan(at, dim));
  }
  reply.Array("y", x.shape, Doubles(out));
  return true;
}

// Repeats each KV head `n_rep` times. The heads are dimension 1 in the layout
// bnsh, and dimension 2 in the layout bsnh.
bool RepeatKv(Call& call, Reply& reply) {
  const dense::Array x = call.Array("x", 4);
  const int64_t times = call.Integer("n_rep");
  const std::string layout = call.TextOr("layout", "bnsh");
  if (layout != "bnsh" && layout != "bsnh") {
    call.Fail("layout `" + layout + "` is neither bnsh nor bsnh");
  }
  if (times < 1 || times > 4096) call.Fail("`n_rep` is not in 1 to 4096");
  if (!call.Finish()) return false;
  const bool heads_first = layout == "bnsh";
  Shape shape = x.shape;
  shape[heads_first ? 1 : 2] *= times;
  const int64_t inner = heads_first ? x.shape[2] * x.shape[3] : x.shape[3];
  reply.Array("y", shape, Doubles(exec::RepeatBlocks(Floats(x), inner, times)));
  return true;
}

bool QuantizeRows(Call& call, Reply& reply) {
  const dense::Array x = call.Array("x");
  const double threshold = call.NumberOr("threshold", 0);
  if (!call.Finish()) return false;
  const std::vector<float> in = Floats(x);
  const size_t row = RowOf(x);
  std::vector<double> q, scale, back;
  for (size_t at = 0; at < in.size(); at += row) {
    std::vector<int8_t> values(row);
    scale.push_back(exec::QuantizeInt8(std::span(in).subspan(at, row), values));
    for (int8_t value : values) {
      q.push_back(value);
      back.push_back(exec::DequantizeInt8(value,
                                          static_cast<float>(scale.back()),
                                          static_cast<float>(threshold)));
    }
  }
  Shape scales = x.shape;
  if (!scales.empty()) scales.back() = 1;
  reply.Array("q", x.shape, q, Dtype::kI8);
  reply.Array("scale", scales, scale);
  reply.Array("dequantized", x.shape, back);
  return true;
}

exec::Buffer BufferOf(const dense::Array& x) {
  exec::Buffer out = exec::Buffer::Zeros(x.shape, Dtype::kF32);
  std::copy(x.data.begin(), x.data.end(), out.real.begin());
  return out;
}

// Runs the steps of a call on a KV cache. The length of the cache is sharded
// over an axis `sp` of `parts` devices.
class CacheRun {
 public:
  static std::optional<CacheRun> Make(const exec::CacheConfig& config,
                                      int64_t parts, Call& call) {
    Mesh mesh;
    mesh.axes.push_back({"sp", parts});
    mesh.devices = parts;
    exec::SimMesh devices(mesh);
    exec::LayoutError why;
    auto cache = exec::MakeCache(devices, config, {{}, {"sp"}}, why);
    if (!cache) {
      call.Fail(why.message, why.help);
      return std::nullopt;
    }
    return CacheRun(std::move(devices), std::move(*cache));
  }

  bool Step(const dense::Array& key, const dense::Array& value,
            const dense::Array& mask, Call& call, Reply& reply) {
    exec::Machine machine(mesh_);
    exec::LayoutError why;
    if (!exec::AppendTokens(machine, cache_, Scattered(key), Scattered(value),
                            {}, why)) {
      call.Fail(why.message, why.help);
      return false;
    }
    reply.json().Member("index", cache_.index[0]);
    const auto view = exec::ViewCache(machine, cache_, Dtype::kF32);
    Put("key", view.key, reply);
    Put("value", view.value, reply);
    if (cache_.IsQuantized()) {
      Put("cached_key", cache_.key, reply);
      Put("cached_value", cache_.value, reply);
      Put("cached_key_scale", cache_.key_scale, reply);
      Put("cached_value_scale", cache_.value_scale, reply);
    }
    PutMask(key.shape[1], mask, reply);
    return true;
  }

 private:
  CacheRun(exec::SimMesh mesh, exec::KvCache cache)
      : mesh_(std::move(mesh)), cache_(std::move(cache)) {}

  exec::ShardedTensor Scattered(const dense::Array& x) const {
    return exec::Scatter(mesh_, BufferOf(x), {});
  }

  void Put(std::string_view name, const exec::ShardedTensor& tensor,
           Reply& reply) const {
    exec::LayoutError why;
    const auto all = exec::Gather(mesh_, tensor, why);
    if (!all) return;
    std::vector<double> data(all->real.begin(), all->real.end());
    data.insert(data.end(), all->integers.begin(), all->integers.end());
    reply.Array(name, all->shape, data, all->dtype);
  }

  // Writes a mask [batch, 1, rows, slots]. An element is 1 if its slot has been
  // written and the caller's mask, if there is one, is not 0 there.
  void PutMask(int64_t rows, const dense::Array& mask, Reply& reply) const {
    const Shape shape = {cache_.config.batch, 1, rows,
                         cache_.config.max_length};
    std::vector<double> out;
    for (int64_t b = 0; b < shape[0]; ++b) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t slot = 0; slot < shape[3]; ++slot) {
          const bool own =
              mask.empty() ||
              mask.At(b % mask.shape[0], 0, row % mask.shape[2], slot) != 0;
          out.push_back(own && slot < cache_.index[0] ? 1 : 0);
        }
      }
    }
    reply.Array("mask", shape, out);
  }

  exec::SimMesh mesh_;
  exec::KvCache cache_;
};

// The keys and values that one step appends to the cache, and the caller's
// mask. StepOf() checks that their shapes fit the cache.
struct CacheStep {
  dense::Array key, value, mask;
};

std::optional<CacheStep> StepOf(Call& call, const exec::CacheConfig& config) {
  CacheStep step;
  step.key = call.Array("key", 4);
  step.value = call.Array("value", 4);
  if (call.Has("mask")) step.mask = call.Array("mask", 4);
  if (!call.Finish()) return std::nullopt;
  const Shape wanted = {config.batch, step.key.shape[1], config.key_heads,
                        config.head_dim};
  if (step.key.shape != wanted || step.value.shape != wanted) {
    call.Fail("`key` and `value` do not fit the cache",
              "they have shape [batch, tokens, heads, head_dim]");
    return std::nullopt;
  }
  if (!step.mask.empty()) {
    const auto fits = [&](size_t dim, int64_t size) {
      return step.mask.shape[dim] == size || step.mask.shape[dim] == 1;
    };
    if (!fits(0, config.batch) || step.mask.shape[1] != 1 ||
        !fits(2, wanted[1]) || step.mask.shape[3] != config.max_length) {
      call.Fail("`mask` does not fit the cache",
                "it has shape [batch or 1, 1, tokens or 1, max_length]");
      return std::nullopt;
    }
  }
  return step;
}

bool UpdateCache(Call& call, Reply& reply) {
  exec::CacheConfig config;
  config.batch = call.Integer("batch");
  config.max_length = call.Integer("max_length");
  config.key_heads = call.Integer("num_heads");
  config.head_dim = call.Integer("head_dim");
  config.dtype = call.Flag("quantize", false) ? Dtype::kI8 : Dtype::kF32;
  const int64_t parts = call.IntegerOr("sp", 1);
  auto calls = call.Calls("steps");
  for (int64_t size : {config.batch, config.max_length, config.key_heads,
                       config.head_dim, parts}) {
    if (size < 1 || size > (int64_t{1} << 20)) {
      call.Fail("a size of the cache is not between 1 and 1048576");
      break;
    }
  }
  if (!call.Finish()) return false;
  auto run = CacheRun::Make(config, parts, call);
  if (!run) return false;
  reply.json().Key("steps");
  reply.json().BeginArray();
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto step = StepOf(calls[i], config);
    if (!step) return false;
    reply.json().BeginObject();
    Reply inner = reply.Inside("steps/" + std::to_string(i) + "/");
    if (!run->Step(step->key, step->value, step->mask, calls[i], inner)) {
      return false;
    }
    reply.json().EndObject();
  }
  reply.json().EndArray();
  return true;
}

// Reads a mask. Reshapes [b, s] to [b, 1, 1, s], and [b, t, s] to [b, 1, t, s].
// In this form, the mask broadcasts over attention's [b, heads, t, s].
dense::Array MaskOf(Call& call) {
  dense::Array mask = call.Array("mask");
  const Shape& s = mask.shape;
  if (s.size() == 2) mask.shape = {s[0], 1, 1, s[1]};
  if (s.size() == 3) mask.shape = {s[0], 1, s[1], s[2]};
  return mask;
}

std::vector<int64_t> IdsOf(Call& call, std::string_view key) {
  const dense::Array ids = call.Array(key, 2, true);
  return {ids.data.begin(), ids.data.end()};
}

bool Attention(Call& call, Reply& reply) {
  dense::Inputs in;
  dense::Options options;
  options.mean_of_masked = call.Flag("mean_of_masked", true);
  in.query = call.Array("query", 4);
  in.key = call.Array("key", 4);
  in.value = call.Array("value", 4);
  if (call.Has("softmax_scale")) options.scale = call.Number("softmax_scale");
  options.soft_cap = call.NumberOr("soft_cap", 0);
  options.causal = call.Flag("causal", false);
  if (call.Has("left")) options.left = call.Integer("left");
  if (call.Has("right")) options.right = call.Integer("right");
  if (call.Has("bias")) in.bias = call.Array("bias", 4);
  if (call.Has("mask")) in.mask = MaskOf(call);
  if (call.Has("softmax_aux")) in.sinks = call.Array("softmax_aux");
  if (call.Has("q_segment_ids")) {
    in.query_segments = IdsOf(call, "q_segment_ids");
    in.key_segments = IdsOf(call, "kv_segment_ids");
  } else {
    call.Find("kv_segment_ids");
  }
  if (!call.Finish()) return false;
  std::string why;
  const auto result = dense::Attention(in, options, why, true);
  if (!result) {
    call.Fail(why);
    return false;
  }
  reply.Array("output", result->output, Dtype::kF64);
  reply.Array("weights", result->weights, Dtype::kF64);
  return true;
}

constexpr Function kOfArrays[] = {
    {"apply_rotary_pos_emb",
     "rotary embedding of [b, h, s, d]: tensor, sin, cos", ApplyRotary},
    {"attention",
     "attention in float64: query, key, value, and where wanted bias, mask, "
     "causal, left, right, q_segment_ids, kv_segment_ids, softmax_aux, "
     "soft_cap, softmax_scale",
     Attention},
    {"concatenate_to_cache",
     "a cache after each of its steps: batch, max_length, num_heads, head_dim, "
     "quantize, sp, steps of key, value and mask",
     UpdateCache},
    {"precompute_freq_cis",
     "rotary tables: dim, max_position_embeddings, base, rope_type, "
     "scaling_factor and the type's own",
     Frequencies},
    {"quantize_int8", "rows as int8 values with a scale: x, threshold",
     QuantizeRows},
    {"repeat_kv", "every head repeated in place: x, n_rep, layout", RepeatKv},
    {"rotate_half", "(x1, x2) to (-x2, x1) along the last dimension: x",
     RotateHalf},
};

}  // namespace

std::span<const Function> ArrayFunctions() { return kOfArrays; }

}  // namespace shardc::eval
