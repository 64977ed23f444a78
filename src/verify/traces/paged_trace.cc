// Runs a trace of requests on pages: requests grow, share pages and are
// released at random. The data of a token follow from the token's number. After
// each step, all tokens of all requests can therefore be read and compared bit
// by bit. The first steps are fixed:
//
//   pages of 4: row 0 has 6 tokens, row 1 shares them, both append more
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "dense/narrow.h"
#include "exec/machine/agreement.h"
#include "exec/machine/random.h"
#include "floats/convert.h"
#include "source/size.h"
#include "verify/judge/explain.h"
#include "verify/traces/cache_trace.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using exec::LayoutError;

constexpr float kFree = 1e4f;

class PagedTraceRun {
 public:
  PagedTraceRun(const PagedTrace& trace, const RunOptions& options)
      : trace_(trace),
        options_(options),
        mesh_(trace.mesh, options.transport),
        machine_(mesh_, options.threads, options.seams),
        random_(exec::Random(trace.seed)),
        head_axes_(exec::DropTrivial(mesh_, trace.head_axes)),
        tokens_(AsIndex(trace.requests)),
        record_(options.record) {}

  CacheTraceResult Go() {
    LayoutError why;
    if (!Make(why)) return Refused(why);
    record_.Begin("settings");
    record_.Add("page_size", {trace_.page_size});
    record_.Add("key_heads_head_dim", {trace_.key_heads, trace_.head_dim});
    record_.Add("format", {static_cast<int64_t>(trace_.format)});
    for (int64_t step = 0; step < trace_.steps; ++step) {
      result_.step = step;
      record_.Begin("step");
      record_.Pages("before", mesh_, *pool_, *table_);
      Step();
      record_.Pages("after", mesh_, *pool_, *table_);
      if (!ReadBack()) return std::move(result_);
    }
    result_.step = -1;
    Bytes();
    // Every bit was correct, so the error of every device is 0.
    result_.device_error.assign(AsIndex(mesh_.devices()), 0);
    return std::move(result_);
  }

 private:
  CacheTraceResult Refused(const LayoutError& why) {
    result_.status = Status::kUnsupported;
    result_.reason = why.message;
    result_.axis = why.axis;
    result_.help = why.help;
    return std::move(result_);
  }

  bool Make(LayoutError& why) {
    exec::PageConfig pages;
    pages.shards = mesh_.Parts(trace_.page_axes);
    pages.rows = trace_.requests;
    pages.page_size = trace_.page_size;
    pages.pages_per_row = trace_.pages_per_request;
    // Each shard has four pages for each of its requests, but at least 16. With
    // three or more requests, a shard may have too few pages for all to grow.
    const int64_t rows = trace_.requests / pages.shards;
    pages.pages = pages.shards * std::max<int64_t>(16, 4 * rows);
    const exec::PageSeam& seam = machine_.Seam<exec::PageSeam>();
    if (seam.config) seam.config(pages);
    table_ = exec::PageTable::Make(pages, why);
    if (!table_) return false;
    table_->ShuffleFree(exec::Random(trace_.seed).Split("pages"));
    if (MakePool(why)) return true;
    if (head_axes_.empty()) return false;
    result_.remarks.push_back("heads are replicated: " + why.message);
    head_axes_.clear();
    return MakePool(why);
  }

  bool MakePool(LayoutError& why) {
    pool_ = exec::MakePool(mesh_,
                           {trace_.format, table_->config().pages,
                            trace_.page_size, trace_.key_heads, trace_.head_dim,
                            trace_.dtype, trace_.page_axes, head_axes_},
                           kFree, why);
    if (pool_) pool_->arithmetic = &machine_.Seam<exec::Arithmetic>();
    return pool_.has_value();
  }

  // Checks that no bytes were sent. None are needed, because every device has
  // the new tokens and writes those that belong to its own pages.
  void Bytes() {
    result_.ledger = exec::SumOverRanks(options_.transport, machine_.ledger());
    const exec::SentBytes sent = result_.ledger.Sent();
    if (sent == exec::SentBytes{} || !options_.checks.Has(Check::kLedger))
      return;
    result_.status = Status::kFail;
    result_.failed = Check::kLedger;
    result_.reason = BytesDiffer(mesh_, sent, {});
  }

  // The first steps share a page that is partly filled, and then write to it.
  // The table must therefore copy the page.
  void Step() {
    const int64_t at = result_.step;
    if (at == 0) return Grow(0, trace_.page_size + 2);
    if (at == 1) return Share(0, 1);
    if (at == 2) return Grow(1, 1);
    if (at == 3) return Grow(0, 1);
    const int64_t row = random_.Between(0, trace_.requests - 1);
    switch (random_.Below(5)) {
      case 0:
        table_->Release(row);
        record_.Add("release", {row});
        tokens_[AsIndex(row)].clear();
        return;
      case 1:
        return Share(row, random_.Between(0, trace_.requests - 1));
      default:
        return Grow(row, random_.Between(1, 5));
    }
  }

  void Share(int64_t from, int64_t to) {
    LayoutError why;
    if (!table_->Share(from, to, why)) return;
    record_.Add("share", {from, to});
    tokens_[AsIndex(to)] = tokens_[AsIndex(from)];
  }

  // Appends tokens to a row. A refusal is not an error here, because the pages
  // may be used up; the test of the page table checks refusals.
  void Grow(int64_t row, int64_t count) {
    std::vector<exec::PageCopy> copies;
    LayoutError why;
    if (!table_->Grow(row, count, copies, why)) return;
    exec::CopyPages(machine_, *pool_, copies);
    const Shape shape{count, trace_.key_heads, trace_.head_dim};
    Buffer key = Buffer::Zeros(shape, Dtype::kF32), value = key;
    std::vector<exec::PageSlot> slots;
    for (int64_t i = 0; i < count; ++i) {
      const auto position = static_cast<int64_t>(tokens_[AsIndex(row)].size());
      slots.push_back(table_->SlotOf(row, position));
      tokens_[AsIndex(row)].push_back(next_);
      for (int64_t h = 0; h < trace_.key_heads; ++h) {
        for (int64_t d = 0; d < trace_.head_dim; ++d) {
          const size_t to =
              AsIndex((i * trace_.key_heads + h) * trace_.head_dim + d);
          key.real[to] = Element(next_, h, d, false);
          value.real[to] = Element(next_, h, d, true);
        }
      }
      ++next_;
    }
    record_.Add("grow", {row, count});
    record_.Add("in/key", key);
    record_.Add("in/value", value);
    std::vector<int64_t> pages, offsets;
    for (const exec::PageSlot& slot : slots) {
      pages.push_back(slot.page);
      offsets.push_back(slot.offset);
    }
    record_.Add("in/page", pages);
    record_.Add("in/offset", offsets);
    const Spec spec{{}, head_axes_};
    exec::WriteTokens(machine_, *pool_, slots, exec::Scatter(mesh_, key, spec),
                      exec::Scatter(mesh_, value, spec));
  }

  // Returns an element of a token. All elements of token 3 are zero, because
  // quantisation must preserve zeros.
  float Element(int64_t token, int64_t head, int64_t d, bool value) const {
    if (token == 3) return 0;
    const exec::Random random =
        exec::Random(trace_.seed).Split(static_cast<uint64_t>(token));
    const auto at = static_cast<uint64_t>((head * trace_.head_dim + d) * 2 +
                                          (value ? 1 : 0));
    const auto x = static_cast<float>(random.Normal(at));
    return trace_.dtype == Dtype::kI8 ? x : RoundTo(trace_.dtype, x);
  }

  // Returns the elements of a token's head, rounded as pages store them.
  std::vector<float> Stored(int64_t token, int64_t head, bool value) const {
    std::vector<float> out;
    for (int64_t d = 0; d < trace_.head_dim; ++d) {
      out.push_back(Element(token, head, d, value));
    }
    if (trace_.dtype != Dtype::kI8) return out;
    dense::StoreInt8(out);
    return out;
  }

  bool ReadBack() {
    if (!options_.checks.Has(Check::kCacheBits)) return true;
    const auto bad = exec::FirstError(mesh_, Misread());
    if (!bad) return true;
    result_.status = Status::kFail;
    result_.failed = Check::kCacheBits;
    result_.reason = bad->message;
    return false;
  }

  // Returns an error for the first device of this rank that holds a wrong
  // token, or nullopt if all tokens are correct.
  std::optional<LayoutError> Misread() const {
    const int64_t each = table_->config().pages / table_->config().shards;
    const int64_t heads = trace_.key_heads / mesh_.Parts(head_axes_);
    for (int device = mesh_.first_held(); device < mesh_.end_held(); ++device) {
      const int64_t shard = mesh_.Index(device, trace_.page_axes);
      const int64_t head = mesh_.Index(device, head_axes_) * heads;
      for (int64_t row = 0; row < trace_.requests; ++row) {
        if (table_->ShardOf(row) != shard) continue;
        for (size_t p = 0; p < tokens_[AsIndex(row)].size(); ++p) {
          const exec::PageSlot slot =
              table_->SlotOf(row, static_cast<int64_t>(p));
          if (!Holds(device, slot.page - shard * each, slot.offset, head, heads,
                     tokens_[AsIndex(row)][p])) {
            LayoutError why;
            why.message = "request " + std::to_string(row) +
                          " reads another's token at position " +
                          std::to_string(p) + " on device " +
                          std::to_string(device);
            return why;
          }
        }
      }
    }
    return std::nullopt;
  }

  bool Holds(int device, int64_t page, int64_t offset, int64_t first,
             int64_t heads, int64_t token) const {
    std::vector<float> got(AsIndex(trace_.head_dim));
    for (int64_t h = 0; h < heads; ++h) {
      for (const bool value : {false, true}) {
        exec::ReadToken(*pool_, device, page, offset, h, value, got);
        if (got != Stored(token, first + h, value)) return false;
      }
    }
    return true;
  }

  const PagedTrace& trace_;
  const RunOptions& options_;
  exec::SimMesh mesh_;
  exec::Machine machine_;
  exec::RandomSequence random_;
  AxisGroup head_axes_;  // the axes that shard the pages' heads
  // Indexed by request: the numbers of its tokens, in the order of positions.
  std::vector<std::vector<int64_t>> tokens_;
  int64_t next_ = 0;
  std::optional<exec::PageTable> table_;
  std::optional<exec::PagePool> pool_;
  TraceRecord record_;
  CacheTraceResult result_;
};

}  // namespace

CacheTraceResult RunPagedTrace(const PagedTrace& trace,
                               const RunOptions& options) {
  return PagedTraceRun(trace, options).Go();
}

// Computes the vectors of a token from their kind (query, key or value), row
// and position. One draw of the random generator gives eight uniform numbers of
// 16 bits. This is fast, which matters because each comparison draws billions
// of numbers again. One token consists of zeros, to test that quantisation
// keeps them. For example, 8 heads of 16 elements need 128 numbers, which are
// 16 draws.

namespace {

// Maps 16 bits to uniform numbers in (-sqrt 3, sqrt 3), whose variance is 1.
float Noise(uint32_t bits) {
  return (static_cast<float>(bits) - 32767.5f) * (1.7320508f / 32768.0f);
}

}  // namespace

TraceTokens::TraceTokens(const CacheTrace& trace)
    : rows_(trace.batch + 1),
      heads_(trace.heads),
      key_heads_(trace.key_heads),
      dim_(trace.head_dim),
      positions_(trace.prefill + trace.steps),
      dtype_(trace.dtype) {
  const exec::Random random(trace.seed);
  kinds_.push_back(MakeKind(random.Split("query"), heads_, 1, 0.3));
  kinds_.push_back(MakeKind(random.Split("key"), key_heads_, 1, 0.3));
  kinds_.push_back(MakeKind(random.Split("value"), key_heads_, 0.7, 1.5));
}

TraceTokens::Kind TraceTokens::MakeKind(exec::Random random, int64_t heads,
                                        double gain, double offset) const {
  Kind out;
  out.key = random.Split("noise").key();
  out.slope = static_cast<float>(offset);
  const exec::Random norm = random.Split("norm"), mean = random.Split("mean");
  for (int64_t i = 0; i < rows_ * heads; ++i) {
    out.gain.push_back(static_cast<float>(
        gain * (0.6 + 0.8 * norm.Uniform(static_cast<uint64_t>(i)))));
  }
  for (int64_t i = 0; i < rows_ * heads * dim_; ++i) {
    out.mean.push_back(static_cast<float>(
        offset * (2 * mean.Uniform(static_cast<uint64_t>(i)) - 1)));
  }
  return out;
}

void TraceTokens::Read(TokenKind kind, int64_t row, int64_t position,
                       std::span<float> out) const {
  const Kind& k = kinds_[static_cast<size_t>(kind)];
  if (kind != TokenKind::kQuery && row == 0 &&
      position == std::min<int64_t>(3, positions_ - 1)) {
    std::fill(out.begin(), out.end(), 0.0f);
    return;
  }
  const int64_t heads = Heads(kind);
  // The mean of the elements depends on the position: `along` rises linearly
  // over all positions from -slope / 4 to slope / 4. It is added to even
  // elements and subtracted from odd elements.
  const float along =
      k.slope * 0.5f *
      (static_cast<float>(position) / static_cast<float>(positions_) - 0.5f);
  const auto count = static_cast<int64_t>(out.size());
  const float* const mean = k.mean.data() + row * count;
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(k.key),
                                       static_cast<uint32_t>(k.key >> 32)};
  for (int64_t i = 0; i < count; i += 8) {
    const auto words = exec::Philox(
        {static_cast<uint32_t>(i / 8), static_cast<uint32_t>(position),
         static_cast<uint32_t>(row), 0},
        key);
    for (int64_t j = 0; j < std::min<int64_t>(8, count - i); ++j) {
      const uint32_t word = words[AsIndex(j / 2)];
      out[AsIndex(i + j)] = Noise(j % 2 == 0 ? word & 0xffff : word >> 16);
    }
  }
  for (int64_t h = 0; h < heads; ++h) {
    const float gain = k.gain[AsIndex(row * heads + h)];
    float* const x = out.data() + h * dim_;
    const float* const m = mean + h * dim_;
    for (int64_t d = 0; d < dim_; ++d) {
      x[d] = gain * x[d] + (m[d] + (d % 2 == 0 ? along : -along));
    }
  }
  RoundAll(dtype_, out);
}

}  // namespace shardc::verify
