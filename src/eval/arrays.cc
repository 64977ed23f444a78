// Implements the functions of `shardc eval` that compute arrays: rotary
// embedding, repetition of heads, quantisation of rows to int8, updates of the
// KV cache, and attention. Attention is computed by the dense reference. The
// other functions run the kernels that `shardc verify` runs. For example:
//
//   rotate_half {"x": [1, 2, 3, 4]}  ->  {"y": [-3, -4, 1, 2]}
#include <algorithm>
#include <cmath>

#include "dense/attention.h"
#include "eval/call.h"
#include "exec/attention/rotary.h"
#include "exec/cache/kv_cache.h"
#include "exec/kernels/arithmetic.h"
#include "source/size.h"

namespace shardc::eval {
namespace {

std::vector<float> Floats(const dense::Array& x) {
  return {x.data.begin(), x.data.end()};
}

std::vector<double> Doubles(std::span<const float> x) {
  return {x.begin(), x.end()};
}

// Arrays with a last dimension, and arrays with four dimensions.
constexpr ArrayForm kRows{.least = 1};
constexpr ArrayForm kRank4{.least = 4, .most = 4};
constexpr ArrayForm kWideRank4{.least = 4, .most = 4, .wide = true};

// Returns the number of elements in a row, which is the size of the last
// dimension. The result is at least 1, so that an array without elements is
// valid and has no rows.
size_t RowOf(const dense::Array& x) {
  return std::max<size_t>(1, AsIndex(x.shape.back()));
}

bool RotateHalf(Call& call, Reply& reply) {
  const dense::Array x = call.Array("x", kRows);
  if (!call.Finish() || !call.Reserve({x.shape})) return false;
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
  constexpr ArrayForm kFactors{.least = 1, .most = 1, .wide = true};
  if (call.Has("short_factor")) {
    scaling.short_factors = call.Array("short_factor", kFactors).data;
  }
  if (call.Has("long_factor")) {
    scaling.long_factors = call.Array("long_factor", kFactors).data;
  }
  // As in the reference, the list that this length does not use is not read.
  const bool is_long = length > scaling.original_length;
  const auto& used = is_long ? scaling.long_factors : scaling.short_factors;
  if (!used.empty()) {
    (is_long ? scaling.short_factors : scaling.long_factors) = used;
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
  const Shape table = {length, std::max<int64_t>(dim, 0)};
  if (!call.Reserve({table, table})) return false;
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
  reply.Array("sin", table, sin);
  reply.Array("cos", table, cos);
  return true;
}

// Returns the offset of the row [b, h, s] in an array of rank 4. A dimension of
// size 1 is broadcast.
size_t RowAt(const Shape& shape, const Shape& index) {
  int64_t at = 0;
  for (size_t i = 0; i < 3; ++i) {
    at = at * shape[i] + (shape[i] == 1 ? 0 : index[i]);
  }
  return AsIndex(at * shape[3]);
}

// Applies a rotary embedding to `tensor` [b, h, s, d]. Of `sin` and `cos`, the
// first s rows of each table are used. As in the reference, all three arrays
// are then broadcast, so that there may be a table for each head, or one for
// all.
bool ApplyRotary(Call& call, Reply& reply) {
  const dense::Array x = call.Array("tensor", kRank4);
  const dense::Array sine = call.Array("sin", kRank4);
  const dense::Array cosine = call.Array("cos", kRank4);
  if (!call.Finish()) return false;
  Shape shape = x.shape;
  for (const dense::Array* table : {&sine, &cosine}) {
    for (size_t i = 0; i < shape.size(); ++i) {
      const int64_t size =
          i == 2 ? std::min(table->shape[i], x.shape[i]) : table->shape[i];
      if (shape[i] == 1) {
        shape[i] = size;
      } else if (size != 1 && size != shape[i]) {
        call.Fail("`sin` and `cos` do not fit `tensor`",
                  "they have shape [b or 1, h or 1, s or more, d]");
        return false;
      }
    }
  }
  if (!call.Reserve({x.shape, shape})) return false;
  const std::vector<float> in = Floats(x);
  std::vector<float> rotated(in.size());
  const size_t dim = RowOf(x);
  for (size_t at = 0; at < in.size(); at += dim) {
    exec::RotateHalf(std::span(in).subspan(at, dim),
                     std::span(rotated).subspan(at, dim));
  }
  std::vector<double> out;
  const auto part = [&](const Shape& of, int64_t d) {
    return of[3] == 1 ? 0 : AsIndex(d);
  };
  for (int64_t row = 0; row < shape[0] * shape[1] * shape[2]; ++row) {
    const Shape index = {row / shape[2] / shape[1], row / shape[2] % shape[1],
                         row % shape[2]};
    const size_t from = RowAt(x.shape, index), sin = RowAt(sine.shape, index),
                 cos = RowAt(cosine.shape, index);
    for (int64_t d = 0; d < shape[3]; ++d) {
      const size_t i = from + part(x.shape, d);
      const auto s = static_cast<float>(sine.data[sin + part(sine.shape, d)]);
      const auto c =
          static_cast<float>(cosine.data[cos + part(cosine.shape, d)]);
      out.push_back(in[i] * c + rotated[i] * s);
    }
  }
  reply.Array("y", shape, out);
  return true;
}

// Repeats each KV head `n_rep` times; 0 leaves no heads. The heads are
// dimension 1 in the layout bnsh, and dimension 2 in the layout bsnh.
bool RepeatKv(Call& call, Reply& reply) {
  const dense::Array x = call.Array("x", kRank4);
  const int64_t times = call.Integer("n_rep");
  const std::string layout = call.TextOr("layout", "bnsh");
  if (layout != "bnsh" && layout != "bsnh") {
    call.Fail("layout `" + layout + "` is neither bnsh nor bsnh");
  }
  if (times < 0) call.Fail("`n_rep` is negative");
  if (!call.Finish() || !call.Reserve({{times}})) return false;
  const bool heads_first = layout == "bnsh";
  Shape shape = x.shape;
  int64_t& heads = shape[heads_first ? 1 : 2];
  heads *= times;
  if (!call.Reserve({shape})) return false;
  const int64_t inner = heads_first ? x.shape[2] * x.shape[3] : x.shape[3];
  reply.Array("y", shape, Doubles(exec::RepeatBlocks(Floats(x), inner, times)));
  return true;
}

bool QuantizeRows(Call& call, Reply& reply) {
  const dense::Array x = call.Array("x", kRows);
  const double threshold = call.NumberOr("threshold", 0);
  if (!call.Finish()) return false;
  if (x.shape.back() == 0) {
    call.Fail("`x` has rows without numbers, which have no largest magnitude");
    return false;
  }
  if (!call.Reserve({x.shape, x.shape, x.shape})) return false;
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
  scales.back() = 1;
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
    Put("key", view.key, reply, &key);
    Put("value", view.value, reply, &value);
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

  // Writes all of a tensor of the cache. `tokens` are those of this step, if
  // the tensor is one that attention reads: as in the reference, attention
  // reads them as they were given, and only older tokens rounded to int8.
  void Put(std::string_view name, const exec::ShardedTensor& tensor,
           Reply& reply, const dense::Array* tokens = nullptr) const {
    exec::LayoutError why;
    const auto all = exec::Gather(mesh_, tensor, why);
    if (!all) return;
    std::vector<double> data(all->real.begin(), all->real.end());
    data.insert(data.end(), all->integers.begin(), all->integers.end());
    if (tokens != nullptr) {
      const auto written = static_cast<int64_t>(tokens->data.size());
      const int64_t batch = cache_.config.batch, row = written / batch;
      const int64_t token = cache_.config.key_heads * cache_.config.head_dim;
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t end =
            (b * cache_.config.max_length + cache_.index[0]) * token;
        std::copy_n(tokens->data.begin() + b * row, row,
                    data.begin() + end - row);
      }
    }
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

std::optional<CacheStep> StepOf(Call& call, const exec::CacheConfig& config,
                                int64_t parts) {
  CacheStep step;
  step.key = call.Array("key", kRank4);
  step.value = call.Array("value", kRank4);
  if (call.Has("mask")) step.mask = call.Array("mask", kRank4);
  if (!call.Finish()) return std::nullopt;
  const Shape wanted = {config.batch, step.key.shape[1], config.key_heads,
                        config.head_dim};
  if (step.key.shape != wanted || step.value.shape != wanted) {
    call.Fail("`key` and `value` do not fit the cache",
              "they have shape [batch, tokens, heads, head_dim]");
    return std::nullopt;
  }
  if (!step.mask.shape.empty()) {
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
  // The devices of `sp` hold copies of the tokens. The reply has the cache, the
  // integers and scales of one that is quantised, and the mask.
  const Shape cache = {config.batch, config.max_length, config.key_heads,
                       config.head_dim};
  const Shape mask = {config.batch, wanted[1], config.max_length};
  if (!call.Reserve({{parts, config.batch * wanted[1],
                      config.key_heads * config.head_dim},
                     cache,
                     cache,
                     mask}) ||
      (config.dtype == Dtype::kI8 && !call.Reserve({cache, cache, cache}))) {
    return std::nullopt;
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
  // A simulated device without numbers takes as much memory as about 64.
  constexpr int64_t kOfDevice = 64;
  if (!call.Finish() || !call.Reserve({{config.batch, config.max_length,
                                        config.key_heads, config.head_dim},
                                       {parts, kOfDevice}})) {
    return false;
  }
  auto run = CacheRun::Make(config, parts, call);
  if (!run) return false;
  reply.json().Key("steps");
  reply.json().BeginArray();
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto step = StepOf(calls[i], config, parts);
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
  dense::Array mask = call.Array("mask", {.least = 2, .most = 4, .wide = true});
  const Shape& s = mask.shape;
  if (s.size() == 2) mask.shape = {s[0], 1, 1, s[1]};
  if (s.size() == 3) mask.shape = {s[0], 1, s[1], s[2]};
  return mask;
}

std::vector<int64_t> IdsOf(Call& call, std::string_view key) {
  std::vector<int64_t> ids;
  for (const double id :
       call.Array(key, {.least = 2, .most = 2, .wide = true}).data) {
    // Every integer of this size is a float64.
    if (!(std::fabs(id) <= 0x1p53) || id != std::trunc(id)) {
      call.Fail("`" + std::string(key) + "` has a number that is no id",
                "ids are integers");
      return {};
    }
    ids.push_back(static_cast<int64_t>(id));
  }
  return ids;
}

// Reads how many positions a window reaches to one side.
std::optional<int64_t> SideOf(Call& call, std::string_view key) {
  if (!call.Has(key)) return std::nullopt;
  // No position is as large, so a wider window has the same keys.
  constexpr int64_t kWidest = int64_t{1} << 40;
  return std::clamp(call.Integer(key), -kWidest, kWidest);
}

bool Attention(Call& call, Reply& reply) {
  dense::Inputs in;
  dense::Options options;
  options.mean_of_masked = call.Flag("mean_of_masked", true);
  in.query = call.Array("query", kWideRank4);
  in.key = call.Array("key", kWideRank4);
  in.value = call.Array("value", kWideRank4);
  if (call.Has("softmax_scale")) options.scale = call.Number("softmax_scale");
  options.soft_cap = call.NumberOr("soft_cap", 0);
  options.causal = call.Flag("causal", false);
  options.left = SideOf(call, "left");
  options.right = SideOf(call, "right");
  if (call.Has("bias")) in.bias = call.Array("bias", kWideRank4);
  if (call.Has("mask")) in.mask = MaskOf(call);
  if (call.Has("softmax_aux")) {
    in.sinks = call.Array("softmax_aux", {.most = 2, .wide = true});
    if (in.sinks.shape.empty()) in.sinks.shape = {1};
  }
  if (call.Has("q_segment_ids")) {
    in.query_segments = IdsOf(call, "q_segment_ids");
    in.key_segments = IdsOf(call, "kv_segment_ids");
  } else {
    call.Find("kv_segment_ids");
  }
  if (!call.Finish()) return false;
  const Shape &q = in.query.shape, &v = in.value.shape;
  if (q[3] == 0 && !options.scale) {
    call.Fail("`query` has heads without numbers, which have no scale",
              "give `softmax_scale`");
    return false;
  }
  if (!call.Reserve({{q[0], q[1], q[2], v[3]}, {q[0], q[2], q[1], v[1]}})) {
    return false;
  }
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
