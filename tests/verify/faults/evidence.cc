// Computes evidence that an injected fault has changed a run: a digest of the
// run's results. If the digests of the correct run and of the run with the
// fault differ, the fault had an effect. For example, one device sends one byte
// more in the second run. The ledger, which records the bytes sent, then has
// another digest.
//
// The digest is FNV-1a over 64-bit words instead of bytes. Each step of FNV-1a
// is a bijection, so a change of a single word always changes the digest.
#include "verify/faults/evidence.h"

#include <bit>

#include "exec/attention/staging.h"
#include "exec/cache/kv_cache.h"
#include "exec/pages/page_pool.h"
#include "exec/pages/paged_program.h"

namespace shardc::verify {

using exec::Machine;

void Evidence::Add(uint64_t number) {
  digest_ = (digest_ ^ number) * 1099511628211u;
}

void Evidence::Add(std::string_view text) {
  Add(uint64_t{text.size()});
  for (char c : text) Add(uint64_t{static_cast<unsigned char>(c)});
}

void Evidence::Add(std::span<const int64_t> table) {
  Add(uint64_t{table.size()});
  for (int64_t number : table) Add(static_cast<uint64_t>(number));
}

void Evidence::Add(const exec::Buffer& buffer) {
  Add(static_cast<uint64_t>(buffer.dtype));
  Add(std::span<const int64_t>(buffer.shape));
  for (float x : buffer.real) Add(uint64_t{std::bit_cast<uint32_t>(x)});
  for (int32_t x : buffer.integers) Add(uint64_t{static_cast<uint32_t>(x)});
  for (double x : buffer.wide) Add(std::bit_cast<uint64_t>(x));
}

void Evidence::Add(std::span<const exec::Buffer> buffers) {
  for (const exec::Buffer& buffer : buffers) Add(buffer);
}

void Evidence::Add(const exec::ShardedTensor& tensor) {
  Add(std::span<const int64_t>(tensor.shape));
  Add(SpecText(tensor.spec));
  Add(std::span<const exec::Buffer>(tensor.local));
}

void Evidence::Add(const exec::Ledger& ledger) {
  for (const exec::LedgerEntry& entry : ledger.entries()) {
    Add(static_cast<uint64_t>(entry.kind));
    Add(std::span<const int64_t>(entry.sent));
  }
}

namespace {

// Adds to the digest the tables of key heads, positions, row lengths, row
// starts and segments. Options and scales are not added: a wrong option or
// scale that has an effect also changes results, which are in the digest.
void AddTables(const exec::Slices& slices, Evidence& evidence) {
  evidence.Add(slices.query_positions);
  evidence.Add(slices.key_positions);
  for (const exec::LocalSlice& slice : slices.at) {
    for (int32_t head : slice.key_head) {
      evidence.Add(static_cast<uint64_t>(head));
    }
    for (const exec::Buffer* buffer :
         {slice.key_lengths, slice.key_starts, slice.query_segments,
          slice.key_segments}) {
      if (buffer != nullptr) evidence.Add(*buffer);
    }
  }
}

void AddCache(const exec::KvCache& cache, Evidence& evidence) {
  for (const exec::ShardedTensor* part :
       {&cache.key, &cache.value, &cache.key_scale, &cache.value_scale,
        &cache.positions}) {
    evidence.Add(*part);
  }
  evidence.Add(std::span<const int64_t>(cache.index));
  evidence.Add(std::span<const int64_t>(cache.start));
}

void WatchCaches(const exec::Seams& seams, Evidence& evidence,
                 exec::Seams& out) {
  const auto& right = seams.Get<exec::CacheSeam>();
  exec::CacheSeam cache = right;
  cache.append = [right, &evidence](Machine& machine, exec::KvCache& into,
                                    const exec::ShardedTensor& key,
                                    const exec::ShardedTensor& value,
                                    const std::vector<int64_t>& counts,
                                    exec::LayoutError& why) {
    const bool done = right.append(machine, into, key, value, counts, why);
    AddCache(into, evidence);
    return done;
  };
  cache.insert = [right, &evidence](Machine& machine, const exec::KvCache& from,
                                    exec::KvCache& into, int64_t slot,
                                    exec::LayoutError& why) {
    const bool done = right.insert(machine, from, into, slot, why);
    AddCache(into, evidence);
    return done;
  };
  cache.view = [right, &evidence](const Machine& machine,
                                  const exec::KvCache& of,
                                  exec::CacheView& view) {
    if (right.view) right.view(machine, of, view);
    evidence.Add(view.positions);
    evidence.Add(std::span<const int64_t>(view.lengths));
  };
  out.Set(std::move(cache));
}

void AddTables(const exec::PagedTables& tables, Evidence& evidence) {
  evidence.Add(tables.batch.table);
  evidence.Add(std::span<const int64_t>(tables.owners));
  evidence.Add(std::span<const int64_t>(tables.batch.lengths));
  for (const auto& ends : tables.batch.distribution) {
    evidence.Add(std::span<const int64_t>(ends));
  }
  for (const exec::PagedRequest& request : tables.requests) {
    evidence.Add(static_cast<uint64_t>(request.query_begin));
  }
}

void WatchPages(const exec::Seams& seams, Evidence& evidence,
                exec::Seams& out) {
  exec::PagedSeam tables = seams.Get<exec::PagedSeam>();
  tables.used = [used = tables.used, &evidence](exec::PagedTables& given) {
    if (used) used(given);
    AddTables(given, evidence);
  };
  out.Set(std::move(tables));
  const auto& right = seams.Get<exec::PageSeam>();
  exec::PageSeam pages = right;
  pages.copy = [right, &evidence](Machine& machine, exec::PagePool& pool,
                                  std::span<const exec::PageCopy> copies) {
    right.copy(machine, pool, copies);
    for (const exec::ShardedTensor* part :
         {&pool.first, &pool.second, &pool.key_scale, &pool.value_scale}) {
      evidence.Add(*part);
    }
  };
  out.Set(std::move(pages));
}

}  // namespace

exec::Seams Watched(const exec::Seams& seams, Evidence& evidence) {
  exec::Seams out = seams;
  const auto& collective = seams.Get<exec::CollectiveSeam>();
  out.Set(exec::CollectiveSeam{
      [collective, &evidence](Machine& machine,
                              const exec::CollectiveCall& call) {
        exec::PerDevice moved = collective.run(machine, call);
        evidence.Add(std::span<const exec::Buffer>(moved));
        return moved;
      }});
  const auto& reshard = seams.Get<exec::ReshardSeam>();
  out.Set(exec::ReshardSeam{
      [reshard, &evidence](Machine& machine, const exec::ShardedTensor& tensor,
                           const Spec& spec, std::string_view what) {
        exec::ShardedTensor moved = reshard.run(machine, tensor, spec, what);
        evidence.Add(moved);
        return moved;
      }});
  exec::SliceSeam slices = seams.Get<exec::SliceSeam>();
  slices.cut = [cut = slices.cut, &evidence](const Machine& machine,
                                             const exec::Staged& staged,
                                             exec::Slices& given) {
    if (cut) cut(machine, staged, given);
    AddTables(given, evidence);
  };
  slices.sinks = [sinks = slices.sinks, &evidence](const Machine& machine,
                                                   const exec::Staged& staged,
                                                   exec::Buffer& given) {
    if (sinks) sinks(machine, staged, given);
    evidence.Add(given);
  };
  slices.blocks = [blocks = slices.blocks, &evidence](
                      const Machine& machine, exec::ShardedTensor& given) {
    if (blocks) blocks(machine, given);
    evidence.Add(given);
  };
  slices.join = [join = slices.join, &evidence](const Machine& machine,
                                                const exec::Staged& staged,
                                                exec::ShardedTensor& output) {
    if (join) join(machine, staged, output);
    evidence.Add(output);
  };
  out.Set(std::move(slices));
  WatchCaches(seams, evidence, out);
  WatchPages(seams, evidence, out);
  return out;
}

}  // namespace shardc::verify
