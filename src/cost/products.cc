// Lists the matrix products of a plan: one for each weight, with its sizes on a
// device:
//
//   up [4096, 14336] with 14336 over tp 8, 32 layers, 16,384 tokens:
//   rows 16,384, in 4,096, out 1,792, layers 32
#include "cost/products.h"

#include <algorithm>

namespace shardc::cost {
namespace {

// Sets the rows and matrices of an expert's product. The number of parts of the
// experts divides the rows of a device, unless an axis of the experts also
// shards tokens: devices along such an axis have different tokens.
void UseExperts(const CostInputs& work, const ParamClass& param,
                Product& product) {
  product.rows *=
      Real(work.model ? work.model->experts_per_token.value_or(1) : 1);
  AxisGroup owners;
  const int rank = static_cast<int>(param.type.shape->size());
  for (int d = 0; d + 2 < rank; ++d) {
    for (const std::string& axis : work.Kept(param.AxesAt(d))) {
      owners.push_back(axis);
    }
  }
  if (!param.placed_along.empty()) owners.push_back(param.placed_along);
  product.matrices = std::max(1.0, Real(Times(param.count, param.Matrices())) /
                                       std::max(product.layers, 1.0) /
                                       Real(work.Parts(owners)));
  const AxisGroup split = work.TokenAxes();
  std::erase_if(owners, [&](const std::string& axis) {
    return std::find(split.begin(), split.end(), axis) != split.end();
  });
  product.rows /= Real(work.Parts(owners));
}

}  // namespace

std::vector<Product> ProductsOf(const CostInputs& work, const Tokens& tokens) {
  std::vector<Product> out;
  const double all = Real(tokens.All());
  // Serving computes the logits of the last token only.
  const double ends = work.mode == Mode::kTrain ? all : Real(tokens.rows);
  const auto share = [&](const ParamClass& param, int dim) {
    return Real(param.SizeAt(dim)) /
           Real(work.Parts(work.Kept(param.AxesAt(dim))));
  };
  for (const ParamClass& param : work.params) {
    if (!param.IsWeight()) continue;
    Product one;
    one.role = param.role.module_role;
    one.expert = param.role.expert;
    one.rows = !one.expert && one.role == Role::kHead ? ends : all;
    one.in = share(param, param.in_dim);
    one.out = share(param, param.out_dim);
    one.layers = Real(work.LayersOf(param));
    if (one.expert) UseExperts(work, param, one);
    out.push_back(one);
  }
  const ParamClass* table = work.Find(Role::kEmbedding);
  if (work.Find(Role::kHead) == nullptr && table != nullptr &&
      table->type.shape->size() == 2) {
    out.push_back({.role = Role::kHead,
                   .rows = ends,
                   .in = share(*table, 1),
                   .out = share(*table, 0)});
  }
  return out;
}

double AttentionFlops(const CostInputs& work, const Tokens& tokens) {
  const auto& model = work.model;
  if (!model || !model->heads || !model->head_dim || !model->layers) return 0;
  const double layers = Real(model->attention_layers.value_or(*model->layers));
  const double windowed =
      model->sliding_window ? Real(model->windowed_layers.value_or(0)) : 0;
  const double heads = Real(*model->heads) / Real(work.Parts(work.query[2]));
  // With causal attention, a query sees half of the keys on average.
  const double seen = IsGeneration(work.mode) ? 1 : 0.5;
  const double keys = Real(tokens.keys);
  const double window =
      std::min(keys * seen, Real(model->sliding_window.value_or(tokens.keys)));
  const double all = (layers - windowed) * keys * seen + windowed * window;
  double parts = 1;
  if (IsGeneration(work.mode)) parts = Real(work.Parts(work.key[1]));
  return 4 * Real(tokens.All()) * heads * Real(*model->head_dim) * all / parts;
}

}  // namespace shardc::cost
