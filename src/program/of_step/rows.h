// Reads and writes the rows of an array that ids select.
#ifndef SHARDC_PROGRAM_OF_STEP_ROWS_H_
#define SHARDC_PROGRAM_OF_STEP_ROWS_H_

#include <string_view>

#include "program/of_step/step_values.h"

namespace shardc::program {

// A value of the program, and the labels of its dimensions.
struct Labelled {
  ValueId id = 0;
  const Labels& labels;
};

// Returns for each id the row of the array with this index along `rows`. An id
// without a row gives zeros. Labels that the array and the ids share are
// matched.
ValueId GatherRows(StepValues& values, const Labelled& array,
                   const Labelled& ids, LabelId rows, const Labels& out);

// Returns the array after each of `updates` was written to the row of its id
// along `rows` ("set"), or added to it ("add"). Updates whose id has no row are
// left out.
ValueId ScatterRows(StepValues& values, std::string_view fn,
                    const Labelled& array, const Labelled& updates,
                    const Labelled& ids, LabelId rows);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_OF_STEP_ROWS_H_
