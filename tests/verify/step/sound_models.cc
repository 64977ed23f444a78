// Writes the ops of small models, with the functions that also describe real
// models. The sizes are so small that they are not reduced. Besides layers, the
// models have features that few real models combine: learned positions,
// dropout, a z-loss, smoothed labels, gate and up in one matrix, biases,
// latents, sinks, groups of experts, a shared expert, and a loss that balances
// experts.
//
// For example, in the model of experts, the batch of the tokens [b, t, d] is
// sharded over ep. The router puts the tokens into queues [b, e, slot, d], one
// for each expert e. An all_to_all then shards e over ep.
#include "verify/step/sound_models.h"

#include <string>
#include <tuple>
#include <utility>

#include "source/size.h"
#include "step/build.h"
#include "step/graph_writer.h"
#include "step/macros.h"
#include "step/recompute.h"

namespace shardc::verify {
namespace {

using step::LabelId;
using step::OpKind;
using step::ValueId;

// Writes the dimension labels, the inputs and the ops of a model's graph.
class Writer {
 public:
  explicit Writer(SoundModel& model)
      : graph(model.graph),
        write(model.graph),
        sizes(model.sizes),
        specs(model.specs) {}

  LabelId Label(std::string name, int64_t size, std::string semantic = {}) {
    graph.labels.push_back({.name = std::move(name),
                            .factors = {},
                            .parts = {},
                            .semantic = std::move(semantic)});
    sizes.push_back(size);
    return static_cast<LabelId>(graph.labels.size() - 1);
  }
  LabelId Product(std::string name, LabelId outer, LabelId inner) {
    const LabelId out =
        Label(std::move(name), sizes[AsIndex(outer)] * sizes[AsIndex(inner)]);
    graph.labels[AsIndex(out)].factors = {outer, inner};
    return out;
  }
  ValueId Parameter(std::string role, step::Labels labels, Spec spec,
                    bool decays = true) {
    write.name = role;
    const ValueId out = write.Input(std::move(labels));
    graph.parameters.push_back({.role = std::move(role),
                                .layer = write.layer,
                                .value = out,
                                .manifest_rows = {},
                                .decays = decays});
    specs.push_back(std::move(spec));
    return out;
  }
  ValueId Datum(step::DataKind kind, std::string name, step::Labels labels,
                std::string constraint, bool whole = true) {
    write.name = std::move(name);
    const ValueId out = write.Input(std::move(labels), whole);
    write.Producer(out).constraint = std::move(constraint);
    graph.data.push_back({kind, out});
    return out;
  }
  ValueId Put(ValueId value, std::string constraint) {
    write.Producer(value).constraint = std::move(constraint);
    return value;
  }
  ValueId Total(ValueId x) {
    const step::Labels labels = write.LabelsOf(x);
    for (LabelId label : labels) x = write.Sum(x, label);
    return x;
  }

  step::Graph& graph;
  step::GraphWriter write;
  step::Sizes& sizes;
  std::vector<Spec>& specs;
};

class ModelWriter : public Writer {
 public:
  ModelWriter(const SoundModelKind& kind, SoundModel& model)
      : Writer(model), kind_(kind) {
    b = Label("b", kind.sizes.b, "BATCH");
    t = Label("t", kind.sizes.t, "QUERY_LENGTH");
    s = Label("s", kind.decodes ? 16 : kind.sizes.t, "KV_LENGTH");
    d = Label("d", kind.sizes.d, "EMBED");
    v = Label("v", kind.sizes.v, "VOCAB");
    f = Label("f", kind.sizes.f, "MLP_INTERMEDIATE");
    graph.common.batch = b;
    graph.common.query = t;
    graph.common.key = s;
  }

  void Write() {
    ids_ = Datum(step::DataKind::kIds, "ids", {b, t}, "tokens");
    positions_ =
        Datum(step::DataKind::kPositions, "positions", {b, t}, "tokens");
    if (!kind_.decodes) {
      labels_ = Datum(step::DataKind::kLabels, "labels", {b, t}, "tokens");
      weights_ =
          Datum(step::DataKind::kWeights, "weights", {b, t}, "tokens", false);
    }
    ValueId x = Begin();
    for (int layer = 0; layer < kind_.layers; ++layer) {
      write.layer = layer;
      const bool experts = kind_.experts && (!kind_.mixed || layer % 2 == 1);
      if (!kind_.experts || kind_.mixed) x = AttentionOf(x);
      x = experts ? ExpertsOf(x) : Mlp(x);
    }
    write.layer = -1;
    End(x);
    if (kind_.decodes) return;
    step::Differentiate(graph);
    step::Remat policy;
    if (kind_.recompute) policy.keep = step::Keep::kNothing;
    step::Recompute(graph, policy);
    if (!kind_.bare) step::AppendOptimizer(graph);
  }

  LabelId b, t, s, d, v, f;

 private:
  ValueId Begin() {
    embed_ = Parameter("embed", {v, d}, {{"tp"}, {"fsdp"}});
    const LabelId p = Label("p", 16);
    const ValueId table = Parameter("position table", {p, d}, {{}, {"fsdp"}});
    write.name = "lookup embed";
    ValueId x = write.Lookup(embed_, ids_, 0);
    write.name = "embed scale";
    x = write.Scaled(x, {1, {{d, 0.5}}});
    write.name = "lookup positions";
    const ValueId learned = write.Lookup(table, positions_, 0);
    write.name = "embed";
    x = Put(write.Add({x, learned}), "resid");
    if (kind_.decodes) return x;
    write.name = "dropout";
    return Put(Dropped(x, 7), "resid");
  }

  ValueId Dropped(ValueId x, int64_t key) {
    return write.Append(OpKind::kDropout, {x},
                        step::DropoutAttributes{.rate = 0.25, .key = key},
                        {b, t, d});
  }

  ValueId Normed(ValueId x, const std::string& role) {
    const ValueId weight = Parameter(role, {d}, {{"fsdp"}}, false);
    write.name = "rmsnorm " + role;
    return Put(step::RmsNorm(write, x, d, weight, {}), "normed");
  }

  ValueId LinearOf(const std::string& role, ValueId x, step::Labels labels,
                   Spec spec, ValueId bias = step::kNoValue) {
    const ValueId weight = Parameter(role, std::move(labels), std::move(spec));
    write.name = "linear " + role;
    return step::Linear(write, x, weight, bias);
  }

  ValueId Rotated(ValueId x, const std::string& name) {
    write.name = "rope " + name;
    if (graph.ropes.empty()) graph.ropes.emplace_back();
    return write.Append(OpKind::kRope, {x, positions_},
                        step::RopeAttributes{.label = write.LabelsOf(x).back()},
                        write.LabelsOf(x));
  }

  // Returns the keys or values `x` with the label `s` (the keys' length) in
  // place of the label `t` (the queries' length). In decoding, writes them to
  // the cache and returns all rows of the cache.
  ValueId Remembered(ValueId x, const std::string& name) {
    write.name = "cache " + name;
    if (!kind_.decodes) return write.Rename(x, t, s);
    step::Labels labels = write.LabelsOf(x);
    for (LabelId& label : labels) label = label == t ? s : label;
    const ValueId before =
        Datum(step::DataKind::kCache, "cache " + name, labels, "kcache", false);
    const ValueId after =
        Put(write.Append(OpKind::kCacheWrite, {before, x, positions_},
                         step::LabelAttributes{s}, std::move(labels)),
            "kcache");
    graph.caches.push_back({write.layer, before, after});
    return after;
  }

  void MakeHeads() {
    if (n_ != step::kNoLabel) return;
    n_ = Label("n", kind_.sizes.n, "HEAD");
    k_ = Label("k", kind_.sizes.k, "KV_HEAD");
    h_ = Label("h", kind_.sizes.h, "HEAD_DIM");
    nh_ = Product("(n h)", n_, h_);
    kh_ = Product("(k h)", k_, h_);
    c_ = kind_.latent ? Label("c", 4) : step::kNoLabel;
    query_positions_ = positions_;
    if (kind_.turns > 1) {
      MakeRing();
    } else if (kind_.decodes) {
      key_positions_ = Datum(step::DataKind::kCachePositions, "cache positions",
                             {b, s}, "cache_positions");
    } else {
      write.name = "key positions";
      key_positions_ = write.Rename(positions_, t, s);
      graph.values[AsIndex(key_positions_)].integral = true;
    }
  }

  void MakeRing() {
    step::RingLabels& ring = graph.ring;
    ring.turns = Label("turns", kind_.turns);
    ring.query_rows = Label("t/turns", kind_.sizes.t / kind_.turns);
    ring.queries = Product("(turns t/turns)", ring.turns, ring.query_rows);
    ring.key_rows = Label("s/turns", kind_.sizes.t / kind_.turns);
    ring.keys = Product("(turns s/turns)", ring.turns, ring.key_rows);
    query_positions_ = Datum(step::DataKind::kPositions, "positions of queries",
                             {b, t}, "op_positions");
    key_positions_ = Datum(step::DataKind::kPositions, "positions of keys",
                           {b, s}, "op_positions");
  }

  ValueId AttentionOf(ValueId x) {
    MakeHeads();
    const ValueId y = Normed(x, "norm1");
    const ValueId bias = Parameter("q.bias", {nh_}, {{"tp"}});
    ValueId q = LinearOf("q", y, {nh_, d}, {{"tp"}, {"fsdp"}}, bias);
    q = Put(Rotated(Put(q, "q"), "q"), "q");
    ValueId from = y;
    LabelId width = d;
    if (kind_.latent) {
      from = Put(LinearOf("kv_a", y, {c_, d}, {{}, {"fsdp"}}), "latent");
      width = c_;
    }
    const AxisGroup usual = kind_.sizes.k > 2 ? AxisGroup{"tp"} : AxisGroup{};
    const Spec spec = {kind_.kv_axes.empty() ? usual : kind_.kv_axes, {"fsdp"}};
    ValueId k = Put(LinearOf("k", from, {kh_, width}, spec), "k");
    k = Remembered(Put(Rotated(k, "k"), "k"), "k");
    const ValueId values =
        Remembered(Put(LinearOf("v", from, {kh_, width}, spec), "k"), "v");
    const ValueId sinks = kind_.decodes || kind_.turns > 1
                              ? Parameter("sinks", {n_}, {{"tp"}})
                              : step::kNoValue;
    write.name = "attention";
    step::AttentionSettings settings;
    settings.scale = {1, {{h_, -0.5}}};
    if (sinks != step::kNoValue) settings.cap = 20;
    settings.query_positions = query_positions_;
    settings.key_positions = key_positions_;
    if (kind_.turns > 1) {
      settings.form = {.view = step::AttentionView::kRing,
                       .turns = kind_.turns};
    }
    const ValueId a = Put(
        step::Attention(write, {q}, {k}, values, sinks, settings), "attn_out");
    const ValueId o_bias = Parameter("o.bias", {d}, {{"fsdp"}});
    ValueId o = LinearOf("o", a, {d, nh_}, {{"fsdp"}, {"tp"}}, o_bias);
    if (kind_.recompute) {
      write.name = "dropout o";
      o = Dropped(o, 8 + write.layer);
    }
    write.name = "residual o";
    return Put(write.Add({x, o}), "resid");
  }

  ValueId Mlp(ValueId x) {
    if (fz_ == step::kNoLabel) {
      z_ = Label("z", 2);
      fz_ = kind_.halves_outside ? Product("(z f)", z_, f)
                                 : Product("(f z)", f, z_);
    }
    const ValueId y = Normed(x, "norm2");
    const ValueId both = LinearOf("gate_up", y, {fz_, d}, {{"tp"}, {"fsdp"}});
    write.name = "gated";
    const ValueId gate = write.Index(both, z_, 0);
    const ValueId inner =
        Put(step::Gated(write, gate, write.Index(both, z_, 1), {}), "mlp");
    const ValueId down = LinearOf("down", inner, {d, f}, {{"fsdp"}, {"tp"}});
    write.name = "residual down";
    return Put(write.Add({x, down}), "resid");
  }

  ValueId ExpertsOf(ValueId x) {
    if (e_ == step::kNoLabel) {
      e_ = Label("e", 8, "EXPERT");
      graph.common.slot = Label("slot", 2);
      graph.common.top_k = Label("top_k", 2);
      graph.common.experts = e_;
      groups_ = Label("groups", 4);
      chosen_ = Label("chosen", 2);
    }
    const ValueId y = Normed(x, "norm2");
    const ValueId logits =
        Put(LinearOf("router", y, {e_, d}, {{}, {"fsdp"}}), "router");
    const ValueId correction = Parameter("correction", {e_}, {{}});
    write.name = "route";
    step::RouterSettings settings;
    settings.score = step::RouterSettings::Score::kSigmoid;
    settings.renormalise = true;
    settings.groups = groups_;
    settings.chosen_groups = chosen_;
    // The correction is added to the scores before experts are chosen. It is
    // small, so that the choice still depends on the scores.
    settings.correction = write.Scaled(correction, {0.1, {}});
    const step::Routed routed = step::Route(write, logits, e_, settings);
    WriteBalance(logits, routed.chosen);
    const step::Labels in = {e_, f, d}, back = {e_, d, f};
    const step::ExpertWeights weights = {
        .gate = Parameter("experts.gate", in, {{"ep"}, {"tp"}, {}}),
        .up = Parameter("experts.up", in, {{"ep"}, {"tp"}, {}}),
        .gate_up = step::kNoValue,
        .gate_up_bias = step::kNoValue,
        .down = Parameter("experts.down", back, {{"ep"}, {}, {"tp"}}),
        .down_bias = step::kNoValue};
    write.name = "experts";
    const ValueId made = step::Experts(write, y, routed, e_, weights, {});
    const ValueId up =
        Put(LinearOf("shared.up", y, {f, d}, {{"tp"}, {"fsdp"}}), "mlp");
    write.name = "shared act";
    const ValueId inner = Put(write.Fn("silu", up), "mlp");
    const ValueId shared =
        LinearOf("shared.down", inner, {d, f}, {{"fsdp"}, {"tp"}});
    write.name = "residual shared";
    const ValueId both = write.Add({made, shared});
    write.name = "residual experts";
    return Put(write.Add({x, both}), "resid");
  }

  // Adds a loss that balances experts, multiplied by a constant. For each
  // expert, the number of tokens that chose it is multiplied by the sum of its
  // probabilities. The loss is the sum of these products.
  void WriteBalance(ValueId logits, ValueId chosen) {
    write.name = "balance";
    const ValueId likely = step::Softmax(write, logits, e_);
    const ValueId often = write.Sum(write.Sum(chosen, b), t);
    const ValueId hoped = write.Sum(write.Sum(likely, b), t);
    balance_ = write.Scaled(write.Einsum(often, hoped, {}),
                            {0.5, {{e_, 1.0}, {b, -2.0}, {t, -2.0}}});
  }

  void End(ValueId x) {
    const ValueId y = Normed(x, "norm");
    write.name = "linear head";
    const ValueId logits =
        Put(step::Linear(write, y, embed_, step::kNoValue), "logits");
    graph.logits = logits;
    if (kind_.decodes) return;
    write.name = "loss";
    std::vector<ValueId> losses = {
        step::CrossEntropy(write, logits, labels_, weights_, v)};
    write.name = "z-loss";
    const ValueId most = write.Max(logits, v);
    const ValueId less = write.Scaled(most, {-1, {}});
    const ValueId sum =
        write.Sum(write.Fn("exp", write.Add({logits, less})), v);
    const ValueId z = write.Add({write.Fn("log", sum), most});
    losses.push_back(
        write.Scaled(write.Einsum(z, z, {}), {0.25, {{b, -1.0}, {t, -1.0}}}));
    write.name = "smoothing";
    const ValueId mean = write.Scaled(write.Sum(logits, v), {1, {{v, -1.0}}});
    losses.push_back(write.Scaled(Total(mean), {-0.5, {{b, -1.0}, {t, -1.0}}}));
    if (balance_ != step::kNoValue) losses.push_back(balance_);
    write.name = "total loss";
    graph.loss = write.Add(std::move(losses));
  }

  const SoundModelKind kind_;
  LabelId n_ = step::kNoLabel, k_ = step::kNoLabel, h_ = step::kNoLabel,
          nh_ = step::kNoLabel, kh_ = step::kNoLabel, c_ = step::kNoLabel,
          z_ = step::kNoLabel, fz_ = step::kNoLabel, e_ = step::kNoLabel,
          groups_ = step::kNoLabel, chosen_ = step::kNoLabel;
  ValueId ids_ = step::kNoValue, positions_ = step::kNoValue,
          labels_ = step::kNoValue, weights_ = step::kNoValue,
          embed_ = step::kNoValue, query_positions_ = step::kNoValue,
          key_positions_ = step::kNoValue, balance_ = step::kNoValue;
};

// Writes two micro-batches that use the same weights, and adds their gradients.
class MicroWriter : public Writer {
 public:
  using Writer::Writer;

  void Write() {
    const LabelId b = Label("b", 8, "BATCH");
    const LabelId t = Label("t", 4, "QUERY_LENGTH");
    const LabelId d = Label("d", 8, "EMBED"), v = Label("v", 16, "VOCAB");
    graph.common.batch = b;
    graph.common.query = t;
    const ValueId embed = Parameter("embed", {v, d}, {{}, {"fsdp"}});
    const ValueId head = Parameter("head", {v, d}, {{}, {"fsdp"}});
    const ValueId gain = Parameter("gain.norm", {d}, {{}}, false);
    const ValueId first = Datum(step::DataKind::kIds, "ids", {b, t}, "tokens");
    const ValueId second =
        Datum(step::DataKind::kLabels, "labels", {b, t}, "tokens");
    const ValueId weights =
        Datum(step::DataKind::kWeights, "weights", {b, t}, "tokens", false);
    std::vector<ValueId> losses;
    for (const auto& [ids, labels, name] :
         {std::tuple{first, second, "first"}, {second, first, "second"}}) {
      write.name = std::string("lookup ") + name;
      ValueId x = Put(write.Lookup(embed, ids, 0), "resid");
      write.name = std::string("gain ") + name;
      x = Put(write.Times(x, gain), "resid");
      write.name = std::string("head ") + name;
      const ValueId logits =
          Put(step::Linear(write, x, head, step::kNoValue), "logits");
      write.name = std::string("loss ") + name;
      losses.push_back(step::CrossEntropy(write, logits, labels, weights, v));
      graph.logits = logits;
    }
    write.name = "micro mean";
    graph.loss = write.Scaled(write.Add(std::move(losses)), {0.5, {}});
    step::Differentiate(graph);
    step::AppendOptimizer(graph);
  }
};

}  // namespace

void SoundModel::Constrain(std::string_view logical_axis,
                           const AxisGroup& axes) {
  for (size_t i = 0; i < step::kConstraintAxes.size(); ++i) {
    if (step::kConstraintAxes[i] == logical_axis) {
      constraints.by_axis[i] = axes;
    }
  }
}

void WriteSoundModel(const SoundModelKind& kind, SoundModel& model) {
  ModelWriter(kind, model).Write();
}

void WriteMicroBatches(SoundModel& model) { MicroWriter(model).Write(); }

}  // namespace shardc::verify
