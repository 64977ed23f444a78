// Kernels that find rows of a table by ids or positions, and the kernel that
// computes the rows of a position bias. An id is the number of a row of the
// unsharded table. A device subtracts the number of its first row, and skips
// the ids of rows that other devices hold. For a skipped id, a lookup returns
// zeros. The sum of the devices' results is therefore the unsharded result. For
// example:
//
//   lookup, rows [4, 8) of 8 on this device: id 6 reads row 2 of the part,
//   id 3 gives zeros
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>

#include "exec/step/kernel.h"

namespace shardc::exec {
namespace {

// Computes relative position buckets, as in T5. A table of position biases has
// rows, and each distance between a key and its query belongs to one row. A row
// is for one distance or for a range of distances.
//
// Without `both`, all rows are for keys that are not after the query. With
// `both`, the first half of the rows is for such keys, and the second half is
// for keys after the query. Let n be the number of rows for one direction. The
// first n/2 of these rows belong to the distances 0 to n/2 - 1. Each later row
// belongs to a range of distances, and the ranges grow by a constant factor
// from row to row. All distances from `most` on belong to the last row. For
// example:
//
//   8 rows, most 16:  distance 3 -> row 3, 4 and 5 -> row 4, 16 -> row 7

// Returns the row for a key that is `behind` places after its query, or before
// it if `behind` is negative. Without `both`, keys after the query have row 0,
// like the key at the query's own position.
inline int64_t DistanceRow(int64_t behind, int64_t rows, int64_t most,
                           bool both) {
  const int64_t side = both ? rows / 2 : rows;
  const int64_t begin = both && behind > 0 ? side : 0;
  const int64_t distance =
      both && behind > 0 ? behind : std::max<int64_t>(-behind, 0);
  const int64_t near = side / 2;
  if (distance < near) return begin + distance;
  if (near == 0 || distance >= most) return begin + side - 1;
  const double of_far =
      std::log(static_cast<double>(distance) / static_cast<double>(near)) /
      std::log(static_cast<double>(most) / static_cast<double>(near));
  const auto far =
      static_cast<int64_t>(of_far * static_cast<double>(side - near));
  return begin + std::min(near + far, side - 1);
}

using step::OpKind;

// Returns the label of the dimension that the ids index, and the number that is
// added to each id.
step::LookupAttributes RowsOf(const step::Op& op) {
  const auto* const rows = std::get_if<step::LookupAttributes>(&op.attributes);
  if (rows != nullptr) return *rows;
  return {step::As<step::LabelAttributes>(op).label, 0};
}

// Lookup and pick read the rows that the ids select. Scatter and place add to
// these rows.
template <class T>
void Indexed(const LocalOp& local) {
  const OpKind kind = local.op->kind;
  const bool reads = kind == OpKind::kLookup || kind == OpKind::kPick;
  const size_t ids_at = reads ? 1 : 0;
  const Part& ids = local.in[ids_at];
  const Part& real = local.in[1 - ids_at];
  // If rows are read, the loop runs over the result. If rows are written, it
  // runs over the operand.
  const Labels& loop = reads ? *local.labels : *real.labels;
  const Shape& extent = reads ? local.out->shape : real.buffer->shape;
  const Labels& other = reads ? *real.labels : *local.labels;
  const Shape& other_shape = reads ? real.buffer->shape : local.out->shape;
  const step::LookupAttributes rows_of = RowsOf(*local.op);
  const size_t dim = DimOf(other, rows_of.rows);
  const int64_t first = (reads ? real.start : local.start)[dim];
  const int64_t rows = other_shape[dim];
  const int64_t stride = StridesOf(other_shape)[dim];
  const Reals<T> in(*real.buffer);
  T* const out = RealData<T>(*local.out);
  ForNest(extent,
          {StridesOf(extent), StridesAlong(loop, other, other_shape),
           Along(loop, ids)},
          {}, [&](const Offsets& at) {
            const int64_t row =
                ids.buffer->integers[AsIndex(at[2])] + rows_of.offset - first;
            if (row < 0 || row >= rows) return;
            const int64_t there = at[1] + row * stride;
            if (reads) {
              out[at[0]] = in[there];
            } else {
              out[there] += in[at[0]];
            }
          });
}

template <class T>
void CacheWrite(const LocalOp& local) {
  const Part &cache = local.in[0], &fresh = local.in[1],
             &positions = local.in[2];
  const size_t dim =
      DimOf(*local.labels, step::As<step::LabelAttributes>(*local.op).label);
  const int64_t first = local.start[dim];
  const int64_t stride = StridesOf(local.out->shape)[dim];
  const Reals<T> old(*cache.buffer), in(*fresh.buffer);
  T* const out = RealData<T>(*local.out);
  ForNest(local.out->shape,
          {StridesOf(local.out->shape), Along(*local.labels, cache)}, {},
          [&](const Offsets& at) { out[at[0]] = old[at[1]]; });
  ForNest(fresh.buffer->shape,
          {StridesOf(fresh.buffer->shape), AlongOut(*fresh.labels, local),
           Along(*fresh.labels, positions)},
          {}, [&](const Offsets& at) {
            const int64_t row =
                positions.buffer->integers[AsIndex(at[2])] - first;
            if (row < 0 || row >= local.out->shape[dim]) return;
            out[at[1] + row * stride] = in[at[0]];
          });
}

}  // namespace

SHARDC_KERNEL(RunIndexed, Indexed)
SHARDC_KERNEL(RunCacheWrite, CacheWrite)

void RunDistance(const LocalOp& local) {
  const auto& distance = step::As<step::DistanceAttributes>(*local.op);
  const Buffer& queries = *local.in[0].buffer;
  const Buffer& keys = *local.in[1].buffer;
  const int64_t rows = SizeOf(local, distance.rows);
  const int64_t most = SizeOf(local, distance.longest);
  const bool both = distance.both_sides;
  ForNest(local.out->shape,
          {StridesOf(local.out->shape), Along(*local.labels, local.in[0]),
           Along(*local.labels, local.in[1])},
          {}, [&](const Offsets& at) {
            const int64_t behind = int64_t{keys.integers[AsIndex(at[2])]} -
                                   int64_t{queries.integers[AsIndex(at[1])]};
            local.out->integers[AsIndex(at[0])] =
                static_cast<int32_t>(DistanceRow(behind, rows, most, both));
          });
}

}  // namespace shardc::exec
