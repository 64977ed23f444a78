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

// Identifies an op by its layer, its phase and its index among their ops. An op
// has the same place in the graph of all layers and in that of a few.
using OpPlace = std::tuple<int32_t, step::Phase, int32_t>;
std::vector<OpPlace> PlacesOf(const step::Graph& graph);  // by op

// Fills rows, conflicts, traffic, notes, the peak and the digest of the
// program, of the request's part if it names one. Returns the op of each row,
// or -1 for what is reduced at the step's end.
std::vector<int32_t> DescribeProgram(const StepRequest& request,
                                     const LoweredStep& full, StepReport& out);

// Joins consecutive layers that have the same rows into one block of rows,
// which takes the largest error of its layers.
void FoldLayers(std::vector<StepRow>& rows);

// How the part of a layer of the encoder begins: "encoder 3".
inline constexpr std::string_view kEncoderPrefix = "encoder ";

// Whether a part is a layer, "layer 3" or "encoder 3", and its number.
bool IsLayerPart(std::string_view part);
int LayerNumber(const std::string& part);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STEP_ROWS_H_
