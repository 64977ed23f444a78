// The values of a step's graph in a program: a value that a dimension needs in
// another order is transposed, rows that ids select are read and written, and
// the tensors of a manifest become the parameters of the step.
#include "emit/step_programs/step_values.h"

#include <algorithm>
#include <map>
#include <utility>

namespace shardc::program {

bool HasLabel(const Labels& labels, LabelId label) {
  return std::ranges::find(labels, label) != labels.end();
}

size_t PlaceOf(const Labels& labels, LabelId label) {
  return AsIndex(std::ranges::find(labels, label) - labels.begin());
}

Labels Without(Labels labels, LabelId gone) {
  std::erase(labels, gone);
  return labels;
}

Labels Replaced(const Labels& labels, LabelId from, const Labels& to) {
  Labels out;
  for (const LabelId label : labels) {
    if (label == from) {
      out.insert(out.end(), to.begin(), to.end());
    } else {
      out.push_back(label);
    }
  }
  return out;
}

Shape StepValues::Sized(const Labels& labels) const {
  Shape out;
  for (const LabelId label : labels) out.push_back(SizeOf(label));
  return out;
}

ValueId StepValues::Arranged(ValueId x, const Labels& from, const Labels& to) {
  if (from == to || from.empty()) return x;
  Numbers perm;
  Shape shape;
  for (const LabelId label : to) {
    if (!HasLabel(from, label)) {
      shape.push_back(1);
      continue;
    }
    const size_t at = PlaceOf(from, label);
    perm.push_back(static_cast<int64_t>(at));
    shape.push_back(write_.ShapeOf(x)[at]);
  }
  return write_.Reshaped(write_.Transposed(x, std::move(perm)),
                         std::move(shape));
}

ValueId StepValues::Full(ValueId x, const Labels& from, const Labels& to) {
  const Shape shape = Sized(to);
  if (from.size() == to.size()) return Arranged(x, from, to);
  Labels present;
  Numbers dims;
  for (size_t d = 0; d < to.size(); ++d) {
    if (!HasLabel(from, to[d])) continue;
    present.push_back(to[d]);
    dims.push_back(static_cast<int64_t>(d));
  }
  return write_.Broadcast(Arranged(x, from, present), shape, dims);
}

namespace {

// Ids select rows by the ops gather and scatter, whose attributes number the
// dimensions of the array, of the ids and of a row. Where the array and the ids
// have a label in common, each id selects among the rows of its own index:
//
//   logits [b, t, v], ids [b, t], rows v  ->  for b and t one of v, [b, t]
//   table [v, d], ids [b, t], rows v      ->  [b, t, d]

// The dimensions of an array whose rows ids select, as the attributes of gather
// and scatter name them.
struct RowDims {
  Numbers rows, batch, of_ids, window;
  Labels sliced;  // those of the ids, then those of a row
};

RowDims DimsOf(const Labels& array, const Labels& ids, LabelId rows) {
  RowDims out;
  out.sliced = ids;
  for (size_t d = 0; d < array.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (array[d] == rows) {
      out.rows.push_back(dim);
    } else if (HasLabel(ids, array[d])) {
      out.batch.push_back(dim);
      out.of_ids.push_back(static_cast<int64_t>(PlaceOf(ids, array[d])));
    } else {
      out.window.push_back(std::ssize(out.sliced));
      out.sliced.push_back(array[d]);
    }
  }
  return out;
}

// Returns the ids as index vectors of one number.
ValueId Indices(ProgramWriter& write, ValueId ids) {
  Shape shape = write.ShapeOf(ids);
  shape.push_back(1);
  return write.Reshaped(ids, std::move(shape));
}

}  // namespace

ValueId GatherRows(StepValues& values, const Labelled& array,
                   const Labelled& ids, LabelId rows, const Labels& out) {
  ProgramWriter& write = values.write();
  const RowDims dims = DimsOf(array.labels, ids.labels, rows);
  Numbers sizes = values.Sized(array.labels);
  for (const int64_t d : dims.rows) sizes[AsIndex(d)] = 1;
  for (const int64_t d : dims.batch) sizes[AsIndex(d)] = 1;
  const ValueId indices = Indices(write, ids.id);
  const ValueId made =
      write.Append(OpKind::kGather, {array.id, indices},
                   values.Sized(dims.sliced), write.DtypeOf(array.id),
                   {{Attr::kOffsetDims, dims.window},
                    {Attr::kCollapsedDims, dims.rows},
                    {Attr::kOperandBatchDims, dims.batch},
                    {Attr::kIndicesBatchDims, dims.of_ids},
                    {Attr::kStartIndexMap, dims.rows},
                    {Attr::kSliceSizes, std::move(sizes)}});
  write.Last().mode = IndexMode::kFill;
  write.Last().fill = 0;
  return values.Arranged(made, dims.sliced, out);
}

ValueId ScatterRows(StepValues& values, std::string_view fn,
                    const Labelled& array, const Labelled& updates,
                    const Labelled& ids, LabelId rows) {
  ProgramWriter& write = values.write();
  const RowDims dims = DimsOf(array.labels, ids.labels, rows);
  const ValueId written = values.Full(updates.id, updates.labels, dims.sliced);
  const ValueId indices = Indices(write, ids.id);
  const ValueId made =
      write.Append(OpKind::kScatter, {array.id, indices, written},
                   values.Sized(array.labels), write.DtypeOf(array.id),
                   {{Attr::kUpdateWindowDims, dims.window},
                    {Attr::kInsertedDims, dims.rows},
                    {Attr::kOperandBatchDims, dims.batch},
                    {Attr::kIndicesBatchDims, dims.of_ids},
                    {Attr::kOperandDims, dims.rows}},
                   fn);
  write.Last().mode = IndexMode::kFill;
  return made;
}

// A parameter of a step may be stored in another form than the step has it. The
// tensors of its experts are stacked, a tensor of several layers is divided
// into rows, and the factors of a dimension change their order:
//
//   4 tensors [112, 48], one of each expert  ->  a parameter [4, 112, 48]
//   a tensor [2, 48, 160] of two layers      ->  two parameters [48, 160]
//
// Results have the form of the tensors again.

StepTensors::StepTensors(StepValues& values)
    : values_(values), graph_(values.graph()), write_(values.write()) {
  std::map<int64_t, size_t> by_row;
  for (size_t p = 0; p < graph_.parameters.size(); ++p) {
    const step::Parameter& parameter = graph_.parameters[p];
    std::vector<size_t>& tensors = tensors_of_.emplace_back();
    for (const int64_t row : parameter.manifest_rows) {
      const auto known = by_row.find(row);
      // A row below 0 is that of an expert without a tensor.
      const bool is_new = known == by_row.end() || row < 0;
      const size_t tensor = is_new ? NewTensor(parameter, row) : known->second;
      by_row[row] = tensor;
      stored_[tensor].parameters.push_back(p);
      tensors.push_back(tensor);
    }
  }
  for (Stored& stored : stored_) {
    const int dim = graph_.parameters[stored.parameters[0]].stack_dim;
    if (dim < 0) continue;
    stored.shape.insert(stored.shape.begin() + dim,
                        std::ssize(stored.parameters));
  }
}

// Returns the shape in which a tensor has a parameter of one layer.
Shape StepTensors::ShapeOf(const step::Parameter& parameter) const {
  Labels labels = values_.LabelsOf(parameter.value);
  if (parameter.manifest_rows.size() > 1) labels.erase(labels.begin());
  return values_.Sized(labels);
}

size_t StepTensors::NewTensor(const step::Parameter& parameter, int64_t row) {
  const StepSource& source = values_.source();
  Stored& stored = stored_.emplace_back();
  stored.shape = ShapeOf(parameter);
  stored.name = parameter.role + "/" + std::to_string(parameter.layer);
  stored.dtype = source.dtype;
  if (row >= 0) {
    const Tensor& tensor = source.manifest.tensors[AsIndex(row)];
    stored.name = tensor.name;
    stored.dtype = source.manifest.TypeOf(tensor).dtype.value_or(source.dtype);
  }
  return stored_.size() - 1;
}

void StepTensors::AddInputs(InputKind kind, std::string_view prefix,
                            const ValueOf& value_of) {
  std::vector<ValueId> inputs;
  for (const Stored& stored : stored_) {
    const bool has = value_of(stored.parameters[0]) != step::kNoValue;
    inputs.push_back(has ? write_.AddInput(kind,
                                           std::string(prefix) + stored.name,
                                           stored.shape, stored.dtype)
                         : ValueId{0});
  }
  for (size_t p = 0; p < graph_.parameters.size(); ++p) {
    const GraphValue value = value_of(p);
    if (value == step::kNoValue) continue;
    std::vector<ValueId> parts;
    for (const size_t tensor : tensors_of_[p]) {
      parts.push_back(OfLayer(inputs[tensor], stored_[tensor], p));
    }
    values_.Set(value,
                Labelled(Stacked(std::move(parts)), graph_.parameters[p]));
  }
}

void StepTensors::AddResults(const ValueOf& value_of) {
  for (size_t t = 0; t < stored_.size(); ++t) {
    const Stored& stored = stored_[t];
    std::vector<ValueId> layers;
    for (const size_t p : stored.parameters) {
      const step::Parameter& parameter = graph_.parameters[p];
      const GraphValue value = value_of(p);
      if (!values_.IsMade(value)) break;
      ValueId x = Labelled(values_.Of(value), parameter, true);
      if (tensors_of_[p].size() > 1) {
        const int64_t row =
            std::ranges::find(tensors_of_[p], t) - tensors_of_[p].begin();
        Shape shape = write_.ShapeOf(x);
        shape.erase(shape.begin());
        x = write_.Reshaped(write_.Slice(x, 0, row, row + 1), std::move(shape));
      }
      layers.push_back(x);
    }
    if (layers.size() < stored.parameters.size()) continue;
    const int dim = graph_.parameters[stored.parameters[0]].stack_dim;
    if (dim >= 0) {
      for (ValueId& layer : layers) {
        Shape shape = write_.ShapeOf(layer);
        shape.insert(shape.begin() + dim, 1);
        layer = write_.Reshaped(layer, std::move(shape));
      }
    }
    write_.program.outputs.push_back(
        write_.Concat(std::move(layers), AsIndex(int64_t{std::max(dim, 0)})));
  }
}

// Returns the layer of a tensor that holds several.
ValueId StepTensors::OfLayer(ValueId x, const Stored& stored,
                             size_t parameter) {
  const int dim = graph_.parameters[parameter].stack_dim;
  if (dim < 0) return x;
  const int64_t layer = std::ranges::find(stored.parameters, parameter) -
                        stored.parameters.begin();
  Shape shape = stored.shape;
  shape.erase(shape.begin() + dim);
  return write_.Reshaped(
      write_.Slice(x, AsIndex(int64_t{dim}), layer, layer + 1),
      std::move(shape));
}

ValueId StepTensors::Stacked(std::vector<ValueId> parts) {
  if (parts.size() == 1) return parts[0];
  for (ValueId& part : parts) {
    Shape shape = write_.ShapeOf(part);
    shape.insert(shape.begin(), 1);
    part = write_.Reshaped(part, std::move(shape));
  }
  return write_.Concat(std::move(parts), 0);
}

// Changes the order of the factors of each dimension from that in which the
// tensor has them to that of the label, or back: from (j n h) to (n j h).
ValueId StepTensors::Labelled(ValueId x, const step::Parameter& parameter,
                              bool back) {
  const Labels& labels = values_.LabelsOf(parameter.value);
  for (size_t d = 0; d < parameter.leads.size(); ++d) {
    const size_t lead = parameter.leads[d];
    if (lead == 0) continue;
    const Shape whole = write_.ShapeOf(x);
    const Shape factors =
        values_.Sized(graph_.labels[AsIndex(labels[d])].factors);
    // The factors in the order of the operand.
    Shape split = factors;
    if (!back) {
      std::rotate(split.begin(), split.begin() + 1,
                  split.begin() + static_cast<ptrdiff_t>(lead) + 1);
    }
    Shape apart(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(d));
    Numbers perm;
    for (size_t i = 0; i < d; ++i) perm.push_back(static_cast<int64_t>(i));
    for (size_t f = 0; f < split.size(); ++f) {
      apart.push_back(split[f]);
      const size_t from = f > lead ? f
                          : back   ? (f < lead ? f + 1 : 0)
                          : f == 0 ? lead
                                   : f - 1;
      perm.push_back(static_cast<int64_t>(d + from));
    }
    for (size_t i = d + 1; i < whole.size(); ++i) {
      apart.push_back(whole[i]);
      perm.push_back(static_cast<int64_t>(i + split.size() - 1));
    }
    x = write_.Reshaped(write_.Transposed(write_.Reshaped(x, std::move(apart)),
                                          std::move(perm)),
                        whole);
  }
  return x;
}

}  // namespace shardc::program
