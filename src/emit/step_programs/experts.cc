// A step gives tokens to experts by products with a matrix [b, t, e, c] of
// zeros and ones: a one where token t has place c in the queue of expert e. A
// program that had these products would seem to multiply with the matrix, and
// they grow with the square of the tokens. Each place has one token at most, so
// that the products are lookups of tokens by places:
//
//   einsum(slots [b t e c], x [b t d] -> b e c d)     ->  gather x by the
//   tokens einsum(slots * weights, y [b e c d] -> b t d)     ->  scatter y,
//   weighted
//
// The matrix itself, and the product from which the gradient of the weights is
// read at the places, are written only where another op needs them.
#include "emit/step_programs/experts.h"

#include <algorithm>
#include <utility>

#include "emit/step_programs/step_values.h"

namespace shardc::program {
namespace {

using step::As;

// Returns 1 for the `count` largest elements along a dimension and 0 for the
// others. Of equal ones, the first is chosen.
ValueId Best(StepValues& values, ValueId scores, size_t dim, int64_t count) {
  ProgramWriter& write = values.write();
  const ValueId best = write.TopK(scores, dim, count).indices;
  // [.., k, ..] is compared with 0, 1, 2 and so on in a new dimension after the
  // chosen ones.
  Shape shape = write.ShapeOf(best);
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(dim) + 1, 1);
  const ValueId apart = write.Reshaped(best, std::move(shape));
  Shape ones(write.ShapeOf(apart).size(), 1);
  ones[dim + 1] = write.ShapeOf(scores)[dim];
  const ValueId each = write.Iota(std::move(ones), dim + 1);
  const ValueId is =
      write.Converted(write.Test("eq", {apart, each}), values.source().dtype);
  return write.Reduce("sum", is, {static_cast<int64_t>(dim)});
}

// The place of a token in an expert's queue is the number of tokens before it
// in its row that chose the expert.
struct Choice {
  ValueId place = 0, chosen = 0;  // integers and booleans, [b, t, e]
};
Choice ChoiceOf(StepValues& values, const step::Op& op) {
  ProgramWriter& write = values.write();
  const ValueId chosen = write.Converted(values.Of(op.in[0]), Dtype::kI32);
  const ValueId taken = write.CumulativeSum(
      chosen, PlaceOf(values.LabelsOf(op.in[0]), values.graph().common.query));
  return {write.Map("sub", {taken, write.Number(1, taken)}),
          write.Test("gt", {chosen, write.Number(0, chosen)})};
}

}  // namespace

ValueId BestExperts(StepValues& values, const step::Op& op) {
  const auto& [experts, chosen] = As<step::TopKAttributes>(op);
  const Labels& in = values.LabelsOf(op.in[0]);
  return values.Arranged(Best(values, values.Real(op.in[0]),
                              PlaceOf(in, experts), values.SizeOf(chosen)),
                         in, values.LabelsOf(op.out));
}

ValueId BestGroups(StepValues& values, const step::Op& op) {
  const auto& [experts, groups, chosen, score] =
      As<step::TopGroupsAttributes>(op);
  ProgramWriter& write = values.write();
  const Labels& in = values.LabelsOf(op.in[0]);
  const size_t dim = PlaceOf(in, experts);
  const int64_t each = values.SizeOf(experts) / values.SizeOf(groups);
  Shape grouped = values.Sized(in);
  grouped[dim] = values.SizeOf(groups);
  grouped.insert(grouped.begin() + static_cast<ptrdiff_t>(dim) + 1, each);
  const ValueId x = write.Reshaped(values.Real(op.in[0]), grouped);
  const auto inner = static_cast<int64_t>(dim) + 1;
  const ValueId scores =
      score == step::GroupScore::kTop2
          ? write.Reduce(
                "sum",
                write.TopK(x, dim + 1, std::min<int64_t>(2, each)).values,
                {inner})
          : write.Reduce("max", x, {inner});
  const ValueId best = Best(values, scores, dim, values.SizeOf(chosen));
  Numbers dims;
  for (size_t d = 0; d < in.size(); ++d) {
    dims.push_back(static_cast<int64_t>(d > dim ? d + 1 : d));
  }
  return values.Arranged(
      write.Reshaped(write.Broadcast(best, std::move(grouped), std::move(dims)),
                     values.Sized(in)),
      in, values.LabelsOf(op.out));
}

ValueId SlotMatrix(StepValues& values, const step::Op& op) {
  const LabelId slots = As<step::SlotsAttributes>(op).slots;
  ProgramWriter& write = values.write();
  const Labels& in = values.LabelsOf(op.in[0]);
  const Labels& out = values.LabelsOf(op.out);
  const Choice choice = ChoiceOf(values, op);
  Shape ones(out.size(), 1);
  ones[PlaceOf(out, slots)] = values.SizeOf(slots);
  const ValueId each = write.Iota(std::move(ones), PlaceOf(out, slots));
  const ValueId there =
      write.Test("eq", {values.Arranged(choice.place, in, out), each});
  return write.Converted(
      write.Test("and", {values.Arranged(choice.chosen, in, out), there}),
      values.source().dtype);
}

const step::Op* ExpertQueues::LaterOp(GraphValue value) const {
  const auto found = later_.find(value);
  return found == later_.end() ? nullptr : found->second;
}

const ExpertQueues::Places* ExpertQueues::PlacesOf(GraphValue value) const {
  const auto found = places_.find(value);
  return found == places_.end() ? nullptr : &found->second;
}

const ExpertQueues::Queue& ExpertQueues::QueueOf(GraphValue slots) {
  const auto [known, is_new] = queues_.try_emplace(slots);
  Queue& queue = known->second;
  if (!is_new) return queue;
  const step::Op& op = *later_.at(slots);
  const auto& [experts, places] = As<step::SlotsAttributes>(op);
  const Labels& of_tokens = values_.LabelsOf(op.in[0]);
  const LabelId tokens = graph_.common.query;
  queue.labels =
      Replaced(Without(of_tokens, tokens), experts, {experts, places});
  const Choice choice = ChoiceOf(values_, op);
  const ValueId room =
      write_.Number(static_cast<double>(values_.SizeOf(places)), choice.place);
  queue.placed = write_.Test(
      "and", {choice.chosen, write_.Test("lt", {choice.place, room})});
  // A token without a place has a number that no place has.
  const ValueId place = write_.Select(queue.placed, choice.place, room);
  const ValueId none = write_.Broadcast(
      write_.Number(static_cast<double>(values_.SizeOf(tokens)), place),
      values_.Sized(queue.labels), {});
  const ValueId number =
      write_.Iota(values_.Sized(of_tokens), PlaceOf(of_tokens, tokens));
  queue.token = ScatterRows(values_, "set", {none, queue.labels},
                            {number, of_tokens}, {place, of_tokens}, places);
  return queue;
}

// Returns the weights of the tokens of each place.
ValueId ExpertQueues::Weights(const Places& places, const Queue& queue) {
  return GatherRows(
      values_,
      {values_.Real(*places.weights), values_.LabelsOf(*places.weights)},
      {queue.token, queue.labels}, graph_.common.query, queue.labels);
}

ValueId ExpertQueues::Weighted(ValueId rows, const Labels& labels,
                               const Places& places, const Queue& queue) {
  if (!places.weights) return rows;
  return write_.Map("mul", {rows, values_.Arranged(Weights(places, queue),
                                                   queue.labels, labels)});
}

// Returns the rows of tokens [b, t, ..] at the places of the queues.
ValueId ExpertQueues::Sent(const Places& places, GraphValue tokens,
                           const Labels& out) {
  const Queue& queue = QueueOf(places.slots);
  const ValueId rows =
      GatherRows(values_, {values_.Real(tokens), values_.LabelsOf(tokens)},
                 {queue.token, queue.labels}, graph_.common.query, out);
  return Weighted(rows, out, places, queue);
}

// Returns for each token the sum of its rows at the places of the queues.
ValueId ExpertQueues::Returned(const Places& places, GraphValue rows,
                               const Labels& out) {
  const Queue& queue = QueueOf(places.slots);
  const Labels& labels = values_.LabelsOf(rows);
  const ValueId weighted = Weighted(values_.Real(rows), labels, places, queue);
  const ValueId zeros =
      write_.Broadcast(write_.Number(0, weighted), values_.Sized(out), {});
  return ScatterRows(values_, "add", {zeros, out}, {weighted, labels},
                     {queue.token, queue.labels}, graph_.common.query);
}

// Returns the sums, at the places of the queues, of the products of two values,
// by tokens and experts.
ValueId ExpertQueues::OfWeights(const Places& places, const step::Op& products,
                                const Labels& out) {
  const Queue& queue = QueueOf(places.slots);
  const bool first =
      HasLabel(values_.LabelsOf(products.in[0]), graph_.common.query);
  const GraphValue tokens = products.in[first ? 0 : 1];
  const GraphValue rows = products.in[first ? 1 : 0];
  const Labels& labels = values_.LabelsOf(rows);
  const ValueId both = write_.Map(
      "mul",
      {Sent({places.slots, std::nullopt}, tokens, labels), values_.Real(rows)});
  Numbers axes;
  Labels kept;
  for (size_t d = 0; d < labels.size(); ++d) {
    if (HasLabel(queue.labels, labels[d])) {
      kept.push_back(labels[d]);
    } else {
      axes.push_back(static_cast<int64_t>(d));
    }
  }
  const ValueId sums = write_.Reduce("sum", both, std::move(axes));
  const ValueId zeros =
      write_.Broadcast(write_.Number(0, sums), values_.Sized(out), {});
  return ScatterRows(values_, "add", {zeros, out}, {sums, kept},
                     {queue.token, queue.labels}, graph_.common.query);
}

bool ExpertQueues::Translate(const step::Op& op) {
  if (op.kind == step::OpKind::kSlots) {
    Later(op);
    places_[op.out] = {op.out, std::nullopt};
    return true;
  }
  if (op.kind == step::OpKind::kEinsum) return Product(op);
  const Places* const places = op.in.empty() ? nullptr : PlacesOf(op.in[0]);
  if (op.kind != step::OpKind::kSum || places == nullptr || places->weights ||
      As<step::LabelAttributes>(op).label != graph_.common.slot) {
    return false;
  }
  const ValueId placed = QueueOf(places->slots).placed;
  values_.Set(
      op.out,
      values_.Arranged(write_.Converted(placed, values_.source().dtype),
                       Without(values_.LabelsOf(op.in[0]), graph_.common.slot),
                       values_.LabelsOf(op.out)));
  return true;
}

bool ExpertQueues::Product(const step::Op& op) {
  const LabelId token = graph_.common.query;
  const LabelId slot = graph_.common.slot;
  if (slot == step::kNoLabel) return false;
  const Labels& out = values_.LabelsOf(op.out);
  const auto has = [](const Labels& labels, LabelId a, LabelId b) {
    return HasLabel(labels, a) && HasLabel(labels, b);
  };
  const bool second = PlacesOf(op.in[0]) == nullptr;
  const Places* const places = PlacesOf(op.in[second ? 1 : 0]);
  const GraphValue other = op.in[second ? 0 : 1];
  if (places == nullptr) {
    // A product of tokens and places, which is read at the places only.
    const bool of_both = has(out, token, slot) &&
                         HasLabel(values_.LabelsOf(op.in[0]), token) !=
                             HasLabel(values_.LabelsOf(op.in[1]), token) &&
                         HasLabel(values_.LabelsOf(op.in[0]), slot) !=
                             HasLabel(values_.LabelsOf(op.in[1]), slot) &&
                         HasLabel(values_.LabelsOf(op.in[0]), slot) !=
                             HasLabel(values_.LabelsOf(op.in[0]), token);
    if (of_both) Later(op);
    return of_both;
  }
  const Labels& labels = values_.LabelsOf(other);
  const Labels& matrix = values_.LabelsOf(places->slots);
  const step::Op* const later = LaterOp(other);
  if (later != nullptr) {
    // The matrix selects from a product of tokens and places.
    const bool selects = !places->weights && PlacesOf(other) == nullptr &&
                         out == Without(matrix, slot);
    if (selects) {
      values_.Set(op.out, OfWeights(*places, *later, out));
    }
    return selects;
  }
  const bool of_tokens = HasLabel(labels, token) && !HasLabel(labels, slot);
  if (of_tokens && out == matrix && !places->weights &&
      labels.size() + 1 == matrix.size()) {
    Later(op);
    places_[op.out] = {places->slots, other};
    return true;
  }
  const Labels queue = Without(matrix, token);
  const auto fits = [&](const Labels& rows, const Labels& tokens) {
    // `rows` has the labels of the queues in place of the token.
    return std::ranges::all_of(
               queue, [&](LabelId label) { return HasLabel(rows, label); }) &&
           !HasLabel(rows, token) && HasLabel(tokens, token) &&
           std::ranges::all_of(tokens, [&](LabelId label) {
             return label == token || HasLabel(rows, label);
           });
  };
  if (of_tokens && fits(out, labels)) {
    values_.Set(op.out, Sent(*places, other, out));
    return true;
  }
  if (!HasLabel(out, slot) && fits(labels, out)) {
    values_.Set(op.out, Returned(*places, other, out));
    return true;
  }
  return false;
}

}  // namespace shardc::program
