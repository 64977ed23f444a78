// Each step is first given to the library unchanged. If the library refuses it
// because it exceeds the end of the cache, the test does what the source does:
// it moves the write back to the last place that has room, or leaves out the
// write, and increases the index in both cases.
#include "numeric_cache.h"

#include <algorithm>
#include <vector>

#include "dense/attention.h"
#include "exec/cache/kv_cache.h"
#include "exec/kernels/arithmetic.h"
#include "numeric_json.h"

namespace shardc::vectors {
namespace {

using dense::Array;
using exec::Buffer;
using exec::KvCache;
using exec::ShardedTensor;

size_t U(int64_t i) { return static_cast<size_t>(i); }

struct Config {
  int64_t batch, length, heads, dim, parts;
  bool sharded, quantized;

  explicit Config(const JsonValue& input)
      : batch(Need(input, "batch").integer()),
        length(Need(input, "max_length").integer()),
        heads(Need(input, "num_heads").integer()),
        dim(Need(input, "head_dim").integer()),
        parts(1) {
    const JsonValue config = Need(input, "config");
    sharded = Need(config, "use_sharded_kv_caching").boolean();
    quantized = Need(config, "quantize_kv_cache").boolean();
    if (auto sp = config.Find("sp")) parts = sp->integer();
  }
};

Buffer BufferOf(const Array& x) {
  Buffer out = Buffer::Zeros(x.shape, Dtype::kF32);
  std::copy(x.data.begin(), x.data.end(), out.real.begin());
  return out;
}

std::vector<double> Doubles(const Buffer& x) {
  std::vector<double> out(x.real.begin(), x.real.end());
  out.insert(out.end(), x.integers.begin(), x.integers.end());
  return out;
}

// Checks a step that the source refuses: the library must refuse it too, unless
// the source refuses it because of a fault of its own. Returns the error; empty
// if there is none.
std::string Refusal(const JsonValue& error, const JsonValue& step,
                    bool library_refused) {
  const std::string_view kind = Need(error, "kind").string();
  if (kind == "update_larger_than_cache") {
    return library_refused ? "" : "a write longer than the cache is accepted";
  }
  if (kind == "mask_rank_mismatch") {
    // The library refuses such a mask only when attention is computed.
    dense::Inputs in;
    const Array key = ArrayOf(Need(step, "key"), 4);
    in.query = in.key = in.value = key;
    in.mask = ArrayOf(Need(step, "mask"));
    std::string why;
    return dense::Attention(in, {}, why) ? "the mask is accepted" : "";
  }
  if (kind == "broadcast_mismatch") {
    // The source fails because the initial scale has a wrong shape, a fault
    // that the library does not have.
    return library_refused ? "the write is refused" : "";
  }
  return "no rule for error " + std::string(kind);
}

class Replay {
 public:
  explicit Replay(const Config& config)
      : config_(config),
        mesh_(MeshOf(config.parts)),
        machine_(mesh_),
        cache_(Empty()) {}

  std::string Step(const JsonValue& step, const JsonValue& want, double rtol,
                   double atol) {
    const Array key = ArrayOf(Need(step, "key"), 4);
    const Array value = ArrayOf(Need(step, "value"), 4);
    const int64_t n = key.dim(1);
    const int64_t before = cache_.index[0];
    const bool owner_writes = config_.sharded && n == 1;
    const bool refused = !Write(key, value);
    if (refused != (before + n > config_.length)) {
      return "a write of " + std::to_string(n) + " at " +
             std::to_string(before) + (refused ? " is refused" : " is not");
    }
    if (auto error = want.Find("error")) {
      return Refusal(*error, step, refused);
    }
    if (refused) {
      if (!owner_writes) {
        cache_.index.assign(U(config_.batch), config_.length - n);
        Write(key, value);
      }
      cache_.index.assign(U(config_.batch), before + n);
    }
    if (config_.quantized) Requantize();
    return Agree(step, want, n, owner_writes, rtol, atol);
  }

 private:
  static exec::SimMesh MeshOf(int64_t parts) {
    Mesh mesh;
    mesh.axes.push_back({"sp", parts, AxisType::kAuto});
    mesh.devices = parts;
    return exec::SimMesh(mesh);
  }

  KvCache Empty() {
    exec::LayoutError why;
    return *exec::MakeCache(mesh_,
                            {config_.batch, config_.length, config_.heads,
                             config_.dim, Dtype::kF32, 0},
                            {{}, {"sp"}}, why);
  }

  bool Write(const Array& key, const Array& value) {
    exec::LayoutError why;
    return exec::AppendTokens(
        machine_, cache_, exec::Scatter(mesh_, BufferOf(key), {}),
        exec::Scatter(mesh_, BufferOf(value), {}), {}, why);
  }

  Buffer Unsharded(const ShardedTensor& tensor) {
    exec::LayoutError why;
    auto out = exec::Gather(mesh_, tensor, why);
    return out ? *out : Buffer{};
  }

  // Does what the source does after a step: it returns the cache, in which the
  // new values are not quantised yet, and then quantises the whole cache again.
  void Requantize() {
    const auto again = [&](ShardedTensor& tensor, std::vector<double>& ints,
                           std::vector<double>& scales,
                           std::vector<double>& returned) {
      Buffer whole = Unsharded(tensor);
      returned = Doubles(whole);
      ints.clear();
      scales.clear();
      const size_t dim = U(config_.dim);
      std::vector<int8_t> q(dim);
      for (size_t at = 0; at < whole.real.size(); at += dim) {
        const std::span<float> row(whole.real.data() + at, dim);
        const float scale = exec::QuantizeInt8(row, q);
        scales.push_back(scale);
        for (size_t d = 0; d < dim; ++d) {
          ints.push_back(q[d]);
          row[d] = exec::DequantizeInt8(q[d], scale);
        }
      }
      tensor = exec::Scatter(mesh_, whole, tensor.spec);
    };
    again(cache_.key, key_ints_, key_scales_, returned_key_);
    again(cache_.value, value_ints_, value_scales_, returned_value_);
  }

  std::string Agree(const JsonValue& step, const JsonValue& want, int64_t n,
                    bool owner_writes, double rtol, double atol) {
    if (Need(want, "index").integer() != cache_.index[0]) {
      return "index " + std::to_string(cache_.index[0]);
    }
    std::vector<std::string> texts;
    const auto compare = [&](const char* name, const std::vector<double>& got) {
      texts.push_back(
          Compare(name, got, ArrayOf(Need(want, name)).data, rtol, atol));
    };
    const bool q = config_.quantized;
    compare("key", q ? returned_key_ : Doubles(Unsharded(cache_.key)));
    compare("value", q ? returned_value_ : Doubles(Unsharded(cache_.value)));
    if (q) {
      compare("cached_key", key_ints_);
      compare("cached_value", value_ints_);
      compare("cached_key_scale", key_scales_);
      compare("cached_value_scale", value_scales_);
    }
    texts.push_back(AgreeMask(step, want, n, owner_writes));
    for (const std::string& text : texts) {
      if (!text.empty()) return text;
    }
    return {};
  }

  std::string AgreeMask(const JsonValue& step, const JsonValue& want, int64_t n,
                        bool owner_writes) {
    const JsonValue mask = Need(want, "mask");
    std::vector<double> given(U(config_.batch * n * config_.length), 1.0);
    const auto of_caller = step.Find("mask");
    if (of_caller && !of_caller->IsNull()) {
      given = ArrayOf(*of_caller).data;
    } else if (owner_writes) {
      return mask.IsNull() ? "" : "a mask where none is";
    }
    std::vector<double> got;
    for (size_t i = 0; i < U(config_.batch * n * config_.length); ++i) {
      // The source's sharded step leaves the caller's mask unchanged. In other
      // steps, all queries may attend to every written slot.
      const bool written = i % U(config_.length) < U(cache_.index[0]);
      const double shown = owner_writes || written ? 1 : 0;
      got.push_back(shown * given[i % given.size()]);
    }
    return Compare("mask", got, ArrayOf(mask).data);
  }

  Config config_;
  exec::SimMesh mesh_;
  exec::Machine machine_;
  KvCache cache_;
  std::vector<double> key_ints_, value_ints_, key_scales_, value_scales_;
  std::vector<double> returned_key_, returned_value_;
};

}  // namespace

std::string CheckCacheSteps(const JsonValue& input, const JsonValue& expect,
                            double rtol, double atol) {
  Replay replay{Config(input)};
  const JsonValue wants = Need(expect, "steps");
  auto want = wants.items().begin();
  size_t index = 0;
  for (JsonValue step : Need(input, "steps").items()) {
    if (index == wants.size()) break;  // the source stopped at a failed step
    const std::string text = replay.Step(step, *want, rtol, atol);
    if (!text.empty()) return "step " + std::to_string(index) + ": " + text;
    ++want;
    ++index;
  }
  return index == wants.size() ? "" : "fewer steps than recorded";
}

namespace {

size_t RowsOf(const JsonValue& step) {
  return static_cast<size_t>(ArrayOf(Need(step, "key"), 4).dim(1));
}

}  // namespace

std::string_view CacheDifference(const JsonValue& input) {
  const Config config(input);
  int64_t index = 0;
  for (JsonValue step : Need(input, "steps").items()) {
    const auto n = static_cast<int64_t>(RowsOf(step));
    if (n > config.length) return {};
    if (index + n > config.length) {
      return config.sharded && n == 1 ? "dropped write" : "clamped write";
    }
    index += n;
  }
  return {};
}

}  // namespace shardc::vectors
