// Finds reduced sizes. A list of predicates describes the properties of a size
// that matter to a layout. For example: an axis divides the size; a shard has
// size 1; the size is larger than another; a shard has complete groups of the
// query heads that share a KV head. The smallest size for which all predicates
// have the same values replaces the real size:
//
//   32 heads, 8 key heads over tp 4  ->  16 heads, 8 key heads
#include "verify/cases/reduced_sizes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace shardc::verify {
namespace {

using Bits = std::vector<bool>;

// Appends the predicates (properties that reduced sizes must keep) of `heads`
// query heads in `a` shards and `keys` key heads in `c` shards.
void AppendHeadPredicates(int64_t heads, int64_t keys, int64_t a, int64_t c,
                          Bits& out) {
  const bool whole_heads = heads % a == 0;
  const bool unsharded_keys = keys % c == 0;
  out.insert(out.end(), {whole_heads, keys % a == 0, unsharded_keys, keys == 1,
                         heads == keys});
  if (!whole_heads || !unsharded_keys) return;
  const int64_t local = heads / a, local_keys = keys / c;
  const int64_t group = heads / keys;
  out.insert(out.end(), {local == 1, local_keys == 1, local % group == 0,
                         group % local == 0, local % local_keys == 0,
                         local > local_keys, local == group});
}

// Appends the predicates (properties that reduced sizes must keep) of heads in
// an operation with an all_to_all. It divides the heads of one device into n
// parts. If a device has fewer than n key heads, the key heads are repeated.
void AppendExchange(int64_t heads, int64_t keys, const Splits::Exchange& of,
                    Bits& out) {
  const auto& [a, c, n] = of;
  out.insert(out.end(), {heads % a == 0, keys % c == 0});
  AppendHeadPredicates(heads, keys, a * n, c * n, out);
  if (keys % c != 0) return;
  const bool repeats = n % (keys / c) == 0;
  out.push_back(repeats);
  if (repeats) AppendHeadPredicates(heads, keys, a * n, keys, out);
}

// The pages of some caches pack `word` elements, each of another head, into a
// 32-bit word. Appends whether n shards of the heads split no word: first if a
// word has elements of keys only, then if keys and values of the heads
// alternate in it. For example, 2 shards of 4 key heads split a word of 4.
void AppendWords(int64_t keys, int64_t n, int64_t word, Bits& out) {
  for (const int64_t per_head : {1, 2}) {
    const int64_t words = (keys * per_head + word - 1) / word;
    out.push_back(words % n == 0 && words / n * word == keys / n * per_head);
  }
}

Bits HeadPredicates(int64_t heads, int64_t keys, const Splits& splits) {
  Bits out;
  AppendHeadPredicates(heads, keys, 1, 1, out);
  for (const auto& [a, c] : splits.heads) {
    AppendHeadPredicates(heads, keys, a, c, out);
  }
  for (const Splits::Exchange& exchange : splits.exchanges) {
    AppendExchange(heads, keys, exchange, out);
  }
  for (const auto& [n, word] : splits.words) {
    AppendWords(keys, n, word, out);
  }
  return out;
}

void AppendParts(int64_t length, const std::vector<int64_t>& splits,
                 Bits& out) {
  for (int64_t n : splits) {
    out.push_back(length % n == 0);
    out.push_back(length % (2 * n) == 0);
    for (int64_t least = 1; least <= 4; ++least) {
      out.push_back(length / n >= least);
    }
  }
}

Bits LengthPredicates(int64_t length, const std::vector<int64_t>& splits) {
  Bits out = {length == 1};
  AppendParts(length, splits, out);
  return out;
}

// Returns the predicates of a number of packed tokens, for each number n of
// shards: whether n divides the tokens, whether 2n divides them, and whether a
// shard has one, two, three, or at least four tokens.
Bits TokenPredicates(int64_t tokens, const Splits& splits) {
  Bits out;
  AppendParts(tokens, splits.tokens, out);
  return out;
}

Bits BatchPredicates(int64_t batch, const std::vector<int64_t>& splits) {
  Bits out = {batch == 1};
  for (int64_t n : splits) {
    out.push_back(batch % n == 0);
    out.push_back(batch / n >= 1);
    out.push_back(batch / n >= 2);
  }
  return out;
}

// Predicates are properties of a size, such as "4 divides it" or "it is above
// 4". Returns a number n such that for each larger size, a size below n has the
// same predicates. Such a number exists, because divisibility is periodic, and
// a predicate "size > k" stays true above k.
int64_t Enough(const std::vector<int64_t>& splits) {
  int64_t period = 1, largest = 1;
  for (const int64_t n : splits) {
    period = std::lcm(period, 2 * n);
    largest = std::max(largest, n);
  }
  return 8 + 4 * largest + 2 * period;
}

// Returns the sizes that may replace the size `real`, in ascending order: the
// sizes n from `least` up to `enough`, and `real` itself, for which the
// predicates of(n) equal `want`. No size above `real` is returned.
template <class Predicates>
std::vector<int64_t> Candidates(int64_t real, int64_t least, int64_t enough,
                                const Bits& want, const Predicates& of) {
  std::vector<int64_t> out;
  for (int64_t n = std::min(real, least); n < std::min(real, enough); ++n) {
    if (of(n) == want) out.push_back(n);
  }
  if (of(real) == want) out.push_back(real);
  return out;
}

// Sets batch, query length and key length of `out` to reduced sizes. Returns
// false if there are no such sizes.
bool ReduceTokens(const Sizes& real, const Splits& given, const Splits& splits,
                  Sizes& out) {
  std::vector<int64_t> all = splits.length;
  for (const auto* more : {&splits.batch, &splits.tokens}) {
    all.insert(all.end(), more->begin(), more->end());
  }
  const int64_t enough = Enough(all);
  const auto lengths = [&](int64_t length) {
    return Candidates(
        length, 8, enough, LengthPredicates(length, given.length),
        [&](int64_t n) { return LengthPredicates(n, splits.length); });
  };
  const auto batches = Candidates(
      real.batch, 1, enough, BatchPredicates(real.batch, given.batch),
      [&](int64_t n) { return BatchPredicates(n, splits.batch); });
  const auto queries = lengths(real.query_length);
  const auto keys = lengths(real.key_length);
  const auto packs = [&](int64_t batch, int64_t length, int64_t real_length) {
    return TokenPredicates(batch * length, splits) ==
           TokenPredicates(real.batch * real_length, given);
  };
  const bool self = real.query_length == real.key_length;
  // In decoding each row has one query, so the number of packed queries is the
  // batch. Axes that shard packed tokens must divide the reduced batch if and
  // only if they divide the real batch.
  const auto rows = [](int64_t batch, const Splits& of) {
    Bits each;
    for (const int64_t n : of.tokens) {
      each.insert(each.end(), {batch % n == 0, batch % (2 * n) == 0});
    }
    return each;
  };
  for (const int64_t b : batches) {
    if (rows(b, splits) != rows(real.batch, given)) continue;
    for (const int64_t q : queries) {
      if (!packs(b, q, real.query_length)) continue;
      for (const int64_t s : keys) {
        if (self ? s != q : s <= q) continue;
        if (!packs(b, s, real.key_length)) continue;
        out.batch = b;
        out.query_length = q;
        out.key_length = s;
        return true;
      }
    }
  }
  return false;
}

std::optional<std::pair<int64_t, int64_t>> FindHeads(int64_t heads,
                                                     int64_t key_heads,
                                                     const Splits& given,
                                                     const Splits& used) {
  const Bits want = HeadPredicates(heads, key_heads, given);
  for (int64_t h = 1; h <= heads; ++h) {
    for (int64_t k = 1; k <= h; ++k) {
      if (h % k == 0 && HeadPredicates(h, k, used) == want) {
        return std::pair(h, k);
      }
    }
  }
  if (HeadPredicates(heads, key_heads, used) != want) return std::nullopt;
  return std::pair(heads, key_heads);
}

std::optional<int64_t> FindDim(int64_t dim, const Splits& given,
                               const Splits& used) {
  constexpr int64_t kSharesRow = 64;
  const auto pattern = [&](int64_t d, const Splits& splits) {
    Bits out = {d % 2 == 0, !splits.words.empty() && d == kSharesRow};
    for (int64_t n : splits.dim) {
      out.push_back(d % n == 0);
      out.push_back(d % (2 * n) == 0);
      out.push_back(d / n >= 16);
    }
    return out;
  };
  const Bits want = pattern(dim, given);
  for (int64_t d = std::min<int64_t>(dim, 16); d <= dim; ++d) {
    if (pattern(d, used) == want) return d;
  }
  return std::nullopt;
}

}  // namespace

std::pair<int64_t, int64_t> ReducedHeads(int64_t heads, int64_t key_heads,
                                         const Splits& splits) {
  return FindHeads(heads, key_heads, splits, splits)
      .value_or(std::pair(heads, key_heads));
}

std::optional<Sizes> ReducedSizes(const Sizes& real, const Splits& given,
                                  const Splits& used) {
  Sizes out = real;
  const auto heads = FindHeads(real.heads, real.key_heads, given, used);
  if (!heads || !ReduceTokens(real, given, used, out)) return std::nullopt;
  std::tie(out.heads, out.key_heads) = *heads;
  for (int64_t Sizes::*const dim :
       {&Sizes::head_dim, &Sizes::value_dim, &Sizes::latent_rank,
        &Sizes::latent_value_dim}) {
    if (real.*dim <= 0) continue;
    const auto found = FindDim(real.*dim, given, used);
    if (!found) return std::nullopt;
    out.*dim = *found;
  }
  // In latent attention, a part of each head is rotated. No axis shards this
  // part, so any size is possible. It keeps its fraction of the head.
  if (real.latent_rope_dim > 0) {
    out.latent_rope_dim = std::max<int64_t>(
        1, real.latent_rope_dim * out.head_dim / real.head_dim);
  }
  return out;
}

Sizes ReducedSizes(const Sizes& real, const Splits& splits) {
  return ReducedSizes(real, splits, splits).value_or(real);
}

int64_t LengthLike(int64_t like, int64_t least,
                   const std::vector<int64_t>& splits) {
  int64_t period = 1;
  for (const int64_t n : splits) period = std::lcm(period, n);
  const int64_t rest = like % period;
  return least + (rest - least % period + period) % period;
}

// Finds smaller meshes on which cases can be simulated. A mesh is reduced by
// shortening its longest axis repeatedly, until the mesh has few enough
// devices. An even length is halved, and an odd length becomes 2. No axis is
// removed:
//
//   fsdp 16, tp 4, at most 8 devices  ->  fsdp 2, tp 4
//
// Sizes are reduced as well. If axes of the given mesh divide a given size, the
// same axes of the smaller mesh must divide the reduced size. If they do not
// divide the given size, they must not divide the reduced size. On some smaller
// meshes no size has both properties, and another mesh must be tried.
//
// For example, let the given mesh be fsdp 16, tp 4, with 8 KV heads. tp divides
// 8, with 2 heads for each device, but fsdp * tp = 64 does not. On the mesh
// fsdp 2, tp 4, a device has 2 heads only if there are 8 heads, but fsdp * tp =
// 8 divides 8. The mesh fsdp 4, tp 2 is then tried.

namespace {

constexpr size_t kMostMeshes = 24;

int64_t DevicesOf(const Mesh& mesh) {
  int64_t devices = 1;
  for (const MeshAxis& axis : mesh.axes) devices *= axis.size;
  return devices;
}

// Returns the next shorter length of an axis. Half of an even length divides
// all dimensions that the length divides. An odd length becomes 2.
int64_t Shortened(int64_t length) { return length % 2 == 0 ? length / 2 : 2; }

Mesh OnOneHost(Mesh mesh) {
  mesh.devices = DevicesOf(mesh);
  mesh.processes = 1;
  mesh.slices = 1;
  mesh.dcn.clear();
  return mesh;
}

// Shortens the axes with index `axis` and above in all possible ways. Appends
// each resulting mesh that has at least `least_devices` devices.
void AppendShortened(Mesh& mesh, size_t axis, int64_t least_devices,
                     std::vector<Mesh>& out) {
  if (axis == mesh.axes.size()) {
    out.push_back(OnOneHost(mesh));
    return;
  }
  const int64_t given = mesh.axes[axis].size;
  int64_t length = given;
  for (;;) {
    mesh.axes[axis].size = length;
    if (DevicesOf(mesh) < least_devices) break;
    AppendShortened(mesh, axis + 1, least_devices, out);
    if (length <= 2) break;
    length = Shortened(length);
  }
  mesh.axes[axis].size = given;
}

}  // namespace

Mesh ReducedMesh(const Mesh& mesh, int64_t most_devices) {
  Mesh out = mesh;
  while (DevicesOf(out) > most_devices) {
    auto longest = std::max_element(
        out.axes.begin(), out.axes.end(),
        [](const MeshAxis& a, const MeshAxis& b) { return a.size < b.size; });
    if (longest->size <= 2) break;
    longest->size = Shortened(longest->size);
  }
  return OnOneHost(std::move(out));
}

std::vector<Mesh> ReducedMeshes(const Mesh& mesh, int64_t least_devices) {
  std::vector<Mesh> out = {ReducedMesh(mesh, least_devices)};
  Mesh shortened = mesh;
  AppendShortened(shortened, 0, least_devices, out);
  std::stable_sort(
      out.begin() + 1, out.end(),
      [](const Mesh& a, const Mesh& b) { return a.devices < b.devices; });
  std::erase_if(out,
                [&](const Mesh& one) { return one.devices >= mesh.devices; });
  if (out.size() > kMostMeshes) out.resize(kMostMeshes);
  return out;
}

}  // namespace shardc::verify
