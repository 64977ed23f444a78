// Translates a step's graph op by op. A value of the graph has named
// dimensions, and the same value of the program has these dimensions in the
// same order. Where an op of the program needs them in another order, the
// operands are transposed:
//
//   einsum(w [f d], x [b t d] -> b t f)
//     ->  dot of x and w, contracting d  [b, t, f]
//
// A product that contracts nothing, such as that with the weight of a norm, is
// a map. So is one after which no operand has a dimension of its own, such as a
// sum of squares: a sum follows the map. All other products are dots.
#include "emit/step_programs/translate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "emit/step_programs/experts.h"
#include "emit/step_programs/step_values.h"
#include "emit/step_programs/writer.h"
#include "exec/step/kernel.h"
#include "source/size.h"

namespace shardc::program {
namespace {

using step::As;
using GraphOp = step::Op;

// A dimension of the program that has no label: the pairs of a rotation.
constexpr LabelId kPairLabel = -2;

class Translator : public StepValues {
 public:
  explicit Translator(const StepSource& source) : StepValues(source) {
    write_.program.traced_by = "shardc";
    write_.program.function = source.function;
    if (!source.file.empty()) write_.program.files.push_back(source.file);
  }

  StepProgram Run() {
    StepTensors tensors(*this);
    AddTensors(tensors);
    for (const step::Data& data : graph_.data) MakeData(data);
    if (counts_) {
      write_.program.assumptions.emplace_back(
          "The tokens of each row are at the positions 0, 1, 2 and so on.");
    }
    if (graph_.common.slot != step::kNoLabel) {
      write_.program.assumptions.emplace_back(
          "Free places in the queues of experts count as operations.");
    }
    for (const GraphOp& op : graph_.ops) {
      write_.phase = static_cast<Phase>(op.phase);
      write_.at = LineOf(op);
      if (op.kind != step::OpKind::kInput) Translate(op);
    }
    write_.at = {};
    AddResults(tensors);
    const auto numbers = write_.Prune();
    StepProgram out;
    for (const auto& made : made_) {
      out.values.push_back(made ? numbers[*made] : std::nullopt);
    }
    out.program = std::move(write_.program);
    return out;
  }

 private:
  // ---- inputs and results

  void AddTensors(StepTensors& tensors) {
    tensors.AddInputs(InputKind::kParam, "",
                      [&](size_t p) { return graph_.parameters[p].value; });
    if (graph_.moments.empty()) return;
    tensors.AddInputs(InputKind::kState, "mu/",
                      [&](size_t p) { return graph_.moments[p].first; });
    tensors.AddInputs(InputKind::kState, "nu/",
                      [&](size_t p) { return graph_.moments[p].second; });
  }

  void MakeData(const step::Data& data) {
    using enum step::DataKind;
    const Labels& labels = LabelsOf(data.value);
    const Shape shape = Sized(labels);
    if (data.kind == kCachePositions ||
        (data.kind == kPositions && source_.counts_positions)) {
      Set(data.value, write_.Iota(shape, shape.size() - 1));
      counts_ = counts_ || data.kind == kPositions;
      return;
    }
    constexpr std::string_view kNames[] = {
        "tokens", "labels", "weights", "positions", "cache", "", "patches"};
    const bool integral =
        data.kind == kIds || data.kind == kLabels || data.kind == kPositions;
    std::string name(kNames[static_cast<size_t>(data.kind)]);
    for (int number = 2; !names_.insert(name).second; ++number) {
      name = std::string(kNames[static_cast<size_t>(data.kind)]) + "." +
             std::to_string(number);
    }
    // Positions count what the cache holds, as a state does.
    const bool state = data.kind == kCache || data.kind == kPositions;
    Set(data.value,
        write_.AddInput(state ? InputKind::kState : InputKind::kData,
                        std::move(name), shape,
                        integral ? Dtype::kI32 : source_.dtype));
  }

  void AddResults(StepTensors& tensors) {
    auto& outputs = write_.program.outputs;
    const auto add = [&](GraphValue value) {
      if (IsMade(value)) outputs.push_back(Of(value));
    };
    if (source_.keeps_all) {
      for (const GraphOp& op : graph_.ops) {
        Make(op.out);
        add(op.out);
      }
    } else if (!graph_.updated.empty()) {
      write_.phase = Phase::kOptimizer;
      tensors.AddResults([&](size_t p) { return graph_.updated[p]; });
      tensors.AddResults(
          [&](size_t p) { return graph_.updated_moments[p].first; });
      tensors.AddResults(
          [&](size_t p) { return graph_.updated_moments[p].second; });
    } else if (!graph_.gradients.empty()) {
      write_.phase = Phase::kBackward;
      tensors.AddResults([&](size_t p) { return graph_.gradients[p]; });
    }
    if (graph_.loss != step::kNoValue) return add(graph_.loss);
    add(graph_.logits);
    for (const step::Cache& cache : graph_.caches) add(cache.after);
  }

  // ---- ops

  void Translate(const GraphOp& op) {
    if (queues_.Translate(op)) return;
    for (const GraphValue value : op.in) Make(value);
    Set(op.out, Translated(op));
  }

  // Translates the op of a value that was left for later.
  void Make(GraphValue value) {
    const GraphOp* const op = queues_.LaterOp(value);
    if (IsMade(value) || op == nullptr) return;
    for (const GraphValue in : op->in) Make(in);
    Set(value, Translated(*op));
  }

  double FactorOf(const step::Scale& scale) const {
    double out = scale.constant;
    for (const auto& [label, power] : scale.powers) {
      out *= std::pow(static_cast<double>(SizeOf(label)), power);
    }
    return out;
  }

  Line LineOf(const GraphOp& op) const {
    if (op.line <= 0 || write_.program.files.empty()) return {};
    return {0, op.line};
  }

  ValueId Translated(const GraphOp& op) {
    using enum step::OpKind;
    const Labels& out = LabelsOf(op.out);
    const Labels none;
    const Labels& in = op.in.empty() ? none : LabelsOf(op.in[0]);
    switch (op.kind) {
      case kInput:
        break;
      case kEinsum:
        return Product(op);
      case kAdd:
        return Sum(op);
      case kScale: {
        const double by = FactorOf(As<step::ScaleAttributes>(op).factor);
        const ValueId x = Arranged(Real(op.in[0]), in, out);
        const ValueId scaled = Scaled(x, by);
        if (by == -1) negated_[scaled] = x;
        return scaled;
      }
      case kFn:
        return Function(op);
      case kSum:
      case kMax: {
        const LabelId label = As<step::LabelAttributes>(op).label;
        return Arranged(
            write_.Reduce(op.kind == kSum ? "sum" : "max", Real(op.in[0]),
                          {static_cast<int64_t>(PlaceOf(in, label))}),
            Without(in, label), out);
      }
      case kBroadcast:
        return Full(Of(op.in[0]), in, out);
      case kLookup: {
        const auto& rows = As<step::LookupAttributes>(op);
        return Gather(op, rows.rows, rows.offset);
      }
      case kPick:
        return Gather(op, As<step::LabelAttributes>(op).label, 0);
      case kScatter: {
        const auto& rows = As<step::LookupAttributes>(op);
        return Scatter(op, rows.rows, rows.offset);
      }
      case kPlace:
        return Scatter(op, As<step::LabelAttributes>(op).label, 0);
      case kCacheWrite:
        return CacheWrite(op);
      case kSplit: {
        const LabelId label = As<step::LabelAttributes>(op).label;
        const Labels apart =
            Replaced(in, label, graph_.labels[AsIndex(label)].factors);
        return Arranged(write_.Reshaped(Of(op.in[0]), Sized(apart)), apart,
                        out);
      }
      case kMerge: {
        const LabelId label = As<step::LabelAttributes>(op).label;
        const Labels apart =
            Replaced(out, label, graph_.labels[AsIndex(label)].factors);
        return write_.Reshaped(Arranged(Of(op.in[0]), in, apart), Sized(out));
      }
      case kPart:
      case kUnpart:
        return Part(op);
      case kIndex:
      case kUnindex:
        return Row(op);
      case kRename: {
        const auto& [from, to] = As<step::RenameAttributes>(op);
        return Arranged(Of(op.in[0]), Replaced(in, from, {to}), out);
      }
      case kIdentity:
        return Arranged(Of(op.in[0]), in, out);
      case kRope:
        return Rotated(op);
      case kMask:
        return Masked(op);
      case kRepeat:
        return Repeated(op);
      case kGroupSum:
        return GroupSum(op);
      case kTopGroups:
        return BestGroups(*this, op);
      case kTopK:
        return BestExperts(*this, op);
      case kSlots:
        return SlotMatrix(*this, op);
      case kDropout:
        return Dropout(op);
      case kAdamW:
        return Updated(op);
      case kRoll:
        return Rolled(op);
      case kDistance:
        return Distance(op);
    }
    return Of(op.in[0]);
  }

  ValueId Scaled(ValueId x, double factor) {
    return factor == 1    ? x
           : factor == -1 ? write_.Map("neg", {x})
                          : write_.Map("mul", {x, write_.Number(factor, x)});
  }

  ValueId Zeros(const Labels& labels) {
    return write_.Broadcast(write_.Number(0, source_.dtype), Sized(labels), {});
  }

  // Opaque: nothing is known of the op but its name.
  ValueId Opaque(const GraphOp& op, std::string_view what) {
    std::vector<ValueId> in;
    for (const GraphValue value : op.in) in.push_back(Of(value));
    return write_.Append(OpKind::kOpaque, std::move(in),
                         Sized(LabelsOf(op.out)), source_.dtype, {}, what);
  }

  // Returns x without the dimensions that neither the result nor the other
  // operand has.
  ValueId WithoutOwn(ValueId x, Labels& labels, const Labels& other,
                     const Labels& out) {
    Numbers axes;
    Labels kept;
    for (size_t d = 0; d < labels.size(); ++d) {
      if (HasLabel(other, labels[d]) || HasLabel(out, labels[d])) {
        kept.push_back(labels[d]);
      } else {
        axes.push_back(static_cast<int64_t>(d));
      }
    }
    labels = std::move(kept);
    return write_.Reduce("sum", x, std::move(axes));
  }

  ValueId Product(const GraphOp& op) {
    const Labels& out = LabelsOf(op.out);
    Labels left = LabelsOf(op.in[0]);
    Labels right = LabelsOf(op.in[1]);
    ValueId a = Real(op.in[0]);
    ValueId b = Real(op.in[1]);
    a = WithoutOwn(a, left, right, out);
    b = WithoutOwn(b, right, left, out);
    Labels batch, contracted, free_left, free_right;
    for (const LabelId label : left) {
      (!HasLabel(right, label) ? free_left
       : HasLabel(out, label)  ? batch
                               : contracted)
          .push_back(label);
    }
    for (const LabelId label : right) {
      if (!HasLabel(left, label)) free_right.push_back(label);
    }
    if (contracted.empty() || (free_left.empty() && free_right.empty())) {
      Labels all = out;
      all.insert(all.end(), contracted.begin(), contracted.end());
      const ValueId product =
          write_.Map("mul", {Arranged(a, left, all), Arranged(b, right, all)});
      Numbers axes;
      for (size_t d = out.size(); d < all.size(); ++d) {
        axes.push_back(static_cast<int64_t>(d));
      }
      return Widened(write_.Reduce("sum", product, std::move(axes)), out);
    }
    Labels natural = batch;
    natural.insert(natural.end(), free_left.begin(), free_left.end());
    natural.insert(natural.end(), free_right.begin(), free_right.end());
    Labels swapped = batch;
    swapped.insert(swapped.end(), free_right.begin(), free_right.end());
    swapped.insert(swapped.end(), free_left.begin(), free_left.end());
    if (natural != out && swapped == out) {
      std::swap(a, b);
      std::swap(left, right);
      natural = swapped;
    }
    const auto dims = [](const Labels& of, const Labels& labels) {
      Numbers places;
      for (const LabelId label : of) {
        places.push_back(static_cast<int64_t>(PlaceOf(labels, label)));
      }
      return places;
    };
    const ValueId dot =
        write_.Append(OpKind::kDot, {a, b}, Sized(natural), source_.dtype,
                      {{Attr::kLhsContract, dims(contracted, left)},
                       {Attr::kRhsContract, dims(contracted, right)},
                       {Attr::kLhsBatch, dims(batch, left)},
                       {Attr::kRhsBatch, dims(batch, right)}});
    return Arranged(dot, natural, out);
  }

  // Returns x in the full sizes of its labels, which an elementwise op has left
  // at 1 if no operand has the dimension.
  ValueId Widened(ValueId x, const Labels& labels) {
    const Shape shape = Sized(labels);
    if (write_.ShapeOf(x) == shape) return x;
    if (write_.ShapeOf(x).empty()) return write_.Broadcast(x, shape, {});
    Numbers dims;
    for (size_t d = 0; d < labels.size(); ++d) {
      dims.push_back(static_cast<int64_t>(d));
    }
    return write_.Broadcast(x, shape, std::move(dims));
  }

  // A term that is the negative of a value is subtracted.
  ValueId Sum(const GraphOp& op) {
    const Labels& out = LabelsOf(op.out);
    std::optional<ValueId> sum;
    for (const GraphValue value : op.in) {
      const ValueId term = Real(value);
      const auto negated = negated_.find(term);
      const bool subtracts = sum && negated != negated_.end();
      const ValueId x =
          Arranged(subtracts ? negated->second : term, LabelsOf(value), out);
      sum = sum ? write_.Map(subtracts ? "sub" : "add", {*sum, x}) : x;
    }
    return Widened(*sum, out);
  }

  ValueId Function(const GraphOp& op) {
    const Labels& out = LabelsOf(op.out);
    const auto& [fn, constant] = As<step::FnAttributes>(op);
    const ValueId x = Arranged(Real(op.in[0]), LabelsOf(op.in[0]), out);
    if (op.in.size() > 1) {
      const ValueId y = Arranged(Real(op.in[1]), LabelsOf(op.in[1]), out);
      return Widened(write_.Map("max", {x, y}), out);
    }
    const auto y = WriteFunction(write_, fn, x, constant);
    return y ? Widened(*y, out) : Opaque(op, fn);
  }

  // ---- rows by ids

  ValueId Ids(GraphValue ids, int64_t offset) {
    const ValueId id = Of(ids);
    if (offset == 0) return id;
    return write_.Map("add",
                      {id, write_.Number(static_cast<double>(offset), id)});
  }

  ValueId Gather(const GraphOp& op, LabelId rows, int64_t offset) {
    return GatherRows(*this, {Real(op.in[0]), LabelsOf(op.in[0])},
                      {Ids(op.in[1], offset), LabelsOf(op.in[1])}, rows,
                      LabelsOf(op.out));
  }

  ValueId Scatter(const GraphOp& op, LabelId rows, int64_t offset) {
    const Labels& out = LabelsOf(op.out);
    return ScatterRows(*this, "add", {Zeros(out), out},
                       {Real(op.in[1]), LabelsOf(op.in[1])},
                       {Ids(op.in[0], offset), LabelsOf(op.in[0])}, rows);
  }

  ValueId CacheWrite(const GraphOp& op) {
    const Labels& out = LabelsOf(op.out);
    return ScatterRows(*this, "set",
                       {Arranged(Real(op.in[0]), LabelsOf(op.in[0]), out), out},
                       {Real(op.in[1]), LabelsOf(op.in[1])},
                       {Of(op.in[2]), LabelsOf(op.in[2])},
                       As<step::LabelAttributes>(op).label);
  }

  // ---- parts and rows of dimensions

  ValueId Part(const GraphOp& op) {
    const auto& [whole, part, number] = As<step::PartAttributes>(op);
    const Labels& in = LabelsOf(op.in[0]);
    const Labels& out = LabelsOf(op.out);
    int64_t begin = 0;
    const auto& parts = graph_.labels[AsIndex(whole)].parts;
    for (size_t i = 0; i < AsIndex(number); ++i) begin += SizeOf(parts[i]);
    const int64_t end = begin + SizeOf(parts[AsIndex(number)]);
    const ValueId x = Of(op.in[0]);
    if (op.kind == step::OpKind::kPart) {
      return Arranged(write_.Slice(x, PlaceOf(in, whole), begin, end),
                      Replaced(in, whole, {part}), out);
    }
    return Arranged(
        write_.Padded(x, PlaceOf(in, part), begin, SizeOf(whole) - end),
        Replaced(in, part, {whole}), out);
  }

  ValueId Row(const GraphOp& op) {
    const auto& [label, given] = As<step::IndexAttributes>(op);
    const Labels& in = LabelsOf(op.in[0]);
    const Labels& out = LabelsOf(op.out);
    const int64_t row = given < 0 ? SizeOf(label) + given : given;
    const ValueId x = Of(op.in[0]);
    if (op.kind == step::OpKind::kIndex) {
      const Labels rest = Without(in, label);
      return Arranged(
          write_.Reshaped(write_.Slice(x, PlaceOf(in, label), row, row + 1),
                          Sized(rest)),
          rest, out);
    }
    return write_.Padded(Arranged(x, in, out), PlaceOf(out, label), row,
                         SizeOf(label) - row - 1);
  }

  ValueId Rolled(const GraphOp& op) {
    const auto& [label, sign, open] = As<step::RollAttributes>(op);
    const Labels& in = LabelsOf(op.in[0]);
    const size_t dim = PlaceOf(in, label);
    const int64_t rows = SizeOf(label);
    const ValueId x = Of(op.in[0]);
    const bool on = sign > 0;
    const ValueId moved =
        write_.Slice(x, dim, on ? 0 : 1, on ? rows - 1 : rows);
    if (open) {
      return Arranged(write_.Padded(moved, dim, on ? 1 : 0, on ? 0 : 1), in,
                      LabelsOf(op.out));
    }
    if (rows == 1) return Arranged(x, in, LabelsOf(op.out));
    const ValueId last = write_.Slice(x, dim, on ? rows - 1 : 0, on ? rows : 1);
    return Arranged(on ? write_.Concat({last, moved}, dim)
                       : write_.Concat({moved, last}, dim),
                    in, LabelsOf(op.out));
  }

  // ---- attention

  // Returns the cosines and sines of a rotation, with the labels of the
  // positions and the pairs.
  std::pair<ValueId, ValueId> Angles(GraphValue positions, int64_t rope,
                                     const exec::RopeFrequencies& table) {
    const auto key = std::tuple(Of(positions), rope, table.inverse.size());
    const auto known = angles_.find(key);
    if (known != angles_.end()) return known->second;
    ValueId angle = write_.Converted(Of(positions), Dtype::kF32);
    Shape shape = write_.ShapeOf(angle);
    Shape ones(shape.size(), 1);
    shape.push_back(1);
    ones.push_back(static_cast<int64_t>(table.inverse.size()));
    angle = write_.Map(
        "mul", {write_.Reshaped(angle, std::move(shape)),
                write_.Reshaped(write_.NumberList(table.inverse, Dtype::kF32),
                                std::move(ones))});
    const auto of_angle = [&](std::string_view fn) {
      return write_.Converted(Scaled(write_.Map(fn, {angle}), table.amplitude),
                              source_.dtype);
    };
    const ValueId cosine = of_angle("cos");
    return angles_[key] = {cosine, of_angle("sin")};
  }

  ValueId Rotated(const GraphOp& op) {
    const auto& [label, number, sign] = As<step::RopeAttributes>(op);
    const step::Rope& rope = graph_.ropes[AsIndex(number)];
    const Labels& in = LabelsOf(op.in[0]);
    const int64_t size = SizeOf(label);
    const exec::RopeFrequencies table =
        exec::RopeTable(rope, size, SizeOf(graph_.common.query));
    const auto pairs = static_cast<int64_t>(table.inverse.size());
    if (pairs == 0 || 2 * pairs > size) return Opaque(op, "rope");
    const auto [cosines, sines] = Angles(op.in[1], number, table);
    Labels of_angles = LabelsOf(op.in[1]);
    of_angles.push_back(kPairLabel);
    const Labels paired = Replaced(in, label, {kPairLabel});
    const ValueId cosine = Arranged(cosines, of_angles, paired);
    const ValueId sine = Arranged(sines, of_angles, paired);
    const size_t dim = PlaceOf(in, label);
    const ValueId x = Real(op.in[0]);
    const ValueId rotated = write_.Slice(x, dim, 0, 2 * pairs);
    // The elements of a pair are next to each other, or half a head apart.
    Shape halves = Sized(in);
    halves[dim] = pairs;
    Shape apart = halves;
    apart.insert(apart.begin() + static_cast<ptrdiff_t>(dim) +
                     (rope.interleaved ? 1 : 0),
                 2);
    const size_t of_two = rope.interleaved ? dim + 1 : dim;
    const auto part = [&](int64_t i) {
      if (!rope.interleaved) {
        return write_.Slice(rotated, dim, i * pairs, (i + 1) * pairs);
      }
      return write_.Reshaped(
          write_.Slice(write_.Reshaped(rotated, apart), of_two, i, i + 1),
          halves);
    };
    const ValueId first = part(0);
    const ValueId second = part(1);
    const auto times = [&](ValueId a, ValueId b) {
      return write_.Map("mul", {a, b});
    };
    const std::string_view minus = sign > 0 ? "sub" : "add";
    const std::string_view plus = sign > 0 ? "add" : "sub";
    ValueId one =
        write_.Map(minus, {times(first, cosine), times(second, sine)});
    ValueId two = write_.Map(plus, {times(second, cosine), times(first, sine)});
    if (rope.interleaved) {
      Shape single = apart;
      single[of_two] = 1;
      one = write_.Reshaped(one, single);
      two = write_.Reshaped(two, single);
    }
    ValueId out = write_.Concat({one, two}, of_two);
    Shape joined = halves;
    joined[dim] = 2 * pairs;
    out = write_.Reshaped(out, joined);
    if (2 * pairs < size) {
      out = write_.Concat({out, write_.Slice(x, dim, 2 * pairs, size)}, dim);
    }
    return Arranged(out, in, LabelsOf(op.out));
  }

  // Returns which keys a query sees, or nullopt if it sees all.
  std::optional<ValueId> Seen(const GraphOp& op, const Labels& labels) {
    const auto& mask = As<step::MaskAttributes>(op);
    if (mask.rule == step::MaskRule::kNone) return std::nullopt;
    // The mask has no other dimensions than the positions have.
    Labels own;
    for (const LabelId label : labels) {
      if (HasLabel(LabelsOf(op.in[1]), label) ||
          HasLabel(LabelsOf(op.in[2]), label)) {
        own.push_back(label);
      }
    }
    const ValueId query = Arranged(Of(op.in[1]), LabelsOf(op.in[1]), own);
    const ValueId key = Arranged(Of(op.in[2]), LabelsOf(op.in[2]), own);
    ValueId seen = write_.Test("ge", {query, key});
    if (mask.window != step::kNoLabel) {
      const ValueId window =
          write_.Number(static_cast<double>(SizeOf(mask.window)), query);
      const ValueId near =
          mask.rule == step::MaskRule::kChunked
              ? write_.Test("eq", {write_.Map("div", {query, window}),
                                   write_.Map("div", {key, window})})
              : write_.Test("lt", {write_.Map("sub", {query, key}), window});
      seen = write_.Test("and", {seen, near});
    }
    return Arranged(seen, own, labels);
  }

  ValueId Masked(const GraphOp& op) {
    const Labels& labels = LabelsOf(op.out);
    const auto& mask = As<step::MaskAttributes>(op);
    ValueId scores = Arranged(Real(op.in[0]), LabelsOf(op.in[0]), labels);
    if (mask.heads != step::kNoLabel) {
      std::vector<double> slopes;
      const int64_t heads = SizeOf(mask.heads);
      for (int64_t head = 0; head < heads; ++head) {
        slopes.push_back(FactorOf(mask.slope_scale) *
                         exec::AlibiSlope(heads, head));
      }
      const ValueId slope = Arranged(write_.NumberList(slopes, source_.dtype),
                                     {mask.heads}, labels);
      const ValueId key = Arranged(Real(op.in[2]), LabelsOf(op.in[2]), labels);
      scores = write_.Map("add", {scores, write_.Map("mul", {slope, key})});
    }
    const auto seen = Seen(op, labels);
    if (!seen) return scores;
    const ValueId hidden =
        write_.Number(-std::numeric_limits<double>::infinity(), scores);
    return write_.Select(*seen, scores, hidden);
  }

  // Query head n of N reads KV head n / (N / K): the query heads of a KV head
  // follow each other.
  ValueId Repeated(const GraphOp& op) {
    const auto& heads = As<step::HeadGroupAttributes>(op);
    const Labels& in = LabelsOf(op.in[0]);
    const Labels natural = Replaced(in, heads.kv_heads, {heads.query_heads});
    const size_t dim = PlaceOf(in, heads.kv_heads);
    ValueId x = Of(op.in[0]);
    if (SizeOf(heads.query_heads) != SizeOf(heads.kv_heads)) {
      Shape grouped = Sized(in);
      Numbers dims;
      for (size_t d = 0; d < in.size(); ++d) {
        dims.push_back(static_cast<int64_t>(d > dim ? d + 1 : d));
      }
      grouped.insert(grouped.begin() + static_cast<ptrdiff_t>(dim) + 1,
                     SizeOf(heads.query_heads) / SizeOf(heads.kv_heads));
      x = write_.Reshaped(
          write_.Broadcast(x, std::move(grouped), std::move(dims)),
          Sized(natural));
    }
    return Arranged(x, natural, LabelsOf(op.out));
  }

  ValueId GroupSum(const GraphOp& op) {
    const auto& heads = As<step::HeadGroupAttributes>(op);
    const Labels& in = LabelsOf(op.in[0]);
    const Labels natural = Replaced(in, heads.query_heads, {heads.kv_heads});
    const size_t dim = PlaceOf(in, heads.query_heads);
    ValueId x = Of(op.in[0]);
    if (SizeOf(heads.query_heads) != SizeOf(heads.kv_heads)) {
      Shape grouped = Sized(natural);
      grouped.insert(grouped.begin() + static_cast<ptrdiff_t>(dim) + 1,
                     SizeOf(heads.query_heads) / SizeOf(heads.kv_heads));
      x = write_.Reduce("sum", write_.Reshaped(x, std::move(grouped)),
                        {static_cast<int64_t>(dim) + 1});
    }
    return Arranged(x, natural, LabelsOf(op.out));
  }

  // T5's rows: one for each distance up to half of the rows, then ranges that
  // grow by a constant factor. See exec/step/selection.cc.
  ValueId Distance(const GraphOp& op) {
    const auto& distance = As<step::DistanceAttributes>(op);
    const Labels& out = LabelsOf(op.out);
    const ValueId query = Arranged(Of(op.in[0]), LabelsOf(op.in[0]), out);
    const ValueId key = Arranged(Of(op.in[1]), LabelsOf(op.in[1]), out);
    const ValueId behind = write_.Map("sub", {key, query});
    const ValueId zero = write_.Number(0, behind);
    const bool both = distance.both_sides;
    const int64_t rows = SizeOf(distance.rows) / (both ? 2 : 1);
    const int64_t single = rows / 2;
    const ValueId far =
        both ? write_.Map("abs", {behind})
             : write_.Map("max", {write_.Map("neg", {behind}), zero});
    const auto number = [&](int64_t x) {
      return write_.Number(static_cast<double>(x), behind);
    };
    const ValueId last = number(rows - 1);
    ValueId row = last;
    const int64_t most = SizeOf(distance.longest);
    if (single > 0) {
      // log(far / single) / log(most / single), of the rows after `single`.
      const auto unit = static_cast<double>(single);
      const ValueId at_least = write_.Map("max", {far, number(single)});
      ValueId way = write_.Converted(at_least, Dtype::kF32);
      way = write_.Map("log",
                       {write_.Map("div", {way, write_.Number(unit, way)})});
      const double span = std::log(static_cast<double>(most) / unit);
      way = write_.Map("div", {way, write_.Number(span, way)});
      way = write_.Map(
          "mul", {way, write_.Number(static_cast<double>(rows - single), way)});
      const ValueId more = write_.Map(
          "add", {number(single), write_.Converted(way, Dtype::kI32)});
      row = write_.Map("min", {more, last});
      row = write_.Select(write_.Test("ge", {far, number(most)}), last, row);
      row = write_.Select(write_.Test("lt", {far, number(single)}), far, row);
    } else {
      row = write_.Select(write_.Test("lt", {far, number(single)}), far, last);
    }
    if (both) {
      const ValueId after =
          write_.Select(write_.Test("gt", {behind, zero}), number(rows), zero);
      row = write_.Map("add", {row, after});
    }
    return Widened(row, out);
  }

  // ---- training

  // The elements that are dropped depend on the key alone, so that the backward
  // pass drops those of the forward pass.
  ValueId Dropout(const GraphOp& op) {
    const auto& [rate, key] = As<step::DropoutAttributes>(op);
    const Labels& in = LabelsOf(op.in[0]);
    const ValueId x = Arranged(Real(op.in[0]), in, LabelsOf(op.out));
    const auto [drawn, is_new] =
        drawn_.try_emplace({key, write_.ShapeOf(x)}, ValueId{0});
    if (is_new) {
      const ValueId random = write_.Drawn(write_.ShapeOf(x), source_.dtype);
      drawn->second = write_.Test("ge", {random, write_.Number(rate, random)});
    }
    return write_.Select(drawn->second, Scaled(x, 1 / (1 - rate)),
                         write_.Number(0, x));
  }

  // AdamW computes in the dtype of the parameter. Its three results share the
  // moments.
  ValueId Updated(const GraphOp& op) {
    const auto& [result, decay] = As<step::AdamWAttributes>(op);
    const step::Adam& adam = graph_.adam;
    const ValueId p = Of(op.in[0]);
    const auto number = [&](double x) { return write_.Number(x, p); };
    const auto map = [&](std::string_view fn, ValueId a, ValueId b) {
      return write_.Map(fn, {a, b});
    };
    const auto [known, is_new] = moments_.try_emplace(op.in[0]);
    if (is_new) {
      const Dtype dtype = write_.DtypeOf(p);
      const ValueId g = map("mul", write_.Converted(Of(op.in[1]), dtype),
                            write_.Converted(Of(op.in[4]), dtype));
      known->second.first =
          map("add", map("mul", Of(op.in[2]), number(adam.beta1)),
              map("mul", g, number(1 - adam.beta1)));
      known->second.second =
          map("add", map("mul", Of(op.in[3]), number(adam.beta2)),
              map("mul", map("mul", g, g), number(1 - adam.beta2)));
    }
    const auto& [first, second] = known->second;
    if (result == step::AdamWResult::kFirstMoment) return first;
    if (result == step::AdamWResult::kSecondMoment) return second;
    const auto time = static_cast<double>(adam.step);
    const ValueId one = Scaled(first, 1 / (1 - std::pow(adam.beta1, time)));
    const ValueId two = Scaled(second, 1 / (1 - std::pow(adam.beta2, time)));
    ValueId moved =
        map("div", one,
            map("add", write_.Map("sqrt", {two}), number(adam.epsilon)));
    if (decay != 0) moved = map("add", moved, Scaled(p, decay));
    return map("sub", p, Scaled(moved, adam.rate));
  }

  std::set<std::string> names_;  // of data
  bool counts_ = false;          // whether it computes positions of tokens
  ExpertQueues queues_{*this};
  // The operand of each negation.
  std::map<ValueId, ValueId> negated_;
  std::map<std::tuple<ValueId, int64_t, size_t>, std::pair<ValueId, ValueId>>
      angles_;
  std::map<std::pair<int64_t, Shape>, ValueId> drawn_;
  std::map<GraphValue, std::pair<ValueId, ValueId>> moments_;
};

}  // namespace

StepProgram ProgramOfStep(const StepSource& source) {
  return Translator(source).Run();
}

}  // namespace shardc::program
