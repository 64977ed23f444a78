// Implements the program of the paged operations. The keys of each request are
// read page by page into one contiguous array. Attention over this array runs
// as over unpaged keys, so a request's bits depend only on its own pages.
//
// The axes that shard the batch divide the pages into n shards. Shard r owns
// pages [r P/n, (r + 1) P/n) and requests [r R/n, (r + 1) R/n). All queries are
// on every device along these axes. Each device computes the outputs of its own
// requests and has zeros for the other requests. The outputs are then
// all-reduced: a device sends 2(n-1)/n * 4 N H_loc D bytes. Adding zeros keeps
// all bits except the sign of zero, so every zero is made positive.
//
// To detect reads from a wrong page, pages are assigned in a random order, and
// free pages hold a large number. Such a read therefore changes the result.
#include "exec/pages/paged_program.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "exec/attention/staging.h"
#include "floats/convert.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::exec {

LayoutError MakeLayoutError(std::string message, std::string help,
                            std::string axis) {
  LayoutError why;
  why.message = std::move(message);
  why.help = std::move(help);
  why.axis = std::move(axis);
  return why;
}

namespace {

Dtype PageDtype(const OperationSettings& settings, const Staged& staged) {
  return settings.int8_pages ? Dtype::kI8 : staged.key.dtype;
}

class PagedRun {
 public:
  PagedRun(Machine& machine, const Staged& staged,
           const OperationSettings& settings, const PagedKernel& kernel,
           std::vector<PagedRequest> requests)
      : machine_(machine),
        mesh_(machine.mesh()),
        staged_(staged),
        settings_(settings),
        kernel_(kernel),
        seam_(machine.Seam<PagedSeam>()),
        requests_(std::move(requests)),
        shards_(mesh_.Parts(staged.key.spec[0])) {
    if (kernel.distributed) Order();
  }

  // Assigns pages to the requests, writes the keys that the kernel does not
  // write itself, and checks the batch of requests.
  std::optional<LayoutError> Prepare() {
    LayoutError why;
    if (!MakeTable(why)) return why;
    MakeBatch();
    PoolConfig config{kernel_.format,       table_->config().pages,
                      settings_.page_size,  staged_.K(),
                      staged_.key.shape[3], PageDtype(settings_, staged_),
                      staged_.key.spec[0],  staged_.key.spec[2]};
    pool_ = MakePool(mesh_, config, kFreePage, why);
    if (!pool_) return why;
    pool_->arithmetic = &machine_.Seam<Arithmetic>();
    if (seam_.given) seam_.given(batch_);
    if (auto bad = CheckBatch(batch_, config, shards_, Tokens())) return bad;
    for (int64_t r = 0; r < batch_.sequences; ++r) {
      owners_.push_back(ShardOfRequest(batch_, shards_, r));
    }
    PagedTables tables{batch_, requests_, owners_, shards_, Tokens()};
    if (seam_.used) seam_.used(tables);
    const bool later = kernel_.writes;
    for (size_t r = 0; r < requests_.size(); ++r) {
      const PagedRequest& request = requests_[r];
      Write(r, 0, request.keys - (later ? request.queries : 0));
    }
    return std::nullopt;
  }

  // Returns the output of every device, F32 [B, T, H_loc, D], with zeros for
  // requests of other shards.
  PerDevice Attend() {
    if (kernel_.writes) {
      for (size_t r = 0; r < requests_.size(); ++r) {
        const PagedRequest& request = requests_[r];
        Write(r, request.keys - request.queries, request.keys);
      }
    }
    PerDevice out(AsIndex(machine_.devices()));
    machine_.Local([&](int device) {
      Buffer& own = out[AsIndex(device)];
      own = Buffer::Zeros(staged_.query.local[AsIndex(device)].shape,
                          Dtype::kF32);
      const int64_t shard = mesh_.Index(device, staged_.key.spec[0]);
      for (int64_t r = 0; r < batch_.sequences; ++r) {
        if (owners_[AsIndex(r)] == shard) AttendRequest(device, r, own);
      }
    });
    const AxisGroup axes = DropTrivial(mesh_, staged_.key.spec[0]);
    if (axes.empty()) return out;
    return AllReduce(machine_, axes, out, Reduce::kSum, "outputs of requests");
  }

 private:
  int64_t Tokens() const { return staged_.query.shape[0] * staged_.T(); }

  bool MakeTable(LayoutError& why) {
    const auto rows = static_cast<int64_t>(requests_.size());
    int64_t width = 1;
    for (const PagedRequest& request : requests_) {
      width = std::max(width, CeilDiv(request.keys, settings_.page_size));
    }
    // Each shard gets pages beyond those of its requests: one reserved page and
    // two free pages.
    PageConfig config;
    config.pages = rows * width + 3 * shards_;
    config.page_size = settings_.page_size;
    config.rows = rows;
    config.pages_per_row = width;
    config.shards = shards_;
    table_ = PageTable::Make(config, why);
    if (!table_) return false;
    table_->ShuffleFree(Random(0x9a6e5));
    std::vector<PageCopy> copies;
    for (int64_t r = 0; r < rows; ++r) {
      if (!table_->Grow(r, requests_[AsIndex(r)].keys, copies, why))
        return false;
    }
    return true;
  }

  void MakeBatch() {
    batch_.sequences = static_cast<int64_t>(requests_.size());
    batch_.table = table_->Table();
    batch_.cumulative = {0};
    for (const PagedRequest& request : requests_) {
      batch_.cumulative.push_back(batch_.cumulative.back() + request.queries);
      batch_.lengths.push_back(request.keys);
    }
    if (kernel_.distributed) Distribute();
  }

  // Returns which of the kernel's programs runs a request: 0 for decode, 1 for
  // prefill, 2 for mixed requests.
  static int KindOf(const PagedRequest& request) {
    if (request.queries == 1) return 0;
    return request.queries == request.keys ? 1 : 2;
  }

  // Sorts the requests of each shard by the program of the kernel that runs
  // them. A request stays in its shard.
  void Order() {
    const auto each = static_cast<long>(requests_.size()) / shards_;
    for (long shard = 0; shard < shards_; ++shard) {
      const auto begin = requests_.begin() + shard * each;
      std::stable_sort(begin, begin + each,
                       [](const PagedRequest& a, const PagedRequest& b) {
                         return KindOf(a) < KindOf(b);
                       });
    }
  }

  void Distribute() {
    const int64_t each = batch_.sequences / shards_;
    for (int64_t shard = 0; shard < shards_; ++shard) {
      std::array<int64_t, 3> ends = {0, 0, each};
      for (int64_t i = 0; i < each; ++i) {
        const int kind = KindOf(requests_[AsIndex(shard * each + i)]);
        ends[0] += kind == 0;
        ends[1] += kind <= 1;
      }
      batch_.distribution.push_back(ends);
    }
  }

  // Returns the number of queries of a request for which the kernel computes
  // outputs. The kernel's program for decoding computes the output of only one
  // query.
  int64_t QueriesOf(int64_t r) const {
    if (batch_.distribution.empty()) return batch_.Queries(r);
    const int64_t each = batch_.sequences / shards_;
    const int64_t decode_end = batch_.distribution[AsIndex(r / each)][0];
    return r % each < decode_end ? 1 : batch_.Queries(r);
  }

  // Writes keys [begin, end) of a request to its pages, on the devices that own
  // the pages. These devices also hold the request's row of the batch.
  void Write(size_t r, int64_t begin, int64_t end) {
    const PagedRequest& request = requests_[r];
    const int64_t each = pool_->config.pages / shards_;
    const size_t dim = AsIndex(staged_.key.shape[3]);
    machine_.Local([&](int device) {
      const int64_t shard = mesh_.Index(device, staged_.key.spec[0]);
      const auto row = static_cast<int64_t>(r);
      if (ShardOfRequest(batch_, shards_, row) != shard) return;
      const Buffer& key = staged_.key.local[AsIndex(device)];
      const Buffer& value = staged_.value.local[AsIndex(device)];
      const int64_t first =
          LocalStart(mesh_, staged_.key.shape, staged_.key.spec, device)[0] *
          staged_.S();
      const int64_t heads = key.shape[2];
      for (int64_t p = begin; p < end; ++p) {
        const PageSlot slot = table_->SlotOf(row, p);
        for (int64_t h = 0; h < heads; ++h) {
          const size_t at =
              (AsIndex(request.key_begin - first + p) * AsIndex(heads) +
               AsIndex(h)) *
              dim;
          WriteToken(*pool_, device, slot.page - shard * each, slot.offset, h,
                     {key.real.data() + at, dim},
                     {value.real.data() + at, dim});
        }
      }
    });
  }

  // Returns the page that holds position p of a request.
  PageRead Find(int64_t r, int64_t p, int64_t shard, bool values) const {
    const int64_t each = pool_->config.pages / shards_;
    const int64_t width = batch_.table.shape[1];
    const int64_t id =
        batch_.table.integers[AsIndex(r * width + p / settings_.page_size)];
    PageRead out{r, p, id, shard, each, values};
    if (seam_.read) seam_.read(out);
    return out;
  }

  // Reads the request's keys or values, [1, keys, K_loc, D].
  Buffer Read(int device, int64_t r, bool values) const {
    const int64_t shard = mesh_.Index(device, staged_.key.spec[0]);
    const int64_t keys = batch_.lengths[AsIndex(r)];
    const int64_t heads = staged_.key.local[AsIndex(device)].shape[2];
    const int64_t dim = staged_.key.shape[3];
    Buffer out =
        Buffer::Zeros({1, keys, heads, dim},
                      pool_->IsQuantized() ? staged_.dtype : staged_.key.dtype);
    for (int64_t p = 0; p < keys; ++p) {
      const PageRead from = Find(r, p, shard, values);
      // An injected fault may let a device of another shard attend. The
      // request's page ids are then outside the device's pages, so they are
      // clamped.
      const int64_t page = std::clamp<int64_t>(from.id - from.shard * from.each,
                                               0, from.each - 1);
      for (int64_t h = 0; h < heads; ++h) {
        ReadToken(*pool_, device, page, p % settings_.page_size, h, from.values,
                  {out.real.data() + (p * heads + h) * dim, AsIndex(dim)});
      }
    }
    if (pool_->IsQuantized()) RoundAll(staged_.dtype, out.real);
    return out;
  }

  // Returns positions first, first + 1, ... as [1, count].
  static Buffer Positions(int64_t first, int64_t count) {
    Buffer out = Buffer::Zeros({1, count}, Dtype::kI32);
    for (int64_t i = 0; i < count; ++i) {
      out.integers[AsIndex(i)] = static_cast<int32_t>(first + i);
    }
    return out;
  }

  void AttendRequest(int device, int64_t r, Buffer& out) const {
    const Buffer& all = staged_.query.local[AsIndex(device)];
    const int64_t heads = all.shape[2], dim = all.shape[3];
    const int64_t queries = QueriesOf(r), keys = batch_.lengths[AsIndex(r)];
    const int64_t begin = requests_[AsIndex(r)].query_begin;
    Buffer query = Buffer::Zeros({1, queries, heads, dim}, all.dtype);
    std::copy_n(all.real.begin() + begin * heads * dim, queries * heads * dim,
                query.real.begin());
    const Buffer key = Read(device, r, false), value = Read(device, r, true);
    const Buffer query_positions = Positions(keys - queries, queries);
    const Buffer key_positions = Positions(0, keys);
    LocalSlice slice;
    slice.query = &query;
    slice.key = &key;
    slice.value = &value;
    const int64_t group = heads / key.shape[2];
    for (int64_t h = 0; h < heads; ++h) {
      slice.key_head.push_back(static_cast<int32_t>(h / group));
    }
    slice.query_positions = &query_positions;
    slice.key_positions = &key_positions;
    slice.scale = static_cast<float>(staged_.options.ScaleFor(dim));
    slice.options = &staged_.options;
    slice.arithmetic = &machine_.Seam<Arithmetic>();
    slice.one_row = queries == 1;
    SoftmaxState state = EmptyState(slice);
    AttendKeys(slice, 0, keys, settings_.blocksize_k, state);
    const Buffer result =
        FinishRows(machine_, staged_, device, slice, state, Dtype::kF32);
    for (int64_t i = 0; i < result.Elements(); ++i) {
      // Adding 0 makes every zero positive, as the all_reduce with zeros does.
      out.real[AsIndex(begin * heads * dim + i)] =
          result.real[AsIndex(i)] + 0.0f;
    }
  }

  Machine& machine_;
  const SimMesh& mesh_;
  const Staged& staged_;
  const OperationSettings& settings_;
  const PagedKernel& kernel_;
  const PagedSeam& seam_;
  std::vector<PagedRequest> requests_;
  // Indexed by request: the shard that computes it.
  std::vector<int64_t> owners_;
  int64_t shards_;
  std::optional<PageTable> table_;
  std::optional<PagePool> pool_;
  RaggedBatch batch_;
};

// Shards the key heads over the query's head axes. If the pages do not support
// this sharding, replicates the heads of query and keys and adds a remark.
void PlaceHeads(Machine& machine, const PagedKernel& kernel, Dtype dtype,
                Staged& staged, std::vector<std::string>& remarks) {
  AxisGroup heads = staged.query.spec[2];
  PoolConfig config;
  config.format = kernel.format;
  config.key_heads = staged.K();
  config.head_dim = staged.key.shape[3];
  config.dtype = dtype;
  config.head_axes = heads;
  LayoutError why;
  if (!MakePool(machine.mesh(), config, 0, why)) {
    remarks.push_back("heads are replicated: " + why.message);
    heads.clear();
  }
  const AxisGroup rows = staged.query.spec[0];
  Move(machine, staged.query, {{}, {}, heads, {}}, "query");
  Move(machine, staged.key, {rows, {}, heads, {}}, "key");
  Move(machine, staged.value, {rows, {}, heads, {}}, "value");
}

}  // namespace

OperationOutcome RunPaged(Machine& machine, const AttentionProblem& problem,
                          const AttentionSpecs& specs,
                          const OperationSettings& settings,
                          const PagedKernel& kernel, std::string_view name) {
  OperationOutcome outcome;
  LayoutError why;
  StageOptions options;
  options.pages = true;
  auto staged =
      Stage(machine, problem, specs, settings, options, why, outcome.remarks);
  if (!staged) {
    outcome.unsupported = std::move(why);
    return outcome;
  }
  std::vector<PagedRequest> requests;
  outcome.unsupported =
      FindRequests(machine.mesh(), problem, *staged, kernel, name, requests);
  if (outcome.unsupported || problem.IsHollow()) return outcome;
  if (problem.layout == Layout::kThd && kernel.dense_rows) {
    outcome.remarks.push_back(std::string(name) +
                              " falls back to unified_attention: its queries "
                              "are ragged");
  }
  PlaceHeads(machine, kernel, PageDtype(settings, *staged), *staged,
             outcome.remarks);
  MoveExtras(machine, *staged);
  PagedRun run(machine, *staged, settings, kernel, std::move(requests));
  if (auto refused = run.Prepare()) {
    outcome.unsupported = std::move(refused);
    return outcome;
  }
  ShardedTensor out;
  out.shape = staged->query.shape;
  out.spec = staged->query.spec;
  out.local = run.Attend();
  RoundOutput(out, staged->dtype);
  outcome.output = FinishOutput(machine, *staged, std::move(out));
  return outcome;
}

// Checks a batch of requests before any page is read. The page table and the
// lengths must be for the same number of requests, and every page must belong
// to the request's shard. Some kernels have three programs: for requests of one
// query, for requests with only new keys, and for all others. Requests must
// then be sorted in this order, and `distribution` has the ends of the three
// parts. For example:
//
//   distribution [1, 2, 3]: request 0 has one query, request 1 has as many
//   queries as keys, request 2 may have any numbers of queries and keys

namespace {

LayoutError BatchError(std::string message, std::string help = {}) {
  LayoutError why;
  why.message = std::move(message);
  why.help = std::move(help);
  return why;
}

std::string Request(int64_t r) { return "request " + std::to_string(r); }

std::optional<LayoutError> CheckSizes(const RaggedBatch& batch,
                                      const PoolConfig& pool, int64_t shards,
                                      int64_t tokens) {
  const auto requests = static_cast<int64_t>(batch.lengths.size());
  if (static_cast<int64_t>(batch.cumulative.size()) != requests + 1 ||
      batch.table.shape.size() != 2 || batch.table.shape[0] != requests) {
    return BatchError(
        "a page table of " + ShapeText(batch.table.shape) + ", " +
            Counted(requests, "length") + " and " +
            Counted(static_cast<int64_t>(batch.cumulative.size()),
                    "cumulative length") +
            " do not fit each other",
        "the table is [requests, pages a request], the cumulative "
        "lengths are one more than the requests");
  }
  if (batch.sequences < 0 || batch.sequences > requests) {
    return BatchError(std::to_string(batch.sequences) + " of " +
                      Counted(requests, "request") + " are declared real");
  }
  if (requests % shards != 0 || pool.pages % shards != 0) {
    return BatchError(Counted(requests, "request") + " and " +
                      Counted(pool.pages, "page") + " do not divide into " +
                      Counted(shards, "shard"));
  }
  if (batch.cumulative.front() != 0 || batch.cumulative.back() > tokens) {
    return BatchError("cumulative lengths from " +
                      std::to_string(batch.cumulative.front()) + " to " +
                      std::to_string(batch.cumulative.back()) + " for " +
                      Counted(tokens, "token"));
  }
  return std::nullopt;
}

std::optional<LayoutError> CheckRequest(const RaggedBatch& batch,
                                        const PoolConfig& pool, int64_t shards,
                                        int64_t r) {
  const int64_t queries = batch.Queries(r), length = batch.lengths[AsIndex(r)];
  if (queries < 0 || length < queries) {
    return BatchError(Request(r) + " has " +
                          Counted(queries, "query", "queries") + " and " +
                          Counted(length, "key"),
                      "a request's queries are the last of its keys");
  }
  const int64_t width = batch.table.shape[1];
  const int64_t active = CeilDiv(length, pool.page_size);
  if (active > width) {
    return BatchError(Request(r) + " needs " + Counted(active, "page") +
                      ", its table has " + std::to_string(width));
  }
  const int64_t each = pool.pages / shards;
  const int64_t first = ShardOfRequest(batch, shards, r) * each;
  for (int64_t i = 0; i < active; ++i) {
    const int64_t page = batch.table.integers[AsIndex(r * width + i)];
    if (page >= first && page < first + each) continue;
    return BatchError(Request(r) + " names page " + std::to_string(page) +
                          ", its shard has " + std::to_string(first) + " to " +
                          std::to_string(first + each - 1),
                      "a kernel clips such an id and reads another request");
  }
  return std::nullopt;
}

// Returns an error unless requests are in the order that the distribution
// requires. Requests before decode_end run in the kernel's program for one
// query.
std::optional<LayoutError> CheckDistribution(const RaggedBatch& batch,
                                             int64_t shards) {
  const int64_t each = batch.sequences / shards;
  if (static_cast<int64_t>(batch.distribution.size()) != shards) {
    return BatchError(Counted(static_cast<int64_t>(batch.distribution.size()),
                              "distribution") +
                      " for " + Counted(shards, "shard"));
  }
  for (int64_t r = 0; r < batch.sequences; ++r) {
    const auto& [decode_end, prefill_end, total] =
        batch.distribution[AsIndex(r / each)];
    if (decode_end < 0 || decode_end > prefill_end || prefill_end > total ||
        total != each) {
      return BatchError("a distribution [" + std::to_string(decode_end) + ", " +
                            std::to_string(prefill_end) + ", " +
                            std::to_string(total) + "] of " +
                            Counted(each, "request"),
                        "it is [decode_end, prefill_end, total]");
    }
    const int64_t queries = batch.Queries(r), keys = batch.lengths[AsIndex(r)];
    const bool decodes = r % each < decode_end;
    if (decodes ? queries == 1 : r % each >= prefill_end || queries == keys) {
      continue;
    }
    return BatchError(Request(r) + " is among the " +
                          (decodes ? "decoding" : "prefilling") +
                          " ones with " + Counted(queries, "query", "queries") +
                          " and " + Counted(keys, "key"),
                      "sort requests by kind: one query, all keys new, others");
  }
  return std::nullopt;
}

}  // namespace

int64_t ShardOfRequest(const RaggedBatch& batch, int64_t shards, int64_t r) {
  return r / (static_cast<int64_t>(batch.lengths.size()) / shards);
}

std::optional<LayoutError> CheckBatch(const RaggedBatch& batch,
                                      const PoolConfig& pool, int64_t shards,
                                      int64_t tokens) {
  if (auto wrong = CheckSizes(batch, pool, shards, tokens)) return wrong;
  for (int64_t r = 0; r < batch.sequences; ++r) {
    if (auto wrong = CheckRequest(batch, pool, shards, r)) return wrong;
  }
  if (!batch.distribution.empty()) return CheckDistribution(batch, shards);
  return std::nullopt;
}

// Computes by formula the bytes that a paged operation sends. Queries are
// gathered over all axes except the head axes. Keys and values are resharded to
// the layout of their pages. Outputs are all-reduced over the axes of the
// requests, since a device has zeros for the requests of other shards.
//
// For example, the outputs of one device have b = 4 N H_loc D bytes and are
// all-reduced over n = 2 shards. Each device then sends 2(n-1)/n b = b bytes.

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

// Checks that a paged operation supports its inputs, and finds the requests in
// them. A request is a row of the batch. If tokens are packed, a request is a
// run of equal segment ids, and negative ids are padding. For example:
//
//   segments 0 0 0 1 1 -1  ->  requests of 3 and 2 tokens

namespace {

std::vector<PagedRequest> RowsOf(const Staged& staged) {
  std::vector<PagedRequest> out;
  const int64_t rows = staged.query.shape[0];
  for (int64_t b = 0; b < rows; ++b) {
    int64_t keys = staged.S();
    if (staged.key_lengths) keys = staged.key_lengths->integers[AsIndex(b)];
    out.push_back({b * staged.T(), staged.T(), b * staged.S(), keys});
  }
  return out;
}

// Returns the requests of packed sequences: runs of equal segment ids. Negative
// ids are padding. All tokens with the same id must be adjacent.
std::vector<PagedRequest> RunsOf(const Buffer& queries, const Buffer& keys) {
  std::vector<PagedRequest> out;
  const auto run_of = [](const Buffer& ids, int32_t id, int64_t& begin) {
    const auto first = std::find(ids.integers.begin(), ids.integers.end(), id);
    auto last = first;
    while (last != ids.integers.end() && *last == id) ++last;
    begin = first - ids.integers.begin();
    return static_cast<int64_t>(last - first);
  };
  for (size_t i = 0; i < queries.integers.size(); ++i) {
    const int32_t id = queries.integers[i];
    if (id < 0 || (i > 0 && queries.integers[i - 1] == id)) continue;
    PagedRequest request;
    request.queries = run_of(queries, id, request.query_begin);
    request.keys = run_of(keys, id, request.key_begin);
    out.push_back(request);
  }
  return out;
}

std::optional<LayoutError> CheckSplits(const SimMesh& mesh,
                                       const Staged& staged) {
  std::vector<LayoutError> bad;
  const auto whole = [&](const AxisGroup& axes, const std::string& what,
                         std::string help) {
    const AxisGroup used = DropTrivial(mesh, axes);
    if (used.empty()) return;
    bad.push_back(MakeLayoutError(what + " is split over " + AxesText(used),
                                  std::move(help), used.front()));
  };
  const Spec &q = staged.query.spec, &k = staged.key.spec;
  whole(q[1], "the query's length",
        "a request's queries stay together: query_sequence: [], and split the "
        "batch or the heads");
  for (const Spec* spec : {&k, &staged.value.spec}) {
    whole((*spec)[1], "the length of key and value",
          "pages are split by request, not by length: key_sequence: [] (in "
          "generation decode_key_sequence), or use flash_decoding");
  }
  for (const Spec* spec : {&q, &k, &staged.value.spec}) {
    whole((*spec)[3], "the head dimension", "pages hold complete heads");
  }
  return Joined(std::move(bad));
}

std::optional<LayoutError> CheckInputs(const AttentionProblem& problem,
                                       const Staged& staged,
                                       const PagedKernel& kernel,
                                       const std::string& name) {
  const auto no = [&](std::string what) {
    return MakeLayoutError(name + " takes no " + std::move(what),
                           "use vanilla or flash_attn2");
  };
  if (problem.bias) return no("bias");
  if (problem.mask || problem.additive_mask) return no("mask");
  if (problem.options.dropout > 0) return no("dropout");
  const bool packed = problem.layout == Layout::kThd;
  if (!packed && (problem.query_segments || problem.key_segments)) {
    return no("segment ids");
  }
  if (packed && !problem.query_segments) return no("unnamed packed sequences");
  if (problem.key_starts) {
    for (int32_t start : problem.key_starts->integers) {
      if (start != 0) return no("left padding");
    }
  }
  if (staged.value.shape[3] != staged.key.shape[3]) {
    return no("values of another dimension than the keys");
  }
  if (kernel.causal_only && staged.T() > 1 && !problem.options.causal) {
    return MakeLayoutError(name + " is causal",
                           "use vanilla or flash_attn2 without");
  }
  return std::nullopt;
}

// Returns true if the positions of a request's keys ascend by one and its
// queries have the positions of the last keys. The first key may have any
// position.
bool CountsKeys(const Staged& staged, const PagedRequest& request) {
  const auto shift = [](const Buffer& positions, int64_t begin, int64_t count,
                        int64_t first, std::optional<int64_t>& common) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t by = positions.integers[AsIndex(begin + i)] - (first + i);
      if (common && *common != by) return false;
      common = by;
    }
    return true;
  };
  std::optional<int64_t> common;
  return shift(staged.key_positions, request.key_begin, request.keys, 0,
               common) &&
         shift(staged.query_positions, request.query_begin, request.queries,
               request.keys - request.queries, common);
}

}  // namespace

std::optional<LayoutError> FindRequests(const SimMesh& mesh,
                                        const AttentionProblem& problem,
                                        const Staged& staged,
                                        const PagedKernel& kernel,
                                        std::string_view name,
                                        std::vector<PagedRequest>& requests) {
  if (auto bad = CheckSplits(mesh, staged)) return bad;
  if (auto bad = CheckInputs(problem, staged, kernel, std::string(name)))
    return bad;
  // Requests cannot be read from inputs that have shapes but no elements.
  if (problem.IsHollow()) return std::nullopt;
  requests = problem.layout == Layout::kThd
                 ? RunsOf(*problem.query_segments, *problem.key_segments)
                 : RowsOf(staged);
  for (const PagedRequest& request : requests) {
    // CheckBatch reports requests that have more queries than keys.
    if (request.queries > request.keys) continue;
    if (CountsKeys(staged, request)) continue;
    return MakeLayoutError(std::string(name) + " takes no positions of its own",
                           "use vanilla or flash_attn2");
  }
  return std::nullopt;
}

}  // namespace shardc::exec
