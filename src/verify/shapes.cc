#include "verify/shapes.h"

#include <algorithm>
#include <utility>

#include "exec/promote.h"
#include "exec/staging.h"
#include "verify/latent_data.h"

namespace shardc::verify {
namespace {

using exec::SimMesh;

Laid Canonical(const Case& test, int64_t length, int64_t heads, int64_t dim,
               const Spec& spec) {
  Laid out;
  const int64_t batch = test.sizes.batch;
  out.spec = spec;
  if (test.layout == exec::Layout::kThd) {
    out.shape = {1, batch * length, heads, dim};
    out.spec = exec::PadSpec(std::move(out.spec), 3);
    out.spec.insert(out.spec.begin(), AxisGroup{});
  } else {
    out.shape = {batch, length, heads, dim};
    out.spec = exec::PadSpec(std::move(out.spec), 4);
    if (test.layout == exec::Layout::kBhtd) {
      std::swap(out.spec[1], out.spec[2]);
    }
  }
  return out;
}

// Dimensions of size 1 are nobody's to split.
void DropUnit(Laid& laid) {
  for (size_t d = 0; d < laid.shape.size(); ++d) {
    if (laid.shape[d] == 1) laid.spec[d].clear();
  }
}

class Traffic {
 public:
  Traffic(const Case& test, const exec::AttentionProblem& problem)
      : test_(test),
        problem_(problem),
        mesh_(test.mesh),
        q_(QueryOf(test)),
        k_(KeyOf(test)),
        v_(ValueOf(test)),
        o_(OutputOf(test)),
        element_(DtypeBits(OutputDtype(test)) / 8),
        stored_(DtypeBits(KeyDtype(test)) / 8) {
    for (Laid* laid : {&q_, &k_, &v_, &o_}) DropUnit(*laid);
  }

  int64_t Run() {
    const std::string_view name = test_.operation->name;
    if (name == "vanilla") {
      Vanilla();
    } else if (name == "sdpa" || name == "flash_attn2") {
      Wrapper(false);
    } else if (name == "blocksparse") {
      Wrapper(true);
    } else if (name == "ring") {
      RingSteps();
    } else if (name == "ulysses") {
      Exchange();
    } else if (name == "flash_decoding") {
      Decode();
    } else if (IsLatent(test_)) {
      Latent();
    } else if (exec::IsPaged(*test_.operation)) {
      Pages();
    } else {
      return -1;
    }
    return total_;
  }

 private:
  int64_t Parts(const AxisGroup& axes) const { return mesh_.Parts(axes); }
  int64_t Devices() const { return mesh_.devices(); }
  int64_t LocalElements(const Laid& t) const {
    return exec::ElementsOf(exec::LocalShape(mesh_, t.shape, t.spec));
  }

  void MoveTo(Laid& t, Spec to, int64_t bytes) {
    total_ += bytes * MovedElements(mesh_, t.shape, t.spec, to);
    t.spec = std::move(to);
  }

  void FinishAs(Spec spec) {
    Laid out{o_.shape, std::move(spec)};
    MoveTo(out, o_.spec, element_);
  }

  void MoveBroadcast(const std::optional<exec::Buffer>& buffer,
                     const Spec& given, bool whole_keys) {
    if (!buffer) return;
    Laid t{buffer->shape, exec::PadSpec(given, 4)};
    DropUnit(t);
    const int64_t bytes = DtypeBits(buffer->dtype) / 8;
    if (joined_) MoveTo(t, {t.spec[0], t.spec[1], {}, {}}, bytes);
    const AxisGroup* hosts[4] = {&q_.spec[0], &q_.spec[2], &q_.spec[1],
                                 &k_.spec[1]};
    Spec to(4);
    for (size_t d = 0; d < 4; ++d) {
      if (t.shape[d] == 1 || (d == 3 && whole_keys)) continue;
      to[d] =
          exec::IsPrefix(mesh_, t.spec[d], *hosts[d]) ? t.spec[d] : *hosts[d];
      for (size_t e = 0; e < d; ++e) {
        if (!exec::Disjoint(to[d], to[e])) to[d].clear();
      }
    }
    MoveTo(t, std::move(to), bytes);
  }

  void Extras(bool whole_keys = false) {
    MoveBroadcast(problem_.bias, test_.specs.bias, whole_keys);
    MoveBroadcast(problem_.mask, test_.specs.mask, whole_keys);
    MoveBroadcast(problem_.additive_mask, test_.specs.mask, whole_keys);
    const auto ids = [&](const std::optional<exec::Buffer>& buffer,
                         const Spec& spec, const Laid& host) {
      if (!buffer) return;
      Laid t{buffer->shape, exec::PadSpec(spec, 2)};
      DropUnit(t);
      if (!joined_) return MoveTo(t, {host.spec[0], host.spec[1]}, 4);
      // Gathered over the axes of the exchange, in its order.
      MoveTo(t, {host.spec[0], lengths_}, 4);
      total_ += Devices() * (Parts(exchanged_) - 1) * 4 * LocalElements(t);
    };
    ids(problem_.query_segments, test_.specs.query_segments, q_);
    ids(problem_.key_segments, test_.specs.key_segments, k_);
    if (problem_.softmax_aux) Sinks();
  }

  void Sinks() {
    const exec::Buffer& aux = *problem_.softmax_aux;
    const bool by_head = aux.shape.size() == 1;
    Laid t{aux.shape, exec::PadSpec(test_.specs.softmax_aux, aux.shape.size())};
    if (by_head) {
      t.shape.insert(t.shape.begin(), 1);
      t.spec.insert(t.spec.begin(), AxisGroup{});
    }
    const AxisGroup& host = by_head ? q_.spec[2] : k_.spec[2];
    if (repeated_ > 1 && !by_head) MoveTo(t, Spec(2), 4);
    AxisGroup to;
    if (t.shape[1] > 1) {
      to = exec::IsPrefix(mesh_, t.spec[1], host) ? t.spec[1] : host;
    }
    if (repeated_ > 1 && !by_head) to.clear();
    MoveTo(t, {{}, to}, 4);
  }

  void Vanilla() {
    const Spec q = q_.spec;
    const AxisGroup heads =
        exec::IsPrefix(mesh_, k_.spec[2], q[2]) ? k_.spec[2] : AxisGroup{};
    AxisGroup dim = v_.spec[3];
    for (size_t d = 0; d < 3; ++d) {
      if (!exec::Disjoint(dim, q[d])) dim.clear();
    }
    MoveTo(k_, {q[0], {}, heads, q[3]}, element_);
    MoveTo(v_, {q[0], {}, heads, dim}, element_);
    Extras();
    ReduceLogits();
    FinishAs({q[0], q[1], q[2], dim});
  }

  // all_reduce of float32 logits, 2(n-1) of them in a group of n.
  void ReduceLogits() {
    const int64_t n = Parts(q_.spec[3]);
    const Shape q = exec::LocalShape(mesh_, q_.shape, q_.spec);
    const Shape k = exec::LocalShape(mesh_, k_.shape, k_.spec);
    const int64_t groups = Devices() / n;
    total_ += groups * 2 * (n - 1) * 4 * q[0] * q[2] * q[1] * k[1];
    if (test_.settings.dot_bits == 0) return;
    // Largest numbers of rows go first.
    const int64_t rows = q[0] * q[1] * q[2] + k[0] * k[1] * k[2];
    total_ += groups * 2 * (n - 1) * 4 * rows;
  }

  void Wrapper(bool heads_on_keys) {
    for (Laid* t : {&q_, &k_, &v_}) {
      MoveTo(*t, {t->spec[0], {}, t->spec[2], {}}, element_);
    }
    if (heads_on_keys) KeysOnHeads();
    Extras();
    FinishAs(q_.spec);
  }

  void KeysOnHeads() {
    for (Laid* t : {&k_, &v_}) {
      Spec to = t->spec;
      to[2] = q_.spec[2];
      MoveTo(*t, std::move(to), element_);
    }
  }

  // n - 1 shifts of key, value and ids, by everyone.
  void RingSteps() {
    KeysOnHeads();
    Extras(true);
    ShiftKeys(Parts(q_.spec[1]));
    FinishAs({q_.spec[0], q_.spec[1], q_.spec[2], {}});
  }

  void ShiftKeys(int64_t n) {
    int64_t block = element_ * (LocalElements(k_) + LocalElements(v_));
    if (problem_.key_segments) {
      block += 4 * problem_.key_segments->Elements() / (Parts(k_.spec[0]) * n);
    }
    total_ += Devices() * (n - 1) * block;
  }

  // (n-1)/n of query, key, value and output; over a ring, its steps with what
  // the exchange left.
  void Exchange() {
    lengths_ = exec::DropTrivial(mesh_, q_.spec[1]);
    AxisGroup ring;
    for (const std::string& axis : lengths_) {
      const bool turns = !exec::Disjoint({axis}, test_.settings.ring_axes);
      (turns ? ring : exchanged_).push_back(axis);
    }
    const AxisGroup& axes = exchanged_;
    const int64_t n = Parts(axes);
    const int64_t key_heads = exec::LocalShape(mesh_, k_.shape, k_.spec)[2];
    repeated_ = n == 1 || key_heads % n == 0 ? 1 : n / key_heads;
    const auto sent = [&](const Laid& t, int64_t times) {
      return LocalElements(t) * times * element_ / n * (n - 1) * Devices();
    };
    total_ += sent(q_, 1) + sent(k_, repeated_) + sent(v_, repeated_);
    Laid out{o_.shape, {q_.spec[0], q_.spec[1], q_.spec[2], {}}};
    total_ += sent(out, 1);
    const Spec back = out.spec;
    if (n > 1) {
      for (Laid* t : {&q_, &k_, &v_}) {
        t->spec[1] = ring;
        t->spec[2].insert(t->spec[2].end(), axes.begin(), axes.end());
      }
      // Repeated heads are no longer the problem's.
      k_.shape[2] *= repeated_;
      v_.shape[2] *= repeated_;
    }
    joined_ = n > 1 && !ring.empty();
    Extras(!ring.empty());
    ShiftKeys(Parts(ring));
    FinishAs(back);
  }

  void Decode() {
    const AxisGroup lengths = exec::DropTrivial(mesh_, k_.spec[1]);
    const AxisGroup heads = exec::DropTrivial(mesh_, q_.spec[2]);
    const int64_t n = Parts(lengths);
    const bool shared = !exec::Disjoint(lengths, heads);
    if (shared) {
      Spec to = q_.spec;
      to[2].assign(heads.begin(),
                   heads.end() - static_cast<long>(lengths.size()));
      MoveTo(q_, std::move(to), element_);
    }
    Extras();
    ReduceLogits();
    const Shape q = exec::LocalShape(mesh_, q_.shape, q_.spec);
    const int64_t dim = exec::LocalShape(mesh_, v_.shape, v_.spec)[3];
    const int64_t rows = q[0] * q[2];
    const int64_t groups = Devices() / n;
    Spec out = {q_.spec[0], {}, q_.spec[2], v_.spec[3]};
    if (shared) {
      total_ += groups * n * (n - 1) * 4 * rows;
      total_ += groups * (n - 1) * 4 * rows * dim;
      out[2] = heads;
    } else if (test_.settings.merge == exec::DecodeMerge::kAllGather) {
      total_ += groups * n * (n - 1) * 4 * rows * (dim + 1);
    } else {
      total_ += groups * 2 * (n - 1) * 4 * rows * (dim + 2);
    }
    FinishAs(std::move(out));
  }

  // Packed pages hold words of several heads' elements.
  bool PagesSplit(int64_t n) const {
    const int64_t heads = test_.sizes.key_heads;
    if (heads % n != 0) return false;
    if (test_.operation->name != "ragged_page_attention_v3") return true;
    const int64_t word = HasInt8Pages(test_) ? 4 : 4 / stored_;
    if (test_.sizes.head_dim == 64) return heads % (n * word) == 0;
    return (2 * heads + word - 1) / word % n == 0;
  }

  // Queries to every shard of pages, outputs added over them in float32.
  void Pages() {
    const AxisGroup rows = q_.spec[0];
    AxisGroup heads = q_.spec[2];
    if (!PagesSplit(Parts(heads))) heads.clear();
    MoveTo(q_, {{}, {}, heads, {}}, element_);
    MoveTo(k_, {rows, {}, heads, {}}, stored_);
    MoveTo(v_, {rows, {}, heads, {}}, stored_);
    Extras();
    const int64_t n = Parts(rows);
    total_ += Devices() / n * 2 * (n - 1) * 4 * LocalElements(q_);
    FinishAs({{}, {}, heads, {}});
  }

  // The latent moves to its pages' shards; logits and outputs are added over
  // parts of its dim, partial softmaxes over parts of its length.
  void Latent() {
    const exec::LatentInputs& l = *problem_.latent;
    const AxisGroup rows = q_.spec[0];
    const Spec k = k_.spec;
    const Shape tokens{k_.shape[0], k_.shape[1]};
    Laid c{{tokens[0], tokens[1], l.latent.shape[2]}, {k[0], k[1], k[3]}};
    Laid pe{{tokens[0], tokens[1], l.rope_key.shape[2]}, {k[0], k[1], {}}};
    MoveTo(c, {rows, k[1], k[3]}, stored_);
    MoveTo(pe, {rows, k[1], {}}, stored_);
    MoveTo(q_, {{}, {}, q_.spec[2], {}}, element_);
    if (problem_.softmax_aux) Sinks();
    const Shape own = exec::LocalShape(mesh_, c.shape, c.spec);
    const Shape q = exec::LocalShape(mesh_, q_.shape, q_.spec);
    const int64_t lines = own[0] * q[1] * q[2];
    const auto reduced = [&](const AxisGroup& axes, int64_t elements) {
      const int64_t n = Parts(axes);
      total_ += Devices() / n * 2 * (n - 1) * 4 * elements;
    };
    const int64_t value_dim = test_.sizes.ValueDim();
    reduced(k[3], lines * own[1]);
    reduced(k[1], lines * (own[2] + 2));
    reduced(k[3], lines * value_dim);
    reduced(rows, q[0] * q[1] * q[2] * value_dim);
    FinishAs({{}, {}, q_.spec[2], {}});
  }

  const Case& test_;
  const exec::AttentionProblem& problem_;
  SimMesh mesh_;
  Laid q_, k_, v_, o_;
  int64_t element_;  // bytes, as computed in
  int64_t stored_;   // bytes of a key or value in its page
  int64_t repeated_ = 1;
  // ulysses: the lengths' axes, those of the exchange, and whether it leaves
  // tokens of several places side by side.
  AxisGroup lengths_, exchanged_;
  bool joined_ = false;
  int64_t total_ = 0;
};

}  // namespace

Dtype KeyDtype(const Case& test) {
  return test.kv_dtype && exec::IsRealDtype(*test.kv_dtype) ? *test.kv_dtype
                                                            : test.dtype;
}

bool HasInt8Pages(const Case& test) {
  return test.kv_dtype == Dtype::kI8 && exec::IsPaged(*test.operation) &&
         !IsLatent(test);
}

Dtype OutputDtype(const Case& test) {
  if (test.settings.runtime_dtype) return *test.settings.runtime_dtype;
  // Two real dtypes always have one.
  return exec::Promote(test.dtype, KeyDtype(test)).value_or(Dtype::kF32);
}

Laid QueryOf(const Case& test) {
  const Sizes& n = test.sizes;
  return Canonical(test, n.query_length, n.heads, n.head_dim, test.specs.query);
}

Laid KeyOf(const Case& test) {
  const Sizes& n = test.sizes;
  return Canonical(test, n.key_length, n.key_heads, n.head_dim, test.specs.key);
}

Laid ValueOf(const Case& test) {
  const Sizes& n = test.sizes;
  return Canonical(test, n.key_length, n.key_heads, n.ValueDim(),
                   test.specs.value);
}

Laid OutputOf(const Case& test) {
  const Sizes& n = test.sizes;
  return Canonical(test, n.query_length, n.heads, n.ValueDim(),
                   test.specs.output);
}

int64_t MovedElements(const SimMesh& mesh, const Shape& shape, const Spec& from,
                      const Spec& to) {
  int64_t out = 0;
  for (int device = 0; device < mesh.devices(); ++device) {
    int64_t want = 1, have = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      const AxisGroup& a = d < from.size() ? from[d] : AxisGroup{};
      const AxisGroup& b = d < to.size() ? to[d] : AxisGroup{};
      const int64_t source = shape[d] / mesh.Parts(a);
      const int64_t target = shape[d] / mesh.Parts(b);
      const int64_t s = mesh.Index(device, a) * source;
      const int64_t t = mesh.Index(device, b) * target;
      want *= target;
      have *= std::max<int64_t>(
          0, std::min(s + source, t + target) - std::max(s, t));
    }
    out += want - have;
  }
  return out;
}

int64_t ExpectedBytes(const Case& test, const exec::AttentionProblem& problem) {
  return Traffic(test, problem).Run();
}

}  // namespace shardc::verify
