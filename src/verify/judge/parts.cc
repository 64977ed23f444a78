// Divides the reference of a case into parts, because it needs much memory.
// Parts are assigned to ranks (processes) in turn, and each rank sends the
// results of its parts to the first rank. Messages contain only numbers: the
// sizes alone determine which bytes belong to which part.
//
//   8 rows of 8 key heads on 4 ranks: 4 parts of 2 rows
//   1 row of 8 key heads on 4 ranks: 4 parts of 2 heads
#include "verify/judge/parts.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "exec/machine/packet.h"
#include "source/index.h"
#include "verify/cases/dense_inputs.h"
#include "verify/cases/shapes.h"

namespace shardc::verify {
namespace {

using dense::Array;
using exec::Buffer;

size_t HeadDim(Layout layout) { return layout == Layout::kBhtd ? 1 : 2; }

int64_t Group(const exec::AttentionProblem& problem) {
  const size_t dim = HeadDim(problem.layout);
  return problem.query.shape[dim] / problem.key.shape[dim];
}

// Restricts a tensor to [begin, end) of a dimension. A dimension of size 1 is
// broadcast and therefore keeps its only element.
void Cut(std::optional<Buffer>& x, size_t dim, int64_t begin, int64_t end) {
  if (!x || x->shape[dim] == 1) return;
  x = exec::SliceDim(*x, dim, begin, end - begin);
}

// The number of elements of query, key and value in a part, 16 MiB in double.
// Parts are larger only if a case has too few rows and heads. Larger parts
// would not be faster.
constexpr int64_t kPartElements = int64_t{1} << 21;

// Returns the number of parts into which one process divides a problem, to
// compute one part after the other. There are fewer parts if the problem has
// fewer rows and heads.
int PartsInTurn(const exec::AttentionProblem& problem) {
  const int64_t elements = problem.query.Elements() + problem.key.Elements() +
                           problem.value.Elements();
  return static_cast<int>(elements / kPartElements + 1);
}

Shape OutputShape(const exec::AttentionProblem& problem) {
  Shape shape = problem.query.shape;
  shape[3] = problem.value.shape[3];
  return shape;
}

// Copies the output of a part, in the problem's layout, to its place in the
// full output `to`.
void Place(const Buffer& from, const RowsAndHeads& part,
           const exec::AttentionProblem& problem, Buffer& to) {
  Shape start(4, 0);
  start[0] = part.rows;
  start[HeadDim(problem.layout)] = part.heads * Group(problem);
  exec::CopyBlock(from, Shape(4, 0), to, start, from.shape);
}

// Copies the output of a part, [b, T, h, Dv], to its place in the full array
// `to`. `group` is the number of query heads for each key head.
void Place(const Array& from, const RowsAndHeads& part, int64_t group,
           Array& to) {
  const int64_t width = from.dim(2) * from.dim(3);
  const int64_t line = to.dim(2) * to.dim(3);
  const int64_t first = part.heads * group * to.dim(3);
  for (int64_t i = 0; i < from.dim(0) * from.dim(1); ++i) {
    std::copy_n(from.data.begin() + i * width, width,
                to.data.begin() + (part.rows * from.dim(1) + i) * line + first);
  }
}

}  // namespace

bool HasParts(const Case& test, const exec::AttentionProblem& problem) {
  return test.layout != Layout::kThd && !problem.latent && !problem.blocks &&
         problem.options.dropout == 0 && !NarrowOf(test).IsNarrow() &&
         problem.query.shape[0] == problem.key.shape[0] &&
         problem.query.shape[HeadDim(problem.layout)] %
                 problem.key.shape[HeadDim(problem.layout)] ==
             0;
}

std::vector<RowsAndHeads> PartsFor(const exec::AttentionProblem& problem,
                                   int ranks) {
  const int64_t rows = problem.key.shape[0];
  const int64_t heads = problem.key.shape[HeadDim(problem.layout)];
  const int64_t by_row = std::min<int64_t>(rows, ranks);
  const int64_t by_head =
      std::min<int64_t>(heads, (ranks + by_row - 1) / by_row);
  std::vector<RowsAndHeads> out;
  for (int64_t r = 0; r < by_row; ++r) {
    for (int64_t h = 0; h < by_head; ++h) {
      out.push_back({r * rows / by_row, (r + 1) * rows / by_row,
                     h * heads / by_head, (h + 1) * heads / by_head});
    }
  }
  return out;
}

exec::AttentionProblem PartOf(const exec::AttentionProblem& problem,
                              const RowsAndHeads& part) {
  const int64_t group = Group(problem);
  const size_t dim = HeadDim(problem.layout);
  const int64_t rows = part.end_rows - part.rows;
  const int64_t heads = part.end_heads - part.heads;
  const auto main = [&](const Buffer& x, int64_t times) {
    Shape start(x.shape.size(), 0), extent = x.shape;
    start[0] = part.rows;
    extent[0] = rows;
    start[dim] = part.heads * times;
    extent[dim] = heads * times;
    return exec::SliceBlock(x, start, extent);
  };
  exec::AttentionProblem out;
  out.layout = problem.layout;
  out.options = problem.options;
  out.query = main(problem.query, group);
  out.key = main(problem.key, 1);
  out.value = main(problem.value, 1);
  const auto by_row = [&](const std::optional<Buffer>& from) {
    std::optional<Buffer> x;
    if (from) x = exec::SliceDim(*from, 0, part.rows, rows);
    return x;
  };
  const auto broadcast = [&](std::optional<Buffer> x) {
    Cut(x, 0, part.rows, part.end_rows);
    Cut(x, 1, part.heads * group, part.end_heads * group);
    return x;
  };
  out.bias = broadcast(problem.bias);
  out.mask = broadcast(problem.mask);
  out.additive_mask = broadcast(problem.additive_mask);
  out.query_segments = by_row(problem.query_segments);
  out.key_segments = by_row(problem.key_segments);
  out.query_positions = by_row(problem.query_positions);
  out.key_positions = by_row(problem.key_positions);
  out.key_lengths = by_row(problem.key_lengths);
  out.key_starts = by_row(problem.key_starts);
  if (problem.softmax_aux) {
    const bool by_key = problem.softmax_aux->shape.size() == 2;
    const int64_t times = by_key ? 1 : group;
    out.softmax_aux = exec::SliceDim(*problem.softmax_aux, by_key ? 1 : 0,
                                     part.heads * times, heads * times);
  }
  return out;
}

std::optional<ReferenceOfParts> ReferenceInParts(
    const Case& test, const exec::AttentionProblem& problem,
    const dense::Options& options, bool logits, std::string& why) {
  ReferenceOfParts whole;
  const size_t dim = HeadDim(problem.layout);
  whole.output =
      Array::Zeros({problem.query.shape[0], problem.query.shape[3 - dim],
                    problem.query.shape[dim], problem.value.shape[3]});
  for (const RowsAndHeads& part : PartsFor(problem, PartsInTurn(problem))) {
    const dense::Inputs in = InputsOf(test, PartOf(problem, part));
    const auto right = dense::Attention(in, options, why);
    if (!right) return std::nullopt;
    if (logits) {
      whole.largest_logit =
          std::max(whole.largest_logit, dense::LargestLogit(in, options));
    }
    Place(right->output, part, Group(problem), whole.output);
  }
  return whole;
}

bool HasManyParts(const exec::AttentionProblem& problem) {
  return PartsInTurn(problem) > 1;
}

std::optional<Buffer> OutputInParts(const Case& test,
                                    const exec::AttentionProblem& problem,
                                    const OnOneDevice& run) {
  Buffer whole = Buffer::Zeros(OutputShape(problem), OutputDtype(test));
  for (const RowsAndHeads& part : PartsFor(problem, PartsInTurn(problem))) {
    const auto output = run(PartOf(problem, part));
    if (!output) return std::nullopt;
    Place(*output, part, problem, whole);
  }
  return whole;
}

std::optional<JoinedParts> JudgeInParts(const Case& test,
                                        const exec::AttentionProblem& problem,
                                        const dense::Options& options,
                                        bool logits, const OnOneDevice& run,
                                        exec::Transport& transport) {
  const std::vector<RowsAndHeads> parts = PartsFor(problem, transport.ranks());
  const auto ranks = AsIndex(transport.ranks());
  exec::Packet own;
  std::vector<double> largest = {0};
  bool fine = true;
  for (size_t i = AsIndex(transport.rank()); i < parts.size() && fine;
       i += ranks) {
    const exec::AttentionProblem part = PartOf(problem, parts[i]);
    std::string why;
    const dense::Inputs in = InputsOf(test, part);
    const auto right = dense::Attention(in, options, why);
    const auto alone = run(part);
    fine = right && alone;
    if (!fine) break;
    if (logits) {
      largest[0] = std::max(largest[0], dense::LargestLogit(in, options));
    }
    exec::PutAll(right->output.data, own);
    exec::PutAll(alone->real, own);
  }
  exec::PutAll(largest, own);
  for (const exec::Packet& all : transport.Share({std::byte{fine}})) {
    if (all != exec::Packet{std::byte{1}}) return std::nullopt;
  }
  std::vector<exec::Packet> out(ranks);
  out[0] = std::move(own);
  const std::vector<exec::Packet> in = transport.Exchange(std::move(out));
  JoinedParts whole;
  if (transport.rank() != 0) return whole;
  const size_t dim = HeadDim(problem.layout);
  const int64_t group = Group(problem);
  const Shape shape = OutputShape(problem);
  whole.unsharded = Buffer::Zeros(shape, OutputDtype(test));
  Shape canonical = shape;
  if (dim == 1) std::swap(canonical[1], canonical[2]);
  whole.reference = Array::Zeros(canonical);
  std::vector<std::span<const std::byte>> left(in.begin(), in.end());
  for (size_t i = 0; i < parts.size(); ++i) {
    const RowsAndHeads& part = parts[i];
    const size_t rank = i % ranks;
    Shape extent = shape;
    extent[0] = part.end_rows - part.rows;
    extent[dim] = (part.end_heads - part.heads) * group;
    Shape bthd = extent;
    if (dim == 1) std::swap(bthd[1], bthd[2]);
    Array reference = Array::Zeros(bthd);
    Buffer alone = Buffer::Zeros(extent, OutputDtype(test));
    if (!exec::TakeAll(left[rank], reference.data) ||
        !exec::TakeAll(left[rank], alone.real)) {
      transport.Stop("a part of the reference is cut short");
    }
    Place(reference, part, group, whole.reference);
    Place(alone, part, problem, whole.unsharded);
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (!exec::TakeAll(left[rank], largest)) {
      transport.Stop("a part's largest logit is missing");
    }
    whole.largest_logit = std::max(whole.largest_logit, largest[0]);
  }
  return whole;
}

}  // namespace shardc::verify
