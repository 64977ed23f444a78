// Directory: verify/kv. Judges the map of a KV cache by numbers: prefill runs
// on one simulated mesh, the cache is copied as the map states, decode runs on
// another mesh, and the result is compared with a model that has one cache.
// Its files include headers of these directories: source, model, plan, dense,
// exec/machine, kv.
//
// This header declares a small model whose layers are of the kinds that a plan
// states. A layer computes, for one head after the other, rows of the cache and
// what a query reads from them. It knows neither devices nor pages: rows are
// read and written by the numbers of the model.
#ifndef SHARDC_VERIFY_KV_MODEL_H_
#define SHARDC_VERIFY_KV_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/machine/random.h"
#include "kv/side.h"
#include "model/dtype.h"

namespace shardc::verify {

using Numbers = std::vector<double>;

// The vectors of consecutive tokens, [count, kHidden].
inline constexpr int64_t kHidden = 8;
struct Hidden {
  int64_t first = 0, count = 0;
  Numbers x;
};

// A row of the cache by the numbers of the model. A state is the row of token
// 0.
struct RowId {
  size_t kind = 0;  // index into TinyModel::kinds()
  int64_t layer = 0, token = 0, head = 0;
  size_t tensor = 0;  // 0: keys or the only tensor, 1: values
};

// Where the rows of a cache are. Numbers are rounded when they are written.
class Rows {
 public:
  virtual ~Rows() = default;
  virtual Numbers Read(const RowId& row) const = 0;
  virtual void Write(const RowId& row, const Numbers& numbers) = 0;
};

// What a query head has read for each token.
struct HeadOutput {
  Numbers out;  // [count, width of a value]
  Numbers lse;  // [count]: the log of the sum of the exponentials; -inf: none
};

class TinyModel {
 public:
  // The kinds of a layer; each is an index into kinds().
  struct Layer {
    int64_t number = 0;
    size_t main = 0;  // full, window, latent or state
    std::optional<size_t> indexer, conv_key, conv_value;
  };
  // The heads that are computed, as ranges of the model's numbers, and whether
  // the rows of a token are here.
  struct Part {
    LayerRange heads, queries;
    std::function<bool(int64_t token)> has;
  };

  // `queries` has, for each kind, the number of query heads of one head.
  TinyModel(std::vector<kv::Kind> kinds, std::vector<int64_t> queries,
            uint64_t seed);

  const std::vector<kv::Kind>& kinds() const { return kinds_; }
  // In ascending order. Layers without a kind that is `main` are left out.
  const std::vector<Layer>& layers() const { return layers_; }
  bool IsState(const Layer& layer) const {
    return kinds_[layer.main].is.kind == KvKindName::kState;
  }
  int64_t Queries(size_t kind) const {
    return kinds_[kind].is.heads * queries_[kind];
  }
  // Returns the widths of the rows of each tensor, and of a value.
  std::vector<int64_t> Widths(size_t kind) const;
  int64_t ValueWidth(size_t kind) const;

  Hidden Embed(int64_t first, int64_t count) const;
  // Writes the rows of the tokens of `in` to `rows`, and returns the outputs of
  // the query heads of `part`, which read only rows of tokens that are here.
  std::vector<HeadOutput> Run(const Layer& layer, const Hidden& in,
                              const Part& part, Rows& rows) const;
  // Adds the output of a query head to the vectors `x`.
  void Project(const Layer& layer, int64_t query, const Numbers& out,
               Numbers& x) const;

 private:
  enum class What : uint8_t { kRow, kSecondRow, kQuery, kOut };

  const Numbers& Matrix(const Layer& layer, size_t kind, What what,
                        int64_t head) const;
  Numbers Times(const Layer& layer, size_t kind, What what, int64_t head,
                const double* x) const;
  void Append(const Layer& layer, size_t kind, const Hidden& in,
              LayerRange heads, const Part& part, Rows& rows) const;
  HeadOutput Attend(const Layer& layer, const Hidden& in, int64_t query,
                    const Part& part, const Rows& rows) const;
  std::vector<HeadOutput> Recur(const Layer& layer, const Hidden& in,
                                const Part& part, Rows& rows) const;
  Numbers Convolved(const Layer& layer, std::optional<size_t> conv,
                    size_t tensor, int64_t head, int64_t token,
                    const Rows& rows) const;

  std::vector<kv::Kind> kinds_;
  std::vector<int64_t> queries_;
  std::vector<Layer> layers_;
  exec::Random random_;
  // Made when they are first read: layer, kind, What, head.
  mutable std::map<std::tuple<int64_t, size_t, What, int64_t>, Numbers>
      matrices_;
};

// Returns the vectors, each divided by the root of the mean of its squares.
Hidden Normalised(const Hidden& in);

// Returns the numbers as a cache of a dtype stores them. Int8 has one scale for
// the row.
Numbers AsStored(Dtype dtype, Numbers row);
// Returns the dtype of a kind of a side.
Dtype DtypeOf(const kv::Kind& kind, const kv::SideSettings& settings);

// The reference: one cache with all rows. Run() returns the vectors after each
// layer.
class DenseServer : public Rows {
 public:
  DenseServer(const TinyModel& model, const kv::SideSettings& settings)
      : model_(model), settings_(settings) {}

  std::vector<Numbers> Run(int64_t first, int64_t count);
  // Hands the cache over to a side with other dtypes.
  void Convert(const kv::SideSettings& settings);
  Numbers Read(const RowId& row) const override;
  void Write(const RowId& row, const Numbers& numbers) override;

 private:
  const TinyModel& model_;
  kv::SideSettings settings_;
  std::map<std::tuple<size_t, int64_t, int64_t, int64_t, size_t>, Numbers>
      rows_;
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_KV_MODEL_H_
