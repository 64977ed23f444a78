// Computes by formula the bytes that a paged operation sends. Queries are
// gathered over all axes except the head axes. Keys and values are resharded to
// the layout of their pages. Outputs are all-reduced over the axes of the
// requests, since a device has zeros for the requests of other shards.
//
// For example, the outputs of one device have b = 4 N H_loc D bytes and are
// all-reduced over n = 2 shards. Each device then sends 2(n-1)/n b = b bytes.
#include "exec/pages/paged_program.h"

namespace shardc::exec {
namespace {

// Returns true if key heads can be sharded over the query's head axes. In
// packed pages, a word that has elements of several heads must not be split.
bool HeadsSplit(const Traffic& traffic, PageFormat format) {
  const int64_t heads = traffic.key.shape[2], dim = traffic.key.shape[3];
  const int64_t n = traffic.Parts(traffic.query.spec[2]);
  if (heads % n != 0) return false;
  if (format != PageFormat::kPacked) return true;
  const int64_t word =
      traffic.settings().int8_pages ? 4 : 4 / traffic.stored_bytes();
  if (dim == 64) return heads % (n * word) == 0;
  return (2 * heads + word - 1) / word % n == 0;
}

}  // namespace

void PagedBytes(Traffic& traffic, const PagedKernel& kernel) {
  const AxisGroup rows = traffic.query.spec[0];
  AxisGroup heads = traffic.query.spec[2];
  if (!HeadsSplit(traffic, kernel.format)) heads.clear();
  traffic.MoveTo(traffic.query, {{}, {}, heads, {}}, traffic.element_bytes());
  traffic.MoveTo(traffic.key, {rows, {}, heads, {}}, traffic.stored_bytes());
  traffic.MoveTo(traffic.value, {rows, {}, heads, {}}, traffic.stored_bytes());
  traffic.MoveExtras();
  traffic.AllReduce(rows, traffic.LocalElements(traffic.query));
  traffic.FinishAs({{}, {}, heads, {}});
}

}  // namespace shardc::exec
