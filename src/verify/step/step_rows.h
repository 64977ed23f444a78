// The lines of a step's report: a row for each collective, conflicts, totals,
// and the peak of memory.
#ifndef SHARDC_VERIFY_STEP_STEP_ROWS_H_
#define SHARDC_VERIFY_STEP_STEP_ROWS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "verify/step/step_report.h"

namespace shardc::verify {

// The place of an op: its layer, its phase and its index among the ops of this
// layer and phase. An op has the same place in the graph of all layers and in a
// graph of a few layers.
using OpPlace = std::tuple<int32_t, step::Phase, int32_t>;
std::vector<OpPlace> PlacesOf(const step::Graph& graph);  // indexed by op

// Sets in `out` the rows, conflicts, traffic, notes, peak, flops and the digest
// of the program. If the request names a part, rows, conflicts and traffic are
// limited to this part. Returns, for each row, the index of its op in the
// graph. The index is -1 if the row belongs to no op, but to a reduction at the
// end of the step.
std::vector<int32_t> DescribeProgram(const StepRequest& request,
                                     const LoweredStep& full, StepReport& out);

// Joins consecutive layers with equal rows into one block of rows. The errors
// of the block are the largest errors of these layers.
void FoldLayers(std::vector<StepRow>& rows);

// The prefix of the name of a layer of the encoder, such as "encoder 3".
inline constexpr std::string_view kEncoderPrefix = "encoder ";

// IsLayerPart returns true if a part is a layer, such as "layer 3" or "encoder
// 3". LayerNumber returns the number of this layer.
bool IsLayerPart(std::string_view part);
int LayerNumber(const std::string& part);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STEP_ROWS_H_
