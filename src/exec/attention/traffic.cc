// Computes the bytes that an attention operation sends, by closed formulas from
// shapes, specs and settings. Verification compares them with the ledger, which
// counts what the simulation sends. In a reshard, each device receives the
// elements of its new shard that its old shard lacks. If several devices hold
// an element, they take turns in sending it. For example:
//
//   [8] from tp 4 to replicated: each device holds 2 elements and needs 8, so
//   4 * 6 elements are sent
#include "exec/attention/traffic.h"

#include <algorithm>
#include <utility>

#include "comm/collective.h"
#include "comm/reshard.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

void DropUnit(TensorSharding& laid) {
  for (size_t d = 0; d < laid.shape.size(); ++d) {
    if (laid.shape[d] == 1) laid.spec[d].clear();
  }
}

TensorSharding Placed(const Buffer& buffer, const Spec& spec, Layout layout) {
  TensorSharding out = InBthd(buffer.shape, spec, layout);
  DropUnit(out);
  return out;
}

}  // namespace

TensorSharding InBthd(Shape shape, Spec spec, Layout layout) {
  spec = PadSpec(std::move(spec), shape.size());
  if (layout == Layout::kThd) {
    shape.insert(shape.begin(), 1);
    spec.insert(spec.begin(), AxisGroup{});
  } else if (layout == Layout::kBhtd) {
    std::swap(shape[1], shape[2]);
    std::swap(spec[1], spec[2]);
  }
  return {std::move(shape), std::move(spec)};
}

Traffic::Traffic(const SimMesh& mesh, const AttentionProblem& problem,
                 const AttentionSpecs& specs, const OperationSettings& settings)
    : query(Placed(problem.query, specs.query, problem.layout)),
      key(Placed(problem.key, specs.key, problem.layout)),
      value(Placed(problem.value, specs.value, problem.layout)),
      mesh_(mesh),
      problem_(problem),
      specs_(specs),
      settings_(settings) {
  Shape out = problem.query.shape;
  out.back() = problem.value.shape.back();
  output_ = InBthd(std::move(out), specs.output, problem.layout);
  DropUnit(output_);
  // Query, key and value are F32, BF16 or F16, which always have a common
  // dtype.
  const Dtype dtype = ComputeDtype(problem, settings).value_or(Dtype::kF32);
  element_bytes_ = DtypeBits(dtype) / 8;
  stored_bytes_ = DtypeBits(problem.key.dtype) / 8;
}

Shape Traffic::LocalShapeOf(const TensorSharding& laid) const {
  return LocalShape(mesh_, laid.shape, laid.spec);
}

int64_t Traffic::LocalElements(const TensorSharding& laid) const {
  return ElementsOf(LocalShapeOf(laid));
}

void Traffic::Add(Collective kind, int64_t bytes) {
  steps_.push_back(
      {kind, {}, std::vector<int64_t>(AsIndex(mesh_.devices()), bytes)});
  sent_.Add(kind, steps_.back().sent);
}

void Traffic::Over(const AxisGroup& axes) {
  steps_.back().axes = DropTrivial(mesh_, axes);
}

void Traffic::MoveTo(TensorSharding& laid, Spec to, int64_t bytes_per_element) {
  if (const auto move = ClassifyMove(mesh_.mesh(), laid.spec, to)) {
    auto sent = SentElements(mesh_.mesh(), laid.shape, laid.spec, to);
    for (int64_t& elements : sent) {
      elements = (Size(elements) * bytes_per_element).value();
    }
    sent_.Add(move->kind, sent);
    steps_.push_back({move->kind, move->axes, std::move(sent)});
  }
  laid.spec = std::move(to);
}

void Traffic::GatherLengths() {
  for (TensorSharding* t : {&query, &key, &value}) {
    MoveTo(*t, {t->spec[0], {}, t->spec[2], {}}, element_bytes_);
  }
}

void Traffic::KeysOnHeads() {
  for (TensorSharding* t : {&key, &value}) {
    Spec to = t->spec;
    to[2] = query.spec[2];
    MoveTo(*t, std::move(to), element_bytes_);
  }
}

void Traffic::MoveBroadcast(const std::optional<Buffer>& buffer,
                            const Spec& given, bool unsharded_keys) {
  if (!buffer) return;
  TensorSharding t{buffer->shape, PadSpec(given, 4)};
  DropUnit(t);
  const int64_t bytes = DtypeBits(buffer->dtype) / 8;
  if (exchange.joined) MoveTo(t, {t.spec[0], t.spec[1], {}, {}}, bytes);
  const AxisGroup* hosts[4] = {&query.spec[0], &query.spec[2], &query.spec[1],
                               &key.spec[1]};
  Spec to(4);
  for (size_t d = 0; d < 4; ++d) {
    if (t.shape[d] == 1 || (d == 3 && unsharded_keys)) continue;
    to[d] = IsPrefix(mesh_, t.spec[d], *hosts[d]) ? t.spec[d] : *hosts[d];
    for (size_t e = 0; e < d; ++e) {
      if (!Disjoint(to[d], to[e])) to[d].clear();
    }
  }
  MoveTo(t, std::move(to), bytes);
}

void Traffic::MoveIds(const std::optional<Buffer>& buffer, const Spec& given,
                      const TensorSharding& host) {
  if (!buffer) return;
  TensorSharding t{buffer->shape, PadSpec(given, 2)};
  DropUnit(t);
  if (!exchange.joined) return MoveTo(t, {host.spec[0], host.spec[1]}, 4);
  // Before the all_to_all of ulysses, `exchange.lengths` are the axes that
  // shard the tokens. Segment ids are first resharded over these axes, and then
  // gathered over the axes of the all_to_all.
  MoveTo(t, {host.spec[0], exchange.lengths}, 4);
  AllGather(exchange.axes, LocalElements(t));
}

void Traffic::MoveExtras(bool unsharded_keys) {
  MoveBroadcast(problem_.bias, specs_.bias, unsharded_keys);
  MoveBroadcast(problem_.mask, specs_.mask, unsharded_keys);
  MoveBroadcast(problem_.additive_mask, specs_.mask, unsharded_keys);
  MoveIds(problem_.query_segments, specs_.query_segments, query);
  MoveIds(problem_.key_segments, specs_.key_segments, key);
  MoveSinks();
}

void Traffic::MoveSinks() {
  if (!problem_.softmax_aux) return;
  const Buffer& aux = *problem_.softmax_aux;
  const bool by_head = aux.shape.size() == 1;
  TensorSharding t{aux.shape, PadSpec(specs_.softmax_aux, aux.shape.size())};
  if (by_head) {
    t.shape.insert(t.shape.begin(), 1);
    t.spec.insert(t.spec.begin(), AxisGroup{});
  }
  const AxisGroup& host = by_head ? query.spec[2] : key.spec[2];
  const bool repeated = exchange.repeated > 1 && !by_head;
  if (repeated) MoveTo(t, Spec(2), 4);
  AxisGroup to;
  if (t.shape[1] > 1 && !repeated) {
    to = IsPrefix(mesh_, t.spec[1], host) ? t.spec[1] : host;
  }
  MoveTo(t, {{}, to}, 4);
}

void Traffic::AllReduce(const AxisGroup& axes, int64_t elements) {
  std::vector<int64_t> sent;
  for (int device = 0; device < mesh_.devices(); ++device) {
    sent.push_back(
        AllReduceSent(elements, 4, Parts(axes), mesh_.Index(device, axes)));
  }
  sent_.Add(Collective::kAllReduce, sent);
  steps_.push_back({Collective::kAllReduce, DropTrivial(mesh_, axes), sent});
}

void Traffic::ReduceScatter(const AxisGroup& axes, int64_t elements) {
  std::vector<int64_t> sent;
  for (int device = 0; device < mesh_.devices(); ++device) {
    sent.push_back(
        ReduceScatterSent(elements, 4, Parts(axes), mesh_.Index(device, axes)));
  }
  sent_.Add(Collective::kReduceScatter, sent);
  steps_.push_back(
      {Collective::kReduceScatter, DropTrivial(mesh_, axes), sent});
}

void Traffic::AllGather(const AxisGroup& axes, int64_t elements) {
  Add(Collective::kAllGather,
      AllGatherSent((Size(4) * elements).value(), Parts(axes)));
  Over(axes);
}

void Traffic::ReduceLogits() {
  const Shape q = LocalShapeOf(query), k = LocalShapeOf(key);
  const AxisGroup& dim = query.spec[3];
  AllReduce(dim, (Size(q[0]) * q[2] * q[1] * k[1]).value());
  if (settings_.dot_bits == 0) return;
  AllReduce(dim, ElementsOf({q[0], q[1], q[2]}));
  AllReduce(dim, ElementsOf({k[0], k[1], k[2]}));
}

void Traffic::PassKeysRound(int64_t n) {
  Size block =
      (Size(LocalElements(key)) + LocalElements(value)) * element_bytes_;
  if (problem_.key_segments) {
    block +=
        Size(4) * problem_.key_segments->Elements() / (Parts(key.spec[0]) * n);
  }
  Add(Collective::kPpermute, RingPassSent(block.value(), n));
}

void Traffic::FinishAs(Spec spec) {
  TensorSharding out{output_.shape, std::move(spec)};
  MoveTo(out, output_.spec, element_bytes_);
}

void LocalBytes(Traffic& traffic) {
  traffic.GatherLengths();
  traffic.MoveExtras();
  traffic.FinishAs(traffic.query.spec);
}

}  // namespace shardc::exec
