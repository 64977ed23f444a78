// Layers of the small model. A token's vector x is normalised and multiplied by
// random matrices, one for each head and use, and the heads' outputs are added
// to x. The kinds of a layer decide what its rows are:
//
//   full, window  a key and a value; attention over all or the last tokens
//   latent        one row, which all query heads read: the key is the row, and
//                 the value is the row without its rotated part
//   indexer       a key whose product with one query is added to the logits of
//                 the layer's attention. (A server selects the tokens with the
//                 largest products. A wrong key would then have no effect if
//                 its token is not selected.)
//   state         S <- 0.8 S + key x value; a query reads query . S. The three
//                 are sums of the last inputs, which the kinds conv_key and
//                 conv_value keep
//
// The sine of the distance in tokens is added to a logit. Without it, attention
// would be the same if the tokens of a cache were exchanged.
#include "verify/kv/model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "dense/attention.h"
#include "dense/narrow.h"
#include "source/size.h"

namespace shardc::verify {
namespace {

constexpr int64_t kHeadDim = 4, kOtherValue = 3;
constexpr int64_t kLatentRow = 6, kLatentValue = 4;
constexpr int64_t kStateKey = 3, kStateValue = 2;
constexpr double kDecay = 0.8;

dense::Array ArrayOf(std::vector<int64_t> shape, Numbers data) {
  return {std::move(shape), std::move(data)};
}

}  // namespace

TinyModel::TinyModel(std::vector<kv::Kind> kinds, std::vector<int64_t> queries,
                     uint64_t seed)
    : kinds_(std::move(kinds)), queries_(std::move(queries)), random_(seed) {
  std::map<int64_t, Layer> layers;
  std::set<int64_t> run;
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const KvKindName is = kinds_[i].is.kind;
    const bool main = is == KvKindName::kState ||
                      (kinds_[i].IsPaged() && is != KvKindName::kIndexer);
    for (const LayerRange& range : kinds_[i].is.layers) {
      for (int64_t number = range.first; number < range.end; ++number) {
        Layer& layer = layers[number];
        layer.number = number;
        if (main) {
          layer.main = i;
          run.insert(number);
        }
        if (is == KvKindName::kIndexer) layer.indexer = i;
        if (is == KvKindName::kConvKey) layer.conv_key = i;
        if (is == KvKindName::kConvValue) layer.conv_value = i;
      }
    }
  }
  for (const int64_t number : run) layers_.push_back(layers[number]);
}

std::vector<int64_t> TinyModel::Widths(size_t kind) const {
  const int64_t value = kinds_[kind].is.value_dim > 0 ? kOtherValue : kHeadDim;
  switch (kinds_[kind].is.kind) {
    case KvKindName::kLatent:
      return {kLatentRow};
    case KvKindName::kIndexer:
      return {kHeadDim};
    case KvKindName::kState:
      return {kStateKey * kStateValue};
    case KvKindName::kConvKey:
      return {kStateKey, kStateKey};
    case KvKindName::kConvValue:
      return {kStateValue};
    default:
      return {kHeadDim, value};
  }
}

int64_t TinyModel::ValueWidth(size_t kind) const {
  const KvKindName is = kinds_[kind].is.kind;
  if (is == KvKindName::kState) return kStateValue;
  return is == KvKindName::kLatent ? kLatentValue : Widths(kind).back();
}

Hidden TinyModel::Embed(int64_t first, int64_t count) const {
  Hidden out{first, count, {}};
  const exec::Random stream = random_.Split("tokens");
  for (int64_t i = 0; i < count * kHidden; ++i) {
    out.x.push_back(stream.Normal(static_cast<uint64_t>(first * kHidden + i)));
  }
  return out;
}

const Numbers& TinyModel::Matrix(const Layer& layer, size_t kind, What what,
                                 int64_t head) const {
  Numbers& out = matrices_[{layer.number, kind, what, head}];
  if (!out.empty()) return out;
  const std::vector<int64_t> widths = Widths(kind);
  const int64_t width = what == What::kOut         ? ValueWidth(kind)
                        : what == What::kSecondRow ? widths.back()
                                                   : widths.front();
  // The outputs of all heads add up to numbers of about 1.
  const double scale =
      what == What::kOut
          ? 1 / std::sqrt(static_cast<double>(width * Queries(kind)))
          : 1 / std::sqrt(static_cast<double>(kHidden));
  const exec::Random stream = random_.Split(static_cast<uint64_t>(layer.number))
                                  .Split(kind)
                                  .Split(static_cast<uint64_t>(what))
                                  .Split(static_cast<uint64_t>(head));
  for (int64_t i = 0; i < width * kHidden; ++i) {
    out.push_back(scale * stream.Normal(static_cast<uint64_t>(i)));
  }
  return out;
}

Numbers TinyModel::Times(const Layer& layer, size_t kind, What what,
                         int64_t head, const double* x) const {
  const Numbers& matrix = Matrix(layer, kind, what, head);
  Numbers out(matrix.size() / kHidden);
  for (size_t i = 0; i < matrix.size(); ++i) {
    out[i / kHidden] += matrix[i] * x[i % kHidden];
  }
  return out;
}

void TinyModel::Append(const Layer& layer, size_t kind, const Hidden& in,
                       LayerRange heads, const Part& part, Rows& rows) const {
  const std::vector<int64_t> widths = Widths(kind);
  for (int64_t i = 0; i < in.count; ++i) {
    if (!part.has(in.first + i)) continue;
    for (int64_t head = heads.first; head < heads.end; ++head) {
      for (size_t t = 0; t < widths.size(); ++t) {
        const What what = t == 0 ? What::kRow : What::kSecondRow;
        rows.Write({kind, layer.number, in.first + i, head, t},
                   Times(layer, kind, what, head, &in.x[AsIndex(i * kHidden)]));
      }
    }
  }
}

std::vector<HeadOutput> TinyModel::Run(const Layer& layer, const Hidden& in,
                                       const Part& part, Rows& rows) const {
  if (IsState(layer)) return Recur(layer, in, part, rows);
  Append(layer, layer.main, in, part.heads, part, rows);
  if (layer.indexer) Append(layer, *layer.indexer, in, {0, 1}, part, rows);
  std::vector<HeadOutput> out;
  for (int64_t q = part.queries.first; q < part.queries.end; ++q) {
    out.push_back(Attend(layer, in, q, part, rows));
  }
  return out;
}

HeadOutput TinyModel::Attend(const Layer& layer, const Hidden& in,
                             int64_t query, const Part& part,
                             const Rows& rows) const {
  const size_t kind = layer.main;
  const int64_t window = kinds_[kind].is.window;
  const int64_t head = query / queries_[kind];
  const int64_t width = Widths(kind).front(), value = ValueWidth(kind);
  const bool latent = kinds_[kind].is.kind == KvKindName::kLatent;
  std::vector<int64_t> tokens;
  for (int64_t t = window > 0 ? std::max<int64_t>(in.first - window + 1, 0) : 0;
       t < in.first + in.count; ++t) {
    if (part.has(t)) tokens.push_back(t);
  }
  HeadOutput out{Numbers(AsIndex(in.count * value)),
                 Numbers(AsIndex(in.count), -dense::kInfinity)};
  const int64_t keys = std::ssize(tokens);
  if (keys == 0) return out;
  dense::Inputs inputs;
  Numbers q, k, v;
  for (int64_t i = 0; i < in.count; ++i) {
    const Numbers row =
        Times(layer, kind, What::kQuery, query, &in.x[AsIndex(i * kHidden)]);
    q.insert(q.end(), row.begin(), row.end());
    inputs.query_positions.push_back(in.first + i);
  }
  for (const int64_t token : tokens) {
    const Numbers key = rows.Read({kind, layer.number, token, head, 0});
    const Numbers other =
        latent ? key : rows.Read({kind, layer.number, token, head, 1});
    k.insert(k.end(), key.begin(), key.end());
    v.insert(v.end(), other.begin(), other.begin() + value);
  }
  inputs.query = ArrayOf({1, in.count, 1, width}, std::move(q));
  inputs.key = ArrayOf({1, keys, 1, width}, std::move(k));
  inputs.value = ArrayOf({1, keys, 1, value}, std::move(v));
  inputs.key_positions = tokens;
  inputs.key_lengths = {in.first + in.count};
  inputs.bias = dense::Array::Zeros({1, 1, in.count, keys});
  for (int64_t j = 0; j < keys; ++j) {
    const int64_t token = tokens[AsIndex(j)];
    const Numbers index_key =
        layer.indexer ? rows.Read({*layer.indexer, layer.number, token, 0, 0})
                      : Numbers();
    for (int64_t i = 0; i < in.count; ++i) {
      double& bias = inputs.bias.At(0, 0, i, j);
      bias = std::sin(static_cast<double>(in.first + i - token));
      if (!layer.indexer) continue;
      const Numbers row = Times(layer, *layer.indexer, What::kQuery, 0,
                                &in.x[AsIndex(i * kHidden)]);
      for (size_t d = 0; d < row.size(); ++d) bias += row[d] * index_key[d];
    }
  }
  dense::Options options;
  options.causal = true;
  if (window > 0) options.left = window - 1;
  std::string why;
  const auto result = dense::Attention(inputs, options, why);
  if (!result) return out;
  return {result->output.data, result->lse.data};
}

Numbers TinyModel::Convolved(const Layer& layer, std::optional<size_t> conv,
                             size_t tensor, int64_t head, int64_t token,
                             const Rows& rows) const {
  Numbers out(AsIndex(Widths(*conv)[tensor]));
  for (int64_t back = 0; back <= std::min(kinds_[*conv].is.window, token);
       ++back) {
    const Numbers row =
        rows.Read({*conv, layer.number, token - back, head, tensor});
    for (size_t d = 0; d < row.size(); ++d) {
      out[d] += row[d] / static_cast<double>(1 + back);
    }
  }
  return out;
}

std::vector<HeadOutput> TinyModel::Recur(const Layer& layer, const Hidden& in,
                                         const Part& part, Rows& rows) const {
  const int64_t values = kinds_[layer.main].is.heads;
  const int64_t keys = kinds_[*layer.conv_key].is.heads;
  std::vector<HeadOutput> out(AsIndex(part.heads.count()));
  for (int64_t i = 0; i < in.count; ++i) {
    const int64_t token = in.first + i;
    const Hidden one{
        token, 1,
        Numbers(in.x.begin() + i * kHidden, in.x.begin() + (i + 1) * kHidden)};
    Append(layer, *layer.conv_key, one,
           {part.heads.first * keys / values, part.heads.end * keys / values},
           part, rows);
    Append(layer, *layer.conv_value, one, part.heads, part, rows);
    for (int64_t head = part.heads.first; head < part.heads.end; ++head) {
      const int64_t key_head = head * keys / values;
      const Numbers q =
          Convolved(layer, layer.conv_key, 0, key_head, token, rows);
      const Numbers k =
          Convolved(layer, layer.conv_key, 1, key_head, token, rows);
      const Numbers v =
          Convolved(layer, layer.conv_value, 0, head, token, rows);
      const RowId at{layer.main, layer.number, 0, head, 0};
      Numbers state = token == 0 ? Numbers(k.size() * v.size()) : rows.Read(at);
      for (size_t d = 0; d < state.size(); ++d) {
        state[d] = kDecay * state[d] + k[d / v.size()] * v[d % v.size()];
      }
      rows.Write(at, state);
      state = rows.Read(at);
      HeadOutput& to = out[AsIndex(head - part.heads.first)];
      const size_t begin = to.out.size();
      to.out.resize(begin + v.size());
      to.lse.push_back(0);
      for (size_t d = 0; d < state.size(); ++d) {
        to.out[begin + d % v.size()] += q[d / v.size()] * state[d];
      }
    }
  }
  return out;
}

void TinyModel::Project(const Layer& layer, int64_t query, const Numbers& out,
                        Numbers& x) const {
  const Numbers& matrix = Matrix(layer, layer.main, What::kOut, query);
  const auto width = AsIndex(ValueWidth(layer.main));
  for (size_t i = 0; i < out.size(); ++i) {
    for (size_t d = 0; d < kHidden; ++d) {
      x[i / width * kHidden + d] += out[i] * matrix[i % width * kHidden + d];
    }
  }
}

Hidden Normalised(const Hidden& in) {
  Hidden out = in;
  for (size_t begin = 0; begin < in.x.size(); begin += kHidden) {
    double squares = 0;
    for (size_t d = 0; d < kHidden; ++d) {
      squares += in.x[begin + d] * in.x[begin + d];
    }
    for (size_t d = 0; d < kHidden; ++d) {
      out.x[begin + d] /= std::sqrt(squares / kHidden);
    }
  }
  return out;
}

Numbers AsStored(Dtype dtype, Numbers row) {
  if (dtype == Dtype::kI8) {
    std::vector<float> floats(row.begin(), row.end());
    dense::StoreInt8(floats);
    return {floats.begin(), floats.end()};
  }
  for (double& x : row) x = dense::Nearest(dtype, x);
  return row;
}

Dtype DtypeOf(const kv::Kind& kind, const kv::SideSettings& settings) {
  if (kind.IsPaged()) return settings.dtype;
  return kind.is.kind == KvKindName::kState ? settings.state_dtype
                                            : settings.conv_dtype;
}

std::vector<Numbers> DenseServer::Run(int64_t first, int64_t count) {
  Hidden x = model_.Embed(first, count);
  std::vector<Numbers> out;
  for (const TinyModel::Layer& layer : model_.layers()) {
    const TinyModel::Part all{{0, model_.kinds()[layer.main].is.heads},
                              {0, model_.Queries(layer.main)},
                              [](int64_t /*token*/) { return true; }};
    const auto heads = model_.Run(layer, Normalised(x), all, *this);
    for (size_t i = 0; i < heads.size(); ++i) {
      model_.Project(layer, static_cast<int64_t>(i), heads[i].out, x.x);
    }
    out.push_back(x.x);
  }
  return out;
}

void DenseServer::Convert(const kv::SideSettings& settings) {
  for (auto& [at, row] : rows_) {
    const kv::Kind& kind = model_.kinds()[std::get<0>(at)];
    const Dtype to = DtypeOf(kind, settings);
    if (to != DtypeOf(kind, settings_)) row = AsStored(to, std::move(row));
  }
  settings_ = settings;
}

Numbers DenseServer::Read(const RowId& row) const {
  return rows_.at({row.kind, row.layer, row.token, row.head, row.tensor});
}

void DenseServer::Write(const RowId& row, const Numbers& numbers) {
  rows_[{row.kind, row.layer, row.token, row.head, row.tensor}] =
      AsStored(DtypeOf(model_.kinds()[row.kind], settings_), numbers);
}

}  // namespace shardc::verify
