// Computes the keys and values of latent attention.
#ifndef SHARDC_DENSE_LATENT_H_
#define SHARDC_DENSE_LATENT_H_

#include "dense/array.h"

namespace shardc::dense {

// The cached rows of the tokens, and the matrices from which keys and values
// are computed. There are H heads. A row has r latent and p rotated elements. A
// key has `nope` elements that are not rotated, and a value has Dv elements.
struct Latent {
  Array latent;    // [B, S, r]
  Array rope_key;  // [B, S, p]; all heads share it
  Array up_key;    // [H, r, nope]
  Array up_value;  // [H, r, Dv]
};

struct Expanded {
  Array key;    // [B, S, H, nope + p]
  Array value;  // [B, S, H, Dv]
};
// Returns the keys and values. The key of a head is latent . up_key[head],
// followed by the rotated part. The value of a head is latent . up_value[head].
Expanded Expand(const Latent& latent);

// Inputs for the same attention without expanded keys and values. Here q is a
// query, c the latent rows, w the attention weights, and M' the transpose of M.
// The queries are multiplied by up_key' before the attention, and the output is
// multiplied by up_value after it:
//
//   q . (c up_key) = (q up_key') . c,   w . (c up_value) = (w . c) up_value
//
// All heads then read the same row of a token, which needs far fewer operations
// if there are few queries. The caller must set `value_up` of the attention's
// Inputs to up_value.
struct Absorbed {
  Array query;  // [B, T, H, r + p]
  Array key;    // [B, S, 1, r + p]
  Array value;  // [B, S, 1, r]
};
Absorbed Absorb(const Latent& latent,
                const Array& query);  // query: [B, T, H, nope + p]

// Returns the number of multiplications that Expand() needs.
double ExpandingTakes(const Latent& latent);
// Returns whether attention should use Absorb() instead of Expand(): if
// Expand() needs more than 4e9 multiplications, which take seconds, and
// Absorb() needs fewer. `queries` is the number of queries of a head, over all
// batch rows.
bool WorthAbsorbing(const Latent& latent, int64_t queries);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_LATENT_H_
