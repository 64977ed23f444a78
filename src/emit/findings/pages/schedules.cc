// Pages of schedules of pipelines, which stand between those of lints.
//
//   SHD248: `interleaved` with 13 micro-batches on 4 ranks
#include <array>

#include "emit/findings/pages/page.h"
#include "source/stage_code.h"

namespace shardc {

std::span<const CodePage> SchedulePages() {
  static constexpr std::array kPages = {
      CodePage{
          .code = &code::kScheduleRefuses,
          .what = "Finds a schedule that is not defined for the numbers of "
                  "ranks, of virtual stages and of micro-batches that were "
                  "given. Interleaved schedules run the micro-batches in "
                  "rounds, which must divide them; zbv and dualpipev place "
                  "exactly two stages on a rank; dualpipe needs an even number "
                  "of ranks and of micro-batches.",
          .why = "With other numbers a rank would wait for a task that comes "
                 "later in its own row, or tasks would be left over.",
          .fix = "Take a number of micro-batches that the schedule accepts, "
                 "which the message names, or another schedule.",
          .bad = R"($ shardc schedule interleaved --ranks 4 --microbatches 13
)",
          .good = R"($ shardc schedule interleaved --ranks 4 --microbatches 12
)"},
      CodePage{
          .code = &code::kScheduleUnsafe,
          .what = "Finds a file of a schedule in which a task is missing or "
                  "runs twice, runs before what it reads, runs on a rank "
                  "that does not have its stage, or in which ranks wait for "
                  "each other.",
          .why = "The step would never end, or would end with gradients that "
                 "are wrong. Runtimes detect only some of these mistakes: a "
                 "task that runs twice passes unseen.",
          .fix = "Move, add or remove the task that the message names, or let "
                 "`shardc schedule NAME --csv` write the file.",
          .bad = R"(--- two.csv
0F0,0F1,0B1,0B0
1F0,1B0,1B1,1F1
$ shardc schedule two.csv
)",
          .good = R"(--- two.csv
0F0,0F1,0B0,0B1
1F0,1B0,1F1,1B1
$ shardc schedule two.csv
)"},
  };
  return kPages;
}

}  // namespace shardc
