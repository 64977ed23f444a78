// The ops of the dense reference that read or write the rows of an array by ids
// or positions. They look up embedding tables, pick the logits of the targets,
// write caches, and look up position biases by distance. An id or a position
// for which there is no row is skipped. For example:
//
//   cache write at position 3: row 3 of the cache is replaced
//   cache write at position -1: the cache is unchanged
#include "dense/step_ops.h"

#include <algorithm>
#include <cmath>

namespace shardc::dense {
namespace {

using step::LabelId;
using step::Op;
using step::OpKind;
using step::ValueId;

// Returns the row of a table of position biases (T5's buckets) for a key that
// is `apart` positions after its query. Rows in the first half are for one
// distance each. Each later row is for a range of distances, which is longer
// than the range before it by a constant factor. The last row is for all
// distances from `most` on. If `both` is true, the table consists of two such
// tables: one for keys before the query, and one for keys after it. If `both`
// is false, a key after the query has row 0. For example, 32 rows with `both`
// give a key 3 before its query row 3, and a key 3 after it row 19.
int64_t Bucket(int64_t apart, int64_t rows, int64_t most, bool both) {
  int64_t first = 0, far = std::max<int64_t>(-apart, 0);
  if (both) {
    rows /= 2;
    first = apart > 0 ? rows : 0;
    far = std::abs(apart);
  }
  const int64_t single = rows / 2;
  if (far < single) return first + far;
  if (single == 0 || far >= most) return first + rows - 1;
  const auto unit = static_cast<double>(single);
  const double way = std::log(static_cast<double>(far) / unit) /
                     std::log(static_cast<double>(most) / unit);
  const auto more =
      static_cast<int64_t>(way * static_cast<double>(rows - single));
  return first + std::min(single + more, rows - 1);
}

}  // namespace

// Reads rows of a table by ids (kLookup), or adds rows to the rows of a table
// with these ids (kScatter).
template <typename T>
void RunRows(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const bool scatter = op.kind == OpKind::kScatter;
  const ValueId ids = scatter ? op.in[0] : op.in[1];
  const ValueId table = scatter ? op.out : op.in[0];
  // The array that has one row for each token.
  const ValueId tokens = scatter ? op.in[1] : op.out;
  const StepTensor<T>& from = c.Of(scatter ? op.in[1] : op.in[0]);
  const auto& [label, shift] = step::As<step::LookupAttributes>(op);
  const int64_t rows = c.SizeOf(label);
  const Labels& labels = c.LabelsOf(tokens);
  const int64_t step = c.By(table, {label})[0];
  Odometer at(c.Of(tokens).shape,
              {c.By(tokens, labels), c.By(table, labels), c.By(ids, labels)});
  const size_t count = c.Of(tokens).data.size();
  for (size_t i = 0; i < count; ++i, at.Next()) {
    const int64_t row = c.Integer(ids, at.offset(2)) + shift;
    if (row < 0 || row >= rows) continue;
    const auto token = AsIndex(at.offset(0));
    const auto cell = AsIndex(at.offset(1) + row * step);
    out.data[scatter ? cell : token] += from.data[scatter ? token : cell];
  }
}

template <typename T>
void RunPick(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const bool place = op.kind == OpKind::kPlace;
  const ValueId ids = place ? op.in[0] : op.in[1];
  const ValueId wide = place ? op.out : op.in[0];
  const Labels& labels = c.LabelsOf(ids);
  const ValueId narrow = place ? op.in[1] : op.out;
  const LabelId label = step::As<step::LabelAttributes>(op).label;
  const int64_t step = c.By(wide, {label})[0], size = c.SizeOf(label);
  Odometer at(c.Of(ids).shape,
              {c.By(ids, labels), c.By(wide, labels), c.By(narrow, labels)});
  for (size_t i = 0; i < c.Of(ids).data.size(); ++i, at.Next()) {
    const int64_t row = c.Integer(ids, at.offset(0));
    if (row < 0 || row >= size) continue;
    const auto far = AsIndex(at.offset(1) + row * step);
    const auto near = AsIndex(at.offset(2));
    if (place) {
      out.data[far] = c.Of(narrow).data[near];
    } else {
      out.data[near] = c.Of(wide).data[far];
    }
  }
}

template <typename T>
void RunCacheWrite(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const ValueId fresh = op.in[1], positions = op.in[2];
  out.data = c.Of(op.in[0]).data;
  const Labels& labels = c.LabelsOf(fresh);
  const LabelId label = step::As<step::LabelAttributes>(op).label;
  const int64_t rows = c.SizeOf(label);
  const int64_t step = c.By(op.out, {label})[0];
  Odometer at(c.Of(fresh).shape, {c.By(fresh, labels), c.By(op.out, labels),
                                  c.By(positions, labels)});
  for (size_t i = 0; i < c.Of(fresh).data.size(); ++i, at.Next()) {
    const int64_t row = c.Integer(positions, at.offset(2));
    if (row < 0 || row >= rows) continue;
    out.data[AsIndex(at.offset(1) + row * step)] =
        c.Of(fresh).data[AsIndex(at.offset(0))];
  }
}

template <typename T>
void RunDistance(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const Labels& labels = c.LabelsOf(op.out);
  const auto& distance = step::As<step::DistanceAttributes>(op);
  const int64_t rows = c.SizeOf(distance.rows);
  const int64_t most = c.SizeOf(distance.longest);
  Odometer at(out.shape, {c.By(op.in[0], labels), c.By(op.in[1], labels)});
  for (T& to : out.data) {
    const int64_t apart =
        c.Integer(op.in[1], at.offset(1)) - c.Integer(op.in[0], at.offset(0));
    to = T(static_cast<double>(Bucket(apart, rows, most, distance.both_sides)));
    at.Next();
  }
}

SHARDC_DENSE_OP(RunRows)
SHARDC_DENSE_OP(RunPick)
SHARDC_DENSE_OP(RunCacheWrite)
SHARDC_DENSE_OP(RunDistance)

}  // namespace shardc::dense
