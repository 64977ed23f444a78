// Builds a step of several micro-batches: copies the ops of one micro-batch for
// each micro-batch. Parameters are not copied, because all micro-batches share
// them. The ops that count tokens come first, so that each loss can be divided
// by the number of tokens of all micro-batches. After its backward pass, each
// micro-batch adds its gradients to the sums of the earlier micro-batches. In a
// pipeline (GradientSums), all gradients are added at the end.
//
// The gradient of a parameter w is called d:w. In each micro-batch it is first
// partial over the axes that shard the tokens. The options of Reduction differ
// in when d:w is reduced over these axes. For example, with two micro-batches:
//
//   order of ops:  count 0, count 1, their sum, forward 0, backward 0,
//                  forward 1, backward 1
//   kOnce:         each d:w stays partial, and the sum of both is reduced
//   kSharded:      as kOnce, but each d:w is first reduced over the axes that
//                  shard w
//   kEach:         each d:w is reduced over all axes before it is added
#include "step/accumulate.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "source/list.h"
#include "source/size.h"

namespace shardc::step {
namespace {

// The difference between the random keys of consecutive micro-batches.
constexpr int64_t kKeysApart = 7919;

class Accumulator {
 public:
  // `written` is the number of micro-batches whose ops are written. It is
  // either `micro_batches`, or 1 if one micro-batch represents all of them.
  Accumulator(Graph& graph, int64_t micro_batches, int64_t written,
              Reduction reduction, GradientSums* sums)
      : graph_(graph),
        micros_(micro_batches),
        written_(written),
        reduction_(reduction),
        chains_(sums) {}

  bool Run() {
    ops_ = std::move(graph_.ops);
    graph_.ops.clear();
    if (!FindCount()) {
      graph_.ops = std::move(ops_);
      return false;
    }
    graph_.ops.reserve(ops_.size() * AsIndex(written_ + 1));
    values_ = graph_.values.size();
    data_ = graph_.data;
    value_.assign(AsIndex(written_), {});
    place_.assign(AsIndex(written_), std::vector<int32_t>(ops_.size(), -1));
    for (int64_t m = 0; m < written_; ++m) WriteInputs(m);
    for (int64_t m = 0; m < written_; ++m) WriteCounts(m);
    WriteTokenTotal();
    for (int64_t m = 0; m < written_; ++m) {
      WritePhase(m, Phase::kForward);
      // In a pipeline, the op that adds the losses of all micro-batches comes
      // before the last backward pass.
      if (m + 1 == written_ && chains_ != nullptr) WriteLoss();
      WritePhase(m, Phase::kBackward);
      if (chains_ == nullptr) AddGradients(m);
    }
    if (chains_ != nullptr) AddChains();
    // Without a pipeline the losses are added last. The backward pass of each
    // micro-batch begins with an op that reads the loss, for which the loss is
    // reduced. So the sum of the losses is not reduced again.
    if (chains_ == nullptr) WriteLoss();
    graph_.gradients = sums_;
    graph_.logits = Of(written_ - 1, graph_.logits);
    graph_.loss = loss_;
    return true;
  }

 private:
  // The terms of the loss after the first one, such as router losses, must be
  // means over a micro-batch times a constant. Finds the op that multiplies
  // each of these terms by its constant, and the same op of the backward pass.
  // The constants are later divided by the number of micro-batches, so that the
  // terms add up to the mean over all micro-batches. Returns false if a term is
  // not such a product.
  bool FindShares(const Op& loss) {
    for (size_t i = 1; i < loss.in.size(); ++i) {
      const int32_t at = producer_[AsIndex(loss.in[i])];
      const Op& term = ops_[AsIndex(at)];
      if (term.kind != OpKind::kScale) return false;
      for (size_t j = 0; j < ops_.size(); ++j) {
        const Op& op = ops_[j];
        const bool back = op.kind == OpKind::kScale &&
                          op.phase == Phase::kBackward &&
                          op.name == "d:" + term.name &&
                          As<ScaleAttributes>(op).factor.constant ==
                              As<ScaleAttributes>(term).factor.constant;
        if (back || j == AsIndex(at)) shares_[j] = 1;
      }
    }
    return true;
  }

  // Finds the ops that count tokens and the op that divides by the count.
  // Returns false if the loss is not a sum that is divided by a count, or if
  // FindShares() fails.
  bool FindCount() {
    producer_.assign(graph_.values.size(), -1);
    for (size_t i = 0; i < ops_.size(); ++i) {
      producer_[AsIndex(ops_[i].out)] = static_cast<int32_t>(i);
    }
    if (graph_.loss < 0) return false;
    shares_.assign(ops_.size(), 0);
    const Op* loss = &ops_[AsIndex(producer_[AsIndex(graph_.loss)])];
    if (loss->kind == OpKind::kAdd) {
      if (!FindShares(*loss)) return false;
      loss = &ops_[AsIndex(producer_[AsIndex(loss->in[0])])];
    }
    if (loss->kind != OpKind::kEinsum) return false;
    divide_ = producer_[AsIndex(loss->in[1])];
    const Op& divide = ops_[AsIndex(divide_)];
    if (divide.kind != OpKind::kFn || As<FnAttributes>(divide).fn != "recip") {
      return false;
    }
    counts_.assign(ops_.size(), 0);
    std::vector<ValueId> open = divide.in;
    while (!open.empty()) {
      const int32_t at = producer_[AsIndex(open.back())];
      open.pop_back();
      if (ops_[AsIndex(at)].kind == OpKind::kInput) continue;
      counts_[AsIndex(at)] = 1;
      open.insert(open.end(), ops_[AsIndex(at)].in.begin(),
                  ops_[AsIndex(at)].in.end());
    }
    return true;
  }

  ValueId Of(int64_t micro, ValueId value) const {
    if (value < 0 || micro == 0) return value;
    const ValueId own = value_[AsIndex(micro)][AsIndex(value)];
    return own < 0 ? value : own;
  }

  // Appends a copy of a value for a micro-batch and returns the copy.
  // Micro-batch 0 uses the value itself, which is returned.
  ValueId Own(int64_t micro, ValueId value) {
    if (micro == 0) return value;
    Value copy = graph_.values[AsIndex(value)];
    copy.cotangent_of = Of(micro, copy.cotangent_of);
    graph_.values.push_back(std::move(copy));
    return value_[AsIndex(micro)][AsIndex(value)] =
               static_cast<ValueId>(graph_.values.size() - 1);
  }

  void Write(int64_t micro, size_t index) {
    Op op = ops_[index];
    op.micro = static_cast<int32_t>(micro);
    for (ValueId& value : op.in) {
      if (value != ops_[AsIndex(divide_)].out) value = Of(micro, value);
    }
    op.out = Own(micro, op.out);
    if (op.recompute_of >= 0)
      op.recompute_of = place_[AsIndex(micro)][AsIndex(op.recompute_of)];
    if (shares_[index] != 0) {
      As<ScaleAttributes>(op).factor.constant /= static_cast<double>(micros_);
    }
    if (op.kind == OpKind::kDropout) {
      As<DropoutAttributes>(op).key += micro * kKeysApart;
    }
    constexpr std::string_view kGradient = "grad:";
    if (op.constraint.starts_with(kGradient)) {
      if (reduction_ == Reduction::kOnce) op.constraint.clear();
      if (reduction_ == Reduction::kSharded) {
        op.constraint.replace(0, kGradient.size(), kPartOfGradient);
      }
    }
    place_[AsIndex(micro)][index] = static_cast<int32_t>(graph_.ops.size());
    graph_.ops.push_back(std::move(op));
  }

  void WriteInputs(int64_t micro) {
    value_[AsIndex(micro)].assign(values_, kNoValue);
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (ops_[i].kind != OpKind::kInput) continue;
      const ValueId value = ops_[i].out;
      const auto known =
          std::find_if(data_.begin(), data_.end(),
                       [&](const Data& data) { return data.value == value; });
      if (known == data_.end()) {
        if (micro == 0) graph_.ops.push_back(ops_[i]);
        continue;
      }
      Write(micro, i);
      if (micro > 0) graph_.data.push_back({known->kind, Of(micro, value)});
    }
  }

  void WriteCounts(int64_t micro) {
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (counts_[i] != 0) Write(micro, i);
    }
  }

  // Appends the sum of the token counts of all micro-batches, and the
  // reciprocal of that sum.
  void WriteTokenTotal() {
    const Op& divide = ops_[AsIndex(divide_)];
    Op sum;
    sum.kind = OpKind::kAdd;
    sum.name = divide.name;
    for (int64_t m = 0; m < written_; ++m) {
      sum.in.push_back(Of(m, divide.in[0]));
    }
    const ValueId all = Append(std::move(sum), divide.out);
    Op whole = divide;
    whole.in = {all};
    graph_.ops.push_back(std::move(whole));
  }

  ValueId Append(Op op, ValueId like) {
    graph_.values.push_back(graph_.values[AsIndex(like)]);
    op.out = static_cast<ValueId>(graph_.values.size() - 1);
    graph_.ops.push_back(std::move(op));
    return graph_.ops.back().out;
  }

  void WritePhase(int64_t micro, Phase phase) {
    for (size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = ops_[i];
      if (op.phase != phase || op.kind == OpKind::kInput) continue;
      if (IsReplaced(op.out)) continue;
      if (counts_[i] == 0 && i != AsIndex(divide_)) Write(micro, i);
    }
  }

  void WriteLoss() {
    Op sum;
    sum.kind = OpKind::kAdd;
    sum.name = ops_[AsIndex(producer_[AsIndex(graph_.loss)])].name;
    for (int64_t m = 0; m < written_; ++m) sum.in.push_back(Of(m, graph_.loss));
    loss_ = Append(std::move(sum), graph_.loss);
  }

  bool IsReplaced(ValueId value) const {
    return chains_ != nullptr && IsAmong(value, chains_->replaced);
  }

  // Appends a sum of gradients of a parameter and returns it. The sum has the
  // labels of the value `like`.
  ValueId Add(std::vector<ValueId> terms, size_t parameter, int32_t micro,
              bool reduces, ValueId like) {
    Op sum;
    sum.kind = OpKind::kAdd;
    sum.phase = Phase::kBackward;
    sum.in = std::move(terms);
    sum.name = "sum " + graph_.parameters[parameter].role;
    sum.layer = graph_.parameters[parameter].layer;
    sum.micro = micro;
    if (reduces) {
      sum.constraint = "grad:" + graph_.parameters[parameter].role;
    }
    return Append(std::move(sum), like);
  }

  void AddChains() {
    sums_ = graph_.gradients;
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i] == kNoValue) continue;
      ValueId all = kNoValue;
      for (const std::vector<GradientTerm>& chain : chains_->of[i]) {
        if (chain.empty()) continue;
        const ValueId sum = AddChain(chain, i);
        all = all == kNoValue ? sum : Add({all, sum}, i, -1, true, sum);
      }
      sums_[i] = all;
    }
  }

  ValueId AddChain(const std::vector<GradientTerm>& chain, size_t parameter) {
    ValueId sum = Of(chain[0].micro, chain[0].value);
    // A sum of one gradient needs no op. The gradient itself then gets the
    // sharding constraint of the sum.
    if (chain.size() == 1) {
      const int32_t at = place_[AsIndex(chain[0].micro)]
                               [AsIndex(producer_[AsIndex(chain[0].value)])];
      graph_.ops[AsIndex(at)].constraint =
          "grad:" + graph_.parameters[parameter].role;
    }
    for (size_t k = 1; k < chain.size(); ++k) {
      sum = Add({sum, Of(chain[k].micro, chain[k].value)}, parameter,
                chain[k].micro,
                reduction_ == Reduction::kEach || k + 1 == chain.size(),
                chain[k].value);
      chains_->adds[sum] = chain[k];
    }
    return sum;
  }

  void AddGradients(int64_t micro) {
    if (micro == 0) sums_ = graph_.gradients;
    if (micro == 0 && written_ > 1) return;
    for (size_t i = 0; i < sums_.size(); ++i) {
      const ValueId value = graph_.gradients[i];
      if (value < 0) continue;
      // If only one micro-batch is written, it represents all micro-batches.
      // The sum then belongs to no micro-batch, and its only operand is the
      // gradient of the written micro-batch.
      if (written_ < micros_) {
        sums_[i] = Add({value}, i, -1, true, value);
        continue;
      }
      sums_[i] =
          Add({sums_[i], Of(micro, value)}, i, static_cast<int32_t>(micro),
              reduction_ == Reduction::kEach || micro + 1 == micros_, value);
    }
  }

  Graph& graph_;
  const int64_t micros_;
  const int64_t written_;  // the number of micro-batches whose ops are written
  const Reduction reduction_;
  // Null if no pipeline sets the order in which gradients are added.
  GradientSums* const chains_;
  std::vector<Op> ops_;  // The ops of one micro-batch.
  size_t values_ = 0;
  std::vector<Data> data_;
  // Indexed by ValueId: the index of the op that computes the value.
  std::vector<int32_t> producer_;
  // Indexed by op: 1 if the op counts tokens, else 0.
  std::vector<char> counts_;
  // Indexed by op: 1 if the op multiplies a term of the loss by its constant
  // (FindShares), else 0.
  std::vector<char> shares_;
  // The index of the op that computes 1 / number of tokens.
  int32_t divide_ = -1;
  // value_[m][v] is the copy of value v for micro-batch m; -1 if there is none.
  std::vector<std::vector<ValueId>> value_;
  // place_[m][i] is the index in the new graph of the copy of op i for
  // micro-batch m.
  std::vector<std::vector<int32_t>> place_;
  ValueId loss_ = kNoValue;
  std::vector<ValueId> sums_;
};

}  // namespace

bool Accumulate(Graph& graph, int64_t micro_batches, Reduction reduction,
                GradientSums* sums) {
  return micro_batches == 1 ||
         Accumulator(graph, micro_batches, micro_batches, reduction, sums)
             .Run();
}

bool AccumulateOne(Graph& graph, int64_t micro_batches, Reduction reduction) {
  return micro_batches == 1 ||
         Accumulator(graph, micro_batches, 1, reduction, nullptr).Run();
}

// Finds the stage of each op in one pass over the ops. An op of a layer belongs
// to the layer's stage. For an op outside of the layers, the stage depends on
// the phase. In the forward phase it is the last stage if the op depends on a
// layer, and otherwise the first stage. In the backward phase it is the first
// stage if the op depends on a layer, and otherwise the last stage. With 4
// stages (0 to 3) of two layers each:
//
//   lookup embed -> layer 0 ... layer 7 -> linear head -> loss
//   0               0           3          3              3
//   d:lookup embed <- d:layer 0 ... <- d:linear head <- d:loss
//   0                 0                3               3

namespace {

class Sorter {
 public:
  Sorter(const Graph& graph, const StageDivision& division,
         const std::map<ValueId, int32_t>& given, bool accumulated)
      : graph_(graph),
        division_(division),
        given_(given),
        accumulated_(accumulated),
        of_(graph.values.size()) {}

  std::vector<OpStage> Run() {
    for (const Data& data : graph_.data) {
      of_[AsIndex(data.value)].what.work = StageWork::kData;
    }
    std::vector<OpStage> out;
    out.reserve(graph_.ops.size());
    for (const Op& op : graph_.ops) {
      Reached& at = of_[AsIndex(op.out)];
      if (op.kind == OpKind::kInput) {
        if (at.what.work != StageWork::kData) {
          at.what.work = StageWork::kParameters;
        }
      } else {
        at = Sort(op);
      }
      out.push_back(at.what);
    }
    return out;
  }

 private:
  // The stage of the op that computes a value. `by_layer` is true if this op
  // belongs to a layer. It is also true if the op depends on an op of the same
  // phase (forward or backward) that belongs to a layer.
  struct Reached {
    OpStage what = {};
    bool by_layer = false;
  };

  Reached Sort(const Op& op) const {
    Reached out;
    bool parameters = true, data = true;
    for (const ValueId value : op.in) {
      const StageWork work = of_[AsIndex(value)].what.work;
      parameters = parameters && work == StageWork::kParameters;
      data = data && work == StageWork::kData;
    }
    if (op.phase == Phase::kOptimizer) {
      out.what.work = StageWork::kAfter;
    } else if (data || parameters) {
      out.what.work = data ? StageWork::kData : StageWork::kParameters;
    } else if (accumulated_ && op.micro < 0) {
      out.what.work = StageWork::kAfter;
    } else {
      SortTask(op, out);
    }
    return out;
  }

  void SortTask(const Op& op, Reached& out) const {
    out.what.work = StageWork::kTask;
    const auto given = given_.find(op.out);
    if (given != given_.end()) {
      out.what.stage = given->second;
      return;
    }
    if (op.layer >= 0) {
      out.by_layer = true;
      out.what.stage = AsIndex(op.layer) < division_.of_layer.size()
                           ? division_.of_layer[AsIndex(op.layer)]
                           : -1;
      return;
    }
    out.what.outside = true;
    for (const ValueId value : op.in) {
      const Reached& from = of_[AsIndex(value)];
      out.by_layer = out.by_layer || (from.by_layer && IsOf(op.phase, value));
    }
    const bool last = out.by_layer == (op.phase == Phase::kForward);
    out.what.stage = last ? division_.stages - 1 : 0;
  }

  bool IsOf(Phase phase, ValueId value) const {
    return phase_of_[AsIndex(value)] == phase;
  }

  const Graph& graph_;
  const StageDivision& division_;
  const std::map<ValueId, int32_t>& given_;
  const bool accumulated_;
  // Indexed by ValueId: the stage of the op that computes the value.
  std::vector<Reached> of_;
  const std::vector<Phase> phase_of_ = PhasesOf();

  std::vector<Phase> PhasesOf() const {
    std::vector<Phase> out(graph_.values.size(), Phase::kForward);
    for (const Op& op : graph_.ops) out[AsIndex(op.out)] = op.phase;
    return out;
  }
};

}  // namespace

std::vector<OpStage> StagesOfOps(const Graph& graph,
                                 const StageDivision& division,
                                 const std::map<ValueId, int32_t>& given,
                                 bool accumulated) {
  return Sorter(graph, division, given, accumulated).Run();
}

std::vector<std::vector<int32_t>> StagesOfParameters(
    const Graph& graph, const std::vector<OpStage>& ops) {
  // Maps each value that depends on parameters only to the indices of these
  // parameters.
  std::map<ValueId, std::set<size_t>> made_of;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    made_of[graph.parameters[i].value] = {i};
  }
  std::vector<std::set<int32_t>> stages(graph.parameters.size());
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    for (const ValueId value : op.in) {
      const auto found = made_of.find(value);
      if (found == made_of.end()) continue;
      const std::set<size_t> parameters = found->second;
      if (ops[i].work == StageWork::kParameters) {
        made_of[op.out].insert(parameters.begin(), parameters.end());
      } else if (ops[i].work == StageWork::kTask) {
        for (const size_t parameter : parameters) {
          stages[parameter].insert(ops[i].stage);
        }
      }
    }
  }
  std::vector<std::vector<int32_t>> out;
  out.reserve(stages.size());
  for (const std::set<int32_t>& one : stages) {
    out.emplace_back(one.begin(), one.end());
  }
  return out;
}

}  // namespace shardc::step
