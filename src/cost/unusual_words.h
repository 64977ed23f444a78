// Finds the roles of weights by words that only one or two families use.
#ifndef SHARDC_COST_UNUSUAL_WORDS_H_
#define SHARDC_COST_UNUSUAL_WORDS_H_

#include "cost/inputs.h"

namespace shardc::cost {

// Sets the role of a weight whose name has a word that only a few families use,
// and sets whether the weight belongs to experts. Classify() must have set
// `param.role` before.
void UseUnusualWord(ParamClass& param, char separator);

// Returns whether a parameter in layers is a matrix without a known role. A
// layer is then assumed to multiply its tokens with this matrix.
bool IsUnnamedMatrix(const ParamClass& param);

}  // namespace shardc::cost

#endif  // SHARDC_COST_UNUSUAL_WORDS_H_
