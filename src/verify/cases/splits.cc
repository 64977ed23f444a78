// Collects how a request's layouts shard each dimension. Layouts are resolved
// once for each mode and order of dimensions, and every list of axes is
// recorded as its number of shards. Packed tokens are one dimension of batch x
// length, which the batch's axes shard: there ulysses exchanges the batch's
// shards for heads.
//
//   dp 2, tp 4, 32 heads on tp: bthd  batch 2, heads (4, 4)
//                               thd   tokens 2, and 8 heads over dp once more
#include "verify/cases/splits.h"

#include <algorithm>
#include <utility>

namespace shardc::verify {
namespace {

template <class T>
void AddOnce(std::vector<T>& to, T value) {
  if (std::find(to.begin(), to.end(), value) == to.end()) {
    to.push_back(std::move(value));
  }
}

AxisGroup Without(const AxisGroup& axes, const AxisGroup& taken) {
  AxisGroup out = axes;
  std::erase_if(out, [&](const std::string& axis) {
    return std::find(taken.begin(), taken.end(), axis) != taken.end();
  });
  return out;
}

class Splitter {
 public:
  Splitter(const Request& request, const Resolver& resolver, const Mesh& mesh)
      : request_(request), resolver_(resolver), mesh_(mesh) {
    for (const Feature feature : request.more) {
      masks_ = masks_ || feature == Feature::kBias ||
               feature == Feature::kBiasByHead || feature == Feature::kMask ||
               feature == Feature::kAdditiveMask ||
               feature == Feature::kMaskedRow;
    }
    const Features& f = request.features;
    masks_ = masks_ || f.bias || f.mask || f.additive_mask || f.masked_row;
  }

  Splits Run() {
    const auto& layouts = request_.layouts;
    const bool packed = std::find(layouts.begin(), layouts.end(),
                                  Layout::kThd) != layouts.end();
    const bool rows = !packed || layouts.size() > 1;
    for (const Mode mode : request_.modes) {
      if (rows || IsGeneration(mode)) Add(mode, Layout::kBthd);
      if (packed) Add(mode, Layout::kThd);
    }
    // A cache is written with the layout of prefill.
    const bool caches = std::any_of(
        request_.operations.begin(), request_.operations.end(),
        [](const auto* o) { return o->trace == exec::StateTrace::kCache; });
    if (caches && std::any_of(request_.modes.begin(), request_.modes.end(),
                              IsGeneration)) {
      Add(Mode::kPrefill, Layout::kBthd);
    }
    return std::move(out_);
  }

 private:
  // Returns the shardings that a list may be reduced to: itself, and with a
  // policy that drops or shrinks, none or each of its prefixes.
  std::vector<int64_t> PartsOf(const AxisGroup& axes) const {
    std::vector<int64_t> out{mesh_.Parts(axes).value_or(1)};
    if (request_.illegal == IllegalPolicy::kDrop) AddOnce(out, int64_t{1});
    if (request_.illegal != IllegalPolicy::kShrink) return out;
    AxisGroup begin = axes;
    while (!begin.empty()) {
      begin.pop_back();
      AddOnce(out, mesh_.Parts(begin).value_or(1));
    }
    return out;
  }

  void AddParts(const AxisGroup& axes, std::vector<int64_t>& to) const {
    for (const int64_t n : PartsOf(axes)) AddOnce(to, n);
  }

  void AddHeads(const AxisGroup& query, const AxisGroup& key) {
    for (const int64_t a : PartsOf(query)) {
      for (const int64_t c : PartsOf(key)) AddOnce(out_.heads, {a, c});
    }
  }

  void Add(Mode mode, Layout layout) {
    Case test;
    test.mode = mode;
    test.layout = layout;
    test.mesh = mesh_;
    test.sizes = request_.sizes;
    exec::AttentionSpecs specs =
        ResolveSpecs(resolver_, test, IllegalPolicy::kError);
    const exec::Laid query =
        exec::InBthd(Shape(Rank(layout)), specs.query, layout);
    const exec::Laid key = exec::InBthd(Shape(Rank(layout)), specs.key, layout);
    for (const Spec* spec : {&query.spec, &key.spec}) {
      if (layout == Layout::kThd) {
        AddParts((*spec)[1], out_.tokens);
      } else {
        AddParts((*spec)[0], out_.batch);
        AddParts((*spec)[1], out_.length);
      }
      AddParts((*spec)[3], out_.dim);
    }
    AddHeads(query.spec[2], key.spec[2]);
    if (masks_) AddMasks(specs, layout);
    for (const exec::Operation* operation : request_.operations) {
      AddOperation(*operation, query.spec, key.spec);
    }
  }

  static size_t Rank(Layout layout) { return layout == Layout::kThd ? 3 : 4; }

  // Adds [batch, heads, query length, key length] of masks in any layout.
  void AddMasks(const exec::AttentionSpecs& specs, Layout layout) {
    auto& lengths = layout == Layout::kThd ? out_.tokens : out_.length;
    for (const Spec& given : {specs.bias, specs.mask}) {
      const Spec spec = exec::PadSpec(given, 4);
      if (layout != Layout::kThd) AddParts(spec[0], out_.batch);
      AddHeads(spec[1], {});
      AddParts(spec[2], lengths);
      AddParts(spec[3], lengths);
    }
  }

  void AddOperation(const exec::Operation& operation, const Spec& query,
                    const Spec& key) {
    // ring, blocksparse: key heads on the query's axes.
    if (operation.heads_on_keys) AddHeads(query[2], query[2]);
    // ulysses: the length's axes, without those of a ring, split a device's
    // heads once more.
    if (operation.exchanges_heads) {
      const auto& ring = request_.RecordOf(operation).ring_axes;
      const AxisGroup lengths = Without(query[1], ring.value_or(AxisGroup{}));
      for (const int64_t n : PartsOf(lengths)) {
        if (n > 1) AddExchange(query[2], key[2], n);
      }
    }
    // The query's heads are gathered over axes that they share with lengths.
    if (operation.context_parallel) AddHeads(Without(query[2], key[1]), key[2]);
    if (operation.pages &&
        operation.pages->format == exec::PageFormat::kPacked) {
      for (const int64_t n : PartsOf(query[2])) AddWords(n);
    }
  }

  void AddExchange(const AxisGroup& query, const AxisGroup& key, int64_t n) {
    for (const int64_t a : PartsOf(query)) {
      for (const int64_t c : PartsOf(key)) {
        AddOnce(out_.exchanges, {.heads = a, .keys = c, .parts = n});
      }
    }
  }

  void AddWords(int64_t n) {
    for (const Dtype dtype : request_.dtypes) {
      const Dtype stored = request_.kv_dtype.value_or(dtype);
      AddOnce(out_.words, {n, 32 / DtypeBits(stored)});
    }
  }

  const Request& request_;
  const Resolver& resolver_;
  const Mesh& mesh_;
  bool masks_ = false;
  Splits out_;
};

}  // namespace

Splits SplitsOf(const Request& request, const Resolver& resolver,
                const Mesh& mesh) {
  return Splitter(request, resolver, mesh).Run();
}

}  // namespace shardc::verify
