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

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_LATENT_H_
