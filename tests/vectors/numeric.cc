#include "numeric.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "dense/array.h"
#include "dense/attention.h"
#include "dense/narrow.h"
#include "exec/attention/rotary.h"
#include "exec/kernels/arithmetic.h"
#include "numeric_cache.h"
#include "numeric_json.h"

namespace shardc::vectors {
namespace {

using dense::Array;

// Gives short access to the members of a case.
struct Case {
  JsonValue input;
  std::optional<JsonValue> expect;
  double rtol = 0, atol = 0;

  explicit Case(const JsonValue& c)
      : input(Need(c, "input")), expect(c.Find("expect")) {
    if (!expect) return;
    const auto tolerance = expect->Find("tolerance");
    if (!tolerance) return;
    if (auto r = tolerance->Find("rtol")) rtol = r->real();
    if (auto a = tolerance->Find("atol")) atol = a->real();
  }

  bool Has(std::string_view key) const {
    const auto value = input.Find(key);
    return value && !value->IsNull();
  }
  int64_t Int(std::string_view key) const { return Need(input, key).integer(); }
  dense::Array ArrayAt(std::string_view key, size_t rank = 0) const {
    return ArrayOf(Need(input, key), rank);
  }
  JsonValue Expected(std::string_view key) const {
    if (!expect) throw Unreadable{"no `expect`"};
    return Need(*expect, key);
  }
  std::vector<double> Want(std::string_view key) const {
    return ArrayOf(Expected(key)).data;
  }
};

// Returns the length of the last dimension, but at least 1.
size_t RowOf(const Array& x) {
  if (x.shape.empty()) throw Unreadable{"no rows"};
  // An array such as [2, 0] has no elements, so no row is read.
  return std::max<size_t>(1, static_cast<size_t>(x.shape.back()));
}

std::string RotateHalfCase(const Case& c) {
  const Array x = c.ArrayAt("x");
  const size_t row = RowOf(x);
  const std::vector<float> in = Floats(x);
  std::vector<float> out(in.size());
  for (size_t at = 0; at < in.size(); at += row) {
    exec::RotateHalf(std::span(in).subspan(at, row),
                     std::span(out).subspan(at, row));
  }
  return Compare("y", {out.begin(), out.end()}, c.Want("y"), c.rtol, c.atol);
}

// Returns the rotary embedding of dense, the reference of verify; nullopt if
// dense does not implement the scaling.
std::optional<dense::Rotary> JudgeOf(const Case& c,
                                     const exec::RopeScaling& scaling) {
  constexpr std::pair<exec::RopeKind, dense::Stretch> kKinds[] = {
      {exec::RopeKind::kNone, dense::Stretch::kNone},
      {exec::RopeKind::kLinear, dense::Stretch::kLinear},
      {exec::RopeKind::kDynamic, dense::Stretch::kDynamic},
      {exec::RopeKind::kYarn, dense::Stretch::kYarn},
      {exec::RopeKind::kLlama3, dense::Stretch::kLlama3}};
  for (const auto& [kind, stretch] : kKinds) {
    if (kind != scaling.kind) continue;
    dense::Rope rope;
    rope.base = Need(c.input, "base").real();
    rope.stretch = stretch;
    rope.factor = scaling.factor;
    rope.original_length = static_cast<double>(scaling.original_length);
    return dense::Rotary(c.Int("dim"), c.Int("max_position_embeddings"), rope,
                         dense::Pairs::kHalves);
  }
  return std::nullopt;
}

// Returns whether the rotary embedding rotates (1, 0) to the row's cos and sin.
bool Turns(const dense::Rotary& judge, int64_t position,
           const exec::RopeRow& row) {
  const size_t half = row.cos.size() / 2;
  std::vector<float> x(2 * half, 0);
  std::fill_n(x.begin(), half, 1.0f);
  judge.Rotate(position, x);
  for (size_t i = 0; i < half; ++i) {
    if (std::abs(x[i] - row.cos[i]) > 1e-7f ||
        std::abs(x[i + half] - row.sin[i]) > 1e-7f) {
      return false;
    }
  }
  return true;
}

std::string FrequencyCase(const Case& c) {
  exec::RopeScaling scaling;
  const int64_t length = c.Int("max_position_embeddings");
  std::string_view kind = "none";
  if (c.Has("rope_type")) kind = Need(c.input, "rope_type").string();
  // The source calls su "yarn" (see NumericDifferences).
  if (kind == "yarn") kind = "su";
  const auto known = exec::ParseRopeKind(kind);
  if (!known) throw Unreadable{"no such rope_type"};
  scaling.kind = *known;
  if (c.Has("scaling_factor")) {
    scaling.factor = Need(c.input, "scaling_factor").real();
  }
  if (c.Has("original_max_position_embeddings")) {
    scaling.original_length = c.Int("original_max_position_embeddings");
  }
  if (c.Has("short_factor")) {
    scaling.short_factors = c.ArrayAt("short_factor").data;
    scaling.long_factors = c.ArrayAt("long_factor").data;
  }
  std::string why;
  const auto f = exec::Frequencies(c.Int("dim"), Need(c.input, "base").real(),
                                   length, scaling, why);
  // If the source refuses the input, the library must refuse it too.
  if (!f) return c.expect ? why : std::string();
  if (!c.expect) return "accepted what the source refuses";
  std::vector<double> sin, cos;
  const std::optional<dense::Rotary> judge = JudgeOf(c, scaling);
  for (int64_t p = 0; p < length; ++p) {
    const exec::RopeRow row = exec::RowAt(*f, p);
    if (judge && !Turns(*judge, p, row)) {
      return "the judge turns otherwise at " + std::to_string(p);
    }
    sin.insert(sin.end(), row.sin.begin(), row.sin.end());
    cos.insert(cos.end(), row.cos.begin(), row.cos.end());
  }
  const std::string text = Compare("sin", sin, c.Want("sin"), c.rtol, c.atol);
  return text.empty() ? Compare("cos", cos, c.Want("cos"), c.rtol, c.atol)
                      : text;
}

std::string RotaryCase(const Case& c) {
  const Array x = c.ArrayAt("tensor", 4);   // [b, h, s, d]
  const Array table = c.ArrayAt("sin", 4);  // [b|1, 1, s or longer, d]
  const std::vector<float> sin = Floats(table);
  const std::vector<float> cos = Floats(c.ArrayAt("cos"));
  std::vector<float> out = Floats(x);
  const auto dim = RowOf(x);
  if (table.shape[3] != x.shape[3] || table.shape[2] < x.shape[2] ||
      (table.shape[0] != 1 && table.shape[0] != x.shape[0]) ||
      cos.size() != sin.size()) {
    throw Unreadable{"tables of another shape"};
  }
  const auto length = static_cast<size_t>(x.shape[2]);
  const auto rows = static_cast<size_t>(x.shape[1]) * length;
  const auto table_rows = static_cast<size_t>(table.shape[2]);
  for (size_t row = 0; row * dim < out.size(); ++row) {
    const size_t b = table.shape[0] == 1 ? 0 : row / rows;
    const size_t position = b * table_rows + row % length;
    exec::ApplyRotary(std::span(out).subspan(row * dim, dim),
                      std::span(sin).subspan(position * dim, dim),
                      std::span(cos).subspan(position * dim, dim));
  }
  return Compare("y", {out.begin(), out.end()}, c.Want("y"), c.rtol, c.atol);
}

// Returns an array [b, s, h, d] as [b, h, s, d].
std::vector<double> Swapped(const Array& x) {
  return dense::ToBthd(x, Layout::kBhtd).data;
}

std::string RepeatCase(const Case& c, std::string_view op) {
  const Array x = c.ArrayAt("x", 4);
  const int64_t times = c.Int("n_rep");
  const bool heads_first = op == "repeat_kv_bnsh";
  const int64_t inner = heads_first ? x.shape[2] * x.shape[3] : x.shape[3];
  const std::vector<float> got = exec::RepeatBlocks(Floats(x), inner, times);
  const std::vector<double> y(got.begin(), got.end());
  if (op != "repeat_kv_bsnh") return Compare("y", y, c.Want("y"));
  // The recorded function returns a transposed result if n_rep is 1, and fails
  // if it is larger.
  if (times > 1) return c.expect ? "the source did not fail" : std::string();
  return Compare("transposed y", Swapped(x), c.Want("y"));
}

std::string QuantizeCase(const Case& c) {
  const Array x = c.ArrayAt("x");
  const size_t row = RowOf(x);
  const std::vector<float> in = Floats(x);
  std::vector<double> q, scale, back, shifted;
  for (size_t at = 0; at < in.size(); at += row) {
    std::vector<int8_t> values(row);
    const float s = exec::QuantizeInt8(std::span(in).subspan(at, row), values);
    scale.push_back(s);
    // dense, the reference of verify, must quantise the row to the same
    // integers.
    std::vector<int8_t> own(row);
    if (dense::ToInt8(std::span(in).subspan(at, row), own) != s ||
        own != values) {
      return "the judge quantises otherwise";
    }
    for (int8_t value : values) {
      q.push_back(value);
      back.push_back(exec::DequantizeInt8(value, s));
      // The threshold is the source's default. The library never uses it.
      shifted.push_back(exec::DequantizeInt8(value, s, 1e-6f));
    }
  }
  const double allowed = Need(c.Expected("tolerance"), "q").real();
  for (const std::string& text :
       {Compare("q", q, c.Want("q"), 0, allowed),
        Compare("scale", scale, c.Want("scale"), c.rtol, c.atol),
        Compare("dequantized", back, c.Want("dequantized"), c.rtol, c.atol),
        Compare("dequantized with threshold", shifted,
                c.Want("dequantized_default_threshold"), c.rtol, c.atol)}) {
    if (!text.empty()) return text;
  }
  return {};
}

// Returns the mask with the four dimensions that dense takes. The source also
// takes masks of two and three dimensions.
Array MaskOf(const Case& c) {
  Array mask = c.ArrayAt("mask");
  if (mask.rank() == 2) mask.shape = {mask.dim(0), 1, 1, mask.dim(1)};
  if (mask.rank() == 3) {
    mask.shape = {mask.dim(0), 1, mask.dim(1), mask.dim(2)};
  }
  return mask;
}

// In the source, [K, H/K] and [K, 1] hold one sink per head, which dense takes
// with rank 1. With rank 2, dense takes [sinks, K].
Array SinksFrom(const Case& c, int64_t key_heads) {
  Array aux = c.ArrayAt("softmax_aux");
  if (aux.rank() == 2 && aux.dim(0) == key_heads) {
    aux.shape = {aux.dim(0) * aux.dim(1)};
  }
  return aux;
}

std::vector<int64_t> Ids(const Case& c, std::string_view key) {
  const Array x = c.ArrayAt(key);
  return {x.data.begin(), x.data.end()};
}

void TakeWindow(const JsonValue& value, dense::Options& options) {
  if (auto left = value.Find("left"); left && !left->IsNull()) {
    options.left = left->integer();
  }
  if (auto right = value.Find("right"); right && !right->IsNull()) {
    options.right = right->integer();
  }
}

bool BiasSwitchesMaskOff(const Case& c) {
  return c.Has("bias") && Need(c.input, "combine").string() == "source";
}

std::string AttentionCase(const Case& c) {
  dense::Inputs in;
  dense::Options options;
  options.mean_of_masked = true;
  in.query = c.ArrayAt("query", 4);
  in.key = c.ArrayAt("key", 4);
  in.value = c.ArrayAt("value", 4);
  if (c.Has("softmax_scale")) {
    options.scale = Need(c.input, "softmax_scale").real();
  }
  if (c.Has("bias")) in.bias = c.ArrayAt("bias");
  if (!BiasSwitchesMaskOff(c)) {
    if (c.Has("mask")) in.mask = MaskOf(c);
    options.causal = c.Has("causal");
    if (c.Has("window")) TakeWindow(Need(c.input, "window"), options);
    if (c.Has("q_segment_ids")) {
      in.query_segments = Ids(c, "q_segment_ids");
      in.key_segments = Ids(c, "kv_segment_ids");
    }
  }
  std::string why;
  if (c.Has("softmax_aux")) in.sinks = SinksFrom(c, in.key.dim(2));
  const auto got = dense::Attention(in, options, why, true);
  if (!c.expect) return got ? "accepted what the source refuses" : "";
  if (!got) return why;
  std::vector<double> output, weights;
  AppendDoubles(c.Expected("output"), output);
  AppendDoubles(c.Expected("weights"), weights);
  const std::string text =
      Compare("output", got->output.data, output, c.rtol, c.atol);
  return text.empty()
             ? Compare("weights", got->weights.data, weights, c.rtol, c.atol)
             : text;
}

constexpr Difference kDifferences[] = {
    {"repeat_kv_bsnh",
     "the source transposes its result or fails; ours is what it documents"},
    {"yarn", "the source's yarn is su; ours is YaRN, and su is longrope"},
    {"bias without mask",
     "the source's bias switches its mask off; ours applies both"},
    {"sinks by key head",
     "the source reads rank 2 as [key heads, group]; ours as [sinks, key "
     "heads], which is how the rules split it"},
    {"clamped write",
     "the source writes over old entries when the end is passed; ours is an "
     "error"},
    {"dropped write",
     "the source's sharded decode drops what is past the end; ours is an "
     "error"},
    {"initial scale",
     "the source's first scale has a shape that cannot broadcast; ours is "
     "[batch, length, heads] throughout"},
    {"quantised again",
     "the source quantises the whole cache at every step, so that old entries "
     "drift; ours quantises a token once, when it is written"},
};

bool Tagged(const JsonValue& test_case, std::string_view tag) {
  const auto tags = test_case.Find("tags");
  if (!tags) return false;
  for (JsonValue t : tags->items()) {
    if (t.string() == tag) return true;
  }
  return false;
}

bool IsYarn(const Case& c) {
  return c.Has("rope_type") && Need(c.input, "rope_type").string() == "yarn";
}

}  // namespace

namespace {

std::string Check(const JsonValue& test_case) {
  const Case c(test_case);
  const std::string_view op = Need(c.input, "op").string();
  if (op == "rotate_half") return RotateHalfCase(c);
  if (op == "precompute_freq_cis") return FrequencyCase(c);
  if (op == "apply_rotary_pos_emb") return RotaryCase(c);
  if (op.starts_with("repeat_kv")) return RepeatCase(c, op);
  if (op == "quantize_int8") return QuantizeCase(c);
  if (op == "concatenate_to_cache") {
    c.Expected("steps");
    return CheckCacheSteps(c.input, *c.expect, c.rtol, c.atol);
  }
  if (op == "attention") return AttentionCase(c);
  return "no check for " + std::string(op);
}

}  // namespace

std::string CheckNumeric(const JsonValue& test_case) {
  try {
    return Check(test_case);
  } catch (const Unreadable& unreadable) {
    return "the case cannot be read: " + unreadable.what;
  }
}

std::span<const Difference> NumericDifferences() { return kDifferences; }

std::string_view NumericDifferenceOf(const JsonValue& test_case) {
  const Case c(test_case);
  const std::string_view op = Need(c.input, "op").string();
  if (op == "repeat_kv_bsnh") return "repeat_kv_bsnh";
  if (op == "precompute_freq_cis" && IsYarn(c)) return "yarn";
  if (op == "attention" && BiasSwitchesMaskOff(c) && c.Has("mask")) {
    return "bias without mask";
  }
  if (op == "attention" && c.Has("softmax_aux") && c.expect &&
      c.ArrayAt("softmax_aux").rank() == 2) {
    return "sinks by key head";
  }
  if (op != "concatenate_to_cache") return {};
  if (Tagged(test_case, "initial_scale_shape_bug")) return "initial scale";
  if (Tagged(test_case, "quantized")) return "quantised again";
  return CacheDifference(c.input);
}

}  // namespace shardc::vectors
