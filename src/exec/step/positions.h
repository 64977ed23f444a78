// The numbers with which a step's ops depend on the positions of tokens.
#ifndef SHARDC_EXEC_STEP_POSITIONS_H_
#define SHARDC_EXEC_STEP_POSITIONS_H_

#include <cstdint>

#include "exec/attention/rotary.h"
#include "model/step_graph.h"

namespace shardc::exec {

// Returns the rotary frequencies of a head of `size` elements, for sequences of
// up to `tokens` tokens.
RopeFrequencies RopeTable(const step::Rope& rope, int64_t size, int64_t tokens);

// Returns the ALiBi slope of a head: the number by which a score falls for each
// token between key and query.
//
// If the number n of heads is a power of two, the slopes are 2^(-8/n),
// 2^(-16/n) and so on. Otherwise let m be the largest power of two below n. The
// first m heads have the slopes of a model with m heads. The remaining heads
// have the first, third, fifth and so on of the slopes of a model with 2m
// heads.
double AlibiSlope(int64_t heads, int64_t head);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_POSITIONS_H_
