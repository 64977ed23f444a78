// Keys and values of latent attention.
#ifndef SHARDC_DENSE_LATENT_H_
#define SHARDC_DENSE_LATENT_H_

#include "dense/array.h"

namespace shardc::dense {

// What a token keeps, and what makes keys and values of it: r latent dims and
// p rotated ones, H heads.
struct Latent {
  Array latent;    // [B, S, r]
  Array rope_key;  // [B, S, p], of all heads
  Array up_key;    // [H, r, nope]
  Array up_value;  // [H, r, Dv]
};

struct Expanded {
  Array key;    // [B, S, H, nope + p]
  Array value;  // [B, S, H, Dv]
};
// A head's key is its up_key of the latent and then the rotated part, its value
// is its up_value of the latent.
Expanded Expand(const Latent& latent);

// The same attention with the matrices on the other side of the products:
//   q . (c up_key) = (q up_key') . c,   w . (c up_value) = (w . c) up_value
// so that one row a token stands for all heads. For few queries that is far
// less to compute; `value_up` of attention.h's Inputs is then up_value.
struct Absorbed {
  Array query;  // [B, T, H, r + p]
  Array key;    // [B, S, 1, r + p]
  Array value;  // [B, S, 1, r]
};
Absorbed Absorb(const Latent& latent, const Array& query);  // [B, T, H, D]

// Multiplications of Expand.
double ExpandingTakes(const Latent& latent);
// Whether to absorb: expanding takes seconds, and absorbing less, attention
// of all `queries` (of a head, over all rows) included.
bool WorthAbsorbing(const Latent& latent, int64_t queries);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_LATENT_H_
