// Ids select rows by the ops gather and scatter, whose attributes number the
// dimensions of the array, of the ids and of a row. Where the array and the ids
// have a label in common, each id selects among the rows of its own index:
//
//   logits [b, t, v], ids [b, t], rows v  ->  for b and t one of v, [b, t]
//   table [v, d], ids [b, t], rows v      ->  [b, t, d]
#include "program/of_step/rows.h"

#include <utility>

namespace shardc::program {
namespace {

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

}  // namespace shardc::program
