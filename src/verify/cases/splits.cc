// Finds into how many shards a request's layouts split each dimension. These
// numbers must divide a reduced size if and only if they divide the real size.
// The axis rules are resolved for each mode. Each list of axes in a spec is one
// way to split a dimension, and adds one number of shards.
//
// In the packed layout thd, batch and length are one dimension of tokens, which
// the axes of the batch shard. The operation ulysses then exchanges shards of
// tokens for shards of heads over these axes. For example, 32 heads over tp 4
// and the batch over dp 2 lead to these numbers:
//
//   bthd  batch in 2 shards, query and key heads in 4
//   thd   tokens in 2 shards; dp divides the 8 heads of a device by 2
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

// The numbers of shards over one list of axes: on the given mesh, and on the
// mesh on which the cases run.
struct Parts {
  int64_t given = 1, used = 1;
  bool operator==(const Parts&) const = default;
};

// Appends `given` and `used` to the two lists, unless the lists already have
// this pair at a common index.
template <class T>
void AddPair(std::vector<T>& to_given, std::vector<T>& to_used, T given,
             T used) {
  for (size_t i = 0; i < to_given.size(); ++i) {
    if (to_given[i] == given && to_used[i] == used) return;
  }
  to_given.push_back(std::move(given));
  to_used.push_back(std::move(used));
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
  Splitter(const Request& request, const Resolver& resolver, const Mesh& given,
           const Mesh& used)
      : request_(request), resolver_(resolver), mesh_(given), used_(used) {
    for (const Feature feature : request.more) {
      masks_ = masks_ || feature == Feature::kBias ||
               feature == Feature::kBiasByHead || feature == Feature::kMask ||
               feature == Feature::kAdditiveMask ||
               feature == Feature::kMaskedRow;
    }
    const Features& f = request.features;
    masks_ = masks_ || f.bias || f.mask || f.additive_mask || f.masked_row;
  }

  MeshSplits Run() {
    const auto& layouts = request_.layouts;
    const bool packed = std::find(layouts.begin(), layouts.end(),
                                  Layout::kThd) != layouts.end();
    const bool rows = !packed || layouts.size() > 1;
    for (const Mode mode : request_.modes) {
      if (rows || IsGeneration(mode)) Add(mode, Layout::kBthd);
      if (packed) Add(mode, Layout::kThd);
    }
    // Decoding reads a cache that is first written in the layout of prefill.
    // The shards of that layout must therefore be added as well.
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
  // Returns the possible numbers of shards of a dimension with these axes. The
  // first is the number over all axes. A policy may drop the axes if they do
  // not divide the dimension; then one shard is also possible. A policy may
  // instead shorten the list of axes; then the number over each prefix is also
  // possible.
  std::vector<Parts> PartsOf(const AxisGroup& axes) const {
    std::vector<Parts> out{Count(axes)};
    if (request_.illegal == IllegalPolicy::kDrop) AddOnce(out, Parts{});
    if (request_.illegal != IllegalPolicy::kShrink) return out;
    AxisGroup begin = axes;
    while (!begin.empty()) {
      begin.pop_back();
      AddOnce(out, Count(begin));
    }
    return out;
  }

  Parts Count(const AxisGroup& axes) const {
    return {mesh_.Parts(axes).value_or(1), used_.Parts(axes).value_or(1)};
  }

  void AddParts(const AxisGroup& axes, std::vector<int64_t> Splits::*to) {
    for (const Parts& n : PartsOf(axes)) {
      AddPair(out_.given.*to, out_.used.*to, n.given, n.used);
    }
  }

  void AddHeads(const AxisGroup& query, const AxisGroup& key) {
    for (const Parts& a : PartsOf(query)) {
      for (const Parts& c : PartsOf(key)) {
        AddPair(out_.given.heads, out_.used.heads, std::pair(a.given, c.given),
                std::pair(a.used, c.used));
      }
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
    const exec::TensorSharding query =
        exec::InBthd(Shape(Rank(layout)), specs.query, layout);
    const exec::TensorSharding key =
        exec::InBthd(Shape(Rank(layout)), specs.key, layout);
    for (const Spec* spec : {&query.spec, &key.spec}) {
      if (layout == Layout::kThd) {
        AddParts((*spec)[1], &Splits::tokens);
      } else {
        AddParts((*spec)[0], &Splits::batch);
        AddParts((*spec)[1], &Splits::length);
      }
      AddParts((*spec)[3], &Splits::dim);
    }
    AddHeads(query.spec[2], key.spec[2]);
    if (masks_) AddMasks(specs, layout);
    for (const exec::Operation* operation : request_.operations) {
      AddOperation(*operation, query.spec, key.spec);
    }
  }

  static size_t Rank(Layout layout) { return layout == Layout::kThd ? 3 : 4; }

  // Adds the splits of masks, which are [batch, heads, query length, key
  // length] in every layout.
  void AddMasks(const exec::AttentionSpecs& specs, Layout layout) {
    const auto lengths =
        layout == Layout::kThd ? &Splits::tokens : &Splits::length;
    for (const Spec& given : {specs.bias, specs.mask}) {
      const Spec spec = exec::PadSpec(given, 4);
      if (layout != Layout::kThd) AddParts(spec[0], &Splits::batch);
      AddHeads(spec[1], {});
      AddParts(spec[2], lengths);
      AddParts(spec[3], lengths);
    }
  }

  void AddOperation(const exec::Operation& operation, const Spec& query,
                    const Spec& key) {
    // The operations ring and blocksparse shard key heads over the query's head
    // axes.
    if (operation.heads_on_keys) AddHeads(query[2], query[2]);
    // The operation ulysses divides a device's heads over the axes of the
    // length. It keeps the length sharded over `ring_axes`, so these axes
    // divide no heads.
    if (operation.exchanges_heads) {
      const auto& ring = request_.RecordOf(operation).ring_axes;
      const AxisGroup lengths = Without(query[1], ring.value_or(AxisGroup{}));
      for (const Parts& n : PartsOf(lengths)) {
        if (n.given > 1) AddExchange(query[2], key[2], n);
      }
    }
    // In context parallelism, the query's heads are gathered over the axes that
    // also shard the key length.
    if (operation.context_parallel) AddHeads(Without(query[2], key[1]), key[2]);
    if (operation.pages &&
        operation.pages->format == exec::PageFormat::kPacked) {
      for (const Parts& n : PartsOf(query[2])) AddWords(n);
    }
  }

  void AddExchange(const AxisGroup& query, const AxisGroup& key,
                   const Parts& n) {
    for (const Parts& a : PartsOf(query)) {
      for (const Parts& c : PartsOf(key)) {
        AddPair(
            out_.given.exchanges, out_.used.exchanges,
            Splits::Exchange{
                .heads = a.given, .keys = c.given, .parts = n.given},
            Splits::Exchange{.heads = a.used, .keys = c.used, .parts = n.used});
      }
    }
  }

  void AddWords(const Parts& n) {
    for (const Dtype dtype : request_.dtypes) {
      const Dtype stored = request_.kv_dtype.value_or(dtype);
      const int64_t heads = 32 / DtypeBits(stored);
      AddPair(out_.given.words, out_.used.words, std::pair(n.given, heads),
              std::pair(n.used, heads));
    }
  }

  const Request& request_;
  const Resolver& resolver_;
  const Mesh& mesh_;
  const Mesh& used_;
  bool masks_ = false;
  MeshSplits out_;
};

}  // namespace

MeshSplits SplitsOf(const Request& request, const Resolver& resolver,
                    const Mesh& given, const Mesh& used) {
  return Splitter(request, resolver, given, used).Run();
}

}  // namespace shardc::verify
